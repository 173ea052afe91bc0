//! Servers that are taken out of service while requests come in.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use sluice_acceptance::{config, eventually, metric};
use sluice_testkit::{Asked, ByteScript, Gate, Origin, Response, Sluice, ask, behaviour, get};

fn text(origins: &[&Origin], more: &str) -> String {
    let servers: Vec<String> =
        origins.iter().map(|origin| format!("\"{}\"", origin.address())).collect();
    let upstream = format!("[upstream.api]\nservers = [{}]\n{more}\n\n", servers.join(", "));
    format!("workers = 2\n{}", config(&(upstream + "[[route]]\npath = \"/*\"\nproxy = \"api\"\n")))
}

fn named(name: &str) -> Origin {
    Origin::start(behaviour::fixed(200, name))
}

/// Asks the admin listener to do this to a server.
fn post(sluice: &Sluice, server: &str, what: &str) -> Response {
    let path = format!("/upstreams/api/servers/{server}/{what}");
    let request = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n");
    ask(&sluice.admin(), &(request + "Connection: close\r\n\r\n"))
}

/// Clients that ask all the time and want nothing but 200.
struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<usize>>,
}

impl Load {
    fn start(sluice: &Sluice) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let client = |_| {
            let (stop, web) = (Arc::clone(&stop), sluice.address("web"));
            std::thread::spawn(move || {
                let mut script = ByteScript::connect(&web);
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    script.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                    let answer = script.read_response(Asked::Get).unwrap();
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    count += 1;
                }
                count
            })
        };
        Self { clients: (0..4).map(client).collect(), stop }
    }

    /// How many answers came, all of them good.
    fn stop(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.into_iter().map(|client| client.join().unwrap()).sum()
    }
}

#[test]
fn a_drained_server_can_be_stopped_under_load_without_an_error() {
    let (one, two) = (named("one"), named("two"));
    // Nothing is tried again: an error would show.
    let more = "retry = { attempts = 0 }";
    let config = text(&[&one, &two], more);
    let sluice = Sluice::start(&config);
    let load = Load::start(&sluice);
    assert!(one.wait_for_requests(50) && two.wait_for_requests(50));
    let answer = post(&sluice, two.address(), "drain");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.text().contains("\"available\": false"), "{}", answer.text());
    let server = format!("{{upstream=\"api\",server=\"{}\"}}", two.address());
    let active = format!("sluice_server_active_requests{server}");
    assert!(eventually(|| metric(&sluice.admin(), &active) == 0));
    assert!(two.wait_for_open_connections(0), "idle connections are closed");
    let before = two.requests().len();
    // Through a reload, too.
    let said = sluice.reload(&format!("{config}# another text\n"));
    assert!(said.starts_with("reloaded"), "{said}");
    let said = sluice.reload(&text(&[&one, &two], &format!("{more}\nslow_start = \"1s\"")));
    assert!(said.starts_with("reloaded"), "{said}");
    let seen = one.requests().len();
    assert!(one.wait_for_requests(seen + 200));
    assert_eq!(two.requests().len(), before, "nothing more");
    let place = two.address().to_owned();
    drop(two);
    assert!(one.wait_for_requests(seen + 400));
    assert!(load.stop() > 0);
    assert!(get(&sluice.admin(), "/upstreams").text().contains("draining"));
    let back = Origin::start_at(&place, behaviour::fixed(200, "back"));
    assert_eq!(post(&sluice, &place, "restore").status, 200);
    assert!(eventually(|| get(&sluice.address("web"), "/").text() == "back"));
    let words = sluice.stderr().join("\n");
    for part in ["gets no more requests: it is drained", "is back in service"] {
        assert!(words.contains(&format!("upstream api: {place} {part}")), "{words}");
    }
    drop(back);
    sluice.stop();
}

#[test]
fn what_is_under_way_ends_as_it_would() {
    let gate = Gate::new();
    let slow = Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "slow")));
    let sluice = Sluice::start(&text(&[&slow], ""));
    let mut client = ByteScript::connect(&sluice.address("web"));
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(slow.wait_for_requests(1));
    let answer = post(&sluice, slow.address(), "drain").text();
    assert!(answer.contains("\"active\": 1"), "{answer}");
    let refused = get(&sluice.address("web"), "/");
    assert_eq!((refused.status, refused.text().contains("no_server")), (503, true));
    gate.open();
    assert_eq!(client.read_response(Asked::Get).unwrap().text(), "slow");
    sluice.stop();
}

#[test]
fn sessions_of_a_drained_server_move() {
    let (one, two) = (named("one"), named("two"));
    let sluice = Sluice::start(&text(&[&one, &two], "sticky = {}"));
    let first = get(&sluice.address("web"), "/");
    let set = first.fields.first("set-cookie").unwrap();
    let pair = set.split(';').next().unwrap();
    let back = || {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {pair}\r\n");
        ask(&sluice.address("web"), &(request + "Connection: close\r\n\r\n"))
    };
    assert_eq!(back().text(), first.text());
    let (mine, other) = if first.text() == "one" { (&one, "two") } else { (&two, "one") };
    assert_eq!(post(&sluice, mine.address(), "drain").status, 200);
    let moved = back();
    assert_eq!((moved.text().as_str(), moved.fields.first("set-cookie").is_some()), (other, true));
    sluice.stop();
}

#[test]
fn names_that_are_not_there_are_answered_with_those_that_are() {
    let origin = named("one");
    let sluice = Sluice::start(&text(&[&origin], ""));
    let unknown = post(&sluice, "10.0.0.1:1", "drain");
    assert_eq!(unknown.status, 404);
    for part in ["has no server \\\"10.0.0.1:1\\\"", origin.address()] {
        assert!(unknown.text().contains(part), "{part} in {}", unknown.text());
    }
    let request = |method: &str, path: &str, lines: &str| {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        ask(&sluice.admin(), &format!("{head}{lines}\r\n"))
    };
    let path = format!("/upstreams/web/servers/{}/drain", origin.address());
    let unknown = request("POST", &path, "");
    assert_eq!(unknown.status, 404);
    assert!(unknown.text().contains("\"api\""), "{}", unknown.text());
    let path = path.replace("/web/", "/api/");
    let refused = request("GET", &path, "");
    assert_eq!((refused.status, refused.fields.first("allow")), (405, Some("POST")));
    let page = request("POST", &path, "Origin: http://evil.example\r\n");
    assert_eq!(page.status, 403, "{}", page.text());
    assert_eq!(get(&sluice.address("web"), "/").text(), "one", "nothing was done");
    sluice.stop();
}

#[test]
fn a_socket_file_is_named_with_its_slashes_escaped() {
    let scratch = sluice_testkit::Scratch::new();
    let path = scratch.path().join("origin.sock");
    let origin = Origin::start_unix(&path, behaviour::fixed(200, "file"));
    let sluice = Sluice::start(&text(&[&origin], ""));
    let name = origin.address().replace('/', "%2F");
    assert_eq!(post(&sluice, &name, "drain").status, 200);
    assert_eq!(get(&sluice.address("web"), "/").status, 503);
    assert_eq!(post(&sluice, &name, "restore").status, 200);
    let names: BTreeSet<String> = (0..4).map(|_| get(&sluice.address("web"), "/").text()).collect();
    assert_eq!(names, BTreeSet::from(["file".to_owned()]));
    sluice.stop();
}
