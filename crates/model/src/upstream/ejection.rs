//! When a server of an upstream is out because of what became of requests.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::fields::Fields;
use crate::problem::Flaw;
use crate::section::{Key, Kind, MOMENT, Preset, Section, YEAR};
use crate::share::{Share, parse_share};
use crate::status::{Statuses, parse_any_statuses};

/// When a server is out because of what became of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Ejection {
    /// Failures in a row that eject a server; `None` = no number does.
    pub failures: Option<u32>,
    /// Share of failures among the requests of a window that ejects a server; `None` = none does.
    pub share: Option<Share>,
    /// Requests there have to be in a window before the share says anything.
    pub requests: u64,
    /// How long requests are counted for the share.
    pub window: Duration,
    /// Statuses that are failures of the server.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// Failures of gRPC calls, of [`crate::CALL_FAILURES`], that are the server's.
    pub calls: Vec<&'static str>,
    /// How long the first ejection lasts.
    pub time: Duration,
    /// How long an ejection may last.
    pub max_time: Duration,
    /// Share of the servers that may be out at a time.
    pub limit: Share,
}

pub(super) static EJECTION: Section = Section {
    name: "upstream.ejection",
    doc: "When a server gets no requests for a while because those it got failed: no connection, \
          no answer in time, none at all, a broken one, or one of `statuses`. An empty table, \
          `ejection = {}`, turns it on with its defaults.",
    keys: &[
        Key {
            name: "failures",
            kind: Kind::Integer { min: 1, max: 1_000_000, word: Some("off") },
            preset: Preset::Value("5"),
            doc: "Failures in a row, counted over all workers, that eject a server.",
        },
        Key {
            name: "share",
            kind: Kind::Text("share such as \"50%\""),
            preset: Preset::Absent("no share ejects a server"),
            doc: "The share of failures among the requests of a `window` that ejects a server.",
        },
        Key {
            name: "requests",
            kind: Kind::Integer { min: 1, max: 1_000_000_000, word: None },
            preset: Preset::Value("20"),
            doc: "Requests there have to be in a `window` before `share` says anything.",
        },
        Key {
            name: "window",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("10s"),
            doc: "How long requests are counted for `share`.",
        },
        Key {
            name: "statuses",
            kind: Kind::Texts(
                "status, range such as \"502-504\", class such as \"5xx\", or gRPC status such as \"grpc:unavailable\"",
            ),
            preset: Preset::Absent("`[\"502-504\", \"grpc:unavailable\"]`"),
            doc: "Statuses of answers that are failures of the server. `[]` has none: only what \
                  is no answer counts.",
        },
        Key {
            name: "time",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("10s"),
            doc: "How long the first ejection of a server lasts. Each that follows lasts twice as \
                  long as the one before, unless the server has behaved for as long in between.",
        },
        Key {
            name: "max_time",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("5m"),
            doc: "How long an ejection may last.",
        },
        Key {
            name: "limit",
            kind: Kind::Text("share such as \"50%\""),
            preset: Preset::Value("50%"),
            doc: "The share of the servers that may be ejected at a time; one of several always \
                  may.",
        },
    ],
};

pub(super) fn read_ejection(fields: &Fields<'_, '_>) -> Option<Ejection> {
    fields.entry("ejection")?;
    let ejection = fields.table("ejection");
    let (mut statuses, mut calls) = (Vec::new(), Vec::new());
    let written = match ejection.entry("statuses") {
        None => vec![Statuses::Http(502..=504), Statuses::Call("unavailable")],
        Some(_) => ejection.list("statuses", parse_any_statuses),
    };
    for read in written {
        match read {
            Statuses::Http(range) => statuses.push(range),
            Statuses::Call(status) => calls.push(status),
        }
    }
    let read = Ejection {
        failures: ejection.integer("failures").and_then(|it| u32::try_from(it).ok()),
        share: ejection.parsed("share", parse_share),
        requests: ejection.integer("requests").unwrap_or(1),
        window: ejection.duration("window"),
        statuses,
        calls,
        time: ejection.duration("time"),
        max_time: ejection.duration("max_time"),
        limit: ejection.parsed("limit", parse_share).unwrap_or(Share(0)),
    };
    let problem = |name: &str, message: &str| {
        let span = ejection.written(name).map_or(ejection.span, |entry| entry.span);
        fields.report.error(span, Flaw::new(message));
    };
    if read.time > read.max_time {
        problem("time", "`time` is longer than `max_time`");
    }
    if read.share == Some(Share(0)) {
        problem("share", "a share of 0% would eject servers that never fail");
    }
    if read.failures.is_none() && read.share.is_none() {
        problem("failures", "without `failures` and `share` nothing ejects a server");
    }
    Some(read)
}
