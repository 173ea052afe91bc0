//! One address requests go to, as one worker sees it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluice_message::{Fault, FaultKind, Retry};
use sluice_meter::{PerWorker, ServerMeter};
use sluice_net::tls::{HandshakeError, Reason, TlsClient};
use sluice_net::{Deadline, Elapsed, Endpoint, Stream, connect};
use sluice_wire::proxy::Version;

use crate::limit::ServerLimit;
use crate::pool::Pool;
use crate::{EjectionRule, ServerPlan, ServerState};

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
            proxy_protocol,
            complaint: RefCell::default(),
            kept: Cell::new(false),
        }
    }

    /// Whether its connections are opened the way a plan asks for.
    pub(crate) fn is_reached_by(&self, plan: &ServerPlan, proxy_protocol: Option<Version>) -> bool {
        self.tls == plan.tls && self.proxy_protocol == proxy_protocol
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

    /// Opens a connection within `timeout`, on which `header` comes before anything else.
    ///
    /// # Errors
    /// An upstream [`Fault`] that allows another try: nothing of a request was sent. Our own lack of
    /// descriptors is an internal one.
    pub async fn connect(
        &self,
        header: &[u8],
        deadline: &Deadline,
        timeout: Duration,
    ) -> Result<Stream, Fault> {
        match self.limit() {
            None => self.open(header, deadline, timeout).await,
            // In a box of its own: nobody else is to pay for the space.
            Some(limit) => Box::pin(self.open_within(&limit, header, deadline, timeout)).await,
        }
    }

    async fn open_within(
        &self,
        limit: &ServerLimit,
        header: &[u8],
        deadline: &Deadline,
        timeout: Duration,
    ) -> Result<Stream, Fault> {
        let late = Fault::upstream(FaultKind::ConnectTimedOut, Retry::Always);
        let room = limit.room(deadline, timeout).await.map_err(|_| late)?;
        let mut stream = self.open(header, deadline, timeout).await?;
        stream.hold(room);
        Ok(stream)
    }

    async fn open(
        &self,
        header: &[u8],
        deadline: &Deadline,
        timeout: Duration,
    ) -> Result<Stream, Fault> {
        if self.tls.is_some() || !header.is_empty() {
            // In a box of its own: nobody else is to pay for the space.
            return Box::pin(self.open_in_steps(header, deadline, timeout)).await;
        }
        match deadline.limit(timeout, connect(&self.endpoint)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) if is_exhaustion(&error) => Err(Fault::internal(FaultKind::Exhausted)),
            Ok(Err(_)) => Err(Fault::upstream(FaultKind::ConnectFailed, Retry::Always)),
            Err(Elapsed) => Err(Fault::upstream(FaultKind::ConnectTimedOut, Retry::Always)),
        }
    }

    /// Opens a connection, says for whom it is and shakes hands, all of it within `timeout`.
    async fn open_in_steps(
        &self,
        header: &[u8],
        deadline: &Deadline,
        timeout: Duration,
    ) -> Result<Stream, Fault> {
        let open = async {
            match connect_with(&self.endpoint, header).await {
                Ok(stream) => match &self.tls {
                    None => Ok(stream),
                    Some(tls) => tls.connect(stream).await.map_err(|error| self.complain(&error)),
                },
                Err(error) if is_exhaustion(&error) => Err(Fault::internal(FaultKind::Exhausted)),
                Err(_) => Err(Fault::upstream(FaultKind::ConnectFailed, Retry::Always)),
            }
        };
        let late = Fault::upstream(FaultKind::ConnectTimedOut, Retry::Always);
        deadline.limit(timeout, open).await.unwrap_or(Err(late))
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

    /// Why the last handshake failed, in words.
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
