//! `cargo xtask bench load`: the load generator beside wrk, and beside the record of the server it loads.

pub mod client;
mod record;
mod recorder;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::measure::{Spread, spread};
use super::options::{Defaults, Options};
use super::peers::{Bench, Peer, Role};
use super::report::{self, Row, Section, Side};
use super::server::{Server, Under};
use client::{Client, Done, Load, Priority, Running};
use record::{COMPARED, Record, furthest};
use recorder::{Delay, Recorder};

/// User instructions per request against wrk's.
const INSTRUCTIONS: f64 = 1.2;
/// What the gate lets pass, whether or not there is a wrk: as measured, and a little.
const GATE: f64 = 1_600.0;
/// Requests per CPU second against wrk's.
const PER_CPU: f64 = 1.0;
/// The rate of the open loops, in requests per second.
const RATE: f64 = 5_000.0;
/// How late requests may be sent at the 99th percentile, in microseconds.
const LATE_MICROS: f64 = 1_000.0;
/// How far percentiles may be from the server's own.
const APART: f64 = 0.02;
/// Connections that are opened at once.
const MANY: usize = 5_000;
/// What the resident size may grow by, in KiB.
const GROWTH: f64 = 1_024.0;
/// When the resident size is looked at first, in seconds.
const SETTLED: u64 = 10;

const USAGE: &str = "\
usage: cargo xtask bench load [OPTION ...]
  --only LIST    of instructions, cpu, schedule, percentiles, connections, memory (comma-separated)
  --rounds N     rounds of each client, and of each open loop (5)
  --seconds N    seconds of each round (3)
  --long N       seconds of the run whose memory is looked at, more than 10 (60)
  --sluice FILE  the program (target/release/sluice)
  --no-write     leave bench/RESULTS.md alone
  --publish-anyway  write it even if the machine was not quiet
";

/// The title of the section this writes.
const TITLE: &str = "The load generator";

const DEFAULTS: Defaults =
    Defaults { usage: USAGE, rounds: 5, seconds: 3, own: ("--long", 60, SETTLED as usize + 1) };

/// A line of the table with a figure of ours and one of wrk.
fn row(what: &str, target: &str, (ours, wrk): (String, String)) -> Row {
    let mut row = Row::new(what, target);
    row.figures[0] = ours;
    row.figures[1] = wrk;
    row
}

/// A line that says whether we got there.
fn judged(row: Row, reached: bool) -> Row {
    Row { reached: Some(reached), ..row }
}

/// wrk has no such thing.
fn none() -> String {
    "-".to_owned()
}

type Part = fn(&Bench, &Options) -> Result<Vec<Row>, String>;

/// Runs the measurements, prints the table and writes its section.
pub fn run(root: &Path, sluice: PathBuf, arguments: &[String]) -> Result<(), String> {
    let options = Options::parse(&DEFAULTS, sluice, arguments)?;
    let bench = Bench::new(root, options.sluice.clone())?;
    super::raise_descriptor_limit();
    let machine = Machine::now();
    let parts: [(&str, Part); 6] = [
        ("instructions", instructions),
        ("cpu", cpu),
        ("schedule", schedule),
        ("percentiles", percentiles),
        ("connections", connections),
        ("memory", memory),
    ];
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    for (name, part) in parts.into_iter().filter(|(name, _)| options.wants(name)) {
        eprintln!("{name} ...");
        match part(&bench, &options) {
            Ok(measured) => rows.extend(measured),
            Err(why) => {
                eprintln!("{name}: {why}");
                missing.push(format!("{name}: {}", why.lines().next().unwrap_or_default()));
            }
        }
    }
    let mut machine = machine.since();
    machine.extend(report::environment(&bench, Side::Client));
    let section = Section {
        command: "load",
        title: TITLE,
        table: report::columns(&rows, &["sluice bench", "wrk"]),
        how: how(&options),
        missing: &missing,
        machine,
    };
    section.print();
    if options.write {
        section.write(root)?;
    }
    Ok(())
}

fn how(options: &Options) -> Vec<String> {
    let Options { rounds, seconds, own: long, .. } = options;
    vec![
        "both clients with one thread and 100 connections against the same server, which has one worker and answers 13 bytes"
            .to_owned(),
        "instructions: two runs of different length under callgrind, by the difference; slowed down, a client finds more answers waiting each time it looks, and so do both".to_owned(),
        format!("CPU time: {rounds} rounds of {seconds} s, the clients in turn, server on one CPU and client on another; user and system time of the whole process; medians, spread in brackets"),
        match Priority::first() {
            Priority::First => "schedule and percentiles: client and server run before everything else on the machine (chrt -f), as on one that is quiet".to_owned(),
            Priority::Shared => "schedule and percentiles: client and server have to wait for everything else on the machine, since this user may not give them priority (chrt -f)".to_owned(),
        },
        format!("schedule: {rounds} rounds of {seconds} s with 100 connections; the server's clock when it has read each request, against a plan that begins as early as its most punctual request allows"),
        format!("percentiles: {rounds} rounds of {seconds} s with 200 connections; the server answers after 10 to 40 ms and holds all answers in the first 200 ms of each second; of {COMPARED:?} the one furthest from what its own record gives"),
        format!("memory: the resident size {SETTLED} s and {long} s into one closed loop"),
    ]
}

/// How busy the machine was with other things.
struct Machine {
    load: String,
    steal: Option<(f64, f64)>,
}

impl Machine {
    fn now() -> Self {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
        Self { load, steal: steal() }
    }

    fn since(&self) -> Vec<String> {
        let mut lines = vec![format!("Load average at the beginning: {}", self.load)];
        if let (Some((stolen, all)), Some((then, total))) = (self.steal, steal()) {
            let share = (then - stolen) / (total - all).max(1.0) * 100.0;
            lines.push(format!("CPU time taken by the hypervisor meanwhile (steal): {share:.1} %"));
        }
        lines
    }
}

/// Ticks stolen and all ticks of the machine (proc(5): the eighth of the figures behind `cpu`).
fn steal() -> Option<(f64, f64)> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // The last two are part of the first two.
    Some((*ticks.get(7)?, ticks.iter().take(8).sum()))
}

fn servers(bench: &Bench) -> Vec<Peer> {
    let wanted = [Peer::Nginx, Peer::Sluice];
    wanted.into_iter().filter(|peer| bench.peers.contains(peer)).collect()
}

fn instructions(bench: &Bench, _: &Options) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for peer in servers(bench) {
        let server = Server::start(bench, peer, Role::Direct, Under::Nothing)?;
        let ours = Client::Sluice.instructions(bench, &server.url())?;
        let wrk = Client::Wrk.instructions(bench, &server.url())?;
        let line = row(
            &format!("user instructions per request, {} answers", peer.name()),
            &format!("at most {INSTRUCTIONS} x wrk's"),
            (format!("{ours:.0} (x {:.2})", ours / wrk), format!("{wrk:.0}")),
        );
        rows.push(judged(line, ours <= INSTRUCTIONS * wrk));
    }
    Ok(rows)
}

/// User instructions per request of our client, what the gate allows, and what they are against wrk's.
pub fn gate(bench: &Bench) -> Result<Vec<(&'static str, f64, f64)>, String> {
    let server = Server::start(bench, Peer::Sluice, Role::Direct, Under::Nothing)?;
    let ours = Client::Sluice.instructions(bench, &server.url())?;
    let mut figures = vec![("user instructions per request of sluice bench", ours, GATE)];
    if let Ok(wrk) = Client::Wrk.instructions(bench, &server.url()) {
        figures.push(("instructions of sluice bench against wrk's", ours / wrk, INSTRUCTIONS));
    }
    Ok(figures)
}

fn cpu(bench: &Bench, options: &Options) -> Result<Vec<Row>, String> {
    let cpu = super::load_cpu();
    let mut rows = Vec::new();
    for peer in servers(bench) {
        let under = cpu.map_or(Under::Nothing, |_| Under::Cpu(0));
        let server = Server::start(bench, peer, Role::Direct, under)?;
        let url = server.url();
        let load = Load {
            url: &url,
            connections: 100,
            seconds: options.seconds,
            cpu,
            priority: Priority::Shared,
        };
        let per_cpu = |client: Client| -> Result<f64, String> {
            let done = faultless(client.run(bench, &load, &[])?, client)?;
            Ok(done.answers / done.cpu / 1000.0)
        };
        let (mut ours, mut wrks, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..options.rounds {
            let (one, other) = (per_cpu(Client::Sluice)?, per_cpu(Client::Wrk)?);
            ours.push(one);
            wrks.push(other);
            ratios.push(one / other);
        }
        let show = |figures| spread(figures).map_or("-".to_owned(), shown);
        let reached = spread(ratios.clone()).is_some_and(|ratio| ratio.median >= PER_CPU);
        let against = format!("requests per CPU second against wrk's, {} answers", peer.name());
        let line = row(&against, "at least 1", (show(ratios), "1".to_owned()));
        rows.push(judged(line, reached));
        let absolute = format!("thousand requests per CPU second, {} answers", peer.name());
        rows.push(row(&absolute, "", (show(ours), show(wrks))));
    }
    Ok(rows)
}

fn shown(spread: Spread) -> String {
    format!("{:.2} ({:.2}-{:.2})", spread.median, spread.least, spread.most)
}

fn faultless(done: Done, client: Client) -> Result<Done, String> {
    match done.errors {
        0.0 => Ok(done),
        errors => Err(format!("{}: {errors} errors", client.name())),
    }
}

/// One open loop against a recorder: what the client reports and what the server wrote down.
fn recorded(
    bench: &Bench,
    delay: Delay,
    connections: usize,
    seconds: u64,
) -> Result<(Done, Record), String> {
    let recorder = Recorder::start(delay).map_err(|error| format!("the recorder: {error}"))?;
    let url = format!("http://127.0.0.1:{}/", recorder.port);
    let priority = Priority::first();
    priority.give(recorder.thread_id);
    let load = Load { url: &url, connections, seconds, cpu: None, priority };
    let rate = format!("{RATE}/s");
    let done = Client::Sluice.run(bench, &load, &["--rate", &rate])?;
    let done = faultless(done, Client::Sluice)?;
    let record = Record::new(recorder.record()?, RATE);
    match record.len() as f64 - done.answers {
        0.0 => Ok((done, record)),
        more => Err(format!("the server answered {more} requests more than the client counted")),
    }
}

fn schedule(bench: &Bench, options: &Options) -> Result<Vec<Row>, String> {
    let mut late: [Vec<f64>; 3] = Default::default();
    for _ in 0..options.rounds {
        let (_, record) = recorded(bench, recorder::at_once, 100, options.seconds)?;
        for (late, percentile) in late.iter_mut().zip([50.0, 99.0, 100.0]) {
            late.push(record.lateness(percentile));
        }
    }
    let mut rows = Vec::new();
    for (late, which) in late.into_iter().zip(["p50", "p99", "the latest"]) {
        let Some(late) = spread(late) else { continue };
        let what = format!("open loop at {RATE}/s: µs a request comes after its time, {which}");
        let ours = format!("{:.0} ({:.0}-{:.0})", late.median, late.least, late.most);
        rows.push(match which {
            "p99" => {
                let line = row(&what, &format!("less than {LATE_MICROS}"), (ours, none()));
                judged(line, late.median < LATE_MICROS)
            }
            _ => row(&what, "", (ours, none())),
        });
    }
    Ok(rows)
}

/// A percentile of something a record tells, in microseconds.
type Figure = fn(&Record, f64) -> f64;

fn percentiles(bench: &Bench, options: &Options) -> Result<Vec<Row>, String> {
    let kinds: [(&str, &str, Figure); 2] =
        [("due", "latency", Record::since_due), ("sent", "uncorrected", Record::since_sent)];
    let mut found: [Vec<f64>; 2] = Default::default();
    for _ in 0..options.rounds {
        let (done, record) = recorded(bench, recorder::slowly, 200, options.seconds)?;
        let json = done.json.ok_or("no figures")?;
        for ((_, field, figure), found) in kinds.into_iter().zip(&mut found) {
            let ours = client::percentiles(&json, field, &COMPARED).ok_or("no percentiles")?;
            let theirs: Vec<f64> = COMPARED.iter().map(|p| figure(&record, *p)).collect();
            found.push(furthest(&ours, &theirs) * 100.0);
        }
    }
    let mut rows = Vec::new();
    for ((since, ..), found) in kinds.into_iter().zip(found) {
        let Some(apart) = spread(found) else { continue };
        let what = format!("percentiles since {since}: furthest from the server's own, in %");
        let line = row(&what, &format!("at most {}", APART * 100.0), (shown(apart), none()));
        rows.push(judged(line, apart.median <= APART * 100.0));
    }
    Ok(rows)
}

fn connections(bench: &Bench, options: &Options) -> Result<Vec<Row>, String> {
    let peer = servers(bench).first().copied().ok_or("no server is there")?;
    let server = Server::start(bench, peer, Role::Direct, Under::Nothing)?;
    let url = server.url();
    let load = Load {
        url: &url,
        connections: MANY,
        seconds: options.seconds,
        cpu: None,
        priority: Priority::Shared,
    };
    let rate = format!("{RATE}/s");
    let mut rows = Vec::new();
    for (how, more) in [("as fast as it goes", vec![]), ("open loop", vec!["--rate", &rate])] {
        let ours = Client::Sluice.run(bench, &load, &more)?;
        let wrk = match more.is_empty() {
            true => Client::Wrk.run(bench, &load, &[])?.errors.to_string(),
            false => none(),
        };
        let figure = format!("{} of {} requests", ours.errors, ours.answers);
        let what = format!("{MANY} connections to {}, {how}: errors", peer.name());
        let line = row(&what, "none", (figure, wrk));
        rows.push(judged(line, ours.errors == 0.0 && ours.answers >= MANY as f64));
    }
    Ok(rows)
}

fn memory(bench: &Bench, options: &Options) -> Result<Vec<Row>, String> {
    let peer = servers(bench).first().copied().ok_or("no server is there")?;
    let server = Server::start(bench, peer, Role::Direct, Under::Nothing)?;
    let grown = |client: Client| -> Result<(f64, f64), String> {
        let url = server.url();
        let load = Load {
            url: &url,
            connections: 100,
            seconds: options.own as u64 + 2,
            cpu: None,
            priority: Priority::Shared,
        };
        let start = Instant::now();
        let running = Running::start(client, bench, &load, (&[], &[]))?;
        let at = |seconds| {
            std::thread::sleep(Duration::from_secs(seconds).saturating_sub(start.elapsed()));
            running.resident()
        };
        let (early, late) = (at(SETTLED)?, at(options.own as u64)?);
        faultless(running.finish()?, client)?;
        Ok((late - early, late))
    };
    let (ours, wrk) = (grown(Client::Sluice)?, grown(Client::Wrk)?);
    let show = |(growth, size): (f64, f64)| format!("{growth:.0} (to {size:.0})");
    let what = format!("KiB the resident size grows by from {SETTLED} s to {} s", options.own);
    let target = format!("less than {GROWTH}");
    Ok(vec![judged(row(&what, &target, (show(ours), show(wrk))), ours.0 < GROWTH)])
}
