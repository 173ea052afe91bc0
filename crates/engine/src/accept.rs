//! Accepting connections, as far as the limits allow.

use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use sluice_net::{Accepted, Deadline, Listener, Nanos, now, spawn};

use crate::answer::Level;
use crate::burst::{Exchanges, Received};
use crate::connection::Connection;
use crate::guard::{Refusal, Seat};
use crate::handshake::serve_encrypted;
use crate::listener::{ListenerState, Listeners};
use crate::local::Worker;
use crate::proxy_header::serve_announced;
use crate::serve::{give, serve};
use crate::streams::serve_streams;
use crate::team::{HandOver, Handed, Inbox};
use crate::{Beginning, ListenerPlan};

/// Pause while there are no descriptors: they come back when others close.
const PAUSE: Duration = Duration::from_millis(100);

/// Time between two lines about one listener that has no descriptors.
const SILENCE: Nanos = 5_000_000_000;

/// Thousandths of the connections that are closed per [`PAUSE`], as far as they are idle.
const SHED: usize = 250;

/// Accepts until the listener is closed. What the kernel had queued by then is still served,
/// unless another process goes on with the socket.
pub(crate) async fn accept_loop(
    worker: Rc<Worker>,
    exchanges: Rc<Exchanges>,
    state: Rc<ListenerState>,
    listener: Listener,
) {
    let mut shortage = Shortage::default();
    while let Some(accepted) = accept_or_close(&listener, &state).await {
        match accepted {
            Ok(accepted) => {
                // The admin listener takes what is kept back: it has to answer now above all.
                if accepted.is_in_reserve() && worker.view().snapshot.cap.is_some() {
                    while listener.lacks_descriptors() && state.is_open(&worker) {
                        shortage.make_room(&worker, &state, "few descriptors are left").await;
                    }
                }
                let plan = state.plan();
                if let Some(excess) = plan.connections.excess(plan.guard.total()) {
                    worker.close_idle(usize::try_from(excess).unwrap_or(usize::MAX)).await;
                }
                admit(&worker, &exchanges, &state, accepted);
            }
            Err(error) => shortage.make_room(&worker, &state, error).await,
        }
    }
    listener.unwatch();
    for accepted in std::iter::from_fn(|| listener.try_accept()).take(listener.leftovers()) {
        admit(&worker, &exchanges, &state, accepted);
    }
}

/// A time without descriptors, as one listener of a worker sees it.
#[derive(Default)]
struct Shortage {
    pause: Deadline,
    logged: Option<Nanos>,
}

impl Shortage {
    /// Has idle connections of all workers closed, and waits a little.
    #[cold]
    async fn make_room(&mut self, worker: &Worker, state: &ListenerState, cause: impl Display) {
        if self.logged.is_none_or(|logged| now().saturating_sub(logged) >= SILENCE) {
            self.logged = Some(now());
            let name = &state.plan().name;
            let line = format_args!(
                "listener {name}: connections wait, idle ones are closed to make room: {cause}"
            );
            worker.fault_log.write(Level::Error, line);
        }
        worker.meters.descriptor_shortages.increment();
        worker.member.shed_others();
        worker.shed(SHED).await;
        self.pause.sleep(PAUSE).await;
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

fn admit(
    worker: &Rc<Worker>,
    exchanges: &Rc<Exchanges>,
    state: &Rc<ListenerState>,
    accepted: Accepted,
) {
    let plan = state.plan();
    // Control says once that memory is short: a line for each connection would be no help.
    if worker.view().snapshot.is_full() {
        let meter = plan.meter.worker(worker.index);
        meter.accepted.increment();
        meter.rejected_memory.increment();
        return;
    }
    let peer = accepted.peer.ip();
    let entered = match plan.header_timeout(peer) {
        None => plan.guard.enter(peer, &plan.connections),
        // The header will say whose connection it is.
        Some(_) => plan.guard.enter_unnamed(&plan.connections),
    };
    let seat = match entered {
        Ok(seat) => seat,
        Err(refusal) => return refuse(worker, &plan, refusal),
    };
    if let Some((accepted, seat)) = share(worker, state, accepted, seat) {
        take_in(worker, exchanges, state, (accepted, seat));
    }
}

/// Gives a new connection to a worker that has far less to do; returned if it stays here.
fn share(
    worker: &Worker,
    state: &ListenerState,
    accepted: Accepted,
    seat: Seat,
) -> Option<(Accepted, Seat)> {
    if worker.is_draining() {
        return Some((accepted, seat));
    }
    let scope = state.scope();
    let home = scope.listener.service.as_ref().and_then(|service| service.home(worker.index));
    let other = match home {
        Some(home) => Some(home).filter(|home| *home != worker.index),
        None => worker.member.idler(&worker.meters),
    };
    let Some(other) = other else { return Some((accepted, seat)) };
    let snapshot = Rc::clone(&scope.view).snapshot.clone();
    let plan = scope.listener.clone();
    match worker.member.hand_over(other, HandOver { accepted, seat, snapshot, plan }) {
        Ok(()) => {
            worker.meter().handed_over.increment();
            None
        }
        Err(HandOver { accepted, seat, .. }) => Some((accepted, seat)),
    }
}

/// Serves the connections that other workers hand over, for as long as the worker lives.
pub(crate) async fn adopt_loop(
    worker: Rc<Worker>,
    exchanges: Rc<Exchanges>,
    listeners: Rc<Listeners>,
    mut inbox: Inbox,
) {
    while let Some(handed) = inbox.0.recv().await {
        let Handed::Connection(HandOver { accepted, seat, snapshot, plan }) = handed else {
            worker.shed(SHED).await;
            continue;
        };
        // A listener that this worker does not have yet, or no longer: the connection is served all
        // the same, under the snapshot it was accepted under.
        let state = listeners
            .find(&plan.binding)
            .unwrap_or_else(|| ListenerState::closed(&worker.build_view(snapshot), &plan, &worker));
        take_in(&worker, &exchanges, &state, (accepted, seat));
        worker.member.on_taken();
    }
}

fn take_in(
    worker: &Rc<Worker>,
    exchanges: &Rc<Exchanges>,
    state: &Rc<ListenerState>,
    (accepted, seat): (Accepted, Seat),
) {
    let peer = accepted.peer.ip();
    match accepted.into_stream() {
        Ok(stream) => {
            let connection = Connection::new(stream, peer, seat, state, worker);
            let exchanges = Rc::clone(exchanges);
            let plan = state.plan();
            match (plan.header_timeout(peer), &plan.tls) {
                (Some(timeout), _) => spawn(serve_announced(exchanges, connection, timeout)),
                (None, None) if plan.service.is_some() => give(connection),
                (None, None) if plan.beginning == Beginning::Shared => {
                    spawn(serve_streams(exchanges, Rc::new(connection), Received::default()));
                }
                (None, None) => spawn(serve(exchanges, Rc::new(connection))),
                (None, Some(tls)) => spawn(serve_encrypted(exchanges, connection, tls.clone())),
            }
        }
        Err(error) => {
            let plan = state.plan();
            plan.guard.leave(seat);
            let line = format_args!("listener {}: cannot watch a connection: {error}", plan.name);
            worker.fault_log.write(Level::Error, line);
        }
    }
}

/// The connection is closed without a word: whoever floods us is not worth an answer.
fn refuse(worker: &Worker, plan: &ListenerPlan, refusal: Refusal) {
    let meter = plan.meter.worker(worker.index);
    meter.accepted.increment();
    let (counter, what) = match refusal {
        Refusal::Listener => (&meter.rejected_listener_limit, "in all"),
        Refusal::Client => (&meter.rejected_client_limit, "from one client"),
    };
    counter.increment();
    let name = &plan.name;
    let line = format_args!("listener {name}: connection refused, too many {what}");
    worker.fault_log.write(Level::Warn, line);
}
