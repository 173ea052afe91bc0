//! The command line of `sluice bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// What `sluice bench` is asked to do.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER)]
#[command(group = clap::ArgGroup::new("what").required(true)
    .args(["target", "suite", "compare"]))]
pub struct BenchArguments {
    /// A URL (http://, https://), a Redis server (redis://), or a script (FILE.yml, FILE.dsl)
    #[arg(value_name = "URL|FILE")]
    pub target: Option<String>,
    /// Connections, kept open and shared out evenly among the threads [default: 10; scripts: 1]
    #[arg(short = 'c', long, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub connections: Option<u32>,
    /// Threads [default: half of the CPUs, since the server may need the others]
    #[arg(short = 't', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// How long to measure, like 10s, 500ms or 2m; a number alone is seconds [default: 10s].
    /// Suites: how long each run is
    #[arg(short = 'd', long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Number of requests, instead of a duration or as a second limit
    #[arg(short = 'n', long, short_alias = 'l', alias = "limit", value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: Option<u64>,
    /// Method [default: GET, or POST with a body]
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "", hide_default_value = true)]
    pub method: String,
    /// A header line, like "Accept: text/plain"; may be repeated
    #[arg(short = 'H', long = "header", value_name = "LINE")]
    pub headers: Vec<String>,
    /// The request's body
    #[arg(short = 'b', long, value_name = "TEXT", conflicts_with = "body_file")]
    pub body: Option<String>,
    /// A file that is the request's body
    #[arg(long, value_name = "FILE")]
    pub body_file: Option<PathBuf>,
    /// A new connection for each request; opening it is part of the latency
    #[arg(long)]
    pub no_keepalive: bool,
    /// Requests that may be on a connection at once
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub pipeline: u32,
    /// Speak HTTP/2: over TLS as agreed by ALPN, without TLS from the first byte on (h2c)
    #[arg(long, conflicts_with = "pipeline")]
    pub http2: bool,
    /// HTTP/2: requests that may be under way on a connection at once, each a stream
    #[arg(short = 'm', long, value_name = "N", default_value_t = 1, requires = "http2",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub streams: u32,
    /// TLS: let earlier handshakes shorten those of later connections, each client its own
    #[arg(long, requires = "no_keepalive")]
    pub resume: bool,
    /// How long an answer, or opening a connection, may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub timeout: Duration,
    /// Good status codes, like 200,204,3xx, or any; others count as errors [default: 1xx,2xx,3xx]
    #[arg(long, value_name = "LIST")]
    pub expect_status: Option<String>,
    /// Text that the body of every good answer holds
    #[arg(long, value_name = "TEXT")]
    pub expect_body: Option<String>,
    /// Connect to this Unix socket instead of the URL's host
    #[arg(long, value_name = "SOCKET")]
    pub unix: Option<PathBuf>,
    /// Accept any certificate
    #[arg(long)]
    pub insecure: bool,
    /// Trust the certificates of this PEM file instead of the system's
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub ca: Option<PathBuf>,
    /// How long to load the server before anything is counted
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    pub warmup: Duration,
    /// Open loop: requests are due at a constant rate, like 3000/s, and latency counts from then on;
    /// FROM..TO/s runs step by step and finds the highest rate that is sustained
    #[arg(short = 'r', long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<Rate>,
    /// Distance of the rates of a range [default: a tenth of it]
    #[arg(long, value_name = "N", requires = "rate", value_parser = positive)]
    pub step: Option<f64>,
    /// How long each rate of a range is measured [default: 5s]
    #[arg(long, value_name = "TIME", requires = "rate", value_parser = duration)]
    pub step_duration: Option<Duration>,
    /// Users, each with a connection, who come one after the other and then leave
    #[arg(long, value_name = "N", conflicts_with_all = ["rate", "requests"],
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub users: Option<u32>,
    /// Requests of each user
    #[arg(long, value_name = "N", default_value_t = 1, requires = "users",
        value_parser = clap::value_parser!(u64).range(1..))]
    pub requests_each: u64,
    /// The time within which all users have come
    #[arg(long, value_name = "TIME", default_value = "0s", requires = "users", value_parser = duration)]
    pub ramp_up: Duration,
    /// Fail if the 99th percentile of expected responses is longer than this, like 5ms
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub max_p99: Option<Duration>,
    /// Fail if more requests fail or get unexpected responses, like 0.1% or 5
    #[arg(long, value_name = "SHARE", value_parser = allowance)]
    pub max_errors: Option<Allowance>,
    /// Fail if fewer expected responses come per second, like 3000/s
    #[arg(long, value_name = "RATE", value_parser = positive)]
    pub min_rate: Option<f64>,
    /// Print the detailed percentile table too, in wrk2's columns
    #[arg(long)]
    pub spectrum: bool,
    /// Write the result to a JSON file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the result to a CSV file
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write a report to an HTML file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Scripts: a YAML file that env, runner and variables come from as well
    /// [default for .dsl: loadgen.yml beside it]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Redis only: the tests to run, like ping_inline,ping_mbulk
    #[arg(long, value_name = "LIST")]
    pub test: Option<String>,
    /// Redis only: bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 3,
        value_parser = clap::value_parser!(u64).range(0..=536_870_912))]
    pub data_size: u64,
    /// Redis only: how many different keys; without it always the same one
    #[arg(long, value_name = "KEYS",
        value_parser = clap::value_parser!(u64).range(1..=999_999_999_999))]
    pub keyspace: Option<u64>,
    /// Say what changed between two JSON files, and whether it is more than noise
    #[arg(long, num_args = 2, value_names = ["A", "B"],
        conflicts_with_all = ["target", "suite", "duration"], conflicts_with_all = LOAD)]
    pub compare: Option<Vec<PathBuf>>,
    /// Run a suite: servers, cases, repetitions, reports
    #[arg(long, value_name = "FILE", conflicts_with = "target", conflicts_with_all = LOAD)]
    pub suite: Option<PathBuf>,
    /// Suites: the durations of published results instead of short ones
    #[arg(long, requires = "suite")]
    pub full: bool,
    /// Suites: write the reports to their directory even if the machine was not quiet
    #[arg(long, requires = "suite")]
    pub publish_anyway: bool,
    /// Suites: the directory of the reports [default: ../reports/NAME, seen from the suite]
    #[arg(long, value_name = "DIR", requires = "suite")]
    pub output: Option<PathBuf>,
}

/// Connections to a server, where nobody says how many.
pub(crate) const CONNECTIONS: u32 = 10;

const AFTER: &str = "\
Ctrl-C ends the run and prints the report of what ran.

Exit codes:
  0  all requests were answered as expected, also if the run was interrupted
  1  some were not, or nothing was answered; with --max-errors, only if nothing was answered
  2  the command line, or a file it names, cannot be used
  3  the target cannot be reached at all
  4  the rate was not sustained; with --min-rate, that decides instead
  5  a threshold was missed: --max-p99, --max-errors, --min-rate
Scripts say themselves when failed assertions (1) and failed requests (2) matter.";

/// What suites say themselves, and comparisons have no use for.
const LOAD: [&str; 34] = [
    "connections",
    "threads",
    "requests",
    "method",
    "headers",
    "body",
    "body_file",
    "no_keepalive",
    "pipeline",
    "http2",
    "streams",
    "resume",
    "timeout",
    "expect_status",
    "expect_body",
    "unix",
    "insecure",
    "ca",
    "warmup",
    "rate",
    "step",
    "step_duration",
    "users",
    "ramp_up",
    "max_p99",
    "max_errors",
    "min_rate",
    "spectrum",
    "json",
    "csv",
    "html",
    "config",
    "test",
    "keyspace",
];

/// A rate or a range of rates, in requests per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// One rate.
    Constant(f64),
    /// From the first to the last.
    Range(f64, f64),
}

/// The units of durations in milliseconds.
const UNITS: [(&str, f64); 5] = [("us", 1e-3), ("ms", 1.0), ("s", 1e3), ("m", 6e4), ("h", 3.6e6)];

/// How many requests may go wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowance {
    /// This share of all, 0 to 1.
    Share(f64),
    /// This number.
    Number(u64),
}

fn allowance(text: &str) -> Result<Allowance, String> {
    let read = match text.strip_suffix('%') {
        Some(percent) => {
            let percent = percent.trim().parse::<f64>().ok();
            percent.filter(|it| (0.0..=100.0).contains(it)).map(|it| Allowance::Share(it / 100.0))
        }
        None => text.parse().ok().map(Allowance::Number),
    };
    read.ok_or_else(|| "write a share of the requests or their number, like 0.1% or 5".to_owned())
}

fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(split).unwrap_or((text, ""));
    let unit = if unit.is_empty() { "s" } else { unit };
    let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| factor);
    let parsed =
        number.parse::<f64>().ok().zip(factor).map(|(number, factor)| number * factor / 1e3);
    parsed
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|time| time.as_secs() < 366 * 86_400)
        .ok_or_else(|| "write a number and a unit, like 500ms, 10s, 2m or 1h".to_owned())
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text).parse::<f64>().ok();
    let good = number.filter(|number| (1e-4..=1e9).contains(number));
    good.ok_or_else(|| "write requests per second, like 3000/s".to_owned())
}

fn rate(text: &str) -> Result<Rate, String> {
    let Some((from, to)) = text.split_once("..") else { return positive(text).map(Rate::Constant) };
    let (from, to) = (positive(from)?, positive(to)?);
    if from > to {
        return Err("the first rate of a range is the lower one, like 1000..20000/s".to_owned());
    }
    Ok(Rate::Range(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        bench: BenchArguments,
    }

    fn parse(line: &str) -> Result<BenchArguments, clap::Error> {
        let words = std::iter::once("bench").chain(line.split(' ').filter(|word| !word.is_empty()));
        Line::try_parse_from(words).map(|line| line.bench)
    }

    #[test]
    fn the_command_line_is_sound() {
        Line::command().debug_assert();
    }

    #[test]
    fn times_are_read() {
        let rows = [("10s", 10_000), ("500ms", 500), ("2m", 120_000), ("1.5", 1500), ("0s", 0)];
        for (text, millis) in rows {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(duration("250us"), Ok(Duration::from_micros(250)));
        for text in ["", "s", "10x", "-1s", "1e30", "nan", "inf", "10 s", "1m30s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_are_read() {
        let rows = [
            ("3000/s", Rate::Constant(3000.0)),
            ("0.5", Rate::Constant(0.5)),
            ("1000..20000/s", Rate::Range(1000.0, 20_000.0)),
        ];
        for (text, expected) in rows {
            assert_eq!(rate(text), Ok(expected), "{text}");
        }
        for text in ["", "0", "-5", "nan", "20..10", "1..", "..1", "5/m"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn allowances_are_read() {
        let rows = [
            ("0.1%", Some(Allowance::Share(0.001))),
            ("0%", Some(Allowance::Share(0.0))),
            ("5", Some(Allowance::Number(5))),
            ("101%", None),
            ("-1", None),
            ("0.5", None),
            ("%", None),
        ];
        for (text, expected) in rows {
            assert_eq!(allowance(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn what_belongs_together_goes_together() {
        let rows = [
            ("http://h/", true),
            ("-c 100 -d 3s http://h/", true),
            ("-c 5 -d 10 -r 100 -l 1000 file.yml", true),
            ("--rate 1000..2000/s --step 100 http://h/", true),
            ("--users 10 --requests-each 5 --ramp-up 5s http://h/", true),
            ("--compare a.json b.json", true),
            ("--suite gate.toml --full", true),
            ("--suite gate.toml -d 1s --output x", true),
            ("--suite gate.toml -c 5", false),
            ("--suite gate.toml --json x", false),
            ("--suite gate.toml --max-p99 5ms", false),
            ("--suite gate.toml --publish-anyway", true),
            ("--max-p99 5ms --max-errors 0.1% --min-rate 100/s http://h/", true),
            ("--compare a.json b.json -d 5s", false),
            ("--compare a.json b.json -n 5", false),
            ("redis://127.0.0.1 --test ping_inline -P 16", true),
            ("", false),
            ("-c 0 http://h/", false),
            ("-n 0 http://h/", false),
            ("--users 10 --rate 5 http://h/", false),
            ("--requests-each 5 http://h/", false),
            ("--step 5 http://h/", false),
            ("--body a --body-file b http://h/", false),
            ("--ca x --insecure https://h/", false),
            ("--compare a.json", false),
            ("--http2 -m 100 https://h/", true),
            ("--http2 --streams 100 http://h/", true),
            ("--no-keepalive --resume https://h/", true),
            ("-m 100 https://h/", false),
            ("--http2 -P 10 https://h/", false),
            ("--resume https://h/", false),
            ("--suite gate.toml --http2", false),
        ];
        for (line, good) in rows {
            let parsed = parse(line);
            assert_eq!(parsed.is_ok(), good, "{line}: {parsed:?}");
        }
    }
}
