//! Why a rate was not sustained: the server, the connections, the load generator, or failures.

use crate::figures::{count, float, rate, time, whole};
use crate::outcome::{Bottleneck, Mode, Outcome};

/// A server whose responses take so many times as long as at best has a queue.
const QUEUE: f64 = 10.0;

/// Fewer requests than this cannot make a queue in a server that could be told from chance.
const CROWD: u32 = 4;

impl Bottleneck {
    /// Nothing where the rate was sustained or none was asked for.
    #[must_use]
    pub(crate) fn of(outcome: &Outcome) -> Option<Self> {
        let Mode::Open { rate_per_second } = outcome.mode else { return None };
        if outcome.sustained != Some(false) {
            return None;
        }
        let errors = outcome.errors;
        if errors.unanswered() - errors.timeout > outcome.responses / 100 {
            return Some(Self::Failures);
        }
        if outcome.client_saturated {
            return Some(Self::LoadGenerator);
        }
        let Some(served) = outcome.uncorrected.as_ref().filter(|served| served.count > 0) else {
            return Some(Self::Server);
        };
        let best = float(served.min_micros.max(1));
        if slots(outcome) / best * 1e6 < rate_per_second {
            return Some(Self::Connections);
        }
        let queued = served.mean_micros > best * QUEUE && slots(outcome) >= f64::from(CROWD);
        // The responses that came were fast enough for the rate: others did not come.
        let hung = slots(outcome) / served.mean_micros.max(1.0) * 1e6 >= rate_per_second;
        Some(if queued || hung { Self::Server } else { Self::Unclear })
    }

    /// What a report says of it.
    #[must_use]
    pub(crate) fn words(self, outcome: &Outcome) -> String {
        let connections = match outcome.connections {
            1 => "the one connection was".to_owned(),
            all => format!("all {} connections were", count(all.into())),
        };
        let served = outcome.uncorrected.as_ref();
        let (best, mean) =
            served.map_or((0.0, 0.0), |they| (float(they.min_micros), they.mean_micros));
        match self {
            Self::Server => "the server did not keep up with the rate; latency shows the growing \
                             queue."
                .to_owned(),
            Self::Connections => format!(
                "{connections} busy: a response took {} at best, so they carry {}/s at most; more \
                 connections (-c, {} or more) show what the server can do.",
                time(best),
                rate(slots(outcome) / best.max(1.0) * 1e6),
                count(needed(outcome, best)),
            ),
            Self::LoadGenerator => "the load generator did not keep up with the rate: one of its \
                                    threads was busy all the time; more threads (-t) may."
                .to_owned(),
            Self::Failures => "the rate was missed because requests failed.".to_owned(),
            Self::Unclear => format!(
                "{connections} busy, with {} for a response: either the server or their number is \
                 the limit; more connections (-c) show which.",
                time(mean),
            ),
        }
    }
}

/// Requests that can be under way at once.
fn slots(outcome: &Outcome) -> f64 {
    let each = outcome.pipeline.max(outcome.streams).max(1);
    f64::from(outcome.connections) * f64::from(each)
}

/// Connections that could carry the rate if each response took so many microseconds.
fn needed(outcome: &Outcome, micros: f64) -> u64 {
    let Mode::Open { rate_per_second } = outcome.mode else { return 0 };
    let each = f64::from(outcome.pipeline.max(outcome.streams).max(1));
    whole((rate_per_second * micros / 1e6 / each).ceil() + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;
    use crate::outcome::Errors;
    use crate::report::sample;

    fn missed(connections: u32, micros: &[u64]) -> Outcome {
        let mut served = Histogram::new();
        micros.iter().for_each(|micros| served.record(*micros));
        Outcome {
            mode: Mode::Open { rate_per_second: 3000.0 },
            sustained: Some(false),
            uncorrected: Some(served.latency()),
            ..sample::outcome(connections, 1900.0, 1000)
        }
    }

    #[test]
    fn the_limit_is_named_where_the_figures_show_it() {
        let timeouts = |timeout: u64| Errors { timeout, ..Errors::default() };
        let two = missed(2, &[1000, 1010, 1100]);
        let queue = missed(100, &[200, 30_000, 33_000, 34_000]);
        let unclear = missed(4, &[500, 1500, 2500]);
        let silent = missed(100, &[]);
        let hung = Outcome { errors: timeouts(995), ..missed(10, &[50, 400, 410]) };
        let busy = Outcome { client_saturated: true, ..missed(100, &[200, 210]) };
        let refused =
            Outcome { errors: Errors { connect: 2000, ..Errors::default() }, ..missed(2, &[1000]) };
        let kept = Outcome { sustained: Some(true), ..missed(2, &[1000]) };
        let rows = [
            (&two, Some(Bottleneck::Connections), "they carry 2 000/s at most"),
            (&queue, Some(Bottleneck::Server), "the server did not keep up"),
            (&unclear, Some(Bottleneck::Unclear), "either the server or their number"),
            (&silent, Some(Bottleneck::Server), "the server did not keep up"),
            (&hung, Some(Bottleneck::Server), "the server did not keep up"),
            (&busy, Some(Bottleneck::LoadGenerator), "more threads"),
            (&refused, Some(Bottleneck::Failures), "requests failed"),
            (&kept, None, ""),
        ];
        for (outcome, expected, part) in rows {
            let found = Bottleneck::of(outcome);
            assert_eq!(found, expected, "{part}");
            let words = found.map(|limit| limit.words(outcome)).unwrap_or_default();
            assert!(words.contains(part), "{words}");
        }
        assert!(Bottleneck::Connections.words(&two).contains("(-c, 4 or more)"));
    }
}
