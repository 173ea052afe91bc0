//! `sluice bench --suite` and `--compare`: suites carried out by this program's own load generator.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sluice_net::tls::{ClientSettings, Reuse, Trust};

use super::{Bench, CaseRun, Extent, Handshakes, Protocol, Purpose};
use crate::arguments::BenchArguments;
use crate::compare;
use crate::console::{Refusal, print, say};
use crate::h2::prepare_stream;
use crate::live;
use crate::outcome::{Mode, Outcome};
use crate::plan::{self, Expected, Place, Plan, Statuses, Work};
use crate::redis;
use crate::report::disturbances;
use crate::request::{Keepalive, Wish, prepare};
use crate::results::{Length, State};
use crate::run::{self, Failure, Stopper};
use crate::target::Target;

/// Runs the suite that the command line names and writes its reports.
///
/// # Errors
/// A suite that cannot be read, or reports that cannot be written.
pub(crate) fn bench_suite(
    arguments: &BenchArguments,
    file: &std::path::Path,
    stopper: &Stopper,
) -> Result<u8, Refusal> {
    let mut suite = super::load(file).map_err(refusal)?;
    if let Some(duration) = arguments.duration {
        suite.set_duration(duration);
    }
    let scratch = Scratch::new().map_err(refusal)?;
    let bench = Bench {
        program: std::env::current_exe()
            .map_err(|error| refusal(format!("cannot find this program itself: {error}")))?,
        tool: concat!("sluice ", env!("CARGO_PKG_VERSION")).to_owned(),
        length: if arguments.full { Length::Full } else { Length::Short },
        scratch: scratch.0.clone(),
        run: &|case| execute(case, stopper),
        stopped: &|| stopper.is_stopped(),
        say: &|line| say(&format!("{line}\n")),
    };
    let results = super::run(&suite, &bench).map_err(refusal)?;
    let reports = suite.folder.join("..").join("reports").join(&suite.name);
    let place = destination(arguments, &reports, &disturbances(&results));
    super::write(&results, &place.folder).map_err(refusal)?;
    say(&place.remark);
    print(&format!("{}\n", place.folder.join("report.html").display()));
    Ok(u8::from(results.state == State::Failed || place.published == Published::Refused))
}

/// Where the reports of a suite go.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Destination {
    folder: PathBuf,
    /// What standard error says of it.
    remark: String,
    published: Published,
}

/// Whether the reports are where they are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Published {
    /// They are where they were wanted.
    AsAsked,
    /// The machine was not quiet.
    Refused,
}

/// Reports of a machine that was not quiet do not replace published ones unless somebody insists. In a
/// directory that the command line names they publish nothing; they are marked everywhere.
fn destination(arguments: &BenchArguments, reports: &Path, disturbances: &[String]) -> Destination {
    let reasons = disturbances.join(", ");
    let folder = arguments.output.clone().unwrap_or_else(|| reports.to_owned());
    if disturbances.is_empty() {
        return Destination { folder, remark: String::new(), published: Published::AsAsked };
    }
    if arguments.output.is_some() || arguments.publish_anyway {
        let remark =
            format!("warning: the machine was not quiet ({reasons}); the report says so\n");
        return Destination { folder, remark, published: Published::AsAsked };
    }
    let mut elsewhere = folder.clone().into_os_string();
    elsewhere.push(".not-quiet");
    let remark = format!(
        "error: the machine was not quiet ({reasons}): the report is not published in {}; \
         --publish-anyway does that all the same\n",
        folder.display()
    );
    Destination { folder: elsewhere.into(), remark, published: Published::Refused }
}

/// Compares the two files that the command line names.
///
/// # Errors
/// A file that cannot be read or compared.
pub(crate) fn bench_compare(files: &[PathBuf]) -> Result<u8, Refusal> {
    let [before, after] = files else {
        return Err(refusal("--compare takes two files".to_owned()));
    };
    print(&compare::files(before, after).map_err(refusal)?.text());
    Ok(0)
}

fn refusal(message: String) -> Refusal {
    let plain = message.strip_prefix("error: ").unwrap_or(&message);
    Refusal::usage(plain.trim_end())
}

/// One run of a suite by this program's own engine.
fn execute(case: &CaseRun, stopper: &Stopper) -> Result<Outcome, String> {
    if case.redis.is_some() {
        return redis::suite_run(case, stopper);
    }
    let finished =
        run::run(plan(case)?, stopper, live::silence()).map_err(|failure| match failure {
            Failure::Unreachable(reason) | Failure::Broken(reason) => reason,
        })?;
    Ok(finished.outcome)
}

fn plan(case: &CaseRun) -> Result<Plan, String> {
    let target = Target::parse(&case.url)?;
    let keepalive = if case.handshakes.is_some() { Keepalive::Off } else { Keepalive::On };
    let wish = Wish {
        method: case.method.clone(),
        headers: case.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect(),
        body: (!case.body.is_empty()).then(|| case.body.clone()),
        keepalive,
    };
    let (work, pipeline) = match case.protocol {
        Protocol::Http1 => (Work::Fixed(Arc::new(prepare(&target, &wish)?)), case.pipeline),
        Protocol::Http2 => (Work::Streams(Arc::new(prepare_stream(&target, &wish)?)), case.streams),
    };
    let endpoints = target.endpoints()?;
    let users = matches!(case.mode, Mode::Users { .. });
    let (duration, requests) = match case.extent {
        Extent::Time(_) if users => (None, None),
        Extent::Time(time) => (Some(time), None),
        Extent::Requests(count) => (None, Some(count)),
    };
    // A server that is not what was expected must not look fast; before measuring it may still be
    // getting ready.
    let statuses = match case.purpose {
        Purpose::WarmUp => Statuses::any(),
        Purpose::Measure | Purpose::Count => Statuses::parse(&case.status.to_string())?,
    };
    Ok(Plan {
        shown: case.url.clone(),
        targets: vec![Place::with(target, endpoints, &encryption(case))?],
        work,
        mode: case.mode.clone(),
        extent: plan::Extent { duration, requests },
        connections: case.connections,
        threads: case.threads.unwrap_or(1).min(case.connections).max(1),
        pipeline,
        keepalive,
        timeout: case.timeout,
        warmup: Duration::ZERO,
        expected: Expected { statuses, body: None },
    })
}

/// How connections are encrypted where the URL asks for it.
fn encryption(case: &CaseRun) -> ClientSettings {
    let mut settings = ClientSettings::new(Trust::Anything);
    if case.protocol == Protocol::Http2 {
        settings.terms.protocols = vec![b"h2".to_vec()];
    }
    if case.handshakes == Some(Handshakes::Resumed) {
        settings.resumption = Reuse::Tickets;
    }
    settings
}

/// A folder for the servers, gone when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("sluice-suite-{}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        bench: BenchArguments,
    }

    #[test]
    fn a_machine_that_was_not_quiet_publishes_nothing() {
        let noisy = ["others were working before it began".to_owned()];
        let rows: [(&str, &[String], &str, Published, &str); 5] = [
            ("", &[], "reports/gate", Published::AsAsked, ""),
            ("", &noisy, "reports/gate.not-quiet", Published::Refused, "--publish-anyway"),
            ("--publish-anyway", &noisy, "reports/gate", Published::AsAsked, "warning: "),
            ("--output out", &noisy, "out", Published::AsAsked, "before it began"),
            ("--output out", &[], "out", Published::AsAsked, ""),
        ];
        for (line, disturbances, folder, published, part) in rows {
            let words = ["bench", "--suite", "gate.toml"].into_iter();
            let arguments = Line::parse_from(words.chain(line.split_ascii_whitespace())).bench;
            let found = destination(&arguments, Path::new("reports/gate"), disturbances);
            assert_eq!((found.folder.as_path(), found.published), (Path::new(folder), published));
            assert!(found.remark.contains(part), "{found:?}");
        }
    }
}
