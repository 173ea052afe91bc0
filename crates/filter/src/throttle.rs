//! How filters hold connections to a bandwidth.

use std::fmt::Debug;

use crate::owner::Owner;

/// A direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// What the client gets.
    Download,
    /// What it sends.
    Upload,
}

/// So many bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// Bytes in each second.
    pub bytes: u64,
    /// Bytes that may go at once; they come back at the rate.
    pub burst: u64,
}

/// What holds the connections of clients to a bandwidth. All requests of a connection that are held by the same
/// share what it allows.
pub trait Throttle: Debug + Send + Sync {
    /// Whose bandwidth it is: connections remember what they have used of it.
    fn owner(&self) -> Owner;

    /// The bandwidth of a direction, if that is limited.
    fn bandwidth(&self, way: Way) -> Option<Bandwidth>;

    /// Some bytes had to wait for so many nanoseconds, on this worker.
    fn on_wait(&self, worker: usize, way: Way, nanos: u64);
}
