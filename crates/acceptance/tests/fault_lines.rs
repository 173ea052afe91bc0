//! What standard error says of requests that fail, and whom it blames.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use sluice_acceptance::{config, metric};
use sluice_testkit::{ByteScript, Exchange, Origin, Sluice, ask, behaviour, unclaimed_port};

#[test]
fn a_line_says_when_who_what_where_and_why() {
    let closed = format!("127.0.0.1:{}", unclaimed_port());
    let sluice = Sluice::start(&config(&format!(
        "[upstream.api]\nservers = [\"{closed}\"]\n[[route]]\nname = \"shop\"\nproxy = \"api\"\n\
         filters = [{{ request_id = {{}} }}]\n"
    )));
    let request = "GET /cart/a%20b?token=hush HTTP/1.1\r\nHost: a\r\nX-Request-Id: 4711-abc\r\n\
                   Connection: close\r\n\r\n";
    assert_eq!(ask(&sluice.address("web"), request).status, 502);
    let line = sluice.wait_for_line("connect_failed");
    let (time, rest) = line.split_once(' ').unwrap();
    assert!(time.len() == 24 && time.ends_with('Z') && time.starts_with("20"), "{line}");
    let parts = [
        &*format!(
            "warning: upstream api at {closed}: connect_failed (Connection refused (os error 111))"
        ),
        ", client 127.0.0.1",
        ", request \"GET /cart/a%20b\"",
        ", request id ",
        ", route shop",
        ", listener web",
        ", answered 502",
    ];
    for part in parts {
        assert!(rest.contains(part), "{part} in {line}");
    }
    assert!(!line.contains("hush"), "{line}");
    sluice.stop();
}

#[test]
fn a_request_that_is_too_large_is_the_clients_fault() {
    // An origin that reads everything, and one that answers first.
    let early = |exchange: &mut Exchange| {
        exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nx")?;
        let _ = exchange.read_body();
        Ok(())
    };
    let origins = [Origin::start(behaviour::echo), Origin::start(early)];
    for (number, origin) in origins.iter().enumerate() {
        let sluice = Sluice::start(&config(&format!(
            "[upstream.api]\nservers = [\"{}\"]\n[[route]]\nproxy = \"api\"\nbody_limit = \"10KiB\"\n",
            origin.address()
        )));
        let mut client = ByteScript::connect(&sluice.address("web"));
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
        for _ in 0..4 {
            client.send(chunk.as_str());
        }
        let line = sluice.wait_for_line("body_too_large");
        assert!(line.contains(" info: listener web: body_too_large, client 127.0.0.1"), "{line}");
        assert!(line.contains(", upstream api"), "origin {number}: {line}");
        let counted = |side: &str| {
            let sample =
                format!("sluice_faults_total{{side=\"{side}\",reason=\"body_too_large\"}}");
            metric(&sluice.admin(), &sample)
        };
        assert_eq!((counted("downstream"), counted("upstream")), (1, 0), "origin {number}");
        let metrics = sluice_testkit::get(&sluice.admin(), "/metrics").text();
        let blamed = metrics.lines().filter(|line| {
            line.starts_with("sluice_faults_total{side=\"upstream\"") && !line.ends_with(" 0")
        });
        assert_eq!(blamed.collect::<Vec<_>>(), Vec::<&str>::new(), "origin {number}");
        sluice.stop();
    }
}
