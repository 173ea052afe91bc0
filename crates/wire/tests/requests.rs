//! Request heads, good and bad, as tables: what each means or which rule it breaks.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop here")]

use sluice_message::FaultKind::{HeadTooLarge, Malformed, TargetTooLong, TooManyFields};
use sluice_message::Syntax::{
    ContentLength, FieldName, FieldValue, FoldedLine, Host, LineEnd, RequestLine, Target,
    TransferEncoding, Version as VersionRule,
};
use sluice_message::{
    BodyLength, Expectation, FaultKind, PathForm, Persistence, RequestHead, TargetForm,
};
use sluice_wire::h1::{Decoded, Limits, decode_request};

const LIMITS: Limits = Limits { head: 1024, fields: 20, target: 200 };

fn decode(input: &[u8], head: &mut RequestHead) -> Result<Decoded, FaultKind> {
    decode_request(input, &LIMITS, head)
}

/// Method, target, path, query, authority of the heads below.
const TARGETS: &[(&str, [&str; 5])] = &[
    ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", ["GET", "/", "/", "", "a"]),
    ("GET /?q HTTP/1.1\r\nHost: a\r\n\r\n", ["GET", "/?q", "/", "q", "a"]),
    ("GET /a?b?c=/../ HTTP/1.1\r\nHost: a\r\n\r\n", ["GET", "/a?b?c=/../", "/a", "b?c=/../", "a"]),
    ("GET /a? HTTP/1.1\r\nHost: a\r\n\r\n", ["GET", "/a?", "/a", "", "a"]),
    ("POST /a/b HTTP/1.1\r\nHost: a:80\r\n\r\n", ["POST", "/a/b", "/a/b", "", "a:80"]),
    ("GET /a/./b HTTP/1.1\r\nHost: a\r\n\r\n", ["GET", "/a/./b", "/a/./b", "", "a"]),
    ("GET /a/../b?x HTTP/1.1\r\nHost: a\r\n\r\n", ["GET", "/a/../b?x", "/a/../b", "x", "a"]),
    ("GET //a HTTP/1.1\r\nHost: a\r\n\r\n", ["GET", "//a", "//a", "", "a"]),
    ("GET /%61 HTTP/1.1\r\nHost: a\r\n\r\n", ["GET", "/%61", "/%61", "", "a"]),
    ("GET /%2f HTTP/1.1\r\nHost: a\r\n\r\n", ["GET", "/%2f", "/%2f", "", "a"]),
    ("GET /a?%zz HTTP/1.1\r\nHost: a\r\n\r\n", ["GET", "/a?%zz", "/a", "%zz", "a"]),
    ("GET /.a HTTP/1.1\r\nHost: a\r\n\r\n", ["GET", "/.a", "/.a", "", "a"]),
    (
        "GET /fifteen-letters/../b HTTP/1.1\r\nHost: a\r\n\r\n",
        ["GET", "/fifteen-letters/../b", "/fifteen-letters/../b", "", "a"],
    ),
    (
        "GET /fourteen-bytes//b HTTP/1.1\r\nHost: a\r\n\r\n",
        ["GET", "/fourteen-bytes//b", "/fourteen-bytes//b", "", "a"],
    ),
    (
        "GET /a-path-that-is-longer-than-sixteen-bytes/and-some?and=a-query HTTP/1.1\r\nHost: a\r\n\r\n",
        [
            "GET",
            "/a-path-that-is-longer-than-sixteen-bytes/and-some?and=a-query",
            "/a-path-that-is-longer-than-sixteen-bytes/and-some",
            "and=a-query",
            "a",
        ],
    ),
    ("get / HTTP/1.1\r\nHost: a\r\n\r\n", ["get", "/", "/", "", "a"]),
    ("M-SEARCH / HTTP/1.1\r\nHost: a\r\n\r\n", ["M-SEARCH", "/", "/", "", "a"]),
    ("!#$%&'*+-.^_`|~9 / HTTP/1.1\r\nHost: a\r\n\r\n", ["!#$%&'*+-.^_`|~9", "/", "/", "", "a"]),
    ("GET http://b HTTP/1.1\r\nHost: a\r\n\r\n", ["GET", "/", "/", "", "b"]),
    ("GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", ["GET", "/", "/", "", "b"]),
    ("GET HTTP://b:1/c?d HTTP/1.1\r\nHost: b:1\r\n\r\n", ["GET", "/c?d", "/c", "d", "b:1"]),
    ("GET https://b/c//d HTTP/1.1\r\nHost: a\r\n\r\n", ["GET", "/c//d", "/c//d", "", "b"]),
    ("GET http://b?d=e HTTP/1.1\r\nHost: a\r\n\r\n", ["GET", "/?d=e", "/", "d=e", "b"]),
    ("GET http://b? HTTP/1.1\r\nHost: a\r\n\r\n", ["GET", "/?", "/", "", "b"]),
    ("GET http://[::1]:8/x HTTP/1.1\r\nHost: a\r\n\r\n", ["GET", "/x", "/x", "", "[::1]:8"]),
    ("GET http://b/x HTTP/1.0\r\n\r\n", ["GET", "/x", "/x", "", "b"]),
    ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", ["OPTIONS", "*", "*", "", "a"]),
    ("OPTIONS http://b HTTP/1.1\r\nHost: a\r\n\r\n", ["OPTIONS", "*", "*", "", "b"]),
    ("OPTIONS http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", ["OPTIONS", "/", "/", "", "b"]),
    ("OPTIONS http://b?x HTTP/1.1\r\nHost: a\r\n\r\n", ["OPTIONS", "/?x", "/", "x", "b"]),
    ("OPTIONS /a HTTP/1.1\r\nHost: a\r\n\r\n", ["OPTIONS", "/a", "/a", "", "a"]),
    ("CONNECT b:443 HTTP/1.1\r\nHost: a\r\n\r\n", ["CONNECT", "b:443", "", "", "b:443"]),
    (
        "CONNECT [::1]:443 HTTP/1.1\r\nHost: a\r\n\r\n",
        ["CONNECT", "[::1]:443", "", "", "[::1]:443"],
    ),
    ("GET / HTTP/1.0\r\n\r\n", ["GET", "/", "/", "", ""]),
    ("GET / HTTP/1.0\r\nHost: a\r\n\r\n", ["GET", "/", "/", "", "a"]),
    ("GET / HTTP/1.1\r\nHost: [2001:db8::1]\r\n\r\n", ["GET", "/", "/", "", "[2001:db8::1]"]),
    (
        "GET / HTTP/1.1\r\nhOsT:\t a.b-c.example:0 \t\r\n\r\n",
        ["GET", "/", "/", "", "a.b-c.example:0"],
    ),
    ("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", ["GET", "/", "/", "", "a"]),
    ("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", ["GET", "/", "/", "", "a"]),
];

#[test]
fn targets_are_taken_apart() {
    let mut head = RequestHead::new();
    for &(input, [method, target, path, query, authority]) in TARGETS {
        let consumed = input.len();
        // What follows a head belongs to somebody else.
        let more = format!("{input}\r\nGET");
        for input in [input, more.as_str()] {
            let got = decode(input.as_bytes(), &mut head);
            assert_eq!(got, Ok(Decoded::Complete { consumed }), "{input:?}");
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            assert_eq!(text(head.method_text()), method, "{input:?}");
            assert_eq!(text(head.target()), target, "{input:?}");
            assert_eq!(text(head.path()), path, "{input:?}");
            assert_eq!(text(head.query()), query, "{input:?}");
            assert_eq!(text(head.authority()), authority, "{input:?}");
            if head.form != TargetForm::Authority && !authority.is_empty() {
                let hosts: Vec<_> = head.fields.values(sluice_message::FieldId::Host).collect();
                assert_eq!(hosts, [authority.as_bytes()], "{input:?}");
            }
        }
    }
}

/// Whether a path has to be read is known from the scan, wherever in it the reason stands.
#[test]
fn odd_paths_are_seen() {
    let odd = ["%41", ";a", "\\a", "//", "/.", "/..", "/./a"];
    let plain = ["/a", "a.b", "!'()*+,-:=@_~", "a..", "^`{|}"];
    let mut head = RequestHead::new();
    let mut check = |target: &str, form: PathForm| {
        let input = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let got = decode(input.as_bytes(), &mut head);
        assert_eq!(got, Ok(Decoded::Complete { consumed: input.len() }), "{target}");
        assert_eq!(head.path_form, form, "{target}");
    };
    for length in 1..40 {
        let before = format!("/{}", "x".repeat(length));
        for part in odd {
            check(&format!("{before}{part}"), PathForm::Unread);
            check(&format!("{before}{part}/and/more?x=y"), PathForm::Unread);
            check(&format!("http://a{before}{part}"), PathForm::Unread);
        }
        for part in plain {
            check(&format!("{before}{part}"), PathForm::Normal);
            check(&format!("{before}{part}?q=%20//;/.\\"), PathForm::Normal);
            check(&format!("http://a{before}{part}?a=b"), PathForm::Normal);
        }
    }
}

#[test]
fn forms() {
    let cases = [
        ("GET / HTTP/1.1", TargetForm::Origin),
        ("GET http://a/ HTTP/1.1", TargetForm::Absolute),
        ("OPTIONS * HTTP/1.1", TargetForm::Asterisk),
        ("OPTIONS http://a HTTP/1.1", TargetForm::Asterisk),
        ("CONNECT a:1 HTTP/1.1", TargetForm::Authority),
    ];
    for (line, form) in cases {
        let mut head = RequestHead::new();
        let input = format!("{line}\r\nHost: a\r\n\r\n");
        assert!(matches!(decode(input.as_bytes(), &mut head), Ok(Decoded::Complete { .. })));
        assert_eq!(head.form, form, "{line}");
    }
}

/// Lines behind `POST / HTTP/1.x`, and what they say.
const MEANINGS: &[(&str, &str, BodyLength, Persistence, Expectation)] = {
    use BodyLength::{Empty, Framed, Known};
    use Expectation::{Continue, None, Unknown};
    use Persistence::{Close, KeepAlive};
    &[
        ("1", "", Empty, KeepAlive, None),
        ("1", "Content-Length: 0\r\n", Known(0), KeepAlive, None),
        ("1", "Content-Length: 5\r\n", Known(5), KeepAlive, None),
        ("1", "content-length:00005  \r\n", Known(5), KeepAlive, None),
        ("1", "CONTENT-LENGTH: 18446744073709551615\r\n", Known(u64::MAX), KeepAlive, None),
        ("1", "Transfer-Encoding: chunked\r\n", Framed, KeepAlive, None),
        ("1", "Transfer-Encoding: CHUNKED\r\n", Framed, KeepAlive, None),
        ("1", "transfer-encoding:\tchunked\t\r\n", Framed, KeepAlive, None),
        ("1", "Connection: close\r\n", Empty, Close, None),
        ("1", "Connection: x, CLOSE\r\n", Empty, Close, None),
        ("1", "Connection: x\r\nConnection: close\r\n", Empty, Close, None),
        ("1", "Connection: keep-alive\r\n", Empty, KeepAlive, None),
        ("1", "Connection: keep-alive, close\r\n", Empty, Close, None),
        ("1", "Connection: closed\r\n", Empty, KeepAlive, None),
        ("1", "Connection:\r\n", Empty, KeepAlive, None),
        ("0", "", Empty, Close, None),
        ("0", "Connection: keep-alive\r\n", Empty, KeepAlive, None),
        ("0", "Connection: Keep-Alive,x\r\n", Empty, KeepAlive, None),
        ("0", "Connection: keep-alive\r\nConnection: close\r\n", Empty, Close, None),
        ("0", "Content-Length: 7\r\n", Known(7), Close, None),
        ("1", "Expect: 100-continue\r\n", Empty, KeepAlive, Continue),
        ("1", "expect: 100-CONTINUE\r\n", Empty, KeepAlive, Continue),
        ("1", "Expect: 200-ok\r\n", Empty, KeepAlive, Unknown),
        ("1", "Expect: x\r\nExpect: 100-continue\r\n", Empty, KeepAlive, Unknown),
        ("1", "Expect: 100-continue\r\nExpect: 100-continue\r\n", Empty, KeepAlive, Continue),
        ("0", "Expect: 100-continue\r\n", Empty, Close, None),
        ("1", "X: \r\n", Empty, KeepAlive, None),
        ("1", "X:\r\nY:\t\r\n", Empty, KeepAlive, None),
        ("1", "X: a\tb \u{e4}\u{ff} c\r\n", Empty, KeepAlive, None),
        ("1", "a-name-of-more-than-sixteen-letters: x\r\n", Empty, KeepAlive, None),
        ("1", "!#$%&'*+.^_`|~: x\r\n", Empty, KeepAlive, None),
        ("1", "X: a value longer than sixteen bytes, twice over.\r\n", Empty, KeepAlive, None),
    ]
};

#[test]
fn framing_and_connection() {
    let mut head = RequestHead::new();
    for &(minor, lines, body, persistence, expectation) in MEANINGS {
        let input = format!("POST / HTTP/1.{minor}\r\nHost: a\r\n{lines}\r\n");
        let got = decode(input.as_bytes(), &mut head);
        assert_eq!(got, Ok(Decoded::Complete { consumed: input.len() }), "{input:?}");
        let got = (head.body, head.persistence, head.expectation);
        assert_eq!(got, (body, persistence, expectation), "{input:?}");
    }
}

/// Request lines, all of them followed by a good head.
const BAD_LINES: &[(&str, FaultKind)] = &[
    (" GET / HTTP/1.1", Malformed(RequestLine)),
    ("GET  / HTTP/1.1", Malformed(RequestLine)),
    ("GET\t/ HTTP/1.1", Malformed(RequestLine)),
    ("GET /  HTTP/1.1", Malformed(RequestLine)),
    ("GET /\tHTTP/1.1", Malformed(Target)),
    ("GET / HTTP/1.1 ", Malformed(RequestLine)),
    ("GET / HTTP/1.1\t", Malformed(RequestLine)),
    ("GET / x HTTP/1.1", Malformed(RequestLine)),
    ("GET /", Malformed(RequestLine)),
    ("GET / ", Malformed(RequestLine)),
    ("GET", Malformed(RequestLine)),
    ("GET ", Malformed(RequestLine)),
    ("GET HTTP/1.1", Malformed(RequestLine)),
    ("/ HTTP/1.1", Malformed(RequestLine)),
    ("G(T / HTTP/1.1", Malformed(RequestLine)),
    ("G\0T / HTTP/1.1", Malformed(RequestLine)),
    ("G\u{e4}T / HTTP/1.1", Malformed(RequestLine)),
    ("\u{16}\u{3}\u{1}", Malformed(RequestLine)),
    ("GET / http/1.1", Malformed(RequestLine)),
    ("GET / HTTQ/1.1", Malformed(RequestLine)),
    ("GET / HTTP /1.1", Malformed(RequestLine)),
    ("GET / HTTP/1.2", Malformed(VersionRule)),
    ("GET / HTTP/2.0", Malformed(VersionRule)),
    ("GET / HTTP/0.9", Malformed(VersionRule)),
    ("GET / HTTP/11", Malformed(VersionRule)),
    ("GET / HTTP/1.10", Malformed(VersionRule)),
    ("GET / HTTP/1.1.1", Malformed(VersionRule)),
    ("GET / HTTP/1,1", Malformed(VersionRule)),
    ("GET / HTTP/1.", Malformed(VersionRule)),
    ("PRI * HTTP/2.0", Malformed(Target)),
    ("GET * HTTP/1.1", Malformed(Target)),
    ("GET a HTTP/1.1", Malformed(Target)),
    ("GET a/b HTTP/1.1", Malformed(Target)),
    ("GET a.example:80 HTTP/1.1", Malformed(Target)),
    ("GET ?a HTTP/1.1", Malformed(Target)),
    ("GET ** HTTP/1.1", Malformed(Target)),
    ("OPTIONS *a HTTP/1.1", Malformed(Target)),
    ("GET ftp://a/ HTTP/1.1", Malformed(Target)),
    ("GET http:/a HTTP/1.1", Malformed(Target)),
    ("GET http:// HTTP/1.1", Malformed(Target)),
    ("GET http:///a HTTP/1.1", Malformed(Target)),
    ("GET http://:80/ HTTP/1.1", Malformed(Target)),
    ("GET http://u@a/ HTTP/1.1", Malformed(Target)),
    ("GET http://u:p@a/ HTTP/1.1", Malformed(Target)),
    ("GET http://a:b/ HTTP/1.1", Malformed(Target)),
    ("GET http://a:65536/ HTTP/1.1", Malformed(Target)),
    ("GET http://[::1/ HTTP/1.1", Malformed(Target)),
    ("GET http://a\\b/ HTTP/1.1", Malformed(Target)),
    ("GET /a#b HTTP/1.1", Malformed(Target)),
    ("GET /a-path-of-more-than-sixteen-bytes#b HTTP/1.1", Malformed(Target)),
    ("GET /\u{e4} HTTP/1.1", Malformed(Target)),
    ("GET /\0 HTTP/1.1", Malformed(Target)),
    ("GET /\u{7f} HTTP/1.1", Malformed(Target)),
    ("GET /\u{1} HTTP/1.1", Malformed(Target)),
    ("CONNECT / HTTP/1.1", Malformed(Target)),
    ("CONNECT a HTTP/1.1", Malformed(Target)),
    ("CONNECT a: HTTP/1.1", Malformed(Target)),
    ("CONNECT :80 HTTP/1.1", Malformed(Target)),
    ("CONNECT u@a:80 HTTP/1.1", Malformed(Target)),
    ("CONNECT http://a/ HTTP/1.1", Malformed(Target)),
    ("CONNECT * HTTP/1.1", Malformed(Target)),
];

/// Lines between a good request line with a good `Host`, and the empty line.
const BAD_FIELDS: &[(&str, FaultKind)] = &[
    ("X : a\r\n", Malformed(FieldName)),
    ("X\t: a\r\n", Malformed(FieldName)),
    (": a\r\n", Malformed(FieldName)),
    ("X\r\n", Malformed(FieldName)),
    ("X Y: a\r\n", Malformed(FieldName)),
    ("X(: a\r\n", Malformed(FieldName)),
    ("X\0: a\r\n", Malformed(FieldName)),
    ("\0X: a\r\n", Malformed(FieldName)),
    ("X\u{e4}: a\r\n", Malformed(FieldName)),
    ("X\"Y: a\r\n", Malformed(FieldName)),
    ("X/Y: a\r\n", Malformed(FieldName)),
    ("keep\ralive: a\r\n", Malformed(FieldName)),
    ("a-name-of-more-than-sixteen-letters : x\r\n", Malformed(FieldName)),
    ("a-name-of-more-than-sixteen-letters\r\n", Malformed(FieldName)),
    ("Content-Length : 5\r\n", Malformed(FieldName)),
    ("Transfer-Encoding : chunked\r\n", Malformed(FieldName)),
    (" X: a\r\n", Malformed(FoldedLine)),
    ("\tX: a\r\n", Malformed(FoldedLine)),
    ("X: a\r\n b\r\n", Malformed(FoldedLine)),
    ("X: a\r\n\tb\r\n", Malformed(FoldedLine)),
    ("X: a\r\n \r\n", Malformed(FoldedLine)),
    ("X: a\n", Malformed(LineEnd)),
    ("X: a\nY: b\r\n", Malformed(LineEnd)),
    ("X: a\rY: b\r\n", Malformed(LineEnd)),
    ("X: a\r\r\n", Malformed(LineEnd)),
    ("X: a\r \r\n", Malformed(LineEnd)),
    ("\n", Malformed(LineEnd)),
    ("\rX: a\r\n", Malformed(LineEnd)),
    ("X: a\0b\r\n", Malformed(FieldValue)),
    ("X: \0\r\n", Malformed(FieldValue)),
    ("X: a\u{1}\r\n", Malformed(FieldValue)),
    ("X: a\u{8}\r\n", Malformed(FieldValue)),
    ("X: a\u{b}\r\n", Malformed(FieldValue)),
    ("X: a\u{1f}\r\n", Malformed(FieldValue)),
    ("X: a\u{7f}\r\n", Malformed(FieldValue)),
    ("X: a value of more than sixteen bytes \u{1b}[0m\r\n", Malformed(FieldValue)),
    ("Host: a\r\n", Malformed(Host)),
    ("Host: b\r\n", Malformed(Host)),
    ("Content-Length:\r\n", Malformed(ContentLength)),
    ("Content-Length: -1\r\n", Malformed(ContentLength)),
    ("Content-Length: +1\r\n", Malformed(ContentLength)),
    ("Content-Length: 1a\r\n", Malformed(ContentLength)),
    ("Content-Length: 0x1\r\n", Malformed(ContentLength)),
    ("Content-Length: 1 2\r\n", Malformed(ContentLength)),
    ("Content-Length: 1.0\r\n", Malformed(ContentLength)),
    ("Content-Length: 1,1\r\n", Malformed(ContentLength)),
    ("Content-Length: 1, 2\r\n", Malformed(ContentLength)),
    ("Content-Length: 18446744073709551616\r\n", Malformed(ContentLength)),
    ("Content-Length: \u{b2}\r\n", Malformed(ContentLength)),
    ("Content-Length: 1\r\nContent-Length: 1\r\n", Malformed(ContentLength)),
    ("Content-Length: 1\r\ncontent-length: 2\r\n", Malformed(ContentLength)),
    ("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", Malformed(ContentLength)),
    ("Transfer-Encoding: chunked\r\nContent-Length: 1\r\n", Malformed(ContentLength)),
    ("Transfer-Encoding: chunked\r\nContent-Length: x\r\n", Malformed(ContentLength)),
    ("Transfer-Encoding:\r\n", Malformed(TransferEncoding)),
    ("Transfer-Encoding: gzip\r\n", Malformed(TransferEncoding)),
    ("Transfer-Encoding: identity\r\n", Malformed(TransferEncoding)),
    ("Transfer-Encoding: gzip, chunked\r\n", Malformed(TransferEncoding)),
    ("Transfer-Encoding: chunked, gzip\r\n", Malformed(TransferEncoding)),
    ("Transfer-Encoding: chunked, chunked\r\n", Malformed(TransferEncoding)),
    ("Transfer-Encoding: chunked,\r\n", Malformed(TransferEncoding)),
    ("Transfer-Encoding: ,chunked\r\n", Malformed(TransferEncoding)),
    ("Transfer-Encoding: xchunked\r\n", Malformed(TransferEncoding)),
    ("Transfer-Encoding: chunked;q=1\r\n", Malformed(TransferEncoding)),
    ("Transfer-Encoding: \"chunked\"\r\n", Malformed(TransferEncoding)),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Malformed(TransferEncoding)),
    ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", Malformed(TransferEncoding)),
    ("Transfer-Encoding: \u{b}chunked\r\n", Malformed(FieldValue)),
];

/// Whole heads.
const BAD_HEADS: &[(&str, FaultKind)] = &[
    ("GET / HTTP/1.1\r\n\r\n", Malformed(Host)),
    ("GET / HTTP/1.1\r\nHost:\r\n\r\n", Malformed(Host)),
    ("GET / HTTP/1.1\r\nHost: \t\r\n\r\n", Malformed(Host)),
    ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", Malformed(Host)),
    ("GET / HTTP/1.1\r\nHost: a,b\u{e4}\r\n\r\n", Malformed(Host)),
    ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", Malformed(Host)),
    ("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", Malformed(Host)),
    ("GET / HTTP/1.1\r\nHost: http://a\r\n\r\n", Malformed(Host)),
    ("GET / HTTP/1.1\r\nHost: a:\u{31}x\r\n\r\n", Malformed(Host)),
    ("GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n", Malformed(Host)),
    ("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", Malformed(Host)),
    ("GET / HTTP/1.1\r\nHost: ::1\r\n\r\n", Malformed(Host)),
    ("GET http://a/ HTTP/1.1\r\n\r\n", Malformed(Host)),
    ("GET http://a/ HTTP/1.1\r\nHost: a b\r\n\r\n", Malformed(Host)),
    ("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", Malformed(Host)),
    (
        "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        Malformed(TransferEncoding),
    ),
    ("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Malformed(LineEnd)),
    ("\r\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Malformed(LineEnd)),
    ("\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", Malformed(LineEnd)),
    ("\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Malformed(RequestLine)),
    ("GET / HTTP/1.1\nHost: a\r\n\r\n", Malformed(LineEnd)),
    ("GET / HTTP/1.1\rHost: a\r\n\r\n", Malformed(LineEnd)),
    ("GET / HTTP/1.1\r\nHost: a\r\n\n", Malformed(LineEnd)),
    ("GET / HTTP/1.1\r\nHost: a\r\n\rX", Malformed(LineEnd)),
    ("GET / HTTP/1.1\nHost: a\n\n", Malformed(LineEnd)),
];

fn bad_heads() -> impl Iterator<Item = (String, FaultKind)> {
    let lines = BAD_LINES
        .iter()
        .map(|(line, fault)| (format!("{line}\r\nHost: a\r\nX: and some more\r\n\r\n"), *fault));
    let fields = BAD_FIELDS
        .iter()
        .map(|(lines, fault)| (format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"), *fault));
    lines.chain(fields).chain(BAD_HEADS.iter().map(|(head, fault)| ((*head).to_owned(), *fault)))
}

#[test]
fn bad_heads_are_refused_by_the_rule_they_break() {
    for (input, fault) in bad_heads() {
        let mut head = RequestHead::new();
        assert_eq!(decode(input.as_bytes(), &mut head), Err(fault), "{input:?}");
        assert_eq!(head, RequestHead::new(), "nothing is left of {input:?}");
    }
}

#[test]
fn what_httparse_refuses_is_refused() {
    for (input, _) in TARGETS {
        assert!(accepted_by_httparse(input.as_bytes()), "{input:?}");
    }
    for (input, _) in bad_heads() {
        let ours = decode(input.as_bytes(), &mut RequestHead::new());
        assert!(ours.is_err() || accepted_by_httparse(input.as_bytes()), "{input:?}");
    }
}

fn accepted_by_httparse(input: &[u8]) -> bool {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    httparse::Request::new(&mut fields).parse(input).is_ok_and(|status| status.is_complete())
}

/// Each prefix of a good head is partial, and a head grows byte by byte into the same result.
#[test]
fn every_prefix_of_a_good_head_is_partial() {
    let meanings = MEANINGS
        .iter()
        .map(|(minor, lines, ..)| format!("POST /x?y HTTP/1.{minor}\r\nHost: a\r\n{lines}\r\n"));
    for input in TARGETS.iter().map(|(input, _)| (*input).to_owned()).chain(meanings) {
        let input = input.as_bytes();
        let (mut grown, mut whole) = (RequestHead::new(), RequestHead::new());
        for length in 0..input.len() {
            let got = decode(&input[..length], &mut grown);
            assert_eq!(got, Ok(Decoded::Partial), "{}", input[..length].escape_ascii());
        }
        let got = [decode(input, &mut grown), decode(input, &mut whole)];
        assert_eq!(got, [Ok(Decoded::Complete { consumed: input.len() }); 2]);
        assert_eq!(grown, whole);
    }
}

/// A bad head is never taken for a good one on the way, and stays bad once it is.
#[test]
fn bad_heads_are_bad_from_some_byte_on() {
    for (input, fault) in bad_heads() {
        let input = input.as_bytes();
        let mut refused = false;
        for length in 0..=input.len() {
            match decode(&input[..length], &mut RequestHead::new()) {
                Ok(Decoded::Partial) => assert!(!refused, "{}", input.escape_ascii()),
                Ok(Decoded::Complete { .. }) => panic!("{}", input.escape_ascii()),
                Err(got) => {
                    assert_eq!(got, fault, "{}", input[..length].escape_ascii());
                    refused = true;
                }
            }
        }
        assert!(refused);
    }
}

#[test]
fn early_bytes_are_enough_to_refuse() {
    let cases: &[(&[u8], FaultKind)] = &[
        (b"\x16\x03", Malformed(RequestLine)),
        (b"GET / HTTX", Malformed(RequestLine)),
        (b"GET / HTTP/2", Malformed(VersionRule)),
        (b"GET /\x01", Malformed(Target)),
        (b"GET / HTTP/1.1\r\n X", Malformed(FoldedLine)),
        (b"GET / HTTP/1.1\r\nX ", Malformed(FieldName)),
        (b"GET / HTTP/1.1\r\nX: a\0", Malformed(FieldValue)),
        (b"GET / HTTP/1.1\r\nContent-Length: x\r\n", Malformed(ContentLength)),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n", Malformed(Host)),
    ];
    for (input, fault) in cases {
        let got = decode(input, &mut RequestHead::new());
        assert_eq!(got, Err(*fault), "{}", input.escape_ascii());
    }
}

#[test]
fn ambiguous_names_are_noted() {
    let mut head = RequestHead::new();
    let cases = [
        ("X-User: a\r\nsec-ch-ua-platform-version: b\r\n", false),
        ("X_User: a\r\n", true),
        ("", false),
        ("a.b: c\r\n", true),
        ("x: y\r\na-name-of-more-than-sixteen_letters: b\r\nx: y\r\n", true),
        ("sixteen-letters_: a\r\n", true),
        ("a-name-of-more-than-sixteen-letters: b\r\n", false),
        ("#Host: a\r\n", true),
        ("content_length: a\r\n", true),
    ];
    for (lines, ambiguous) in cases {
        let input = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        decode(input.as_bytes(), &mut head).unwrap();
        assert_eq!(head.fields.is_ambiguous(), ambiguous, "{lines:?}");
    }
}

#[test]
fn limits() {
    let limits = Limits { head: 100, fields: 2, target: 10 };
    let line = "GET / HTTP/1.1\r\nHost: a\r\n";
    let fill = |length: usize| format!("{line}X: {}\r\n\r\n", "x".repeat(length - line.len() - 7));
    let cases: [(String, Result<Decoded, FaultKind>); 13] = [
        (fill(100), Ok(Decoded::Complete { consumed: 100 })),
        (fill(101), Err(HeadTooLarge)),
        (fill(101)[..100].to_owned(), Ok(Decoded::Partial)),
        (fill(300)[..101].to_owned(), Err(HeadTooLarge)),
        (format!("{}GET / HTTP/1.1", "\r\n".repeat(2)), Ok(Decoded::Partial)),
        (format!("{line}A: b\r\n\r\n"), Ok(Decoded::Complete { consumed: line.len() + 8 })),
        (format!("{line}A: b\r\nC: d\r\n\r\n"), Err(TooManyFields)),
        (format!("{line}A: b\r\nC: d\r\n"), Err(TooManyFields)),
        ("GET /123456789 ".to_owned(), Ok(Decoded::Partial)),
        ("GET /1234567890 HTTP/1.1\r\n".to_owned(), Err(TargetTooLong)),
        ("GET /1234567890".to_owned(), Err(TargetTooLong)),
        (format!("GET /{}", "x".repeat(500)), Err(TargetTooLong)),
        ("G".repeat(101), Err(HeadTooLarge)),
    ];
    for (input, want) in cases {
        let got = decode_request(input.as_bytes(), &limits, &mut RequestHead::new());
        assert_eq!(got, want, "{input:?}");
    }
}

#[test]
fn the_ceiling_holds_whatever_is_configured() {
    let limits = Limits { head: usize::MAX, fields: usize::MAX, target: usize::MAX };
    let large = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(200_000));
    let got = decode_request(large.as_bytes(), &limits, &mut RequestHead::new());
    assert_eq!(got, Err(HeadTooLarge));
}
