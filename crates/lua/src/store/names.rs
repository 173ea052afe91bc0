//! The stores of the process: there are as long as a script may use them, so that reloads keep what is in them.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::Store;

static ALL: Mutex<Vec<(String, Weak<Store>)>> = Mutex::new(Vec::new());

/// The store of a name, made with this size if there is none.
pub(crate) fn open(name: &str, size: usize) -> Arc<Store> {
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|(_, store)| store.strong_count() > 0);
    let known = all.iter().find(|(known, _)| known == name);
    if let Some(store) = known.and_then(|(_, store)| store.upgrade()) {
        return store;
    }
    let store = Arc::new(Store::new(size));
    all.push((name.to_owned(), Arc::downgrade(&store)));
    store
}
