//! What the gateway lends to filters.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sluice_message::{FaultKind, Fields, PathRules, RequestHead};

use crate::{Filter, Notes};

/// How loud a line of a filter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// What a client did.
    Info,
    /// Something a filter depends on fails.
    Warn,
    /// The filter fails.
    Error,
}

/// What was agreed upon when the client's connection was encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encryption<'a> {
    /// Version of the protocol, such as `1.3`.
    pub version: &'a str,
    /// Name of the suite.
    pub suite: &'a str,
    /// The name the client asked for; empty if it named none.
    pub server_name: &'a str,
    /// `yes` if a ticket shortened the handshake, else `no`.
    pub resumed: &'a str,
}

/// A client's certificate, which was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate<'a> {
    /// Its subject.
    pub subject: &'a str,
    /// The names it is for.
    pub names: &'a [String],
    /// Its SHA-256 digest in hexadecimal digits.
    pub fingerprint: &'a str,
}

/// A future of one worker.
pub type Local<T> = Pin<Box<dyn Future<Output = T>>>;

/// Has something done by another thread, see [`Gateway::offload`]: for what goes on when the call is over. The work
/// has begun, or was given up, whether anybody waits for it or not.
pub type Elsewhere = fn(Box<dyn FnOnce() + Send>) -> Local<bool>;

/// The answer to a [`Fetch`] that is under way.
pub type Fetching = Local<Result<Fetched, FetchFault>>;

/// A request that a filter makes itself. It goes through an upstream like every other: its servers are chosen,
/// its connections kept, its limits obeyed.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// The upstream, by its index in the snapshot.
    pub cluster: usize,
    /// The method.
    pub method: Vec<u8>,
    /// Path and query.
    pub target: Vec<u8>,
    /// Value of `Host`; empty = the one that is configured for the upstream, or its server's address.
    pub host: Vec<u8>,
    /// Field lines, without framing and `Host`.
    pub fields: Fields,
    /// Content.
    pub body: Vec<u8>,
    /// The longest all of it may take.
    pub timeout: Duration,
    /// An answer may have so many bytes of content.
    pub limit: usize,
    /// Whom it is made for: some upstreams choose their server by that.
    pub client: IpAddr,
}

/// The answer to a [`Fetch`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Status code.
    pub status: u16,
    /// Field lines.
    pub fields: Fields,
    /// Content.
    pub body: Vec<u8>,
    /// Field lines that came behind the content.
    pub trailers: Option<Fields>,
}

/// Why a [`Fetch`] has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchFault {
    /// It took too long.
    TimedOut,
    /// The answer is larger than allowed.
    TooLarge,
    /// Asking failed.
    Failed(FaultKind),
}

impl fmt::Display for FetchFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimedOut => "it took too long",
            Self::TooLarge => "its answer is too large",
            Self::Failed(kind) => kind.reason(),
        })
    }
}

/// A request that is done beside an exchange, see [`Gateway::exchange_beside`].
pub struct Beside<'a> {
    /// Its head; it has no content.
    pub request: RequestHead,
    /// The client of the exchange.
    pub client: IpAddr,
    /// What filters found out in the exchange. Those behind know it, too.
    pub notes: &'a Notes,
    /// The filter that is asked in the place of the one that asks. It is dropped when all is over, in whatever way:
    /// it is all that sees the answer, of which nobody takes more than the head and a little content.
    pub filter: Arc<dyn Filter>,
}

/// What the gateway lends to a filter for the time of a call. All of it belongs to the worker that the request
/// runs on.
pub trait Gateway {
    /// Name of the route.
    fn route(&self) -> &str;
    /// Name of the listener.
    fn listener(&self) -> &str;
    /// `http` or `https`: how the client's connection was opened.
    fn scheme(&self) -> &'static str;
    /// Who opened the connection; not the client where somebody trusted stands in between.
    fn peer(&self) -> IpAddr;
    /// Its port; 0 where it has none.
    fn port(&self) -> u16;
    /// How often the request had passed this process before: more than never if an origin leads back to it.
    fn passes(&self) -> usize {
        0
    }
    /// Whether the peer is trusted to say who the client is.
    fn is_peer_trusted(&self) -> bool;
    /// How the connection is encrypted, if it is.
    fn encryption(&self) -> Option<Encryption<'_>>;
    /// The certificate that the client has shown.
    fn certificate(&self) -> Option<Certificate<'_>>;
    /// How paths are read on the route: what a filter makes of a target is read by these rules, too.
    fn path_rules(&self) -> PathRules {
        PathRules::DEFAULT
    }
    /// What the path of the route calls by this name: a segment `{name}` or a group of a regular expression.
    fn capture(&self, name: &str) -> Option<Cow<'_, [u8]>>;
    /// Number of the worker, from 0.
    fn worker(&self) -> usize;
    /// Nanoseconds of a clock that never goes back; read once per turn of the worker's loop.
    fn now(&self) -> u64;
    /// Milliseconds since 1970 of the clock on the wall.
    fn unix_ms(&self) -> u64;
    /// Bits that nobody can foresee.
    fn random(&self) -> u64;
    /// Whether the upstream of this index has a server that would be asked now.
    fn is_available(&self, cluster: usize) -> bool;
    /// Writes a line to the log of faults, which holds floods back.
    fn log(&self, level: Level, line: fmt::Arguments<'_>);
    /// Makes a request.
    fn fetch(&self, fetch: Fetch) -> Fetching;
    /// Has a request done beside the exchange, whose client may be gone meanwhile: the filters behind the one that
    /// asks see it, and then what answers on the route. Whether that begins.
    fn exchange_beside(&self, beside: Beside<'_>) -> bool {
        drop(beside);
        false
    }
    /// Ends after so long.
    fn sleep(&self, duration: Duration) -> Local<()>;
    /// Has something done elsewhere that would hold the worker up, such as hashing a password. Yields `false`
    /// if too much is waiting to be done already: it was not done then. Use [`compute`].
    fn offload(&self, work: Box<dyn FnOnce() + Send>) -> Local<bool>;
    /// The same for later.
    fn elsewhere(&self) -> Elsewhere;
}

/// What [`compute`] yields.
pub type Computation<T> = Local<Option<T>>;

/// Computes something elsewhere that would hold the worker up; `None` if too much waits to be done already. A
/// panic in it is one of whoever waits for it.
pub fn compute<T: Send + 'static>(
    gateway: &dyn Gateway,
    work: impl FnOnce() -> T + Send + 'static,
) -> Computation<T> {
    let place = Arc::new(Mutex::new(None));
    let result = Arc::clone(&place);
    let done = gateway.offload(Box::new(move || {
        // What it owned is gone with it; nobody sees it half-done.
        let value = catch_unwind(AssertUnwindSafe(work));
        *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }));
    Box::pin(async move {
        done.await;
        match result.lock().unwrap_or_else(PoisonError::into_inner).take()? {
            Ok(value) => Some(value),
            Err(payload) => resume_unwind(payload),
        }
    })
}
