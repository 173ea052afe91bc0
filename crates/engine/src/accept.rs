//! Accepting connections, as far as the limits allow.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use sluice_net::{Accepted, Deadline, Listener, spawn};

use crate::ListenerPlan;
use crate::answer::Level;
use crate::burst::{Exchanges, serve};
use crate::connection::Connection;
use crate::guard::Refusal;
use crate::listener::ListenerState;
use crate::local::Worker;

/// Pause after the kernel refused a connection: descriptors come back when others close.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts until the listener is closed. What the kernel had queued by then is still served.
pub(crate) async fn accept_loop(
    worker: Rc<Worker>,
    exchanges: Rc<Exchanges>,
    state: Rc<ListenerState>,
    listener: Listener,
) {
    let pause = Deadline::new();
    while let Some(accepted) = accept_or_close(&listener, &state).await {
        match accepted {
            Ok(accepted) => admit(&worker, &exchanges, &state, accepted),
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
        admit(&worker, &exchanges, &state, accepted);
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
    let peer = accepted.peer.ip();
    let seat = match plan.guard.enter(peer, &plan.connections) {
        Ok(seat) => seat,
        Err(refusal) => return refuse(worker, &plan, refusal),
    };
    match accepted.into_stream() {
        Ok(stream) => {
            let connection = Connection::new(stream, peer, seat, state, worker);
            spawn(serve(Rc::clone(exchanges), Rc::new(connection)));
        }
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
