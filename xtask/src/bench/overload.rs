//! `cargo xtask bench overload`: three times what can be served, with and without limits.

mod origin;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use self::origin::{Origin, SLOTS, WORK};
use super::options::{Defaults, Options};
use super::peers::{Bench, Peer, free_port};
use super::raise_descriptor_limit;
use super::report::{self, Section, Side};

const USAGE: &str = "\
usage: cargo xtask bench overload [OPTION ...]
  --only LIST      of none, limit, adaptive (comma-separated)
  --seconds N      seconds of overload (8)
  --times N        the offered rate in units of what can be served (3)
  --sluice FILE    the program (target/release/sluice)
  --no-write       leave bench/RESULTS.md alone
";

const DEFAULTS: Defaults = Defaults { usage: USAGE, rounds: 1, seconds: 8, own: ("--times", 3, 1) };

/// What is tried: a name, the title of its column, and the limit of the route.
const TRIALS: [(&str, &str, &str); 3] = [
    ("none", "no limit", ""),
    ("limit", "limit 8, queue 8", "concurrency = { limit = 8, queue = 8, wait = \"100ms\" }"),
    (
        "adaptive",
        "adaptive",
        "concurrency = { adaptive = { min = 4, max = 500, tolerance = 100 }, queue = 8, wait = \"100ms\" }",
    ),
];

/// After this a client gives up, and a response is of no use to it.
const PATIENCE: Duration = Duration::from_secs(1);
/// Connections of the load: enough for every request that is due before clients give up.
const CONNECTIONS: &str = "3000";
/// Within this time after the overload everything is as before.
const RECOVERY: Duration = Duration::from_secs(1);

/// What came of one trial.
#[derive(Debug)]
struct Outcome {
    title: &'static str,
    /// Requests per second that eight connections get answered.
    capacity: f64,
    offered: f64,
    /// Good responses per second, in time.
    goodput: f64,
    refused: f64,
    /// Milliseconds of the independent client's responses with 200: the median and the 99th percentile.
    served: [Option<f64>; 2],
    /// The longest time that the admin listener took, in milliseconds; `None` if it failed once.
    admin: Option<f64>,
    /// Seconds after the overload until ten responses in a row are as fast as before.
    recovery: Option<f64>,
}

/// Runs the trials, prints the table and writes its section.
pub(super) fn run(root: &Path, sluice: PathBuf, arguments: &[String]) -> Result<(), String> {
    let options = Options::parse(&DEFAULTS, sluice, arguments)?;
    let mut bench = Bench::new(root, options.sluice.clone())?;
    bench.missing.clear();
    bench.peers = vec![Peer::Sluice];
    raise_descriptor_limit();
    let busy = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let busy: Vec<&str> = busy.split(' ').take(3).collect();
    let mut machine = vec![format!("Load average at the beginning: {}", busy.join(" "))];
    let mut outcomes = Vec::new();
    for trial in TRIALS.into_iter().filter(|(name, ..)| options.wants(name)) {
        eprintln!("{} ...", trial.0);
        outcomes.push(measure(&bench, &options, trial)?);
    }
    machine.extend(report::environment(&bench, Side::Client));
    let section = Section {
        command: "overload",
        title: "Overload",
        table: table(&outcomes),
        how: how(&options),
        missing: &bench.missing,
        machine,
    };
    section.print();
    if options.write {
        section.write(root)?;
    }
    let late = outcomes.iter().filter(|it| it.title != TRIALS[0].1).find(|it| !it.is_good());
    late.map_or(Ok(()), |it| Err(format!("{}: {it:?}", it.title)))
}

fn how(options: &Options) -> Vec<String> {
    let Options { seconds, own: times, .. } = options;
    vec![
        format!("origin: {SLOTS} requests at a time, {} ms each, the others wait in order of arrival; it works on requests whose client is gone", WORK.as_millis()),
        format!("load: sluice bench, open loop at {times} times what eight connections get answered, {CONNECTIONS} connections, for {seconds} s; a client gives up after {} s", PATIENCE.as_secs()),
        "latency: an independent client with a connection for each request, one after the other; only its responses with 200 count".to_owned(),
        "recovery: from the end of the load until ten responses in a row take less than five times the origin's time".to_owned(),
    ]
}

impl Outcome {
    /// Whether overload did no harm beyond refusals.
    fn is_good(&self) -> bool {
        self.goodput >= 0.8 * self.capacity
            && self.admin.is_some()
            && self.recovery.is_some_and(|seconds| seconds <= RECOVERY.as_secs_f64())
    }
}

fn table(outcomes: &[Outcome]) -> String {
    let number = |figure: Option<f64>| figure.map_or("-".to_owned(), |it| format!("{it:.1}"));
    let titles: Vec<&str> = outcomes.iter().map(|it| it.title).collect();
    let mut text = format!("| | {} |\n|{}\n", titles.join(" | "), "---|".repeat(titles.len() + 1));
    type Figure = fn(&Outcome) -> Option<f64>;
    let rows: [(&str, Figure); 8] = [
        ("responses per second, eight connections", |it| Some(it.capacity)),
        ("offered per second", |it| Some(it.offered)),
        ("good responses per second under overload", |it| Some(it.goodput)),
        ("refused with 503 per second", |it| Some(it.refused)),
        ("ms of what is served, median", |it| it.served[0]),
        ("ms of what is served, p99", |it| it.served[1]),
        ("admin listener: longest response in ms", |it| it.admin),
        ("seconds to recover", |it| it.recovery),
    ];
    for (what, figure) in rows {
        let cells: Vec<String> = outcomes.iter().map(|it| number(figure(it))).collect();
        text.push_str(&format!("| {what} | {} |\n", cells.join(" | ")));
    }
    text
}

/// The gateway of one trial, stopped on drop.
struct Gateway {
    child: Child,
    web: String,
    admin: String,
}

impl Gateway {
    fn start(bench: &Bench, origin: u16, limit: &str) -> Result<Self, String> {
        let [web, admin] = [free_port()?, free_port()?].map(|port| format!("127.0.0.1:{port}"));
        let text = format!(
            "workers = 1\n[admin]\naddress = \"{admin}\"\n[log]\naccess = \"off\"\n\
             [[listener]]\naddress = \"{web}\"\n[upstream.api]\nservers = [\"127.0.0.1:{origin}\"]\n\
             [[route]]\npath = \"/\"\nproxy = \"api\"\n{limit}\n"
        );
        let file = bench.scratch.join("overload.toml");
        std::fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "--"])
            .arg(&bench.sluice)
            .args(["run", "-c"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("{}: {e}", bench.sluice.display()))?;
        let gateway = Self { child, web, admin };
        let end = Instant::now() + Duration::from_secs(30);
        while ask(&gateway.web, "/").is_none() {
            if Instant::now() > end {
                return Err("the gateway does not answer".to_owned());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(gateway)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks over a connection of its own; status and time.
fn ask(address: &str, path: &str) -> Option<(u16, Duration)> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").ok()?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response).ok()?;
    let status = std::str::from_utf8(response.get(9..12)?).ok()?.parse().ok()?;
    Some((status, begun.elapsed()))
}

/// What `sluice bench` reports of a run.
fn load(bench: &Bench, gateway: &Gateway, words: &[&str]) -> Result<serde_json::Value, String> {
    let file = bench.scratch.join("overload.json");
    let _ = std::fs::remove_file(&file);
    // Its exit code says that requests failed, as they do here.
    let output = Command::new(&bench.sluice)
        .args(["bench", "-t", "1", "--timeout", &format!("{}s", PATIENCE.as_secs())])
        .args(words)
        .arg("--json")
        .arg(&file)
        .arg(format!("http://{}/", gateway.web))
        .output()
        .map_err(|e| format!("sluice bench: {e}"))?;
    let text = std::fs::read_to_string(&file)
        .map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())?;
    serde_json::from_str(&text).map_err(|e| e.to_string())
}

/// Responses per second with this status.
fn rate_of(result: &serde_json::Value, status: &str) -> f64 {
    let number = |of: &serde_json::Value| of.as_f64().unwrap_or(0.0);
    number(&result["statuses"][status]) / number(&result["seconds"]).max(1e-9)
}

fn measure(
    bench: &Bench,
    options: &Options,
    (_, title, limit): (&str, &'static str, &str),
) -> Result<Outcome, String> {
    let origin = Origin::start()?;
    let gateway = Gateway::start(bench, origin.port, limit)?;
    let capacity = rate_of(&load(bench, &gateway, &["-c", "8", "-d", "3s"])?, "200");
    let offered = capacity * options.own as f64;
    let over = AtomicBool::new(false);
    let (rate, seconds) = (format!("{offered:.0}/s"), format!("{}s", options.seconds));
    let words = ["-c", CONNECTIONS, "--rate", &rate, "-d", &seconds];
    let (result, mut served, admin, recovery) = std::thread::scope(|scope| {
        let watch = |address, path| {
            let over = &over;
            scope.spawn(move || {
                let mut all = Vec::new();
                while !over.load(Ordering::SeqCst) {
                    all.push(ask(address, path));
                    std::thread::sleep(Duration::from_millis(20));
                }
                all
            })
        };
        let served = watch(gateway.web.as_str(), "/");
        let admin = watch(gateway.admin.as_str(), "/metrics");
        let result = load(bench, &gateway, &words);
        over.store(true, Ordering::SeqCst);
        let recovery = recover(&gateway);
        let watched = [served, admin].map(|it| it.join().unwrap_or_default());
        let [served, admin] = watched;
        (result, served, admin, recovery)
    });
    eprintln!("the origin has {} requests left", origin.backlog());
    served.retain(|answer| matches!(answer, Some((200, _))));
    let mut times: Vec<f64> = served.into_iter().flatten().map(|(_, time)| millis(time)).collect();
    times.sort_by(f64::total_cmp);
    let rank = |share: f64| times.get((times.len() as f64 * share) as usize).copied();
    let admin: Option<Vec<f64>> =
        admin.into_iter().map(|it| it.filter(|it| it.0 == 200).map(|it| millis(it.1))).collect();
    let result = result?;
    Ok(Outcome {
        title,
        capacity,
        offered,
        goodput: rate_of(&result, "200"),
        refused: rate_of(&result, "503"),
        served: [rank(0.5), rank(0.99)],
        admin: admin.and_then(|all| all.into_iter().max_by(f64::total_cmp)),
        recovery,
    })
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Seconds until ten responses in a row are as fast as without load; `None` if that takes longer than 30.
fn recover(gateway: &Gateway) -> Option<f64> {
    let begun = Instant::now();
    let mut good = 0;
    let mut since = begun.elapsed();
    while begun.elapsed() < Duration::from_secs(30) {
        let before = begun.elapsed();
        match ask(&gateway.web, "/") {
            Some((200, time)) if time < WORK * 5 => {
                if good == 0 {
                    since = before;
                }
                good += 1;
            }
            _ => good = 0,
        }
        if good == 10 {
            return Some(since.as_secs_f64());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_under_overload_is_no_good_outcome() {
        let good = || Outcome {
            title: "t",
            capacity: 800.0,
            offered: 2400.0,
            goodput: 790.0,
            refused: 1600.0,
            served: [Some(10.0), None],
            admin: Some(1.0),
            recovery: Some(0.0),
        };
        assert!(good().is_good());
        assert!(!Outcome { goodput: 100.0, ..good() }.is_good());
        assert!(!Outcome { admin: None, ..good() }.is_good());
        assert!(!Outcome { recovery: Some(2.0), ..good() }.is_good());
        assert!(table(&[good()]).contains("| ms of what is served, p99 | - |\n"));
    }
}
