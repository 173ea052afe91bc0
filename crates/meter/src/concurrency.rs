//! What is known of a limit of concurrency at one moment.

use std::fmt;

/// A limit of concurrency that can be asked how it is doing.
pub trait ConcurrencySource: fmt::Debug + Send + Sync {
    /// How it is doing.
    fn reading(&self) -> ConcurrencyReading;
}

/// A limit of concurrency at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConcurrencyReading {
    /// Requests that may be under way.
    pub limit: u32,
    /// Requests under way.
    pub active: u32,
    /// Requests that wait.
    pub waiting: u32,
    /// Requests refused because as many waited as may.
    pub refused_full: u64,
    /// Requests refused because they waited too long.
    pub refused_late: u64,
}
