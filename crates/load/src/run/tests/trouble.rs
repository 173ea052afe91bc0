//! Servers that refuse, stall, break off or talk rubbish.

use super::*;

fn errors(plan: Plan) -> (Errors, BTreeMap<&'static str, String>) {
    let finished = finished(plan);
    let outcome = finished.outcome;
    assert_eq!(outcome.requests, outcome.responses + outcome.errors.unanswered(), "{outcome:?}");
    (outcome.errors, finished.reasons)
}

#[test]
fn a_refused_port_is_told_at_once() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for keepalive in [Keepalive::On, Keepalive::Off] {
        let plan = Plan { keepalive, ..timed(&format!("http://{free}/"), 60_000) };
        let watcher = Box::new(|progress: &Progress| panic!("nothing to see: {progress:?}"));
        let failure = run(plan, &Stopper::default(), watcher).unwrap_err();
        let Failure::Unreachable(reason) = failure else { panic!("{failure:?}") };
        assert!(reason.contains(&free.to_string()) && reason.contains("refused"), "{reason}");
    }
}

#[test]
fn the_second_address_is_tried() {
    let server = Server::start(always(HELLO));
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut plan = plan(&server.url(), 20);
    plan.targets[0].endpoints.insert(0, Endpoint::Tcp(free));
    assert_eq!(outcome(plan).responses, 20);
}

#[test]
fn a_silent_server_times_out() {
    let server = Server::start(|connection| connection.wait());
    let timeout = Duration::from_millis(30);
    for pipeline in [1, 3] {
        let (errors, reasons) = errors(Plan { timeout, pipeline, ..plan(&server.url(), 12) });
        assert_eq!(errors, Errors { timeout: 12, ..Errors::default() });
        assert!(reasons.get("timeout").is_some_and(|why| why.contains("30ms")), "{reasons:?}");
    }
}

#[test]
fn a_server_that_stops_in_the_middle_times_out() {
    let server = Server::start(|connection| {
        if connection.read_request().is_some() {
            connection.write(&HELLO[..HELLO.len() - 1]);
            connection.wait();
        }
    });
    let timeout = Duration::from_millis(30);
    let (errors, _) = errors(Plan { timeout, ..plan(&server.url(), 4) });
    assert_eq!(errors.timeout, 4);
}

#[test]
fn early_ends_and_resets_are_read_errors() {
    let server = Server::start(|connection| {
        if connection.read_request().is_none() {
            return;
        }
        match connection.number % 4 {
            0 => {}
            1 => drop(connection.write(&HELLO[..20])),
            2 => drop(connection.write(&HELLO[..HELLO.len() - 2])),
            _ => connection.reset(),
        }
    });
    let (errors, reasons) = errors(Plan { connections: 1, ..plan(&server.url(), 16) });
    assert_eq!(errors.read + errors.write, 16, "{errors:?}");
    assert_eq!(errors.total(), 16);
    assert!(reasons.contains_key("read"), "{reasons:?}");
}

#[test]
fn a_server_that_closes_what_it_accepts_is_not_looped_on_forever() {
    let server = Server::start(|_| {});
    let (errors, _) = errors(plan(&server.url(), 10));
    assert_eq!(errors.total(), errors.unanswered());
    assert!(errors.read + errors.write >= 10, "{errors:?}");
}

#[test]
fn rubbish_is_a_protocol_error() {
    for (rubbish, part) in [
        (&b"SSH-2.0-OpenSSH_9.2\r\n"[..], "no HTTP: it is \"SSH-2.0-OpenSSH_9.2"),
        (b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", "a rule of HTTP/1.1: a line without its CRLF"),
        (b"\0\0", "no HTTP: it is \"\\x00\\x00\""),
    ] {
        let server = Server::start(always(rubbish));
        let (errors, reasons) = errors(plan(&server.url(), 5));
        assert_eq!(errors, Errors { protocol: 5, ..Errors::default() });
        assert!(reasons["protocol"].contains(part), "{reasons:?}");
    }
}

#[test]
fn an_answer_nobody_asked_for_is_a_protocol_error() {
    let twice: &'static [u8] = HELLO.repeat(2).leak();
    let server = Server::start(always(twice));
    let outcome = outcome(Plan { connections: 1, ..plan(&server.url(), 5) });
    assert_eq!(outcome.responses, 5);
    assert!(outcome.errors.protocol > 0, "{outcome:?}");
}

#[test]
fn a_server_that_goes_away_ends_a_count_all_the_same() {
    let limit = 5;
    let server = Arc::new(std::sync::Mutex::new(None::<Server>));
    let holder = Arc::clone(&server);
    let count = AtomicU64::new(0);
    let started = Server::start(move |connection| {
        while connection.read_request().is_some() {
            if count.fetch_add(1, Ordering::SeqCst) >= limit {
                // Closes the listening socket.
                drop(holder.lock().unwrap().take());
                return;
            }
            connection.write(HELLO);
        }
    });
    let url = started.url();
    *server.lock().unwrap() = Some(started);
    let (errors, _) = errors(Plan { connections: 1, ..plan(&url, 9) });
    // The last one may find the listener half closed.
    assert_eq!(errors.total(), 4, "{errors:?}");
    assert!(errors.connect >= 2, "{errors:?}");
}

#[test]
fn an_answer_before_the_request_is_whole_ends_the_connection() {
    let refusal: &[u8] = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n";
    let server = Server::start(move |connection| {
        connection.read_some();
        connection.write(refusal);
        connection.wait();
    });
    let extent = Extent { duration: None, requests: Some(4) };
    let wish = wish("POST", Some(vec![0; 20_000_000]));
    let outcome = outcome(Plan { connections: 1, ..plan_of(&server.url(), &wish, extent) });
    assert_eq!(outcome.statuses.get(&413).copied().unwrap_or(0) + outcome.errors.unanswered(), 4);
    assert!(outcome.statuses.contains_key(&413), "{outcome:?}");
}

#[test]
fn a_closed_loop_counts_what_is_in_flight_at_the_end() {
    let server = Server::start(|connection| connection.wait());
    // Too short to say that it hangs.
    let plan = Plan { connections: 3, ..timed(&server.url(), 200) };
    let outcome = outcome(plan);
    assert_eq!((outcome.requests, outcome.responses, outcome.in_flight), (0, 0, 3), "{outcome:?}");
    assert!(outcome.oldest_in_flight_micros >= 190_000, "{outcome:?}");
    // A connection that has waited for more than a second, while others were answered in no time, hangs.
    for pipeline in [1, 4] {
        let server = Server::start(|connection| {
            while connection.read_request().is_some() {
                if connection.number == 0 {
                    return connection.wait();
                }
                connection.write(HELLO);
            }
        });
        let plan = Plan { connections: 3, pipeline, ..timed(&server.url(), 1300) };
        let finished = finished(plan);
        let outcome = finished.outcome;
        let hung = u64::from(pipeline);
        assert_eq!(outcome.errors.timeout, hung, "{outcome:?}");
        assert!(outcome.in_flight <= 2 * hung, "{outcome:?}");
        assert_eq!(outcome.requests, outcome.responses + hung);
        assert_eq!(outcome.latency.count, outcome.responses, "a closed loop keeps to responses");
        assert!(finished.reasons["timeout"].contains("by the end of the run, after 1"));
    }
}

#[test]
fn unexpected_responses_have_latencies_of_their_own() {
    let count = AtomicU64::new(0);
    let (_gate, closed) = std::sync::mpsc::channel::<()>();
    let closed = std::sync::Mutex::new(closed);
    let server = Server::start(move |connection| {
        while connection.read_request().is_some() {
            match count.fetch_add(1, Ordering::SeqCst) % 2 {
                0 => connection.write(MISSING),
                _ => {
                    let wait = Duration::from_millis(20);
                    let _ = closed.lock().unwrap().recv_timeout(wait);
                    connection.write(HELLO)
                }
            };
        }
    });
    let outcome = outcome(Plan { connections: 1, ..plan(&server.url(), 40) });
    assert_eq!((outcome.responses, outcome.errors.unexpected_status), (40, 20));
    assert_eq!(outcome.latency.count, 20);
    assert!(outcome.latency.min_micros >= 20_000, "{:?}", outcome.latency);
    let unexpected = outcome.unexpected.as_ref().unwrap();
    assert_eq!(unexpected.count, 20);
    assert!(unexpected.percentile(50.0) < 20_000, "{unexpected:?}");
    assert!((outcome.good_rate() * 2.0 - outcome.rate).abs() < 1e-6);
}
