//! What a connection has to say, served in one go.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use sluice_conn::{Channel, Downstream, Given, HeadArrival, Pacing, Receiver, Sender};
use sluice_message::{Fault, FaultKind, RequestHead, ResponseHead};

use crate::connection::Connection;
use crate::coroutine::{Coroutines, Crowd, Jobs};
use crate::desk::Desk;
use crate::exchange::{After, Exchange, Stand, Step};
use crate::local::Scope;
use crate::proxy::Halves;

/// The coroutines that exchanges run in.
pub(crate) type Exchanges = Coroutines<Job, Ending>;

/// What a coroutine is lent for.
pub(crate) enum Job {
    /// All that a connection has to say.
    Burst(Rc<Connection>),
    /// One request of a connection that carries many.
    Request(Box<Desk>),
}

/// Coroutines for one worker.
pub(crate) fn exchanges(crowd: Crowd) -> Rc<Exchanges> {
    Rc::new(Coroutines::new(crowd, exchange_loop))
}

/// What was read of a connection before it was known what it is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Received(pub(crate) Vec<u8>);

/// How a connection's burst of exchanges ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All is answered; the connection waits for more.
    Idle,
    /// The last answer is out; the client may still be sending.
    Linger,
    /// Nobody is there, or the connection must not look as if it had ended well.
    Gone,
    /// It carries many requests at once, and these bytes of it have been read.
    Shared(Box<Received>),
}

/// The line a connection of many requests begins with (RFC 9113, 3.4). A request it never is.
const PREFACE_LINE: &[u8] = b"PRI * HTTP/2.0\r\n";

/// Heads larger than this give their memory back after the burst.
const HEAD_KEPT: usize = 16 * 1024;

/// What exchanges are made with, used again and again.
struct Bench {
    request: RequestHead,
    response: ResponseHead,
    stand: Stand,
    receiver: Receiver,
    sender: Sender,
    /// Of the connection to an origin.
    upstream: (Receiver, Sender),
}

impl Bench {
    fn new() -> Self {
        Self {
            request: RequestHead::new(),
            response: ResponseHead::new(),
            stand: Stand::default(),
            receiver: Receiver::new(),
            sender: Sender::new(),
            upstream: (Receiver::new(), Sender::new()),
        }
    }
}

/// The coroutine that runs exchanges: answers what a connection has to say, pipelined requests in one go; or one
/// request of a connection that carries many. One loop for both, so that the way of a request is in the program
/// once, and no future of its own, which the compiler may or may not put in line: that shows in every answer.
fn exchange_loop(jobs: Jobs<Job, Ending>) -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(async move {
        let mut bench = Bench::new();
        loop {
            let mut job = jobs.next().await;
            let ending = 'burst: {
                let Bench { request, response, stand, receiver, sender, upstream } = &mut bench;
                let pacing = Pacing::new();
                let (connection, place, request, given) = match &mut job {
                    Job::Burst(connection) => {
                        let place =
                            (Channel::Own(&connection.stream), &connection.deadline, &pacing);
                        (&*connection, place, request, Given::Nothing)
                    }
                    Job::Request(desk) => {
                        let Desk { head, deadline, order: Some(order) } = &mut **desk else {
                            break 'burst Ending::Gone;
                        };
                        let place = (Channel::Shared(&order.stream), &*deadline, &pacing);
                        let given = order.refusal.map_or(Given::Head, Given::Refusal);
                        (&order.connection, place, head, given)
                    }
                };
                let worker = &*connection.worker;
                let mut scope = connection.listener.scope();
                let timeouts = scope.listener.timeouts;
                let mut downstream = Downstream::new(place, (receiver, sender), timeouts, given);
                downstream.set_strict_transport(scope.listener.strict_transport());
                loop {
                    let arrival = downstream.read_head(&scope.listener.limits, request).await;
                    match arrival {
                        Ok(HeadArrival::Request) => {}
                        Ok(HeadArrival::Idle) => break 'burst Ending::Idle,
                        Ok(HeadArrival::End) => break 'burst Ending::Gone,
                        Ok(HeadArrival::Deaf(fault)) => {
                            break 'burst cut_off(connection, &downstream, fault);
                        }
                        Err(fault) => {
                            if may_be_shared(connection, &scope, &downstream, fault)
                                && let Some(received) =
                                    Box::pin(downstream.input_after(PREFACE_LINE)).await
                            {
                                break 'burst Ending::Shared(Box::new(Received(received.to_vec())));
                            }
                            let heads = (&mut *request, &mut *response, &mut *stand);
                            let exchange =
                                Exchange::new(worker, &scope, connection, &mut downstream, heads);
                            let after = refuse(exchange, fault).await;
                            break 'burst close(connection, &mut downstream, after).await;
                        }
                    }
                    connection.served.set(connection.served.get() + 1);
                    let heads = (&mut *request, &mut *response, &mut *stand);
                    let after = {
                        let mut exchange =
                            Exchange::new(worker, &scope, connection, &mut downstream, heads);
                        match exchange.begin() {
                            // Nearly every answer that needs no origin ends here, without having waited.
                            Step::Answered(After::Next) => {
                                exchange.record();
                                continue;
                            }
                            step => {
                                finish(&mut exchange, step, (&mut upstream.0, &mut upstream.1))
                                    .await
                            }
                        }
                    };
                    if after != After::Next {
                        break 'burst close(connection, &mut downstream, after).await;
                    }
                    // A wait may have seen a reload: the next request goes by the newest configuration.
                    scope = connection.listener.scope();
                    downstream.set_timeouts(scope.listener.timeouts);
                    downstream.set_strict_transport(scope.listener.strict_transport());
                }
            };
            bench.request.fields.shrink(HEAD_KEPT);
            bench.response.fields.shrink(HEAD_KEPT);
            // The job's own handles go before the borrower sees the result.
            match job {
                Job::Burst(connection) => drop(connection),
                Job::Request(desk) => desk.leave(),
            }
            jobs.finish(ending);
        }
    })
}

/// Whether a connection may turn out to carry many requests at once: what is no request may be the
/// first line of its preface (RFC 9113, 3.3).
#[cold]
fn may_be_shared(
    connection: &Connection,
    scope: &Scope,
    downstream: &Downstream<'_>,
    fault: Fault,
) -> bool {
    // Of a connection that is broken nothing more is to be waited for.
    let broken = matches!(fault.kind, FaultKind::Closed | FaultKind::Reset | FaultKind::TimedOut);
    !broken && downstream.is_own() && connection.served.get() == 0 && scope.listener.http2.is_some()
}

/// Goes on where [`Exchange::begin`] would have to wait; counts and logs the end.
async fn finish<'e>(exchange: &mut Exchange<'e, '_>, step: Step<'e>, halves: Halves<'_>) -> After {
    exchange.find_call();
    let rule = exchange.scope.listener.ambiguous_headers;
    exchange.downstream.receiver.set_ambiguous_trailers(rule);
    let mut step = step;
    let step = loop {
        step = match step {
            Step::Filter(suspended) => exchange.go_on(*suspended).await,
            Step::Show(unshown) => match Box::pin(exchange.go_on_showing(unshown)).await {
                Ok(queued) => exchange.go_on_with(queued),
                Err(stop) => Step::Stopped(stop),
            },
            Step::Wait(route, admission) => match exchange.wait_for_permits(admission).await {
                Ok(()) => exchange.perform(route),
                Err(stop) => Step::Stopped(stop),
            },
            step => break step,
        };
    };
    let ended = match step {
        Step::Wait(..) | Step::Filter(_) | Step::Show(_) => {
            Err(Fault::internal(FaultKind::Broken).into())
        }
        Step::Answered(after) => Ok(after),
        Step::Content => Ok(exchange.skip_content().await),
        Step::Stream(outflow) => Box::pin(exchange.pour(outflow)).await,
        Step::Stopped(stop) => Err(stop),
        Step::Proxy(cluster, body_limit) => exchange.proxy(cluster, body_limit, halves).await,
    };
    let after = match ended {
        Ok(after) => after,
        Err(stop) => exchange.stop(stop).await,
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
            downstream.channel.abort();
            Ending::Gone
        }
        (_, Err(fault)) => cut_off(connection, downstream, fault),
        // The client announced the end itself and has sent all it meant to: nothing can be lost.
        (After::Finish, Ok(())) => Ending::Gone,
        (After::Next | After::Close, Ok(())) => Ending::Linger,
    }
}

/// Ends a connection, or a stream of one, whose client does not take its answer. It is reset, so that
/// half an answer without a length is not taken for the whole.
fn cut_off(connection: &Connection, downstream: &Downstream<'_>, fault: Fault) -> Ending {
    let worker = &connection.worker;
    worker.meters.faults().worker(worker.index).on_fault(fault);
    downstream.channel.abort();
    Ending::Gone
}
