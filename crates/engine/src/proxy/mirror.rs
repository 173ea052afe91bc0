//! Copies of requests for another upstream, whose answers nobody waits for.

use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use sluice_conn::{Content, OriginChannel, Reuse, Upstream};
use sluice_message::{BodyLength, Expectation, Fields, RequestHead};
use sluice_meter::{PerWorker, RouteMeter};
use sluice_net::spawn;
use sluice_upstream::{Ask, Breaker, Cluster, Server, Visit};
use sluice_wire::h1::Upgrade;

use super::solo::{Whole, ask};
use super::upload::{Gathered, Upload};
use crate::Mirror;
use crate::exchange::Exchange;
use crate::forward::set_host;
use crate::local::Worker;
use crate::spare::Spare;

/// Content of an answer is read up to this size, to keep the connection.
const DISCARD: u64 = 1024 * 1024;

/// How long reading it may take.
const DISCARD_TIME: Duration = Duration::from_secs(10);

/// A copy of a request, before its content is there.
pub(super) struct Twin {
    worker: Rc<Worker>,
    cluster: Rc<Cluster>,
    meter: Arc<PerWorker<RouteMeter>>,
    head: RequestHead,
    client: IpAddr,
    /// What a connection begins with that is opened for it.
    header: Vec<u8>,
    at_once: usize,
}

/// Whether more content may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outlook {
    Open,
    Over,
}

impl Exchange<'_, '_> {
    /// A copy for the upstream that gets some, if it is this request's turn. Its head says already who
    /// the client is. A request without content is on its way at once.
    pub(super) fn begin_twin(
        &self,
        mirror: &Mirror,
        upgrade: Upgrade,
        upload: &mut Upload,
    ) -> Option<Box<Twin>> {
        let route = self.route?;
        let cluster = self.scope.view.clusters.get(mirror.cluster)?;
        let meter = route.meter.worker(self.worker.index);
        meter.mirror_candidates.increment();
        if !is_chosen(meter.mirror_candidates.value(), mirror.share) {
            return None;
        }
        let too_large = match self.request.body {
            BodyLength::Known(length) => length > mirror.body_limit,
            _ => false,
        };
        let mut head = self.request.clone();
        // Nobody waits for what its servers say before they have the content.
        head.expectation = Expectation::None;
        let host = set_host(&mut head, cluster.settings().host.as_deref());
        if upgrade == Upgrade::Yes || too_large || host.is_err() {
            meter.mirror_skipped.increment();
            return None;
        }
        let twin = Twin {
            worker: Rc::clone(&self.connection.worker),
            cluster: Rc::clone(cluster),
            meter: Arc::clone(&route.meter),
            head,
            client: self.client,
            header: self.announce(cluster.settings().proxy_protocol),
            at_once: mirror.at_once,
        };
        if !self.request.has_content() {
            twin.send(Vec::new(), None);
            return None;
        }
        upload.copy(usize::try_from(mirror.body_limit).unwrap_or(usize::MAX));
        Some(Box::new(twin))
    }

    /// Sends the copy if its content is there, or gives it up if it never will be.
    pub(super) fn advance_twin(
        &self,
        twin: Box<Twin>,
        upload: &Upload,
        outlook: Outlook,
    ) -> Option<Box<Twin>> {
        match upload.copied(self.downstream.receiver) {
            Gathered::Part if outlook == Outlook::Open => return Some(twin),
            Gathered::Part | Gathered::Nothing => twin.skip(),
            Gathered::Whole(content, trailers) => twin.send(content, trailers),
        }
        None
    }
}

/// Whether it is the turn of request number `count`. The golden ratio spreads the chosen ones evenly,
/// without a rhythm that requests could have too.
fn is_chosen(count: u64, share: u32) -> bool {
    const GOLDEN: u64 = 0x9E37_79B9;
    let place = count.wrapping_mul(GOLDEN) & 0xFFFF_FFFF;
    (place * 1_000_000) >> 32 < u64::from(share)
}

impl Twin {
    fn meter(&self) -> &RouteMeter {
        self.meter.worker(self.worker.index)
    }

    /// Gives the copy up.
    pub(super) fn skip(&self) {
        self.meter().mirror_skipped.increment();
    }

    /// Sends the copy from a task of its own, unless too many are under way.
    fn send(self, content: Vec<u8>, trailers: Option<Fields>) {
        if self.cluster.copies().get() >= self.at_once {
            return self.skip();
        }
        self.meter().mirrored.increment();
        let under_way = UnderWay::new(&self.cluster);
        spawn(async move {
            let _under_way = under_way;
            self.deliver(&content, trailers.as_ref()).await;
        });
    }

    async fn deliver(&self, content: &[u8], trailers: Option<&Fields>) {
        let cluster = &*self.cluster;
        let Ok(_admitted) = cluster.admit(Breaker::Requests) else {
            return self.meter().mirror_failures.increment();
        };
        let ask_for = Ask { head: &self.head, client: self.client, avoid: &[] };
        let Some(server) = cluster.choose(&ask_for).map(Rc::clone) else {
            return self.meter().mirror_failures.increment();
        };
        let Some(_visit) = Visit::try_new(&self.cluster, &server) else {
            return self.meter().mirror_failures.increment();
        };
        let mut spare = self.worker.spares.take();
        let whole = Whole { head: &self.head, content, trailers, header: &self.header };
        match ask((cluster, &server), whole, &mut spare).await {
            Ok(channel) => {
                discard((cluster, &server), channel, &mut spare).await;
                cluster.on_whole_answer(&server, spare.response.status);
            }
            Err(fault) => {
                cluster.on_failure(&server, fault);
                cluster.on_blame(&server, fault);
                self.meter().mirror_failures.increment();
            }
        }
        self.worker.spares.put(spare);
    }
}

/// Reads an answer's content and forgets it, within bounds. Its connection is kept if it comes to the end.
async fn discard(
    (cluster, server): (&Cluster, &Server),
    channel: OriginChannel,
    spare: &mut Spare,
) {
    let halves = (&mut spare.receiver, &mut spare.sender);
    let upstream = Upstream::resume(channel, halves, Reuse::Reused);
    let read = poll_fn(|cx| {
        while upstream.receiver.content() <= DISCARD {
            match upstream.receiver.poll_content(upstream.channel.lend(), cx) {
                Poll::Ready(Ok(Content::Piece)) => {
                    let piece = upstream.receiver.piece().len();
                    upstream.receiver.advance(piece);
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(())
    });
    // A connection whose answer did not end is not kept, for whatever reason.
    let _ = spare.deadline.limit(DISCARD_TIME, read).await;
    cluster.meter().received_bytes.add(upstream.receiver.received());
    cluster.meter().sent_bytes.add(upstream.sender.sent());
    if let Some(stream) = upstream.into_idle(&spare.response) {
        cluster.keep(server, stream);
    }
}

/// Counts a copy as under way for as long as it is.
struct UnderWay(Rc<Cluster>);

impl UnderWay {
    fn new(cluster: &Rc<Cluster>) -> Self {
        cluster.copies().set(cluster.copies().get() + 1);
        Self(Rc::clone(cluster))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.copies().set(self.0.copies().get().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_kept_over_any_stretch() {
        for (share, per_thousand) in
            [(0, 0), (1_000_000, 1000), (100_000, 100), (500_000, 500), (5_000, 5)]
        {
            for start in [0_u64, 12_345, u64::MAX - 500] {
                let chosen = (0..1000).filter(|n| is_chosen(start.wrapping_add(*n), share)).count();
                let off = chosen.abs_diff(per_thousand);
                assert!(off <= 4, "{share}: {chosen} from {start}");
                assert!(![0, 1000].contains(&per_thousand) || off == 0, "{share}: {chosen}");
            }
        }
    }

    #[test]
    fn the_chosen_ones_have_no_rhythm() {
        // Of requests that come in tens, each place in the ten gets its share.
        for place in 0..10_u64 {
            let chosen = (0..1000).filter(|ten| is_chosen(ten * 10 + place, 100_000)).count();
            assert!((80..=120).contains(&chosen), "{place}: {chosen}");
        }
    }
}
