//! Which server is asked next, if another try is to be made at all.

use std::rc::Rc;
use std::time::Duration;

use sluice_conn::{Content, OriginChannel, Reuse, Upstream};
use sluice_message::{Fault, FaultKind, ResponseHead, Retry};
use sluice_net::{Nanos, now};
use sluice_upstream::{Ask, Breaker, Cluster, Pass, Repeatable, Server};

use super::Halves;
use super::upload::Upload;
use crate::exchange::Exchange;

/// What was tried for a request.
pub(super) struct Tries {
    left: u32,
    /// Absent before the first try has failed: most requests are not to pay for the space.
    failed: Option<Box<Failed>>,
}

/// Tries that came to nothing.
#[derive(Default)]
struct Failed {
    /// Servers that were asked in vain, the last one last.
    tried: Vec<Rc<Server>>,
    /// Servers that want to be left alone until then.
    resting: Vec<(Rc<Server>, Nanos)>,
    /// Held as long as the request is being tried again.
    retrying: Option<Pass>,
}

impl Tries {
    pub(super) const fn new(left: u32) -> Self {
        Self { left, failed: None }
    }

    fn failed(&mut self) -> &mut Failed {
        self.failed.get_or_insert_default()
    }

    fn resting(&self) -> &[(Rc<Server>, Nanos)] {
        self.failed.as_ref().map_or(&[], |failed| &failed.resting)
    }

    /// Whether breaker and budget allow another try.
    fn begin_another(&mut self, cluster: &Cluster) -> Option<()> {
        let failed = self.failed();
        if failed.retrying.is_none() {
            failed.retrying = Some(cluster.admit(Breaker::Retries).ok()?);
        }
        cluster.spend_retry()
    }

    /// Servers that were asked in vain.
    pub(super) fn tried(&self) -> &[Rc<Server>] {
        self.failed.as_ref().map_or(&[], |failed| &failed.tried)
    }

    /// Takes note of a server that gave no answer, or not one to pass on.
    pub(super) fn note(&mut self, server: &Rc<Server>) {
        self.failed().tried.push(Rc::clone(server));
    }

    /// Takes note of what an answer says about the next request (RFC 9110, 10.2.3).
    pub(super) fn note_answer(&mut self, server: &Rc<Server>, answer: &ResponseHead) {
        if let Some(until) = retry_after(answer) {
            self.failed().resting.push((Rc::clone(server), until));
        }
    }
}

/// When the server may be asked again. A date is later than anything this request waits for.
fn retry_after(answer: &ResponseHead) -> Option<Nanos> {
    if !matches!(answer.status, 429 | 503) {
        return None;
    }
    let value = answer.fields.values_of(b"retry-after").next()?;
    let seconds = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    match seconds.map(Duration::from_secs) {
        Some(Duration::ZERO) => None,
        Some(pause) => {
            let pause = Nanos::try_from(pause.as_nanos()).unwrap_or(Nanos::MAX);
            Some(now().saturating_add(pause))
        }
        None => Some(Nanos::MAX),
    }
}

/// Whether a kept connection turned out to be closed: that says nothing about the origin.
pub(super) fn is_stale(fault: Fault, reuse: Reuse) -> bool {
    reuse == Reuse::Reused
        && fault.retry == Retry::IfIdempotent
        && matches!(fault.kind, FaultKind::Closed | FaultKind::Reset)
}

impl Exchange<'_, '_> {
    /// The server to ask; another one than those to avoid, if there is another.
    pub(super) fn choose(&self, cluster: &Cluster, avoid: &[Rc<Server>]) -> Option<Rc<Server>> {
        cluster.choose(&Ask { head: self.request, client: self.client, avoid }).map(Rc::clone)
    }

    /// A request may be repeated if that does no harm and none of its content is gone.
    pub(super) fn may_repeat(&self, cluster: &Cluster, retry: Retry, upload: &Upload) -> bool {
        let allowed = match retry {
            Retry::Never => false,
            Retry::IfIdempotent => {
                self.request.method.is_idempotent()
                    || cluster.settings().retry.methods == Repeatable::All
            }
            Retry::Always => true,
        };
        allowed && !upload.is_gone()
    }

    /// Whether the answer that came is one to try again after.
    #[inline]
    pub(super) fn is_refused(&self, cluster: &Cluster, upload: &Upload) -> bool {
        cluster.settings().retry.on.has_status(self.response.status)
            && self.may_repeat(cluster, Retry::IfIdempotent, upload)
            || self.call.is_some() && self.is_refused_call(cluster, upload)
    }

    /// Where the next try goes, if policy, budget and servers allow one. It is counted.
    pub(super) fn next_server(&self, cluster: &Cluster, tries: &mut Tries) -> Option<Rc<Server>> {
        let left = tries.left.checked_sub(1)?;
        // Before a server is chosen, which takes its turn: refused retries would have every other
        // request begin at the server that fails.
        tries.begin_another(cluster)?;
        let Some(next) = self.choose_again(cluster, tries) else {
            cluster.refund_retry();
            return None;
        };
        tries.left = left;
        cluster.meter().retries.increment();
        Some(next)
    }

    /// A server that nobody was asked at for this request, if policy and budget allow one more try.
    pub(super) fn other_server(&self, cluster: &Cluster, tries: &mut Tries) -> Option<Rc<Server>> {
        let left = tries.left.checked_sub(1)?;
        tries.begin_another(cluster)?;
        let other = self.choose(cluster, tries.tried());
        let is_new = |other: &Rc<Server>| !tries.tried().iter().any(|it| Rc::ptr_eq(it, other));
        let Some(other) = other.filter(is_new) else {
            cluster.refund_retry();
            return None;
        };
        tries.left = left;
        Some(other)
    }

    /// One that was not asked yet; else one that was not asked last; else the same again. None that
    /// wants to be left alone.
    fn choose_again(&self, cluster: &Cluster, tries: &Tries) -> Option<Rc<Server>> {
        let awake = |until: &Nanos| *until <= now();
        let resting = tries.resting().iter().filter(|(_, until)| !awake(until));
        let resting: Vec<Rc<Server>> = resting.map(|(server, _)| Rc::clone(server)).collect();
        let spared: Vec<Rc<Server>> = resting.iter().chain(tries.tried().last()).cloned().collect();
        [tries.tried(), &spared, &resting].into_iter().find_map(|avoid| {
            let found = self.choose(cluster, avoid)?;
            (!avoid.iter().any(|avoided| Rc::ptr_eq(avoided, &found))).then_some(found)
        })
    }

    /// Lets go of an answer that is not passed on. Its connection is kept if all of it is there already:
    /// waiting for more would cost more than a new connection.
    pub(super) fn drop_answer(
        &self,
        (cluster, server): (&Cluster, &Server),
        channel: OriginChannel,
        upload: &Upload,
        halves: Halves<'_>,
    ) {
        let upstream = Upstream::resume(channel, halves, Reuse::Reused);
        while let Ok(Some(Content::Piece)) = upstream.receiver.decode() {
            let piece = upstream.receiver.piece().len();
            upstream.receiver.advance(piece);
        }
        cluster.meter().received_bytes.add(upstream.receiver.received());
        cluster.meter().sent_bytes.add(upstream.sender.sent());
        if upload.is_done()
            && let Some(stream) = upstream.into_idle(self.response)
        {
            cluster.keep(server, stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_say_when_they_may_be_asked_again() {
        let second = 1_000_000_000;
        let rows = [
            (503, Some("2"), Some(now() + 2 * second)),
            (429, Some("1"), Some(now() + second)),
            (503, Some("0"), None),
            (503, None, None),
            (503, Some("Wed, 21 Oct 2026 07:28:00 GMT"), Some(Nanos::MAX)),
            (503, Some("99999999999999999"), Some(Nanos::MAX)),
            (503, Some("99999999999999999999999"), Some(Nanos::MAX)),
            (502, Some("2"), None),
        ];
        for (status, value, expected) in rows {
            let mut answer = ResponseHead { status, ..ResponseHead::default() };
            if let Some(value) = value {
                answer.fields.push(b"Retry-After", value.as_bytes()).unwrap();
            }
            assert_eq!(retry_after(&answer), expected, "{status} {value:?}");
        }
    }

    #[test]
    fn only_kept_connections_grow_stale() {
        let maybe = |kind| Fault::upstream(kind, Retry::IfIdempotent);
        assert!(is_stale(maybe(FaultKind::Closed), Reuse::Reused));
        assert!(is_stale(maybe(FaultKind::Reset), Reuse::Reused));
        assert!(!is_stale(maybe(FaultKind::Reset), Reuse::Fresh));
        assert!(!is_stale(maybe(FaultKind::ResponseTimedOut), Reuse::Reused));
        let never = Fault::upstream(FaultKind::Closed, Retry::Never);
        assert!(!is_stale(never, Reuse::Reused), "a part of the answer had come");
    }
}
