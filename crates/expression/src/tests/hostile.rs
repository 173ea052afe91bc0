//! Texts and heads that nobody means well with.

use super::subject::Exchange;
use super::{compile, problem, scope};
use crate::{Condition, MAX_TEXT, Template};

#[test]
fn depth_is_bounded() {
    for (open, close, most) in [("(", ")", 64), ("!", "", 64), ("not ", "", 64), ("!(", ")", 32)] {
        let nested = |levels: usize| format!("{}true{}", open.repeat(levels), close.repeat(levels));
        assert!(Condition::compile(&nested(most), &scope()).is_ok(), "{open}");
        for too_deep in [most + 1, 500, 1600] {
            let problem = problem(&nested(too_deep), &scope());
            assert_eq!(problem.message, "this is nested deeper than 64 levels", "{open}");
        }
    }
    let calls =
        |count: usize| format!("{}route.id{} == 'a'", "base64(".repeat(count), ")".repeat(count));
    assert!(Condition::compile(&calls(8), &scope()).is_ok());
    let problem = problem(&calls(9), &scope());
    assert_eq!(problem.message, "more than 8 functions within each other");
    assert_eq!(problem.span, 56..62);
}

#[test]
fn length_is_bounded() {
    let long = |length: usize| format!("route.id == '{}'", "é".repeat((length - 14) / 2));
    assert!(Condition::compile(&long(MAX_TEXT), &scope()).is_ok());
    let problem = problem(&long(MAX_TEXT + 2), &scope());
    assert_eq!(problem.message, "this is longer than 8192 bytes");
    assert!(Template::compile(&"a".repeat(MAX_TEXT), &scope()).is_ok());
    assert!(Template::compile(&"a".repeat(MAX_TEXT + 1), &scope()).is_err());
    // Wide expressions are no deep ones.
    let wide = vec!["true"; 1000].join("||");
    assert!(compile(&wide).holds(&Exchange::bare()));
    let list = format!("client.port in [{}]", vec!["50000"; 1300].join(","));
    assert!(compile(&list).holds(&Exchange::bare()));
}

#[test]
fn regular_expressions_stay_small() {
    for text in [r"\w{1000}{1000}{1000}", "((a{100}){100}){100}"] {
        let problem = problem(&format!("route.id matches '{text}'"), &scope());
        assert!(problem.message.starts_with("this is no regular expression"), "{problem}");
    }
    // What backtracks for years elsewhere takes time in proportion to the text here.
    let mut exchange = Exchange::bare();
    exchange.request.fields.push(b"x", &vec![b'a'; 60_000]).unwrap();
    assert!(
        !compile("request.header.x matches '^(a+)+$' && request.header.x matches 'b'")
            .holds(&exchange)
    );
    assert!(!compile("request.header.x contains 'aaaaaaaaaaaaaaab'").holds(&exchange));
}

#[test]
fn heads_may_hold_any_bytes() {
    let mut exchange = Exchange::bare();
    let mut head = super::subject::request("G\u{fffd}T", "/", "a=%ff%fe&%=%&&=&b");
    head.authority = head.fields.append(b"\xff\xfe:\x80]").unwrap();
    for value in [&b"\xff\xfe"[..], b"=;=;;\x00=", b"", b"\"", b"a=\"", b"%%%", b"[::1"] {
        head.fields.push(b"cookie", value).unwrap();
        head.fields.push(b"x", value).unwrap();
    }
    exchange.request = head;
    for text in [
        "request.method == 'GET'",
        "request.host == 'a'",
        "request.parameter['%'] == '%'",
        "request.parameter.a matches '^..$'",
        "request.cookie.a == '\"'",
        "request.header.x matches '^%%%$'",
        "lower(upper(url_decode(base64(request.header.x)))) == 'a'",
        "address(request.header.x) in '::/0'",
        "number(request.header.x) == 0",
        "share(request.header.x, 's') < 1000",
    ] {
        let condition = compile(text);
        let held = condition.holds(&exchange);
        assert_eq!(compile(&format!("!({text})")).holds(&exchange), !held, "{text}");
    }
    assert!(compile("request.parameter.a matches '^..$'").holds(&exchange));
}

/// Pieces that texts are made of; random ones in a row come near to all that a parser may meet.
const PIECES: &[&str] = &[
    "request.",
    "header",
    "path",
    "client.ip",
    "response.status",
    "capture.x",
    "auth.claim.",
    "note",
    ".",
    "['x']",
    "[",
    "]",
    "(",
    ")",
    "!",
    "not ",
    " and ",
    " or ",
    "&&",
    "||",
    "==",
    "!=",
    "<",
    ">=",
    " in ",
    " matches ",
    " starts_with ",
    " contains ",
    "'a'",
    "\"b\"",
    "'10.0.0.0/8'",
    "'(a|b)*'",
    "'\\",
    "5",
    "99999999999999999999",
    "true",
    "false",
    "lower(",
    "default(",
    "share(",
    ",",
    "{",
    "}",
    "{{",
    "é",
    "\u{1f600}",
    "\0",
    " ",
    "\n",
    "-",
    "~",
];

#[test]
fn no_text_makes_it_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap() % below
    };
    let exchange = Exchange::full();
    let mut taken = 0;
    for _ in 0..60_000 {
        let count = 1 + random(12);
        let text: String = (0..count).map(|_| PIECES[random(PIECES.len())]).collect();
        match Condition::compile(&text, &scope()) {
            Ok(condition) => {
                taken += 1;
                let _ = condition.holds(&exchange);
            }
            Err(problem) => assert!(text.get(problem.span).is_some(), "{text:?}"),
        }
        if let Err(problem) = Template::compile(&text, &scope()) {
            assert!(text.get(problem.span).is_some(), "{text:?}");
        }
    }
    assert!(taken > 300, "{taken} of them were conditions");
}
