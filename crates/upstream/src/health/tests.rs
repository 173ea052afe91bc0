//! Policies as tables, checks against origins made of bytes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluice_net::{Deadline, Endpoint, run};

use super::probe::{Question, Reason, ask};
use super::rule::{CheckRule, HttpProbe, Initial, Probe};
use super::schedule::{Dice, pause};
use super::verdict::{Change, Outcome, Standing, Verdict};

fn http(body: Option<&str>) -> Probe {
    Probe::Http(HttpProbe {
        method: "GET".into(),
        target: "/up?x".into(),
        host: None,
        statuses: vec![200..=299, 404..=404],
        body: body.map(|body| body.as_bytes().into()),
        service: None,
    })
}

fn rule(probe: Probe) -> CheckRule {
    CheckRule {
        probe,
        port: None,
        interval: Duration::from_millis(10),
        jitter: 0,
        timeout: Duration::from_secs(10),
        healthy: 2,
        unhealthy: 3,
        initial: Initial::Healthy,
    }
}

#[test]
fn thresholds_decide_and_one_success_is_enough_for_a_stranger() {
    // Standing before, results (+ and -), and the change each of them makes (h, u or .).
    let rows = [
        (Standing::Healthy, "---", "..u"),
        (Standing::Healthy, "--+---", ".....u"),
        (Standing::Healthy, "+++", "..."),
        (Standing::Unhealthy, "++", ".h"),
        (Standing::Unhealthy, "+-++", "...h"),
        (Standing::Unhealthy, "----", "...."),
        (Standing::Unknown, "+", "h"),
        (Standing::Unknown, "--+", "..h"),
        (Standing::Unknown, "---+", "..u."),
        (Standing::Unknown, "---++", "..u.h"),
        (Standing::Unhealthy, "++---++", ".h..u.h"),
    ];
    for (mut standing, results, expected) in rows {
        let mut verdict = Verdict::default();
        let mut got = String::new();
        for result in results.chars() {
            let outcome = if result == '+' { Outcome::Success } else { Outcome::Failure };
            let change = verdict.take(outcome, standing, &rule(Probe::Tcp));
            match change {
                Some(Change::Healthy) => standing = Standing::Healthy,
                Some(Change::Unhealthy) => standing = Standing::Unhealthy,
                None => {}
            }
            got.push(match change {
                Some(Change::Healthy) => 'h',
                Some(Change::Unhealthy) => 'u',
                None => '.',
            });
        }
        assert_eq!(got, expected, "{results}");
    }
}

#[test]
fn intervals_stay_within_their_jitter_and_fill_it() {
    let second = Duration::from_secs(1);
    let mut dice = Dice::new(0);
    let pauses: Vec<Duration> = (0..1000).map(|_| pause(second, 100_000, dice.roll())).collect();
    let (least, most) = (Duration::from_millis(900), Duration::from_millis(1100));
    assert!(pauses.iter().all(|pause| (least..=most).contains(pause)));
    let tenth = |pause: &Duration| pause.saturating_sub(least).as_millis() / 20;
    let mut counts = BTreeMap::new();
    pauses.iter().for_each(|pause| *counts.entry(tenth(pause).min(9)).or_insert(0) += 1);
    assert!(counts.len() == 10 && counts.values().all(|&count| count > 50), "{counts:?}");
    assert_eq!(pause(second, 0, dice.roll()), second);
    assert!(pause(second, 1_000_000, 0).is_zero());
    assert!(pause(Duration::MAX, 1_000_000, u64::MAX) > second);
}

/// An origin that takes one request on one connection and sends these bytes; what it was asked.
fn origin(answer: &'static str) -> (SocketAddr, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
            head.push(byte[0]);
        }
        // A check that has seen enough may be gone.
        let _ = stream.write_all(answer.as_bytes());
        String::from_utf8(head).unwrap()
    });
    (address, thread)
}

fn ask_once(rule: CheckRule, server: &Endpoint) -> Result<(), Reason> {
    use crate::tests::{plan_of, settings};
    let plan = plan_of(settings(), std::slice::from_ref(server), &Arc::default());
    run(async move {
        ask(&rule, &Question::new(&rule, &plan.servers[0], None), &Deadline::new()).await
    })
    .unwrap()
}

#[test]
fn answers_are_judged_by_status_and_body() {
    const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nall is wel";
    let rows = [
        (OK, None, Ok(())),
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", None, Ok(())),
        ("HTTP/1.1 204 No Content\r\n\r\n", None, Ok(())),
        ("HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n", None, Err(Reason::Status(500))),
        ("HTTP/1.1 103 Hint\r\n\r\nHTTP/1.1 503 Oh\r\n\r\n", None, Err(Reason::Status(503))),
        (OK, Some("is wel"), Ok(())),
        (OK, Some("is well"), Err(Reason::Body)),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nw\r\n3\r\nell\r\n0\r\n\r\n",
            Some("well"),
            Ok(()),
        ),
        ("HTTP/1.1 200 OK\r\n\r\nwell", Some("well"), Ok(())),
        ("HTTP/1.1 204 No Content\r\n\r\n", Some("well"), Err(Reason::Body)),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nwel", Some("well"), Err(Reason::Closed)),
        ("HTTP/1.1 200 O", None, Err(Reason::Closed)),
        ("", None, Err(Reason::Closed)),
        ("SSH-2.0-OpenSSH\r\n\r\n", None, Err(Reason::Malformed)),
    ];
    for (answer, body, expected) in rows {
        let (address, thread) = origin(answer);
        assert_eq!(ask_once(rule(http(body)), &Endpoint::Tcp(address)), expected, "{answer}");
        let head = thread.join().unwrap();
        assert!(head.starts_with("GET /up?x HTTP/1.1\r\n"), "{head}");
        assert!(head.contains(&format!("\r\nhost: {address}\r\n")), "{head}");
        assert!(head.contains("\r\nconnection: close\r\n"), "{head}");
    }
}

#[test]
fn no_more_content_is_searched_than_the_bound() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        // Without end, until the check has had enough.
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    assert_eq!(ask_once(rule(http(Some("y"))), &Endpoint::Tcp(address)), Err(Reason::Body));
    thread.join().unwrap();
}

#[test]
fn connections_are_judged_as_well() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let open = listener.local_addr().unwrap();
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let mut brief = rule(http(None));
    // The listener never accepts, so no answer comes.
    brief.timeout = Duration::from_millis(20);
    let mut elsewhere = rule(Probe::Tcp);
    elsewhere.port = Some(open.port());
    let nowhere = Endpoint::Unix("/nowhere/at/all.sock".into());
    let rows = [
        (rule(Probe::Tcp), Endpoint::Tcp(open), Ok(())),
        (rule(Probe::Tcp), Endpoint::Tcp(closed), Err(Reason::Refused)),
        (rule(http(None)), Endpoint::Tcp(closed), Err(Reason::Refused)),
        (elsewhere, Endpoint::Tcp(closed), Ok(())),
        (brief, Endpoint::Tcp(open), Err(Reason::TimedOut)),
        (rule(Probe::Tcp), nowhere, Err(Reason::Unreachable)),
    ];
    for (rule, server, expected) in rows {
        assert_eq!(ask_once(rule, &server), expected, "{server}");
    }
}

mod watching {
    //! What the thread makes of plans that come and go.

    use sluice_net::{Post, mailbox, spawn};

    use super::*;
    use crate::tests::{plan_of, settings};
    use crate::{
        Bar, ClusterPlan, ClusterSettings, ClusterState, HealthOrder, HealthParts, HealthSettings,
        Tone, watch_health,
    };

    fn plan(
        health: HealthSettings,
        server: &Endpoint,
        state: &Arc<ClusterState>,
    ) -> Arc<ClusterPlan> {
        let settings = ClusterSettings { health, ..settings() };
        plan_of(settings, std::slice::from_ref(server), state)
    }

    /// A thread that watches, within the loop of the test.
    fn watcher() -> (Post<HealthOrder>, Rc<RefCell<Vec<String>>>) {
        let (post, orders) = mailbox();
        let (lines, heard) = std::sync::mpsc::channel();
        let say = move |tone: Tone, text: &str| drop(lines.send(format!("{tone:?}: {text}")));
        let bell = post.clone();
        spawn(watch_health(HealthParts { orders, post: bell, say: Box::new(say) }));
        let said = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&said);
        spawn(async move {
            let deadline = Deadline::new();
            loop {
                sink.borrow_mut().extend(heard.try_iter());
                deadline.sleep(Duration::from_millis(1)).await;
            }
        });
        (post, said)
    }

    async fn until(what: &str, mut seen: impl FnMut() -> bool) {
        let deadline = Deadline::new();
        for _ in 0..10_000 {
            if seen() {
                return;
            }
            deadline.sleep(Duration::from_millis(1)).await;
        }
        panic!("never: {what}");
    }

    fn checked(rule: CheckRule) -> HealthSettings {
        HealthSettings { check: Some(rule), ..HealthSettings::default() }
    }

    #[test]
    fn a_server_that_dies_and_returns_is_barred_meanwhile() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        run(async move {
            let state = Arc::new(ClusterState::default());
            let plan = plan(checked(rule(Probe::Tcp)), &Endpoint::Tcp(address), &state);
            let (post, said) = watcher();
            post.send(HealthOrder::Watch(vec![Arc::clone(&plan)]));
            let server = &plan.servers[0];
            let checks = || server.meter.sum(|meter| meter.checks.value());
            until("a check", || checks() > 0).await;
            assert!(server.state.is_available());
            drop(listener);
            until("unhealthy", || server.state.is_barred(Bar::Unhealthy)).await;
            assert_eq!(server.state.reasons(), ["unhealthy: connection refused"]);
            let failures = || server.meter.sum(|meter| meter.check_failures.value());
            assert!(failures() >= 3);
            let _listener = TcpListener::bind(address).unwrap();
            until("healthy", || server.state.is_available()).await;
            let of_server = || -> Vec<String> {
                let all = said.borrow();
                all.iter().filter(|line| line.contains("healthy")).cloned().collect()
            };
            until("two lines", || of_server().len() == 2).await;
            let name = format!("upstream api: {address}");
            let bad = format!("Bad: {name} is unhealthy: connection refused");
            assert_eq!(of_server(), [bad, format!("Good: {name} is healthy")]);
        })
        .unwrap();
    }

    #[test]
    fn new_plans_keep_what_was_found_and_removed_checks_lift_it() {
        let closed = {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            Endpoint::Tcp(listener.local_addr().unwrap())
        };
        run(async move {
            let state = Arc::new(ClusterState::default());
            let first = plan(checked(rule(Probe::Tcp)), &closed, &state);
            let (post, said) = watcher();
            post.send(HealthOrder::Watch(vec![Arc::clone(&first)]));
            let server = Arc::clone(&first.servers[0].state);
            until("unhealthy", || server.is_barred(Bar::Unhealthy)).await;
            // Another rule for the same server: it stays out, and is checked on.
            let mut other = rule(Probe::Tcp);
            other.healthy = 1;
            let second = plan(checked(other), &closed, &state);
            post.send(HealthOrder::Watch(vec![Arc::clone(&second)]));
            let checks = || second.servers[0].meter.sum(|meter| meter.checks.value());
            until("checks by the new rule", || checks() > 0).await;
            assert!(server.is_barred(Bar::Unhealthy));
            // No rule: nobody would find out that it is back.
            post.send(HealthOrder::Watch(vec![plan(HealthSettings::default(), &closed, &state)]));
            until("lifted", || server.is_available()).await;
            let after = checks();
            for _ in 0..5 {
                sluice_net::yield_now().await;
            }
            assert_eq!(checks(), after, "the check goes on");
            let ill = said.borrow().iter().filter(|line| line.contains("unhealthy")).count();
            assert_eq!(ill, 1, "{said:?}");
        })
        .unwrap();
    }

    #[test]
    fn panic_is_said_when_it_begins_and_when_it_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = Endpoint::Tcp(listener.local_addr().unwrap());
        run(async move {
            let plan = plan(checked(rule(Probe::Tcp)), &place, &Arc::default());
            let (post, said) = watcher();
            post.send(HealthOrder::Watch(vec![Arc::clone(&plan)]));
            let panics = || plan.meter.sum(|meter| u64::from(meter.panic.value() == 1)) == 1;
            let server = &plan.servers[0].state;
            until("looked at", || plan.servers[0].meter.sum(|meter| meter.checks.value()) > 0)
                .await;
            // Not by the checks: they go well.
            server.bar(Bar::Ejected);
            until("panic", panics).await;
            server.lift(Bar::Ejected);
            until("no panic", || !panics()).await;
            until("two lines", || said.borrow().len() == 2).await;
            let bad = "Bad: upstream api: 0 of 1 servers are available, all are asked (panic)";
            let good = "Good: upstream api: 1 of 1 servers are available, no more panic";
            assert_eq!(*said.borrow(), [bad, good]);
        })
        .unwrap();
    }

    #[test]
    fn a_stranger_waits_for_its_first_success() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = Endpoint::Tcp(listener.local_addr().unwrap());
        run(async move {
            let state = Arc::new(ClusterState::default());
            let plan = plan(checked(rule(Probe::Tcp)), &place, &state);
            let server = &plan.servers[0].state;
            server.bar(Bar::Unchecked);
            assert_eq!(server.reasons(), ["unchecked"]);
            let (post, _said) = watcher();
            post.send(HealthOrder::Watch(vec![Arc::clone(&plan)]));
            until("healthy", || server.is_available()).await;
            assert_eq!(plan.servers[0].meter.sum(|meter| meter.check_failures.value()), 0);
        })
        .unwrap();
    }
}

mod ejecting {
    //! Who is ejected, under a clock that the test moves.

    use super::*;
    use sluice_message::GrpcStatuses;

    use crate::health::ejection::{Ejections, What, Why};
    use crate::tests::{plan_of, settings};
    use crate::{Bar, ClusterPlan, EjectionRule, ServerPlan};

    const SECOND: u64 = 1_000_000_000;

    fn rule() -> EjectionRule {
        EjectionRule {
            failures: 5,
            share: None,
            requests: 10,
            window: Duration::from_secs(10),
            statuses: vec![502..=504],
            calls: GrpcStatuses::default(),
            time: Duration::from_secs(10),
            max_time: Duration::from_secs(60),
            limit: 500_000,
        }
    }

    /// A cluster of so many servers, and what has been decided about it.
    struct Game {
        plan: Arc<ClusterPlan>,
        ejections: Ejections,
        rule: EjectionRule,
        now: u64,
    }

    impl Game {
        fn new(servers: u16, rule: EjectionRule) -> Self {
            let place = |port| Endpoint::Tcp(([127, 0, 0, 1], port).into());
            let places: Vec<Endpoint> = (1..=servers).map(place).collect();
            let plan = plan_of(settings(), &places, &Arc::default());
            let mut game = Self { plan, ejections: Ejections::default(), rule, now: SECOND };
            assert_eq!(game.look(), []);
            game
        }

        /// What is decided now: the server's number, and for how many seconds it is out, 0 = back.
        fn look(&mut self) -> Vec<(u16, u64)> {
            let (decisions, next) = self.ejections.look(&self.plan, &self.rule, self.now);
            assert!(next.is_none_or(|next| next > self.now), "it would be looked at for ever");
            let number = |place: &Endpoint| match place {
                Endpoint::Tcp(address) => address.port(),
                Endpoint::Unix(_) => 0,
            };
            let mut list: Vec<(u16, u64)> = decisions
                .iter()
                .map(|decision| match &decision.what {
                    What::Ejected(time, _) => (number(&decision.server), time.as_secs()),
                    What::Returned => (number(&decision.server), 0),
                })
                .collect();
            list.sort_unstable();
            list
        }

        fn pass(&mut self, seconds: u64) -> Vec<(u16, u64)> {
            self.now += seconds * SECOND;
            self.look()
        }

        fn server(&self, number: u16) -> &ServerPlan {
            &self.plan.servers[usize::from(number) - 1]
        }

        fn fail(&self, number: u16, times: u32) {
            for worker in 0..times {
                let server = self.server(number);
                server.state.add_failure(self.rule.failures);
                let worker = usize::try_from(worker % 2).unwrap();
                server.meter.worker(worker).requests.increment();
                server.meter.worker(worker).faulty.increment();
            }
        }

        fn succeed(&self, number: u16, times: u64) {
            let server = self.server(number);
            server.meter.worker(1).requests.add(times);
            server.state.end_streak();
        }

        fn is_out(&self, number: u16) -> bool {
            self.server(number).state.is_barred(Bar::Ejected)
        }
    }

    #[test]
    fn failures_in_a_row_eject_and_a_success_begins_anew() {
        let mut game = Game::new(4, rule());
        game.fail(1, 4);
        assert_eq!(game.pass(1), []);
        game.succeed(1, 1);
        game.fail(1, 4);
        assert_eq!(game.pass(1), []);
        game.fail(1, 1);
        assert_eq!(game.pass(1), [(1, 10)]);
        assert_eq!(game.server(1).state.reasons(), ["ejected: 5 failures in a row, for 10s"]);
        assert_eq!(game.server(1).meter.sum(|meter| meter.ejections.value()), 1);
        assert_eq!(game.pass(9), []);
        // What was under way when it was ejected fails late, and is not held against it.
        game.fail(1, 7);
        assert_eq!(game.pass(1), [(1, 0)]);
        assert!(!game.is_out(1));
        assert_eq!(game.pass(1), []);
    }

    #[test]
    fn each_ejection_lasts_longer_until_the_server_behaves() {
        let mut game = Game::new(2, rule());
        // Seconds of good behaviour before it fails, and for how long it is out then.
        let rows = [
            (0, 10),
            (0, 20),
            (5, 40),
            (0, 60),
            (0, 60),
            // Forty seconds earn an ejection of forty, twenty more one of twenty.
            (39, 60),
            (45, 40),
            (1, 60),
            (40 + 20 + 5, 20),
            (10_000, 10),
        ];
        for (calm, time) in rows {
            assert_eq!(game.pass(calm), [], "{calm}");
            game.fail(1, 5);
            assert_eq!(game.look(), [(1, time)], "{calm}");
            assert_eq!(game.pass(time - 1), []);
            assert_eq!(game.pass(1), [(1, 0)]);
        }
    }

    #[test]
    fn only_so_many_are_out_at_a_time() {
        // Servers, limit, and how many of them are ejected when all fail.
        let rows = [
            (1, 500_000, 0),
            (1, 1_000_000, 1),
            (2, 500_000, 1),
            (3, 500_000, 1),
            (4, 500_000, 2),
            (5, 100_000, 1),
            (5, 0, 0),
            (10, 300_000, 3),
            (10, 1_000_000, 10),
        ];
        for (servers, limit, expected) in rows {
            let mut game = Game::new(servers, EjectionRule { limit, ..rule() });
            (1..=servers).for_each(|number| game.fail(number, 5));
            assert_eq!(game.look().len(), expected, "{servers} {limit}");
            let out = (1..=servers).filter(|&number| game.is_out(number)).count();
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn who_was_spared_is_next_when_another_returns() {
        let mut game = Game::new(2, rule());
        game.fail(1, 5);
        assert_eq!(game.look(), [(1, 10)]);
        game.fail(2, 9);
        assert_eq!(game.pass(1), []);
        assert_eq!(game.pass(9), [(1, 0), (2, 10)]);
        // One that recovers meanwhile is spared for good.
        game.fail(1, 5);
        assert_eq!(game.pass(1), []);
        game.succeed(1, 1);
        assert_eq!(game.pass(9), [(2, 0)]);
    }

    #[test]
    fn a_share_of_failures_ejects_once_there_are_enough_requests() {
        let share = EjectionRule { failures: 0, share: Some(500_000), ..rule() };
        // Failures and successes of a window, and whether that is too much.
        let rows = [
            (5, 5, true),
            (9, 10, false),
            (10, 9, true),
            (4, 4, false),
            (9, 0, false),
            (10, 0, true),
            (0, 100, false),
            (0, 0, false),
        ];
        for (failures, successes, bad) in rows {
            let mut game = Game::new(4, share.clone());
            // Before the window: not in it.
            game.fail(1, 100);
            assert_eq!(game.pass(10), [(1, 10)], "the window that has ended");
            assert_eq!(game.pass(10), [(1, 0)]);
            game.fail(1, failures);
            game.succeed(1, successes);
            assert_eq!(game.pass(9), []);
            let decided = game.pass(1);
            assert_eq!(!decided.is_empty(), bad, "{failures} {successes}: {decided:?}");
        }
    }

    #[test]
    fn what_was_never_sent_counts_among_the_requests() {
        let share = EjectionRule { failures: 0, share: Some(500_000), ..rule() };
        let mut game = Game::new(2, share);
        let meter = |game: &Game| Arc::clone(&game.server(1).meter);
        meter(&game).worker(0).unreached.add(10);
        meter(&game).worker(0).faulty.add(10);
        game.succeed(1, 11);
        assert_eq!(game.pass(10), []);
        meter(&game).worker(0).unreached.add(10);
        meter(&game).worker(0).faulty.add(10);
        game.succeed(1, 10);
        let (decisions, _) = {
            game.now += 10 * SECOND;
            game.ejections.look(&game.plan, &game.rule, game.now)
        };
        let [decision] = decisions.as_slice() else { panic!("{decisions:?}") };
        assert_eq!(decision.what, What::Ejected(Duration::from_secs(10), Why::Share(10, 20)));
    }

    #[test]
    fn a_server_that_leaves_the_cluster_is_let_in() {
        let mut game = Game::new(3, rule());
        let gone = game.server(3).clone();
        game.fail(3, 5);
        assert_eq!(game.look(), [(3, 10)]);
        let places: Vec<Endpoint> =
            game.plan.servers[..2].iter().map(|server| server.endpoint.clone()).collect();
        game.plan = plan_of(settings(), &places, &game.plan.state);
        assert_eq!(game.look(), []);
        assert!(gone.state.is_available());
        // Those that stay are known as they were.
        game.fail(1, 5);
        assert_eq!(game.look(), [(1, 10)]);
    }

    #[test]
    fn whoever_removes_the_rule_lets_everybody_back_in() {
        let mut game = Game::new(2, rule());
        game.fail(1, 5);
        assert_eq!(game.look(), [(1, 10)]);
        std::mem::take(&mut game.ejections).dissolve();
        assert!(!game.is_out(1));
        assert_eq!(game.server(1).state.streak(), 0);
    }

    #[test]
    fn the_bell_rings_when_there_are_enough_and_when_somebody_is_barred() {
        let game = Game::new(1, rule());
        let count = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let rung = Arc::clone(&count);
        let order = std::sync::atomic::Ordering::Relaxed;
        game.plan.state.hang_bell(|| Box::new(move || _ = rung.fetch_add(1, order)));
        for (failures, rings) in [(4, 0), (1, 1), (5, 1)] {
            game.fail(1, failures);
            assert_eq!(count.load(order), rings, "{failures}");
        }
        let state = &game.server(1).state;
        state.bar(Bar::Draining);
        state.bar(Bar::Draining);
        state.lift(Bar::Draining);
        assert_eq!(count.load(order), 3);
    }
}
