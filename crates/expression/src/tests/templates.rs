//! What templates become.

use super::scope;
use super::subject::Exchange;
use crate::{Rendered, Template, TooLong};

fn template(text: &str) -> Template {
    Template::compile(text, &scope()).unwrap_or_else(|problem| panic!("{text}: {problem}"))
}

#[test]
fn values_stand_in_their_places() {
    let exchange = Exchange::full();
    let rows = [
        ("", ""),
        ("plain", "plain"),
        ("prefix {request.header.x-number} {lower(client.ip)}", "prefix 42 10.1.2.3"),
        ("{{}} {{{capture.id}}}", "{} {7}"),
        ("{ request.path }", "/api/users/7"),
        ("{request.header.x-mode}", "test, Trial"),
        ("{upper(request.header.x-mode)}", "TEST, TRIAL"),
        ("{request.cookie.sid}{request.parameter.b}", "abcx y"),
        ("{response.status}{response.header['x-cache']}", "503miss, stale"),
        ("{default(note.none, '}{')}", "}{"),
        ("{tls.resumed} {request.path == 'x'}", "true false"),
        ("{client.peer}:{client.port}", "192.0.2.1:50000"),
        ("{certificate.names}", "robot.example,spiffe://example/robot"),
        ("{time.date} {time.hour}", "2026-11-22 4"),
        (
            "{share('alice', 'checkout')}",
            &crate::share(b"alice", crate::Salt::new(b"checkout")).to_string(),
        ),
        ("{sha256(request.id)}", &sha256("0193-id")),
        ("{len(request.path)}é", "12é"),
    ];
    for (text, expected) in rows {
        let mut out = b"before ".to_vec();
        assert_eq!(template(text).render(&exchange, &mut out), Ok(Rendered::Complete), "{text}");
        assert_eq!(String::from_utf8(out).unwrap(), format!("before {expected}"), "{text}");
    }
}

fn sha256(text: &str) -> String {
    use aws_lc_rs::digest::{SHA256, digest};
    let digest = digest(&SHA256, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn values_are_escaped_and_nothing_else() {
    let braces = |value: &[u8], out: &mut Vec<u8>| {
        out.push(b'<');
        out.extend_from_slice(value);
        out.push(b'>');
    };
    let mut out = Vec::new();
    let template = template("a<{request.path}>{true}{note.none}{'b'}");
    let rendered = template.render_escaped(&Exchange::full(), braces, &mut out);
    assert_eq!(rendered, Ok(Rendered::WithGaps));
    assert_eq!(String::from_utf8(out).unwrap(), "a<</api/users/7>>true<b>");
}

#[test]
fn gaps_are_told() {
    let mut out = Vec::new();
    let rendered = template("a{note.x}b{response.status}c").render(&Exchange::bare(), &mut out);
    assert_eq!((rendered, &*out), (Ok(Rendered::WithGaps), &b"abc"[..]));
}

#[test]
fn constants_are_known() {
    let rows = [("", Some("")), ("a}}b", Some("a}b")), ("{'a'}", None), ("x{route.id}", None)];
    for (text, constant) in rows {
        assert_eq!(template(text).as_constant(), constant.map(str::as_bytes), "{text}");
    }
}

#[test]
fn what_is_too_long_is_not_there_at_all() {
    let mut exchange = Exchange::bare();
    exchange.request.fields.push(b"x-long", &vec![b'a'; 8 * 1024]).unwrap();
    let mut out = b"before".to_vec();
    let twice = template("{request.header.x-long}{request.header.x-long}");
    assert_eq!(twice.render(&exchange, &mut out), Ok(Rendered::Complete));
    assert_eq!(out.len(), 6 + 16 * 1024);
    for text in [
        "{request.header.x-long}{request.header.x-long}x",
        "{request.header.x-long}{request.header.x-long}{true}",
        "{base64(base64(base64(request.header.x-long)))}",
    ] {
        let mut out = b"before".to_vec();
        assert_eq!(template(text).render(&exchange, &mut out), Err(TooLong), "{text}");
        assert_eq!(template(text).render_field_value(&exchange, &mut out), Err(TooLong), "{text}");
        assert_eq!(out, b"before", "{text}");
    }
}

#[test]
fn keys_are_the_same_for_the_same_values_alone() {
    let key = |text: &str, one: &str, other: &str| {
        let mut exchange = Exchange::bare();
        let fields = &mut exchange.request.fields;
        for (name, value) in [("x-one", one), ("x-other", other)] {
            if value != "-" {
                fields.push(name.as_bytes(), value.as_bytes()).unwrap();
            }
        }
        template(text).lend_key(&exchange, |key| key.map(<[u8]>::to_vec))
    };
    for text in [
        "{request.header.x-one}{request.header.x-other}",
        "{request.header.x-one}:{request.header.x-other}",
        "a{request.header.x-one}/{request.header.x-other}/{request.header.x-one == 'a'}",
    ] {
        let values = [
            ("eva", "/public"),
            ("eva/", "public"),
            ("eva:", "/public"),
            ("eva", ":/public"),
            ("", "eva/public"),
            ("eva/public", ""),
            ("eva", "public/\u{0}\u{0}\u{0}\u{3}"),
            ("a/", "b"),
            ("a", "/b"),
        ];
        let keys = values.map(|(one, other)| key(text, one, other).unwrap());
        for (at, one) in keys.iter().enumerate() {
            assert_eq!(*one, key(text, values[at].0, values[at].1).unwrap());
            for other in keys.iter().skip(at + 1) {
                assert_ne!(one, other, "{text}");
            }
        }
    }
    // A single value is its own key: sizes and hashes stay what they were.
    assert_eq!(key("{request.header.x-one}", "eva", "-"), Ok(b"eva".to_vec()));
    assert_eq!(key("u:{request.header.x-one}", "eva", "-"), Ok(b"u:eva".to_vec()));
    assert_eq!(key("u", "eva", "-"), Ok(b"u".to_vec()));
    let long = "a".repeat(8 * 1024);
    let pair = "{request.header.x-one}{request.header.x-other}{request.header.x-one}";
    assert_eq!(key(pair, &long, &long), Err(TooLong));
}

#[test]
fn no_field_is_smuggled_in() {
    let mut exchange = Exchange::bare();
    exchange.request = super::subject::request("GET", "/", "q=a%0d%0aSet-Cookie:%20b%00%7f%0b");
    let rows = [
        ("{request.parameter.q}", "a  Set-Cookie: b"),
        ("x {request.parameter.q} y", "x a  Set-Cookie: b    y"),
        ("{url_decode('%0d%0a')}", ""),
        (" {'a'}\t", "a"),
    ];
    for (text, value) in rows {
        let mut out = b"\n".to_vec();
        template(text).render_field_value(&exchange, &mut out).unwrap();
        assert_eq!(out, [b"\n", value.as_bytes()].concat(), "{text}");
    }
}

#[test]
fn problems_have_their_place() {
    // The marks below stand under what is at fault.
    let rows = [
        ("{route.idd}", " ^^^^^^^^^", "there is no fact 'route.idd'"),
        ("a } b", "  ^", "this } closes nothing"),
        ("a {", "   |", "a value is missing here"),
        ("a {}", "   ^", "the braces are empty"),
        ("{route.id", "         |", "a } is missing"),
        ("{route.id b}", "          ^", "an operator is missing before 'b'"),
        ("{['a']}", " ^^^^^", "a text is wanted, this is a list"),
        ("é{'a}", "  ^^^", "this text has no end"),
        ("{{{route.id}", "", ""),
        ("{route.id}}", "          ^", "this } closes nothing"),
    ];
    for (text, marks, message) in rows {
        match Template::compile(text, &scope()) {
            Ok(_) => assert_eq!(message, "", "{text}"),
            Err(problem) => {
                assert_eq!(problem.message, message, "{text}");
                assert_eq!(super::problems::marks(text, &problem), marks, "{text}");
            }
        }
    }
}
