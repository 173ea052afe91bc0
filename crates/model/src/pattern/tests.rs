//! Tests of patterns.

use super::*;

#[test]
fn hosts() {
    let exact = |text: &str| Ok(Some(HostPattern::Exact(text.to_owned())));
    let rows = [
        ("example.com", exact("example.com")),
        ("EXAMPLE.com.", exact("example.com")),
        ("localhost", exact("localhost")),
        ("127.0.0.1", exact("127.0.0.1")),
        ("[::1]", exact("[::1]")),
        ("[0:0::1]", exact("[::1]")),
        ("*.Example.com", Ok(Some(HostPattern::Wildcard(".example.com".to_owned())))),
        ("*", Ok(None)),
        ("", Err(())),
        ("*.", Err(())),
        ("*a.com", Err(())),
        ("a.*", Err(())),
        ("example.com:80", Err(())),
        ("::1", Err(())),
        ("a b", Err(())),
        ("münchen.de", Err(())),
    ];
    for (text, expected) in rows {
        assert_eq!(parse_host_pattern(text).map_err(|_| ()), expected, "{text:?}");
    }
}

#[test]
fn paths() {
    let text = str::to_owned;
    let rows = [
        ("/", Ok(PathPattern::Exact(text("/")))),
        ("/a", Ok(PathPattern::Exact(text("/a")))),
        ("/a/", Ok(PathPattern::Exact(text("/a/")))),
        ("/*", Ok(PathPattern::Prefix(text("/")))),
        ("/a/*", Ok(PathPattern::Prefix(text("/a/")))),
        ("/a/{id}", Ok(PathPattern::Template(text("/a/{id}")))),
        ("/{a}/b/{c_1}", Ok(PathPattern::Template(text("/{a}/b/{c_1}")))),
        ("~ ^/a", Ok(PathPattern::Regex(text("^/a")))),
        ("~^/a", Ok(PathPattern::Regex(text("^/a")))),
        ("", Err(())),
        ("a", Err(())),
        ("/a*", Err(())),
        ("/*/a", Err(())),
        ("/a/{}", Err(())),
        ("/a/{1}", Err(())),
        ("/a/{b", Err(())),
        ("/a/b}", Err(())),
        ("/a/{b}c", Err(())),
        ("/a/{b}/*", Err(())),
        ("/a\n", Err(())),
        ("/a#b", Err(())),
        ("~ *", Err(())),
    ];
    for (text, expected) in rows {
        assert_eq!(parse_path_pattern(text).map_err(|_| ()), expected, "{text:?}");
    }
}

#[test]
fn values() {
    let rows = [
        ("*", Ok(ValueMatch::Present)),
        ("a*", Ok(ValueMatch::Exact("a*".to_owned()))),
        ("", Ok(ValueMatch::Exact(String::new()))),
        ("~ ^a+$", Ok(ValueMatch::Regex("^a+$".to_owned()))),
        ("~", Err(())),
        ("~ (", Err(())),
    ];
    for (text, expected) in rows {
        assert_eq!(parse_value_match(text).map_err(|_| ()), expected, "{text:?}");
    }
}
