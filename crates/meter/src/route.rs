//! What is counted for a route.

use crate::{Counter, GrpcCounters, Histogram};

/// Responses by the class of their status.
#[derive(Debug, Default)]
pub struct ClassCounters([Counter; 5]);

/// The label values of [`ClassCounters`].
pub(crate) const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

impl ClassCounters {
    /// Counts a response. A status that has no class (999 is let through from origins) counts as
    /// 5xx, as clients must treat it (RFC 9110, section 15).
    #[inline]
    pub fn on_status(&self, status: u16) {
        let class = match status {
            200..300 => 1,
            100..200 => 0,
            300..400 => 2,
            400..500 => 3,
            _ => 4,
        };
        if let Some(counter) = self.0.get(class) {
            counter.increment();
        }
    }

    /// Responses of each class, 1xx first.
    pub fn values(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(Counter::value)
    }

    /// All responses.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.values().fold(0, u64::wrapping_add)
    }
}

/// One worker's counts for one route.
#[derive(Debug, Default)]
pub struct RouteMeter {
    /// Final responses by class.
    pub responses: ClassCounters,
    /// gRPC calls by how they ended.
    pub calls: GrpcCounters,
    /// From the request's first byte to the response's last.
    pub duration: Histogram,
    /// Bytes of requests, heads included.
    pub received_bytes: Counter,
    /// Bytes of responses, heads included.
    pub sent_bytes: Counter,
    /// Requests of which some are copied to another upstream.
    pub mirror_candidates: Counter,
    /// Requests copied.
    pub mirrored: Counter,
    /// Requests not copied although it was their turn.
    pub mirror_skipped: Counter,
    /// Copies that got no response.
    pub mirror_failures: Counter,
}

impl RouteMeter {
    /// Counts a finished exchange: the final status, its duration, bytes from and to the client.
    #[inline]
    pub fn on_response(&self, status: u16, nanos: u64, received: u64, sent: u64) {
        self.responses.on_status(status);
        self.duration.observe_nanos(nanos);
        self.received_bytes.add(received);
        self.sent_bytes.add(sent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_their_class() {
        let cases = [
            (100, 0),
            (199, 0),
            (200, 1),
            (299, 1),
            (304, 2),
            (404, 3),
            (499, 3),
            (500, 4),
            (599, 4),
            (999, 4),
            (0, 4),
        ];
        for (status, class) in cases {
            let meter = RouteMeter::default();
            meter.on_response(status, 5, 7, 11);
            let expected: Vec<u64> = (0..5).map(|at| u64::from(at == class)).collect();
            assert_eq!(meter.responses.values().collect::<Vec<_>>(), expected, "{status}");
            assert_eq!((meter.received_bytes.value(), meter.sent_bytes.value()), (7, 11));
            assert_eq!(meter.duration.sum_nanos(), 5);
        }
    }
}
