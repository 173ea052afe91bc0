//! When a request is tried again: conditions, content, budget, and servers that ask for a pause.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io;

use sluice_acceptance::{eventually, metric, passing};
use sluice_testkit::{
    After, Asked, ByteScript, Exchange, Gate, Origin, Response, Sluice, ask, behaviour,
};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";

/// A gateway in front of these origins, asked in this order.
fn gateway(origins: &[&Origin], upstream: &str) -> Sluice {
    let servers: Vec<&str> = origins.iter().map(|origin| origin.address()).collect();
    Sluice::start(&passing("", &servers.join("\", \""), upstream))
}

fn count(sluice: &Sluice, name: &str) -> u64 {
    metric(&sluice.admin(), &format!("sluice_upstream_{name}_total{{upstream=\"origin\"}}"))
}

/// Never answers.
fn silent() -> Origin {
    Origin::start(behaviour::gated(Gate::new(), behaviour::close_unanswered))
}

/// Sends an interim answer, and then nothing more.
fn breaks_off(exchange: &mut Exchange) -> io::Result<()> {
    exchange.answer(103, &["Link: </a>"], "")?;
    exchange.then(After::Close);
    Ok(())
}

#[test]
fn each_condition_leads_to_another_try() {
    let all = "on = [\"connect\", \"reset\", \"timeout\", \"4xx\", \"5xx\"]";
    let soon = "per_try_timeout = \"1s\"";
    let reset = || Origin::start(behaviour::reset);
    let close = || Origin::start(behaviour::close_unanswered);
    let status = |status| move || Origin::start(behaviour::fixed(status, "bad"));
    let half = || Origin::start(behaviour::raw(b"HTTP/1.1 2", After::Close));
    let hinting = || Origin::start(breaks_off);
    type Start<'s> = &'s dyn Fn() -> Origin;
    let rows: &[(Start<'_>, String, &str, u16)] = &[
        (&reset, "on = \"connect\"".to_owned(), GET, 502),
        (&reset, "on = \"reset\"".to_owned(), GET, 200),
        (&close, "on = \"reset\"".to_owned(), GET, 200),
        (&close, format!("attempts = 0, {all}"), GET, 502),
        // It may have done what it was asked.
        (&close, all.to_owned(), POST, 502),
        (&close, format!("non_idempotent = true, {all}"), POST, 200),
        (&close, "non_idempotent = true".to_owned(), POST, 502),
        (&silent, format!("on = [\"timeout\"], {soon}"), GET, 200),
        (&silent, format!("on = [\"timeout\"], {soon}"), POST, 504),
        (&silent, format!("on = [\"reset\", \"connect\"], {soon}"), GET, 504),
        (&status(503), "on = \"503\"".to_owned(), GET, 200),
        (&status(503), "on = \"503\"".to_owned(), POST, 503),
        (&status(503), "on = \"503\", non_idempotent = true".to_owned(), POST, 200),
        (&status(500), "on = [\"reset\", \"5xx\"]".to_owned(), GET, 200),
        (&status(429), "on = \"4xx\"".to_owned(), GET, 200),
        (&status(503), "on = [\"connect\", \"reset\", \"timeout\", \"502\"]".to_owned(), GET, 503),
        (&status(503), format!("attempts = 0, {all}"), GET, 503),
        // A part of the answer had come.
        (&half, all.to_owned(), GET, 502),
        (&hinting, all.to_owned(), GET, 502),
    ];
    for (start, retry, request, expected) in rows {
        let (bad, good) = (start(), Origin::start(behaviour::fixed(200, "good")));
        let sluice = gateway(&[&bad, &good], &format!("retry = {{ {retry} }}"));
        let answer = ask(&sluice.address("web"), request);
        let retried = usize::from(*expected == 200);
        assert_eq!(answer.status, *expected, "{retry} {request}");
        assert_eq!((bad.requests().len(), good.requests().len()), (1, retried), "{retry}");
        assert_eq!(count(&sluice, "retries"), u64::from(*expected == 200), "{retry}");
        sluice.stop();
    }
}

#[test]
fn silence_counts_as_such_with_the_ordinary_limit_too() {
    let (bad, good) = (silent(), Origin::start(behaviour::fixed(200, "good")));
    let options = "retry = { on = \"timeout\" }\ntimeout = { read = \"1s\" }";
    let sluice = gateway(&[&bad, &good], options);
    assert_eq!(ask(&sluice.address("web"), GET).text(), "good");
    let sample =
        "sluice_upstream_failures_total{upstream=\"origin\",reason=\"response_timed_out\"}";
    assert_eq!(metric(&sluice.admin(), sample), 1);
    sluice.stop();
}

#[test]
fn a_slow_client_does_not_use_up_the_time_of_a_try() {
    let origin = Origin::start(behaviour::mirror);
    let options = "retry = { on = \"timeout\", per_try_timeout = \"1s\" }";
    let sluice = gateway(&[&origin], options);
    let mut client = ByteScript::connect(&sluice.address("web"));
    client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc");
    assert!(origin.wait_for_requests(1));
    // Another client's try times out meanwhile, so at least as much time has passed for this one.
    let quiet = silent();
    let other = gateway(&[&quiet], options);
    assert_eq!(ask(&other.address("web"), GET).status, 504);
    assert_eq!(client.send("def").read_response(Asked::Get).unwrap().text(), "abcdef");
    other.stop();
    sluice.stop();
}

#[test]
fn the_last_answer_is_passed_on_when_all_tries_are_used_up() {
    let first = Origin::start(behaviour::fixed(503, "first"));
    let second = Origin::start(behaviour::fixed(503, "second"));
    let log = "[log]\naccess = \"attempts {upstream.attempts} {upstream.address}\"";
    let servers = format!("{}\", \"{}", first.address(), second.address());
    let config = passing("", &servers, "retry = { attempts = 3, on = \"503\" }");
    let sluice = Sluice::start(&config.replace("[log]\naccess = \"off\"", log));
    for round in 1..=3 {
        let answer = ask(&sluice.address("web"), GET);
        assert_eq!((answer.status, answer.text().as_str()), (503, "second"));
        assert_eq!((first.requests().len(), second.requests().len()), (2 * round, 2 * round));
    }
    let line = sluice.stdout().wait_after(0, "attempts").expect("a line");
    assert_eq!(line, format!("attempts 4 {}", second.address()));
    // What was dropped was there as a whole: its connections were used again.
    assert_eq!((first.connections(), second.connections()), (1, 1));
    assert_eq!(count(&sluice, "retries"), 9);
    sluice.stop();
}

#[test]
fn an_answer_that_is_still_coming_is_dropped_with_its_connection() {
    let endless = Origin::start(|exchange: &mut Exchange| {
        exchange.then(After::Close);
        exchange.write("HTTP/1.1 503 Wait\r\nContent-Length: 100\r\n\r\nhalf")?;
        // Until the gateway closes.
        exchange.read_some(&mut sluice_testkit::Fields::default())?;
        let mut rest = [0; 1];
        io::Read::read(exchange.raw().0, &mut rest).map(drop)
    });
    let good = Origin::start(behaviour::fixed(200, "good"));
    let sluice = gateway(&[&endless, &good], "retry = { on = \"503\" }");
    assert_eq!(ask(&sluice.address("web"), GET).text(), "good");
    assert!(endless.wait_for_open_connections(0));
    sluice.stop();
}

/// Reads all content and resets.
fn takes_and_resets(exchange: &mut Exchange) -> io::Result<()> {
    exchange.sink_body()?;
    exchange.then(After::Reset);
    Ok(())
}

#[test]
fn content_is_sent_again_only_if_it_was_kept() {
    let known =
        |method: &str| format!("{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabcdef");
    let chunked = |method: &str| {
        format!(
            "{method} / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
             4\r\nabcd\r\n2\r\nef\r\n0\r\nX-End: yes\r\n\r\n"
        )
    };
    let rows = [
        (known("PUT"), "", 502),
        (chunked("PUT"), "", 502),
        (known("PUT"), "buffer = \"off\"", 502),
        (known("PUT"), "buffer = \"6B\"", 200),
        (known("PUT"), "buffer = \"5B\"", 502),
        (chunked("PUT"), "buffer = \"6B\"", 200),
        (chunked("PUT"), "buffer = \"5B\"", 502),
        (known("DELETE"), "buffer = \"64KiB\"", 200),
        (known("POST"), "buffer = \"64KiB\"", 502),
        (chunked("POST"), "buffer = \"64KiB\"", 502),
        (known("PATCH"), "buffer = \"64KiB\"", 502),
        (known("POST"), "buffer = \"64KiB\", non_idempotent = true", 200),
        (known("POST"), "non_idempotent = true", 502),
    ];
    for (request, buffer, expected) in rows {
        let (bad, good) = (Origin::start(takes_and_resets), Origin::start(behaviour::echo));
        let retry = format!("retry = {{ on = [\"reset\"], {buffer} }}").replace(", }", " }");
        let sluice = gateway(&[&bad, &good], &retry);
        let answer = ask(&sluice.address("web"), &request);
        assert_eq!(answer.status, expected, "{buffer} {request}");
        // The first got all of it, once.
        assert_eq!((bad.sunk(), bad.complete_requests()), (6, 1), "{buffer} {request}");
        assert_eq!(good.requests().len(), usize::from(expected == 200), "{buffer} {request}");
        if expected == 200 {
            let end = if request.contains("X-End") { "abcdef\nX-End: yes" } else { "abcdef" };
            assert!(answer.text().ends_with(&format!("\n\n{end}")), "{}", answer.text());
        }
        sluice.stop();
    }
}

#[test]
fn content_that_is_still_coming_goes_on_to_the_next_server() {
    let bad = Origin::start(|exchange: &mut Exchange| {
        exchange.read_some(&mut sluice_testkit::Fields::default())?;
        exchange.then(After::Reset);
        Ok(())
    });
    let good = Origin::start(behaviour::sink);
    let sluice = gateway(&[&bad, &good], "retry = { on = \"reset\", buffer = \"1MiB\" }");
    let (half, rest) = ("x".repeat(50_000), "y".repeat(70_000));
    let heads = [
        ("Content-Length: 120000".to_owned(), half.clone(), rest.clone()),
        (
            "Transfer-Encoding: chunked".to_owned(),
            format!("{:x}\r\n{half}\r\n", half.len()),
            format!("{:x}\r\n{rest}\r\n0\r\n\r\n", rest.len()),
        ),
    ];
    for (framing, first, last) in heads {
        let before = good.sunk();
        let mut client = ByteScript::connect(&sluice.address("web"));
        client.send(format!("PUT / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n{first}"));
        assert!(eventually(|| good.sunk() == before + 50_000), "{framing}");
        assert_eq!(client.send(last).read_response(Asked::Get).unwrap().text(), "120000");
    }
    sluice.stop();
}

#[test]
fn content_that_outgrows_the_buffer_streams_and_is_sent_once() {
    let seen = Origin::start(behaviour::mirror);
    let sluice = gateway(&[&seen], "retry = { on = \"reset\", buffer = \"10KiB\" }");
    let content = "0123456789abcdef".repeat(10_000);
    let chunks: String = content
        .as_bytes()
        .chunks(1000)
        .map(|chunk| format!("3e8\r\n{}\r\n", String::from_utf8_lossy(chunk)))
        .collect();
    let head = "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let request = format!("{head}{chunks}0\r\n\r\n");
    assert!(ask(&sluice.address("web"), &request).text() == content);
    sluice.stop();

    let (bad, good) = (Origin::start(takes_and_resets), Origin::start(behaviour::mirror));
    let sluice = gateway(&[&bad, &good], "retry = { on = \"reset\", buffer = \"10KiB\" }");
    assert_eq!(ask(&sluice.address("web"), &request).status, 502);
    assert_eq!((bad.sunk(), good.requests().len()), (160_000, 0));
    sluice.stop();
}

#[test]
fn a_budget_bounds_the_tries_at_a_failing_origin() {
    let origin = Origin::start(behaviour::fixed(503, "bad"));
    let retry = "retry = { attempts = 5, on = \"503\", budget = { share = \"10%\", minimum = 0 } }";
    let sluice = gateway(&[&origin], retry);
    let mut client = ByteScript::connect(&sluice.address("web"));
    for _ in 0..50 {
        assert_eq!(client.send(GET).read_response(Asked::Get).unwrap().status, 503);
    }
    assert_eq!(origin.requests().len(), 55);
    assert_eq!(count(&sluice, "retries"), 5);
    // Every request came to a point where it was not tried again for that reason.
    assert_eq!(count(&sluice, "retry_budget_exhausted"), 50);
    sluice.stop();
}

#[test]
fn a_minimum_is_allowed_however_few_requests_there_are() {
    let good = Origin::start(behaviour::fixed(200, "good"));
    let retry = "retry = { budget = { share = \"0%\", minimum = 2 } }";
    // Nobody listens at the first.
    let servers = format!("127.0.0.1:1\", \"{}", good.address());
    let sluice = Sluice::start(&passing("", &servers, retry));
    assert_eq!(ask(&sluice.address("web"), GET).text(), "good");
    assert_eq!(count(&sluice, "retries"), 1);
    sluice.stop();
}

fn busy(pause: &str) -> Origin {
    let field = pause.to_owned();
    Origin::start(move |exchange: &mut Exchange| exchange.answer(503, &[&field], "busy"))
}

fn tries(origins: &[&Origin], sluice: &Sluice) -> (Vec<usize>, Response) {
    let answer = ask(&sluice.address("web"), GET);
    (origins.iter().map(|origin| origin.requests().len()).collect(), answer)
}

#[test]
fn a_server_that_asks_for_a_pause_gets_it() {
    let retry = "retry = { attempts = 9, on = [\"503\", \"reset\"] }";
    for (pause, asked) in [
        ("Retry-After: 120", 1),
        ("Retry-After: Wed, 21 Oct 2099 07:28:00 GMT", 1),
        ("Retry-After: 0", 10),
        ("X-Other: 1", 10),
    ] {
        let alone = busy(pause);
        let sluice = gateway(&[&alone], retry);
        let (counts, answer) = tries(&[&alone], &sluice);
        assert_eq!((counts, answer.status), (vec![asked], 503), "{pause}");
        let (name, value) = pause.split_once(": ").unwrap();
        assert_eq!(answer.fields.first(name), Some(value));
        sluice.stop();
    }
    // Each is asked once; whoever says nothing is asked on.
    let pair = [busy("Retry-After: 120"), busy("Retry-After: 60")];
    let sluice = gateway(&[&pair[0], &pair[1]], retry);
    let (counts, answer) = tries(&[&pair[0], &pair[1]], &sluice);
    assert_eq!((counts, answer.fields.first("retry-after")), (vec![1, 1], Some("60")));
    sluice.stop();

    let (first, second) = (busy("Retry-After: 120"), Origin::start(behaviour::fixed(503, "on")));
    let sluice = gateway(&[&first, &second], retry);
    let (counts, answer) = tries(&[&first, &second], &sluice);
    assert_eq!((counts, answer.text().as_str()), (vec![1, 9], "on"));
    sluice.stop();
}

#[test]
fn every_server_is_tried_before_one_is_tried_twice() {
    let origins: Vec<Origin> =
        (0..4).map(|_| Origin::start(behaviour::fixed(503, "bad"))).collect();
    let all: Vec<&Origin> = origins.iter().collect();
    let sluice = gateway(&all, "retry = { attempts = 3, on = \"503\" }");
    for round in 1..=5 {
        let (counts, _) = tries(&all, &sluice);
        assert_eq!(counts, [round; 4]);
    }
    sluice.stop();
}
