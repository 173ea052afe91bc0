//! The `runner` options of a script.

use std::collections::BTreeSet;

use super::fields::{Fields, text};
use super::problem::{Report, Span};
use super::yaml::Node;

/// How a script is to be run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runner {
    /// How often each worker goes through all requests; without it until time or count are up.
    pub total_rounds: Option<u64>,
    /// Leave the warm-up out.
    pub no_warm: bool,
    /// Statuses of 400 and more that are no reason to stop after the warm-up.
    pub valid_status_codes_during_warmup: BTreeSet<u16>,
    /// Exit code 1 if an assertion failed.
    pub assert_invalid: bool,
    /// Exit code 2 if a request failed.
    pub assert_error: bool,
    /// Go on with a round after a failed assertion.
    pub continue_on_assert_invalid: bool,
    /// Count a failed assertion as skipped.
    pub skip_invalid_assert: bool,
    /// Say each request and its answer on standard error.
    pub log_requests: bool,
    /// Say those with one of these statuses.
    pub log_status_codes: BTreeSet<u16>,
    /// Neither assert nor register.
    pub benchmark_only: bool,
    /// Tell all latencies in microseconds.
    pub duration_in_us: bool,
    /// Leave the figures out of the report.
    pub no_stats: bool,
    /// Leave bytes out of the report.
    pub no_size_stats: bool,
    /// Forget registered values at the start of each round.
    pub reset_context: bool,
    pub(crate) default_endpoint: Option<(String, Span)>,
    pub(crate) default_basic_auth: Option<(String, String)>,
}

impl Runner {
    pub(crate) fn read(node: &Node, report: &mut Report<'_>) -> Self {
        let Some(mut fields) = Fields::of(node, "`runner`", report) else { return Self::default() };
        let runner = Self {
            total_rounds: rounds(&mut fields, report),
            no_warm: fields.flag("no_warm", report),
            valid_status_codes_during_warmup: statuses(
                &mut fields,
                "valid_status_codes_during_warmup",
                report,
            ),
            assert_invalid: fields.flag("assert_invalid", report),
            assert_error: fields.flag("assert_error", report),
            continue_on_assert_invalid: fields.flag("continue_on_assert_invalid", report),
            skip_invalid_assert: fields.flag("skip_invalid_assert", report),
            log_requests: fields.flag("log_requests", report),
            log_status_codes: statuses(&mut fields, "log_status_codes", report),
            benchmark_only: fields.flag("benchmark_only", report),
            duration_in_us: fields.flag("duration_in_us", report),
            no_stats: fields.flag("no_stats", report),
            no_size_stats: fields.flag("no_size_stats", report),
            reset_context: fields.flag("reset_context", report),
            default_endpoint: fields
                .text("default_endpoint", report)
                .map(|(text, span)| (text.to_owned(), span)),
            default_basic_auth: credentials(fields.take("default_basic_auth"), report),
        };
        if let Some(node) = fields.take("metric_sample_size") {
            report.warning(node.span, "has no effect: percentiles are always of all requests");
        }
        if let Some(node) = fields.take("disable_header_names_normalizing") {
            report.warning(node.span, "has no effect: header names are always sent as written");
        }
        fields.finish(report);
        runner
    }
}

/// 0 and less mean no limit.
fn rounds(fields: &mut Fields<'_>, report: &mut Report<'_>) -> Option<u64> {
    let rounds = fields.integer("total_rounds", report)?;
    u64::try_from(rounds).ok().filter(|rounds| *rounds > 0)
}

fn statuses(fields: &mut Fields<'_>, name: &'static str, report: &mut Report<'_>) -> BTreeSet<u16> {
    let mut statuses = BTreeSet::new();
    for node in fields.list(name, report) {
        let Some(text) = text(node, name, report) else { continue };
        match text.parse() {
            Ok(status) => drop(statuses.insert(status)),
            Err(_) => report.error(node.span, "a status is a number like 404"),
        }
    }
    statuses
}

/// A user's name and password.
pub(crate) fn credentials(
    node: Option<&Node>,
    report: &mut Report<'_>,
) -> Option<(String, String)> {
    let mut fields = Fields::of(node?, "`basic_auth`", report)?;
    let user = fields.required("username", report);
    let password = fields.text("password", report);
    fields.finish(report);
    let (user, place) = user?;
    let (password, password_place) = password.unwrap_or(("", place));
    for (text, place) in [(user, place), (password, password_place)] {
        if text.contains("$[[") {
            report.error(place, "a name or password cannot change from request to request");
        }
    }
    Some((user.to_owned(), password.to_owned()))
}
