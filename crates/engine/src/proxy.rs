//! Passing a request to an origin and its answer back.

mod announce;
mod attempt;
mod calls;
mod enter;
mod hedge;
mod mirror;
mod rewriting;
pub(crate) mod solo;
mod tries;
mod tunnel;
mod upload;
mod web;

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use sluice_conn::{Content, OriginChannel, Receiver, Relay, RelayFault, Reuse, Sender, Upstream};
use sluice_filter::Pipeline;
use sluice_message::{BodyLength, Fault, FaultKind, Persistence, Retry, Version};
use sluice_upstream::{Breaker, Cluster};
use sluice_wire::h1::Upgrade;

use crate::credentials::strip;
use crate::exchange::{
    After, AnswerProgress, Exchange, OriginShown, Queued, Stop, Substitute, exhausted,
};
use crate::forward::{continue_introduction, set_host, state_passes};
use crate::guarded::Guarded;
use crate::patience::Patience;
use mirror::Outlook;
use rewriting::Rewriting;
use tunnel::{is_hollow, wants_upgrade};
use upload::Upload;

/// Content of an answer that nobody wants is read up to this size, in bytes.
const SKIPPED: u64 = 256 * 1024;

/// Receiving and sending half of a connection to an origin, lent for one exchange.
pub(crate) type Halves<'h> = (&'h mut Receiver, &'h mut Sender);

impl<'e> Exchange<'e, '_> {
    /// Passes the request to the cluster and its answer back.
    pub(crate) async fn proxy(
        &mut self,
        cluster: &'e Rc<Cluster>,
        body_limit: u64,
        (receiver, sender): Halves<'_>,
    ) -> Result<After, Stop> {
        self.upstream.cluster = Some(cluster);
        let _admitted = cluster.admit(Breaker::Requests)?;
        let upgrade = wants_upgrade(self.request);
        self.introduce_client()?;
        let mut upload = Upload::new(self.request, body_limit);
        if let Some(gathered) = self.take_gathered() {
            upload.begin_with(*gathered);
        }
        self.translate_call(&mut upload)?;
        if let Some(pipeline) = self.request_pipeline()? {
            upload.transform(Guarded::new(*pipeline, &self.connection.worker))?;
        }
        let mut twin = match self.route.and_then(|route| route.mirror.as_ref()) {
            None => None,
            Some(mirror) => self.begin_twin(mirror, upgrade, &mut upload),
        };
        set_host(self.request, cluster.settings().host.as_deref()).map_err(|_| exhausted())?;
        let buffer = cluster.settings().retry.buffer;
        if buffer > 0
            && (self.may_repeat(cluster, Retry::IfIdempotent, &upload)
                || self.is_repeatable_call(cluster))
        {
            upload.keep(self.request.body, buffer);
        }
        if upgrade == Upgrade::Yes && self.request.version == Version::Http2 {
            self.ask_for_websocket()?;
        }
        let halves = (&mut *receiver, &mut *sender);
        let obtained = self.obtain_answer(cluster, upgrade, &mut upload, halves).await;
        if let Some(waiting) = twin.take() {
            let outlook = if obtained.is_ok() { Outlook::Open } else { Outlook::Over };
            twin = self.advance_twin(waiting, &upload, outlook);
        }
        let channel = obtained?;
        self.remember_server(cluster);
        let mut upstream = Upstream::resume(channel, (receiver, sender), Reuse::Reused);
        let status = self.response.status;
        let switched = status == 101;
        let (replaced, pipeline) = match self.show_answer() {
            OriginShown::Ready(replaced, pipeline) => (replaced, pipeline),
            OriginShown::Paused(paused, status) => {
                Box::pin(self.go_on_showing_origin(paused, status)).await?
            }
        };
        let relayed = if let Some(substitute) = replaced {
            let given = Box::pin(self.substitute(substitute, upload.is_done())).await;
            if given.is_ok() && upload.is_done() {
                Box::pin(self.skip_answer(&mut upstream, cluster.settings().read_timeout)).await;
            }
            given
        } else if switched {
            self.switch_protocols(cluster, upgrade, &mut upstream).await
        } else if upgrade == Upgrade::Yes && is_hollow(self.request, self.response.status) {
            Err(Fault::upstream(FaultKind::UpgradeRefused, Retry::Never).into())
        } else {
            self.relay_answer(cluster, (&mut upstream, &mut upload), pipeline).await
        };
        match (&relayed, &self.upstream.server) {
            (Ok(_), Some(server)) if self.call.is_none() => {
                cluster.on_whole_answer(server, status);
            }
            (Ok(_), Some(server)) => {
                let server = Rc::clone(server);
                self.end_call(cluster, Some(&server), upstream.receiver.trailers());
            }
            (Err(stop), Some(server)) if !switched => cluster.on_blame(server, stop.fault),
            _ => {}
        }
        if let Some(waiting) = twin {
            self.advance_twin(waiting, &upload, Outlook::Over);
        }
        // Also what went through a tunnel or an answer that broke off.
        let count = cluster.meter();
        count.received_bytes.add(upstream.receiver.received());
        count.sent_bytes.add(upstream.sender.sent());
        let dropped = self.downstream.receiver.dropped_trailers();
        if dropped > 0 {
            self.connection.listener.meter().dropped_trailers.add(dropped);
        }
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

    /// Tells a client that is to come back to the server which one it was.
    #[inline(always)]
    fn remember_server(&mut self, cluster: &Cluster) {
        if let Some(server) = &self.upstream.server
            && let Some(cookie) = cluster.sticky_cookie(self.request, server)
        {
            // An answer whose head is full goes without, and the client is led anywhere next time.
            let _ = self.response.fields.push(b"set-cookie", &cookie);
        }
    }

    /// Tells the origin in the head who the client is, and which host it asked for.
    fn introduce_client(&mut self) -> Result<(), Fault> {
        let named = self.name_host_as_asked();
        let introduced = self.introduce();
        // The origin is asked for the host that filters put in its place.
        if let Some(named) = named {
            self.request.authority = named;
        }
        introduced
    }

    #[inline(always)]
    fn introduce(&mut self) -> Result<(), Fault> {
        let trusted = &self.scope.view.snapshot.trusted_proxies;
        let peer = self.connection.peer;
        let reserved = &self.scope.view.snapshot.reserved;
        // What a trusted proxy says of its client's certificate is believed where we know nothing.
        if !reserved.is_empty()
            && (self.connection.certificate().is_some() || !trusted.contains(peer))
        {
            strip(&mut self.request.fields, reserved);
            let shown = self.connection.show_certificate(&mut self.request.fields);
            shown.map_err(|_| exhausted())?;
        }
        if self.passes > 0 {
            state_passes(&mut self.request.fields, self.passes).map_err(|_| exhausted())?;
        }
        let introduced = if !trusted.is_empty() && trusted.contains(peer) {
            continue_introduction(self.request, peer, self.connection.scheme())
        } else {
            self.connection.introduce(self.request)
        };
        introduced.map_err(|_| exhausted())
    }

    /// Passes the final answer on, while the rest of the request may still be going up.
    async fn relay_answer(
        &mut self,
        cluster: &Cluster,
        (upstream, upload): (&mut Upstream<'_>, &mut Upload),
        pipeline: Option<Box<Pipeline>>,
    ) -> Result<After, Stop> {
        let mut rewriting = self.rewrite_answer(pipeline)?;
        let persistence = self.begin_answer(upload);
        let settings = cluster.settings();
        let mut patience = Patience::until(self.end_of_call());
        let downstream = &mut *self.downstream;
        let relayed = poll_fn(|cx| {
            // What becomes of the request's rest no longer matters to the answer. Content that broke
            // a rule or a limit goes no further all the same.
            if let Err(fault) = upload.poll(cx, downstream, upstream) {
                upload.refuse(fault);
            }
            let mut relay = Relay {
                source: upstream.channel.lend(),
                receiver: &mut *upstream.receiver,
                sink: downstream.channel,
                sender: &mut *downstream.sender,
            };
            let moved = match &mut rewriting {
                None => relay.poll(cx),
                Some(rewriting) => rewriting.poll(cx, &mut relay),
            };
            if let Poll::Ready(result) = moved {
                return Poll::Ready(result.map_err(|fault| match fault {
                    RelayFault::Source(FaultKind::Broken) => Fault::internal(FaultKind::Broken),
                    RelayFault::Source(kind) => Fault::upstream(kind, Retry::Never),
                    RelayFault::Sink(kind) => Fault::downstream(kind),
                }));
            }
            // An origin that has nothing to say for now may go on like that for hours. What a stream is
            // given up for it says itself; a client that still sends is heard of by its content.
            if (upload.is_done() || !downstream.is_own())
                && !rewriting.as_ref().is_some_and(|rewriting| rewriting.is_awaited(cx))
                && let Poll::Ready(gone) = downstream.poll_gone(cx)
            {
                return Poll::Ready(Err(gone));
            }
            let blocked = !upstream.receiver.piece().is_empty()
                || rewriting.as_ref().is_some_and(|rewriting| rewriting.is_owing());
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
            patience.poll(cx, downstream.deadline, (position, limit)).map(|()| Err(fault))
        })
        .await;
        relayed.map_err(|fault| {
            let fault = upload.blame_client(fault);
            self.overdue(Stop { fault, progress: AnswerProgress::Begun })
        })?;
        // A client that is still sending has to be cut off: its content cannot be skipped.
        Ok(match persistence {
            _ if !upload.is_done() => After::Close,
            Persistence::KeepAlive => After::Next,
            Persistence::Close => self.end(),
        })
    }

    /// What the content of the answer goes through: filters, and what makes it one for browsers.
    #[inline]
    fn rewrite_answer(
        &mut self,
        pipeline: Option<Box<Pipeline>>,
    ) -> Result<Option<Box<Rewriting>>, Stop> {
        let web = match self.call {
            None => None,
            Some(_) => self.translate_answer().map_err(|_| exhausted())?,
        };
        let pipeline = match (pipeline, web) {
            (None, None) => return Ok(None),
            (Some(pipeline), None) => *pipeline,
            (None, Some(web)) => Pipeline::new(vec![web]),
            (Some(pipeline), Some(web)) => pipeline.followed_by(web),
        };
        let guarded = Guarded::new(pipeline, &self.connection.worker);
        Ok(Some(Box::new(Rewriting::new(guarded))))
    }

    /// Gives the client what filters put in the place of the origin's answer, of which no more is read.
    #[cold]
    async fn substitute(&mut self, substitute: Substitute, sent: bool) -> Result<After, Stop> {
        let persistence = if sent { self.persistence() } else { Persistence::Close };
        let after = match self.send_substitute(substitute, persistence) {
            Queued::Begun(outflow) => self.pour(outflow).await?,
            Queued::Whole(Persistence::KeepAlive) => After::Next,
            Queued::Whole(Persistence::Close) => self.end(),
            // It was shown already.
            Queued::Waits(_) => After::Abort,
        };
        // A client that is still sending has to be cut off: its content cannot be skipped.
        Ok(if sent { after } else { After::Close })
    }

    /// Reads content that nobody wants, so that the connection to the origin can be used again, if there is little of
    /// it. The client has its answer meanwhile.
    async fn skip_answer(&mut self, upstream: &mut Upstream<'_>, limit: Duration) {
        let own = matches!(upstream.channel, OriginChannel::Own(_));
        if !own || matches!(self.response.body, BodyLength::Known(it) if it > SKIPPED) {
            return;
        }
        let mut patience = Patience::until(self.end_of_call());
        let downstream = &mut *self.downstream;
        poll_fn(|cx| {
            loop {
                let receiver = &mut *upstream.receiver;
                match receiver.poll_content(upstream.channel.lend(), cx) {
                    Poll::Ready(Ok(Content::Piece)) if receiver.content() <= SKIPPED => {
                        let piece = receiver.piece().len();
                        receiver.advance(piece);
                    }
                    // What is left of it is closed with its connection.
                    Poll::Ready(_) => return Poll::Ready(()),
                    Poll::Pending => break,
                }
            }
            if let Poll::Ready(Err(_)) = downstream.sender.poll_flush(downstream.channel, cx) {
                return Poll::Ready(());
            }
            let position = upstream.receiver.received();
            patience.poll(cx, downstream.deadline, (position, limit))
        })
        .await;
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
}
