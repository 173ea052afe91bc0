//! `sluice bench FILE.yml`: a script through the engine, to the report and the exit code.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::arguments::{BenchArguments, Rate};
use crate::console::{Refusal, print, say, threads, trust, write_all};
use crate::live;
use crate::outcome::{Mode, Outcome};
use crate::plain;
use crate::plan::{Expected, Extent, Place, Plan as Load, Statuses, Work};
use crate::request::Keepalive;
use crate::run::{Stopper, run};
use crate::source::Requests;
use crate::target::Target;
use crate::thresholds::{FAILED, MISSED, Misses, NOT_SUSTAINED};

use super::report::report;
use super::worker::{Counts, Limit, Plan};
use super::{Form, LoadError, Script};

/// How long is measured if neither the command line nor the script says when to end.
const SECONDS: u64 = 10;

/// Exit code of a script that asks for it: requests failed.
const REQUESTS_FAILED: u8 = 2;

/// Whether a target names a script and not a server.
#[must_use]
pub(crate) fn is_script(target: &str) -> bool {
    !target.contains("://") && Form::of(target).is_some()
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
    let base = base(arguments, path);
    if let Some(base) = &base {
        say(&format!("env, runner and variables also from {}\n", base.display()));
    }
    let script = Script::open(path, base.as_deref()).map_err(|error| match error {
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
    let outcome = &finished.outcome;
    let misses = Misses::of(arguments, outcome);
    let verdict = Verdict { script: plan.script(), counts: &plan.counts(), outcome };
    print(&report(&finished, plan.script().runner(), &plan.counts()));
    print(&plain::spectrum(arguments, outcome));
    print(&misses.report());
    write_all(arguments, std::slice::from_ref(outcome))?;
    if verdict.is_all_unexpected(arguments) {
        say("error: every response was unexpected\n");
    }
    say(&misses.message());
    Ok(verdict.code(arguments, &misses))
}

/// The YAML that a script takes more from: what the command line names, and as with Loadgen for the
/// DSL the `loadgen.yml` beside it.
fn base(arguments: &BenchArguments, path: &Path) -> Option<PathBuf> {
    let beside = || sluice_net::files::directory_of(path).join("loadgen.yml");
    let is_dsl = Form::of(&path.display().to_string()) == Some(Form::Dsl);
    arguments.config.clone().or_else(|| is_dsl.then(beside).filter(|base| base.is_file()))
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
    // As in Loadgen: a script is a story first, and a load when somebody says so.
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

/// What a run of a script comes to.
struct Verdict<'r> {
    script: &'r Script,
    counts: &'r Counts,
    outcome: &'r Outcome,
}

impl Verdict<'_> {
    /// The exit code: a failed assertion or request counts only where the script says so, but a run
    /// in which nothing went well never looks good.
    fn code(&self, arguments: &BenchArguments, misses: &Misses) -> u8 {
        let runner = self.script.runner();
        let (counts, errors) = (self.counts, self.outcome.errors);
        let asked = arguments.expect_status.is_some() && errors.unexpected_status > 0;
        if misses.is_missed() {
            return MISSED;
        }
        if counts.invalid > 0 && runner.assert_invalid || asked || self.is_all_unexpected(arguments)
        {
            return FAILED;
        }
        if counts.failed > 0 && runner.assert_error {
            return REQUESTS_FAILED;
        }
        let sustained = self.outcome.sustained != Some(false) || self.outcome.interrupted;
        // The warm-up may have used up what the command line allows.
        let used_up = arguments.requests.is_some() && self.outcome.requests == 0;
        match self.outcome.responses {
            0 if !self.outcome.interrupted && !used_up => FAILED,
            _ if !sustained && arguments.min_rate.is_none() => NOT_SUSTAINED,
            _ => 0,
        }
    }

    /// Whether no response was as it should be: by the assertions, or without any by its status.
    fn is_all_unexpected(&self, arguments: &BenchArguments) -> bool {
        let outcome = self.outcome;
        let errors = outcome.errors;
        let unexpected = errors.unexpected_status.saturating_add(errors.unexpected_body);
        let bad = outcome.statuses.iter().filter(|(status, _)| **status >= 400);
        let bad: u64 = bad.map(|(_, count)| *count).sum();
        let judged = self.script.asserts() || arguments.expect_status.is_some();
        let wrong = if judged { unexpected } else { bad };
        outcome.responses > 0 && wrong >= outcome.responses
    }
}

#[cfg(test)]
mod tests {
    use super::super::Text;
    use super::*;
    use crate::report::sample;

    #[test]
    fn scripts_are_told_from_servers() {
        for (target, expected) in [
            ("a.yml", true),
            ("dir/B.YAML", true),
            ("http://h/a.yml", false),
            ("a.toml", false),
            ("yml", true),
            ("http://h/", false),
            ("a.dsl", true),
        ] {
            assert_eq!(is_script(target), expected, "{target}");
        }
    }

    fn script(assertion: &str, runner: &str) -> Script {
        let text = format!(
            "runner: {{{runner}}}\nrequests:\n  - request: {{url: 'http://a/'}}\n    {assertion}\n"
        );
        let text = Text { name: "s.yml", text: &text, form: Form::Yaml, base: None };
        Script::read(text, &|_| None, &|_| Err(std::io::ErrorKind::NotFound.into())).unwrap()
    }

    fn arguments(line: &str) -> BenchArguments {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            bench: BenchArguments,
        }
        let words = ["bench", "s.yml"].into_iter().chain(line.split_ascii_whitespace());
        <Line as clap::Parser>::parse_from(words).bench
    }

    #[test]
    fn exit_codes_are_for_those_who_asked() {
        let some = Outcome { responses: 10, ..sample::outcome(1, 1.0, 100) };
        let none = Outcome { responses: 0, ..some.clone() };
        let missed = Outcome { sustained: Some(false), ..some.clone() };
        let rows = [
            (("", ""), (5, 5), &some, 0),
            (("assert_invalid: true", ""), (5, 5), &some, 1),
            (("assert_error: true", ""), (5, 5), &some, 2),
            (("assert_invalid: true, assert_error: true", ""), (5, 5), &some, 1),
            (("assert_invalid: true, assert_error: true", ""), (0, 5), &some, 2),
            (("assert_invalid: true, assert_error: true", ""), (0, 0), &some, 0),
            (("", ""), (0, 0), &none, 1),
            (("", ""), (0, 0), &missed, 4),
            (("", "--min-rate 0.1/s"), (0, 0), &missed, 0),
            (("", "--min-rate 1000/s"), (0, 0), &some, 5),
        ];
        for ((runner, line), (invalid, failed), outcome, expected) in rows {
            let script = script("", runner);
            let counts = Counts { invalid, failed, ..Counts::default() };
            let verdict = Verdict { script: &script, counts: &counts, outcome };
            let arguments = arguments(line);
            let misses = Misses::of(&arguments, outcome);
            assert_eq!(verdict.code(&arguments, &misses), expected, "{runner} {line}");
        }
    }

    #[test]
    fn a_run_in_which_every_response_was_unexpected_fails() {
        let statuses = |list: &[(u16, u64)]| list.iter().copied().collect();
        let outcome = |list: &[(u16, u64)], unexpected: u64| Outcome {
            responses: list.iter().map(|(_, count)| *count).sum(),
            statuses: statuses(list),
            errors: crate::outcome::Errors { unexpected_status: unexpected, ..Default::default() },
            ..sample::outcome(1, 1.0, 100)
        };
        let assert = "assert: {equals: {_ctx.response.status: 404}}";
        let rows = [
            ("", outcome(&[(200, 1), (500, 9)], 0), 0),
            ("", outcome(&[(404, 1), (500, 9)], 0), 1),
            (assert, outcome(&[(404, 10)], 0), 0),
            (assert, outcome(&[(200, 10)], 10), 1),
            (assert, outcome(&[(200, 9), (404, 1)], 9), 0),
        ];
        for (assertion, outcome, expected) in rows {
            let script = script(assertion, "");
            let counts = Counts::default();
            let verdict = Verdict { script: &script, counts: &counts, outcome: &outcome };
            assert_eq!(verdict.code(&arguments(""), &Misses::default()), expected, "{assertion}");
        }
    }
}
