//! Connections of HTTP/2 for `silly.net.http`: the codec of the gateway, fed and asked by `session.lua`.

use std::cell::RefCell;
use std::rc::Rc;

use sluice_message::{
    BodyLength, Expectation, FaultKind, Fields, Method, PathForm, PathRules, RequestHead,
    ResponseHead,
};
use sluice_net::now;
use sluice_wire::h2::{
    ClientConnection, Config, End, Error, ErrorCode, Event, Input, LARGEST_FRAME, OpenError,
    RequestOptions, ResponseOptions, Scheme, ServerConnection, StreamId, Tunnel,
};

use crate::frame::{Frame, Kind, Reply, native};
use crate::http::{self, LIMITS};

native!(native_server, server);
native!(native_client, client);
native!(native_feed, feed);
native!(native_next, next);
native!(native_take, take);
native!(native_respond, respond);
native!(native_request, request);
native!(native_data, data);
native!(native_trailers, trailers);
native!(native_consume, consume);
native!(native_reset, reset);
native!(native_end, end);

pub(crate) const FUNCTIONS: [(&str, mlua_sys::lua_CFunction); 12] = [
    ("h2_server", native_server),
    ("h2_client", native_client),
    ("h2_feed", native_feed),
    ("h2_next", native_next),
    ("h2_take", native_take),
    ("h2_respond", native_respond),
    ("h2_request", native_request),
    ("h2_data", native_data),
    ("h2_trailers", native_trailers),
    ("h2_consume", native_consume),
    ("h2_reset", native_reset),
    ("h2_end", native_end),
];

/// Streams a client may have open at once; `session.lua` runs no more handlers.
const STREAMS: u32 = 100;

/// Bytes of content that wait on a stream until the script reads them.
const WINDOW: u32 = 64 << 10;

/// Largest piece of content that is framed at once.
const PIECE: usize = 64 << 10;

/// What an output buffer keeps.
const KEPT: usize = 64 << 10;

/// The window of the connection is that of all streams together: one that nobody reads stops no other.
fn config() -> Config {
    Config {
        limits: LIMITS,
        streams: STREAMS,
        stream_window: WINDOW,
        connection_window: STREAMS * WINDOW,
        ..Config::default()
    }
}

enum Codec {
    Server(Box<ServerConnection>, RequestHead),
    Client(Box<ClientConnection>, ResponseHead),
}

/// The same of both roles.
macro_rules! either {
    ($codec:expr, $connection:ident => $body:expr) => {
        match $codec {
            Codec::Server($connection, _) => $body,
            Codec::Client($connection, _) => $body,
        }
    };
}

impl Codec {
    /// The stream, or one that is gone.
    fn stream(&self, number: u32) -> StreamId {
        either!(self, connection => connection.stream(number)).unwrap_or(StreamId::NONE)
    }
}

/// A connection: its codec, what came in and is no whole frame yet, and what is to be written.
struct State {
    codec: Codec,
    input: Vec<u8>,
    /// So many bytes of the input are done with.
    at: usize,
    out: Vec<u8>,
    trailers: Fields,
}

struct Session(RefCell<State>);

fn start(frame: &Frame<'_>, codec: Codec) -> Reply {
    let (input, out) = (Vec::new(), Vec::new());
    let state = State { codec, input, at: 0, out, trailers: Fields::new() };
    frame.push_object(Rc::new(Session(RefCell::new(state))), 4096);
    Reply::Values(1)
}

/// `server()`: the state of a connection that a client made.
fn server(frame: &Frame<'_>) -> Reply {
    let connection = ServerConnection::server(&config());
    start(frame, Codec::Server(Box::new(connection), RequestHead::new()))
}

/// `client()`: the same of a connection to a server.
fn client(frame: &Frame<'_>) -> Reply {
    let connection = ClientConnection::client(&config());
    start(frame, Codec::Client(Box::new(connection), ResponseHead::new()))
}

/// The session and the number of a stream, which are the first arguments of most functions.
fn with_state(frame: &Frame<'_>, act: impl FnOnce(&mut State, u32) -> Reply) -> Reply {
    let Some(session) = frame.object::<Session>(1) else {
        return frame.raise("bad argument #1: a session is expected");
    };
    let number = frame.integer(2).and_then(|number| u32::try_from(number).ok());
    act(&mut session.0.borrow_mut(), number.unwrap_or(0))
}

/// `feed(session, bytes)`: bytes that were read.
fn feed(frame: &Frame<'_>) -> Reply {
    with_state(frame, |state, _| {
        state.input.drain(..state.at);
        state.at = 0;
        state.input.extend_from_slice(frame.bytes(2).unwrap_or_default());
        Reply::Values(0)
    })
}

/// `next(session)`: what happens next, in words that `session.lua` knows; nil if more has to be read before.
fn next(frame: &Frame<'_>) -> Reply {
    with_state(frame, |state, _| {
        let State { codec, input, at, trailers, .. } = state;
        let rest = input.get(*at..).unwrap_or_default();
        let mut view = Input::new(rest);
        let outcome = match codec {
            Codec::Server(connection, head) => connection.next(&mut view, now(), head, trailers),
            Codec::Client(connection, head) => connection.next(&mut view, now(), head, trailers),
        };
        *at += view.consumed();
        let values = match outcome {
            Ok(Some(event)) => push_event(frame, codec, (&event, rest, trailers)),
            Ok(None) => 0,
            Err(error) => push_broken(frame, error),
        };
        if state.at == state.input.len() && state.input.capacity() > LARGEST_FRAME {
            state.input = Vec::new();
            state.at = 0;
        }
        Reply::Values(values)
    })
}

fn push_broken(frame: &Frame<'_>, error: Error) -> i32 {
    frame.push_bytes(b"broken");
    frame.push_bytes(error.reason.name().as_bytes());
    2
}

/// The word for an event and its stream; 0 is the connection.
fn push_word(frame: &Frame<'_>, word: &str, stream: u32) {
    frame.push_bytes(word.as_bytes());
    frame.push_count(u64::from(stream));
}

fn push_event(
    frame: &Frame<'_>,
    codec: &Codec,
    (event, input, trailers): (&Event, &[u8], &Fields),
) -> i32 {
    match event {
        Event::Head { about, end } => push_head(frame, codec, (about.stream.get(), *end)),
        Event::Unacceptable { about, end, kind } => {
            let (status, word) = http::refusal(*kind);
            push_word(frame, "refused", about.stream.get());
            frame.push_truth(*end == End::Stream);
            frame.push_number(f64::from(status));
            frame.push_bytes(word.as_bytes());
            5
        }
        Event::Data { about, data, end } => {
            push_word(frame, "data", about.stream.get());
            frame.push_truth(*end == End::Stream);
            frame.push_bytes(input.get(data.clone()).unwrap_or_default());
            4
        }
        Event::Trailers { about } => {
            push_word(frame, "trailers", about.stream.get());
            frame.push_truth(true);
            http::push_fields(frame, trailers);
            4
        }
        Event::Reset { about, code } => {
            push_word(frame, "reset", about.stream.get());
            frame.push_truth(*code == ErrorCode::REFUSED_STREAM);
            3
        }
        Event::Failed { about, .. } => {
            push_word(frame, "failed", about.stream.get());
            2
        }
        Event::Window { about } => {
            push_word(frame, "window", about.map_or(0, |about| about.stream.get()));
            2
        }
        Event::Settings => {
            push_word(frame, "window", 0);
            2
        }
        Event::GoAway { last, .. } => {
            push_word(frame, "goaway", last.get());
            2
        }
        Event::Pong { .. } => {
            push_word(frame, "pong", 0);
            2
        }
    }
}

/// A request that cannot be served is refused here; `session.lua` gets heads that handlers may see.
fn push_head(frame: &Frame<'_>, codec: &Codec, (stream, end): (u32, End)) -> i32 {
    let refusal = match codec {
        Codec::Server(_, head) if head.method == Method::Connect => {
            Some((501, "method_not_implemented"))
        }
        Codec::Server(_, head) if head.expectation == Expectation::Unknown => {
            Some((417, FaultKind::UnknownExpectation.reason()))
        }
        _ => None,
    };
    // A path that may be spelled otherwise is read; nearly every request has none.
    let mut read = None;
    let refusal = refusal.or_else(|| {
        let Codec::Server(_, head) = codec else { return None };
        if head.path_form == PathForm::Normal {
            return None;
        }
        let problem = read.insert(head.clone()).read_path(&PathRules::DEFAULT).err();
        problem.map(|_| (400, "path_refused"))
    });
    push_word(frame, if refusal.is_some() { "refused" } else { "head" }, stream);
    frame.push_truth(end == End::Stream);
    match (refusal, codec) {
        (Some((status, word)), _) => {
            frame.push_number(f64::from(status));
            frame.push_bytes(word.as_bytes());
            return 5;
        }
        (None, Codec::Server(_, head)) => http::push_request(frame, read.as_ref().unwrap_or(head)),
        (None, Codec::Client(_, head)) => http::push_response(frame, head),
    }
    http::text(frame, b"version", b"HTTP/2");
    4
}

/// `take(session)`: what is to be written, or nil.
fn take(frame: &Frame<'_>) -> Reply {
    with_state(frame, |state, _| {
        either!(&mut state.codec, connection => connection.flush(&mut state.out));
        if state.out.is_empty() {
            frame.push_nil();
        } else {
            frame.push_bytes(&state.out);
            state.out.clear();
            state.out.shrink_to(KEPT);
        }
        Reply::Values(1)
    })
}

/// The pairs of a table `{name, value, name, value, ...}`, which `sender.lua` has judged.
fn read_fields(frame: &Frame<'_>, index: i32, fields: &mut Fields) {
    if frame.kind(index) != Kind::Table {
        return;
    }
    let count = i32::try_from(frame.elements(index)).unwrap_or(0);
    for at in (1..count).step_by(2) {
        frame.push_element(index, at);
        frame.push_element(index, at + 1);
        // What does not fit any more is more than any peer takes.
        let _ = fields.push(
            frame.bytes(-2).unwrap_or_default(),
            frame.bytes(-1).unwrap_or_default().trim_ascii(),
        );
        frame.pop();
        frame.pop();
    }
}

/// A number, or nil for content whose length is not stated.
fn read_length(frame: &Frame<'_>, index: i32) -> BodyLength {
    let length = frame.integer(index).and_then(|length| u64::try_from(length).ok());
    length.map_or(BodyLength::Framed, BodyLength::Known)
}

fn read_end(frame: &Frame<'_>, index: i32) -> End {
    if frame.truth(index) { End::Stream } else { End::More }
}

fn push_done(frame: &Frame<'_>, done: bool) -> Reply {
    frame.push_truth(done);
    Reply::Values(1)
}

/// `respond(session, stream, status, fields, length | nil, method, ended)`: false if the stream is gone.
fn respond(frame: &Frame<'_>) -> Reply {
    with_state(frame, |state, number| {
        let stream = state.codec.stream(number);
        let Codec::Server(connection, _) = &mut state.codec else {
            return push_done(frame, false);
        };
        let mut head = ResponseHead::new();
        head.status = frame.integer(3).and_then(|it| u16::try_from(it).ok()).unwrap_or(500);
        read_fields(frame, 4, &mut head.fields);
        let options = ResponseOptions {
            request: Method::of(frame.bytes(6).unwrap_or_default()),
            body: read_length(frame, 5),
            date: None,
            strict_transport: None,
            end: read_end(frame, 7),
        };
        let done = connection.respond(&mut state.out, stream, &head, &options);
        push_done(frame, done.is_ok())
    })
}

/// `request(session, {method, scheme, authority, target}, fields, length | nil, ended)`: the number of the new
/// stream, or nil and "full", "closing" or "invalid".
fn request(frame: &Frame<'_>) -> Reply {
    with_state(frame, |state, _| {
        let Codec::Client(connection, _) = &mut state.codec else {
            return frame.fail(b"closing");
        };
        if frame.kind(2) != Kind::Table {
            return frame.fail(b"invalid");
        }
        let part = |index| {
            frame.push_element(2, index);
            let bytes = frame.bytes(-1).unwrap_or_default().to_vec();
            frame.pop();
            bytes
        };
        let mut head = RequestHead::new();
        read_fields(frame, 3, &mut head.fields);
        let made = head.set_method(&part(1)).is_ok()
            && head.set_authority(&part(3)).is_ok()
            && head.set_written_target(&part(4)).is_ok();
        if !made {
            return frame.fail(b"invalid");
        }
        let options = RequestOptions {
            scheme: if part(2) == b"https" { Scheme::Https } else { Scheme::Http },
            body: read_length(frame, 4),
            expectation: Expectation::Continue,
            end: read_end(frame, 5),
            tunnel: Tunnel::AsInHead,
        };
        match connection.request(&mut state.out, &head, &options) {
            Ok(stream) => {
                frame.push_count(u64::from(stream.get()));
                Reply::Values(1)
            }
            Err(OpenError::Full) => frame.fail(b"full"),
            Err(OpenError::Closing) => frame.fail(b"closing"),
        }
    })
}

/// `data(session, stream, text, from, ended)`: how many bytes from there on the windows let through; with `ended` the
/// stream has ended if these were all. nil if the stream is gone.
fn data(frame: &Frame<'_>) -> Reply {
    with_state(frame, |state, number| {
        let text = frame.bytes(3).unwrap_or_default();
        let from = frame.integer(4).and_then(|from| usize::try_from(from - 1).ok());
        let rest = text.get(from.unwrap_or(0)..).unwrap_or_default();
        let piece = rest.get(..PIECE.min(rest.len())).unwrap_or_default();
        let end = if piece.len() == rest.len() { read_end(frame, 5) } else { End::More };
        let stream = state.codec.stream(number);
        let out = &mut state.out;
        let taken =
            either!(&mut state.codec, connection => connection.data(out, stream, piece, end));
        match taken.ok().and_then(|taken| u64::try_from(taken).ok()) {
            Some(taken) => frame.push_count(taken),
            None => frame.push_nil(),
        }
        Reply::Values(1)
    })
}

/// `trailers(session, stream, fields)`: false if the stream is gone.
fn trailers(frame: &Frame<'_>) -> Reply {
    with_state(frame, |state, number| {
        let mut fields = Fields::new();
        read_fields(frame, 3, &mut fields);
        let stream = state.codec.stream(number);
        let out = &mut state.out;
        let done =
            either!(&mut state.codec, connection => connection.trailers(out, stream, &fields));
        push_done(frame, done.is_ok())
    })
}

/// `consume(session, stream, bytes)`: so much content was read, or will never be.
fn consume(frame: &Frame<'_>) -> Reply {
    with_state(frame, |state, number| {
        let bytes = frame.integer(3).and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0);
        let stream = state.codec.stream(number);
        either!(&mut state.codec, connection => connection.consume(stream, bytes));
        Reply::Values(0)
    })
}

/// `reset(session, stream, code)`.
fn reset(frame: &Frame<'_>) -> Reply {
    with_state(frame, |state, number| {
        let code = frame.integer(3).and_then(|code| u32::try_from(code).ok());
        let stream = state.codec.stream(number);
        let code = ErrorCode(code.unwrap_or(ErrorCode::INTERNAL_ERROR.0));
        either!(&mut state.codec, connection => connection.reset(stream, code));
        Reply::Values(0)
    })
}

/// `end(session)`: no more streams; GOAWAY names the last one.
fn end(frame: &Frame<'_>) -> Reply {
    with_state(frame, |state, _| {
        either!(&mut state.codec, connection => connection.end_drain());
        Reply::Values(0)
    })
}
