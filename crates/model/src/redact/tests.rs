//! Tests of what is hidden.

use serde_json::json;

use super::*;
use crate::Format;

fn redact(text: &str) -> Json {
    redacted(&Source { name: "x", text, format: Format::Toml }).unwrap()
}

#[test]
fn secret_keys_hide_their_values() {
    let secret = [
        "password",
        "db_password",
        "PASSWORD",
        "secret",
        "client-secret",
        "token",
        "x-auth-token",
        "key",
        "x-api-key",
        "apiKey",
        "api.key",
        "private_key",
        "Authorization",
        "proxy-authorization",
        "cookie",
        "set-cookie",
        "credential",
        "credentials",
        "auth",
        "pwd",
    ];
    for key in secret {
        assert!(is_secret(key), "{key}");
    }
    let open = ["keepalive", "path", "name", "address", "keyboard", "monkey", "author", "host", ""];
    for key in open {
        assert!(!is_secret(key), "{key}");
    }
}

#[test]
fn a_document_keeps_its_shape() {
    let text = r#"
workers = 2
flag = true
[upstream.api]
servers = ["http://user:pw@h:1/x", "${SERVER:-h:2}"]
[[route]]
cookie = { sid = "abc", other = ["d", 5] }
header = { X-Api-Key = "k", accept = "json" }
respond = { headers = { authorization = "Bearer x", x-tenant = "acme" }, body = "see http://a:b@c/d?q=1 and ${BODY}" }
proxy = "http://h/?token=abc&x=1"
"#;
    let expected = json!({
        "workers": 2,
        "flag": true,
        "upstream": { "api": { "servers": ["http://***@h:1/x", "${SERVER:-h:2}"] } },
        "route": [{
            "cookie": { "sid": "***", "other": ["***", "***"] },
            "header": { "X-Api-Key": "***", "accept": "json" },
            "respond": {
                "headers": { "authorization": "***", "x-tenant": "acme" },
                "body": "see http://***@c/d?q=1 and ${BODY}",
            },
            "proxy": "http://h/?token=***&x=1",
        }],
    });
    assert_eq!(redact(text), expected);
}

#[test]
fn filters_that_only_sound_like_secrets_are_looked_into() {
    let text = "[filter.a]\nkey_auth = { keys = { eva = 's' }, header = 'x' }\n\
                [filter.b.basic_auth]\npasswords = { eva = 's' }\nrealm = 'r'\n\
                [filter.c]\nkey_auth = 's'\n[filter.d.csrf]\nsecrets = ['s', 't']\n";
    let expected = json!({ "filter": {
        "a": { "key_auth": { "keys": { "eva": "***" }, "header": "x" } },
        "b": { "basic_auth": { "passwords": { "eva": "***" }, "realm": "r" } },
        "c": { "key_auth": "***" },
        "d": { "csrf": { "secrets": ["***", "***"] } },
    } });
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
        ("http://h/?next=http://u:p@x", "http://h/?next=http://***@x"),
        ("me@example.com", "me@example.com"),
        ("?api_key=1", "?api_key=***"),
        ("?a=b?token=1&x=2", "?a=b?token=1&x=2"),
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
    assert_eq!(redacted(&source), Ok(json!({ "a": 1 })));
}
