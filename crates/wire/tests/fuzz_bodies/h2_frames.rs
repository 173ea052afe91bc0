//! What holds for every input of an HTTP/2 connection, whatever the bytes.

use sluice_message::{BodyLength, Expectation, Fields, Method, RequestHead, ResponseHead};
use sluice_wire::h1::Limits;
use sluice_wire::h2::{
    ClientConnection, Config, Connect, Connection, End, Event, Input, PREFACE, Peer,
    RequestOptions, Scheme, ServerConnection, Tunnel,
};

/// The first byte chooses the role and the pieces; what follows is what a peer sends behind its preface.
/// Panics if a promise of the connection is broken.
pub(crate) fn run(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let config = Config {
        limits: Limits { head: 600, fields: 12, target: 80 },
        streams: 5,
        stream_window: 1000,
        connect: if choice & 2 == 0 { Connect::Plain } else { Connect::Extended },
        ..Config::default()
    };
    let piece = usize::from(choice >> 2) + 1;
    if choice & 1 == 0 {
        let bytes = [PREFACE, bytes].concat();
        let new = || ServerConnection::server(&config);
        same::<RequestHead>(new, &bytes, piece);
    } else {
        let new = || client(&config);
        same::<ResponseHead>(new, bytes, piece);
    }
}

/// A client that has asked for two things.
fn client(config: &Config) -> ClientConnection {
    let mut connection = ClientConnection::client(config);
    let mut head = RequestHead::new();
    head.target = head.fields.append(b"/").unwrap_or_default();
    for method in [Method::Get, Method::Head] {
        head.method = method;
        let options = RequestOptions {
            scheme: Scheme::Http,
            body: BodyLength::Empty,
            expectation: Expectation::None,
            end: End::Stream,
            tunnel: Tunnel::AsInHead,
        };
        assert!(connection.request(&mut Vec::new(), &head, &options).is_ok());
    }
    connection
}

fn same<H: Peer + Default>(new: impl Fn() -> Connection<H>, bytes: &[u8], piece: usize) {
    let whole = told(&mut new(), bytes, usize::MAX);
    let cut = told(&mut new(), bytes, piece);
    assert_eq!(whole, cut, "in pieces of {piece}");
}

/// Everything said, content gathered per stream.
fn told<H: Peer + Default>(connection: &mut Connection<H>, bytes: &[u8], piece: usize) -> String {
    let (mut head, mut trailers) = (H::default(), Fields::new());
    let (mut waiting, mut said, mut out) = (Vec::new(), String::new(), Vec::new());
    let mut content: Vec<(u32, Vec<u8>)> = Vec::new();
    // Given back at the end: when it is given back decides what the peer may send.
    let mut given = Vec::new();
    for part in bytes.chunks(piece) {
        waiting.extend_from_slice(part);
        let mut input = Input::new(&waiting);
        loop {
            match connection.next(&mut input, 0, &mut head, &mut trailers) {
                Ok(None) => break,
                Ok(Some(Event::Data { about, data, .. })) => {
                    let stream = about.stream.get();
                    let bytes = &input.bytes()[data.clone()];
                    match content.iter_mut().find(|(id, _)| *id == stream) {
                        Some((_, have)) => have.extend_from_slice(bytes),
                        None => content.push((stream, bytes.to_vec())),
                    }
                    given.push((about.stream, data.len()));
                }
                Ok(Some(event)) => said.push_str(&format!("{event:?}\n")),
                Err(error) => {
                    connection.flush(&mut out);
                    assert!(out.len() >= 17, "the peer is told");
                    return format!("{said}{error:?}");
                }
            }
            assert!(input.consumed() <= waiting.len() && connection.streams() <= 5);
        }
        let consumed = input.consumed();
        waiting.drain(..consumed);
    }
    for (stream, bytes) in given {
        connection.consume(stream, bytes);
    }
    connection.flush(&mut out);
    assert!(out.len() <= 64 * 1024, "answers are bounded");
    format!("{said}{content:?}")
}
