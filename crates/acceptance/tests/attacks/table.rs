//! The table of attacks: what each cost this gateway and nginx, and what a neighbour noticed.

use std::fmt::Write;
use std::time::Duration;

use crate::flooding::{Bound, flood};
use crate::frames::FLOODS;
use crate::neighbour::{Neighbour, Seen};
use crate::slow::{SLOWNESSES, hold};
use crate::target::{Target, Usage, beside, origin, sluice};

/// How long each flood goes on.
const FLOOD: Duration = Duration::from_secs(3);

/// How long clients are slow: longer than the time for a head.
const SLOW: Duration = Duration::from_secs(15);

/// Slow clients.
const CLIENTS: usize = 2_000;

/// Starts the servers that are attacked.
const STARTS: [fn(&str) -> Target; 2] = [|origin| sluice(origin, ""), beside];

/// What an attack cost.
struct Cost {
    before: Usage,
    after: Usage,
    seen: Seen,
}

impl Cost {
    fn of(target: &Target, attack: impl FnOnce()) -> Self {
        target.forget_peak();
        let before = target.usage();
        let neighbour = Neighbour::start(&target.http2);
        attack();
        let seen = neighbour.stop();
        Self { before, after: target.usage(), seen }
    }

    fn processor(&self) -> f64 {
        self.after.processor - self.before.processor
    }

    fn columns(&self) -> String {
        format!(
            "{:.2} | {:.1} | {:.1} | {:.1} | {} |",
            self.processor(),
            self.after.peak.saturating_sub(self.before.resident) as f64 / 1024.0,
            self.seen.percentile(0.5),
            self.seen.percentile(0.99),
            self.seen.failed
        )
    }
}

/// Attacks both servers in turn; the report.
pub(crate) fn measure() -> String {
    let origin = origin();
    let mut text = format!(
        "# Attacks\n\n`make floods`: {} and {}, each with one worker and its defaults, attacked over the loopback. A \
         neighbour sends a request over HTTP/2 every 5 ms; its latency counts from the moment the request was due. The \
         attackers and the neighbour share the machine with the server; its load average was {} when this began, and latencies \
         mean little above 1.\n\n\
         Without an attack:\n\n| server | CPU, s | memory, MiB | p50, ms | p99, ms | failed |\n|---|---|---|---|---|---|\n",
        version("sluice"),
        version("nginx"),
        load()
    );
    for start in STARTS {
        let target = &start(&origin.address);
        let cost = Cost::of(target, || std::thread::sleep(FLOOD));
        writeln!(text, "| {} | {}", target.name, cost.columns()).unwrap();
    }
    floods(&mut text, &origin.address);
    slow(&mut text, &origin.address);
    text
}

fn floods(text: &mut String, origin: &str) {
    write!(
        text,
        "\n## Floods of frames\n\nFour clients flood for {} s; each opens a new connection when one has ended. *Steps* are what was \
         sent, *calmed* the connections that ended with `ENHANCE_YOUR_CALM`, *ended* those with another error. Memory is the peak \
         beyond what the process, which is new for each attack, had before.\n\n\
         | attack | server | connections | calmed | ended | steps | CPU, s | memory, MiB | p50, ms | p99, ms | failed |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
        FLOOD.as_secs()
    )
    .unwrap();
    for attack in FLOODS {
        for start in STARTS {
            // A new process: memory that an attack before has left would hide what this one takes.
            let target = &start(origin);
            let mut sent = None;
            let cost = Cost::of(target, || {
                sent = Some(flood(&target.http2, attack, Bound::Time(FLOOD)));
            });
            let sent = sent.unwrap();
            let known = if attack.known.is_empty() { "" } else { " (" };
            let close = if attack.known.is_empty() { "" } else { ")" };
            writeln!(
                text,
                "| {}{known}{}{close} | {} | {} | {} | {} | {} | {}",
                attack.name,
                attack.known,
                target.name,
                sent.connections,
                sent.calmed,
                sent.goodbyes,
                sent.steps,
                cost.columns()
            )
            .unwrap();
        }
    }
}

fn slow(text: &mut String, origin: &str) {
    write!(
        text,
        "\n## Slow clients\n\n{CLIENTS} connections, or twenty times fewer with a hundred streams each, for {} s. *Left* are those \
         that were still open then.\n\n\
         | attack | server | connections | left | CPU, s | memory, MiB | p50, ms | p99, ms | failed |\n\
         |---|---|---|---|---|---|---|---|---|\n",
        SLOW.as_secs()
    )
    .unwrap();
    for slowness in SLOWNESSES {
        for start in STARTS {
            // A new process: memory that an attack before has left would hide what this one takes.
            let target = &start(origin);
            let mut held = (0, 0);
            let cost = Cost::of(target, || held = hold(target, slowness, CLIENTS, SLOW));
            writeln!(
                text,
                "| {} | {} | {} | {} | {}",
                slowness.name,
                target.name,
                held.0,
                held.1,
                cost.columns()
            )
            .unwrap();
        }
    }
}

/// The load average of the last minute.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}

/// What a program says of itself.
fn version(program: &str) -> String {
    let (command, word) = match program {
        "nginx" => (std::path::PathBuf::from("nginx"), "-v"),
        _ => (sluice_testkit::binary(), "--version"),
    };
    let output = std::process::Command::new(command).arg(word).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).trim().trim_start_matches("nginx version: ").to_owned()
}
