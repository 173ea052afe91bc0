//! Response heads, good and bad, as tables.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop here")]

use sluice_message::FaultKind::{HeadTooLarge, Malformed, TooManyFields};
use sluice_message::Syntax::{
    ContentLength, FieldName, FieldValue, FoldedLine, LineEnd, StatusLine, TransferEncoding,
    Version as VersionRule,
};
use sluice_message::{BodyLength, FaultKind, Method, Persistence, ResponseHead};
use sluice_wire::h1::{Decoded, Limits, decode_response};

const LIMITS: Limits = Limits { head: 1024, fields: 20, target: 0 };

fn decode(input: &[u8], request: Method, head: &mut ResponseHead) -> Result<Decoded, FaultKind> {
    decode_response(input, &LIMITS, request, head)
}

/// Status lines: code and reason.
const STATUS_LINES: &[(&str, u16, &str)] = &[
    ("HTTP/1.1 200 OK", 200, "OK"),
    ("HTTP/1.0 200 OK", 200, "OK"),
    ("HTTP/1.1 200 ", 200, ""),
    ("HTTP/1.1 200", 200, ""),
    ("HTTP/1.1 404 Not Found", 404, "Not Found"),
    ("HTTP/1.1 404  two blanks\tand a tab", 404, " two blanks\tand a tab"),
    ("HTTP/1.1 299 caf\u{e9}", 299, "caf\u{e9}"),
    ("HTTP/1.1 500 a reason longer than sixteen bytes", 500, "a reason longer than sixteen bytes"),
    ("HTTP/1.1 100 Continue", 100, "Continue"),
    ("HTTP/1.1 999 x", 999, "x"),
];

#[test]
fn status_lines() {
    let mut head = ResponseHead::new();
    for &(line, status, reason) in STATUS_LINES {
        let input = format!("{line}\r\nContent-Length: 0\r\n\r\n");
        let got = decode(input.as_bytes(), Method::Get, &mut head);
        assert_eq!(got, Ok(Decoded::Complete { consumed: input.len() }), "{line}");
        assert_eq!((head.status, head.fields.slice(head.reason)), (status, reason.as_bytes()));
        for length in 0..input.len() {
            let got = decode(&input.as_bytes()[..length], Method::Get, &mut head);
            assert_eq!(got, Ok(Decoded::Partial), "{}", input[..length].escape_debug());
        }
    }
}

/// Status line, further lines, request method; length and persistence.
const MEANINGS: &[(&str, &str, Method, BodyLength, Persistence)] = {
    use BodyLength::{Empty, Framed, Known, UntilClose};
    use Method::{Connect, Get, Head, Post};
    use Persistence::{Close, KeepAlive};
    &[
        ("HTTP/1.1 200 OK", "Content-Length: 5\r\n", Get, Known(5), KeepAlive),
        ("HTTP/1.1 200 OK", "Content-Length: 0\r\n", Post, Known(0), KeepAlive),
        ("HTTP/1.1 200 OK", "Transfer-Encoding: chunked\r\n", Get, Framed, KeepAlive),
        ("HTTP/1.1 200 OK", "transfer-encoding: Chunked\r\n", Get, Framed, KeepAlive),
        ("HTTP/1.1 200 OK", "", Get, UntilClose, Close),
        ("HTTP/1.1 200 OK", "Connection: keep-alive\r\n", Get, UntilClose, Close),
        ("HTTP/1.1 200 OK", "Content-Length: 5\r\nConnection: close\r\n", Get, Known(5), Close),
        ("HTTP/1.1 200 OK", "Content-Length: 5\r\n", Head, Empty, KeepAlive),
        ("HTTP/1.1 200 OK", "Transfer-Encoding: chunked\r\n", Head, Empty, KeepAlive),
        ("HTTP/1.1 200 OK", "", Head, Empty, KeepAlive),
        ("HTTP/1.1 304 Not Modified", "Content-Length: 5\r\n", Get, Empty, KeepAlive),
        ("HTTP/1.1 204 No Content", "", Get, Empty, KeepAlive),
        ("HTTP/1.1 204 No Content", "Content-Length: 5\r\n", Get, Empty, KeepAlive),
        ("HTTP/1.1 100 Continue", "", Post, Empty, KeepAlive),
        ("HTTP/1.1 103 Early Hints", "Link: </a>\r\n", Get, Empty, KeepAlive),
        ("HTTP/1.1 101 Switching Protocols", "Upgrade: x\r\n", Get, Empty, KeepAlive),
        ("HTTP/1.1 200 OK", "Content-Length: 5\r\n", Connect, Empty, KeepAlive),
        ("HTTP/1.1 404 Not Found", "Content-Length: 5\r\n", Connect, Known(5), KeepAlive),
        ("HTTP/1.0 200 OK", "Content-Length: 5\r\n", Get, Known(5), Close),
        (
            "HTTP/1.0 200 OK",
            "Content-Length: 5\r\nConnection: keep-alive\r\n",
            Get,
            Known(5),
            KeepAlive,
        ),
        ("HTTP/1.0 200 OK", "", Get, UntilClose, Close),
        ("HTTP/1.1 200 OK", "Host: not: a host\r\nContent-Length: 1\r\n", Get, Known(1), KeepAlive),
    ]
};

#[test]
fn lengths_and_connections() {
    let mut head = ResponseHead::new();
    for &(line, lines, request, body, persistence) in MEANINGS {
        let input = format!("{line}\r\n{lines}\r\n");
        let got = decode(input.as_bytes(), request, &mut head);
        assert_eq!(got, Ok(Decoded::Complete { consumed: input.len() }), "{input:?}");
        assert_eq!((head.body, head.persistence), (body, persistence), "{input:?}");
    }
}

const BAD: &[(&str, FaultKind)] = &[
    ("\r\nHTTP/1.1 200 OK\r\n\r\n", Malformed(StatusLine)),
    (" HTTP/1.1 200 OK\r\n\r\n", Malformed(StatusLine)),
    ("http/1.1 200 OK\r\n\r\n", Malformed(StatusLine)),
    ("ICY 200 OK\r\n\r\n", Malformed(StatusLine)),
    ("HTTP/2 200 OK\r\n\r\n", Malformed(VersionRule)),
    ("HTTP/1.2 200 OK\r\n\r\n", Malformed(VersionRule)),
    ("HTTP/1.10 200 OK\r\n\r\n", Malformed(VersionRule)),
    ("HTTP/1.1  200 OK\r\n\r\n", Malformed(StatusLine)),
    ("HTTP/1.1\t200 OK\r\n\r\n", Malformed(StatusLine)),
    ("HTTP/1.1 20 OK\r\n\r\n", Malformed(StatusLine)),
    ("HTTP/1.1 2000 OK\r\n\r\n", Malformed(StatusLine)),
    ("HTTP/1.1 099 OK\r\n\r\n", Malformed(StatusLine)),
    ("HTTP/1.1 2x0 OK\r\n\r\n", Malformed(StatusLine)),
    ("HTTP/1.1 -20 OK\r\n\r\n", Malformed(StatusLine)),
    ("HTTP/1.1 200OK\r\n\r\n", Malformed(StatusLine)),
    ("HTTP/1.1 200\tOK\r\n\r\n", Malformed(StatusLine)),
    ("HTTP/1.1\r\n\r\n", Malformed(StatusLine)),
    ("HTTP/1.1 \r\n\r\n", Malformed(StatusLine)),
    ("HTTP/1.1 200 O\0K\r\n\r\n", Malformed(StatusLine)),
    ("HTTP/1.1 200 O\u{7f}K\r\n\r\n", Malformed(StatusLine)),
    ("HTTP/1.1 200 OK\n\r\n", Malformed(LineEnd)),
    ("HTTP/1.1 200 OK\rX: y\r\n\r\n", Malformed(LineEnd)),
    ("HTTP/1.1 200 OK\r\nX: y\n\r\n", Malformed(LineEnd)),
    ("HTTP/1.1 200 OK\r\nX: y\r\n\n", Malformed(LineEnd)),
    ("HTTP/1.1 200 OK\r\nX : y\r\n\r\n", Malformed(FieldName)),
    ("HTTP/1.1 200 OK\r\nX\r\n\r\n", Malformed(FieldName)),
    ("HTTP/1.1 200 OK\r\n: y\r\n\r\n", Malformed(FieldName)),
    ("HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n", Malformed(FoldedLine)),
    ("HTTP/1.1 200 OK\r\n X: a\r\n\r\n", Malformed(FoldedLine)),
    ("HTTP/1.1 200 OK\r\nX: a\0\r\n\r\n", Malformed(FieldValue)),
    ("HTTP/1.1 200 OK\r\nContent-Length: a\r\n\r\n", Malformed(ContentLength)),
    ("HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n", Malformed(ContentLength)),
    ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", Malformed(ContentLength)),
    ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", Malformed(ContentLength)),
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        Malformed(ContentLength),
    ),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
        Malformed(ContentLength),
    ),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", Malformed(TransferEncoding)),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", Malformed(TransferEncoding)),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        Malformed(TransferEncoding),
    ),
    ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Malformed(TransferEncoding)),
    ("HTTP/1.1 304 x\r\nContent-Length: a\r\n\r\n", Malformed(ContentLength)),
];

#[test]
fn bad_heads_are_refused_and_never_accepted_on_the_way() {
    for &(input, fault) in BAD {
        let mut head = ResponseHead::new();
        for length in 0..=input.len() {
            match decode(&input.as_bytes()[..length], Method::Get, &mut head) {
                Ok(Decoded::Partial) => assert!(length < input.len(), "{input:?}"),
                got => assert_eq!(got, Err(fault), "{input:?}"),
            }
        }
        assert_eq!(head, ResponseHead::new());
    }
}

#[test]
fn what_httparse_refuses_is_refused() {
    let accepted = |input: &str| {
        let mut fields = [httparse::EMPTY_HEADER; 64];
        httparse::Response::new(&mut fields)
            .parse(input.as_bytes())
            .is_ok_and(|status| status.is_complete())
    };
    for (line, lines, ..) in MEANINGS {
        assert!(accepted(&format!("{line}\r\n{lines}\r\n")), "{line:?} {lines:?}");
    }
    for (line, ..) in STATUS_LINES {
        assert!(accepted(&format!("{line}\r\n\r\n")), "{line:?}");
    }
    for (input, _) in BAD {
        let ours = decode(input.as_bytes(), Method::Get, &mut ResponseHead::new());
        assert!(ours.is_err() || accepted(input), "{input:?}");
    }
}

#[test]
fn limits() {
    let limits = Limits { head: 60, fields: 1, target: 0 };
    let line = "HTTP/1.1 200 OK\r\n";
    let cases = [
        (format!("{line}A: b\r\n\r\n"), Ok(Decoded::Complete { consumed: 25 })),
        (format!("{line}A: b\r\nC: d\r\n\r\n"), Err(TooManyFields)),
        (format!("{line}A: {}", "x".repeat(40)), Ok(Decoded::Partial)),
        (format!("{line}A: {}", "x".repeat(41)), Err(HeadTooLarge)),
        (format!("HTTP/1.1 200 {}", "x".repeat(48)), Err(HeadTooLarge)),
    ];
    for (input, want) in cases {
        let got = decode_response(input.as_bytes(), &limits, Method::Get, &mut ResponseHead::new());
        assert_eq!(got, want, "{input:?}");
    }
}
