//! `cargo xtask bench pages`: files, compression and caches, Sluice beside nginx and Varnish.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::couples::{self, Couples};
use super::distinct;
use super::load::{Run, Shape};
use super::measure::{self, Paired, Spread, turns};
use super::options::{Defaults, Options};
use super::peers::{Bench, HUGE, Page, Peer, Role};
use super::report::{self, Row, Section, Side};
use super::server::{Server, Under};
use super::{load_cpu, origin, raise_descriptor_limit, shown};

const USAGE: &str = "\
usage: cargo xtask bench pages [OPTION ...]
  --only LIST      of hits, packed, distinct, file, large, workers (comma-separated)
  --rounds N       rounds of each server, in turn (7)
  --seconds N      seconds of each run of wrk (2)
  --passes N       times that the file of a GiB is sent in each round (2)
  --sluice FILE    the program (target/release/sluice)
  --no-write       leave bench/RESULTS.md alone
  --publish-anyway write it even if the machine was not quiet
";

/// The title of the section this writes.
const TITLE: &str = "Files, compression and caches";

const DEFAULTS: Defaults =
    Defaults { usage: USAGE, rounds: 7, seconds: 2, own: ("--passes", 2, 1) };

/// Requests per CPU second of a compressed hit against a plain one, at least.
const PACKED: f64 = 0.9;
/// The same against compressing each time, at least.
const ANEW: f64 = 10.0;
/// CPU time of a file against nginx, at most.
const FILE: f64 = 0.95;
/// Rounds of the file of a GiB for each of the others: over loopback one transfer may take twice as long as the next, and
/// a median of a few says little.
const LARGE_ROUNDS: usize = 8;
/// The same of those that share all CPUs with their load.
const WORKER_ROUNDS: usize = 3;
/// How far the CPU time of two workers may be from that of one.
const WORKERS: f64 = 1.05;
/// Requests per second of two workers against one, at least.
const TWICE: f64 = 1.9;
/// MiB that a server may grow by while it sends a GiB.
const FLAT: f64 = 8.0;

const GZIP: &str = "accept-encoding: gzip";
const CODINGS: [(&str, &str); 3] =
    [("gzip", GZIP), ("br", "accept-encoding: br"), ("zstd", "accept-encoding: zstd")];

type Part = fn(&Bench, &Options) -> Result<Vec<Row>, String>;

/// Runs the measurements, prints the table and writes its section.
pub fn run(root: &Path, sluice: PathBuf, arguments: &[String]) -> Result<(), String> {
    let options = Options::parse(&DEFAULTS, sluice, arguments)?;
    let mut bench = Bench::new(root, options.sluice.clone())?;
    bench.peers = Peer::PAGES.into_iter().filter(|it| bench.version(*it).is_some()).collect();
    bench.missing = Peer::PAGES
        .iter()
        .filter(|peer| !bench.peers.contains(peer))
        .map(|peer| format!("{} is not there and was left out", peer.name()))
        .collect();
    raise_descriptor_limit();
    let mut rows = Vec::new();
    let parts: [(&str, Part); 6] = [
        ("hits", hits),
        ("packed", packed),
        ("distinct", distinct::measure),
        ("file", file),
        ("large", large),
        ("workers", workers),
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
    let section = Section {
        command: "pages",
        title: TITLE,
        table: report::columns(&rows, &["Sluice", "nginx", "Varnish"]),
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
    let Options { rounds, seconds, own: passes, .. } = options;
    vec![
        format!("wrk: {rounds} rounds of {seconds} s, 100 connections, servers in turn; ratios of the same round, medians, spread in brackets; server on one CPU, load and origin on another"),
        "every server with one worker (Varnish has threads), access log off, kept-alive connections; Sluice with metrics on".to_owned(),
        "nginx: proxy_cache with open_file_cache and sendfile; Varnish: malloc storage, which keeps what it has compressed with gzip".to_owned(),
        "answers differ in their heads: Sluice says Age and Cache-Status, Varnish Age, Via and X-Varnish, nginx neither".to_owned(),
        "24 KB page: list.json of the suite pingap; Sluice keeps what compress (level 9) makes of it; nginx keeps it and compresses each answer (gzip, level 9), or serves the file that gzip -9 made of it before (gzip_static)".to_owned(),
        "page that differs each time: the origin puts a fresh number of 32 digits into the same page, so that nothing can be reused; both proxy it and compress each response, with the default levels of Sluice".to_owned(),
        format!("a GiB: {} rounds, curl on another CPU, {passes} times in each round, all of it in the page cache before; growth of the peak resident size from before the first to after the last", rounds * LARGE_ROUNDS),
        format!("two workers against one: {} rounds; each worker has a client with 50 connections that lie with this worker alone, an origin and a CPU; one worker is measured as half of two servers with one worker each, busy on both CPUs at once; both take turns of a tenth of a second", rounds * WORKER_ROUNDS),
    ]
}

pub(super) fn page(origin: &Server, path: &'static str, header: Option<&'static str>) -> Role {
    Role::Page(Page { origin: origin.port, other: origin.port, path, header, workers: 1 })
}

pub(super) fn place(peer: Peer) -> usize {
    Peer::PAGES.iter().position(|known| *known == peer).unwrap_or_default()
}

pub(super) fn put(row: &mut Row, peer: Peer, figure: Option<Spread>) {
    row.figures[place(peer)] = figure.map_or("-".to_owned(), shown);
}

pub(super) fn start_origin(bench: &Bench) -> Result<Server, String> {
    origin(bench, load_cpu().map_or(Under::Nothing, Under::Cpu))
}

pub(super) fn shape(options: &Options) -> Shape<'static> {
    Shape { seconds: options.seconds, cpu: load_cpu(), script: None }
}

/// CPU time of hits beside nginx and Varnish.
fn hits(bench: &Bench, options: &Options) -> Result<Vec<Row>, String> {
    let origin = start_origin(bench)?;
    let mut rows = Vec::new();
    for (what, path) in
        [("13 bytes", "/kept/tiny.txt"), ("4 KiB", "/kept/small.txt"), ("24 KB", "/kept/list.json")]
    {
        rows.extend(beside(bench, options, (&format!("hit, {what}"), page(&origin, path, None)))?);
    }
    Ok(rows)
}

/// CPU time of one kind of request, of all servers; ours is to be ahead of each.
fn beside(
    bench: &Bench,
    options: &Options,
    (what, role): (&str, Role),
) -> Result<Vec<Row>, String> {
    let entrants: Vec<_> = bench.peers.iter().map(|peer| (*peer, role)).collect();
    let runs = turns(bench, &entrants, options.rounds, shape(options))?;
    let mut ratio =
        Row::new(&format!("CPU time per request against nginx, {what}"), "ahead of all");
    let mut micros = Row::new(&format!("CPU time per request in µs, {what}"), "");
    let nginx = bench.peers.iter().position(|peer| *peer == Peer::Nginx);
    for (at, peer) in bench.peers.iter().enumerate() {
        let against = nginx.and_then(|nginx| runs.ratio(at, nginx, Run::micros));
        put(&mut ratio, *peer, against);
        put(&mut micros, *peer, runs.of(at, Run::micros));
    }
    // Ours is the first.
    let mut others = 1..bench.peers.len();
    let ahead = |at| runs.ratio(0, at, Run::micros).is_some_and(|it| it.median < 1.0);
    ratio.reached = Some(others.all(ahead));
    Ok(vec![ratio, micros])
}

fn per_cpu_second(run: &Run) -> f64 {
    run.answers / run.cpu
}

/// Hits of compressed answers against plain ones, against compressing each time, and against a file that was compressed
/// before.
fn packed(bench: &Bench, options: &Options) -> Result<Vec<Row>, String> {
    let origin = start_origin(bench)?;
    let mut entrants = vec![(Peer::Sluice, page(&origin, "/kept/list.json", None))];
    let packed = |header| page(&origin, "/packed/list.json", Some(header));
    entrants.extend(CODINGS.iter().map(|(_, header)| (Peer::Sluice, packed(header))));
    let mut others = Vec::new();
    for (peer, role) in [
        (Peer::Nginx, packed(GZIP)),
        (Peer::Nginx, page(&origin, "/prepared/list.json", Some(GZIP))),
        (Peer::Varnish, packed(GZIP)),
    ] {
        others.push(bench.peers.contains(&peer).then_some(entrants.len()));
        entrants.extend(bench.peers.contains(&peer).then_some((peer, role)));
    }
    let [anew, prepared, varnish] = others[..] else { return Ok(Vec::new()) };
    let runs = turns(bench, &entrants, options.rounds, shape(options))?;
    let against = |at, base: Option<usize>| runs.ratio(at, base?, per_cpu_second);
    let mut rows = Vec::new();
    for (at, (coding, _)) in (1..).zip(CODINGS) {
        let what = format!("24 KB page kept with {coding} 9: requests per CPU second");
        for (other, base, least) in [
            ("the plain hit", Some(0), Some(PACKED)),
            ("nginx with gzip 9 each time", anew, Some(ANEW)),
            ("nginx with gzip_static", prepared, None),
        ] {
            let limit = least.map_or(String::new(), |least| format!("at least {least}"));
            let mut row = Row::new(&format!("{what} against {other}"), &limit);
            let ours = against(at, base);
            row.reached = ours.zip(least).map(|(it, least)| it.median >= least);
            put(&mut row, Peer::Sluice, ours);
            if base != Some(0) {
                put(&mut row, Peer::Nginx, base.and_then(|at| against(at, base)));
                let varnish = varnish.filter(|_| coding == "gzip");
                put(&mut row, Peer::Varnish, varnish.and_then(|at| against(at, base)));
            }
            rows.push(row);
        }
    }
    Ok(rows)
}

/// A small file beside nginx.
fn file(bench: &Bench, options: &Options) -> Result<Vec<Row>, String> {
    let origin = start_origin(bench)?;
    let role = page(&origin, "/files/page.html", None);
    let runs =
        turns(bench, &[(Peer::Sluice, role), (Peer::Nginx, role)], options.rounds, shape(options))?;
    let what = "file of 8 KiB";
    let mut ratio = Row::new(
        &format!("CPU time per request against nginx, {what}"),
        &format!("at most {FILE}"),
    );
    let mut micros = Row::new(&format!("CPU time per request in µs, {what}"), "");
    for (at, peer) in [Peer::Sluice, Peer::Nginx].into_iter().enumerate() {
        put(&mut ratio, peer, runs.ratio(at, 1, Run::micros));
        put(&mut micros, peer, runs.of(at, Run::micros));
    }
    ratio.reached = runs.ratio(0, 1, Run::micros).map(|it| it.median <= FILE);
    Ok(vec![ratio, micros])
}

/// What sending a GiB came to.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// GiB per second by the clock.
    rate: f64,
    /// CPU seconds of the server for each.
    cpu: f64,
}

/// A file that no memory of a server holds, beside nginx.
fn large(bench: &Bench, options: &Options) -> Result<Vec<Row>, String> {
    let origin = start_origin(bench)?;
    let role = page(&origin, "/files/huge.bin", None);
    let peers = [Peer::Sluice, Peer::Nginx];
    let mut servers = Vec::new();
    for peer in peers {
        let under = load_cpu().map_or(Under::Nothing, |_| Under::Cpu(0));
        servers.push(Server::start(bench, peer, role, under)?);
    }
    let mut before = Vec::new();
    for server in &servers {
        before.push(server.peak()?);
        // All of it is in the page cache from now on.
        send(server, 1)?;
    }
    let mut rows = Vec::new();
    for round in 0..options.rounds * LARGE_ROUNDS {
        // Who is first is not always the same.
        let mut sent = [None; 2];
        for turn in 0..2 {
            let at = (round + turn) % 2;
            sent[at] = Some(send(&servers[at], options.own)?);
        }
        rows.push(sent.into_iter().flatten().collect());
    }
    let runs = Paired(rows);
    let mut rate = Row::new("file of 1 GiB: GiB per second against nginx", "at least 1");
    let mut absolute = Row::new("file of 1 GiB: GiB per second", "");
    let mut cpu = Row::new("file of 1 GiB: CPU seconds against nginx", "");
    let limit = format!("at most {FLAT}");
    let mut memory = Row::new("file of 1 GiB: growth of the server in MiB", &limit);
    for (at, peer) in peers.into_iter().enumerate() {
        put(&mut rate, peer, runs.ratio(at, 1, |sent| sent.rate));
        put(&mut absolute, peer, runs.of(at, |sent| sent.rate));
        put(&mut cpu, peer, runs.ratio(at, 1, |sent| sent.cpu));
        let growth = ((servers[at].peak()? - before[at]) / 1024.0).max(0.0);
        memory.figures[place(peer)] = format!("{growth:.1}");
        if peer == Peer::Sluice {
            memory.reached = Some(growth <= FLAT);
        }
    }
    rate.reached = runs.ratio(0, 1, |sent| sent.rate).map(|it| it.median >= 1.0);
    Ok(vec![rate, absolute, cpu, memory])
}

/// Has the large file sent so many times.
fn send(server: &Server, passes: usize) -> Result<Sent, String> {
    let mut words: Vec<String> = Vec::new();
    if let Some(cpu) = load_cpu() {
        words.extend(["taskset".into(), "-c".into(), cpu.to_string()]);
    }
    let line = "%{size_download} %{time_total}\n";
    words.extend(["curl", "-sS", "--fail", "-w", line].map(String::from));
    for _ in 0..passes {
        words.extend([server.url(), "-o".to_owned(), "/dev/null".to_owned()]);
    }
    let before = server.cpu_seconds()?;
    let output = Command::new(&words[0])
        .args(&words[1..])
        .output()
        .map_err(|e| format!("{}: {e}", words.join(" ")))?;
    let cpu = server.cpu_seconds()? - before;
    let text = String::from_utf8_lossy(&output.stdout);
    let seconds = whole_transfers(&text, passes)
        .ok_or_else(|| format!("{text}{}", String::from_utf8_lossy(&output.stderr)))?;
    Ok(Sent { rate: passes as f64 / seconds, cpu: cpu / passes as f64 })
}

/// The seconds of so many transfers; `None` unless all of them were whole.
fn whole_transfers(text: &str, passes: usize) -> Option<f64> {
    let mut seconds = Vec::new();
    for line in text.lines() {
        let (size, time) = line.split_once(' ')?;
        if size.parse() != Ok(HUGE) {
            return None;
        }
        seconds.push(time.parse::<f64>().ok()?);
    }
    (seconds.len() == passes).then(|| seconds.iter().sum())
}

/// Two workers against one.
fn workers(bench: &Bench, options: &Options) -> Result<Vec<Row>, String> {
    let second = load_cpu().ok_or("there is one CPU only")?;
    let (origin, other) = (origin(bench, Under::Cpu(0))?, origin(bench, Under::Cpu(second))?);
    let mut rows = Vec::new();
    for (what, path, header) in [
        ("direct answer", "/ping", None),
        ("proxied", "/passed/tiny.txt", None),
        ("file of 8 KiB", "/files/page.html", None),
        ("hit, 24 KB", "/kept/list.json", None),
        ("hit, gzip", "/packed/list.json", Some(CODINGS[0].1)),
        ("hit, br", "/packed/list.json", Some(CODINGS[1].1)),
        ("hit, zstd", "/packed/list.json", Some(CODINGS[2].1)),
    ] {
        let page = |workers| Page { origin: origin.port, other: other.port, path, header, workers };
        let runs = couples(bench, options, &page)?;
        let cpu = runs.ratio(0, 1, Run::micros);
        let rate = runs.ratio(0, 1, |run| run.answers);
        let what = format!("two workers against one, {what}");
        let reached = |cpu: Spread, rate: Spread| rate.median >= TWICE || cpu.median <= WORKERS;
        let reached = cpu.zip(rate).map(|(cpu, rate)| reached(cpu, rate));
        for (figure, limit, spread) in [
            ("requests per second", format!("at least {TWICE}, or the next row"), rate),
            ("CPU time per request", format!("at most {WORKERS}, or the row before"), cpu),
        ] {
            let mut row = Row::new(&format!("{what}: {figure}"), &limit);
            put(&mut row, Peer::Sluice, spread);
            row.reached = reached;
            rows.push(row);
        }
        let role = |workers| Role::Page(page(workers));
        rows.push(work_of_two(bench, &what, role)?);
    }
    Ok(rows)
}

/// One server with two workers and two with one, in turn; the answers of the two are halved.
fn couples(
    bench: &Bench,
    options: &Options,
    page: &dyn Fn(usize) -> Page,
) -> Result<Paired<Run>, String> {
    let two = vec![Couples::start(bench, page(2), 0)?];
    let one = vec![Couples::start(bench, page(1), 0)?, Couples::start(bench, page(1), 1)?];
    let mut sides = [two, one];
    let mut rows = Vec::new();
    for _ in 0..options.rounds * WORKER_ROUNDS {
        let [two, Run { answers, cpu }] = couples::take_turns(&mut sides, options.seconds)?;
        rows.push(vec![two, Run { answers: answers / 2.0, cpu: cpu / 2.0 }]);
    }
    Ok(Paired(rows))
}

/// What two workers do themselves for a request against what one does: the part of the CPU time that is not the kernel's,
/// and the same on a busy machine.
fn work_of_two(bench: &Bench, what: &str, role: impl Fn(usize) -> Role) -> Result<Row, String> {
    let count = |workers| measure::instructions(bench, Peer::Sluice, role(workers));
    let ratio = count(2)? / count(1)?;
    let limit = format!("at most {WORKERS}");
    let mut row = Row::new(&format!("{what}: user instructions per request"), &limit);
    row.figures[place(Peer::Sluice)] = format!("{ratio:.3}");
    row.reached = Some(ratio <= WORKERS);
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::{HUGE, whole_transfers};

    #[test]
    fn half_a_file_is_no_measurement() {
        let line = format!("{HUGE} 0.5\n");
        assert_eq!(whole_transfers(&line.repeat(2), 2), Some(1.0));
        assert_eq!(whole_transfers(&line, 2), None);
        assert_eq!(whole_transfers("17 0.5\n", 1), None);
        assert_eq!(whole_transfers("", 0), Some(0.0));
    }
}
