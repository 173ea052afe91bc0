//! The parser's own table: what it takes, what it refuses, what it waits for.

use super::{Asked, End, Framing, Parsed, parse};

fn whole(bytes: &[u8], asked: Asked, end: End) -> (super::Response, usize) {
    match parse(bytes, asked, end) {
        Ok(Parsed::Whole(response, used)) => (*response, used),
        other => panic!("{}: {other:?}", bytes.escape_ascii()),
    }
}

#[test]
fn reads_whole_responses() {
    use Framing::{Chunked, Length, None, UntilClose};
    let get = Asked::Get;
    let table: [(&str, Asked, End, u16, Framing, &str); 10] = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", get, End::More, 200, Length, "hello"),
        ("HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", get, End::More, 200, Length, ""),
        ("HTTP/1.0 200 OK\r\n\r\nall", get, End::Eof, 200, UntilClose, "all"),
        ("HTTP/1.1 204 No Content\r\n\r\n", get, End::More, 204, None, ""),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", get, End::More, 304, None, ""),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", Asked::Head, End::More, 200, None, ""),
        ("HTTP/1.1 200 OK\r\n\r\n", Asked::Connect, End::More, 200, None, ""),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
            get,
            End::More,
            200,
            Chunked,
            "abcde",
        ),
        ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", get, End::More, 101, None, ""),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\nx",
            get,
            End::More,
            201,
            Length,
            "x",
        ),
    ];
    for (bytes, asked, end, status, framing, body) in table {
        let (response, used) = whole(bytes.as_bytes(), asked, end);
        assert_eq!((response.status, response.framing), (status, framing), "{bytes}");
        assert_eq!(response.text(), body, "{bytes}");
        assert_eq!(used, bytes.len(), "{bytes}");
    }
}

#[test]
fn every_prefix_is_only_a_part() {
    let bytes: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n\
        Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nDigest: x\r\n\r\n";
    for cut in 0..bytes.len() {
        assert_eq!(parse(&bytes[..cut], Asked::Get, End::More), Ok(Parsed::Part), "{cut}");
        if cut > 0 {
            assert!(parse(&bytes[..cut], Asked::Get, End::Eof).is_err(), "{cut}");
        }
    }
    let (response, _) = whole(bytes, Asked::Get, End::More);
    assert_eq!(response.trailers.first("digest"), Some("x"));
    assert_eq!(response.interim[0].status, 103);
}

#[test]
fn leaves_the_next_response_alone() {
    let one = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na";
    let (_, used) = whole(format!("{one}{one}").as_bytes(), Asked::Get, End::More);
    assert_eq!(used, one.len());
}

#[test]
fn refuses_what_a_strict_recipient_may_refuse() {
    let table = [
        "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n",
        "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "http/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: empty\r\n\r\n",
        "HTTP/1.1 200 OK\r\nName : x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 100 Continue\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n 1\r\na\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nbad\r\n\r\n",
    ];
    for bytes in table {
        assert!(parse(bytes.as_bytes(), Asked::Get, End::More).is_err(), "{bytes:?}");
    }
}
