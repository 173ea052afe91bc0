//! A connection's life, from its first request to its end.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use sluice_conn::linger;
use sluice_net::{Nanos, now};

use crate::burst::{Ending, Exchanges, Job};
use crate::connection::Connection;
use crate::streams::serve_streams;

/// Gives a connection to what serves its listener instead of HTTP; closed where there is nothing.
pub(crate) fn give(connection: Connection) {
    let (plan, worker) = (connection.listener.plan(), connection.worker.index);
    if let Some(service) = &plan.service {
        service.serve(worker, connection.into_client());
    }
}

/// Serves a connection until it ends.
pub(crate) async fn serve(exchanges: Rc<Exchanges>, connection: Rc<Connection>) {
    while wait_for_request(&connection).await == Wait::Readable {
        let worker = &connection.worker;
        match exchanges.run(Job::Burst(Rc::clone(&connection)), || connection.touch()).await {
            Ok(Ending::Idle) => {}
            Ok(Ending::Linger) => return linger(&connection.stream, &connection.deadline).await,
            Ok(Ending::Gone) => return,
            Ok(Ending::Shared(received)) => {
                // In a box of its own: other connections are not to pay for the space.
                return Box::pin(serve_streams(exchanges, connection, *received)).await;
            }
            Err(panicked) => return worker.on_panic(&panicked),
        }
    }
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
