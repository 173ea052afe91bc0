//! A request that is sent beside the exchange's own, with everything it needs of its own.

use std::future::poll_fn;
use std::task::Poll;

use sluice_conn::{OriginChannel, Reuse, Upstream};
use sluice_message::{Fault, FaultKind, Fields, RequestHead, ResponseHead, Retry, Syntax};
use sluice_net::{Deadline, Nanos, now};
use sluice_upstream::{Breaker, Call, Cluster, ClusterSettings, Demand, Server};
use sluice_wire::h1::Upgrade;

use super::attempt::{INTERIMS, connect};
use super::tries::is_stale;
use crate::patience::{Patience, end_after};
use crate::spare::Spare;

/// A request that is there as a whole.
#[derive(Clone, Copy)]
pub(crate) struct Whole<'a> {
    pub(crate) head: &'a RequestHead,
    pub(crate) content: &'a [u8],
    pub(crate) trailers: Option<&'a Fields>,
    /// What a connection begins with that is opened for it.
    pub(crate) header: &'a [u8],
}

/// Sends the request to the server and waits for the head of the final answer, which is in the spare
/// then; the rest can be had from the connection. A kept connection that turns out to be closed is
/// replaced by a fresh one, if repeating the request does no harm.
pub(crate) async fn ask(
    (cluster, server): (&Cluster, &Server),
    whole: Whole<'_>,
    spare: &mut Spare,
) -> Result<OriginChannel, Fault> {
    let limit = cluster.settings().retry.try_timeout;
    let end = end_after(limit);
    spare.connection = cluster.admit(Breaker::Connections)?;
    let mut kept = cluster.take_idle(server, Demand::Any);
    let mut repeated = false;
    loop {
        let (channel, reuse) = match kept.take() {
            Some(channel) => {
                cluster.meter().reuses.increment();
                (channel, Reuse::Reused)
            }
            None => {
                let (header, deadline) = (whole.header, &spare.deadline);
                let call = Call { demand: Demand::Any, header, deadline };
                // Rare, and larger than all the rest: others need no memory for it.
                Box::pin(connect((cluster, server), call, limit)).await?
            }
        };
        cluster.meter().requests.increment();
        server.meter().requests.increment();
        let halves = (&mut spare.receiver, &mut spare.sender);
        let mut upstream = Upstream::new(channel, halves, reuse);
        upstream.send_head(whole.head, Upgrade::No);
        upstream.sender.push(whole.content);
        upstream.sender.finish(whole.trailers);
        let begun = now();
        let awaiting = Awaiting { upstream: &mut upstream, deadline: &spare.deadline, end };
        let arrived = awaiting.head(cluster.settings(), whole.head, &mut spare.response).await;
        match arrived {
            Ok(()) => {
                spare.nanos = now().saturating_sub(begun);
                cluster.on_response(server, spare.response.status, spare.nanos);
                return Ok(upstream.channel);
            }
            // Once: a connection that other requests share may be lost again and again.
            Err(fault)
                if !repeated
                    && is_stale(fault, upstream.reuse())
                    && whole.head.method.is_idempotent() =>
            {
                repeated = true;
                cluster.meter().retries.increment();
            }
            Err(fault) => return Err(fault),
        }
    }
}

/// A wait for an answer.
struct Awaiting<'a, 'u> {
    upstream: &'a mut Upstream<'u>,
    deadline: &'a Deadline,
    end: Nanos,
}

impl Awaiting<'_, '_> {
    /// Writes what is to be written, meanwhile and until the final head is there. Interim ones are
    /// dropped: only one of several answers may speak to the client.
    async fn head(
        self,
        settings: &ClusterSettings,
        request: &RequestHead,
        response: &mut ResponseHead,
    ) -> Result<(), Fault> {
        let Awaiting { upstream, deadline, end } = self;
        let mut patience = Patience::until(end);
        let mut refused = None;
        for _ in 0..INTERIMS {
            poll_fn(|cx| {
                if refused.is_none()
                    && let Poll::Ready(Err(kind)) =
                        upstream.sender.poll_flush(upstream.channel.lend(), cx)
                {
                    // Its answer may be on its way all the same.
                    refused = Some(kind);
                }
                if let Poll::Ready(arrival) = upstream.poll_head(cx, request.method, response) {
                    // What it did first is what counts.
                    let blame =
                        |fault: Fault| Fault { kind: refused.unwrap_or(fault.kind), ..fault };
                    return Poll::Ready(arrival.map_err(blame));
                }
                let (limit, kind) = match refused.is_none() && upstream.sender.waiting() > 0 {
                    true => (settings.write_timeout, FaultKind::TimedOut),
                    false => (settings.read_timeout, FaultKind::ResponseTimedOut),
                };
                let late = patience.poll(cx, deadline, (upstream.progress(), limit));
                late.map(|()| Err(upstream.lost(kind)))
            })
            .await?;
            if !response.is_interim() {
                return Ok(());
            }
        }
        Err(Fault::upstream(FaultKind::Malformed(Syntax::StatusLine), Retry::Never))
    }
}
