//! Bytes that may be taken, and never more than that.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many bytes there are, and how many of them are taken.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: AtomicU64,
    used: AtomicU64,
}

impl Budget {
    pub(crate) const fn new(limit: u64) -> Self {
        Self { limit: AtomicU64::new(limit), used: AtomicU64::new(0) }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// There are so many from now on; those that are taken already stay so.
    pub(crate) fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// There are no more than so many from now on.
    pub(crate) fn lower_limit(&self, limit: u64) {
        self.limit.fetch_min(limit, Ordering::Relaxed);
    }

    /// Takes so many. While there are too few, less wanted things go for them: `give_up` says whether one went.
    pub(crate) fn reserve(&self, bytes: u64, mut give_up: impl FnMut() -> bool) -> bool {
        loop {
            let (used, limit) = (self.used(), self.limit());
            if bytes > limit {
                return false;
            }
            let wanted = used.saturating_add(bytes);
            if wanted > limit {
                if !give_up() {
                    return false;
                }
                continue;
            }
            let order = Ordering::Relaxed;
            if self.used.compare_exchange_weak(used, wanted, order, order).is_ok() {
                return true;
            }
        }
    }

    /// Has things go until no more is taken than there is.
    pub(crate) fn shrink(&self, mut give_up: impl FnMut() -> bool) {
        while self.used() > self.limit() && give_up() {}
    }

    /// These are taken already, whether there are so many or not.
    pub(crate) fn count(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives bytes back.
    pub(crate) fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}
