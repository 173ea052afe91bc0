//! `sluice bench`: from the command line to the exit code.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sluice_net::Endpoint;
use sluice_net::process::raise_descriptor_limit;
use sluice_net::signals::{Signal, watch_signals};
use sluice_net::tls::{ClientSettings, Reuse};

use crate::arguments::{BenchArguments, CONNECTIONS, Rate};
use crate::console::{Refusal, UNREACHABLE, print, read, say, threads, trust, write_all};
use crate::h2::prepare_stream;
use crate::live;
use crate::outcome::{Mode, Outcome, Steps};
use crate::plain;
use crate::plan::{Expected, Extent, Place, Plan, Statuses, Work};
use crate::redis;
use crate::request::{Keepalive, Wish, prepare};
use crate::run::{Stopper, run};
use crate::script::bench as script;
use crate::suite::{bench_compare, bench_suite};
use crate::target::{Security, Target};
use crate::thresholds::{self, Misses};

/// How long is measured if nobody says otherwise.
const DURATION: Duration = Duration::from_secs(10);
/// How long each rate of a range is measured if nobody says otherwise.
const STEP: Duration = Duration::from_secs(5);

/// Does what the command line asks for. Prints the report to standard output and everything else to
/// standard error; the result is the exit code.
#[must_use]
pub fn bench(arguments: &BenchArguments) -> u8 {
    match dispatch(arguments) {
        Ok(code) => code,
        Err(refusal) => {
            live::clear();
            say(&format!("error: {}\n", refusal.message));
            refusal.code
        }
    }
}

fn dispatch(arguments: &BenchArguments) -> Result<u8, Refusal> {
    raise_descriptor_limit();
    if let Some(files) = &arguments.compare {
        return bench_compare(files);
    }
    if let Some(file) = &arguments.suite {
        return bench_suite(arguments, file, &stopper()?);
    }
    if arguments.full || arguments.output.is_some() || arguments.publish_anyway {
        let what = "--full, --output and --publish-anyway are for suites: name one with --suite";
        return Err(Refusal::usage(what));
    }
    let target = arguments.target.as_deref().unwrap_or_default();
    let stopper = stopper()?;
    if script::is_script(target) {
        return script::bench(arguments, Path::new(target), &stopper);
    }
    if redis::is_redis(target) {
        return redis::bench(arguments, target, &stopper);
    }
    refuse_unfit(arguments)?;
    let plan = plan(arguments, target)?;
    match arguments.rate {
        Some(Rate::Range(from, to)) => climb(arguments, &plan, (from, to), &stopper),
        _ => once(arguments, plan, &stopper),
    }
}

/// Options that would have no effect: who typed them expects one.
fn refuse_unfit(arguments: &BenchArguments) -> Result<(), Refusal> {
    let is_range = matches!(arguments.rate, Some(Rate::Range(..)));
    let only_ranges = "is for a range of rates, like --rate 1000..20000/s";
    let not_ranges =
        "does not go with a range of rates: --step-duration says how long each is measured";
    let no_thresholds = "does not go with a range of rates: its higher ones are meant to fail";
    let unfit = [
        ("--step", arguments.step.is_some() && !is_range, only_ranges),
        ("--step-duration", arguments.step_duration.is_some() && !is_range, only_ranges),
        ("--duration", arguments.duration.is_some() && is_range, not_ranges),
        ("--requests", arguments.requests.is_some() && is_range, not_ranges),
        ("--config", arguments.config.is_some(), "is for scripts"),
        ("--test", arguments.test.is_some(), "is for Redis"),
        ("--keyspace", arguments.keyspace.is_some(), "is for Redis"),
        ("--max-p99", arguments.max_p99.is_some() && is_range, no_thresholds),
        ("--max-errors", arguments.max_errors.is_some() && is_range, no_thresholds),
        ("--min-rate", arguments.min_rate.is_some() && is_range, no_thresholds),
    ];
    match unfit.iter().find(|(_, used, _)| *used) {
        Some((option, _, why)) => Err(Refusal::usage(format!("{option} {why}"))),
        None => Ok(()),
    }
}

/// What ends runs when the user wants it.
fn stopper() -> Result<Stopper, Refusal> {
    let stopper = Stopper::default();
    let stops = stopper.clone();
    let watched = watch_signals(move |signal| {
        if signal == Signal::Stop {
            stops.stop();
        }
    });
    watched.map_err(|error| Refusal {
        code: UNREACHABLE,
        message: format!("cannot watch for signals: {error}"),
    })?;
    Ok(stopper)
}

/// The plan of a run against a URL.
///
/// # Errors
/// What is wrong with the arguments.
pub(crate) fn plan(arguments: &BenchArguments, url: &str) -> Result<Plan, Refusal> {
    let target = Target::parse(url).map_err(Refusal::usage)?;
    let keepalive = if arguments.no_keepalive { Keepalive::Off } else { Keepalive::On };
    if keepalive == Keepalive::Off && arguments.pipeline > 1 {
        return Err(Refusal::usage("--pipeline needs connections that stay: leave --no-keepalive"));
    }
    if keepalive == Keepalive::Off && arguments.streams > 1 {
        return Err(Refusal::usage("--streams needs connections that stay: leave --no-keepalive"));
    }
    if arguments.resume && target.security == Security::Plain {
        return Err(Refusal::usage("--resume is for TLS: ask for an https:// URL"));
    }
    let wish = Wish {
        method: arguments.method.clone(),
        headers: arguments.headers.clone(),
        body: body(arguments)?,
        keepalive,
    };
    let work = match arguments.http2 {
        true => prepare_stream(&target, &wish).map(|request| Work::Streams(Arc::new(request))),
        false => prepare(&target, &wish).map(|prepared| Work::Fixed(Arc::new(prepared))),
    };
    let work = work.map_err(Refusal::usage)?;
    let endpoints = match &arguments.unix {
        Some(path) => vec![Endpoint::Unix(path.clone())],
        None => target.endpoints().map_err(|message| Refusal { code: UNREACHABLE, message })?,
    };
    let shown = target.text.clone();
    let place = Place::with(target, endpoints, &encryption(arguments)?).map_err(Refusal::usage)?;
    let mode = mode(arguments);
    let senders = arguments.users.or(arguments.connections).unwrap_or(CONNECTIONS);
    Ok(Plan {
        shown,
        targets: vec![place],
        work,
        extent: extent(arguments, &mode),
        mode,
        connections: senders,
        threads: threads(arguments).min(senders),
        pipeline: arguments.pipeline.max(arguments.streams),
        keepalive,
        timeout: arguments.timeout.max(Duration::from_millis(1)),
        warmup: arguments.warmup,
        expected: expected(arguments)?,
    })
}

/// How connections are encrypted where the URL asks for it.
fn encryption(arguments: &BenchArguments) -> Result<ClientSettings, Refusal> {
    let mut settings = ClientSettings::new(trust(arguments)?);
    if arguments.http2 {
        settings.terms.protocols = vec![b"h2".to_vec()];
    }
    if arguments.resume {
        settings.resumption = Reuse::Tickets;
    }
    Ok(settings)
}

fn body(arguments: &BenchArguments) -> Result<Option<Vec<u8>>, Refusal> {
    match (&arguments.body, &arguments.body_file) {
        (Some(text), _) => Ok(Some(text.clone().into_bytes())),
        (None, Some(path)) => read(path).map(Some),
        (None, None) => Ok(None),
    }
}

fn mode(arguments: &BenchArguments) -> Mode {
    match (arguments.users, arguments.rate) {
        (Some(users), _) => Mode::Users {
            users: u64::from(users),
            requests_each: arguments.requests_each,
            ramp_seconds: arguments.ramp_up.as_secs_f64(),
        },
        (None, Some(Rate::Constant(rate) | Rate::Range(rate, _))) => {
            Mode::Open { rate_per_second: rate }
        }
        (None, None) => Mode::Closed,
    }
}

fn extent(arguments: &BenchArguments, mode: &Mode) -> Extent {
    let ends_by_itself = arguments.requests.is_some() || matches!(mode, Mode::Users { .. });
    let duration = match arguments.duration {
        None if !ends_by_itself => Some(DURATION),
        given => given,
    };
    Extent { duration, requests: arguments.requests }
}

fn expected(arguments: &BenchArguments) -> Result<Expected, Refusal> {
    let statuses = match &arguments.expect_status {
        Some(list) => Statuses::parse(list).map_err(Refusal::usage)?,
        None => Statuses::fine(),
    };
    let body = arguments.expect_body.clone().map(String::into_bytes);
    Ok(Expected { statuses, body })
}

fn once(arguments: &BenchArguments, plan: Plan, stopper: &Stopper) -> Result<u8, Refusal> {
    let finished = run(plan, stopper, live::watcher())?;
    live::clear();
    let misses = Misses::of(arguments, &finished.outcome);
    print(&plain::report(&finished));
    print(&plain::spectrum(arguments, &finished.outcome));
    print(&misses.report());
    write_all(arguments, std::slice::from_ref(&finished.outcome))?;
    say(&misses.message());
    Ok(thresholds::code(arguments, &finished.outcome, &misses))
}

/// Runs at one rate after the other. The search ends early once two rates in a row were too high:
/// higher ones would only fill the queue.
fn climb(
    arguments: &BenchArguments,
    plan: &Plan,
    (from, to): (f64, f64),
    stopper: &Stopper,
) -> Result<u8, Refusal> {
    let each = arguments.step_duration.unwrap_or(STEP);
    let step = arguments.step.unwrap_or((to - from) / 10.0).max((to - from) / 1e4);
    let mut outcomes: Vec<Outcome> = Vec::new();
    let (mut too_high, mut index) = (0, 0_u32);
    let mut broken = None;
    loop {
        let rate = from + step * f64::from(index);
        let beyond = rate > to * (1.0 + 1e-9);
        if beyond || (index > 0 && step <= 0.0) || too_high == 2 || stopper.is_stopped() {
            break;
        }
        index += 1;
        let plan = Plan {
            mode: Mode::Open { rate_per_second: rate },
            extent: Extent { duration: Some(each), requests: None },
            ..plan.clone()
        };
        let finished = match run(plan, stopper, live::watcher()) {
            Ok(finished) => finished,
            Err(failure) if outcomes.is_empty() => return Err(failure.into()),
            // What was measured until then is worth having.
            Err(failure) => {
                broken = Some(failure);
                break;
            }
        };
        too_high = if is_good(&finished.outcome) { 0 } else { too_high + 1 };
        outcomes.push(finished.outcome);
    }
    live::clear();
    let knee = knee(&outcomes);
    let steps = Steps { steps: outcomes, knee };
    print(&plain::steps(&steps));
    for outcome in steps.steps.iter().filter(|_| arguments.spectrum) {
        print(&format!("\n{}", plain::offered(outcome)));
        print(&plain::spectrum(arguments, outcome));
    }
    write_all(arguments, &steps.steps)?;
    match broken {
        Some(failure) if !stopper.is_stopped() => Err(failure.into()),
        // Rates that were too high are what the search looks for.
        _ if knee.is_some() || stopper.is_stopped() => Ok(0),
        _ => {
            let first = steps.steps.first();
            Ok(first.map_or(0, |first| thresholds::code(arguments, first, &Misses::default())))
        }
    }
}

fn is_good(outcome: &Outcome) -> bool {
    // A rate that was held for a part of its time may not be held for all of it.
    outcome.sustained == Some(true) && outcome.errors.total() == 0 && !outcome.interrupted
}

/// The last rate before the first that was too high.
fn knee(outcomes: &[Outcome]) -> Option<f64> {
    let good = outcomes.iter().take_while(|outcome| is_good(outcome)).last()?;
    match good.mode {
        Mode::Open { rate_per_second } => Some(rate_per_second),
        Mode::Closed | Mode::Users { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn the_knee_is_the_last_rate_before_the_first_that_was_too_high_or_cut_short() {
        let at = |rate: f64| Outcome {
            mode: Mode::Open { rate_per_second: rate },
            errors: crate::outcome::Errors::default(),
            sustained: Some(true),
            interrupted: false,
            ..sample::outcome(10, rate, 100)
        };
        let high = Outcome { sustained: Some(false), ..at(2000.0) };
        let cut = Outcome { interrupted: true, ..at(2000.0) };
        assert_eq!(knee(&[at(1000.0), at(2000.0)]), Some(2000.0));
        assert_eq!(knee(&[at(1000.0), high.clone(), at(3000.0)]), Some(1000.0));
        assert_eq!(knee(&[at(1000.0), cut]), Some(1000.0));
        assert_eq!(knee(&[high]), None);
    }
}
