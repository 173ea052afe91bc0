//! Tests of what is hidden.

use serde_json::json;

use super::*;
use crate::Format;

fn redact(text: &str) -> Json {
    redacted(&Source { name: "x", text, format: Format::Toml }).unwrap()
}

/// Nouns of texts that are hidden: a new noun is put here or into [`SHOWN`], after a thought.
const CONCEALED: [&str; 21] = [
    "\"off\", \"combined\", \"json\", or a template",
    "Lua",
    "condition",
    "expression",
    "hash",
    "header value",
    "key",
    "pattern",
    "regular expression",
    "salt",
    "secret",
    "status, range such as \"200-299\", or class such as \"2xx\"",
    "status, range such as \"502-504\", class such as \"5xx\", or gRPC status such as \"grpc:unavailable\"",
    "target",
    "template",
    "template of a URL",
    "text",
    "value",
    "value match",
    "variant",
    "word",
];

#[test]
fn every_noun_is_shown_or_concealed() {
    let mut unknown = Vec::new();
    let mut used = Vec::new();
    for section in ROOT.family() {
        for key in section.keys {
            let (Kind::Text(noun)
            | Kind::Texts(noun)
            | Kind::Pairs(noun)
            | Kind::PairLists(noun)
            | Kind::Short(noun, _)
            | Kind::Shorts(noun, _)) = key.kind
            else {
                continue;
            };
            used.push(noun);
            if SHOWN.contains(&noun) == CONCEALED.contains(&noun) {
                unknown.push(format!("{}.{}: {noun}", section.name, key.name));
            }
        }
    }
    assert_eq!(unknown, Vec::<String>::new(), "in both lists, or in none");
    let gone = SHOWN.iter().filter(|noun| !used.contains(noun));
    assert_eq!(gone.collect::<Vec<_>>(), Vec::<&&str>::new(), "nothing is called that");
}

#[test]
fn a_document_keeps_its_shape_and_its_harmless_values() {
    let text = r#"
workers = 2
flag = true
[upstream.api]
servers = ["http://user:pw@h:1/x", "${SERVER:-h:2}"]
host = "origin.example"
[[route]]
path = "/x"
cookie = { sid = "abc", other = ["d", 5] }
header = { X-Api-Key = "k", accept = "json" }
respond = { status = 203, headers = { authorization = "Bearer x", x-tenant = "acme" }, body = "see ${BODY}" }
[[route]]
respond = "hush"
filters = ["a", { headers = { request = { set = { x-a = "hush" }, remove = ["x-b"] } } }]
[[route]]
proxy = "http://h:1/?token=abc&x=1&y"
timeout = { unknown = "hush" }
[filter.a]
when = "request.header.x == 'hush'"
key_auth = { keys = { eva = "hush" }, header = "x" }
[filter.b.basic_auth]
passwords = { eva = "hush" }
realm = "r"
[filter.c]
key_auth = "hush"
[filter.d.csrf.token]
secrets = ["hush", "hush"]
[filter.e.lua]
script = "return 'hush'"
[filter.f.hush]
hush = 1
"#;
    let expected = json!({
        "workers": 2,
        "flag": "***",
        "upstream": { "api": {
            "servers": ["http://***@h:1/x", "${SERVER:-h:2}"],
            "host": "origin.example",
        } },
        "route": [
            {
                "path": "/x",
                "cookie": { "sid": "***", "other": ["***", "***"] },
                "header": { "X-Api-Key": "***", "accept": "***" },
                "respond": {
                    "status": 203,
                    "headers": { "authorization": "***", "x-tenant": "***" },
                    "body": "***",
                },
            },
            {
                "respond": "***",
                "filters": ["a", { "headers": { "request": { "set": { "x-a": "***" }, "remove": ["x-b"] } } }],
            },
            { "proxy": "http://h:1/?token=***&x=***&***", "timeout": { "unknown": "***" } },
        ],
        "filter": {
            "a": { "when": "***", "key_auth": { "keys": { "eva": "***" }, "header": "x" } },
            "b": { "basic_auth": { "passwords": { "eva": "***" }, "realm": "***" } },
            "c": { "key_auth": "***" },
            "d": { "csrf": { "token": { "secrets": ["***", "***"] } } },
            "e": { "lua": { "script": "***" } },
            "f": { "hush": { "hush": "***" } },
        },
    });
    assert_eq!(redact(text), expected);
}

#[test]
fn users_in_urls_are_hidden() {
    let rows = [
        ("http://h", "http://h"),
        ("http://u@h", "http://***@h"),
        ("http://u:p@h:1", "http://***@h:1"),
        ("redis://:p@h", "redis://***@h"),
        ("http://u:p@ss@h", "http://***@h"),
        ("a://u:p@b c://d:e@f", "a://***@b c://***@f"),
        ("http://h/a@b", "http://h/a@b"),
        ("http://h/?next=http://u:p@x", "http://h/?next=***"),
        ("me@example.com", "me@example.com"),
        ("?api_key=1", "?api_key=***"),
        ("?a=b?token=1&x=2&y", "?a=***&x=***&***"),
    ];
    for (text, expected) in rows {
        assert_eq!(mask(text), expected, "{text}");
    }
}

#[test]
fn broken_documents_are_problems() {
    let source = Source { name: "x", text: "a = ", format: Format::Toml };
    assert_eq!(redacted(&source).unwrap_err().list.len(), 1);
    let source = Source { name: "x", text: "a: 1\na: 2", format: Format::Yaml };
    assert_eq!(redacted(&source).unwrap_err().list.len(), 1);
    // What is wrong only in its meaning can be shown.
    let source = Source { name: "x", text: "a: 1", format: Format::Yaml };
    assert_eq!(redacted(&source), Ok(json!({ "a": "***" })));
}
