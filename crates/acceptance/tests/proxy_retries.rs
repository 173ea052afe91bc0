//! Requests that are tried again, the rotation among servers, and answers that come before a request is through.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io;

use sluice_acceptance::{eventually, metric, passing};
use sluice_testkit::{After, Asked, ByteScript, Exchange, Origin, Sluice, State, behaviour};

const FIRST: &str = "GET /first HTTP/1.1\r\nHost: a\r\n\r\n";

/// Answers the first request of each connection and ends it on the second, unanswered.
fn second_ends(after: After) -> impl Fn(&mut Exchange) -> io::Result<()> {
    move |exchange: &mut Exchange| {
        exchange.sink_body()?;
        if exchange.head().number == 1 {
            return exchange.answer(200, &[], "good");
        }
        exchange.then(after);
        Ok(())
    }
}

#[test]
fn a_kept_connection_that_closes_costs_harmless_requests_nothing() {
    // The second request, its status, and how many requests the origin gets to see in all.
    let rows = [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 200, 3),
        ("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", 200, 3),
        ("DELETE / HTTP/1.1\r\nHost: a\r\n\r\n", 200, 3),
        ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 200, 3),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 502, 2),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 502, 2),
        ("PATCH / HTTP/1.1\r\nHost: a\r\n\r\n", 502, 2),
        ("PURGE / HTTP/1.1\r\nHost: a\r\n\r\n", 502, 2),
        // Its content is gone: there is nothing to send again.
        ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 502, 2),
    ];
    for (request, status, seen) in rows {
        for after in [After::Close, After::Reset] {
            let origin = Origin::start(second_ends(after));
            let none = "retry = { attempts = 0 }";
            let sluice = Sluice::start(&passing("", origin.address(), none));
            let mut client = ByteScript::connect(&sluice.address("web"));
            assert_eq!(client.send(FIRST).read_response(Asked::Get).unwrap().text(), "good");
            let asked = if request.starts_with("HEAD") { Asked::Head } else { Asked::Get };
            let answer = client.send(request).read_response(asked).unwrap();
            assert_eq!((answer.status, origin.requests().len()), (status, seen), "{request}");
            let repeated =
                metric(&sluice.admin(), "sluice_upstream_retries_total{upstream=\"origin\"}");
            assert_eq!(repeated, u64::from(status == 200), "{request}");
            // The origin's failure is not the client's: all of its request was read.
            let answer = client.send(FIRST).read_response(Asked::Get).unwrap();
            assert!([200, 502].contains(&answer.status), "{request}: {answer:?}");
            drop(client);
            sluice.stop();
        }
    }
}

#[test]
fn a_connection_the_origin_closed_while_idle_is_not_used() {
    let origin = Origin::start(behaviour::fixed(200, "ok"));
    let sluice = Sluice::start(&passing("", origin.address(), ""));
    let mut client = ByteScript::connect(&sluice.address("web"));
    for round in 1..=20 {
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
        assert_eq!(client.send(post).read_response(Asked::Get).unwrap().status, 200);
        assert_eq!(origin.connections(), round);
        origin.close_connections();
        // The gateway's side is closed by it too, once it has looked.
        assert!(origin.wait_for_open_connections(0));
    }
    sluice.stop();
}

#[test]
fn the_next_server_is_asked_when_one_cannot_be_reached() {
    let dead = Origin::start(behaviour::fixed(200, "")).address().to_owned();
    let alive = Origin::start(behaviour::mirror);
    let servers = format!("{dead}\", \"{}", alive.address());
    let sluice = Sluice::start(&passing("", &servers, ""));
    let requests = [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ];
    let mut client = ByteScript::connect(&sluice.address("web"));
    // Twice each: the dead one is first in turn every other time.
    for request in requests.iter().flat_map(|request| [request; 2]) {
        let answer = client.send(request).read_response(Asked::Get).unwrap();
        let expected = if request.starts_with("GET") { "" } else { "abc" };
        assert_eq!((answer.status, answer.text().as_str()), (200, expected), "{request}");
    }
    assert_eq!(alive.requests().len(), 6);
    sluice.stop();

    let none = Sluice::start(&passing("", &servers, "retry = { attempts = 0 }"));
    let mut client = ByteScript::connect(&none.address("web"));
    let statuses = (0..6).map(|_| client.send(FIRST).read_response(Asked::Get).unwrap().status);
    assert_eq!(statuses.collect::<Vec<_>>(), [502, 200, 502, 200, 502, 200]);
    none.stop();
}

#[test]
fn servers_get_their_shares_to_the_request() {
    let origins: Vec<Origin> = (0..4).map(|_| Origin::start(behaviour::fixed(200, ""))).collect();
    let weights = [3, 1, 2, 0];
    let tables: Vec<String> = origins
        .iter()
        .zip(weights)
        .map(|(origin, weight)| {
            format!("{{ address = \"{}\", weight = {weight} }}", origin.address())
        })
        .collect();
    let one = passing("", "127.0.0.1:1", "");
    let sluice = Sluice::start(&one.replace("\"127.0.0.1:1\"", &tables.join(", ")));
    let mut client = ByteScript::connect(&sluice.address("web"));
    for _ in 0..60 {
        assert_eq!(client.send(FIRST).read_response(Asked::Get).unwrap().status, 200);
    }
    let counts: Vec<usize> = origins.iter().map(|origin| origin.requests().len()).collect();
    assert_eq!(counts, [30, 10, 20, 0]);
    sluice.stop();
}

#[test]
fn an_answer_before_the_content_is_through_arrives() {
    const LENGTH: usize = 8 << 20;
    let content = vec![b'x'; LENGTH];
    let length = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {LENGTH}\r\n\r\n");
    let mut known = length.into_bytes();
    known.extend_from_slice(&content);
    let mut chunked = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    chunked.extend_from_slice(format!("{LENGTH:x}\r\n").as_bytes());
    chunked.extend_from_slice(&content);
    chunked.extend_from_slice(b"\r\n0\r\n\r\n");
    // An origin that reads on afterwards, which may come to the end, and one that does not.
    for after in [After::Next, After::Close] {
        let origin = Origin::start(behaviour::early(413, after));
        let sluice = Sluice::start(&passing("", origin.address(), ""));
        for request in [&known, &chunked] {
            let mut client = ByteScript::connect(&sluice.address("web"));
            // All at once and deaf meanwhile, as simple clients are.
            let sent = client.try_send(request);
            let answer = client.read_response(Asked::Get);
            let answer = answer.unwrap_or_else(|why| panic!("{after:?}, sent {sent:?}: {why}"));
            assert_eq!((answer.status, answer.text().as_str()), (413, "early"));
            if after == After::Close {
                assert!(answer.fields.has_token("connection", "close"), "{answer:?}");
                assert_ne!(client.wait_for_end(), State::Open);
            }
        }
        sluice.stop();
    }
}

#[test]
fn content_beyond_the_limit_is_refused_however_it_is_framed() {
    let origin = Origin::start(behaviour::mirror);
    let config = passing("", origin.address(), "");
    let sluice = Sluice::start(&config.replace("body_limit = \"off\"", "body_limit = \"16B\""));
    for (length, status) in
        [(0, 200), (1, 200), (15, 200), (16, 200), (17, 413), (64, 413), (5000, 413)]
    {
        let text = "x".repeat(length);
        let mut requests =
            vec![format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{text}")];
        for size in [1, 7, 16, 5000] {
            let chunks: String = text
                .as_bytes()
                .chunks(size)
                .map(|chunk| format!("{:x}\r\n{}\r\n", chunk.len(), "x".repeat(chunk.len())))
                .collect();
            let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
            requests.push(format!("{head}{chunks}0\r\n\r\n"));
        }
        for request in requests {
            let before = origin.complete_requests();
            let mut client = ByteScript::connect(&sluice.address("web"));
            let answer = client.send(&request).read_response(Asked::Get).unwrap();
            assert_eq!(answer.status, status, "{length}: {request:.60}");
            let whole = usize::from(status == 200);
            assert_eq!(origin.complete_requests() - before, whole, "{length}: {request:.60}");
            if status == 200 {
                assert_eq!(answer.body, text.as_bytes());
            }
        }
    }
    sluice.stop();
}

#[test]
fn content_beyond_the_limit_stops_behind_an_answer_too() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        exchange.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")?;
        let heard = exchange.sink_body();
        exchange.write("4\r\nlast\r\n0\r\n\r\n")?;
        heard.map(drop)
    });
    let config = passing("", origin.address(), "timeout = { read = \"300ms\" }");
    let sluice = Sluice::start(&config.replace("body_limit = \"off\"", "body_limit = \"16B\""));
    for (rest, passed) in [("a\r\n0123456789\r\n", 20), ("nonsense\r\n", 10)] {
        let mut client = ByteScript::connect(&sluice.address("web"));
        let before = origin.sunk();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        client.send("a\r\n0123456789\r\n").read_until(b"first").unwrap();
        client.send(rest);
        // The limit is noticed with the piece that breaks it.
        assert!(eventually(|| origin.sunk() == before + passed), "{rest}: {}", origin.sunk());
        client.send("ffff\r\n").send(vec![b'x'; 0xffff]).send("\r\n0\r\n\r\n");
        // Neither more of it nor an end: the origin waits in vain and the answer breaks off.
        let (bytes, state) = client.read_to_end();
        assert_eq!(
            (String::from_utf8_lossy(&bytes).contains("last"), state),
            (false, State::Reset)
        );
        assert_eq!((origin.sunk() - before, origin.complete_requests()), (passed, 0), "{rest}");
    }
    sluice.stop();
}
