//! A second server asked beside a slow one.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io;

use sluice_acceptance::http2_origin::{Deed, Http2Origin};
use sluice_acceptance::{eventually, metric, passing};
use sluice_testkit::{
    After, Asked, ByteScript, Exchange, Gate, Origin, Sluice, ask, behaviour, get,
};
use sluice_wire::h2::ErrorCode;

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// So soon that it is certain to come in a test.
const SOON: &str = "on = [\"connect\", \"reset\", \"503\"], hedge = { after = \"20ms\" }";

/// So late that no test sees it.
const LATE: &str = "on = [\"connect\", \"reset\", \"503\"], hedge = { after = \"1h\" }";

fn gateway(origins: &[&Origin], retry: &str) -> Sluice {
    let servers: Vec<&str> = origins.iter().map(|origin| origin.address()).collect();
    let log = "[log]\naccess = \"tries {upstream.attempts} of {upstream.address}.\"";
    let config = passing("", &servers.join("\", \""), &format!("retry = {{ {retry} }}"));
    Sluice::start(&config.replace("[log]\naccess = \"off\"", log))
}

fn count(sluice: &Sluice, name: &str) -> u64 {
    metric(&sluice.admin(), &format!("sluice_upstream_{name}_total{{upstream=\"origin\"}}"))
}

fn stalled(gate: &Gate) -> Origin {
    Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "slow")))
}

/// Says nothing until the gateway closes.
fn mute() -> Origin {
    Origin::start(|exchange: &mut Exchange| {
        let mut rest = [0; 1];
        exchange.then(After::Close);
        io::Read::read(exchange.raw().0, &mut rest).map(drop)
    })
}

fn good() -> Origin {
    Origin::start(behaviour::fixed(200, "good"))
}

#[test]
fn a_stalled_server_costs_no_more_than_the_pause() {
    let (stalled, good) = (mute(), good());
    let sluice = gateway(&[&stalled, &good], SOON);
    let mut client = ByteScript::connect(&sluice.address("web"));
    for request in [GET, "OPTIONS /x HTTP/1.1\r\nHost: a\r\n\r\n", GET] {
        let answer = client.send(request).read_response(Asked::Get).unwrap();
        assert_eq!(answer.text(), "good", "{request}");
        // Whoever lost is cut off.
        assert!(stalled.wait_for_open_connections(0));
    }
    let head = client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").read_response(Asked::Head);
    assert_eq!(head.unwrap().status, 200);
    assert_eq!((stalled.requests().len(), good.requests().len()), (4, 4));
    // The winner's connection is as good as any other.
    assert_eq!(good.connections(), 1);
    assert_eq!((count(&sluice, "hedges"), count(&sluice, "hedges_won")), (4, 4));
    assert_eq!((count(&sluice, "requests"), count(&sluice, "retries")), (8, 0));
    let line = sluice.stdout().wait_after(0, "tries").unwrap();
    assert_eq!(line, format!("tries 2 of {}.", good.address()));
    assert_eq!(metric(&sluice.admin(), "sluice_upstream_active_requests{upstream=\"origin\"}"), 0);
    sluice.stop();
}

#[test]
fn a_server_that_answers_in_time_is_asked_alone() {
    let origins = [good(), good()];
    let sluice = gateway(&[&origins[0], &origins[1]], LATE);
    let mut client = ByteScript::connect(&sluice.address("web"));
    for _ in 0..10 {
        assert_eq!(client.send(GET).read_response(Asked::Get).unwrap().text(), "good");
    }
    let seen = origins.iter().map(|origin| (origin.requests().len(), origin.connections()));
    assert_eq!(seen.collect::<Vec<_>>(), [(5, 1), (5, 1)]);
    assert_eq!((count(&sluice, "hedges"), count(&sluice, "requests")), (0, 10));
    sluice.stop();
}

#[test]
fn the_first_server_may_win_after_all() {
    let gate = Gate::new();
    let (first, second) = (stalled(&gate), mute());
    let sluice = gateway(&[&first, &second], SOON);
    let mut client = ByteScript::connect(&sluice.address("web"));
    client.send(GET);
    assert!(second.wait_for_requests(1));
    gate.open();
    assert_eq!(client.read_response(Asked::Get).unwrap().text(), "slow");
    assert!(second.wait_for_open_connections(0));
    assert_eq!((count(&sluice, "hedges"), count(&sluice, "hedges_won")), (1, 0));
    let line = sluice.stdout().wait_after(0, "tries").unwrap();
    assert_eq!(line, format!("tries 2 of {}.", first.address()));
    sluice.stop();
}

#[test]
fn only_requests_that_change_nothing_and_have_no_content_are_hedged() {
    let requests = [
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        "DELETE / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    ];
    for request in requests {
        let (gate, good) = (Gate::new(), good());
        let stalled = stalled(&gate);
        let sluice = gateway(&[&stalled, &good], SOON);
        let mut client = ByteScript::connect(&sluice.address("web"));
        client.send(request);
        assert!(stalled.wait_for_requests(1));
        // One that may be hedged comes, waits as long, and is.
        let mut other = ByteScript::connect(&sluice.address("web"));
        for _ in 0..2 {
            assert_eq!(other.send(GET).read_response(Asked::Get).unwrap().text(), "good");
        }
        gate.open();
        assert_eq!(client.read_response(Asked::Get).unwrap().text(), "slow", "{request}");
        sluice.stop();
    }
}

#[test]
fn a_failure_is_not_passed_on_while_another_try_is_under_way() {
    let gate = Gate::new();
    let good = Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "good")));
    // The first one fails once the second one is asked.
    for fails in [503_u16, 0] {
        let open = Gate::new();
        let failing =
            Origin::start(behaviour::gated(open.clone(), move |exchange: &mut Exchange| {
                exchange.then(After::Close);
                if fails == 0 { Ok(()) } else { exchange.answer(fails, &[], "bad") }
            }));
        let sluice = gateway(&[&failing, &good], SOON);
        let before = good.requests().len();
        let mut client = ByteScript::connect(&sluice.address("web"));
        client.send(GET);
        assert!(good.wait_for_requests(before + 1));
        open.open();
        assert!(failing.wait_for_open_connections(0));
        gate.open();
        assert_eq!(client.read_response(Asked::Get).unwrap().text(), "good");
        assert_eq!(count(&sluice, "hedges_won"), 1);
        sluice.stop();
    }
}

#[test]
fn failures_before_the_pause_are_ordinary_retries() {
    let (bad, good) = (Origin::start(behaviour::fixed(503, "bad")), good());
    let sluice = gateway(&[&bad, &good], LATE);
    assert_eq!(ask(&sluice.address("web"), GET).text(), "good");
    assert_eq!((count(&sluice, "hedges"), count(&sluice, "retries")), (0, 1));
    sluice.stop();

    let alone = gateway(&[&bad], &format!("attempts = 2, {LATE}"));
    assert_eq!(ask(&alone.address("web"), GET).text(), "bad");
    assert_eq!(bad.requests().len(), 4);
    alone.stop();
}

#[test]
fn hedges_count_as_attempts_and_against_the_budget() {
    let rows = [
        ("attempts = 0", 0, 0),
        ("budget = { share = \"0%\", minimum = 0 }", 0, 1),
        ("attempts = 1", 1, 0),
        ("attempts = 2", 1, 0),
    ];
    for (limits, hedges, refused) in rows {
        let gate = Gate::new();
        let origins = [stalled(&gate), mute(), mute()];
        let all: Vec<&Origin> = origins.iter().collect();
        let sluice = gateway(&all, &format!("{limits}, {SOON}"));
        let mut client = ByteScript::connect(&sluice.address("web"));
        client.send(GET);
        let settled = || {
            (count(&sluice, "hedges"), count(&sluice, "retry_budget_exhausted"))
                == (hedges, refused)
        };
        assert!(eventually(settled), "{limits}");
        gate.open();
        assert_eq!(client.read_response(Asked::Get).unwrap().text(), "slow", "{limits}");
        assert!(settled(), "{limits}");
        sluice.stop();
    }
}

#[test]
fn as_many_are_asked_as_allowed_each_once() {
    let gate = Gate::new();
    let origins = [mute(), mute(), stalled(&gate), mute()];
    let all: Vec<&Origin> = origins.iter().collect();
    let hedge = "attempts = 9, hedge = { after = \"20ms\", most = 2 }";
    let sluice = gateway(&all, hedge);
    let mut client = ByteScript::connect(&sluice.address("web"));
    client.send(GET);
    assert!(origins[2].wait_for_requests(1));
    gate.open();
    assert_eq!(client.read_response(Asked::Get).unwrap().text(), "slow");
    assert!(origins[..2].iter().all(|origin| origin.wait_for_open_connections(0)));
    let seen: Vec<usize> = origins.iter().map(|origin| origin.requests().len()).collect();
    assert_eq!(seen, [1, 1, 1, 0]);
    sluice.stop();

    // Where there is no other server nobody is asked twice.
    let alone = Gate::new();
    let lone = stalled(&alone);
    let sluice = gateway(&[&lone], hedge);
    let mut client = ByteScript::connect(&sluice.address("web"));
    client.send(GET);
    assert!(lone.wait_for_requests(1));
    // Somebody else's pauses pass meanwhile.
    let beside = [mute(), good()];
    let other = gateway(&[&beside[0], &beside[1]], hedge);
    assert_eq!(ask(&other.address("web"), GET).text(), "good");
    alone.open();
    assert_eq!(client.read_response(Asked::Get).unwrap().text(), "slow");
    assert_eq!((lone.requests().len(), count(&sluice, "hedges")), (1, 0));
    other.stop();
    sluice.stop();
}

#[test]
fn a_client_that_leaves_ends_all_tries() {
    let origins = [mute(), mute()];
    let sluice = gateway(&[&origins[0], &origins[1]], SOON);
    let mut client = ByteScript::connect(&sluice.address("web"));
    client.send(GET);
    assert!(origins[1].wait_for_requests(1));
    client.reset();
    assert!(origins.iter().all(|origin| origin.wait_for_open_connections(0)));
    sluice.stop();
}

#[test]
fn a_kept_connection_that_was_closed_costs_a_hedged_request_nothing() {
    let origin = Origin::start(behaviour::close_after(1));
    let sluice = gateway(&[&origin], LATE);
    let mut client = ByteScript::connect(&sluice.address("web"));
    for _ in 0..5 {
        assert_eq!(client.send(GET).read_response(Asked::Get).unwrap().text(), "good");
    }
    assert_eq!(count(&sluice, "retries"), 4);
    sluice.stop();
}

#[test]
fn a_stream_that_is_reset_is_repeated_once_at_most() {
    let origin = Http2Origin::start(|request| match request.path.as_str() {
        "/reset" => Deed::Reset(ErrorCode::INTERNAL_ERROR),
        "/close" => Deed::Close,
        _ => Deed::text("good"),
    });
    let retry = "protocol = \"http2\"\nretry = { hedge = { after = \"1h\" } }";
    let sluice = Sluice::start(&passing("", &origin.address(), retry));
    let web = sluice.address("web");
    assert_eq!(get(&web, "/good").text(), "good", "there is a connection that requests share");
    let asked = |path: &str| {
        let answer = get(&web, path);
        assert_eq!(answer.status, 502, "{path}: {answer:?}");
        origin.seen().iter().filter(|request| request.path == path).count()
    };
    assert_eq!(asked("/reset"), 1, "the connection goes on, so the stream was ended on purpose");
    assert_eq!(asked("/close"), 2, "the kept connection may have been at its end");
    sluice.stop();
}
