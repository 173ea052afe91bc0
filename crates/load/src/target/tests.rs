//! URLs, good and bad.

use super::*;

#[test]
fn urls_are_taken_apart() {
    let rows = [
        // URL, TLS?, host, port, Host, path
        ("http://127.0.0.1:8080/", false, "127.0.0.1", 8080, "127.0.0.1:8080", "/"),
        ("http://example.com", false, "example.com", 80, "example.com", "/"),
        ("http://example.com:80/a?b=c#d", false, "example.com", 80, "example.com", "/a?b=c"),
        ("http://example.com?b=/c", false, "example.com", 80, "example.com", "/?b=/c"),
        ("HTTPS://Example.com", true, "Example.com", 443, "Example.com", "/"),
        ("https://example.com:8443/x", true, "example.com", 8443, "example.com:8443", "/x"),
        ("http://[::1]:81/", false, "::1", 81, "[::1]:81", "/"),
        ("http://[::1]", false, "::1", 80, "[::1]", "/"),
        ("http://host:/p", false, "host", 80, "host", "/p"),
    ];
    for (url, tls, host, port, authority, path) in rows {
        let target = Target::parse(url).unwrap();
        assert_eq!(target.security == Security::Tls, tls, "{url}");
        assert_eq!((target.host.as_str(), target.port), (host, port), "{url}");
        assert_eq!((target.authority.as_str(), target.path.as_str()), (authority, path), "{url}");
        assert_eq!((target.credentials, target.text.as_str()), (None, url));
    }
}

#[test]
fn credentials_are_kept_apart() {
    let target = Target::parse("http://me:p%40ss@host/").unwrap();
    assert_eq!(target.credentials.as_deref(), Some("me:p@ss"));
    assert_eq!(target.authority, "host");
}

#[test]
fn what_is_wrong_is_said() {
    let rows = [
        ("127.0.0.1:8080/", "write \"http://127.0.0.1:8080/\""),
        ("ftp://host/", "\"ftp\" is none of"),
        ("http://", "names no host"),
        ("http:///path", "names no host"),
        ("http://:80/", "names no host"),
        ("http://host:99999/", "\"99999\" is no port"),
        ("http://host:0/", "\"0\" is no port"),
        ("http://host:+80/", "\"+80\" is no port"),
        ("http://host:8o/", "\"8o\" is no port"),
        ("http://[::1/", "not closed"),
        ("http://[zz]/", "no IPv6 address"),
        ("http://[::1]x/", "only a port"),
        ("http://a b/", "percent-encoded"),
        ("http://host/ä", "percent-encoded"),
        ("http://host/\r\nX: y", "percent-encoded"),
        ("http://a,b/", "is no host"),
        ("http://%zz@host/", "hexadecimal"),
        ("", "no scheme"),
    ];
    for (url, part) in rows {
        let said = Target::parse(url).unwrap_err();
        assert!(said.contains(part) && said.contains("is no URL"), "{url}: {said}");
    }
}

#[test]
fn addresses_are_found_and_missing_ones_told() {
    let found = Target::parse("http://127.0.0.1:8080/").unwrap().endpoints().unwrap();
    assert_eq!(found, [Endpoint::Tcp("127.0.0.1:8080".parse().unwrap())]);
    let said = Target::parse("http://no-such-name.invalid/").unwrap().endpoints().unwrap_err();
    assert!(said.contains("cannot find no-such-name.invalid"), "{said}");
}
