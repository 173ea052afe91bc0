//! The rate limit: how many requests in how much time, of whom.

use std::time::Duration;

use sluice_expression::{Phase, Scope};

use super::key::{KeyOptions, Run, read_key};
use crate::duration::parse_duration;
use crate::expression::{Expression, read_template};
use crate::fields::Fields;
use crate::problem::Flaw;
use crate::section::{Key, Kind, Preset, Section, YEAR};
use crate::tree::{Node, Value};
use crate::upstream::Roster;

/// Rules that one filter may have.
const MOST: usize = 8;

/// How many requests in how much time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The rules; all of them hold.
    pub limits: Vec<RateRule>,
    /// Whom they count.
    pub key: KeyOptions,
    /// Status of a refusal.
    pub status: u16,
    /// How clients are told where they stand.
    pub headers: RateHeaders,
    /// Whether requests are refused.
    pub run: Run,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateRule {
    /// As it was written.
    pub text: String,
    /// So many.
    pub count: u64,
    /// In so much time.
    pub period: Duration,
    /// So many of them at once.
    pub burst: u64,
    /// Whom it counts; `None` = as the filter says.
    pub key: Option<Expression>,
}

/// How clients are told where they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateHeaders {
    /// `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset`.
    Separate,
    /// `RateLimit-Policy`, `RateLimit`.
    Structured,
    /// Not at all.
    None,
}

static LIMIT: Section = Section {
    name: "filter.rate_limit.limits",
    doc: "One rule of a rate limit.",
    keys: &[
        Key {
            name: "rate",
            kind: Kind::Text("rate"),
            preset: Preset::Required,
            doc: "How many requests in how much time: \"10/s\", \"100/m\", \"1000/h\", \"5/10s\".",
        },
        Key {
            name: "burst",
            kind: Kind::Integer { min: 1, max: 1_000_000_000, word: None },
            preset: Preset::Absent("the number in `rate`"),
            doc: "How many requests may come at once, after a time without any. The others come one by one, as \
                  `rate` says: with \"10/s\" one every 100 ms.",
        },
        Key {
            name: "key",
            kind: Kind::Text("template"),
            preset: Preset::Absent("the `key` of the filter"),
            doc: "Whom this rule counts by.",
        },
    ],
};

pub(super) static SECTION: Section = Section {
    name: "filter.rate_limit",
    doc: "Lets so many requests through in so much time, of each client or whatever else `key` says. Exact over \
          all workers.",
    keys: &[
        Key {
            name: "limits",
            kind: Kind::Shorts("rate", &LIMIT),
            preset: Preset::Required,
            doc: "The rules, such as \"10/s\" or { rate = \"10/s\", burst = 20 }; one, or a list of up to 8 of \
                  which all have to be kept.",
        },
        super::key::KEY,
        super::key::IPV6_PREFIX,
        super::key::ROOM,
        super::key::WHEN_FULL,
        Key {
            name: "status",
            kind: Kind::Integer { min: 400, max: 599, word: None },
            preset: Preset::Value("429"),
            doc: "Status of the answer to requests that are refused.",
        },
        Key {
            name: "headers",
            kind: Kind::Word(&["separate", "structured", "none"]),
            preset: Preset::Value("separate"),
            doc: "How clients are told where they stand: `RateLimit-Limit`, `RateLimit-Remaining` and \
                  `RateLimit-Reset`, or `RateLimit-Policy` and `RateLimit`, or not at all.",
        },
        super::key::DRY_RUN,
    ],
};

pub(super) fn read(fields: &Fields<'_, '_>, _: &mut Roster) -> Option<RateLimit> {
    let headers = match fields.word("headers") {
        Some("structured") => RateHeaders::Structured,
        Some("none") => RateHeaders::None,
        _ => RateHeaders::Separate,
    };
    let status = fields.integer("status").and_then(|status| u16::try_from(status).ok());
    let (key, run) = (read_key(fields), super::key::read_run(fields));
    let limits = read_limits(fields)?;
    Some(RateLimit { limits, key, status: status.unwrap_or(429), headers, run })
}

fn read_limits(fields: &Fields<'_, '_>) -> Option<Vec<RateRule>> {
    let entry = fields.entry("limits")?;
    let nodes = match &entry.node.value {
        Value::List(nodes) => nodes.as_slice(),
        _ => std::slice::from_ref(&entry.node),
    };
    if nodes.is_empty() || nodes.len() > MOST {
        let flaw = Flaw::new(format!("there are from 1 to {MOST} limits, not {}", nodes.len()))
            .with_help("write one: limits = \"10/s\"");
        fields.report.error(entry.node.span, flaw);
        return None;
    }
    nodes.iter().map(|node| read_limit(node, fields)).collect()
}

fn read_limit(node: &Node, fields: &Fields<'_, '_>) -> Option<RateRule> {
    let report = fields.report;
    if let Value::Text(text) = &node.value {
        let (count, period) = report.accept(node.span, parse_rate(&text.value))?;
        return Some(RateRule { text: text.value.clone(), count, period, burst: count, key: None });
    }
    let fields = Fields::open(Some(node), node.span, &LIMIT, report);
    let key = read_template(&fields, "key", &Scope::new(Phase::Request));
    let burst = fields.integer("burst");
    let written = fields.text("rate")?;
    let (count, period) = report.accept(written.span, parse_rate(written.text))?;
    let burst = burst.unwrap_or(count);
    let whole = period.as_nanos().saturating_mul(u128::from(burst)) / u128::from(count.max(1));
    if whole > YEAR.as_nanos() {
        let flaw = Flaw::new("it would take more than a year until all of `burst` may come again")
            .with_help("make `burst` smaller");
        report.error(written.span, flaw);
        return None;
    }
    Some(RateRule { text: written.text.to_owned(), count, period, burst, key })
}

/// How many in how much time: "10/s", "5/10s".
fn parse_rate(text: &str) -> Result<(u64, Duration), Flaw> {
    let malformed = || {
        Flaw::new(format!("\"{}\" is not a rate", text.escape_debug()))
            .with_help("write a number and a time: \"10/s\", \"100/m\", \"1000/h\", \"5/10s\"")
    };
    let (count, period) = text.split_once('/').ok_or_else(malformed)?;
    let (count, period) = (count.trim(), period.trim());
    if count.is_empty() || !count.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(malformed());
    }
    let numbered = period.starts_with(|first: char| first.is_ascii_digit());
    let period = if numbered { period.to_owned() } else { format!("1{period}") };
    let period = parse_duration(&period).map_err(|_| malformed())?;
    let count: u64 = count.parse().map_err(|_| malformed())?;
    if count == 0 {
        return Err(Flaw::new("a rate of 0 would refuse everything")
            .with_help("answer with `guard` or `respond` instead"));
    }
    if u128::from(count) * 1000 > period.as_nanos() || period > YEAR {
        return Err(Flaw::new(format!("the rate \"{}\" is out of bounds", text.escape_debug()))
            .with_help("rates go up to a million in a second, and over times up to a year"));
    }
    Ok((count, period))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_mean_what_they_say() {
        let rows = [
            ("10/s", Some((10, 1_000))),
            (" 100 / m ", Some((100, 60_000))),
            ("1000/h", Some((1000, 3_600_000))),
            ("1/d", Some((1, 86_400_000))),
            ("5/10s", Some((5, 10_000))),
            ("5/1m30s", Some((5, 90_000))),
            ("3/500ms", Some((3, 500))),
            ("1000000/s", Some((1_000_000, 1_000))),
            ("1000001/s", None),
            ("1/366d", None),
            ("0/s", None),
            ("/s", None),
            ("10/", None),
            ("10", None),
            ("-1/s", None),
            ("+1/s", None),
            ("1.5/s", None),
            ("10/x", None),
            ("10/s/s", None),
            ("99999999999999999999/s", None),
            ("1/0s", None),
        ];
        for (text, expected) in rows {
            let expected = expected.map(|(count, ms)| (count, Duration::from_millis(ms)));
            assert_eq!(parse_rate(text).ok(), expected, "{text}");
        }
    }
}
