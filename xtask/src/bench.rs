//! `cargo xtask bench` and `cargo xtask gate`: Sluice beside nginx and HAProxy.

mod couples;
mod distinct;
mod filters;
mod generator;
mod lines;
mod load;
mod measure;
mod options;
mod overload;
mod pages;
mod peers;
mod quiet;
mod report;
mod secure;
mod server;
mod upstreams;

use std::path::Path;

use load::{Run, Shape};
use measure::Spread;
use options::{Defaults, Options};
use peers::{Bench, Filters, Kinds, Peer, Role};
use report::Row;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::{Server, Under};

const DIRECT: f64 = 2_800.0;
const PROXIED: f64 = 7_500.0;
const IDLE_FILTERS: f64 = 400.0;
const KNOWN_TOKEN: f64 = 1_500.0;
/// What one costs now, its chain included, beyond a direct answer; the decision alone is within the 300 that are wanted.
const RATE_LIMIT: f64 = 580.0;
/// What a script costs that reads one header and sets another, beyond a direct answer.
const LUA_FILTER: f64 = 1_200.0;
/// Wanted of a script that answers: a thousand beyond 1.3 times what answers by itself.
const LUA_ANSWER: f64 = 1.3 * DIRECT + 1_000.0;
/// A line that a script reads, and its answer.
const LUA_LINE: f64 = 1_500.0;
/// What is kept costs little more than what is configured.
const KEPT: f64 = 1.25 * DIRECT;
const ROUTES: f64 = 1.05;
const CPU_DIRECT: f64 = 0.96;
const CPU_PROXIED: f64 = 0.90;
const PIPELINED: f64 = 5.0;
const MEMORY: f64 = 1.5;
/// What the gate lets pass beyond a target: compilers and allocators differ by so much, code should not.
const MARGIN: f64 = 1.02;
/// What a count of system calls may be above its target: connections that are opened and closed.
const CALLS_MARGIN: f64 = 0.05;

const USAGE: &str = "\
usage: cargo xtask bench [OPTION ...]      the servers
       cargo xtask bench load [OPTION ...]  the load generator (--help names its options)
       cargo xtask bench tls [OPTION ...]   the servers, over TLS and HTTP/2 (the same)
       cargo xtask bench filters [OPTION ...]  what filters cost (the same)
       cargo xtask bench pages [OPTION ...] files, compression and caches (the same)
       cargo xtask bench overload [OPTION ...]  three times what can be served (the same)
  --only LIST      of instructions, routes, cpu, pipelined, memory, calls, upstreams, slow (comma-separated)
  --rounds N       rounds of wrk (5)
  --seconds N      seconds of each run of wrk (3)
  --connections N  idle connections (8000)
  --sluice FILE    the program (target/release/sluice)
  --no-write       leave bench/RESULTS.md alone
  --publish-anyway write it even if the machine was not quiet
";

const DEFAULTS: Defaults =
    Defaults { usage: USAGE, rounds: 5, seconds: 3, own: ("--connections", 8_000, 1) };

type Part = fn(&Bench, &Options) -> Result<Vec<Row>, String>;

/// Runs the measurements, prints the table and writes the page.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let sluice = options::sluice(root);
    match arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        Some(("load", rest)) => return generator::run(root, sluice, rest),
        Some(("pages", rest)) => return pages::run(root, sluice, rest),
        Some(("overload", rest)) => return overload::run(root, sluice, rest),
        Some(("tls", rest)) => return secure::run(root, sluice, rest),
        Some(("filters", rest)) => return filters::run(root, sluice, rest),
        _ => {}
    }
    let options = Options::parse(&DEFAULTS, sluice, arguments)?;
    let mut bench = Bench::new(root, options.sluice.clone())?;
    raise_descriptor_limit();
    let mut rows = Vec::new();
    let parts: [(&str, Part); 8] = [
        ("instructions", instructions),
        ("cpu", cpu),
        ("routes", routes),
        ("pipelined", pipelined),
        ("memory", memory),
        ("calls", calls),
        ("upstreams", upstreams::cpu),
        ("slow", upstreams::slow),
    ];
    for (name, part) in parts.into_iter().filter(|(name, _)| options.wants(name)) {
        eprintln!("{name} ...");
        match part(&bench, &options) {
            Ok(measured) => rows.extend(measured),
            Err(why) => {
                eprintln!("{name}: {why}");
                bench.missing.push(format!("{name}: {}", why.lines().next().unwrap_or_default()));
            }
        }
    }
    print!("{}", report::table(&rows));
    for line in &bench.missing {
        println!("left out: {line}");
    }
    if options.write {
        report::write_page(root, &report::page(&bench, &rows, &how(&options)))?;
    }
    Ok(())
}

fn how(options: &Options) -> Vec<String> {
    let Options { rounds, seconds, own: connections, .. } = options;
    vec![
        "every server with one worker, access log off, kept-alive connections on both sides; Sluice with metrics on"
            .to_owned(),
        format!("wrk: {rounds} rounds of {seconds} s, 100 connections, servers in turn; medians, spread in brackets"),
        "callgrind and strace: 20 000 requests over 50 connections, after a warm-up".to_owned(),
        format!("memory: {connections} connections with one answered request each"),
    ]
}

/// The gate of the tests: instruction counts alone, since they are the same on a busy machine.
pub fn gate(root: &Path, arguments: &[String]) -> Result<(), String> {
    let options = Options::parse(&DEFAULTS, options::sluice(root), arguments)?;
    let mut bench = Bench::new(root, options.sluice)?;
    if !bench.peers.contains(&Peer::Sluice) {
        return Err(format!("{} is not there", bench.sluice.display()));
    }
    bench.peers = vec![Peer::Sluice];
    let origin = Server::start(&bench, Peer::Nginx, Role::Origin, Under::Nothing)?;
    let direct = measure::instructions(&bench, Peer::Sluice, Role::Direct)?;
    let proxied = measure::instructions(&bench, Peer::Sluice, Role::Proxied(origin.port))?;
    let RouteCost { one_kind, all_kinds, .. } = route_cost(&bench)?;
    let behind = |filters| -> Result<f64, String> {
        Ok(measure::instructions(&bench, Peer::Sluice, Role::Filtered(filters))? - direct)
    };
    let (idle, jwt) = (behind(Filters::Idle)?, behind(Filters::Jwt)?);
    let rate_limit = behind(Filters::RateLimit)?;
    let lua_filter = behind(Filters::Lua)?;
    let lua_answer = direct + behind(Filters::LuaAnswer)?;
    let clients = lines::Clients::default();
    let ping = |server: &Server, count| clients.ping(server, count);
    let line = measure::instructions_by(&bench, (Peer::Sluice, Role::Lines), ping)?;
    let kept = |page| measure::instructions(&bench, Peer::Sluice, Role::Kept(origin.port, page));
    let (kept_tiny, kept_small) = (kept("/kept/tiny.txt")?, kept("/kept/small.txt")?);
    let mut missed = Vec::new();
    let mut figures = vec![
        ("user instructions per direct answer", direct, DIRECT),
        ("user instructions per proxied request", proxied, PROXIED),
        ("user instructions for ten idle filters", idle, IDLE_FILTERS),
        ("user instructions for a token seen before", jwt, KNOWN_TOKEN),
        ("user instructions for a rate limit", rate_limit, RATE_LIMIT),
        ("user instructions for a script that reads a header and sets one", lua_filter, LUA_FILTER),
        ("user instructions per answer of a script", lua_answer, LUA_ANSWER),
        ("user instructions per line of a service in Lua", line, LUA_LINE),
        ("user instructions per hit in a cache, 13 bytes", kept_tiny, KEPT),
        ("user instructions per hit in a cache, 4 KiB", kept_small, KEPT),
        ("instructions with 10 000 routes against 1", one_kind, ROUTES),
        ("instructions with 10 000 routes of all kinds against 10", all_kinds, ROUTES),
    ];
    figures.extend(generator::gate(&bench)?);
    for (what, figure, limit) in figures {
        let allowed = limit * MARGIN;
        println!("{what}: {figure:.2}, target {limit}, gate at {allowed:.2}");
        if figure > allowed {
            missed.push(what);
        }
    }
    if missed.is_empty() { Ok(()) } else { Err(format!("over the limit: {}", missed.join(", "))) }
}

/// Servers need a descriptor for each idle connection, and so does the client.
fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

fn origin(bench: &Bench, under: Under<'_>) -> Result<Server, String> {
    if !bench.peers.contains(&Peer::Nginx) {
        return Err("the origin is an nginx, which is not there".to_owned());
    }
    Server::start(bench, Peer::Nginx, Role::Origin, under)
}

/// The CPUs for server and load; `None` when there is only one.
fn load_cpu() -> Option<usize> {
    std::thread::available_parallelism().ok().filter(|count| count.get() > 1).map(|_| 1)
}

fn column(peer: Peer) -> usize {
    Peer::SECURE.iter().position(|known| *known == peer).unwrap_or_default()
}

fn instructions(bench: &Bench, _: &Options) -> Result<Vec<Row>, String> {
    let origin = origin(bench, Under::Nothing)?;
    let mut rows = Vec::new();
    for (what, role, limit) in [
        ("user instructions per request, direct answer", Role::Direct, DIRECT),
        ("user instructions per request, proxied", Role::Proxied(origin.port), PROXIED),
    ] {
        let mut row = Row::new(what, &format!("at most {limit}"));
        for peer in &bench.peers {
            let figure = measure::instructions(bench, *peer, role)?;
            row.figures[column(*peer)] = format!("{figure:.0}");
            if *peer == Peer::Sluice {
                row.reached = Some(figure <= limit);
            }
        }
        rows.push(row);
    }
    Ok(rows)
}

/// What the number of routes costs, and what their kinds cost.
struct RouteCost {
    /// 10 000 routes against 1, exact paths alone.
    one_kind: f64,
    /// 10 000 routes against 10, of all kinds: the number alone differs.
    all_kinds: f64,
    /// 10 000 routes of all kinds against a single exact one: number and kinds differ.
    mixed: f64,
}

fn route_cost(bench: &Bench) -> Result<RouteCost, String> {
    let with =
        |count, kinds| measure::instructions(bench, Peer::Sluice, Role::Routes(count, kinds));
    let (single, few) = (with(1, Kinds::One)?, with(10, Kinds::All)?);
    let (many, many_mixed) = (with(10_000, Kinds::One)?, with(10_000, Kinds::All)?);
    Ok(RouteCost {
        one_kind: many / single,
        all_kinds: many_mixed / few,
        mixed: many_mixed / single,
    })
}

fn routes(bench: &Bench, _: &Options) -> Result<Vec<Row>, String> {
    let limit = format!("at most {ROUTES}");
    let mut rows = vec![
        Row::new("direct answer with 10 000 routes, against 1 route (instructions)", &limit),
        Row::new("the same with routes of all kinds, against 10 of all kinds", &limit),
        Row::new("10 000 routes of all kinds, against a single exact one", ""),
    ];
    if bench.peers.contains(&Peer::Sluice) {
        let RouteCost { one_kind, all_kinds, mixed } = route_cost(bench)?;
        for (row, ratio) in rows.iter_mut().zip([one_kind, all_kinds, mixed]) {
            row.figures[0] = format!("{ratio:.3}");
            row.reached = (!row.target.is_empty()).then_some(ratio <= ROUTES);
        }
    }
    Ok(rows)
}

fn shown(spread: Spread) -> String {
    format!("{:.2} ({:.2}-{:.2})", spread.median, spread.least, spread.most)
}

fn cpu(bench: &Bench, options: &Options) -> Result<Vec<Row>, String> {
    let cpu = load_cpu();
    let origin = origin(bench, cpu.map_or(Under::Nothing, Under::Cpu))?;
    let shape = Shape { seconds: options.seconds, cpu, script: None };
    let mut rows = Vec::new();
    for (name, role, limit) in
        [("direct", Role::Direct, CPU_DIRECT), ("proxied", Role::Proxied(origin.port), CPU_PROXIED)]
    {
        let rounds = measure::rounds(bench, role, options.rounds, shape)?;
        let mut ratio = Row::new(
            &format!("CPU time per request against nginx, {name}"),
            &format!("at most {limit:.2}"),
        );
        let mut micros = Row::new(&format!("CPU time per request in µs, {name}"), "");
        for peer in &bench.peers {
            let against = rounds.ratio(*peer, Peer::Nginx, Run::micros);
            ratio.figures[column(*peer)] = against.map_or("-".to_owned(), shown);
            let absolute = rounds.of(*peer, Run::micros);
            micros.figures[column(*peer)] = absolute.map_or("-".to_owned(), shown);
            if *peer == Peer::Sluice {
                ratio.reached = against.map(|against| against.median <= limit);
            }
        }
        rows.extend([ratio, micros]);
    }
    Ok(rows)
}

fn pipelined(bench: &Bench, options: &Options) -> Result<Vec<Row>, String> {
    let script = bench.root.join("bench/pipeline.lua");
    let shape = Shape { seconds: options.seconds, cpu: load_cpu(), script: Some(&script) };
    let rounds = measure::rounds(bench, Role::Direct, options.rounds, shape)?;
    let per_cpu_second = |run: &Run| run.answers / run.cpu;
    let mut row = Row::new(
        "16 requests pipelined, requests per CPU second against nginx",
        &format!("at least {PIPELINED}"),
    );
    for peer in &bench.peers {
        let against = rounds.ratio(*peer, Peer::Nginx, per_cpu_second);
        row.figures[column(*peer)] = against.map_or("-".to_owned(), shown);
        if *peer == Peer::Sluice {
            row.reached = against.map(|against| against.median >= PIPELINED);
        }
    }
    Ok(vec![row])
}

fn memory(bench: &Bench, options: &Options) -> Result<Vec<Row>, String> {
    let what = format!("KiB per idle kept-alive connection ({})", options.own);
    let mut row = Row::new(&what, &format!("at most {MEMORY}"));
    for peer in &bench.peers {
        let figure = measure::memory(bench, *peer, options.own)?;
        row.figures[column(*peer)] = format!("{figure:.2}");
        if *peer == Peer::Sluice {
            row.reached = Some(figure <= MEMORY);
        }
    }
    Ok(vec![row])
}

fn calls(bench: &Bench, _: &Options) -> Result<Vec<Row>, String> {
    let origin = origin(bench, Under::Nothing)?;
    let mut rows = Vec::new();
    for (name, role, limit) in
        [("direct", Role::Direct, 2.0), ("proxied", Role::Proxied(origin.port), 4.0)]
    {
        let mut row = Row::new(
            &format!("system calls per request, {name} (and waiting for events)"),
            &limit.to_string(),
        );
        for peer in &bench.peers {
            let calls = measure::calls(bench, *peer, role)?;
            row.figures[column(*peer)] = format!("{:.2} (+ {:.2})", calls.work, calls.waiting);
            if *peer == Peer::Sluice {
                row.reached = Some(calls.work <= limit + CALLS_MARGIN);
            }
        }
        rows.push(row);
    }
    Ok(rows)
}
