//! `cargo xtask bench tls`: TLS and HTTP/2, Sluice beside nginx, HAProxy and h2o.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::generator::client::{Client, Load, Priority, Running};
use super::load::Run;
use super::measure::{Rounds, Spread};
use super::options::{Defaults, Options};
use super::peers::{Bench, Peer, Ports, Role, free_port};
use super::report::{self, Row, Section, Side};
use super::server::{Server, Under};
use super::{column, load_cpu, raise_descriptor_limit, shown};

const USAGE: &str = "\
usage: cargo xtask bench tls [OPTION ...]
  --only LIST      of full, resumed, request, large, streams, stream, proxied, memory (comma-separated)
  --rounds N       rounds of each server, in turn (7)
  --seconds N      seconds of each run (2)
  --connections N  idle connections (10000)
  --sluice FILE    the program (target/release/sluice)
  --no-write       leave bench/RESULTS.md alone
  --publish-anyway write it even if the machine was not quiet
";

/// The title of the section this writes.
const TITLE: &str = "TLS and HTTP/2";

const DEFAULTS: Defaults =
    Defaults { usage: USAGE, rounds: 7, seconds: 2, own: ("--connections", 10_000, 200) };

/// Whether more or less is better.
#[derive(Clone, Copy, Debug)]
enum Goal {
    /// So many times what another reaches, at least; each of them is worth something in this unit.
    AtLeast(f64, &'static str, f64),
    /// So many times the CPU time of another, at most.
    AtMost(f64),
}

/// One kind of load, and what is to be reached under it.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    what: &'static str,
    /// What is asked for, and over which port.
    path: &'static str,
    port: fn(Ports) -> (&'static str, u16),
    connections: usize,
    arguments: &'static [&'static str],
    goal: Goal,
    /// What is to be reached against HAProxy, too.
    haproxy: Option<f64>,
}

const TLS: fn(Ports) -> (&'static str, u16) = |ports| ("https", ports.tls);
const H2C: fn(Ports) -> (&'static str, u16) = |ports| ("http", ports.h2c);

const CASES: [Case; 8] = [
    Case {
        name: "full",
        what: "full TLS 1.3 handshakes",
        path: "/",
        port: TLS,
        connections: 20,
        arguments: &["--no-keepalive"],
        goal: Goal::AtLeast(1.5, "handshakes", 1.0),
        haproxy: None,
    },
    Case {
        name: "resumed",
        what: "resumed TLS 1.3 handshakes",
        path: "/",
        port: TLS,
        connections: 20,
        arguments: &["--no-keepalive", "--resume"],
        goal: Goal::AtLeast(1.5, "handshakes", 1.0),
        haproxy: None,
    },
    Case {
        name: "request",
        what: "kept-alive HTTPS request, 13 bytes",
        path: "/",
        port: TLS,
        connections: 100,
        arguments: &[],
        goal: Goal::AtMost(0.9),
        haproxy: None,
    },
    Case {
        name: "large",
        what: "1 MiB over TLS",
        path: "/large",
        port: TLS,
        connections: 20,
        arguments: &[],
        goal: Goal::AtLeast(1.0, "MiB", 1.0),
        haproxy: None,
    },
    Case {
        name: "large",
        what: "1 MiB over TLS from an origin",
        path: "/origin/large",
        port: TLS,
        connections: 20,
        arguments: &[],
        goal: Goal::AtLeast(1.0, "MiB", 1.0),
        haproxy: None,
    },
    Case {
        name: "streams",
        what: "HTTP/2 small answers, 100 streams",
        path: "/",
        port: H2C,
        connections: 10,
        arguments: &["--http2", "--streams", "100"],
        goal: Goal::AtMost(0.45),
        haproxy: Some(0.7),
    },
    Case {
        name: "stream",
        what: "HTTP/2 small answers, 1 stream per connection",
        path: "/",
        port: H2C,
        connections: 10,
        arguments: &["--http2", "--streams", "1"],
        goal: Goal::AtMost(0.8),
        haproxy: None,
    },
    Case {
        name: "proxied",
        what: "HTTP/2 to HTTP/1.1 proxying, 10 streams",
        path: "/origin/",
        port: H2C,
        connections: 10,
        arguments: &["--http2", "--streams", "10"],
        goal: Goal::AtMost(0.7),
        haproxy: None,
    },
];

/// What a KiB figure of an idle connection may be against nginx's.
const MEMORY: f64 = 1.0;

/// Runs the measurements, prints the table and writes its section.
pub fn run(root: &Path, sluice: PathBuf, arguments: &[String]) -> Result<(), String> {
    let options = Options::parse(&DEFAULTS, sluice, arguments)?;
    let mut bench = Bench::new(root, options.sluice.clone())?;
    if bench.version(Peer::H2o).is_some() {
        bench.peers.push(Peer::H2o);
    } else {
        bench.missing.push("h2o is not there and was left out".to_owned());
    }
    raise_descriptor_limit();
    let mut rows = Vec::new();
    for case in CASES.iter().filter(|case| options.wants(case.name)) {
        eprintln!("{} ...", case.what);
        match measure(&mut bench, case, &options) {
            Ok(measured) => rows.extend(measured),
            Err(why) => left_out(&mut bench, case.what, &why),
        }
    }
    if options.wants("memory") {
        eprintln!("memory ...");
        rows.push(memory(&mut bench, &options));
    }
    let section = Section {
        command: "tls",
        title: TITLE,
        table: report::columns(&rows, &["Sluice", "nginx", "HAProxy", "h2o"]),
        how: how(&options),
        missing: &bench.missing,
        machine: report::environment(&bench, Side::Server),
    };
    section.print();
    if options.write {
        section.write(root)?;
    }
    Ok(())
}

fn how(options: &Options) -> Vec<String> {
    let Options { rounds, seconds, own: connections, .. } = options;
    vec![
        format!("load by `sluice bench` with one thread, {rounds} rounds of {seconds} s, servers in turn; medians, spread in brackets; server on one CPU, load and origin on another"),
        "CPU time: user and system time of all threads and children of the server".to_owned(),
        "TLS 1.3, TLS_AES_128_GCM_SHA256, X25519, the same self-signed certificate (ECDSA, P-256) for all".to_owned(),
        "handshakes: each with one request of 13 bytes on its connection, 20 clients; resumed ones by the ticket of the client's connection before".to_owned(),
        "1 MiB: 20 connections; Sluice answers from memory, nginx and h2o from a cached file, HAProxy has no file".to_owned(),
        "HTTP/2 without TLS (prior knowledge), 10 connections; the origin is an nginx with kept-alive connections".to_owned(),
        "h2o answers small requests from a file of 13 bytes, the others from their configuration".to_owned(),
        format!("memory: {connections} TLS connections with two answered requests each, beyond the first 100; taken while 200 requests are due each second over all of them"),
    ]
}

fn left_out(bench: &mut Bench, what: &str, why: &str) {
    eprintln!("{what}: {why}");
    bench.missing.push(format!("{what}: {}", why.lines().next().unwrap_or_default()));
}

/// A server and its ports.
type Started = (Peer, Server, Ports);

/// All that speak TLS and HTTP/2, on the first CPU, and their origin on the second.
fn start(bench: &mut Bench) -> Result<(Server, Vec<Started>), String> {
    let pinned = |cpu: Option<usize>| cpu.map_or(Under::Nothing, Under::Cpu);
    let origin = Server::start(bench, Peer::Nginx, Role::Origin, pinned(load_cpu()))?;
    let mut started = Vec::new();
    for peer in bench.peers.clone() {
        let ports = Ports { h2c: free_port()?, tls: free_port()?, origin: origin.port };
        match Server::start(bench, peer, Role::Secure(ports), pinned(load_cpu().map(|_| 0))) {
            Ok(server) => started.push((peer, server, ports)),
            Err(why) => left_out(bench, peer.name(), &why),
        }
    }
    Ok((origin, started))
}

/// The servers under one kind of load, in turn.
fn measure(bench: &mut Bench, case: &Case, options: &Options) -> Result<Vec<Row>, String> {
    let (_origin, mut started) = start(bench)?;
    let once = |bench: &Bench, (_, server, ports): &Started, seconds| {
        let (scheme, port) = (case.port)(*ports);
        let url = format!("{scheme}://127.0.0.1:{port}{}", case.path);
        let (cpu, priority) = (load_cpu(), Priority::Shared);
        let load = Load { url: &url, connections: case.connections, seconds, cpu, priority };
        let arguments = [case.arguments, &["--insecure", "--expect-status", "200"]].concat();
        let before = server.cpu_seconds()?;
        let done = Client::Sluice.run(bench, &load, &arguments)?;
        let cpu = server.cpu_seconds()? - before;
        if done.errors > 0.0 || done.answers < 1.0 {
            return Err(format!("{} of {} answers were errors", done.errors, done.answers));
        }
        Ok(Run { answers: done.answers, cpu })
    };
    // A first run fills pools; who cannot do this at all is left out.
    let mut able = Vec::new();
    for one in started.drain(..) {
        match once(bench, &one, 1) {
            Ok(_) => able.push(one),
            Err(why) => left_out(bench, &format!("{}, {}", one.0.name(), case.what), &why),
        }
    }
    let mut rows = Vec::new();
    for _ in 0..options.rounds {
        let row: Result<Vec<Run>, String> =
            able.iter().map(|one| once(bench, one, options.seconds)).collect();
        rows.push(row?);
    }
    Ok(lines(case, &Rounds { peers: able.iter().map(|one| one.0).collect(), rows }))
}

fn lines(case: &Case, rounds: &Rounds) -> Vec<Row> {
    let text = |spread: Option<Spread>| spread.map_or("-".to_owned(), shown);
    let against = |peer, base| match case.goal {
        Goal::AtLeast(..) => rounds.ratio(peer, base, |run| run.answers / run.cpu),
        Goal::AtMost(_) => rounds.ratio(peer, base, Run::micros),
    };
    let (target, limit, unit) = match case.goal {
        Goal::AtLeast(limit, unit, _) => {
            (format!("at least {limit}"), limit, format!("{unit} per CPU second"))
        }
        Goal::AtMost(limit) => {
            (format!("at most {limit}"), limit, "CPU time per request in µs".to_owned())
        }
    };
    let reached = |ratio: Option<Spread>, limit: f64| {
        ratio.map(|it| match case.goal {
            Goal::AtLeast(..) => it.median >= limit,
            Goal::AtMost(_) => it.median <= limit,
        })
    };
    let row = |base: Peer, target: &str, limit: Option<f64>| {
        let mut row = Row::new(&format!("{}, against {}", case.what, base.name()), target);
        for peer in &rounds.peers {
            row.figures[column(*peer)] = text(against(*peer, base));
        }
        row.reached = limit.and_then(|limit| reached(against(Peer::Sluice, base), limit));
        row
    };
    let mut list = vec![row(Peer::Nginx, &target, Some(limit))];
    if let Some(limit) = case.haproxy {
        list.push(row(Peer::Haproxy, &format!("at most {limit}"), Some(limit)));
        list.push(row(Peer::H2o, "", None));
    }
    let mut absolute = Row::new(&format!("{}, {unit}", case.what), "");
    for peer in &rounds.peers {
        let figure = match case.goal {
            Goal::AtLeast(_, _, each) => rounds.of(*peer, |run| run.answers / run.cpu * each),
            Goal::AtMost(_) => rounds.of(*peer, Run::micros),
        };
        absolute.figures[column(*peer)] = text(figure);
    }
    list.push(absolute);
    list
}

/// Growth of the resident size per idle TLS connection, in KiB.
fn memory(bench: &mut Bench, options: &Options) -> Row {
    let what = format!("KiB per idle TLS connection ({})", options.own);
    let mut row = Row::new(&what, "not above nginx");
    let mut figures = [None; 4];
    for peer in bench.peers.clone() {
        match idle(bench, peer, options.own) {
            Ok(figure) => {
                figures[column(peer)] = Some(figure);
                row.figures[column(peer)] = format!("{figure:.2}");
            }
            Err(why) => left_out(bench, &format!("{}, memory", peer.name()), &why),
        }
    }
    if let [Some(ours), Some(nginx), ..] = figures {
        row.reached = Some(ours <= nginx * MEMORY);
    }
    row
}

/// The first connections bring code and pools into memory once.
const FIRST: usize = 100;

fn idle(bench: &Bench, peer: Peer, connections: usize) -> Result<f64, String> {
    let ports = Ports { h2c: free_port()?, tls: free_port()?, origin: 1 };
    let pinned = load_cpu().map_or(Under::Nothing, |_| Under::Cpu(0));
    let server = Server::start(bench, peer, Role::Secure(ports), pinned)?;
    let url = format!("https://127.0.0.1:{}/", ports.tls);
    let with = |connections: usize| -> Result<f64, String> {
        // All are opened before the first request is due; then each has its turn.
        let seconds = (connections * 2).div_ceil(RATE) as u64 + 2;
        let (cpu, priority) = (load_cpu(), Priority::Shared);
        let load = Load { url: &url, connections, seconds, cpu, priority };
        let rate = format!("{RATE}/s");
        let more = ["--insecure", "--rate", &rate];
        let running = Running::start(Client::Sluice, bench, &load, (&[], &more))?;
        let taken = settled(&server, &running, connections)?;
        let done = running.finish()?;
        if done.errors > 0.0 {
            return Err(format!("{} requests failed", done.errors));
        }
        Ok(taken)
    };
    let few = with(FIRST)?;
    let many = with(connections)?;
    Ok((many - few) / (connections - FIRST) as f64)
}

/// Requests that are due each second while connections are idle, over all of them.
const RATE: usize = 2_000;

/// The resident size once so many connections are open and all have been asked something.
fn settled(server: &Server, running: &Running, connections: usize) -> Result<f64, String> {
    let end = std::time::Instant::now() + Duration::from_secs(120);
    let mut open_since = None;
    while std::time::Instant::now() < end {
        if server.descriptors() >= connections {
            let since = *open_since.get_or_insert_with(std::time::Instant::now);
            let needed = Duration::from_secs((connections * 2).div_ceil(RATE) as u64);
            if since.elapsed() >= needed {
                return server.resident();
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = running;
    Err(format!("only {} connections were opened", server.descriptors()))
}
