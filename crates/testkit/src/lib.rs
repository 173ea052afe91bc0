//! Origins, clients, byte scripts, name servers and a driver of the real program, for tests over real sockets.
//!
//! Everything here is bound by [`PATIENCE`], so that a test fails with what it saw instead of hanging.
//! Nothing waits for a fixed time: the program's own lines, answers and closed sockets are what is waited for.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::as_conversions,
    reason = "a test tool: a failed expectation is its way of failing the test that uses it"
)]

pub mod behaviour;
pub mod case;
mod deadline;
mod exchange;
mod faults;
pub mod http2;
mod issuer;
mod job;
mod names;
mod origin;
mod peer;
mod places;
mod ports;
mod program;
mod records;
mod request;
mod response;
mod scratch;
mod script;
mod stream;
mod switch;

pub use deadline::{Deadline, PATIENCE, SOON};
pub use exchange::{After, Exchange};
pub use faults::{FaultOrigin, Mode};
pub use issuer::{SigningKey, base64, forged, jwks, sha256};
pub use job::Job;
pub use names::{NameServer, Resolution, Service};
pub use origin::{Behaviour, Gate, Origin};
pub use peer::Peer;
pub use places::{PlaceOf, place_file};
pub use ports::unclaimed_port;
pub use program::{Finished, Lines, Refused, Signal, Sluice, binary, run};
pub use request::{Body, Received};
pub use response::{Asked, End, Fields, Framing, Interim, Malformed, Parsed, Response, parse};
pub use scratch::Scratch;
pub use script::{ByteScript, Failure, State, ask, get};
pub use stream::Stream;
pub use switch::Switch;
