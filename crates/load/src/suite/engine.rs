//! `sluice bench --suite` and `--compare`: suites carried out by this program's own load generator.

use std::path::PathBuf;
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
    let reports = || suite.folder.join("..").join("reports").join(&suite.name);
    let folder = arguments.output.clone().unwrap_or_else(reports);
    super::write(&results, &folder).map_err(refusal)?;
    print(&format!("{}\n", folder.join("report.html").display()));
    Ok(u8::from(results.state == State::Failed))
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
