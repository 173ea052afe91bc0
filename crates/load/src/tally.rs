//! What a thread counts while it runs, and how the parts of a run add up.

use std::collections::BTreeMap;

use sluice_net::Nanos;
use sluice_net::tls::Handshake;

use crate::histogram::Histogram;
use crate::outcome::{Errors, Mode};
use crate::source::{Failure, Verdict};

/// Status codes have three digits.
const CODES: usize = 1000;

/// Counts of one thread over one second, or of everybody over everything.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Requests that ended, with an answer or without.
    pub requests: u64,
    /// Whole answers.
    pub responses: u64,
    /// Bytes written.
    pub sent: u64,
    /// Bytes read.
    pub received: u64,
    /// What went wrong.
    pub errors: Errors,
    /// Size of the smallest and of the largest answer.
    pub sizes: (u64, u64),
    /// Expected responses, from the moment a request was due. In an open loop requests that timed
    /// out as well, each with the time it waited: a server that hangs must not look fast.
    pub latency: Histogram,
    /// Expected responses, from the moment the request was sent; only where those differ.
    pub uncorrected: Option<Histogram>,
    /// Unexpected responses; made for the first of them.
    pub unexpected: Option<Box<Histogram>>,
    /// Handshakes of encrypted connections, with everything and shortened.
    pub handshakes: (u64, u64),
    /// What the first failures said, by kind.
    pub reasons: BTreeMap<&'static str, String>,
    /// Answers by status code.
    codes: Vec<u64>,
}

/// A whole response, as far as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Its status.
    pub status: u16,
    /// Its bytes.
    pub size: u64,
    /// Whether it was expected.
    pub verdict: Verdict,
}

/// When a request was due and when it went out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// When it should have been sent.
    pub due: Nanos,
    /// When it was.
    pub sent: Nanos,
}

impl Tally {
    /// Nothing yet.
    #[must_use]
    pub fn new(mode: &Mode) -> Self {
        Self {
            requests: 0,
            responses: 0,
            sent: 0,
            received: 0,
            errors: Errors::default(),
            sizes: (u64::MAX, 0),
            latency: Histogram::new(),
            uncorrected: matches!(mode, Mode::Open { .. }).then(Histogram::new),
            unexpected: None,
            handshakes: (0, 0),
            reasons: BTreeMap::new(),
            codes: vec![0; CODES],
        }
    }

    /// Counts a response that was whole at `end`.
    #[inline]
    pub fn on_response(&mut self, response: Counted, stamp: Stamp, end: Nanos) {
        let Counted { status, size, verdict } = response;
        self.requests += 1;
        self.responses += 1;
        if let Some(count) = self.codes.get_mut(usize::from(status)) {
            *count += 1;
        }
        self.sizes = (self.sizes.0.min(size), self.sizes.1.max(size));
        if verdict != Verdict::Expected {
            self.on_unexpected(verdict, end.saturating_sub(stamp.due));
            return;
        }
        self.latency.record(micros(end.saturating_sub(stamp.due)));
        if let Some(uncorrected) = &mut self.uncorrected {
            uncorrected.record(micros(end.saturating_sub(stamp.sent)));
        }
    }

    #[cold]
    fn on_unexpected(&mut self, verdict: Verdict, took: Nanos) {
        match verdict {
            Verdict::Expected => {}
            Verdict::UnexpectedStatus => self.errors.unexpected_status += 1,
            Verdict::UnexpectedContent => self.errors.unexpected_body += 1,
        }
        self.unexpected.get_or_insert_default().record(micros(took));
    }

    /// Counts a request that got no response and waited for so long.
    pub fn on_failure(&mut self, failure: Failure, waited: Nanos) {
        self.requests += 1;
        *self.counter(failure) += 1;
        if failure == Failure::Timeout && self.uncorrected.is_some() {
            self.latency.record(micros(waited));
        }
    }

    /// Counts requests that have no response when the run is over, as time-outs.
    pub fn on_unanswered(&mut self, waits: &Histogram) {
        self.requests += waits.count();
        self.errors.timeout += waits.count();
        if self.uncorrected.is_some() {
            self.latency.add(waits);
        }
    }

    /// Counts something that went wrong while no request was out.
    pub fn on_trouble(&mut self, failure: Failure) {
        *self.counter(failure) += 1;
    }

    /// Counts an encrypted connection that was opened.
    pub const fn on_handshake(&mut self, handshake: Handshake) {
        match handshake {
            Handshake::Full => self.handshakes.0 += 1,
            Handshake::Resumed => self.handshakes.1 += 1,
        }
    }

    /// Keeps the reason if it is the first of its kind.
    pub fn explain(&mut self, failure: Failure, reason: impl FnOnce() -> String) {
        self.reasons.entry(name(failure)).or_insert_with(reason);
    }

    const fn counter(&mut self, failure: Failure) -> &mut u64 {
        match failure {
            Failure::Connect => &mut self.errors.connect,
            Failure::Read => &mut self.errors.read,
            Failure::Write => &mut self.errors.write,
            Failure::Timeout => &mut self.errors.timeout,
            Failure::Protocol => &mut self.errors.protocol,
        }
    }

    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.responses += other.responses;
        self.sent += other.sent;
        self.received += other.received;
        self.errors.add(&other.errors);
        self.sizes = (self.sizes.0.min(other.sizes.0), self.sizes.1.max(other.sizes.1));
        self.latency.add(&other.latency);
        if let (Some(mine), Some(theirs)) = (&mut self.uncorrected, &other.uncorrected) {
            mine.add(theirs);
        }
        if let Some(theirs) = &other.unexpected {
            self.unexpected.get_or_insert_default().add(theirs);
        }
        self.handshakes.0 += other.handshakes.0;
        self.handshakes.1 += other.handshakes.1;
        for (kind, reason) in &other.reasons {
            self.reasons.entry(kind).or_insert_with(|| reason.clone());
        }
        for (mine, theirs) in self.codes.iter_mut().zip(&other.codes) {
            *mine += theirs;
        }
    }

    /// Answers by status code, those that occurred.
    #[must_use]
    pub fn statuses(&self) -> BTreeMap<u16, u64> {
        let counted = (0..).zip(&self.codes).filter(|(_, count)| **count > 0);
        counted.map(|(code, count)| (code, *count)).collect()
    }
}

/// The failure's name in a report.
const fn name(failure: Failure) -> &'static str {
    match failure {
        Failure::Connect => "connect",
        Failure::Read => "read",
        Failure::Write => "write",
        Failure::Timeout => "timeout",
        Failure::Protocol => "protocol",
    }
}

/// Nanoseconds as whole microseconds, rounded.
#[inline]
pub(crate) const fn micros(nanos: Nanos) -> u64 {
    (nanos + 500) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(due: Nanos, sent: Nanos) -> Stamp {
        Stamp { due, sent }
    }

    fn response(status: u16, size: u64) -> Counted {
        Counted { status, size, verdict: Verdict::Expected }
    }

    #[test]
    fn parts_add_up() {
        let mode = Mode::Open { rate_per_second: 1.0 };
        let (mut one, mut other) = (Tally::new(&mode), Tally::new(&mode));
        one.on_response(response(200, 100), stamp(1_000_000, 5_000_000), 6_000_000);
        let missing = Counted { verdict: Verdict::UnexpectedStatus, ..response(404, 50) };
        one.on_response(missing, stamp(1_000_000, 5_000_000), 6_000_499);
        other.on_failure(Failure::Timeout, 9_000_000);
        other.on_trouble(Failure::Protocol);
        other.explain(Failure::Timeout, || "slow".to_owned());
        other.explain(Failure::Timeout, || "slower".to_owned());
        other.on_response(response(200, 700), stamp(0, 0), 10_000);
        one.add(&other);
        assert_eq!((one.requests, one.responses, one.sizes), (4, 3, (50, 700)));
        assert_eq!(one.statuses(), BTreeMap::from([(200, 2), (404, 1)]));
        let errors = one.errors;
        assert_eq!((errors.timeout, errors.protocol, errors.unexpected_status), (1, 1, 1));
        // The time-out is there with what it waited, the unexpected response is not.
        assert_eq!((one.latency.count(), one.latency.percentile(50.0) / 10), (3, 500));
        assert_eq!(one.latency.percentile(100.0) / 10, 900);
        assert_eq!(one.uncorrected.as_ref().map(Histogram::count), Some(2));
        assert_eq!(one.unexpected.as_ref().map(|they| they.percentile(99.0) / 10), Some(500));
        assert_eq!(one.uncorrected.unwrap().percentile(99.0), 1000);
        assert_eq!(one.reasons.get("timeout").map(String::as_str), Some("slow"));
    }

    #[test]
    fn a_code_of_no_meaning_does_no_harm() {
        let mut tally = Tally::new(&Mode::Closed);
        tally.on_response(response(u16::MAX, 1), stamp(10, 10), 5);
        assert_eq!((tally.responses, tally.statuses().len()), (1, 0));
        assert!(tally.uncorrected.is_none());
    }
}
