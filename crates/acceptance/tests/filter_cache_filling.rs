//! Many clients want one cold object: one request goes to the origin, and whatever becomes of it, nobody gets half
//! for whole.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sluice_acceptance::filters::{ask, ask_http2};
use sluice_acceptance::{config, metric};
use sluice_testkit::{After, Exchange, Gate, Origin, Sluice};

/// Large enough that it comes in many pieces.
const SIZE: usize = 300_000;

fn gateway(origin: &Origin, rest: &str) -> Sluice {
    let address = origin.address();
    Sluice::start(&format!(
        "workers = 2\n{}",
        config(&format!(
            "[filter.pages.cache]\nmemory = \"16MiB\"\nwait = \"30s\"\n{rest}\n\
             [[route]]\npath = \"/*\"\nproxy = \"{address}\"\nfilters = [\"pages\"]\n"
        ))
    ))
}

fn outcome(gateway: &Sluice, outcome: &str) -> u64 {
    let sample = format!("sluice_filter_outcomes_total{{filter=\"pages\",outcome=\"{outcome}\"}}");
    metric(&gateway.admin(), &sample)
}

/// A client that has asked, and has read nothing yet.
fn begin(gateway: &Sluice, target: &str) -> TcpStream {
    let mut stream = TcpStream::connect(gateway.address("web")).unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// What it gets: status and content, as far as it came.
fn end(mut stream: TcpStream) -> (u16, usize) {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer);
    let Some((head, content)) = text.split_once("\r\n\r\n") else { return (0, 0) };
    (head[9..12].parse().unwrap(), content.len())
}

fn good(exchange: &mut Exchange) -> std::io::Result<()> {
    exchange.answer(200, &["Cache-Control: max-age=600"], vec![b'x'; SIZE])
}

#[test]
fn a_crowd_makes_one_request() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::start(move |exchange: &mut Exchange| {
        opened.pass();
        good(exchange)
    });
    let gateway = gateway(&origin, "");
    let clients: Vec<_> = (0..400).map(|_| begin(&gateway, "/cold")).collect();
    assert!(origin.wait_for_requests(1));
    gate.open();
    for client in clients {
        assert_eq!(end(client), (200, SIZE));
    }
    assert_eq!(origin.requests().len(), 1);
    let (hits, waited) = (outcome(&gateway, "hit"), outcome(&gateway, "coalesced"));
    assert_eq!((hits + waited, outcome(&gateway, "miss")), (399, 1));
    assert_eq!(ask_http2(&gateway, "/cold", &[]).content.len(), SIZE);
    gateway.stop();
}

#[test]
fn an_answer_that_breaks_off_is_nobodys() {
    let count = Arc::new(AtomicUsize::new(0));
    let gate = Gate::new();
    let (counted, opened) = (Arc::clone(&count), gate.clone());
    let origin = Origin::start(move |exchange: &mut Exchange| {
        if counted.fetch_add(1, Ordering::SeqCst) > 0 {
            return good(exchange);
        }
        opened.pass();
        let head = format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {SIZE}\r\n\r\n"
        );
        exchange.write(head)?;
        exchange.write(vec![b'x'; SIZE / 2])?;
        exchange.then(After::Close);
        Ok(())
    });
    let gateway = gateway(&origin, "");
    let first = begin(&gateway, "/half");
    assert!(origin.wait_for_requests(1));
    let others: Vec<_> = (0..20).map(|_| begin(&gateway, "/half")).collect();
    gate.open();
    let (status, length) = end(first);
    assert!(status == 200 && length < SIZE, "it had begun: {status} {length}");
    for other in others {
        assert_eq!(end(other), (200, SIZE), "those who waited get all of it");
    }
    assert_eq!(ask(&gateway, "/half", &[]).content.len(), SIZE);
    assert!(origin.requests().len() <= 4, "{}", origin.requests().len());
    gateway.stop();
}

#[test]
fn who_asked_may_leave_and_the_others_get_it() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::start(move |exchange: &mut Exchange| {
        opened.pass();
        good(exchange)
    });
    let gateway = gateway(&origin, "");
    let first = begin(&gateway, "/left");
    assert!(origin.wait_for_requests(1));
    let others: Vec<_> = (0..10).map(|_| begin(&gateway, "/left")).collect();
    drop(first);
    gate.open();
    for other in others {
        assert_eq!(end(other), (200, SIZE));
    }
    assert!(origin.requests().len() <= 3, "{}", origin.requests().len());
    gateway.stop();
}

#[test]
fn a_client_that_takes_nothing_holds_nobody_up() {
    let size = 6_000_000;
    let origin = Origin::start(move |exchange: &mut Exchange| {
        exchange.answer(200, &["Cache-Control: max-age=600"], vec![b'x'; size])
    });
    let gateway = gateway(&origin, "");
    // It has more to come than buffers hold, and reads nothing of it.
    let slow = begin(&gateway, "/slow");
    assert!(origin.wait_for_requests(1));
    assert_eq!(end(begin(&gateway, "/slow")), (200, size));
    assert_eq!(end(slow), (200, size));
    assert_eq!(origin.requests().len(), 1);
    gateway.stop();
}

#[test]
fn answers_for_one_alone_are_not_waited_for() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        exchange.answer(200, &["Cache-Control: private"], "yours")
    });
    let gateway = gateway(&origin, "");
    let clients: Vec<_> = (0..20).map(|_| begin(&gateway, "/private")).collect();
    for client in clients {
        assert_eq!(end(client), (200, 5));
    }
    assert_eq!((origin.requests().len(), outcome(&gateway, "coalesced")), (20, 0));
    gateway.stop();
}

#[test]
fn lies_and_bombs_are_not_kept() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        let target = exchange.head().target.clone();
        match target.as_str() {
            "/more" => {
                exchange.write(
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 4\r\n\r\nfour and more",
                )?;
                exchange.then(After::Close);
                Ok(())
            }
            "/less" => {
                exchange.write(
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 400\r\n\r\nfour",
                )?;
                exchange.then(After::Close);
                Ok(())
            }
            "/large" => exchange.answer(200, &["Cache-Control: max-age=600"], vec![b'x'; 2000]),
            "/chunks" => {
                exchange.write("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                for _ in 0..10 {
                    exchange.write(format!("c8\r\n{}\r\n", "y".repeat(200)))?;
                }
                exchange.write("0\r\n\r\n")
            }
            _ => {
                let bomb = format!("X-Bomb: {}", "b".repeat(12_000));
                exchange.answer(200, &["Cache-Control: max-age=600", &bomb], "ok")
            }
        }
    });
    let gateway = gateway(&origin, "entry_limit = 1000");
    // What is there of the promised four bytes is kept, and nothing of the rest.
    assert_eq!(ask(&gateway, "/more", &[]).content, "four");
    assert_eq!(ask_http2(&gateway, "/more", &[]).content, "four");
    for target in ["/less", "/less", "/large", "/large", "/chunks", "/chunks"] {
        let before = origin.requests().len();
        let got = ask(&gateway, target, &[]);
        assert_eq!(origin.requests().len(), before + 1, "{target} is asked for each time");
        assert!(target == "/less" || got.content.len() == 2000, "{target}");
    }
    // A head of 12 KB counts for the memory like everything else.
    for number in 0..2_000 {
        let target = format!("/bomb/{number}");
        if number % 100 == 0 {
            assert_eq!(ask(&gateway, &target, &[]).status, 200);
        } else {
            assert_eq!(end(begin(&gateway, &target)).0, 200);
        }
    }
    let bytes = metric(&gateway.admin(), "sluice_cache_bytes{filter=\"pages\"}");
    assert!((8 << 20..=16 << 20).contains(&bytes), "{bytes}");
    assert!(metric(&gateway.admin(), "sluice_cache_evictions_total{filter=\"pages\"}") > 500);
    gateway.stop();
}

#[test]
fn a_dead_origin_fails_for_all_who_wait_at_once() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::start(move |exchange: &mut Exchange| {
        opened.pass();
        hang_up(exchange)
    });
    let gateway = gateway(&origin, "");
    let clients: Vec<_> = (0..30).map(|_| begin(&gateway, "/dead")).collect();
    assert!(origin.wait_for_requests(1));
    gate.open();
    for client in clients {
        assert!((502..=504).contains(&end(client).0));
    }
    gateway.stop();
}

fn hang_up(exchange: &mut Exchange) -> std::io::Result<()> {
    exchange.then(After::Close);
    Ok(())
}
