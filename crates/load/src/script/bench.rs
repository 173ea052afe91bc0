//! `sluice bench FILE.yml`: a script through the engine, to the report and the exit code.

use std::path::Path;
use std::sync::Arc;

use crate::arguments::{BenchArguments, Rate};
use crate::console::{Refusal, print, say, threads, trust, write_all};
use crate::live;
use crate::outcome::Mode;
use crate::plain;
use crate::plan::{Expected, Extent, Place, Plan as Load, Statuses, Work};
use crate::request::Keepalive;
use crate::run::{Stopper, run};
use crate::source::Requests;
use crate::target::Target;

use super::report::report;
use super::worker::{Counts, Limit, Plan};
use super::{LoadError, Runner, Script};

/// How long is measured if neither the command line nor the script says when to end.
const SECONDS: u64 = 10;

/// Whether a target names a script and not a server.
#[must_use]
pub(crate) fn is_script(target: &str) -> bool {
    let end = target.rsplit('.').next().unwrap_or_default();
    !target.contains("://") && (end.eq_ignore_ascii_case("yml") || end.eq_ignore_ascii_case("yaml"))
}

/// Carries a script out and prints its report.
///
/// # Errors
/// A script that cannot be used, or a server that cannot be reached at all.
pub(crate) fn bench(
    arguments: &BenchArguments,
    path: &Path,
    stopper: &Stopper,
) -> Result<u8, Refusal> {
    refuse_unfit(arguments)?;
    let script = Script::open(path).map_err(|error| match error {
        LoadError::File(path, error) => {
            Refusal::usage(format!("cannot read {}: {error}", path.display()))
        }
        LoadError::Problems(problems) => {
            say(&problems.to_string());
            Refusal::usage(format!("{} was not run, nothing was sent", path.display()))
        }
    })?;
    for warning in &script.warnings {
        say(&warning.to_string());
    }
    let limit = Limit { requests: arguments.requests, rounds: None };
    let plan = Arc::new(script).plan(limit);
    let load = load(arguments, path, &plan)?;
    let finished = run(load, stopper, live::watcher())?;
    live::clear();
    print(&report(&finished, plan.script().runner(), &plan.counts()));
    print(&plain::spectrum(arguments, &finished.outcome));
    write_all(arguments, std::slice::from_ref(&finished.outcome))?;
    Ok(code(plan.script().runner(), &plan.counts()))
}

/// Options that a script has its own words for, or that would break its order.
fn refuse_unfit(arguments: &BenchArguments) -> Result<(), Refusal> {
    let unfit = [
        ("--pipeline", arguments.pipeline > 1),
        ("--http2", arguments.http2),
        ("--resume", arguments.resume),
        ("--method", !arguments.method.is_empty()),
        ("--header", !arguments.headers.is_empty()),
        ("--body", arguments.body.is_some() || arguments.body_file.is_some()),
        ("--expect-body", arguments.expect_body.is_some()),
        ("--no-keepalive", arguments.no_keepalive),
        ("--test", arguments.test.is_some()),
        ("--keyspace", arguments.keyspace.is_some()),
        ("a range of rates", matches!(arguments.rate, Some(Rate::Range(..)))),
    ];
    match unfit.iter().find(|(_, used)| *used) {
        Some((option, _)) => Err(Refusal::usage(format!("{option} does not go with a script"))),
        None => Ok(()),
    }
}

fn load(arguments: &BenchArguments, path: &Path, plan: &Arc<Plan>) -> Result<Load, Refusal> {
    let trust = trust(arguments)?;
    let mut targets = Vec::new();
    for url in plan.targets() {
        let target = Target::parse(url).map_err(Refusal::usage)?;
        let endpoints = match &arguments.unix {
            Some(path) => vec![sluice_net::Endpoint::Unix(path.clone())],
            None => target.endpoints().map_err(Refusal::unreachable)?,
        };
        let place = Place::new(target, endpoints, &trust).map_err(Refusal::usage)?;
        targets.push(place);
    }
    let mode = match (arguments.users, arguments.rate) {
        (Some(users), _) => Mode::Users {
            users: u64::from(users),
            requests_each: arguments.requests_each,
            ramp_seconds: arguments.ramp_up.as_secs_f64(),
        },
        (None, Some(Rate::Constant(rate) | Rate::Range(rate, _))) => {
            Mode::Open { rate_per_second: rate }
        }
        (None, None) => Mode::Closed,
    };
    let statuses = match &arguments.expect_status {
        Some(list) => Statuses::parse(list).map_err(Refusal::usage)?,
        // What is a good answer is up to the script's assertions.
        None => Statuses::any(),
    };
    let senders = arguments.users.or(arguments.connections).unwrap_or(1);
    Ok(Load {
        shown: path.display().to_string(),
        targets,
        extent: extent(arguments, plan, &mode),
        work: Work::Scripted(Arc::new(Arc::clone(plan))),
        mode,
        connections: senders,
        threads: threads(arguments).min(senders),
        pipeline: 1,
        keepalive: Keepalive::On,
        timeout: arguments.timeout.max(std::time::Duration::from_millis(1)),
        warmup: arguments.warmup,
        expected: Expected { statuses, body: None },
    })
}

fn extent(arguments: &BenchArguments, plan: &Plan, mode: &Mode) -> Extent {
    let ends = plan.is_limited() || matches!(mode, Mode::Users { .. });
    let default = (!ends).then(|| std::time::Duration::from_secs(SECONDS));
    // The warm-up's requests are among those of the command line, but not among those of the run.
    let requests = arguments.requests.map(|all| all.saturating_sub(plan.warm_up_length()));
    Extent { duration: arguments.duration.or(default), requests }
}

/// The exit code: 1 and 2 only for those who asked for them.
fn code(runner: &Runner, counts: &Counts) -> u8 {
    match (counts.invalid > 0, counts.failed > 0) {
        (true, _) if runner.assert_invalid => 1,
        (_, true) if runner.assert_error => 2,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_told_from_servers() {
        for (target, expected) in [
            ("a.yml", true),
            ("dir/B.YAML", true),
            ("http://h/a.yml", false),
            ("a.toml", false),
            ("yml", true),
            ("http://h/", false),
        ] {
            assert_eq!(is_script(target), expected, "{target}");
        }
    }

    #[test]
    fn exit_codes_are_for_those_who_asked() {
        let rows = [
            ((false, false), (5, 5), 0),
            ((true, false), (5, 5), 1),
            ((false, true), (5, 5), 2),
            ((true, true), (5, 5), 1),
            ((true, true), (0, 5), 2),
            ((true, true), (0, 0), 0),
        ];
        for ((assert_invalid, assert_error), (invalid, failed), expected) in rows {
            let runner = Runner { assert_invalid, assert_error, ..Runner::default() };
            let counts = Counts { invalid, failed, ..Counts::default() };
            assert_eq!(code(&runner, &counts), expected);
        }
    }
}
