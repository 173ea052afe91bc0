//! Asking servers until one answers.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use sluice_conn::{Reuse, Upstream};
use sluice_message::{Fault, FaultKind, Retry, Syntax};
use sluice_net::{Stream, now};
use sluice_upstream::{Ask, Cluster, Server, Visit};
use sluice_wire::h1::Upgrade;

use super::Halves;
use super::patience::Patience;
use super::upload::Upload;
use crate::exchange::{Exchange, Stop};

/// Interim answers passed on per request; an origin that sends more is broken.
const INTERIMS: u32 = 64;

impl Exchange<'_, '_> {
    /// Asks servers until one answers, as often as the retry policy allows.
    pub(super) async fn obtain_answer(
        &mut self,
        cluster: &Rc<Cluster>,
        upgrade: Upgrade,
        upload: &mut Upload,
        (receiver, sender): Halves<'_>,
    ) -> Result<Stream, Stop> {
        let no_server = Fault::upstream(FaultKind::NoServer, Retry::Never);
        let mut server = self.choose(cluster, &[]).ok_or(no_server)?;
        let mut reuse = Reuse::Reused;
        let mut retries = cluster.settings().retry.attempts;
        let mut failed = Vec::new();
        loop {
            self.upstream.server = Some(Visit::new(cluster, &server));
            self.upstream.attempts += 1;
            let halves = (&mut *receiver, &mut *sender);
            let tried = self.try_server((cluster, &server), (reuse, upgrade), upload, halves);
            let fault = match tried.await {
                Ok(stream) => return Ok(stream),
                Err(stop) => stop,
            };
            cluster.on_failure(&server, fault.fault);
            if !self.may_retry(fault.fault, upload) {
                return Err(fault);
            }
            if fault.fault.retry == Retry::IfIdempotent && reuse == Reuse::Reused {
                // A kept connection that the origin had closed says nothing about the origin: the
                // same server is asked again, over a connection that is certainly open.
                reuse = Reuse::Fresh;
            } else if retries > 0 {
                retries -= 1;
                failed.push(server);
                server = self.choose(cluster, &failed).ok_or(no_server)?;
                reuse = Reuse::Reused;
            } else {
                return Err(fault);
            }
            cluster.meter().retries.increment();
        }
    }

    /// The server to ask; another one than those of `avoid`, if there is another.
    pub(super) fn choose(&self, cluster: &Cluster, avoid: &[Rc<Server>]) -> Option<Rc<Server>> {
        cluster.choose(&Ask { head: self.request, client: self.client, avoid }).map(Rc::clone)
    }

    /// A request may be repeated if the fault says so and none of its content is gone.
    pub(super) fn may_retry(&self, fault: Fault, upload: &Upload) -> bool {
        let allowed = match fault.retry {
            Retry::Never => false,
            Retry::IfIdempotent => self.request.method.is_idempotent(),
            Retry::Always => true,
        };
        allowed && !upload.has_begun()
    }

    /// One try: a connection, the request on it, the head of the answer.
    pub(super) async fn try_server(
        &mut self,
        (cluster, server): (&Cluster, &Server),
        (reuse, upgrade): (Reuse, Upgrade),
        upload: &mut Upload,
        halves: Halves<'_>,
    ) -> Result<Stream, Stop> {
        let kept = if reuse == Reuse::Reused { cluster.take_idle(server) } else { None };
        let mut upstream = match kept {
            Some(stream) => {
                cluster.meter().reuses.increment();
                Upstream::new(stream, halves, Reuse::Reused)
            }
            None => Upstream::new(self.connect(cluster, server).await?, halves, Reuse::Fresh),
        };
        cluster.meter().requests.increment();
        server.meter().requests.increment();
        upstream.send_head(self.request, upgrade);
        upload.restart(self.request);
        let begun = now();
        self.await_answer(cluster, &mut upstream, upload).await?;
        let nanos = now().saturating_sub(begun);
        self.upstream.nanos = Some(nanos);
        cluster.on_response(server, self.response.status, nanos);
        Ok(upstream.stream)
    }

    pub(super) async fn connect(
        &self,
        cluster: &Cluster,
        server: &Server,
    ) -> Result<Stream, Fault> {
        let limit = cluster.settings().connect_timeout;
        match server.connect(self.downstream.deadline, limit).await {
            Ok(stream) => {
                cluster.meter().connects.increment();
                Ok(stream)
            }
            Err(fault) => {
                cluster.meter().connect_failures.increment();
                Err(fault)
            }
        }
    }

    /// Sends the request and waits for a final head; interim ones are passed on.
    pub(super) async fn await_answer(
        &mut self,
        cluster: &Cluster,
        upstream: &mut Upstream<'_>,
        upload: &mut Upload,
    ) -> Result<(), Stop> {
        let settings = cluster.settings();
        let crowd = &self.worker.crowd;
        for _ in 0..INTERIMS {
            let mut patience = Patience::new();
            let method = self.request.method;
            let (downstream, response) = (&mut *self.downstream, &mut *self.response);
            poll_fn(|cx| {
                let waiting = upload.poll(cx, downstream, upstream)?;
                if let Poll::Ready(arrival) = upstream.poll_head(cx, method, response) {
                    return Poll::Ready(arrival.map_err(|fault| upload.blame(fault)));
                }
                // Interim answers wait in the output.
                if downstream.sender.waiting() > 0 {
                    let flushed = downstream.sender.poll_flush(downstream.stream, cx);
                    if let Poll::Ready(Err(kind)) = flushed {
                        return Poll::Ready(Err(Fault::downstream(kind)));
                    }
                }
                if upload.is_done()
                    && let Poll::Ready(gone) = downstream.poll_gone(cx)
                {
                    return Poll::Ready(Err(gone));
                }
                if crowd.is_large() {
                    downstream.rest();
                    upstream.sender.rest();
                }
                let position = upload.position(downstream, upstream);
                let (limit, fault) = waiting.limit(settings, downstream);
                patience.poll(cx, downstream, (position, limit)).map(|()| Err(fault))
            })
            .await?;
            if !self.response.is_interim() {
                return Ok(());
            }
            self.downstream.send_interim(self.response);
        }
        Err(Fault::upstream(FaultKind::Malformed(Syntax::StatusLine), Retry::Never).into())
    }
}
