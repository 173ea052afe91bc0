//! What a connection has to say, served in one go.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use sluice_conn::{Downstream, HeadArrival, Receiver, Sender, linger};
use sluice_message::{Fault, FaultKind, RequestHead, ResponseHead};
use sluice_net::{Nanos, now};

use crate::answer::Level;
use crate::connection::Connection;
use crate::coroutine::{Coroutines, Crowd, Jobs, Panicked};
use crate::exchange::{After, Exchange, Step};
use crate::proxy::Halves;

/// The coroutines that exchanges run in.
pub(crate) type Exchanges = Coroutines<Rc<Connection>, Ending>;

/// Coroutines for one worker.
pub(crate) fn exchanges(crowd: Crowd) -> Rc<Exchanges> {
    Rc::new(Coroutines::new(crowd, exchange_loop))
}

/// How a connection's burst of exchanges ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All is answered; the connection waits for more.
    Idle,
    /// The last answer is out; the client may still be sending.
    Linger,
    /// Nobody is there, or the connection must not look as if it had ended well.
    Gone,
}

/// Heads larger than this give their memory back after the burst.
const HEAD_KEPT: usize = 16 * 1024;

/// Serves a connection until it ends.
pub(crate) async fn serve(exchanges: Rc<Exchanges>, connection: Rc<Connection>) {
    while wait_for_request(&connection).await == Wait::Readable {
        let worker = &connection.worker;
        match exchanges.run(Rc::clone(&connection), || connection.touch()).await {
            Ok(Ending::Idle) => {}
            Ok(Ending::Linger) => return linger(&connection.stream, &connection.deadline).await,
            Ok(Ending::Gone) => return,
            Err(Panicked(payload)) => {
                worker.meters.panics.increment();
                let why = panic_text(&*payload);
                worker.fault_log.write(Level::Error, format_args!("an exchange panicked: {why}"));
                return;
            }
        }
    }
}

fn panic_text(payload: &(dyn std::any::Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason given")
}

/// What waiting between requests came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Readable,
    Over,
}

async fn wait_for_request(connection: &Connection) -> Wait {
    let limit = connection.listener.idle_timeout();
    let since = now();
    let at = since.saturating_add(nanos(limit));
    poll_fn(|cx| {
        if connection.stream.poll_readable(cx).is_ready() {
            return Poll::Ready(Wait::Readable);
        }
        if connection.worker.selection.falls_on(since) {
            return Poll::Ready(Wait::Over);
        }
        // Every task is woken when the worker begins to drain or a listener goes.
        if connection.worker.is_draining() || connection.listener.is_closed() {
            // A client that is busy has its next request on the way: it gets an answer that
            // announces the end, instead of a closed connection (RFC 9112, 9.6).
            let quiet = since.saturating_add(nanos(connection.worker.patience.get()));
            return connection.deadline.poll_at(at.min(quiet), cx).map(|_| Wait::Over);
        }
        connection.deadline.poll_at(at, cx).map(|_| Wait::Over)
    })
    .await
}

fn nanos(duration: Duration) -> Nanos {
    Nanos::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}

/// What exchanges are made with, used again and again.
struct Bench {
    request: RequestHead,
    response: ResponseHead,
    receiver: Receiver,
    sender: Sender,
    upstream_receiver: Receiver,
    upstream_sender: Sender,
}

impl Bench {
    fn new() -> Self {
        Self {
            request: RequestHead::new(),
            response: ResponseHead::new(),
            receiver: Receiver::new(),
            sender: Sender::new(),
            upstream_receiver: Receiver::new(),
            upstream_sender: Sender::new(),
        }
    }
}

/// The coroutine that runs exchanges.
fn exchange_loop(jobs: Jobs<Rc<Connection>, Ending>) -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(async move {
        let mut bench = Bench::new();
        loop {
            let connection = jobs.next().await;
            let ending = serve_burst(&connection, &mut bench).await;
            bench.request.fields.shrink(HEAD_KEPT);
            bench.response.fields.shrink(HEAD_KEPT);
            // The job's own handle goes before the borrower sees the result.
            drop(connection);
            jobs.finish(ending);
        }
    })
}

/// Answers what the connection has to say, pipelined requests in one go.
async fn serve_burst(connection: &Connection, bench: &mut Bench) -> Ending {
    let Bench { request, response, receiver, sender, .. } = bench;
    let upstream = (&mut bench.upstream_receiver, &mut bench.upstream_sender);
    let worker = &*connection.worker;
    let mut scope = connection.listener.scope();
    let socket = (&connection.stream, &connection.deadline);
    let mut downstream = Downstream::new(socket, (receiver, sender), scope.listener.timeouts);
    downstream.set_strict_transport(scope.listener.strict_transport());
    loop {
        let arrival = downstream.read_head(&scope.listener.limits, request).await;
        match arrival {
            Ok(HeadArrival::Request) => {}
            Ok(HeadArrival::Idle) => return Ending::Idle,
            Ok(HeadArrival::End) => return Ending::Gone,
            Ok(HeadArrival::Deaf(fault)) => return cut_off(connection, fault),
            Err(fault) => {
                let heads = (&mut *request, &mut *response);
                let exchange = Exchange::new(worker, &scope, connection, &mut downstream, heads);
                let after = refuse(exchange, fault).await;
                return close(connection, &mut downstream, after).await;
            }
        }
        connection.served.set(connection.served.get() + 1);
        let heads = (&mut *request, &mut *response);
        let after = {
            let mut exchange = Exchange::new(worker, &scope, connection, &mut downstream, heads);
            match exchange.begin() {
                // Nearly every answer that needs no origin ends here, without having waited.
                Step::Answered(After::Next) => {
                    exchange.record();
                    continue;
                }
                step => finish(&mut exchange, step, (&mut *upstream.0, &mut *upstream.1)).await,
            }
        };
        if after != After::Next {
            return close(connection, &mut downstream, after).await;
        }
        // A wait may have seen a reload: the next request goes by the newest configuration.
        scope = connection.listener.scope();
        downstream.set_timeouts(scope.listener.timeouts);
        downstream.set_strict_transport(scope.listener.strict_transport());
    }
}

/// Goes on where [`Exchange::begin`] would have to wait; counts and logs the end.
async fn finish<'e>(exchange: &mut Exchange<'e, '_>, step: Step<'e>, halves: Halves<'_>) -> After {
    let step = match step {
        Step::Wait(route, admission) => match exchange.wait_for_permits(admission).await {
            Ok(()) => exchange.perform(route),
            Err(stop) => Step::Stopped(stop),
        },
        step => step,
    };
    let after = match step {
        Step::Wait(..) => exchange.stop(Fault::internal(FaultKind::Broken).into()).await,
        Step::Answered(after) => after,
        Step::Content => exchange.skip_content().await,
        Step::Stopped(stop) => exchange.stop(stop).await,
        Step::Proxy(cluster, body_limit) => {
            match exchange.proxy(cluster, body_limit, halves).await {
                Ok(after) => after,
                Err(stop) => exchange.stop(stop).await,
            }
        }
    };
    if let Some(admission) = exchange.route.and_then(|route| route.admission.as_ref()) {
        exchange.teach(admission);
    }
    exchange.record();
    after
}

/// Answers a request that could not even be read.
async fn refuse(mut exchange: Exchange<'_, '_>, fault: Fault) -> After {
    exchange.forget_request();
    let after = exchange.stop(fault.into()).await;
    exchange.record();
    after
}

/// Writes what is left; a client that cannot be told gets a reset.
async fn close(connection: &Connection, downstream: &mut Downstream<'_>, after: After) -> Ending {
    let flushed: Result<(), Fault> = downstream.flush().await;
    match (after, flushed) {
        (After::Abort, _) => {
            connection.stream.abort_on_close();
            Ending::Gone
        }
        (_, Err(fault)) => cut_off(connection, fault),
        // The client announced the end itself and has sent all it meant to: nothing can be lost.
        (After::Finish, Ok(())) => Ending::Gone,
        (After::Next | After::Close, Ok(())) => Ending::Linger,
    }
}

/// Ends a connection whose client does not take its answer. It is reset, so that half an answer
/// without a length is not taken for the whole.
fn cut_off(connection: &Connection, fault: Fault) -> Ending {
    let worker = &connection.worker;
    worker.meters.faults().worker(worker.index).on_fault(fault);
    connection.stream.abort_on_close();
    Ending::Gone
}
