//! Load while servers die, hang, fail and return: what clients notice, who is asked, what is left behind.
//!
//! One round takes seconds. `SLUICE_CHAOS_SECONDS` makes the rounds go on for so long.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::as_conversions,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sluice_acceptance::{config, eventually, metric};
use sluice_testkit::{FaultOrigin, Mode, PATIENCE, Sluice};

/// Connections that ask.
const CLIENTS: usize = 8;

/// A pause between two requests of a client: the load is bounded, whatever the machine can do.
const PAUSE: Duration = Duration::from_millis(4);

/// What clients have seen.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// Whole answers with 200, by who gave them.
    good: BTreeMap<String, u64>,
    /// Everything else, in words.
    bad: BTreeMap<String, u64>,
}

impl Seen {
    fn good(&self) -> u64 {
        self.good.values().sum()
    }

    fn bad(&self) -> u64 {
        self.bad.values().sum()
    }

    /// What was seen since `before`.
    fn since(&self, before: &Self) -> Self {
        let less = |now: &BTreeMap<String, u64>, then: &BTreeMap<String, u64>| {
            let rest = |(name, count): (&String, &u64)| {
                let count = count - then.get(name).copied().unwrap_or(0);
                (count > 0).then(|| (name.clone(), count))
            };
            now.iter().filter_map(rest).collect()
        };
        Self { good: less(&self.good, &before.good), bad: less(&self.bad, &before.bad) }
    }
}

/// Clients that ask until they are stopped.
struct Load {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(address: &str) -> Self {
        let (seen, stop) =
            (Arc::new(Mutex::new(Seen::default())), Arc::new(AtomicBool::new(false)));
        let client = |_| {
            let (seen, stop, address) = (Arc::clone(&seen), Arc::clone(&stop), address.to_owned());
            std::thread::spawn(move || ask_on(&address, &seen, &stop))
        };
        let clients = (0..CLIENTS).map(client).collect();
        Self { seen, stop, clients }
    }

    fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until so many more answers have come, good or bad.
    #[track_caller]
    fn wait_for(&self, count: u64) {
        let before = self.seen();
        let enough = || {
            let seen = self.seen();
            seen.good() + seen.bad() >= before.good() + before.bad() + count
        };
        assert!(eventually(enough), "answers have stopped coming: {:?}", self.seen());
    }

    fn stop(mut self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.drain(..).for_each(|client| client.join().unwrap());
        self.seen()
    }
}

fn ask_on(address: &str, seen: &Mutex<Seen>, stop: &AtomicBool) {
    let mut kept = None;
    while !stop.load(Ordering::Relaxed) {
        let answer = ask(&mut kept, address);
        let mut seen = seen.lock().unwrap();
        match answer {
            Ok((200, content)) => *seen.good.entry(content).or_default() += 1,
            Ok((status, content)) => {
                *seen.bad.entry(format!("{status} {}", content.trim())).or_default() += 1;
            }
            Err(error) => {
                kept = None;
                *seen.bad.entry(error.to_string()).or_default() += 1;
            }
        }
        drop(seen);
        std::thread::sleep(PAUSE);
    }
}

/// One request on the kept connection, or on a new one.
fn ask(kept: &mut Option<TcpStream>, address: &str) -> io::Result<(u16, String)> {
    if kept.is_none() {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        *kept = Some(stream);
    }
    let stream = kept.as_mut().expect("it was just put there");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: chaos.test\r\n\r\n")?;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    loop {
        if let Some(whole) = whole(&answer) {
            return Ok(whole);
        }
        match stream.read(&mut piece)? {
            0 if answer.is_empty() => return Err(io::Error::other("closed without an answer")),
            0 => return Err(io::Error::other("closed in the middle of an answer")),
            count => answer.extend_from_slice(&piece[..count]),
        }
    }
}

/// Status and content, once all has come.
fn whole(answer: &[u8]) -> Option<(u16, String)> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.expect("every answer has a length").trim().parse().unwrap();
    let content = answer.get(end..end + length)?;
    let status = head.get(9..12).and_then(|status| status.parse().ok()).expect("a status");
    Some((status, String::from_utf8_lossy(content).into_owned()))
}

/// A gateway with two workers in front of these servers.
fn gateway(origins: &[FaultOrigin], lines: &str) -> Sluice {
    let servers: Vec<String> =
        origins.iter().map(|origin| format!("\"{}\"", origin.address())).collect();
    let upstream = format!("[upstream.api]\nservers = [{}]\n{lines}\n", servers.join(", "));
    let rest = format!("{upstream}\n[[route]]\nproxy = \"api\"\n");
    Sluice::start(&format!("workers = 2\n{}", config(&rest)))
}

fn four() -> Vec<FaultOrigin> {
    ["one", "two", "three", "four"].map(FaultOrigin::start).into()
}

fn is_available(sluice: &Sluice, origin: &FaultOrigin) -> bool {
    let labels = format!("{{upstream=\"api\",server=\"{}\"}}", origin.address());
    metric(&sluice.admin(), &format!("sluice_server_available{labels}")) == 1
}

/// What a process holds.
#[derive(Clone, Copy, Debug)]
struct Holdings {
    descriptors: usize,
    resident_kib: usize,
}

fn holdings(sluice: &Sluice) -> Holdings {
    let pid = sluice.pid();
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let resident_kib = line.split_whitespace().next().unwrap().parse().unwrap();
    Holdings { descriptors, resident_kib }
}

/// How long rounds go on; one is made in any case.
fn duration() -> Duration {
    let seconds = std::env::var("SLUICE_CHAOS_SECONDS").ok();
    Duration::from_secs(seconds.and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// Requests that four servers share equally, within what chance and unlike workers explain: the
/// chi-square of three degrees of freedom passes 16.3 once in a thousand times. Round robin is far
/// more even than chance.
#[track_caller]
fn assert_even(seen: &Seen) {
    assert_eq!(seen.good.len(), 4, "{seen:?}");
    let expected = seen.good() as f64 / 4.0;
    let square = |count: &u64| (*count as f64 - expected).powi(2) / expected;
    let chi: f64 = seen.good.values().map(square).sum();
    assert!(chi < 16.3, "chi-square {chi:.1}: {seen:?}");
}

#[test]
fn what_servers_do_before_an_answer_begins_no_client_notices() {
    let origins = four();
    let sluice = gateway(
        &origins,
        "health = { path = \"/up\", interval = \"20ms\", timeout = \"100ms\", healthy = 2, unhealthy = 2 }\n\
         retry = { attempts = 3, on = [\"connect\", \"reset\", \"timeout\", \"500\", \"503\"], \
         per_try_timeout = \"300ms\" }",
    );
    let load = Load::start(&sluice.address("web"));
    load.wait_for(400);
    let warm = holdings(&sluice);
    let end = Instant::now() + duration();
    let modes =
        [Mode::Gone, Mode::Hang, Mode::CloseBeforeHead, Mode::ResetBeforeHead, Mode::Status(503)];
    for round in 0.. {
        for (step, mode) in modes.into_iter().enumerate() {
            let victim = &origins[(round + step) % origins.len()];
            let before = load.seen();
            victim.set(mode);
            assert!(eventually(|| !is_available(&sluice, victim)), "{mode:?} goes unnoticed");
            let out = load.seen();
            // Those that were on their way when it was found out.
            load.wait_for(CLIENTS as u64 * 2);
            let settled = load.seen();
            load.wait_for(100);
            let without = load.seen().since(&settled);
            assert!(!without.good.contains_key(victim.name()), "asked while out: {without:?}");
            victim.set(Mode::Good);
            assert!(eventually(|| is_available(&sluice, victim)), "not back after {mode:?}");
            load.wait_for(CLIENTS as u64 * 2);
            let back = load.seen();
            load.wait_for(400);
            assert_even(&load.seen().since(&back));
            let seen = load.seen().since(&before);
            assert_eq!(seen.bad(), 0, "{mode:?}: {seen:?}");
            println!(
                "{mode:?}: out after {} answers, back and even after {}",
                out.since(&before).good(),
                seen.good()
            );
        }
        if Instant::now() >= end {
            break;
        }
    }
    let loaded = holdings(&sluice);
    let seen = load.stop();
    println!("{seen:?}, {warm:?} -> {loaded:?}");
    leaves_nothing_behind(&sluice, &origins, warm, loaded);
}

#[test]
fn servers_that_break_answers_are_ejected_after_a_few() {
    let origins = four();
    let sluice = gateway(
        &origins,
        "ejection = { failures = 5, time = \"200ms\", max_time = \"400ms\", limit = \"50%\" }\n\
         retry = { attempts = 1, on = [\"connect\", \"reset\"] }",
    );
    let load = Load::start(&sluice.address("web"));
    load.wait_for(200);
    for (victim, mode) in origins.iter().zip([Mode::ResetAfterHead, Mode::HalfBody]) {
        let before = load.seen();
        victim.set(mode);
        assert!(eventually(|| !is_available(&sluice, victim)), "{mode:?} is no reason to eject");
        let seen = load.seen().since(&before);
        // Five in a row, and those that were on their way by then.
        let most = 5 + CLIENTS as u64;
        assert!((1..=most).contains(&seen.bad()), "{mode:?}: {seen:?}");
        victim.set(Mode::Good);
        assert!(eventually(|| is_available(&sluice, victim)), "not back after {mode:?}");
        load.wait_for(CLIENTS as u64 * 2);
        let back = load.seen();
        load.wait_for(400);
        let seen = load.seen().since(&back);
        assert_eq!(seen.bad(), 0, "{mode:?}: {seen:?}");
        assert_even(&seen);
    }
    load.stop();
}

/// Connections and descriptors go, and memory has not grown by more than pools and buffers explain.
#[track_caller]
fn leaves_nothing_behind(
    sluice: &Sluice,
    origins: &[FaultOrigin],
    warm: Holdings,
    loaded: Holdings,
) {
    let grown = loaded.resident_kib.saturating_sub(warm.resident_kib);
    assert!(grown < 4096, "{warm:?} -> {loaded:?}");
    let metric = |name: &str| metric(&sluice.admin(), name);
    let active = "sluice_listener_connections{listener=\"web\"}";
    assert!(eventually(|| metric(active) == 0), "{} connections are left", metric(active));
    let active = "sluice_upstream_active_requests{upstream=\"api\"}";
    assert!(eventually(|| metric(active) == 0), "{} requests are left", metric(active));
    let idle = || metric("sluice_upstream_idle_connections{upstream=\"api\"}") as usize;
    let open = || origins.iter().map(FaultOrigin::open_connections).sum::<usize>();
    // Each worker keeps at most one connection to each server for each of its clients.
    let most = CLIENTS * origins.len();
    assert!(eventually(|| idle() == open()), "{} kept, {} open", idle(), open());
    assert!(open() <= most, "{} connections for {CLIENTS} clients", open());
    let left = || holdings(sluice).descriptors;
    assert!(
        eventually(|| left() <= warm.descriptors + most),
        "{} descriptors, {} when it was warm",
        left(),
        warm.descriptors
    );
}
