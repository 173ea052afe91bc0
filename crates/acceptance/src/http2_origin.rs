//! An origin that speaks HTTP/2 and does with each request what it is told to.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use sluice_message::{BodyLength, Fields, Method, RequestHead, ResponseHead};
use sluice_wire::h2::{
    Config, End, ErrorCode, Event, Input, ResponseOptions, ServerConnection, StreamId,
};

use crate::http2::texts;

/// A request that has come in as a whole.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Which request it is of all, from 0 on.
    pub number: usize,
    /// Which connection it came over, from 0 on.
    pub connection: usize,
    /// Its stream on that connection.
    pub stream: u32,
    /// Its method.
    pub method: String,
    /// `:path`.
    pub path: String,
    /// `:authority`.
    pub authority: String,
    /// Names and values, in their order.
    pub fields: Vec<(String, String)>,
    /// The content.
    pub content: Vec<u8>,
    /// Behind the content.
    pub trailers: Vec<(String, String)>,
    known: Option<Method>,
}

/// What is done with a request.
#[derive(Clone, Debug)]
pub enum Deed {
    /// A status, fields, content and trailers, in frames as large as windows allow.
    Answer(u16, Vec<(&'static str, &'static str)>, Vec<u8>, Vec<(&'static str, &'static str)>),
    /// The first bytes of content that never ends.
    Half(Vec<u8>),
    /// An answer that ends before the stream is reset.
    HalfThenReset(Vec<u8>, ErrorCode),
    /// The stream is reset.
    Reset(ErrorCode),
    /// The connection is ended with GOAWAY: this request and later ones were not looked at.
    TurnAway,
    /// The connection is closed without a word.
    Close,
    /// Nothing.
    Silence,
    /// Bytes on the connection as they are.
    Raw(Vec<u8>),
    /// The same, then the connection is closed.
    RawThenClose(Vec<u8>),
}

impl Deed {
    /// 200 with this content.
    #[must_use]
    pub fn text(content: &str) -> Self {
        Self::Answer(200, Vec::new(), content.as_bytes().to_vec(), Vec::new())
    }
}

type Behaviour = dyn Fn(&Request) -> Deed + Send + Sync;

#[derive(Default)]
struct Counts {
    connections: AtomicUsize,
    open: AtomicUsize,
    requests: AtomicUsize,
    seen: Mutex<Vec<Request>>,
}

/// The origin. Its threads end with their connections.
pub struct Http2Origin {
    address: SocketAddr,
    counts: Arc<Counts>,
}

impl Http2Origin {
    /// Starts one with default settings.
    pub fn start(behaviour: impl Fn(&Request) -> Deed + Send + Sync + 'static) -> Self {
        Self::with(Config::default(), behaviour)
    }

    /// Starts one.
    ///
    /// # Panics
    /// When there is no free port.
    pub fn with(
        config: Config,
        behaviour: impl Fn(&Request) -> Deed + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let counts = Arc::new(Counts::default());
        let (known, behaviour) = (Arc::clone(&counts), Arc::new(behaviour));
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let number = known.connections.fetch_add(1, Ordering::SeqCst);
                let (counts, behaviour) = (Arc::clone(&known), Arc::clone(&behaviour));
                std::thread::spawn(move || {
                    counts.open.fetch_add(1, Ordering::SeqCst);
                    Served::new(socket, &config, number).serve(&counts, &*behaviour);
                    counts.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, counts }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Connections it has accepted.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.counts.connections.load(Ordering::SeqCst)
    }

    /// Connections that are open.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.counts.open.load(Ordering::SeqCst)
    }

    /// Requests that have come, whatever was done with them.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.counts.requests.load(Ordering::SeqCst)
    }

    /// The requests, in their order.
    ///
    /// # Panics
    /// When a thread of it has panicked.
    #[must_use]
    pub fn seen(&self) -> Vec<Request> {
        self.counts.seen.lock().expect("no thread has panicked").clone()
    }
}

struct Served {
    socket: TcpStream,
    connection: ServerConnection,
    number: usize,
    requests: BTreeMap<StreamId, Request>,
    /// Content that waits for windows, and what comes behind it.
    sending: BTreeMap<StreamId, (Vec<u8>, Behind)>,
    input: Vec<u8>,
    output: Vec<u8>,
}

enum Behind {
    End(Vec<(&'static str, &'static str)>),
    Nothing,
    Reset(ErrorCode),
}

enum Next {
    GoOn,
    Leave,
}

impl Served {
    fn new(socket: TcpStream, config: &Config, number: usize) -> Self {
        Self {
            socket,
            connection: ServerConnection::server(config),
            number,
            requests: BTreeMap::new(),
            sending: BTreeMap::new(),
            input: Vec::new(),
            output: Vec::new(),
        }
    }

    fn serve(mut self, counts: &Counts, behaviour: &Behaviour) {
        let mut room = [0; 32 * 1024];
        loop {
            self.connection.flush(&mut self.output);
            if self.socket.write_all(&self.output).is_err() {
                return;
            }
            self.output.clear();
            let Ok(length @ 1..) = self.socket.read(&mut room) else { return };
            self.input.extend_from_slice(room.get(..length).unwrap_or_default());
            let ready = self.take_input();
            for stream in ready {
                let mut request = self.requests.remove(&stream).unwrap_or_default();
                request.number = counts.requests.fetch_add(1, Ordering::SeqCst);
                let deed = behaviour(&request);
                let method = request.known.unwrap_or(Method::Get);
                counts.seen.lock().expect("no thread has panicked").push(request);
                if let Next::Leave = self.act(stream, deed, method) {
                    return;
                }
            }
            self.send_content();
        }
    }

    /// Takes what came; the streams whose requests are complete.
    fn take_input(&mut self) -> Vec<StreamId> {
        let (mut head, mut trailers) = (RequestHead::new(), Fields::new());
        let bytes = std::mem::take(&mut self.input);
        let mut input = Input::new(&bytes);
        let mut ready = Vec::new();
        while let Some(event) = self
            .connection
            .next(&mut input, 0, &mut head, &mut trailers)
            .expect("the gateway obeys the rules")
        {
            let end = match event {
                Event::Head { about, end } => {
                    let mut request = self.request(&head);
                    request.stream = about.stream.get();
                    self.requests.insert(about.stream, request);
                    (about.stream, end)
                }
                Event::Data { about, data, end } => {
                    self.connection.consume(about.stream, data.len());
                    if let Some(request) = self.requests.get_mut(&about.stream) {
                        request.content.extend_from_slice(bytes.get(data).unwrap_or_default());
                    }
                    (about.stream, end)
                }
                Event::Trailers { about } => {
                    if let Some(request) = self.requests.get_mut(&about.stream) {
                        request.trailers = texts(&trailers);
                    }
                    (about.stream, End::Stream)
                }
                Event::Reset { about, .. } => {
                    self.requests.remove(&about.stream);
                    self.sending.remove(&about.stream);
                    continue;
                }
                Event::Failed { .. } | Event::Unacceptable { .. } => {
                    panic!("the gateway sent what it must not: {event:?}")
                }
                _ => continue,
            };
            if end.1 == End::Stream {
                ready.push(end.0);
            }
        }
        self.input = bytes.get(input.consumed()..).unwrap_or_default().to_vec();
        ready
    }

    fn request(&self, head: &RequestHead) -> Request {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Request {
            connection: self.number,
            method: text(head.method_text()),
            path: text(head.target()),
            authority: text(head.authority()),
            fields: texts(&head.fields),
            known: Some(head.method),
            ..Request::default()
        }
    }

    fn act(&mut self, stream: StreamId, deed: Deed, method: Method) -> Next {
        match deed {
            Deed::Answer(status, fields, content, trailers) => {
                self.begin(stream, (status, &fields), method);
                self.sending.insert(stream, (content, Behind::End(trailers)));
            }
            Deed::Half(content) => {
                self.begin(stream, (200, &[]), method);
                self.sending.insert(stream, (content, Behind::Nothing));
            }
            Deed::HalfThenReset(content, code) => {
                self.begin(stream, (200, &[]), method);
                self.sending.insert(stream, (content, Behind::Reset(code)));
            }
            Deed::Reset(code) => self.connection.reset(stream, code),
            Deed::TurnAway => {
                let last = stream.get().saturating_sub(2).to_be_bytes();
                self.output.extend_from_slice(&[0, 0, 8, 7, 0, 0, 0, 0, 0]);
                self.output.extend_from_slice(&last);
                self.output.extend_from_slice(&[0; 4]);
            }
            Deed::Close => return Next::Leave,
            Deed::Silence => {}
            Deed::Raw(bytes) => self.output.extend_from_slice(&bytes),
            Deed::RawThenClose(bytes) => {
                self.connection.flush(&mut self.output);
                self.output.extend_from_slice(&bytes);
                let _ = self.socket.write_all(&self.output);
                return Next::Leave;
            }
        }
        Next::GoOn
    }

    fn begin(
        &mut self,
        stream: StreamId,
        (status, fields): (u16, &[(&str, &str)]),
        request: Method,
    ) {
        let mut head = ResponseHead { status, ..ResponseHead::new() };
        for (name, value) in fields {
            head.fields.push(name.as_bytes(), value.as_bytes()).expect("there is room");
        }
        let options = ResponseOptions {
            request,
            body: BodyLength::Framed,
            date: None,
            strict_transport: None,
            end: End::More,
        };
        // A stream that is gone needs no answer.
        let _ = self.connection.respond(&mut self.output, stream, &head, &options);
    }

    fn send_content(&mut self) {
        let mut done = Vec::new();
        for (stream, (content, behind)) in &mut self.sending {
            let last = match behind {
                Behind::End(trailers) if trailers.is_empty() => End::Stream,
                _ => End::More,
            };
            let sent = self.connection.data(&mut self.output, *stream, content, last);
            content.drain(..sent.unwrap_or(content.len()));
            if !content.is_empty() {
                continue;
            }
            done.push(*stream);
            match behind {
                Behind::End(trailers) if !trailers.is_empty() => {
                    let mut fields = Fields::new();
                    for (name, value) in trailers {
                        fields.push(name.as_bytes(), value.as_bytes()).expect("there is room");
                    }
                    let _ = self.connection.trailers(&mut self.output, *stream, &fields);
                }
                Behind::Reset(code) => self.connection.reset(*stream, *code),
                _ => {}
            }
        }
        done.iter().for_each(|stream| drop(self.sending.remove(stream)));
    }
}
