//! Accepting connections, as far as the limits allow.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use sluice_meter::ListenerMeter;
use sluice_net::{Accepted, Deadline, Listener, spawn};

use crate::answer::Level;
use crate::connection::{Connection, serve};
use crate::guard::Refusal;
use crate::local::{Scope, View, Worker};
use crate::{ConnectionGuard, ListenerPlan};

/// Pause after the kernel refused a connection: descriptors come back when others close.
const PAUSE: Duration = Duration::from_millis(100);

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

/// Accepts until the listener is closed. What the kernel had queued by then is still served.
pub(crate) async fn accept_loop(worker: Rc<Worker>, state: Rc<ListenerState>, listener: Listener) {
    let pause = Deadline::new();
    while let Some(accepted) = accept_or_close(&listener, &state).await {
        match accepted {
            Ok(accepted) => admit(&worker, &state, accepted),
            Err(error) => {
                let name = &state.plan().name;
                worker.fault_log.write(
                    Level::Error,
                    format_args!("listener {name}: cannot accept connections: {error}"),
                );
                pause.sleep(PAUSE).await;
            }
        }
    }
    while let Some(accepted) = listener.try_accept() {
        admit(&worker, &state, accepted);
    }
}

async fn accept_or_close(
    listener: &Listener,
    state: &ListenerState,
) -> Option<io::Result<Accepted>> {
    let mut accept = pin!(listener.accept());
    poll_fn(|cx| {
        if state.is_closed() {
            return Poll::Ready(None);
        }
        accept.as_mut().poll(cx).map(Some)
    })
    .await
}

fn admit(worker: &Rc<Worker>, state: &Rc<ListenerState>, accepted: Accepted) {
    let plan = state.plan();
    let peer = accepted.peer.ip();
    let seat = match plan.guard.enter(peer, &plan.connections) {
        Ok(seat) => seat,
        Err(refusal) => return refuse(worker, &plan, refusal),
    };
    match accepted.into_stream() {
        Ok(stream) => spawn(serve(Rc::new(Connection::new(stream, peer, seat, state, worker)))),
        Err(error) => {
            plan.guard.leave(seat);
            let line = format_args!("listener {}: cannot watch a connection: {error}", plan.name);
            worker.fault_log.write(Level::Error, line);
        }
    }
}

/// The connection is closed without a word: whoever floods us is not worth an answer.
fn refuse(worker: &Worker, plan: &ListenerPlan, refusal: Refusal) {
    let meter = plan.meter.worker(worker.index);
    let (counter, what) = match refusal {
        Refusal::Listener => (&meter.rejected_listener_limit, "in all"),
        Refusal::Client => (&meter.rejected_client_limit, "from one client"),
    };
    counter.increment();
    let name = &plan.name;
    let line = format_args!("listener {name}: connection refused, too many {what}");
    worker.fault_log.write(Level::Warn, line);
}
