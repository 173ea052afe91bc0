//! A listener as one worker sees it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use sluice_meter::ListenerMeter;
use sluice_net::Binding;

use crate::local::{Scope, View, Worker};
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

    /// A listener that accepts nothing: for a connection that came another way.
    pub(crate) fn closed(view: &Rc<View>, plan: &Arc<ListenerPlan>, worker: &Worker) -> Rc<Self> {
        let state = Self::new(view, plan, worker.index);
        state.close();
        state
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

    /// Whether the listener goes on accepting.
    pub(crate) fn is_open(&self, worker: &Worker) -> bool {
        !self.is_closed() && !worker.is_draining()
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

/// A listener that is being accepted from, and what keeps its sockets open.
pub(crate) struct Open {
    pub(crate) binding: Arc<Binding>,
    pub(crate) state: Rc<ListenerState>,
}

/// The listeners of one worker that are being accepted from.
#[derive(Default)]
pub(crate) struct Listeners(RefCell<Vec<Open>>);

impl Listeners {
    /// The one that accepts from these sockets.
    pub(crate) fn find(&self, binding: &Weak<Binding>) -> Option<Rc<ListenerState>> {
        let open = self.0.borrow();
        let found = open.iter().find(|open| Arc::as_ptr(&open.binding) == binding.as_ptr());
        found.map(|open| Rc::clone(&open.state))
    }

    pub(crate) fn add(&self, open: Open) {
        self.0.borrow_mut().push(open);
    }

    /// Closes those whose sockets are none of `bindings`, and lets go of the sockets.
    pub(crate) fn close_others(&self, bindings: &[*const Binding]) {
        self.0.borrow_mut().retain(|open| {
            let kept = bindings.contains(&Arc::as_ptr(&open.binding));
            if !kept {
                open.state.close();
            }
            kept
        });
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
