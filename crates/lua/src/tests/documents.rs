//! The examples of docs/lua.md do what is said of them.

use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use sluice_testkit::unclaimed_port;

use super::scripted::{Peer, Scripted};

const PAGE: &str = include_str!("../../../../docs/lua.md");

/// The example with this line, as it stands.
fn example(line: &str) -> &'static str {
    let blocks = PAGE.split("```lua\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut found = blocks.filter(|block| block.contains(line));
    let example = found.next().unwrap_or_else(|| panic!("no example has {line}"));
    assert!(found.next().is_none(), "several examples have {line}");
    example
}

/// The example at a free port instead of its own, and what a test adds to it; started when it reports so.
fn run(line: &str, port: &str, more: &str) -> (Scripted, String) {
    let free = unclaimed_port().to_string();
    let script = format!("{}\n{more}\nreport('ready')", example(line)).replace(port, &free);
    let mut script = Scripted::start(&script);
    script.expect(&["ready"]);
    (script, format!("127.0.0.1:{free}"))
}

#[test]
fn the_first_service_answers() {
    let (_script, address) = run("appendonly", "6379", "");
    let mut peer = Peer::new(&address);
    peer.send("*1\r\n$4\r\nPING\r\nPING\r\n");
    peer.expect("+PONG\r\n+PONG\r\n");
}

#[test]
fn people_chat() {
    let (script, address) = run("local members", "7000", "");
    let enter = |name: &str| {
        let mut peer = Peer::new(&address);
        peer.expect("Your name? ");
        peer.send(&format!("{name}\r\n"));
        peer
    };
    let mut alice = enter("alice");
    alice.expect("alice is here\n");
    let mut bob = enter("bob");
    alice.expect("bob is here\n");
    bob.expect("bob is here\n");
    bob.send("hello\n");
    alice.expect("bob: hello\n");
    bob.expect("bob: hello\n");
    bob.finish_sending();
    alice.expect("bob has left\n");
    assert_eq!(bob.rest(), "");
    // Who leaves before he has said his name leaves nothing behind.
    drop(Peer::new(&address));
    alice.send("still here\n");
    alice.expect("alice: still here\n");
    assert_eq!(script.log(), "");
}

#[test]
fn values_are_kept_for_redis_cli() {
    let (script, address) = run("commands.incr", "6380", "");
    let port = address.rsplit(':').next().unwrap();
    let ask = |words: &[&str]| {
        let output = Command::new("timeout")
            .args(["60", "redis-cli", "-p", port])
            .args(words)
            .output()
            .expect("redis-tools is installed: `make test` does that");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    };
    for (words, answer) in [
        (&["ping"][..], "PONG"),
        (&["set", "greeting", "hello\r\nyou", "ex", "60"], "OK"),
        (&["get", "greeting"], "hello\r\nyou"),
        (&["get", "nothing"], ""),
        (&["incr", "count"], "1"),
        (&["incr", "count"], "2"),
        (&["incr", "greeting"], "ERR value is not an integer or out of range"),
        (&["del", "greeting", "nothing"], "1"),
        (&["keys", "*"], "count"),
        (&["set", "a"], "ERR wrong number of arguments for 'set' command"),
        (&["get"], "ERR wrong number of arguments for 'get' command"),
        (&["nonsense"], "ERR unknown command 'nonsense'"),
        (&["set", "short", "x", "ex", "0.001"], "OK"),
    ] {
        assert_eq!(ask(words), answer, "{words:?}");
    }
    let patience = sluice_testkit::Deadline::patient();
    while !ask(&["get", "short"]).is_empty() {
        assert!(patience.remaining().is_some());
    }
    let mut peer = Peer::new(&address);
    peer.send("SET typed yes\r\nGET typed\r\n*1\r\nwrong\r\n");
    assert_eq!(peer.rest(), "+OK\r\n$3\r\nyes\r\n");
    assert_eq!(script.log(), "");
}

#[test]
fn numbers_are_added_over_http() {
    let (script, _) = run("sum = sum + number", "8081", "");
    assert_eq!(script.output(), "200\tapplication/json\t{\"sum\":6}\n");
}

#[test]
fn a_websocket_echoes() {
    let (mut script, _) = run(
        "You said: ",
        "8082",
        "task.fork(function()
            local sock = assert(websocket.connect('ws://127.0.0.1:8082/'))
            sock:write('hi', 'text') report(sock:read())
         end)",
    );
    script.expect(&["You said: hi text"]);
}

#[test]
fn requests_are_counted() {
    let (script, address) = run("request_bytes", "8083", "");
    let ask = |path: &str| {
        let mut peer = Peer::new(&address);
        peer.send(&format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"));
        peer.rest()
    };
    assert!(ask("/some").ends_with("counted\n"));
    let text = ask("/metrics");
    assert!(text.contains("requests_total{path=\"/some\"} 1\n"), "{text}");
    assert!(text.contains("request_bytes_count 1\n"), "{text}");
    assert_eq!(script.log(), "");
}

#[test]
fn the_console_greets() {
    let (_script, address) = run("greet = function", "2323", "");
    let mut peer = Peer::new(&address);
    peer.send("greet Bob\nquit\n");
    assert!(peer.rest().contains("hello Bob\n"));
}

#[test]
fn datagrams_come_back() {
    let port = unclaimed_port();
    let example = example("udp.bind").replace("7000", &port.to_string());
    let mut script = Scripted::start(&format!(
        "task.fork(function() {example} end) time.sleep(0) report('ready')"
    ));
    script.expect(&["ready"]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket.send_to(b"hello", ("127.0.0.1", port)).unwrap();
    let mut room = [0; 100];
    let (length, _) = socket.recv_from(&mut room).unwrap();
    assert_eq!(&room[..length], b"echo: hello");
}

#[test]
fn secrets_are_sealed_and_tokens_judged() {
    let script = run("seal:setaad", "no port", "").0;
    assert_eq!(script.output(), "hello\n");
    let script = run("jwt.encode", "no port", "").0;
    assert_eq!((script.output(), script.log()), (String::new(), String::new()));
}

#[test]
fn expressions_find_what_they_say() {
    let script = run("regex.split", "no port", "").0;
    let said = "/users/42\tusers\t42\n4\t5\n22.11.2026\t1\na ******\t1\na|b|c\none\ntwo\n";
    assert_eq!((script.output().as_str(), script.log().as_str()), (said, ""));
}
