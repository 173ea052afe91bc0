//! A value that each thread has for itself, so that no thread waits for another.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Whose number is next.
static NEXT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The values of this thread, of all owners that it has worked for.
    static VALUES: RefCell<Vec<Slot>> = const { RefCell::new(Vec::new()) };
}

struct Slot {
    owner: u64,
    /// Gone when the owner is.
    alive: Weak<()>,
    value: Box<dyn Any>,
}

/// A value that each thread has for itself. What a thread has goes when the owner is gone and another one
/// gets its first value there.
pub(crate) struct PerThread<T> {
    number: u64,
    alive: Arc<()>,
    kind: PhantomData<fn() -> T>,
}

impl<T: 'static> PerThread<T> {
    /// Nothing yet on any thread.
    pub(crate) fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { number, alive: Arc::new(()), kind: PhantomData }
    }

    /// Works with this thread's value, which `make` makes if there is none yet. `work` must not come
    /// back here.
    #[inline]
    pub(crate) fn with<R>(
        &self,
        make: impl FnOnce() -> T,
        work: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        VALUES.with(|values| {
            let mut values = values.try_borrow_mut().ok()?;
            let place = match values.iter().position(|slot| slot.owner == self.number) {
                Some(place) => place,
                None => self.add(&mut values, make()),
            };
            values.get_mut(place)?.value.downcast_mut().map(work)
        })
    }

    #[cold]
    fn add(&self, values: &mut Vec<Slot>, value: T) -> usize {
        values.retain(|slot| slot.alive.strong_count() > 0);
        let alive = Arc::downgrade(&self.alive);
        values.push(Slot { owner: self.number, alive, value: Box::new(value) });
        values.len() - 1
    }
}

impl<T> fmt::Debug for PerThread<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PerThread")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::PerThread;

    #[test]
    fn each_thread_has_its_own_and_each_owner_too() {
        let (one, other) = (PerThread::<u32>::new(), PerThread::<u32>::new());
        let count = |owner: &PerThread<u32>| {
            let next = |value: &mut u32| {
                *value += 1;
                *value
            };
            owner.with(|| 0, next)
        };
        assert_eq!((count(&one), count(&one), count(&other)), (Some(1), Some(2), Some(1)));
        std::thread::scope(|scope| {
            let elsewhere = scope.spawn(|| count(&one));
            assert_eq!(elsewhere.join().unwrap(), Some(1));
        });
        assert_eq!(count(&one), Some(3));
    }

    #[test]
    fn what_nobody_owns_any_more_goes() {
        let kept = Arc::new(());
        let first = PerThread::<Arc<()>>::new();
        first.with(|| Arc::clone(&kept), |_| ()).unwrap();
        drop(first);
        assert_eq!(Arc::strong_count(&kept), 2, "nobody looked yet");
        PerThread::<u8>::new().with(|| 0, |_| ()).unwrap();
        assert_eq!(Arc::strong_count(&kept), 1);
    }
}
