//! The load generators that are compared, run as programs of their own: what they sent, and what it cost them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::peers::Bench;

/// A load generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// `sluice bench`.
    Sluice,
    /// wrk.
    Wrk,
}

/// What a load generator is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// The URL.
    pub url: &'a str,
    /// Connections, driven by one thread.
    pub connections: usize,
    /// How long, in seconds.
    pub seconds: u64,
    /// The CPU it is bound to.
    pub cpu: Option<usize>,
    /// What it shares the machine's time with.
    pub priority: Priority,
}

/// What a program shares the machine's time with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Everything else that runs.
    Shared,
    /// Nothing: it runs as soon as it can, as on a machine that is quiet.
    First,
}

impl Priority {
    /// First, if this user may have that.
    pub fn first() -> Self {
        let allowed = Command::new("chrt").args(["-f", "10", "true"]).output();
        match allowed.is_ok_and(|output| output.status.success()) {
            true => Self::First,
            false => Self::Shared,
        }
    }

    /// Gives it to a thread of this program.
    pub fn give(self, thread: i32) {
        if self == Self::First {
            let _ = Command::new("chrt").args(["-f", "-p", "10", &thread.to_string()]).output();
        }
    }
}

/// What it came to.
#[derive(Clone, Debug)]
pub struct Done {
    /// Answers it counted.
    pub answers: f64,
    /// CPU time of the whole process in seconds, its start included.
    pub cpu: f64,
    /// Requests and connections that failed.
    pub errors: f64,
    /// What `sluice bench --json` wrote.
    pub json: Option<Value>,
}

impl Client {
    /// How the table names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sluice => "sluice bench",
            Self::Wrk => "wrk",
        }
    }

    fn words(self, bench: &Bench, load: &Load<'_>, json: &Path) -> Vec<String> {
        let (count, length) = (load.connections.to_string(), format!("{}s", load.seconds));
        match self {
            Self::Wrk => {
                ["wrk", "-t", "1", "-c", &count, "-d", &length, load.url].map(String::from).to_vec()
            }
            Self::Sluice => {
                let (program, json) =
                    (bench.sluice.display().to_string(), json.display().to_string());
                [
                    &program, "bench", "-t", "1", "-c", &count, "-d", &length, "--json", &json,
                    load.url,
                ]
                .map(String::from)
                .to_vec()
            }
        }
    }

    /// Runs it to its end.
    pub fn run(self, bench: &Bench, load: &Load<'_>, more: &[&str]) -> Result<Done, String> {
        let before = children_cpu()?;
        let running = Running::start(self, bench, load, (&[], more))?;
        let done = running.finish()?;
        Ok(Done { cpu: children_cpu()? - before, ..done })
    }

    /// User-space instructions per request, under callgrind: two runs of different length, so that
    /// start and end are in neither.
    pub fn instructions(self, bench: &Bench, url: &str) -> Result<f64, String> {
        let counted = |seconds| -> Result<(f64, f64), String> {
            let out = bench.scratch.join("callgrind-client");
            let file = format!("--callgrind-out-file={}", out.display());
            let under = ["valgrind", "--tool=callgrind", &file];
            let load =
                Load { url, connections: 100, seconds, cpu: None, priority: Priority::Shared };
            let done = Running::start(self, bench, &load, (&under, &[]))?.finish()?;
            let text = fs::read_to_string(&out).map_err(|e| format!("{}: {e}", out.display()))?;
            let _ = fs::remove_file(&out);
            let total = super::super::measure::parse_totals(&text);
            Ok((total.ok_or("callgrind wrote no figures")?, done.answers))
        };
        let ((few, short), (many, long)) = (counted(1)?, counted(4)?);
        Ok((many - few) / (long - short))
    }
}

/// A load generator that is running; killed on drop.
#[derive(Debug)]
pub struct Running {
    client: Client,
    child: Child,
    command: String,
    output: PathBuf,
    json: PathBuf,
}

impl Running {
    /// Starts one under another program, with more arguments of its own.
    pub fn start(
        client: Client,
        bench: &Bench,
        load: &Load<'_>,
        (under, more): (&[&str], &[&str]),
    ) -> Result<Self, String> {
        let json = bench.scratch.join("client.json");
        let output = bench.scratch.join("client.out");
        // Killed when this program dies, however it dies.
        let mut words: Vec<String> =
            ["setpriv", "--pdeathsig", "TERM", "--"].map(String::from).to_vec();
        if let Some(cpu) = load.cpu {
            words.extend(["taskset".to_owned(), "-c".to_owned(), cpu.to_string()]);
        }
        if load.priority == Priority::First {
            words.extend(["chrt", "-f", "10"].map(String::from));
        }
        words.extend(under.iter().map(|word| (*word).to_owned()));
        words.extend(client.words(bench, load, &json));
        words.extend(more.iter().map(|word| (*word).to_owned()));
        let command = words.join(" ");
        let file =
            |path: &Path| fs::File::create(path).map_err(|e| format!("{}: {e}", path.display()));
        let (out, errors) = (file(&output)?, file(&output.with_extension("err"))?);
        let child = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(errors)
            .spawn()
            .map_err(|e| format!("{command}: {e}"))?;
        Ok(Self { client, child, command, output, json })
    }

    /// The resident size in KiB.
    pub fn resident(&self) -> Result<f64, String> {
        let path = format!("/proc/{}/status", self.child.id());
        let text = fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let size = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        size.ok_or_else(|| format!("{path} names no VmRSS"))
    }

    /// Waits for the end and reads what it reports. Its CPU time is not known here.
    pub fn finish(mut self) -> Result<Done, String> {
        let end = Instant::now() + Duration::from_secs(300);
        loop {
            match self.child.try_wait() {
                Ok(Some(_)) => break,
                Ok(None) if Instant::now() > end => {
                    return Err(format!("{}: does not end", self.command));
                }
                Ok(None) => std::thread::sleep(Duration::from_millis(20)),
                Err(error) => return Err(format!("{}: {error}", self.command)),
            }
        }
        let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        let found = match self.client {
            Client::Sluice => parse_sluice(&read(&self.json)),
            Client::Wrk => parse_wrk(&read(&self.output)),
        };
        let _ = fs::remove_file(&self.json);
        found.ok_or_else(|| {
            let said = read(&self.output.with_extension("err"));
            format!("{}: {}", self.command, said.lines().last().unwrap_or("no figures"))
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn parse_sluice(text: &str) -> Option<Done> {
    let json: Value = serde_json::from_str(text).ok()?;
    let answers = json.get("responses")?.as_f64()?;
    let errors = json.get("errors")?.as_object()?.values().filter_map(Value::as_f64).sum();
    Some(Done { answers, cpu: 0.0, errors, json: Some(json) })
}

fn parse_wrk(text: &str) -> Option<Done> {
    let line = text.lines().find(|line| line.contains(" requests in "))?;
    let answers = line.split_whitespace().next()?.parse().ok()?;
    let mut errors = 0.0;
    if let Some(line) = text.lines().find(|line| line.contains("Socket errors:")) {
        let counts = line.split([',', ' ']).filter_map(|word| word.parse::<f64>().ok());
        errors += counts.sum::<f64>();
    }
    if let Some(line) = text.lines().find(|line| line.contains("Non-2xx")) {
        errors += line.split_whitespace().last()?.parse::<f64>().ok()?;
    }
    Some(Done { answers, cpu: 0.0, errors, json: None })
}

/// CPU time of all children that have ended, in seconds.
fn children_cpu() -> Result<f64, String> {
    let text =
        fs::read_to_string("/proc/self/stat").map_err(|e| format!("/proc/self/stat: {e}"))?;
    parse_children(&text).ok_or_else(|| "/proc/self/stat: unknown".to_owned())
}

/// proc(5): behind the name in parentheses, the 14th and 15th field are `cutime` and `cstime` in
/// hundredths of a second.
fn parse_children(stat: &str) -> Option<f64> {
    let behind = stat.rsplit(')').next()?;
    let mut fields = behind.split_whitespace().skip(13);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / 100.0)
}

/// Percentiles of `latency` or `uncorrected` in what `sluice bench` wrote, in microseconds.
pub fn percentiles(json: &Value, which: &str, wanted: &[f64]) -> Option<Vec<f64>> {
    let all = json.get(which)?.get("percentiles")?.as_array()?;
    let one = |percentile: &f64| {
        let pair =
            all.iter().find(|pair| pair.get(0).and_then(Value::as_f64) == Some(*percentile))?;
        pair.get(1)?.as_f64()
    };
    wanted.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_clients_report() {
        let json = r#"{"responses": 7, "errors": {"connect": 1, "read": 2},
            "latency": {"percentiles": [[50.0, 120], [99.9, 3000]]}}"#;
        let done = parse_sluice(json).unwrap();
        assert_eq!((done.answers, done.errors), (7.0, 3.0));
        let value = done.json.unwrap();
        assert_eq!(percentiles(&value, "latency", &[99.9, 50.0]), Some(vec![3000.0, 120.0]));
        assert_eq!(percentiles(&value, "latency", &[75.0]), None);
        assert_eq!(percentiles(&value, "uncorrected", &[50.0]), None);
        assert!(parse_sluice("").is_none());
        let wrk = "Running 3s\n  12345 requests in 3.00s, 1MB read\n\
            \x20 Socket errors: connect 1, read 2, write 0, timeout 4\n\
            \x20 Non-2xx or 3xx responses: 5\n";
        let done = parse_wrk(wrk).unwrap();
        assert_eq!((done.answers, done.errors), (12_345.0, 12.0));
        assert!(parse_wrk("unable to connect").is_none());
    }

    #[test]
    fn reads_the_time_of_children() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 150 250 20 0";
        assert_eq!(parse_children(stat), Some(4.0));
        assert_eq!(parse_children("7 (a) S"), None);
    }
}
