//! Tests of addresses and networks.

use super::*;

#[test]
fn places_to_listen_at() {
    let rows = [
        ("0.0.0.0:8080", Some("0.0.0.0:8080")),
        ("[::]:8080", Some("[::]:8080")),
        (":8080", Some("0.0.0.0:8080")),
        (":0", Some("0.0.0.0:0")),
        ("127.0.0.1:0", Some("127.0.0.1:0")),
        ("unix:/run/x.sock", Some("unix:/run/x.sock")),
        ("", None),
        (":", None),
        (":+80", None),
        (":65536", None),
        ("::1:80", None),
        ("example.com:80", None),
        ("unix:", None),
        ("unix:/a\0b", None),
    ];
    for (text, expected) in rows {
        let got = parse_address(text).ok().map(|address| address.to_string());
        assert_eq!(got.as_deref(), expected, "{text:?}");
    }
    assert!(parse_address(&format!("unix:/{}", "a".repeat(106))).is_ok());
    assert!(parse_address(&format!("unix:/{}", "a".repeat(107))).is_err());
}

#[test]
fn servers() {
    let rows = [
        ("127.0.0.1:9001", Some("127.0.0.1:9001")),
        ("[::1]:9001", Some("[::1]:9001")),
        ("http://127.0.0.1:9001", Some("127.0.0.1:9001")),
        ("http://127.0.0.1", Some("127.0.0.1:80")),
        ("http://[::1]/", Some("[::1]:80")),
        ("http://Example.com", Some("example.com:80")),
        ("origin.example:80", Some("origin.example:80")),
        ("origin.example.:80", Some("origin.example:80")),
        ("service_a.ns:80", Some("service_a.ns:80")),
        ("unix:/x.sock", Some("unix:/x.sock")),
        ("srv:_http._tcp.API.example", Some("srv:_http._tcp.api.example")),
        ("srv:web.service.consul.", Some("srv:web.service.consul")),
        ("file:servers.json", Some("file:servers.json")),
        ("file:", None),
        ("srv:", None),
        ("srv:_http._tcp.api.example:80", None),
        ("srv:a b", None),
        ("", None),
        (":80", None),
        ("a", None),
        ("a:", None),
        ("a:0", None),
        ("a:+1", None),
        ("a:99999", None),
        ("127.0.0.1:0", None),
        ("http://", None),
        ("http://a/b", None),
        ("http://u:p@a", None),
        ("ftp://a:1", None),
        ("-a:80", None),
        ("a..b:80", None),
        ("256.0.0.1:80", None),
    ];
    for (text, expected) in rows {
        let got = parse_server(text).ok().map(|address| address.to_string());
        assert_eq!(got.as_deref(), expected, "{text:?}");
    }
    assert!(parse_server(&format!("{}:80", "a".repeat(64))).is_err());
}

#[test]
fn networks() {
    let rows = [
        ("10.0.0.0/8", Some("10.0.0.0/8")),
        ("10.1.2.3", Some("10.1.2.3/32")),
        ("fd00::/8", Some("fd00::/8")),
        ("::1", Some("::1/128")),
        ("0.0.0.0/0", Some("0.0.0.0/0")),
        ("10.0.0.1/8", None),
        ("10.0.0.0/33", None),
        ("10.0.0/8", None),
        ("x", None),
        ("", None),
    ];
    for (text, expected) in rows {
        let got = parse_network(text).ok().map(|network| network.to_string());
        assert_eq!(got.as_deref(), expected, "{text:?}");
    }
}
