//! One address requests go to, as one worker sees it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluice_conn::h2::Http2Client;
use sluice_conn::{OriginChannel, Reuse};
use sluice_message::{Fault, FaultKind, Retry};
use sluice_meter::{PerWorker, ServerMeter};
use sluice_net::tls::{HandshakeError, Reason, TlsClient};
use sluice_net::{Deadline, Elapsed, Endpoint, Stream, connect};
use sluice_wire::h2::Config;
use sluice_wire::proxy::Version;

use crate::limit::ServerLimit;
use crate::opening::{Chosen, Opening, Protocol};
use crate::pool::Pool;
use crate::{EjectionRule, ServerPlan, ServerState};

/// What a request needs of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Whatever the server is configured for.
    Any,
    /// One that can become a pipe, where there is a choice.
    Pipe,
}

/// What is asked of a server for a request.
#[derive(Clone, Copy, Debug)]
pub struct Call<'c> {
    /// What the request needs of the connection.
    pub demand: Demand,
    /// What a connection that is opened begins with.
    pub header: &'c [u8],
    /// What the request's task waits with.
    pub deadline: &'c Deadline,
}

/// A server with its pool. It outlives a change of its cluster's plan.
pub struct Server {
    endpoint: Endpoint,
    /// The endpoint's text, for log and admin.
    label: String,
    meter: Arc<PerWorker<ServerMeter>>,
    pub(crate) state: Arc<ServerState>,
    worker: usize,
    pub(crate) pool: Rc<Pool>,
    /// How much may be under way there, if there is a limit.
    limit: RefCell<Option<Arc<ServerLimit>>>,
    /// How connections are encrypted.
    tls: Option<TlsClient>,
    /// How a header says for whom a connection is.
    proxy_protocol: Option<Version>,
    protocol: Protocol,
    /// Those that requests share.
    opening: Opening,
    /// Why the last handshake failed.
    complaint: RefCell<String>,
    /// Whether idle connections are closed when other workers need the room.
    kept: Cell<bool>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Server {
    pub(crate) fn new(plan: &ServerPlan, proxy_protocol: Option<Version>, worker: usize) -> Self {
        Self {
            endpoint: plan.endpoint.clone(),
            label: plan.endpoint.to_string(),
            meter: Arc::clone(&plan.meter),
            state: Arc::clone(&plan.state),
            worker,
            pool: Rc::default(),
            limit: RefCell::default(),
            tls: plan.tls.clone(),
            protocol: plan.protocol,
            opening: Opening::default(),
            proxy_protocol,
            complaint: RefCell::default(),
            kept: Cell::new(false),
        }
    }

    /// Whether its connections are opened the way a plan asks for.
    pub(crate) fn is_reached_by(&self, plan: &ServerPlan, proxy_protocol: Option<Version>) -> bool {
        self.tls == plan.tls
            && self.protocol == plan.protocol
            && self.proxy_protocol == proxy_protocol
    }

    /// How a header says for whom a connection is; absent if none does.
    #[must_use]
    pub const fn proxy_protocol(&self) -> Option<Version> {
        self.proxy_protocol
    }

    /// Puts the limit of a plan in force.
    pub(crate) fn follow(&self, limit: Option<&Arc<ServerLimit>>) {
        let before = self.limit.replace(limit.map(Arc::clone));
        let Some(limit) = limit else { return };
        if before.is_none() {
            // Connections from before do not count.
            self.pool.clear();
        }
        if !self.kept.replace(true) {
            limit.keep(Rc::downgrade(&self.pool));
        }
    }

    pub(crate) fn limit(&self) -> Option<Arc<ServerLimit>> {
        self.limit.borrow().as_ref().map(Arc::clone)
    }

    /// Keeps a connection for the next request, unless `most` are kept already or other workers need
    /// the room.
    pub(crate) fn keep(&self, stream: Stream, most: usize) {
        if self.limit.borrow().as_ref().is_none_or(|limit| !limit.is_tight()) {
            self.pool.put(stream, most);
        }
    }

    /// What can become a pipe, if there is a choice.
    pub(crate) fn take_pipe(&self) -> Option<OriginChannel> {
        match self.protocol {
            Protocol::Http2(_) => self.pool.take(),
            _ => self.pool.take_own().map(OriginChannel::Own),
        }
    }

    /// Closes an idle connection if other workers need the room.
    pub(crate) fn make_room(&self) {
        if let Some(limit) = &*self.limit.borrow()
            && limit.is_tight()
        {
            self.pool.close_oldest();
        }
    }

    /// Where it listens.
    #[must_use]
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Where it listens, as text.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// This worker's counters.
    #[must_use]
    pub fn meter(&self) -> &ServerMeter {
        self.meter.worker(self.worker)
    }

    /// Counts a failure that is the server's own.
    #[cold]
    pub(crate) fn blame(&self, rule: &EjectionRule) {
        self.meter().faulty.increment();
        self.state.add_failure(rule.failures);
    }

    /// Something to send a request over, opened within `timeout`, and whether others sent requests over
    /// it before. Connections for at most `most` requests later are kept.
    ///
    /// # Errors
    /// An upstream [`Fault`] that allows another try: nothing of a request was sent. Our own lack of
    /// descriptors is an internal one.
    pub async fn connect(
        &self,
        call: Call<'_>,
        timeout: Duration,
        most: usize,
    ) -> Result<(OriginChannel, Reuse), Fault> {
        match self.protocol {
            Protocol::Http1 => {}
            Protocol::Negotiated(_) if call.demand == Demand::Pipe => {}
            Protocol::Http2(config) | Protocol::Negotiated(config) => {
                // What begins with a client's address is that client's alone.
                let most = if call.header.is_empty() { most } else { 0 };
                // In a box of its own: nobody else is to pay for the space.
                let joined = Box::pin(self.join(&config, call, most));
                let late = Fault::upstream(FaultKind::ConnectTimedOut, Retry::Always);
                return call.deadline.limit(timeout, joined).await.unwrap_or(Err(late));
            }
        }
        let stream = self.open_own(call, timeout).await?;
        Ok((OriginChannel::Own(stream), Reuse::Fresh))
    }

    /// A stream of a connection that requests share. One opens it, the others wait; the caller limits how
    /// long.
    async fn join(
        &self,
        config: &Config,
        call: Call<'_>,
        most: usize,
    ) -> Result<(OriginChannel, Reuse), Fault> {
        loop {
            if let Some(channel) = self.pool.take() {
                return Ok((channel, Reuse::Reused));
            }
            // Connections that are not kept cannot be shared.
            if most == 0 || self.opening.is_alone() {
                return self.open_shared(config, call, most).await;
            }
            let Some(opener) = self.opening.begin() else {
                self.opening.wait().await?;
                continue;
            };
            return match self.open_shared(config, call, most).await {
                Ok(opened) => {
                    drop(opener);
                    Ok(opened)
                }
                Err(fault) => Err(opener.fail(fault)),
            };
        }
    }

    async fn open_shared(
        &self,
        config: &Config,
        call: Call<'_>,
        most: usize,
    ) -> Result<(OriginChannel, Reuse), Fault> {
        // The caller's limit ends sooner.
        let stream = self.open_own(call, Duration::MAX).await?;
        if stream.is_encrypted() && !stream.speaks_http2() {
            if let Protocol::Http2(_) = self.protocol {
                return Err(self.mistake("no agreement on HTTP/2: the server may not speak it"));
            }
            self.opening.note(Chosen::Http1);
            return Ok((OriginChannel::Own(stream), Reuse::Fresh));
        }
        self.opening.note(Chosen::Http2);
        let client = Http2Client::start(stream, config);
        let ready = poll_fn(|cx| client.poll_ready(cx)).await;
        ready.map_err(|_| self.mistake("the server does not begin as HTTP/2 does"))?;
        let Some(channel) = client.open() else {
            return Err(self.mistake("the server allows no requests on the connection"));
        };
        if most > 0 {
            self.pool.share(client);
        }
        Ok((OriginChannel::Shared(channel), Reuse::Fresh))
    }

    /// Keeps words about a server that is not what it is configured to be.
    fn mistake(&self, words: &str) -> Fault {
        words.clone_into(&mut self.complaint.borrow_mut());
        Fault::upstream(FaultKind::NoHttp2, Retry::Always)
    }

    /// A connection of its own.
    async fn open_own(&self, call: Call<'_>, timeout: Duration) -> Result<Stream, Fault> {
        match self.limit() {
            None => self.open(call, timeout).await,
            // In a box of its own: nobody else is to pay for the space.
            Some(limit) => Box::pin(self.open_within(&limit, call, timeout)).await,
        }
    }

    async fn open_within(
        &self,
        limit: &ServerLimit,
        call: Call<'_>,
        timeout: Duration,
    ) -> Result<Stream, Fault> {
        let late = Fault::upstream(FaultKind::ConnectTimedOut, Retry::Always);
        let room = limit.room(call.deadline, timeout).await.map_err(|_| late)?;
        let mut stream = self.open(call, timeout).await?;
        stream.hold(room);
        Ok(stream)
    }

    async fn open(&self, call: Call<'_>, timeout: Duration) -> Result<Stream, Fault> {
        if self.tls.is_some() || !call.header.is_empty() {
            // In a box of its own: nobody else is to pay for the space.
            return Box::pin(self.open_in_steps(call, timeout)).await;
        }
        match call.deadline.limit(timeout, connect(&self.endpoint)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) if is_exhaustion(&error) => Err(Fault::internal(FaultKind::Exhausted)),
            Ok(Err(error)) => Err(self.cannot_connect(&error)),
            Err(Elapsed) => Err(Fault::upstream(FaultKind::ConnectTimedOut, Retry::Always)),
        }
    }

    /// Opens a connection, says for whom it is and shakes hands, all of it within `timeout`.
    async fn open_in_steps(&self, call: Call<'_>, timeout: Duration) -> Result<Stream, Fault> {
        let open = async {
            match connect_with(&self.endpoint, call.header).await {
                Ok(stream) => self.encrypt(stream, call.demand).await,
                Err(error) if is_exhaustion(&error) => Err(Fault::internal(FaultKind::Exhausted)),
                Err(error) => Err(self.cannot_connect(&error)),
            }
        };
        let late = Fault::upstream(FaultKind::ConnectTimedOut, Retry::Always);
        call.deadline.limit(timeout, open).await.unwrap_or(Err(late))
    }

    async fn encrypt(&self, stream: Stream, demand: Demand) -> Result<Stream, Fault> {
        let Some(tls) = &self.tls else { return Ok(stream) };
        let pipe = match (self.protocol, demand) {
            (Protocol::Negotiated(_), Demand::Pipe) => Some(tls.for_http1()),
            _ => None,
        };
        let done = pipe.as_ref().unwrap_or(tls).connect(stream).await;
        done.map_err(|error| self.complain(&error))
    }

    /// Keeps what the system says of a connection that was not opened, its error number included.
    #[cold]
    fn cannot_connect(&self, error: &io::Error) -> Fault {
        *self.complaint.borrow_mut() = error.to_string();
        Fault::upstream(FaultKind::ConnectFailed, Retry::Always)
    }

    /// Keeps the words of a handshake that failed for whoever writes the log.
    fn complain(&self, error: &HandshakeError) -> Fault {
        *self.complaint.borrow_mut() = error.to_string();
        let kind = match error.reason {
            Reason::CertificateRefused => FaultKind::TlsUntrusted,
            _ => FaultKind::TlsFailed,
        };
        Fault::upstream(kind, Retry::Always)
    }

    /// Why the last connection was not opened or its handshake failed, in words.
    #[must_use]
    pub fn complaint(&self) -> String {
        self.complaint.borrow().clone()
    }
}

/// Opens a connection that begins with these bytes, whatever comes behind them.
pub(crate) async fn connect_with(endpoint: &Endpoint, header: &[u8]) -> io::Result<Stream> {
    let stream = connect(endpoint).await?;
    let mut at = 0;
    while let Some(rest) = header.get(at..).filter(|rest| !rest.is_empty()) {
        at += poll_fn(|cx| stream.poll_write(cx, rest)).await?;
    }
    Ok(stream)
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(limit) = self.limit.take() {
            self.pool = Rc::default();
            // The keeper of the pool that is gone ends.
            limit.call_keepers();
        }
    }
}

/// EMFILE, ENFILE, ENOBUFS, ENOMEM, EADDRNOTAVAIL: ours to mend, another server would not help.
pub(crate) fn is_exhaustion(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(12 | 23 | 24 | 99 | 105))
}
