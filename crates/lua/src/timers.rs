//! What is to happen when time has passed: functions that are called, and tasks that go on.

use std::collections::{BTreeMap, HashMap};

use sluice_net::Nanos;

/// The timers of a state. One task waits for the first of them, however many there are.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    /// Tasks that sleep, by when they go on; the number tells those of one moment apart.
    wakes: BTreeMap<(Nanos, u64), T>,
    /// Calls, by when they are due and their number: where the registry keeps what is called.
    calls: BTreeMap<(Nanos, u64), i32>,
    /// When a call is due, by its number.
    moments: HashMap<u64, Nanos>,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self { wakes: BTreeMap::new(), calls: BTreeMap::new(), moments: HashMap::new() }
    }
}

impl<T> Timers<T> {
    /// Number of calls that are to come.
    pub(crate) fn calls(&self) -> usize {
        self.calls.len()
    }

    /// This task, with a number of its own, goes on then.
    pub(crate) fn wake(&mut self, at: Nanos, number: u64, task: T) {
        self.wakes.insert((at, number), task);
    }

    /// This is called then, unless it is cancelled.
    pub(crate) fn call(&mut self, at: Nanos, number: u64, call: i32) {
        self.calls.insert((at, number), call);
        self.moments.insert(number, at);
    }

    /// Takes a call back, if it is still to come.
    pub(crate) fn cancel(&mut self, number: u64) -> Option<i32> {
        let at = self.moments.remove(&number)?;
        self.calls.remove(&(at, number))
    }

    /// The next task whose time is over.
    pub(crate) fn pop_wake(&mut self, now: Nanos) -> Option<T> {
        let first = self.wakes.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// The next call that is due.
    pub(crate) fn pop_call(&mut self, now: Nanos) -> Option<i32> {
        let first = self.calls.first_entry()?;
        let (at, number) = *first.key();
        if at > now {
            return None;
        }
        self.moments.remove(&number);
        Some(first.remove())
    }

    /// Whether some call is due.
    pub(crate) fn is_call_due(&self, now: Nanos) -> bool {
        self.calls.first_key_value().is_some_and(|((at, _), _)| *at <= now)
    }

    /// When something is due next; calls do not count where they have to wait anyway.
    pub(crate) fn next(&self, crowded: bool) -> Option<Nanos> {
        let first = |(at, _): &(Nanos, u64)| *at;
        let wake = self.wakes.first_key_value().map(|(key, _)| first(key));
        let call = self.calls.first_key_value().map(|(key, _)| first(key));
        wake.into_iter().chain(call.filter(|_| !crowded)).min()
    }
}
