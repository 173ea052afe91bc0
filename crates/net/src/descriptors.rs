//! Descriptors that are kept back for what has to go on when clients have taken all others.

use std::sync::atomic::{AtomicI32, Ordering};

use rustix::fd::{AsFd, AsRawFd};
use rustix::io::fcntl_dupfd_cloexec;

/// The first descriptor that clients and servers may not have; none is kept back before
/// [`keep_reserve`]. The kernel gives the lowest free number (open(2)), so a number as high as this
/// says that nearly all are taken.
static RESERVE_BEGINS: AtomicI32 = AtomicI32::new(i32::MAX);

/// A share of the limit, within bounds that suffice for a few dozen files and probes.
const SHARE: u64 = 16;
const FEWEST: u64 = 16;
const MOST: u64 = 256;

/// Keeps some of `limit` descriptors back for the admin listener, files and reloads; `None` is no
/// limit, of which nothing has to be kept.
pub fn keep_reserve(limit: Option<u64>) {
    RESERVE_BEGINS.store(limit.map_or(i32::MAX, beginning), Ordering::Relaxed);
}

fn beginning(limit: u64) -> i32 {
    let reserve = (limit / SHARE).clamp(FEWEST, MOST);
    i32::try_from(limit.saturating_sub(reserve)).unwrap_or(i32::MAX)
}

/// Whether this descriptor is one of those kept back.
pub(crate) fn is_reserved(descriptor: &impl AsFd) -> bool {
    descriptor.as_fd().as_raw_fd() >= RESERVE_BEGINS.load(Ordering::Relaxed)
}

/// Whether the next descriptor would be one of those kept back, or there is none.
pub(crate) fn are_scarce(any: &impl AsFd) -> bool {
    fcntl_dupfd_cloexec(any, 0).map_or(true, |next| is_reserved(&next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sixteenth_is_kept_back_within_bounds() {
        let rows = [(256, 240), (1024, 960), (1 << 20, (1 << 20) - 256), (8, 0)];
        for (limit, begins) in rows {
            assert_eq!(beginning(limit), begins, "{limit}");
        }
        assert_eq!(beginning(u64::MAX), i32::MAX);
    }

    #[test]
    fn nothing_is_kept_back_of_no_limit() {
        let file = std::io::stderr();
        keep_reserve(None);
        assert!(!is_reserved(&file) && !are_scarce(&file));
    }
}
