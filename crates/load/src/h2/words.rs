//! What goes wrong between a load generator and a server of HTTP/2, in words.

use sluice_wire::h2::{Error, ErrorCode};

use crate::link::Broken;
use crate::source::Failure;

/// So much of an answer that is none is shown.
const SHOWN: usize = 40;

/// The way out where a server cannot do what was asked of it.
const WAY_OUT: &str = "leave --http2 out to speak HTTP/1.1";

/// Another protocol, or none, was agreed upon (RFC 7301).
pub(super) fn not_agreed(instead: Option<&[u8]>) -> String {
    let what = match instead {
        Some(protocol) => format!("it wants \"{}\"", protocol.escape_ascii()),
        None => "it names no protocol (ALPN)".to_owned(),
    };
    format!("the server does not agree to speak HTTP/2: {what}; {WAY_OUT}")
}

/// The server closed the connection instead of greeting.
pub(super) fn silent(encrypted: bool) -> String {
    let without = if encrypted { "" } else { " without encryption (h2c)" };
    format!(
        "the server closed the connection where its HTTP/2 should begin: it may not speak \
         HTTP/2{without}; {WAY_OUT}"
    )
}

/// What came first is no HTTP/2.
pub(super) fn no_http2(input: &[u8]) -> Broken {
    let begin = match input.get(..SHOWN) {
        Some(begin) => format!("it begins with \"{}...\"", begin.escape_ascii()),
        None => format!("it is \"{}\"", input.escape_ascii()),
    };
    Broken::Failed(
        Failure::Protocol,
        format!("what the server says is no HTTP/2: {begin}; {WAY_OUT}"),
    )
}

/// The server broke a rule.
pub(super) fn rule(error: Error) -> String {
    let (rule, code) = (error.reason.name().replace('_', " "), error.code.name());
    format!("the server breaks a rule of HTTP/2: {rule} ({code})")
}

/// The server reset a stream.
pub(super) fn reset(code: ErrorCode) -> String {
    match code {
        ErrorCode::REFUSED_STREAM => {
            format!("the server reset the stream: {}; it may want fewer --streams", code.name())
        }
        code => format!("the server reset the stream: {}", code.name()),
    }
}

/// The server ends the connection.
pub(super) fn goodbye(code: ErrorCode) -> String {
    match code {
        ErrorCode::NO_ERROR => {
            "the server ended the connection before it answered anything (GOAWAY)".to_owned()
        }
        code => format!("the server ended the connection: GOAWAY {}", code.name()),
    }
}
