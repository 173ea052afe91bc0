//! A client of HTTP/2 that says what it is told to, and sees every frame's effect.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

use sluice_message::{BodyLength, Expectation, Fields, RequestHead, ResponseHead, TargetForm};
use sluice_wire::h2::{
    ClientConnection, Config, End, ErrorCode, Event, Input, RequestOptions, Scheme, StreamId,
    Tunnel,
};

use crate::deadline::PATIENCE;

/// What came of a request.
#[derive(Debug, Default)]
pub struct Answered {
    /// Status codes, those of interim answers before the final one.
    pub statuses: Vec<u16>,
    /// Names and values, in their order.
    pub fields: Vec<(String, String)>,
    /// The content.
    pub content: Vec<u8>,
    /// Behind the content.
    pub trailers: Vec<(String, String)>,
    /// The stream was reset with this code.
    pub reset: Option<ErrorCode>,
    ended: bool,
}

impl Answered {
    /// The final status; 0 if there is none.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.statuses.last().copied().unwrap_or(0)
    }

    /// The content as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.content).into_owned()
    }

    /// The value of a field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether the response came to its end, which a later reset does not change.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.ended
    }

    fn is_over(&self) -> bool {
        self.ended || self.reset.is_some()
    }
}

/// Whether content that arrives is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appetite {
    /// At once.
    Hungry,
    /// Not at all: windows stay shut.
    Sated,
}

/// A connection to a server that is known to speak HTTP/2.
#[derive(Debug)]
pub struct Http2Client {
    socket: TcpStream,
    connection: ClientConnection,
    input: Vec<u8>,
    output: Vec<u8>,
    answers: BTreeMap<StreamId, Answered>,
    appetite: Appetite,
    /// GOAWAY came with this code.
    pub goodbye: Option<ErrorCode>,
    /// The server closed the connection.
    pub closed: bool,
}

impl Http2Client {
    /// Opens a connection to `address`, which may begin with `http://`.
    ///
    /// # Panics
    /// When nobody listens there.
    #[must_use]
    pub fn connect(address: &str) -> Self {
        let address = address.trim_start_matches("http://").trim_end_matches('/');
        let socket = TcpStream::connect(address).expect("somebody listens there");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time is set");
        socket.set_nodelay(true).expect("an option is set");
        Self {
            socket,
            connection: ClientConnection::client(&Config::default()),
            input: Vec::new(),
            output: Vec::new(),
            answers: BTreeMap::new(),
            appetite: Appetite::Hungry,
            goodbye: None,
            closed: false,
        }
    }

    /// From now on content is taken, or not.
    pub const fn set_appetite(&mut self, appetite: Appetite) {
        self.appetite = appetite;
    }

    /// Begins a request.
    ///
    /// # Panics
    /// When the server takes no more.
    pub fn begin(
        &mut self,
        (method, path): (&str, &str),
        fields: &[(&str, &str)],
        body: BodyLength,
    ) -> StreamId {
        self.begin_for((method, path), "", (fields, body))
    }

    /// The same; an extended CONNECT if there is a protocol.
    ///
    /// # Panics
    /// When the server takes no more.
    pub fn begin_for(
        &mut self,
        (method, path): (&str, &str),
        protocol: &str,
        (fields, body): (&[(&str, &str)], BodyLength),
    ) -> StreamId {
        let mut head = RequestHead::new();
        head.protocol = head.fields.append(protocol.as_bytes()).expect("there is room");
        head.method = sluice_message::Method::of(method.as_bytes());
        head.method_text = head.fields.append(method.as_bytes()).expect("there is room");
        head.target = head.fields.append(path.as_bytes()).expect("there is room");
        head.form = TargetForm::Origin;
        head.authority = head.fields.append(b"a.example").expect("there is room");
        for (name, value) in fields {
            head.fields.push(name.as_bytes(), value.as_bytes()).expect("there is room");
        }
        let end = if body == BodyLength::Empty { End::Stream } else { End::More };
        let options = RequestOptions {
            scheme: Scheme::Http,
            body,
            expectation: Expectation::Continue,
            end,
            tunnel: Tunnel::AsInHead,
        };
        let stream = self.connection.request(&mut self.output, &head, &options);
        let stream = stream.expect("the server takes another request");
        self.answers.insert(stream, Answered::default());
        self.flush();
        stream
    }

    /// Waits for the settings of the server.
    ///
    /// # Panics
    /// When it closes the connection first.
    pub fn settle(&mut self) {
        let known = self.get("/no-such-place");
        assert_ne!(known.status(), 0);
    }

    /// Begins an extended CONNECT (RFC 8441, 4).
    ///
    /// # Panics
    /// When the server takes no more.
    pub fn begin_extended(
        &mut self,
        path: &str,
        protocol: &str,
        fields: &[(&str, &str)],
    ) -> StreamId {
        self.begin_for(("CONNECT", path), protocol, (fields, BodyLength::Framed))
    }

    /// Sends some content, as far as windows allow, waiting for them where they do not.
    ///
    /// # Panics
    /// When the stream is gone.
    pub fn send(&mut self, stream: StreamId, content: &[u8], end: End) {
        assert!(self.try_send(stream, content, end), "the stream is there");
    }

    /// The same for a stream that the server may end meanwhile; whether all was sent.
    ///
    /// # Panics
    /// When the server closes the connection.
    pub fn try_send(&mut self, stream: StreamId, content: &[u8], end: End) -> bool {
        let mut at = 0;
        loop {
            let rest = content.get(at..).unwrap_or_default();
            let Ok(sent) = self.connection.data(&mut self.output, stream, rest, end) else {
                return false;
            };
            at += sent;
            self.flush();
            if at == content.len() {
                return true;
            }
            assert!(self.turn(), "the server closed the connection");
        }
    }

    /// Sends trailers, which end the request.
    ///
    /// # Panics
    /// When the stream is gone.
    pub fn send_trailers(&mut self, stream: StreamId, name: &str, value: &str) {
        let mut fields = Fields::new();
        fields.push(name.as_bytes(), value.as_bytes()).expect("there is room");
        self.connection.trailers(&mut self.output, stream, &fields).expect("the stream is there");
        self.flush();
    }

    /// Gives a request up.
    pub fn reset(&mut self, stream: StreamId) {
        self.connection.reset(stream, ErrorCode::CANCEL);
        self.flush();
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
        self.flush();
    }

    /// Waits for the end of an answer.
    ///
    /// # Panics
    /// When the connection ends first.
    pub fn wait(&mut self, stream: StreamId) -> Answered {
        while !self.answers.get(&stream).is_some_and(Answered::is_over) {
            assert!(self.turn(), "the server closed the connection");
        }
        self.answers.remove(&stream).unwrap_or_default()
    }

    /// Waits for the head of the final answer.
    ///
    /// # Panics
    /// When the connection ends first.
    pub fn wait_for_head(&mut self, stream: StreamId) -> u16 {
        loop {
            let answer = self.answers.get(&stream);
            match answer.map_or(0, Answered::status) {
                0..=199 => assert!(self.turn(), "the server closed the connection"),
                status => return status,
            }
        }
    }

    /// Whether the server has said that it takes extended CONNECT (RFC 8441, 3).
    #[must_use]
    pub fn takes_extended_connect(&self) -> bool {
        self.connection.peer_settings().connect_protocol == 1
    }

    /// The fields of an answer that is still coming.
    #[must_use]
    pub fn fields(&self, stream: StreamId) -> Vec<(String, String)> {
        self.answers.get(&stream).map(|answer| answer.fields.clone()).unwrap_or_default()
    }

    /// Waits for so many bytes of content and takes them.
    ///
    /// # Panics
    /// When the answer ends first.
    pub fn read(&mut self, stream: StreamId, count: usize) -> Vec<u8> {
        loop {
            let answer = self.answers.get_mut(&stream).expect("the answer is coming");
            if answer.content.len() >= count {
                return answer.content.drain(..count).collect();
            }
            assert!(!answer.is_over(), "it ended after {} bytes", answer.content.len());
            assert!(self.turn(), "the server closed the connection");
        }
    }

    /// Whether an answer has come to its end.
    #[must_use]
    pub fn is_over(&self, stream: StreamId) -> bool {
        self.answers.get(&stream).is_none_or(Answered::is_over)
    }

    /// What a stream was reset with, which may be after its whole answer.
    #[must_use]
    pub fn reset_code(&self, stream: StreamId) -> Option<ErrorCode> {
        self.answers.get(&stream).and_then(|answer| answer.reset)
    }

    /// Content of an answer that is still coming.
    #[must_use]
    pub fn received(&self, stream: StreamId) -> usize {
        self.answers.get(&stream).map_or(0, |answer| answer.content.len())
    }

    /// A request without content and its answer.
    pub fn get(&mut self, path: &str) -> Answered {
        let stream = self.begin(("GET", path), &[], BodyLength::Empty);
        self.wait(stream)
    }

    /// Waits until the server has closed the connection.
    pub fn wait_for_end(&mut self) {
        while self.turn() {}
    }

    /// Waits until the server has closed the connection, whatever it says meanwhile.
    pub fn ignore_rest(&mut self) {
        let mut room = [0; 32 * 1024];
        while matches!(self.socket.read(&mut room), Ok(1..)) {}
    }

    fn flush(&mut self) {
        self.connection.flush(&mut self.output);
        // What a server that is gone does not take shows when it is read from.
        let _ = self.socket.write_all(&self.output);
        self.output.clear();
    }

    /// Reads once and takes what came; whether the connection goes on.
    ///
    /// # Panics
    /// When the server breaks a rule, or says nothing for too long.
    pub fn turn(&mut self) -> bool {
        let mut room = [0; 32 * 1024];
        match self.socket.read(&mut room) {
            Ok(0) => self.closed = true,
            Ok(length) => self.input.extend_from_slice(room.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => self.closed = true,
            Err(error) => panic!("the server says nothing: {error}"),
        }
        self.take_input();
        self.flush();
        !self.closed
    }

    fn take_input(&mut self) {
        let (mut head, mut trailers) = (ResponseHead::new(), Fields::new());
        let bytes = std::mem::take(&mut self.input);
        let mut input = Input::new(&bytes);
        loop {
            let event = self.connection.next(&mut input, 0, &mut head, &mut trailers);
            match event.expect("the server obeys the rules") {
                None => break,
                Some(event) => self.take(event, &bytes, (&head, &trailers)),
            }
        }
        self.input = bytes.get(input.consumed()..).unwrap_or_default().to_vec();
    }

    fn take(&mut self, event: Event, bytes: &[u8], (head, trailers): (&ResponseHead, &Fields)) {
        match event {
            Event::Head { about, end } => {
                let Some(answer) = self.answers.get_mut(&about.stream) else { return };
                answer.statuses.push(head.status);
                answer.fields = texts(&head.fields);
                answer.ended = end == End::Stream;
            }
            Event::Data { about, data, end } => {
                let length = data.len();
                if let Some(answer) = self.answers.get_mut(&about.stream) {
                    answer.content.extend_from_slice(bytes.get(data).unwrap_or_default());
                    answer.ended = end == End::Stream;
                }
                if self.appetite == Appetite::Hungry {
                    self.connection.consume(about.stream, length);
                }
            }
            Event::Trailers { about } => {
                let Some(answer) = self.answers.get_mut(&about.stream) else { return };
                answer.trailers = texts(trailers);
                answer.ended = true;
            }
            Event::Reset { about, code } => {
                if let Some(answer) = self.answers.get_mut(&about.stream) {
                    answer.reset = Some(code);
                }
            }
            Event::GoAway { code, .. } => self.goodbye = Some(code),
            Event::Window { .. } | Event::Settings | Event::Pong { .. } => {}
            other => panic!("the server sent what it must not: {other:?}"),
        }
    }
}

/// Names and values as text.
#[must_use]
pub fn texts(fields: &Fields) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    fields.iter().map(|(name, value)| (text(name), text(value))).collect()
}
