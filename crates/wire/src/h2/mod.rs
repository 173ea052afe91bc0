//! HTTP/2 (RFC 9113): bytes in, bytes out, for servers and for clients.
//!
//! A [`ServerConnection`] or [`ClientConnection`] is the state of one connection. It has no socket, no
//! clock and no buffer for content; its caller owns those.
//!
//! # Receiving
//!
//! The caller reads into one buffer, with room for [`LARGEST_FRAME`] bytes at least, and asks for events:
//!
//! ```
//! use sluice_message::{Fields, RequestHead};
//! use sluice_wire::h2::{Config, Event, Input, ServerConnection};
//!
//! fn received(connection: &mut ServerConnection, buffer: &mut Vec<u8>, now: u64) {
//!     let (mut head, mut trailers) = (RequestHead::new(), Fields::new());
//!     let mut input = Input::new(buffer);
//!     loop {
//!         match connection.next(&mut input, now, &mut head, &mut trailers) {
//!             // A stream begins: `head` goes to whoever serves it, `set_tag` says who that is.
//!             Ok(Some(Event::Head { about, .. })) => connection.set_tag(about.stream, 7),
//!             // Content: used or copied before the buffer moves, then given back with `consume`.
//!             Ok(Some(Event::Data { about, data, .. })) => {
//!                 connection.consume(about.stream, data.len());
//!             }
//!             Ok(Some(_)) => {}
//!             Ok(None) => break,
//!             // GOAWAY waits in `flush`; it is sent, then the connection is closed.
//!             Err(_) => break,
//!         }
//!     }
//!     let consumed = input.consumed();
//!     buffer.drain(..consumed);
//! }
//! # let mut connection = ServerConnection::server(&Config::default());
//! # received(&mut connection, &mut b"PRI * HTTP/2.0".to_vec(), 0);
//! ```
//!
//! `head` and `trailers` are filled for one event and free again with the next call; taking a head is a
//! swap. What a stream's reader does not take at once has to be kept by the caller: at most the
//! stream's window, since the peer gets no more before [`Connection::consume`]. Every byte of every
//! [`Event::Data`] is given back once, also when its stream is gone by then.
//!
//! # Sending
//!
//! [`ServerConnection::respond`](Connection::respond) or [`ClientConnection::request`](Connection::request), then
//! [`Connection::data`] as often as it takes and with [`End::Stream`] at last, or [`Connection::trailers`]. All
//! append whole frames to the caller's output. `data` takes what windows allow and says how much; when that is
//! less than there was, [`Event::Window`] for the stream or for the connection, or [`Event::Settings`], says when
//! to go on. A caller that shares the connection's window fairly offers a few kilobytes per stream and turn.
//!
//! [`Connection::flush`] appends what the connection has to say itself (acknowledgements, resets, window
//! updates) and is called when input was handled and output has room; sending does it too. If the peer does
//! not read, nothing is flushed and the connection bounds what waits.
//!
//! # Ends
//!
//! [`Event::Reset`], [`Event::Failed`], an error of [`Connection::next`], and [`Gone`] from a sending function
//! mean that a stream is gone. A server ends with [`Connection::drain`], closes once
//! [`Connection::is_drained`]; a client leaves off opening streams and closes when it has none.
//! `tests/h2_exchange.rs` drives both sides against each other.

mod connection;
mod error;
mod event;
mod flood;
mod flow;
mod frame;
mod head;
pub mod hpack;
mod settings;
mod streams;

pub use connection::{
    ClientConnection, Config, Connection, Gone, LARGEST_FRAME, OpenError, PREFACE, Peer,
    ServerConnection,
};
pub use error::{Error, ErrorCode, Reason};
pub use event::{About, Event, Input, NO_TAG, StreamId};
pub use flood::{Flood, FloodLimits};
pub use head::{Connect, End, RequestOptions, ResponseOptions, Scheme, Tunnel};
pub use settings::PeerSettings;
