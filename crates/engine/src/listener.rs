//! A listener as one worker sees it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluice_meter::ListenerMeter;

use crate::local::{Scope, View};
use crate::{ConnectionGuard, ListenerPlan};

/// A listener of one worker; its plan changes with each reload.
pub(crate) struct ListenerState {
    scope: RefCell<Rc<Scope>>,
    closed: Cell<bool>,
    worker: usize,
}

impl ListenerState {
    pub(crate) fn new(view: &Rc<View>, plan: &Arc<ListenerPlan>, worker: usize) -> Rc<Self> {
        let scope = Scope { view: Rc::clone(view), listener: Arc::clone(plan) };
        let scope = RefCell::new(Rc::new(scope));
        Rc::new(Self { scope, closed: Cell::new(false), worker })
    }

    /// What a request that begins now runs under.
    #[inline]
    pub(crate) fn scope(&self) -> Rc<Scope> {
        Rc::clone(&self.scope.borrow())
    }

    pub(crate) fn update(&self, view: &Rc<View>, plan: &Arc<ListenerPlan>) {
        let scope = Scope { view: Rc::clone(view), listener: Arc::clone(plan) };
        *self.scope.borrow_mut() = Rc::new(scope);
    }

    /// Stops accepting; connections end after the request they are at.
    pub(crate) fn close(&self) {
        self.closed.set(true);
    }

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    #[inline]
    pub(crate) fn idle_timeout(&self) -> Duration {
        self.scope.borrow().listener.timeouts.idle
    }

    pub(crate) fn guard(&self) -> Arc<ConnectionGuard> {
        Arc::clone(&self.scope.borrow().listener.guard)
    }

    pub(crate) fn plan(&self) -> Arc<ListenerPlan> {
        Arc::clone(&self.scope.borrow().listener)
    }

    pub(crate) fn meter(&self) -> MeterHandle {
        MeterHandle(self.plan(), self.worker)
    }
}

/// This worker's counters of a listener.
pub(crate) struct MeterHandle(Arc<ListenerPlan>, usize);

impl std::ops::Deref for MeterHandle {
    type Target = ListenerMeter;

    fn deref(&self) -> &ListenerMeter {
        self.0.meter.worker(self.1)
    }
}
