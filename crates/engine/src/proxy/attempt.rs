//! Asking servers until one answers.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use sluice_conn::{OriginChannel, Reuse, Upstream};
use sluice_message::{Fault, FaultKind, Retry, Syntax};
use sluice_net::{Nanos, now};
use sluice_upstream::{Breaker, Call, Cluster, Demand, Pass, Server, Visit};
use sluice_wire::h1::Upgrade;

use super::Halves;
use super::tries::{Tries, is_stale};
use super::tunnel;
use super::upload::{Upload, Waiting};
use crate::exchange::{Exchange, Stop};
use crate::patience::{Patience, end_after};

/// Interim answers passed on per request; an origin that sends more is broken.
pub(super) const INTERIMS: u32 = 64;

/// Nobody is there to be asked.
pub(super) const NO_SERVER: Fault = Fault::upstream(FaultKind::NoServer, Retry::Never);

impl Exchange<'_, '_> {
    /// Asks servers until one answers, as often as the retry policy allows.
    pub(super) async fn obtain_answer(
        &mut self,
        cluster: &Rc<Cluster>,
        upgrade: Upgrade,
        upload: &mut Upload,
        (receiver, sender): Halves<'_>,
    ) -> Result<OriginChannel, Stop> {
        let policy = &cluster.settings().retry;
        cluster.on_request();
        let mut server = self.choose(cluster, &[]).ok_or(NO_SERVER)?;
        let mut reuse = Reuse::Reused;
        let mut repeated = false;
        let mut tries = Tries::new(policy.attempts);
        let hedge = self.hedge_rule(cluster, upgrade);
        loop {
            let visit = match cluster.is_limited() {
                false => Visit::new(cluster, &server),
                true => Box::pin(self.enter(cluster, &mut server, &tries)).await?,
            };
            self.upstream.server = Some(visit);
            self.upstream.attempts += 1;
            let halves = (&mut *receiver, &mut *sender);
            let tried = match hedge {
                None => {
                    let place = (&**cluster, &*server);
                    self.try_server(place, (&mut reuse, upgrade), upload, halves).await
                }
                Some(rule) => {
                    let race = self.race((cluster, rule), &server, &mut tries, halves);
                    let won = Box::pin(race).await;
                    if let Some(visit) = &self.upstream.server {
                        server = Rc::clone(visit);
                    }
                    reuse = Reuse::Fresh;
                    upload.finish();
                    won
                }
            };
            match tried {
                Ok(channel) => {
                    if !self.is_refused(cluster, upload) {
                        return Ok(channel);
                    }
                    tries.note(&server);
                    tries.note_answer(&server, self.response);
                    let Some(next) = self.next_server(cluster, &mut tries) else {
                        return Ok(channel);
                    };
                    let halves = (&mut *receiver, &mut *sender);
                    self.drop_answer((cluster, &server), channel, upload, halves);
                    if self.call.is_some() {
                        Box::pin(self.note_refused_call(cluster, &server)).await?;
                    }
                    server = next;
                }
                Err(stop) => {
                    let stop = self.overdue(stop);
                    cluster.on_failure(&server, stop.fault);
                    // A kept connection that the origin had closed says nothing about the origin. Once:
                    // a connection that other requests share may be lost again and again.
                    let stale = !repeated && is_stale(stop.fault, reuse);
                    if !stale {
                        cluster.on_blame(&server, stop.fault);
                    }
                    if !self.may_repeat(cluster, stop.fault.retry, upload) {
                        return Err(stop);
                    }
                    if stale {
                        // The same server is asked again, over a connection that was not kept.
                        repeated = true;
                        reuse = Reuse::Fresh;
                        cluster.meter().retries.increment();
                        continue;
                    }
                    if !policy.on.covers(stop.fault) {
                        return Err(stop);
                    }
                    tries.note(&server);
                    server = self.next_server(cluster, &mut tries).ok_or(stop)?;
                }
            }
            reuse = Reuse::Reused;
            repeated = false;
        }
    }

    /// One try: a connection, the request on it, the head of the answer. `reuse` is what kind of
    /// connection is wanted, and then what it was.
    pub(super) async fn try_server(
        &mut self,
        (cluster, server): (&Cluster, &Server),
        (reuse, upgrade): (&mut Reuse, Upgrade),
        upload: &mut Upload,
        halves: Halves<'_>,
    ) -> Result<OriginChannel, Stop> {
        self.pass_deadline_on()?;
        let limit = self.within_call(cluster.settings().retry.try_timeout);
        let end = end_after(limit);
        if cluster.has_breaker() {
            // That of the try before is given back first.
            self.upstream.connection = Pass::default();
            self.upstream.connection = cluster.admit(Breaker::Connections)?;
        }
        let demand = demand(upgrade);
        let kept = if *reuse == Reuse::Reused { cluster.take_idle(server, demand) } else { None };
        let mut upstream = match kept {
            Some(channel) => {
                cluster.meter().reuses.increment();
                Upstream::new(channel, halves, Reuse::Reused)
            }
            None => {
                *reuse = Reuse::Fresh;
                let header = self.announce(server.proxy_protocol());
                let call = Call { demand, header: &header, deadline: self.downstream.deadline };
                let (channel, joined) = connect((cluster, server), call, limit).await?;
                *reuse = joined;
                Upstream::new(channel, halves, joined)
            }
        };
        let upgrade = match (&upstream.channel, upgrade) {
            (OriginChannel::Shared(stream), Upgrade::Yes) => tunnel::ask(self.request, stream)?,
            _ => upgrade,
        };
        cluster.meter().requests.increment();
        server.meter().requests.increment();
        upstream.send_head(self.request, upgrade);
        upload.restart(self.request);
        let begun = now();
        let answered = self.await_answer((cluster, end), &mut upstream, upload).await;
        *reuse = upstream.reuse();
        answered?;
        if upgrade == Upgrade::Yes
            && let OriginChannel::Shared(_) = upstream.channel
        {
            tunnel::translate(self.request, self.response)?;
        }
        let nanos = now().saturating_sub(begun);
        self.upstream.nanos = Some(nanos);
        cluster.on_response(server, self.response.status, nanos);
        Ok(upstream.channel)
    }

    /// Sends the request and waits for a final head, until `end` at most; interim ones are passed on.
    pub(super) async fn await_answer(
        &mut self,
        (cluster, mut end): (&Cluster, Nanos),
        upstream: &mut Upstream<'_>,
        upload: &mut Upload,
    ) -> Result<(), Stop> {
        let settings = cluster.settings();
        let crowd = &self.worker.crowd;
        let last = self.end_of_call();
        for _ in 0..INTERIMS {
            let mut patience = Patience::until(end);
            let method = self.request.method;
            let (downstream, response) = (&mut *self.downstream, &mut *self.response);
            poll_fn(|cx| {
                let waiting = upload.poll(cx, downstream, upstream)?;
                if let Poll::Ready(arrival) = upstream.poll_head(cx, method, response) {
                    return Poll::Ready(arrival.map_err(|fault| upload.blame(fault)));
                }
                // Interim answers wait in the output.
                if downstream.sender.waiting() > 0 {
                    let flushed = downstream.sender.poll_flush(downstream.channel, cx);
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
                if waiting == Waiting::Client {
                    patience.restart(settings.retry.try_timeout, last);
                }
                let position = upload.position(downstream, upstream);
                let limit = waiting.limit(settings, downstream);
                let late = patience.poll(cx, downstream.deadline, (position, limit));
                late.map(|()| Err(waiting.fault(upstream)))
            })
            .await?;
            end = patience.end();
            if !self.response.is_interim() {
                return Ok(());
            }
            self.downstream.send_interim(self.response);
        }
        Err(Fault::upstream(FaultKind::Malformed(Syntax::StatusLine), Retry::Never).into())
    }
}

/// What a request needs of a connection.
pub(super) const fn demand(upgrade: Upgrade) -> Demand {
    match upgrade {
        Upgrade::No => Demand::Any,
        Upgrade::Yes => Demand::Pipe,
    }
}

/// Opens a connection, within what the try may take, or joins one that others use.
pub(super) async fn connect(
    (cluster, server): (&Cluster, &Server),
    call: Call<'_>,
    limit: Option<Duration>,
) -> Result<(OriginChannel, Reuse), Fault> {
    let _pending = cluster.admit(Breaker::Pending)?;
    let settings = cluster.settings();
    let limit = limit.map_or(settings.connect_timeout, |all| all.min(settings.connect_timeout));
    match server.connect(call, limit, settings.idle_connections).await {
        Ok((channel, reuse)) => {
            match reuse {
                Reuse::Fresh => cluster.meter().connects.increment(),
                Reuse::Reused => cluster.meter().reuses.increment(),
            }
            Ok((channel, reuse))
        }
        Err(fault) => {
            cluster.meter().connect_failures.increment();
            Err(fault)
        }
    }
}
