//! The load generator as a test uses it: a command line, the exit code, the figures it wrote.

use std::time::Duration;

use serde_json::Value;
use sluice_testkit::{Finished, Job, Scratch};

/// How long a measurement of a test may take.
const WITHIN: Duration = Duration::from_secs(60);

/// A measurement that has ended.
#[derive(Debug)]
pub struct Measured {
    /// Exit code, report and everything else it said.
    pub finished: Finished,
    /// The file of `--json`; null if none was written.
    pub json: Value,
    /// The directory it ran in.
    pub scratch: Scratch,
}

/// Runs `sluice bench` with these words and with `--json`.
#[must_use]
#[track_caller]
pub fn bench(words: &[&str]) -> Measured {
    bench_in(Scratch::new(), words)
}

/// The same in a directory that holds the files it needs.
#[must_use]
#[track_caller]
pub fn bench_in(scratch: Scratch, words: &[&str]) -> Measured {
    let file = scratch.path().join("result.json");
    let name = file.display().to_string();
    let arguments = [&["bench"], words, &["--json", &name]].concat();
    let finished = Job::start(&arguments, scratch.path()).finish(WITHIN);
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let json = serde_json::from_str(&text).unwrap_or_default();
    Measured { finished, json, scratch }
}

/// Runs `sluice bench` with these words alone, in this directory.
#[must_use]
#[track_caller]
pub fn bench_plainly(scratch: &Scratch, words: &[&str]) -> Finished {
    Job::start(&[&["bench"], words].concat(), scratch.path()).finish(WITHIN)
}

impl Measured {
    /// A number in the JSON, by its place, like `/errors/timeout`.
    ///
    /// # Panics
    /// When there is no number.
    #[must_use]
    #[track_caller]
    pub fn number(&self, place: &str) -> f64 {
        let found = self.json.pointer(place).and_then(Value::as_f64);
        found.unwrap_or_else(|| panic!("no number {place} in {}\n{:?}", self.json, self.finished))
    }

    /// A percentile in microseconds, of `latency` or `uncorrected`.
    ///
    /// # Panics
    /// When it was not measured.
    #[must_use]
    #[track_caller]
    pub fn percentile(&self, of: &str, wanted: f64) -> f64 {
        let pairs = self.json.pointer(&format!("/{of}/percentiles")).and_then(Value::as_array);
        let pairs = pairs.unwrap_or_else(|| panic!("no percentiles of {of} in {}", self.json));
        let is = |pair: &&Value| pair.get(0).and_then(Value::as_f64) == Some(wanted);
        let found = pairs.iter().find(is).and_then(|pair| pair.get(1)?.as_f64());
        found.unwrap_or_else(|| panic!("no percentile {wanted} in {pairs:?}"))
    }

    /// Asserts that all requests were answered as expected, and how many there were.
    #[track_caller]
    pub fn assert_good(&self, requests: f64) {
        assert_eq!(self.finished.code, Some(0), "{:?}", self.finished);
        assert_eq!(self.number("/requests"), requests, "{:?}", self.finished);
        assert_eq!(self.number("/responses"), requests, "{:?}", self.finished);
        assert!(self.finished.stdout.contains("Errors      none"), "{}", self.finished.stdout);
    }
}

/// A run of wrk, which judges what it gets by itself.
#[derive(Debug)]
pub struct Wrk(std::process::Child);

impl Wrk {
    /// Starts it with these options; they bound it in time.
    ///
    /// # Panics
    /// When it is not installed.
    #[must_use]
    #[track_caller]
    pub fn start(options: &[&str], url: &str) -> Self {
        let mut command = std::process::Command::new("wrk");
        command.args(options).arg(url).stdout(std::process::Stdio::piped());
        Self(command.spawn().expect("wrk is among the tools the tests need"))
    }

    /// Waits for the end and asserts that nothing was lost: no failed connect, no reset, no time-out,
    /// no answer but 2xx, and answers at all.
    #[track_caller]
    pub fn assert_good(self) {
        let output = self.0.wait_with_output().expect("wrk ends by itself");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
        for bad in ["Socket errors", "Non-2xx"] {
            assert!(!text.contains(bad), "{text}");
        }
        let requests = text.lines().find_map(|line| line.trim().split_once(" requests in "));
        assert!(
            requests.is_some_and(|(count, _)| count.parse().is_ok_and(|it: u64| it > 0)),
            "{text}"
        );
    }
}
