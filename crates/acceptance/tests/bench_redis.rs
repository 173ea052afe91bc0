//! `sluice bench redis://...` against redis-server itself.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use sluice_acceptance::load::bench;
use sluice_acceptance::peers::redis;

#[test]
fn both_pings_with_the_figures_of_redis_benchmark() {
    let peer = redis();
    let target = format!("redis://{}", peer.address);
    let line = [&target, "--test", "ping_inline,ping_mbulk", "-c", "20", "-n", "5000"];
    let done = bench(&line);
    assert_eq!(done.finished.code, Some(0), "{:?}", done.finished);
    let text = &done.finished.stdout;
    for part in [
        "====== PING_INLINE ======\n  5000 requests completed in ",
        "====== PING_MBULK ======\n  5000 requests completed in ",
        "  20 parallel clients\n  3 bytes payload\n  keep alive: 1\n",
        "  host configuration \"save\": \n  host configuration \"appendonly\": no\n",
        "Latency by percentile distribution:\n0.000% <= ",
        "100.000% <= ",
        "Cumulative distribution of latencies:\n",
        "(cumulative count 5000)\n",
        "  throughput summary: ",
        "        avg       min       p50       p95       p99       max\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    for (index, test) in ["PING_INLINE", "PING_MBULK"].into_iter().enumerate() {
        assert_eq!(done.json[index]["target"], format!("{target} {test}"));
        assert_eq!(done.number(&format!("/{index}/responses")), 5000.0);
        // `+PONG` and CRLF.
        assert_eq!(done.number(&format!("/{index}/bytes_received")), 5000.0 * 7.0);
    }
    // PING and CRLF; an array of one.
    assert_eq!(done.number("/0/bytes_sent"), 5000.0 * 6.0);
    assert_eq!(done.number("/1/bytes_sent"), 5000.0 * 14.0);
}

#[test]
fn pipelines_times_and_tables() {
    let peer = redis();
    let target = format!("redis://{}", peer.address);
    let line = [&target, "--test", "ping_mbulk", "-c", "5", "-n", "4001", "-P", "16"];
    let done = bench(&[&line[..], &["--spectrum"]].concat());
    assert_eq!((done.finished.code, done.number("/responses")), (Some(0), 4001.0));
    assert!(done.finished.stdout.contains("  pipeline: 16\n"), "{:?}", done.finished);
    assert!(done.finished.stdout.contains("1/(1-Percentile)"), "{:?}", done.finished);
    let done =
        bench(&[&target, "--test", "set,get", "-c", "2", "-d", "100ms", "--data-size", "100"]);
    assert_eq!(done.finished.code, Some(0), "{:?}", done.finished);
    assert!(done.number("/0/seconds") >= 0.1 && done.number("/1/responses") > 0.0);
}

#[test]
fn the_settings_are_asked_for_before_anything_is_measured() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("redis://{}", listener.local_addr().unwrap());
    // Answers the two questions as the scripted server of the scenario does, and every PING.
    let server = std::thread::spawn(move || {
        let mut asked = Vec::new();
        for stream in listener.incoming().take(2) {
            let mut stream = stream.unwrap();
            for line in BufReader::new(stream.try_clone().unwrap()).lines() {
                let line = line.unwrap();
                let answer = match line.as_str() {
                    "PING" => "+PONG\r\n",
                    "save" => "*2\r\n$4\r\nsave\r\n$23\r\n3600 1 300 100 60 10000\r\n",
                    "appendonly" => "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n",
                    _ => "",
                };
                asked.push(line);
                stream.write_all(answer.as_bytes()).unwrap();
            }
        }
        asked
    });
    let done = bench(&[&target, "--test", "ping_inline", "-c", "1", "-n", "2"]);
    assert_eq!(done.finished.code, Some(0), "{:?}", done.finished);
    assert!(
        done.finished.stdout.contains("host configuration \"save\": 3600 1 300 100 60 10000\n"),
        "{:?}",
        done.finished
    );
    let get = |name: &str, length: &str| {
        ["*3", "$6", "CONFIG", "$3", "GET", length, name].map(str::to_owned)
    };
    let expected =
        [&get("save", "$4")[..], &get("appendonly", "$10"), &["PING", "PING"].map(str::to_owned)];
    assert_eq!(server.join().unwrap(), expected.concat());
}

#[test]
fn what_redis_does_not_know_is_refused() {
    let peer = redis();
    let target = format!("redis://{}", peer.address);
    let rows: [(&[&str], i32, &str); 5] = [
        (&[&target, "--test", "nonsense"], 2, "nonsense"),
        (&[&target, "--rate", "5/s"], 2, "--rate does not go with Redis"),
        (&[&target, "-H", "A: b"], 2, "--header does not go with Redis"),
        (&["redis://127.0.0.1:1", "-n", "5"], 3, "refused"),
        (&["redis://:wrong@127.0.0.1:1", "-n", "5"], 3, "refused"),
    ];
    for (words, code, part) in rows {
        let done = bench(words).finished;
        assert_eq!(done.code, Some(code), "{words:?} {done:?}");
        assert!(done.stderr.contains(part), "{words:?} {done:?}");
    }
    let password = format!("redis://:wrong@{}", peer.address);
    let done = bench(&[&password, "-n", "5"]).finished;
    assert_eq!(done.code, Some(3), "{done:?}");
    assert!(done.stderr.contains("the server refuses us"), "{done:?}");
}
