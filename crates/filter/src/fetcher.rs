//! Requests of what runs on a worker, in an exchange or beside: to upstreams, by the names they have in the configuration.

use std::cell::RefCell;
use std::rc::Rc;

use crate::gateway::{Fetch, Fetching};

/// Whoever makes them on a worker.
pub trait Fetcher {
    /// The index that the upstream of this name has now; `None` if the configuration has none.
    fn cluster(&self, name: &str) -> Option<usize>;
    /// Makes a request.
    fn fetch(&self, fetch: Fetch) -> Fetching;
}

thread_local! {
    static FETCHER: RefCell<Option<Rc<dyn Fetcher>>> = const { RefCell::new(None) };
}

/// Requests of this thread are made by this one, until it is dropped.
pub struct LentFetcher(());

impl LentFetcher {
    /// Lends it to all that runs on this thread.
    #[must_use]
    pub fn new(fetcher: Rc<dyn Fetcher>) -> Self {
        FETCHER.set(Some(fetcher));
        Self(())
    }
}

impl Drop for LentFetcher {
    fn drop(&mut self) {
        FETCHER.set(None);
    }
}

/// Whoever makes requests on this thread; `None` if it is no worker of a gateway.
#[must_use]
pub fn fetcher() -> Option<Rc<dyn Fetcher>> {
    FETCHER.with_borrow(Clone::clone)
}
