//! No spelling of a path leads around a rule, whatever server reads it behind the gateway.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use sluice_acceptance::http2::Http2Client;
use sluice_acceptance::path_peers::{
    OPEN, SECRET, go_mux, nginx_files, node, python_files, tomcat, wsgi,
};
use sluice_acceptance::peers::Peer;
use sluice_testkit::{Asked, ByteScript, Sluice};

const SPELLINGS: &str = include_str!("paths/spellings.txt");

/// What a listener with the defaults makes of a spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Status(u16),
    Page,
    Any,
}

fn spellings() -> Vec<(Expected, &'static str)> {
    let lines = SPELLINGS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let spelling = |line: &'static str| {
        let (expected, path) = line.split_once(' ').unwrap();
        let expected = match expected {
            "page" => Expected::Page,
            "any" => Expected::Any,
            status => Expected::Status(status.parse().unwrap()),
        };
        (expected, path)
    };
    lines.map(spelling).collect()
}

/// Listeners with rules of every kind, and what is mounted below two prefixes by `rewrite`.
fn gateway(origin: &str, more: &str) -> Sluice {
    let mut config = String::from("workers = 1\n\n[log]\naccess = \"off\"\n");
    for (name, rules) in [
        ("defaults", ""),
        ("decoding", "escaped_slashes = \"decode\", backslashes = \"decode\""),
        ("sparing", "repeated_slashes = \"keep\", parameters = \"strip\""),
        (
            "strict",
            "dot_segments = \"refuse\", repeated_slashes = \"refuse\", parameters = \"refuse\"",
        ),
    ] {
        let more = if more.is_empty() || rules.is_empty() { more } else { &format!(", {more}") };
        config += &format!(
            "\n[[listener]]\nname = \"{name}\"\naddress = \"127.0.0.1:0\"\npath_rules = {{ {rules}{more} }}\n"
        );
    }
    config += &format!("\n[upstream.origin]\nservers = [\"{origin}\"]\n");
    for (prefix, filter) in [
        ("", ""),
        ("/app", "{ rewrite = { strip_prefix = \"/app\" } }"),
        ("/re", "{ rewrite = { replace = [{ regex = \"^/re/\", with = \"/\" }] } }"),
    ] {
        config += &format!(
            "\n[[route]]\npath = \"{prefix}/admin/*\"\nrespond = {{ status = 403 }}\n\
             \n[[route]]\npath = \"{prefix}/*\"\nproxy = \"origin\"\nfilters = [{filter}]\n"
        );
    }
    Sluice::start(&config)
}

/// A connection that is opened anew when the gateway has closed it.
struct Asker {
    address: String,
    client: ByteScript,
}

impl Asker {
    fn new(gateway: &Sluice, listener: &str) -> Self {
        let address = gateway.address(listener);
        Self { client: ByteScript::connect(&address), address }
    }

    fn ask(&mut self, target: &str) -> (u16, String) {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n\r\n");
        self.client.send(&request);
        let response = self.client.read_response(Asked::Get).unwrap();
        if response.fields.has_token("connection", "close") {
            self.client = ByteScript::connect(&self.address);
        }
        (response.status, response.text())
    }
}

fn judge(what: &str, expected: Expected, (status, body): (u16, &str)) {
    assert!(!body.contains(SECRET), "{what}: the secret came back with {status}");
    match expected {
        Expected::Status(wanted) => assert_eq!(status, wanted, "{what}: {body}"),
        Expected::Page => assert_eq!((status, body), (200, OPEN), "{what}"),
        Expected::Any => {}
    }
}

/// Asks for every spelling in every way.
fn check(name: &str, origin: &Peer, rules: &str) {
    let gateway = gateway(&origin.address, rules);
    let mut listeners: BTreeMap<&str, Asker> = BTreeMap::new();
    for listener in ["defaults", "decoding", "sparing", "strict"] {
        listeners.insert(listener, Asker::new(&gateway, listener));
    }
    let mut http2 = Http2Client::connect(&gateway.address("defaults"));
    for (expected, path) in spellings() {
        let mut ask = |listener: &str, target: &str, expected| {
            let (status, body) = listeners.get_mut(listener).unwrap().ask(target);
            judge(&format!("{name}, {listener}: {target}"), expected, (status, &body));
        };
        // A target has to begin with a slash, and so has a path behind a host.
        if path.starts_with('/') {
            ask("defaults", path, expected);
            ask("defaults", &format!("http://a.example{path}"), expected);
            for listener in ["decoding", "sparing", "strict"] {
                ask(listener, path, Expected::Any);
            }
            let answer = http2.get(path);
            judge(&format!("{name}, h2: {path}"), expected, (answer.status(), &answer.text()));
        }
        // What is refused is refused wherever it is mounted; the rest may lead out of it.
        let mounted = if expected == Expected::Status(400) { expected } else { Expected::Any };
        for prefix in ["/app", "/re"] {
            for listener in ["defaults", "decoding", "sparing"] {
                let expected = if listener == "defaults" { mounted } else { Expected::Any };
                ask(listener, &format!("{prefix}{path}"), expected);
            }
        }
    }
    gateway.stop();
}

/// The secret is there for whoever asks the origin itself: it is the gateway that keeps it.
fn shows_its_secret(name: &str, origin: &Peer) {
    let mut client = ByteScript::connect(&origin.address);
    client.send("GET /admin/secret HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let response = client.read_to_end().0;
    assert!(String::from_utf8_lossy(&response).contains(SECRET), "{name}");
}

#[test]
fn no_spelling_leads_around_a_rule() {
    assert!(spellings().len() >= 60);
    let origins = [
        ("nginx", nginx_files()),
        ("http.server", python_files()),
        ("wsgi", wsgi()),
        ("node", node("url")),
        ("go", go_mux()),
        ("tomcat", tomcat()),
    ];
    for (name, origin) in &origins {
        shows_its_secret(name, origin);
        check(name, origin, "");
    }
}

/// Some servers compare without case: a listener can do the same.
#[test]
fn case_leads_around_no_rule_where_it_does_not_count() {
    let express = node("express");
    shows_its_secret("express", &express);
    check("express", &express, "case_sensitive = false");
    let gateway = gateway(&express.address, "case_sensitive = false");
    let mut asker = Asker::new(&gateway, "defaults");
    for path in ["/ADMIN", "/Admin/secret", "/app/aDMIN/x", "/%41dmin/x", "/x/../ADMIN;y/z"] {
        judge(path, Expected::Status(403), (asker.ask(path).0, ""));
    }
    gateway.stop();
}
