//! How much a worker has to do: connections on which something happened lately.

use std::cell::Cell;

use sluice_meter::WorkerMeter;

/// Counts of one worker. A connection is busy from the second in which something happened on it to the
/// end of the next one.
#[derive(Default)]
pub(crate) struct Activity {
    /// The second we are in, counted from any beginning.
    second: Cell<u32>,
    /// Connections on which something happened in this second.
    now: Cell<u32>,
    /// Those on which it did in the one before, but not yet in this one.
    before: Cell<u32>,
}

/// When something happened last on a connection.
#[derive(Default)]
pub(crate) struct LastSeen(Cell<u32>);

impl Activity {
    /// Whether nothing has happened on a connection in this second yet.
    #[inline]
    pub(crate) fn is_first(&self, seen: &LastSeen) -> bool {
        seen.0.get() != self.second.get()
    }

    /// Something happens on a connection, for the first time in this second.
    #[cold]
    pub(crate) fn touch(&self, seen: &LastSeen, meter: &WorkerMeter) {
        if seen.0.replace(self.second.get()) == self.second.get().wrapping_sub(1) {
            add(&self.before, -1);
        }
        add(&self.now, 1);
        self.publish(meter);
    }

    /// A connection is new: it counts as busy.
    pub(crate) fn enter(&self, seen: &LastSeen, meter: &WorkerMeter) {
        seen.0.set(self.second.get());
        add(&self.now, 1);
        meter.connections.increment();
        self.publish(meter);
    }

    /// A connection is gone.
    pub(crate) fn leave(&self, seen: &LastSeen, meter: &WorkerMeter) {
        let age = self.second.get().wrapping_sub(seen.0.get());
        match age {
            0 => add(&self.now, -1),
            1 => add(&self.before, -1),
            _ => {}
        }
        meter.connections.decrement();
        self.publish(meter);
    }

    /// A second has passed.
    pub(crate) fn tick(&self, meter: &WorkerMeter) {
        self.second.set(self.second.get().wrapping_add(1));
        self.before.set(self.now.replace(0));
        self.publish(meter);
    }

    fn publish(&self, meter: &WorkerMeter) {
        meter.busy.set(i64::from(self.now.get()) + i64::from(self.before.get()));
    }
}

fn add(count: &Cell<u32>, amount: i32) {
    count.set(count.get().saturating_add_signed(amount));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_busy_for_a_second_after_the_last_word() {
        let (activity, meter) = (Activity::default(), WorkerMeter::default());
        let (talks, silent) = (LastSeen::default(), LastSeen::default());
        activity.enter(&talks, &meter);
        activity.enter(&silent, &meter);
        assert_eq!(meter.busy.value(), 2);
        activity.tick(&meter);
        assert_eq!(meter.busy.value(), 2);
        assert!(activity.is_first(&talks));
        activity.touch(&talks, &meter);
        assert!(!activity.is_first(&talks) && activity.is_first(&silent));
        assert_eq!(meter.busy.value(), 2, "counted once");
        activity.tick(&meter);
        assert_eq!((meter.busy.value(), meter.connections.value()), (1, 2));
        for _ in 0..3 {
            activity.tick(&meter);
        }
        assert_eq!(meter.busy.value(), 0);
        activity.touch(&silent, &meter);
        assert_eq!(meter.busy.value(), 1, "idle no more");
    }

    #[test]
    fn whoever_leaves_is_counted_no_longer() {
        for ticks in 0..4 {
            let (activity, meter) = (Activity::default(), WorkerMeter::default());
            let seen = LastSeen::default();
            activity.enter(&seen, &meter);
            (0..ticks).for_each(|_| activity.tick(&meter));
            activity.leave(&seen, &meter);
            assert_eq!((meter.busy.value(), meter.connections.value()), (0, 0), "{ticks}");
        }
    }
}
