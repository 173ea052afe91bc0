//! Exchanges for the tests of filters: heads of texts, and a gateway that lends what a test says.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluice_filter::{
    Behind, Body, BodySource, Broken, Certificate, Content, Elsewhere, Encryption, Fetch,
    FetchFault, Fetching, Filter, Gateway, Level, Local, Notes, Piece, Reply, RequestContext,
    ResponseContext, ResponseVerdict, Source, Verdict, Whole,
};
use sluice_message::{BodyLength, Method, PathRules, RequestHead, ResponseHead, Span};

/// An exchange.
pub(crate) struct Scene {
    pub(crate) request: RequestHead,
    pub(crate) response: ResponseHead,
    pub(crate) source: Source,
    /// Content of the answer, where that is in memory.
    pub(crate) body: Body,
    pub(crate) notes: Notes,
    pub(crate) lent: Lent,
}

/// What the gateway lends.
pub(crate) struct Lent {
    pub(crate) scheme: &'static str,
    pub(crate) peer: IpAddr,
    pub(crate) trusted: bool,
    pub(crate) captures: BTreeMap<&'static str, &'static str>,
    /// Nanoseconds.
    pub(crate) now: u64,
    pub(crate) unix_ms: u64,
    /// Counted up with every use.
    pub(crate) random: Cell<u64>,
    /// What was slept for.
    pub(crate) slept: RefCell<Vec<Duration>>,
    pub(crate) log: RefCell<Vec<String>>,
    /// Clusters that have no server.
    pub(crate) gone: Vec<usize>,
}

impl Scene {
    /// A request without content, `GET /a/b?c=d`.
    pub(crate) fn new(method: &str, target: &str, lines: &[(&str, &str)]) -> Self {
        let mut request = RequestHead::new();
        request.method = Method::of(method.as_bytes());
        request.method_text = request.fields.append(method.as_bytes()).unwrap();
        if target == "*" {
            request.target = request.fields.append(b"*").unwrap();
            request.path = request.target;
            request.form = sluice_message::TargetForm::Asterisk;
        } else {
            request.set_target(target.as_bytes(), &PathRules::DEFAULT).unwrap();
        }
        for (name, value) in lines {
            request.fields.push(name.as_bytes(), value.as_bytes()).unwrap();
            if name.eq_ignore_ascii_case("host") {
                request.authority = request.fields.lines().last().unwrap().value;
            }
        }
        let lent = Lent {
            scheme: "http",
            peer: IpAddr::from([192, 0, 2, 1]),
            trusted: false,
            captures: BTreeMap::new(),
            now: 1_000_000_000,
            unix_ms: 1_795_322_096_789,
            random: Cell::new(1),
            slept: RefCell::default(),
            log: RefCell::default(),
            gone: Vec::new(),
        };
        let mut response = ResponseHead::new();
        response.status = 200;
        let notes = Notes::default();
        let body = Body::Stream(Box::new(Unknown));
        Self { request, response, source: Source::Origin, body, notes, lent }
    }

    /// The same with an answer of these lines.
    pub(crate) fn answered(mut self, status: u16, lines: &[(&str, &str)]) -> Self {
        self.response.status = status;
        self.response.body = BodyLength::Framed;
        for (name, value) in lines {
            self.response.fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        self
    }

    /// Shows the request to a filter, through its waits.
    pub(crate) fn ask(&mut self, filter: &dyn Filter) -> Option<Box<Reply>> {
        let mut verdict = self.with_request(|context| filter.on_request_head(context));
        loop {
            verdict = match verdict {
                Verdict::Continue | Verdict::Reroute => return None,
                Verdict::Respond(reply) => return Some(reply),
                Verdict::Give(ready) => return Some(Box::new(ready.into())),
                Verdict::Gather(_, resume) => self.with_request(resume),
                Verdict::Wait(mut waiting) => {
                    let mut context = Context::from_waker(Waker::noop());
                    match Pin::new(&mut waiting).poll(&mut context) {
                        Poll::Ready(resume) => self.with_request(resume),
                        Poll::Pending => panic!("nothing here takes time"),
                    }
                }
            };
        }
    }

    pub(crate) fn with_request<T>(&mut self, act: impl FnOnce(&mut RequestContext<'_>) -> T) -> T {
        act(&mut RequestContext {
            request: &mut self.request,
            client: self.lent.peer,
            notes: &mut self.notes,
            gateway: &self.lent,
            content: Content::default(),
        })
    }

    /// Shows the answer to a filter.
    pub(crate) fn answer(&mut self, filter: &dyn Filter) -> ResponseVerdict {
        self.with_response(|context| filter.on_response_head(context))
    }

    pub(crate) fn with_response<T>(
        &mut self,
        act: impl FnOnce(&mut ResponseContext<'_>) -> T,
    ) -> T {
        act(&mut ResponseContext {
            request: &self.request,
            response: &mut self.response,
            source: self.source,
            whole: Whole::of(&self.body),
            behind: Behind::Nothing,
            client: self.lent.peer,
            notes: &mut self.notes,
            gateway: &self.lent,
        })
    }

    /// The request's fields, `name: value` each.
    pub(crate) fn request_lines(&self) -> Vec<String> {
        lines(&self.request.fields)
    }

    /// The answer's fields, `name: value` each.
    pub(crate) fn response_lines(&self) -> Vec<String> {
        lines(&self.response.fields)
    }

    /// A part of the request as text.
    pub(crate) fn text(&self, span: Span) -> String {
        String::from_utf8_lossy(self.request.fields.slice(span)).into_owned()
    }
}

/// Content that is still to come.
#[derive(Debug)]
struct Unknown;

impl BodySource for Unknown {
    fn length(&self) -> Option<u64> {
        None
    }
    fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Result<Piece, Broken>> {
        Poll::Pending
    }
}

/// Fields, `name: value` each.
pub(crate) fn lines(fields: &sluice_message::Fields) -> Vec<String> {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    fields.iter().map(|(name, value)| format!("{}: {}", text(name), text(value))).collect()
}

impl Gateway for Lent {
    fn route(&self) -> &str {
        "route"
    }
    fn listener(&self) -> &str {
        "listener"
    }
    fn scheme(&self) -> &'static str {
        self.scheme
    }
    fn peer(&self) -> IpAddr {
        self.peer
    }
    fn port(&self) -> u16 {
        50_000
    }
    fn is_peer_trusted(&self) -> bool {
        self.trusted
    }
    fn encryption(&self) -> Option<Encryption<'_>> {
        None
    }
    fn certificate(&self) -> Option<Certificate<'_>> {
        None
    }
    fn capture(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.captures.get(name).map(|text| Cow::Borrowed(text.as_bytes()))
    }
    fn worker(&self) -> usize {
        0
    }
    fn now(&self) -> u64 {
        self.now
    }
    fn unix_ms(&self) -> u64 {
        self.unix_ms
    }
    fn random(&self) -> u64 {
        self.random.replace(self.random.get().wrapping_add(1))
    }
    fn is_available(&self, cluster: usize) -> bool {
        !self.gone.contains(&cluster)
    }
    fn log(&self, level: Level, line: fmt::Arguments<'_>) {
        self.log.borrow_mut().push(format!("{level:?} {line}"));
    }
    fn fetch(&self, _: Fetch) -> Fetching {
        Box::pin(async { Err(FetchFault::TimedOut) })
    }
    fn sleep(&self, duration: Duration) -> Local<()> {
        self.slept.borrow_mut().push(duration);
        Box::pin(async {})
    }
    fn offload(&self, work: Box<dyn FnOnce() + Send>) -> Local<bool> {
        work();
        Box::pin(async { true })
    }
    fn elsewhere(&self) -> Elsewhere {
        |work| {
            work();
            Box::pin(async { true })
        }
    }
}
