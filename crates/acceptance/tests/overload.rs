//! More requests than may be under way: who goes on, who waits, who is sent away.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sluice_acceptance::{PREAMBLE, eventually, metric, upstream};
use sluice_testkit::{
    Asked, ByteScript, Exchange, Gate, Origin, Response, Sluice, State, behaviour, get,
};

const LIMITED: &str = "GET /limited HTTP/1.1\r\nHost: a\r\n\r\n";
const FREE: &str = "GET /free HTTP/1.1\r\nHost: a\r\n\r\n";

/// Two workers; the route `limited` has this limit, `free` has none, `health` says how we are.
fn config(origin: &Origin, top: &str, concurrency: &str) -> String {
    let routes = format!(
        "[[route]]\nname = \"limited\"\npath = \"/limited\"\nproxy = \"api\"\n{concurrency}\n\
         [[route]]\nname = \"free\"\npath = \"/free\"\nproxy = \"api\"\n\
         [[route]]\nname = \"well\"\npath = \"/well\"\nhealth = true\n"
    );
    format!("workers = 2\n{top}\n{PREAMBLE}{}{routes}", upstream("api", origin.address()))
}

fn limited(origin: &Origin, concurrency: &str) -> Sluice {
    Sluice::start(&config(origin, "", &format!("concurrency = {concurrency}")))
}

/// An origin that holds what asks for `/limited` until the gate opens.
fn held(gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::start(move |exchange: &mut Exchange| {
        if exchange.head().target == "/limited" {
            gate.pass();
        }
        behaviour::mirror(exchange)
    })
}

fn sent(sluice: &Sluice, request: &str) -> ByteScript {
    let mut client = ByteScript::connect(&sluice.address("web"));
    client.send(request);
    client
}

fn answer(client: &mut ByteScript) -> Response {
    client.read_response(Asked::Get).unwrap()
}

/// What the metrics page says of the limited route.
fn gauge(sluice: &Sluice, name: &str) -> u64 {
    metric(&sluice.admin(), &format!("sluice_concurrency_{name}{{route=\"limited\"}}"))
}

fn refused(sluice: &Sluice, reason: &str) -> u64 {
    let labels = format!("{{route=\"limited\",reason=\"{reason}\"}}");
    metric(&sluice.admin(), &format!("sluice_concurrency_refused_total{labels}"))
}

fn wait_for_waiting(sluice: &Sluice, count: u64) {
    let waits = || gauge(sluice, "waiting_requests") == count;
    assert!(eventually(waits), "{} wait", gauge(sluice, "waiting_requests"));
}

/// Counts how many requests an origin has at once.
#[derive(Clone, Default)]
struct Crowd(Arc<(AtomicUsize, AtomicUsize)>);

impl Crowd {
    fn most(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }

    fn watch(&self, inner: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let now = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.1.fetch_max(now, Ordering::SeqCst);
        let result = inner();
        self.0.0.fetch_sub(1, Ordering::SeqCst);
        result
    }
}

#[test]
fn the_limit_holds_over_all_workers() {
    let (gate, crowd) = (Gate::new(), Crowd::default());
    let (of_origin, counted) = (gate.clone(), crowd.clone());
    let origin = Origin::start(move |exchange: &mut Exchange| {
        exchange.sink_body()?;
        counted.watch(|| {
            of_origin.pass();
            Ok(())
        })?;
        exchange.answer(200, &[], "done")
    });
    let sluice = limited(&origin, "{ limit = 4, queue = 100, wait = \"1m\" }");
    let mut clients: Vec<ByteScript> = (0..40).map(|_| sent(&sluice, LIMITED)).collect();
    assert!(origin.wait_for_requests(4));
    wait_for_waiting(&sluice, 36);
    assert_eq!((gauge(&sluice, "limit"), gauge(&sluice, "active_requests")), (4, 4));
    assert_eq!(origin.requests().len(), 4);
    gate.open();
    for _ in 0..20 {
        for client in &mut clients {
            assert_eq!(answer(client).status, 200);
            client.send(LIMITED);
        }
    }
    clients.iter_mut().for_each(|client| assert_eq!(answer(client).status, 200));
    assert_eq!(crowd.most(), 4);
    assert!(eventually(|| gauge(&sluice, "active_requests") == 0));
    assert_eq!(gauge(&sluice, "waiting_requests"), 0);
    sluice.stop();
}

#[test]
fn who_finds_the_queue_full_is_sent_away_and_may_come_back() {
    let gate = Gate::new();
    let origin = held(&gate);
    let log = "[log]\naccess = \"{route} {response.status} {fault}\"\n";
    let concurrency = "concurrency = { limit = 1, queue = 1, wait = \"1m\", retry_after = \"7s\" }";
    let text = config(&origin, "", concurrency).replace("[log]\naccess = \"off\"\n", log);
    let sluice = Sluice::start(&text);
    let mut first = sent(&sluice, LIMITED);
    assert!(origin.wait_for_requests(1));
    let mut second = sent(&sluice, LIMITED);
    wait_for_waiting(&sluice, 1);
    let mut third = sent(&sluice, LIMITED);
    let post = "POST /limited HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
    for count in 1..4 {
        let refusal = answer(&mut third);
        assert_eq!(refusal.status, 503);
        assert_eq!(refusal.fields.first("retry-after"), Some("7"));
        assert_eq!(refusal.text(), "503 Service Unavailable: overloaded\n");
        assert_eq!(refused(&sluice, "full"), count);
        // The connection can be used further, content or not.
        assert_eq!(answer(third.send(FREE)).status, 200);
        third.send(post);
    }
    assert_eq!(answer(&mut third).status, 503);
    let faults = "sluice_faults_total{side=\"internal\",reason=\"overloaded\"}";
    assert_eq!(metric(&sluice.admin(), faults), 4);
    assert!(sluice.stdout().wait_after(0, "limited 503 overloaded").is_some());
    assert!(sluice.wait_for_line("overloaded").contains("route limited, answered 503"));
    gate.open();
    assert_eq!((answer(&mut first).status, answer(&mut second).status), (200, 200));
    assert_eq!(answer(third.send(LIMITED)).status, 200);
    sluice.stop();
}

#[test]
fn who_waits_too_long_is_sent_away() {
    let gate = Gate::new();
    let origin = held(&gate);
    let sluice = limited(&origin, "{ limit = 1, queue = 9, wait = \"20ms\" }");
    let mut first = sent(&sluice, LIMITED);
    assert!(origin.wait_for_requests(1));
    let mut second = sent(&sluice, LIMITED);
    let refusal = answer(&mut second);
    assert_eq!((refusal.status, refusal.fields.first("retry-after")), (503, Some("1")));
    assert_eq!((refused(&sluice, "timed_out"), refused(&sluice, "full")), (1, 0));
    assert_eq!(gauge(&sluice, "waiting_requests"), 0);
    gate.open();
    assert_eq!(answer(&mut first).status, 200);
    assert_eq!(answer(second.send(LIMITED)).status, 200);
    sluice.stop();
}

#[test]
fn who_leaves_the_queue_frees_its_place() {
    let gate = Gate::new();
    let origin = held(&gate);
    let sluice = limited(&origin, "{ limit = 1, queue = 1, wait = \"1m\" }");
    let mut first = sent(&sluice, LIMITED);
    assert!(origin.wait_for_requests(1));
    for _ in 0..3 {
        let impatient = sent(&sluice, LIMITED);
        wait_for_waiting(&sluice, 1);
        drop(impatient);
        wait_for_waiting(&sluice, 0);
    }
    let mut patient = sent(&sluice, LIMITED);
    wait_for_waiting(&sluice, 1);
    gate.open();
    assert_eq!((answer(&mut first).status, answer(&mut patient).status), (200, 200));
    assert_eq!(origin.requests().len(), 2, "who left was never passed on");
    sluice.stop();
}

#[test]
fn a_client_that_leaves_its_answer_gives_its_permit_back() {
    let gate = Gate::new();
    let origin = held(&gate);
    let sluice = limited(&origin, "{ limit = 1 }");
    let leaving = sent(&sluice, LIMITED);
    // Nothing is under way before it has been taken, either.
    assert!(origin.wait_for_requests(1));
    leaving.reset();
    assert!(eventually(|| gauge(&sluice, "active_requests") == 0));
    let mut next = sent(&sluice, LIMITED);
    gate.open();
    assert_eq!(answer(&mut next).status, 200);
    sluice.stop();
}

#[test]
fn answers_before_a_waiting_request_are_not_kept_back() {
    let gate = Gate::new();
    let origin = held(&gate);
    let sluice = limited(&origin, "{ limit = 1, queue = 9, wait = \"1m\" }");
    let mut first = sent(&sluice, LIMITED);
    assert!(origin.wait_for_requests(1));
    let mut pipelined = sent(&sluice, &format!("{FREE}{LIMITED}"));
    assert_eq!(answer(&mut pipelined).status, 200);
    wait_for_waiting(&sluice, 1);
    gate.open();
    assert_eq!((answer(&mut first).status, answer(&mut pipelined).status), (200, 200));
    sluice.stop();
}

#[test]
fn a_reload_changes_the_limit_for_those_who_wait() {
    let gate = Gate::new();
    let origin = held(&gate);
    let limit = |limit: u32| {
        let concurrency = format!("{{ limit = {limit}, queue = 9, wait = \"1m\" }}");
        config(&origin, "", &format!("concurrency = {concurrency}"))
    };
    let sluice = Sluice::start(&limit(1));
    let mut clients: Vec<ByteScript> = (0..4).map(|_| sent(&sluice, LIMITED)).collect();
    assert!(origin.wait_for_requests(1));
    wait_for_waiting(&sluice, 3);
    sluice.reload(&limit(3));
    assert!(origin.wait_for_requests(3));
    wait_for_waiting(&sluice, 1);
    // What is under way stays, and counts under the lower limit.
    sluice.reload(&limit(2));
    assert_eq!((gauge(&sluice, "limit"), gauge(&sluice, "active_requests")), (2, 3));
    // Without a limit nobody is counted, and those who wait still get their turn.
    sluice.reload(&config(&origin, "", ""));
    let page = get(&sluice.admin(), "/metrics").text();
    assert!(!page.contains("sluice_concurrency_limit{"), "{page}");
    gate.open();
    clients.iter_mut().for_each(|client| assert_eq!(answer(client).status, 200));
    sluice.stop();
}

#[test]
fn the_limit_of_all_routes_spares_health_and_admin() {
    let gate = Gate::new();
    let hold = gate.clone();
    let origin = Origin::start(move |exchange: &mut Exchange| {
        hold.pass();
        behaviour::mirror(exchange)
    });
    let top = "overload.concurrency = { limit = 2, queue = 1, wait = \"1m\" }";
    let sluice = Sluice::start(&config(&origin, top, ""));
    let all = |name: &str| {
        metric(&sluice.admin(), &format!("sluice_concurrency_{name}{{route=\"(all)\"}}"))
    };
    let mut clients = vec![sent(&sluice, LIMITED), sent(&sluice, FREE)];
    assert!(origin.wait_for_requests(2));
    clients.push(sent(&sluice, FREE));
    assert!(eventually(|| all("waiting_requests") == 1));
    for request in [LIMITED, FREE] {
        assert_eq!(answer(&mut sent(&sluice, request)).status, 503);
    }
    assert_eq!(all("active_requests"), 2);
    assert_eq!(get(&sluice.address("web"), "/well").status, 200);
    assert_eq!(get(&sluice.admin(), "/readyz").status, 200);
    gate.open();
    clients.iter_mut().for_each(|client| assert_eq!(answer(client).status, 200));
    sluice.stop();
}

#[test]
fn who_waits_for_a_route_holds_nothing_of_the_others() {
    let gate = Gate::new();
    let origin = held(&gate);
    let top = "overload.concurrency = { limit = 2 }";
    let concurrency = "concurrency = { limit = 1, queue = 9, wait = \"1m\" }";
    let sluice = Sluice::start(&config(&origin, top, concurrency));
    let mut clients: Vec<ByteScript> = (0..5).map(|_| sent(&sluice, LIMITED)).collect();
    assert!(origin.wait_for_requests(1));
    wait_for_waiting(&sluice, 4);
    assert_eq!(get(&sluice.address("web"), "/free").status, 200);
    gate.open();
    clients.iter_mut().for_each(|client| assert_eq!(answer(client).status, 200));
    sluice.stop();
}

#[test]
fn three_times_what_is_served_costs_refusals_and_nothing_else() {
    for limit in ["limit = 4", "adaptive = { min = 4, max = 4 }"] {
        let (gate, crowd) = (Gate::new(), Crowd::default());
        let (of_origin, counted) = (gate.clone(), crowd.clone());
        let origin = Origin::start(move |exchange: &mut Exchange| {
            counted.watch(|| {
                of_origin.pass();
                Ok(())
            })?;
            behaviour::mirror(exchange)
        });
        let sluice = limited(&origin, &format!("{{ {limit}, queue = 4, wait = \"1m\" }}"));
        // Four are worked on and four wait; twice as many are too many.
        let mut clients: Vec<ByteScript> = (0..4).map(|_| sent(&sluice, LIMITED)).collect();
        assert!(origin.wait_for_requests(4), "{limit}");
        clients.extend((0..4).map(|_| sent(&sluice, LIMITED)));
        wait_for_waiting(&sluice, 4);
        for count in 1..=16 {
            let mut late = sent(&sluice, LIMITED);
            assert_eq!(answer(&mut late).status, 503, "{limit}");
            assert_eq!(refused(&sluice, "full"), count, "{limit}");
        }
        // Probes are answered meanwhile, and so is the admin listener, which the counts come from.
        assert_eq!(get(&sluice.address("web"), "/well").status, 200, "{limit}");
        assert_eq!(get(&sluice.admin(), "/upstreams").status, 200, "{limit}");
        // A client that gives up does not reach the origin.
        clients.pop().unwrap().reset();
        wait_for_waiting(&sluice, 3);
        gate.open();
        clients.iter_mut().for_each(|client| assert_eq!(answer(client).status, 200, "{limit}"));
        assert_eq!((crowd.most(), origin.requests().len()), (4, 7), "{limit}");
        // Nothing is left of it.
        assert!(eventually(|| gauge(&sluice, "active_requests") == 0), "{limit}");
        assert_eq!(gauge(&sluice, "waiting_requests"), 0, "{limit}");
        for _ in 0..20 {
            assert_eq!(get(&sluice.address("web"), "/limited").status, 200, "{limit}");
        }
        assert_eq!(refused(&sluice, "full"), 16, "{limit}");
        sluice.stop();
    }
}

#[test]
fn an_adaptive_limit_follows_the_origin() {
    let slow = Arc::new(AtomicBool::new(false));
    let of_origin = Arc::clone(&slow);
    let origin = Origin::start(move |exchange: &mut Exchange| {
        exchange.sink_body()?;
        let pause = if of_origin.load(Ordering::Relaxed) { 200 } else { 20 };
        exchange.pause(Duration::from_millis(pause));
        exchange.answer(200, &[], "")
    });
    let adaptive = "{ min = 2, max = 12, tolerance = 200, window = \"10ms\", probe = \"1h\" }";
    let concurrency = format!("{{ adaptive = {adaptive}, queue = 100, wait = \"1m\" }}");
    let sluice = limited(&origin, &concurrency);
    assert_eq!(gauge(&sluice, "limit"), 2);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut client = sent(&sluice, LIMITED);
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(answer(&mut client).status, 200);
                    client.send(LIMITED);
                }
            });
        }
        let rose = eventually(|| gauge(&sluice, "limit") == 12);
        slow.store(true, Ordering::Relaxed);
        let fell = eventually(|| gauge(&sluice, "limit") == 2);
        slow.store(false, Ordering::Relaxed);
        let rose_again = eventually(|| gauge(&sluice, "limit") > 6);
        stop.store(true, Ordering::Relaxed);
        assert!(rose && fell && rose_again, "{rose} {fell} {rose_again}");
    });
    sluice.stop();
}

fn with_memory(origin: &Origin, memory: &str) -> String {
    config(origin, &format!("overload.memory = \"{memory}\""), "")
}

fn rejected(sluice: &Sluice) -> u64 {
    let sample = "sluice_listener_rejected_total{listener=\"web\",limit=\"memory\"}";
    metric(&sluice.admin(), sample)
}

fn is_let_in(sluice: &Sluice) -> bool {
    let mut client = ByteScript::connect(&sluice.address("web"));
    // A connection that is refused may be reset before the request is out.
    let sent = client.try_send(FREE.as_bytes()).is_ok();
    sent && client.read_response(Asked::Get).is_ok_and(|answer| answer.status == 200)
}

#[test]
fn while_memory_is_short_connections_are_given_up_and_the_admin_listener_answers() {
    let gate = Gate::new();
    let origin = held(&gate);
    let sluice = Sluice::start(&with_memory(&origin, "off"));
    assert_eq!(metric(&sluice.admin(), "sluice_memory_limit_bytes"), 0);
    // More than there may be in any case.
    let mut idle: Vec<ByteScript> = (0..40).map(|_| sent(&sluice, FREE)).collect();
    idle.iter_mut().for_each(|client| assert_eq!(answer(client).status, 200));
    let mut busy = sent(&sluice, LIMITED);
    assert!(origin.wait_for_requests(41));
    let mark = sluice.words().mark();
    sluice.reload(&with_memory(&origin, "1MiB"));
    assert!(sluice.words().wait_after(mark, "memory is short").is_some());
    assert!(eventually(|| metric(&sluice.admin(), "sluice_memory_idle_closed_total") > 0));
    assert!(eventually(|| idle.iter_mut().any(|client| client.state() == State::Closed)));
    // Those that are let in stay, until there are as many as there may be.
    let mut fresh = Vec::new();
    while rejected(&sluice) == 0 {
        assert!(fresh.len() < 41, "as many as before are let in");
        let mut client = ByteScript::connect(&sluice.address("web"));
        let answered =
            client.try_send(FREE.as_bytes()).is_ok() && client.read_response(Asked::Get).is_ok();
        fresh.extend(answered.then_some(client));
    }
    assert!(!is_let_in(&sluice));
    for _ in 0..20 {
        assert_eq!(get(&sluice.admin(), "/readyz").status, 200);
    }
    assert_eq!(metric(&sluice.admin(), "sluice_memory_short"), 1);
    assert_eq!(metric(&sluice.admin(), "sluice_memory_limit_bytes"), 1 << 20);
    // What is under way is answered, and its connection is among those there may be.
    gate.open();
    assert_eq!(answer(&mut busy).status, 200);
    assert_eq!(answer(busy.send(FREE)).status, 200);
    let lines = sluice.stderr();
    assert_eq!(lines.iter().filter(|line| line.contains("memory is short")).count(), 1);
    sluice.reload(&with_memory(&origin, "off"));
    assert!(eventually(|| is_let_in(&sluice)));
    assert_eq!(metric(&sluice.admin(), "sluice_memory_short"), 0);
    sluice.stop();
}

#[test]
fn a_flood_makes_memory_short_and_afterwards_everybody_is_served_again() {
    let gate = Gate::new();
    let origin = held(&gate);
    // They wait in the gateway.
    let concurrency = "concurrency = { limit = 1, queue = 100000, wait = \"1m\" }";
    let with =
        |memory: &str| config(&origin, &format!("overload.memory = \"{memory}\""), concurrency);
    let sluice = Sluice::start(&with("100%"));
    assert!(is_let_in(&sluice), "a share of what there is");
    let limit = metric(&sluice.admin(), "process_resident_memory_bytes") + (2 << 20);
    sluice.reload(&with(&format!("{limit}B")));
    let short = || metric(&sluice.admin(), "sluice_memory_short") == 1;
    let mut flood = Vec::new();
    // Requests that wait hold memory.
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: before.maximum, ..before }).unwrap();
    while !short() {
        assert!(flood.len() < 10_000, "memory does not grow");
        for _ in 0..50 {
            let mut client = ByteScript::connect(&sluice.address("web"));
            let _ = client.try_send(LIMITED.as_bytes());
            flood.push(client);
        }
    }
    // More than one of ten may not come back.
    assert!(eventually(|| !is_let_in(&sluice)));
    assert!(eventually(|| rejected(&sluice) > 0));
    gate.open();
    drop(flood);
    // A busy gateway hears of it one by one.
    let open = || metric(&sluice.admin(), "sluice_listener_connections{listener=\"web\"}");
    assert!(eventually(|| open() == 0));
    assert!(eventually(|| is_let_in(&sluice)));
    for _ in 0..50 {
        assert!(is_let_in(&sluice), "also while the allocator keeps the memory");
    }
    sluice.stop();
}
