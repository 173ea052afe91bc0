//! A connection that carries many requests at once.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use sluice_conn::h2::{Arrival, Failure, Http2Server, Pause};
use sluice_conn::linger;
use sluice_message::Fault;
use sluice_net::{Nanos, now, spawn};
use sluice_wire::h2::Error;

use crate::answer::Level;
use crate::burst::{Exchanges, Job, Received};
use crate::connection::Connection;
use crate::desk::{Desk, Order};

/// What the connection came to while it was waited for.
enum Next {
    Request(Arrival),
    /// The client has closed it, or broke it.
    Gone(Option<Failure>),
    /// All is served and said.
    Over,
}

/// Serves a connection of which `received` was read already, until it ends.
pub(crate) async fn serve_streams(
    exchanges: Rc<Exchanges>,
    connection: Rc<Connection>,
    received: Received,
) {
    let Some(config) = connection.listener.plan().http2 else { return };
    let server = Http2Server::new(&config, &received.0);
    drop(received);
    let mut watch = Watch { at: now(), progress: 0, draining: None };
    loop {
        let mut desk = Desk::take();
        match poll_fn(|cx| watch.poll(cx, &server, &connection, &mut desk)).await {
            Next::Request(arrival) => {
                begin(&exchanges, &connection, (arrival, desk)).await;
                if connection.served.get() >= connection.listener.plan().connections.requests {
                    server.drain();
                }
            }
            Next::Gone(None) => return desk.leave(),
            Next::Gone(Some(failure)) => {
                desk.leave();
                // Streams hear of it now, not when the client has read why.
                drop(server);
                let Some(rule) = failure.rule else { return };
                tell(&connection, failure.fault, rule);
                return linger(&connection.stream, &connection.deadline).await;
            }
            Next::Over => {
                desk.leave();
                return linger(&connection.stream, &connection.deadline).await;
            }
        }
    }
}

/// Answers a request at once, or leaves it to a task of its own if it has to wait.
async fn begin(
    exchanges: &Rc<Exchanges>,
    connection: &Rc<Connection>,
    (arrival, mut desk): (Arrival, Box<Desk>),
) {
    connection.touch();
    let Arrival { stream, refusal, .. } = arrival;
    let connection = Rc::clone(connection);
    let worker = Rc::clone(&connection.worker);
    desk.order = Some(Order { connection, stream, refusal });
    let mut running = exchanges.start(Job::Request(desk));
    match poll_fn(|cx| Poll::Ready(Pin::new(&mut running).poll(cx))).await {
        Poll::Ready(Ok(_)) => {}
        Poll::Ready(Err(panicked)) => worker.on_panic(&panicked),
        Poll::Pending => spawn(async move {
            if let Err(panicked) = running.await {
                worker.on_panic(&panicked);
            }
        }),
    }
}

/// Since when a connection waits for its client, and whether it is to end.
struct Watch {
    at: Nanos,
    progress: u64,
    /// Since when the client has been asked for no more requests.
    draining: Option<Nanos>,
}

impl Watch {
    fn poll(
        &mut self,
        cx: &Context<'_>,
        server: &Http2Server,
        connection: &Connection,
        desk: &mut Desk,
    ) -> Poll<Next> {
        self.drain(server, connection);
        match server.poll_request(cx, &connection.stream, &mut desk.head) {
            Poll::Ready(Ok(Some(arrival))) => return Poll::Ready(Next::Request(arrival)),
            Poll::Ready(Ok(None)) => return Poll::Ready(Next::Gone(None)),
            Poll::Ready(Err(failure)) => return Poll::Ready(Next::Gone(Some(failure))),
            Poll::Pending => {}
        }
        if server.is_drained() {
            return Poll::Ready(Next::Over);
        }
        self.poll_patience(cx, server, connection)
    }

    /// Ends it gracefully if the worker or the listener ends: the last request is named when the client
    /// knows of it, or has had the time to.
    fn drain(&mut self, server: &Http2Server, connection: &Connection) {
        let worker = &connection.worker;
        match self.draining {
            None if worker.is_draining() || connection.listener.is_closed() => {
                server.drain();
                self.draining = Some(now());
            }
            Some(since) if since.saturating_add(nanos(worker.patience.get())) <= now() => {
                server.end_drain();
            }
            _ => {}
        }
    }

    fn poll_patience(
        &mut self,
        cx: &Context<'_>,
        server: &Http2Server,
        connection: &Connection,
    ) -> Poll<Next> {
        let progress = server.progress();
        if self.progress != progress {
            self.progress = progress;
            self.at = now();
        }
        let timeouts = connection.listener.plan().timeouts;
        let pause = server.pause();
        let limit = match pause {
            Pause::Idle => timeouts.idle,
            Pause::Frame => timeouts.head,
            Pause::Output => timeouts.write,
            Pause::Streams => Duration::MAX,
        };
        let patience =
            self.draining.map(|at| at.saturating_add(nanos(connection.worker.patience.get())));
        let end = self
            .at
            .saturating_add(nanos(limit))
            .min(patience.filter(|at| *at > now()).unwrap_or(Nanos::MAX));
        let chosen = pause == Pause::Idle && connection.worker.selection.falls_on(self.at);
        if !chosen && connection.deadline.poll_at(end, cx).is_pending() {
            return Poll::Pending;
        }
        match pause {
            Pause::Idle => {
                // The client hears of it before the connection is closed.
                server.end_drain();
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            // In the middle of a frame, or of what it was to take.
            _ => Poll::Ready(Next::Gone(None)),
        }
    }
}

/// Counts and logs which rule a client broke.
fn tell(connection: &Connection, fault: Fault, rule: Error) {
    let worker = &connection.worker;
    worker.meters.faults().worker(worker.index).on_fault(fault);
    connection.listener.meter().http2.on_error(rule.reason.index());
    let (name, peer) = (&connection.listener.plan().name, connection.peer);
    let (reason, code) = (rule.reason.name(), rule.code.name());
    let line =
        format_args!("listener {name}: HTTP/2 connection ended: {reason} ({code}), client {peer}");
    worker.fault_log.write(Level::Warn, line);
}

fn nanos(duration: Duration) -> Nanos {
    Nanos::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}

#[cfg(test)]
mod tests {
    use sluice_meter::HTTP2_REASONS;
    use sluice_wire::h2::Reason;

    #[test]
    fn every_rule_is_counted_under_its_word() {
        assert_eq!(Reason::ALL.map(Reason::name), HTTP2_REASONS);
        for (at, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), at);
        }
    }
}
