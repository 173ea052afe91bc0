//! Whose something is that is kept beside an exchange.

use std::sync::atomic::{AtomicU64, Ordering};

/// Whose numbers these are: a filter takes one when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(u64);

impl Owner {
    /// One that nobody has.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "no two are equal: none is the default")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
