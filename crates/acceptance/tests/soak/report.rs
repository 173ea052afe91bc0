//! The report of a soak: what was done, what the process held, the fitted lines.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use crate::resources::{Sample, Samples};
use crate::slope::Trend;
use crate::traffic::Count;

/// All that is known at the end.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) total: Duration,
    pub(crate) events: u64,
    /// Before the first request.
    pub(crate) idle: Sample,
    /// When all clients had gone.
    pub(crate) end: Sample,
    pub(crate) peak_kib: u64,
    pub(crate) counts: Vec<Count>,
    pub(crate) trends: Vec<Trend>,
    pub(crate) samples: Samples,
    /// The faults that the gateway has counted, as its metrics page has them.
    pub(crate) faults: Vec<String>,
}

impl Report {
    /// The text, which is also written to where `SOAK_REPORT` says.
    pub(crate) fn write(&self) -> String {
        let text = self.text();
        let Some(path) = std::env::var_os("SOAK_REPORT") else { return text };
        let path = Path::new(&path);
        std::fs::write(path, &text).expect("the report can be written");
        text
    }

    fn text(&self) -> String {
        let seconds = self.total.as_secs();
        let requests: u64 = self.counts.iter().map(|count| count.good + count.failed).sum();
        let mut text = format!(
            "# Soak\n\n`make soak SOAK={seconds}`: {seconds} seconds of mixed traffic, {} requests and \
             connections by {} kinds of clients, {} reloads and restarts of servers.\n\n\
             | traffic | good | failed | wrong |\n|---|---|---|---|\n",
            requests,
            self.counts.len(),
            self.events
        );
        for Count { name, good, failed, wrong, .. } in &self.counts {
            writeln!(text, "| {name} | {good} | {failed} | {} |", wrong.len()).unwrap();
        }
        text.push_str(
            "\nFailed: answered with 5xx, or broken off, while a server was being restarted. \
             Wrong: a body that is not the one that was sent.\n\n\
             |  | resident memory, KiB | descriptors | threads |\n|---|---|---|---|\n",
        );
        for (name, it) in [("before the first request", self.idle), ("after the last", self.end)] {
            let Sample { resident_kib, descriptors, threads, .. } = it;
            writeln!(text, "| {name} | {resident_kib} | {descriptors} | {threads} |").unwrap();
        }
        writeln!(text, "| peak | {} | | |", self.peak_kib).unwrap();
        self.lines(&mut text);
        for count in self.counts.iter().filter(|count| !count.reasons.is_empty()) {
            writeln!(text, "\nFailures of {}: {:?}", count.name, count.reasons).unwrap();
        }
        text.push_str("\nFaults that the gateway counted:\n\n```\n");
        for fault in &self.faults {
            writeln!(text, "{fault}").unwrap();
        }
        text.push_str("```\n");
        text
    }

    fn lines(&self, text: &mut String) {
        if self.trends.is_empty() {
            text.push_str("\nToo short for slopes to be judged.\n");
            return;
        }
        text.push_str(
            "\nThe first quarter is warm-up. The rest is cut into twelve blocks, and a line is fitted to \
             their means. It is a slope, and the soak fails, if the line rises by more than is allowed in \
             an hour and the 99 % interval of its rise lies above zero.\n\n\
             | | mean | rise per hour | allowed | verdict |\n|---|---|---|---|---|\n",
        );
        for trend in &self.trends {
            let verdict = if trend.is_slope() { "**slope**" } else { "none" };
            writeln!(
                text,
                "| {} | {:.1} | {:+.2} ± {:.2} | {:.1} | {verdict} |",
                trend.name, trend.mean, trend.hourly, trend.margin, trend.allowed
            )
            .unwrap();
        }
        text.push_str("\n| block |");
        let names: Vec<&str> = self.trends.iter().map(|trend| trend.name).collect();
        write!(text, " {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len())).unwrap();
        for block in 0..self.trends[0].blocks.len() {
            let means: Vec<String> =
                self.trends.iter().map(|trend| format!("{:.1}", trend.blocks[block])).collect();
            writeln!(text, "| {} | {} |", block + 1, means.join(" | ")).unwrap();
        }
    }
}
