//! gRPC calls by how they ended.

use sluice_message::GrpcStatus;

use crate::Counter;

/// A counter for each status a call can end with.
#[derive(Debug, Default)]
pub struct GrpcCounters([Counter; GrpcStatus::COUNT]);

impl GrpcCounters {
    /// Counts a call that ended so.
    pub fn on_status(&self, status: GrpcStatus) {
        if let Some(counter) = self.0.get(usize::from(status.number())) {
            counter.increment();
        }
    }

    /// How many calls ended so.
    #[must_use]
    pub fn value(&self, status: GrpcStatus) -> u64 {
        self.0.get(usize::from(status.number())).map_or(0, Counter::value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_counter() {
        let counters = GrpcCounters::default();
        for (times, status) in GrpcStatus::all().enumerate() {
            (0..times).for_each(|_| counters.on_status(status));
        }
        let counted: Vec<u64> = GrpcStatus::all().map(|status| counters.value(status)).collect();
        assert_eq!(counted, (0..17).collect::<Vec<u64>>());
    }
}
