//! Passing a request to an origin and its answer back.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use sluice_conn::{Downstream, Receiver, Relay, RelayFault, Reuse, Sender, Upstream, tunnel};
use sluice_message::{
    BodyLength, Fault, FaultKind, FieldId, Persistence, RequestHead, Retry, Syntax, Version,
};
use sluice_net::{Nanos, Stream, now};
use sluice_upstream::{Cluster, Server};
use sluice_wire::h1::Upgrade;

use crate::exchange::{After, AnswerProgress, Exchange, Stop, exhausted};
use crate::forward::{continue_introduction, set_host};

/// Interim answers passed on per request; an origin that sends more is broken.
const INTERIMS: u32 = 64;

/// Receiving and sending half of a connection to an origin, lent for one exchange.
pub(crate) type Halves<'h> = (&'h mut Receiver, &'h mut Sender);

impl Exchange<'_, '_> {
    /// Passes the request to the cluster and its answer back.
    pub(crate) async fn proxy(
        &mut self,
        cluster: &Rc<Cluster>,
        body_limit: u64,
        (receiver, sender): Halves<'_>,
    ) -> Result<After, Stop> {
        self.upstream.cluster = Some(Rc::clone(cluster));
        let upgrade = self.prepare(cluster)?;
        let mut upload = Upload::new(self.request, body_limit);
        let halves = (&mut *receiver, &mut *sender);
        let stream = self.obtain_answer(cluster, upgrade, &mut upload, halves).await?;
        let mut upstream = Upstream::resume(stream, (receiver, sender), Reuse::Reused);
        let switched = self.response.status == 101;
        let relayed = if switched {
            self.switch_protocols(cluster, upgrade, &mut upstream).await
        } else {
            self.relay_answer(cluster, &mut upstream, &mut upload).await
        };
        // Also what went through a tunnel or an answer that broke off.
        let count = cluster.meter();
        count.received_bytes.add(upstream.receiver.received());
        count.sent_bytes.add(upstream.sender.sent());
        let after = relayed?;
        if !switched
            && upload.is_done()
            && let Some(server) = &self.upstream.server
            && let Some(stream) = upstream.into_idle(self.response)
        {
            cluster.keep(server, stream);
        }
        Ok(after)
    }

    /// Makes the head what the origin is to see.
    fn prepare(&mut self, cluster: &Cluster) -> Result<Upgrade, Fault> {
        let upgrade = wants_upgrade(self.request);
        let trusted = &self.scope.view.snapshot.trusted_proxies;
        let peer = self.connection.peer;
        let introduced = if !trusted.is_empty() && trusted.contains(peer) {
            continue_introduction(self.request, peer)
        } else {
            self.connection.introduce(self.request)
        };
        introduced.map_err(|_| exhausted())?;
        set_host(self.request, cluster.settings().host.as_deref()).map_err(|_| exhausted())?;
        Ok(upgrade)
    }

    /// Asks servers until one answers, as often as the retry policy allows.
    async fn obtain_answer(
        &mut self,
        cluster: &Rc<Cluster>,
        upgrade: Upgrade,
        upload: &mut Upload,
        (receiver, sender): Halves<'_>,
    ) -> Result<Stream, Stop> {
        let no_server = Fault::upstream(FaultKind::NoServer, Retry::Never);
        let mut server = Rc::clone(cluster.next_server().ok_or(no_server)?);
        let mut reuse = Reuse::Reused;
        let mut retries = cluster.settings().retries;
        loop {
            self.upstream.server = Some(Rc::clone(&server));
            self.upstream.attempts += 1;
            let halves = (&mut *receiver, &mut *sender);
            let tried = self.try_server((cluster, &server), (reuse, upgrade), upload, halves);
            let fault = match tried.await {
                Ok(stream) => return Ok(stream),
                Err(stop) => stop,
            };
            cluster.meter().on_failure(fault.fault.kind);
            server.meter().failures.increment();
            if !self.may_retry(fault.fault, upload) {
                return Err(fault);
            }
            if fault.fault.retry == Retry::IfIdempotent && reuse == Reuse::Reused {
                // A kept connection that the origin had closed says nothing about the origin: the
                // same server is asked again, over a connection that is certainly open.
                reuse = Reuse::Fresh;
            } else if retries > 0 {
                retries -= 1;
                server = Rc::clone(cluster.next_server().ok_or(no_server)?);
                reuse = Reuse::Reused;
            } else {
                return Err(fault);
            }
            cluster.meter().retries.increment();
        }
    }

    /// A request may be repeated if the fault says so and none of its content is gone.
    fn may_retry(&self, fault: Fault, upload: &Upload) -> bool {
        let allowed = match fault.retry {
            Retry::Never => false,
            Retry::IfIdempotent => self.request.method.is_idempotent(),
            Retry::Always => true,
        };
        allowed && !upload.begun
    }

    /// One try: a connection, the request on it, the head of the answer.
    async fn try_server(
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
        let _active = Active::new(cluster, server);
        upstream.send_head(self.request, upgrade);
        upload.restart(self.request);
        let begun = now();
        self.await_answer(cluster, &mut upstream, upload).await?;
        let nanos = now().saturating_sub(begun);
        self.upstream.nanos = Some(nanos);
        cluster.meter().on_response(self.response.status, nanos);
        Ok(upstream.stream)
    }

    async fn connect(&self, cluster: &Cluster, server: &Server) -> Result<Stream, Fault> {
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
    async fn await_answer(
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

    /// Passes the final answer on, while the rest of the request may still be going up.
    async fn relay_answer(
        &mut self,
        cluster: &Cluster,
        upstream: &mut Upstream<'_>,
        upload: &mut Upload,
    ) -> Result<After, Stop> {
        let persistence = self.begin_answer(upload);
        let settings = cluster.settings();
        let mut patience = Patience::new();
        let downstream = &mut *self.downstream;
        let relayed = poll_fn(|cx| {
            // What becomes of the request's rest no longer matters to the answer. Content that broke
            // a rule or a limit goes no further all the same.
            if let Err(fault) = upload.poll(cx, downstream, upstream) {
                upload.state = UploadState::Refused(fault.kind);
            }
            let mut relay = Relay {
                source: &upstream.stream,
                receiver: &mut *upstream.receiver,
                sink: downstream.stream,
                sender: &mut *downstream.sender,
            };
            if let Poll::Ready(result) = relay.poll(cx) {
                return Poll::Ready(result.map_err(|fault| match fault {
                    RelayFault::Source(kind) => Fault::upstream(kind, Retry::Never),
                    RelayFault::Sink(kind) => Fault::downstream(kind),
                }));
            }
            let blocked = !upstream.receiver.piece().is_empty();
            let (limit, fault) = if blocked {
                (downstream.timeouts().write, Fault::downstream(FaultKind::TimedOut))
            } else {
                (settings.read_timeout, Fault::upstream(FaultKind::TimedOut, Retry::Never))
            };
            let position = upstream
                .receiver
                .received()
                .wrapping_add(downstream.progress())
                .wrapping_add(upload.position(downstream, upstream));
            patience.poll(cx, downstream, (position, limit)).map(|()| Err(fault))
        })
        .await;
        relayed.map_err(|fault| Stop { fault, progress: AnswerProgress::Begun })?;
        // A client that is still sending has to be cut off: its content cannot be skipped.
        Ok(match persistence {
            _ if !upload.is_done() => After::Close,
            Persistence::KeepAlive => After::Next,
            Persistence::Close => self.end(),
        })
    }

    /// Queues the head of the origin's answer.
    fn begin_answer(&mut self, upload: &Upload) -> Persistence {
        let body = self.downstream.body_for_client(self.response.status, self.response.body);
        let mut persistence = self.persistence();
        if body == BodyLength::UntilClose || !upload.is_done() {
            persistence = Persistence::Close;
        }
        self.status = self.response.status;
        let (downstream, response) = (&mut *self.downstream, &*self.response);
        self.worker.with_date(|date| {
            let framing = downstream.framing(body, persistence, Some(date));
            downstream.send_head(response, &framing);
        });
        persistence
    }

    /// After 101: from here on the connection is a pipe (RFC 9110, 7.8).
    async fn switch_protocols(
        &mut self,
        cluster: &Cluster,
        upgrade: Upgrade,
        upstream: &mut Upstream<'_>,
    ) -> Result<After, Stop> {
        if upgrade == Upgrade::No {
            let fault = FaultKind::Malformed(Syntax::StatusLine);
            return Err(Fault::upstream(fault, Retry::Never).into());
        }
        self.status = 101;
        let _active = self.upstream.server.as_ref().map(|server| Active::new(cluster, server));
        let downstream = &mut *self.downstream;
        let mut framing = downstream.framing(BodyLength::Empty, Persistence::KeepAlive, None);
        framing.upgrade = Upgrade::Yes;
        downstream.send_head(self.response, &framing);
        downstream.become_pipe();
        upstream.become_pipe();
        let up = Relay {
            source: downstream.stream,
            receiver: &mut *downstream.receiver,
            sink: &upstream.stream,
            sender: &mut *upstream.sender,
        };
        let down = Relay {
            source: &upstream.stream,
            receiver: &mut *upstream.receiver,
            sink: downstream.stream,
            sender: &mut *downstream.sender,
        };
        let ended = tunnel(up, down, downstream.deadline, cluster.settings().tunnel_timeout).await;
        // A pipe ends as it likes; only an end without a word is worth noting.
        self.fault = ended.err().map(Fault::downstream);
        Ok(After::Close)
    }
}

/// Whether the client asks for another protocol: only HTTP/1.1 can, and only without content, which
/// would have to be sent before the switch (RFC 9110, 7.8).
fn wants_upgrade(head: &RequestHead) -> Upgrade {
    let asked = head.version == Version::Http11
        && head.body == BodyLength::Empty
        && head.fields.value(FieldId::Upgrade).is_some()
        && head.fields.lists(FieldId::Connection, b"upgrade");
    if asked { Upgrade::Yes } else { Upgrade::No }
}

/// The request's content on its way up.
struct Upload {
    state: UploadState,
    /// Some content left the client's input: the request cannot be sent again.
    begun: bool,
    limit: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UploadState {
    Running,
    /// All content is in the output, part of which may not be written.
    Flushing,
    Done,
    /// No more goes to the origin: it takes none, or there is none it may be given. Its answer may be
    /// on its way all the same.
    Refused(FaultKind),
}

impl UploadState {
    /// Where every try begins.
    const fn first(request: &RequestHead) -> Self {
        match request.body {
            BodyLength::Empty | BodyLength::Known(0) => Self::Flushing,
            _ => Self::Running,
        }
    }
}

/// What a proxied request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    Client,
    OriginToTake,
    OriginToAnswer,
}

impl Waiting {
    fn limit(
        self,
        settings: &sluice_upstream::ClusterSettings,
        downstream: &Downstream<'_>,
    ) -> (Duration, Fault) {
        match self {
            Self::Client => (downstream.timeouts().body, Fault::downstream(FaultKind::TimedOut)),
            Self::OriginToTake => {
                (settings.write_timeout, Fault::upstream(FaultKind::TimedOut, Retry::Never))
            }
            Self::OriginToAnswer => {
                let fault = Fault::upstream(FaultKind::ResponseTimedOut, Retry::Never);
                (settings.read_timeout, fault)
            }
        }
    }
}

impl Upload {
    fn new(request: &RequestHead, limit: u64) -> Self {
        Self { state: UploadState::first(request), begun: false, limit }
    }

    /// For another try, which happens only before any content has left: the head waits in the output
    /// of a new connection, however far the try before had come.
    fn restart(&mut self, request: &RequestHead) {
        self.state = UploadState::first(request);
    }

    fn is_done(&self) -> bool {
        self.state == UploadState::Done
    }

    /// Moves content up as far as it goes, and says what would have to happen next.
    fn poll(
        &mut self,
        cx: &Context<'_>,
        downstream: &mut Downstream<'_>,
        upstream: &mut Upstream<'_>,
    ) -> Result<Waiting, Fault> {
        if self.state == UploadState::Running {
            let mut relay = Relay {
                source: downstream.stream,
                receiver: &mut *downstream.receiver,
                sink: &upstream.stream,
                sender: &mut *upstream.sender,
            };
            let moved = relay.poll(cx);
            self.begun |= !relay.receiver.is_untouched();
            if relay.receiver.content() > self.limit {
                return Err(Fault::downstream(FaultKind::BodyTooLarge));
            }
            match moved {
                Poll::Pending if relay.receiver.piece().is_empty() => return Ok(Waiting::Client),
                Poll::Pending => return Ok(Waiting::OriginToTake),
                Poll::Ready(Ok(())) => self.state = UploadState::Flushing,
                Poll::Ready(Err(RelayFault::Source(kind))) => return Err(Fault::downstream(kind)),
                Poll::Ready(Err(RelayFault::Sink(kind))) => {
                    self.state = UploadState::Refused(kind);
                }
            }
        }
        if self.state == UploadState::Flushing {
            match upstream.sender.poll_flush(&upstream.stream, cx) {
                Poll::Pending => return Ok(Waiting::OriginToTake),
                Poll::Ready(Ok(())) => self.state = UploadState::Done,
                Poll::Ready(Err(kind)) => self.state = UploadState::Refused(kind),
            }
        }
        Ok(Waiting::OriginToAnswer)
    }

    /// An origin that neither took the request nor answered: what it did first is what counts.
    fn blame(&self, fault: Fault) -> Fault {
        match self.state {
            UploadState::Refused(kind) => Fault { kind, ..fault },
            _ => fault,
        }
    }

    /// Changes whenever content moved.
    fn position(&self, downstream: &Downstream<'_>, upstream: &Upstream<'_>) -> u64 {
        downstream.receiver.received().wrapping_add(upstream.progress())
    }
}

/// A limit on the time without progress, whoever it is that has to make it.
struct Patience {
    since: Nanos,
    position: Option<u64>,
}

impl Patience {
    const fn new() -> Self {
        Self { since: 0, position: None }
    }

    fn poll(
        &mut self,
        cx: &Context<'_>,
        downstream: &Downstream<'_>,
        (position, limit): (u64, Duration),
    ) -> Poll<()> {
        if self.position != Some(position) {
            self.position = Some(position);
            self.since = now();
        }
        let limit = Nanos::try_from(limit.as_nanos()).unwrap_or(Nanos::MAX);
        downstream.deadline.poll_at(self.since.saturating_add(limit), cx).map(|_| ())
    }
}

/// Counts a request as under way for as long as it is.
struct Active<'a>(&'a Cluster, &'a Server);

impl<'a> Active<'a> {
    fn new(cluster: &'a Cluster, server: &'a Server) -> Self {
        cluster.meter().requests.increment();
        cluster.meter().active.add(1);
        server.meter().requests.increment();
        server.meter().active.add(1);
        Self(cluster, server)
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.meter().active.add(-1);
        self.1.meter().active.add(-1);
    }
}
