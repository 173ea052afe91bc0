//! When a request to an upstream is tried again.

use std::time::Duration;

use crate::fields::Fields;
use crate::problem::Flaw;
use crate::section::{Key, Kind, MOMENT, Preset, Section, YEAR};
use crate::share::{Share, parse_share};
use crate::status::{CALL, parse_call};

/// When a request is tried again.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// Tries after the first.
    pub attempts: u32,
    /// What a try must have come to.
    pub on: Vec<RetryCondition>,
    /// Which requests may reach a server twice.
    pub repeatable: Repeatable,
    /// How long one try may take until the head of its answer is there.
    pub per_try_timeout: Option<Duration>,
    /// How many retries there may be; `None` = as many as `attempts` allows.
    pub budget: Option<RetryBudget>,
    /// Bytes of content that are kept for another try; 0 = none.
    pub buffer: u64,
    /// When another server is asked beside a slow one; `None` = never.
    pub hedge: Option<Hedge>,
}

/// When another server is asked beside a slow one.
#[derive(Clone, Debug, PartialEq)]
pub struct Hedge {
    /// How long those asked so far may take.
    pub after: Duration,
    /// How many are asked beside the first.
    pub most: u32,
}

/// Something a try can come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryCondition {
    /// No connection could be opened.
    Connect,
    /// The connection ended before the first byte of an answer.
    Reset,
    /// Time ran out before the first byte of an answer.
    Timeout,
    /// An answer with one of these statuses, from the first to the last.
    Statuses(u16, u16),
    /// A gRPC call that failed so, one of [`crate::CALL_FAILURES`].
    Call(&'static str),
}

/// Which requests may reach a server twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeatable {
    /// Those that do no more when they are repeated (RFC 9110, 9.2.2).
    Idempotent,
    /// All.
    All,
}

/// How many retries there may be beside first tries.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryBudget {
    /// Retries in proportion to requests.
    pub share: Share,
    /// Retries a second, by each worker, that are always allowed.
    pub minimum: u32,
}

pub(super) static RETRY: Section = Section {
    name: "upstream.retry",
    doc: "When a request is tried again, on another server if there is one. A request of which a \
          server may have seen something is only tried again if repeating it does no more than \
          sending it once, and if none of its content is gone.",
    keys: &[
        Key {
            name: "attempts",
            kind: Kind::Integer { min: 0, max: 100, word: None },
            preset: Preset::Value("1"),
            doc: "How often a request is tried again after the first try; 0 never does.",
        },
        Key {
            name: "on",
            kind: Kind::Texts("condition"),
            preset: Preset::Absent("`\"connect\"`"),
            doc: "What a try must have come to: `\"connect\"` for no connection, `\"reset\"` for \
                  a connection that ended before the first byte of an answer, `\"timeout\"` for \
                  none in time, `\"503\"` for an answer of this status, `\"5xx\"` for one of this \
                  class, `\"grpc:unavailable\"` for a gRPC call that ended so before anything else of \
                  its answer came.",
        },
        Key {
            name: "non_idempotent",
            kind: Kind::Flag,
            preset: Preset::Absent("`false`"),
            doc: "Whether requests are tried again too whose repetition may do something twice: \
                  POST, PATCH and methods nobody knows.",
        },
        Key {
            name: "per_try_timeout",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Absent("`timeout.read` alone"),
            doc: "How long one try may take, from its start to the head of the answer. The time a \
                  client takes to send its content does not count.",
        },
        Key {
            name: "budget",
            kind: Kind::Table(&BUDGET),
            preset: Preset::Absent("no limit but `attempts`"),
            doc: "How many retries there may be beside first tries, so that a failing upstream is \
                  not asked many times as much.",
        },
        Key {
            name: "buffer",
            kind: Kind::Size { min: 0, max: 64 << 20, word: Some("off") },
            preset: Preset::Value("off"),
            doc: "Content of a request up to this size is kept while it goes up, so that it can \
                  be sent again. Larger content streams and is sent once.",
        },
        Key {
            name: "hedge",
            kind: Kind::Table(&HEDGE),
            preset: Preset::Absent("never"),
            doc: "Asks another server beside one that takes long, for requests without content \
                  that change nothing (GET, HEAD, OPTIONS, TRACE).",
        },
    ],
};

static BUDGET: Section = Section {
    name: "upstream.retry.budget",
    doc: "How many retries there may be. Beyond it the first failure is passed on.",
    keys: &[
        Key {
            name: "share",
            kind: Kind::Text("share"),
            preset: Preset::Value("20%"),
            doc: "Retries in proportion to requests.",
        },
        Key {
            name: "minimum",
            kind: Kind::Integer { min: 0, max: 1_000_000, word: None },
            preset: Preset::Value("10"),
            doc: "Retries a second that each worker may make however few requests there are.",
        },
    ],
};

static HEDGE: Section = Section {
    name: "upstream.retry.hedge",
    doc: "When another server is asked beside a slow one. The first answer is passed on, the other \
          request is given up. Each counts as one of the `attempts`, and against the `budget`.",
    keys: &[
        Key {
            name: "after",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Required,
            doc: "How long a server may take until the head of its answer before the next one is \
                  asked too. Choose a time that few answers take.",
        },
        Key {
            name: "most",
            kind: Kind::Integer { min: 1, max: 10, word: None },
            preset: Preset::Value("1"),
            doc: "How many servers are asked beside the first.",
        },
    ],
};

pub(super) fn read_retry(fields: &Fields<'_, '_>) -> Retry {
    let retry = fields.table("retry");
    let attempts = retry.integer("attempts").and_then(|it| u32::try_from(it).ok());
    let on = match retry.entry("on") {
        Some(_) => retry.list("on", parse_condition),
        None => vec![RetryCondition::Connect],
    };
    let per_try_timeout = retry.duration("per_try_timeout");
    let per_try_timeout = retry.written("per_try_timeout").map(|entry| {
        if !retry.report.has_errors() && !on.contains(&RetryCondition::Timeout) {
            let message = "no try follows one that took too long: `on` does not name \"timeout\"";
            retry.report.warning(entry.span, Flaw::new(message));
        }
        per_try_timeout
    });
    let budget = read_budget(&retry.table("budget"));
    let hedge = read_hedge(&retry.table("hedge"));
    if let Some(entry) = retry.written("hedge").filter(|_| attempts == Some(0)) {
        let message = "no other server is asked beside a slow one: `attempts` is 0";
        retry.report.warning(entry.span, Flaw::new(message));
    }
    Retry {
        attempts: attempts.unwrap_or_default(),
        on,
        repeatable: match retry.flag("non_idempotent") {
            Some(true) => Repeatable::All,
            _ => Repeatable::Idempotent,
        },
        per_try_timeout,
        budget: retry.written("budget").and(budget),
        buffer: retry.size("buffer").unwrap_or_default(),
        hedge: retry.written("hedge").map(|_| hedge),
    }
}

fn read_hedge(fields: &Fields<'_, '_>) -> Hedge {
    let most = fields.integer("most").and_then(|it| u32::try_from(it).ok());
    Hedge { after: fields.duration("after"), most: most.unwrap_or(1) }
}

fn read_budget(fields: &Fields<'_, '_>) -> Option<RetryBudget> {
    let minimum = fields.integer("minimum").and_then(|it| u32::try_from(it).ok());
    Some(RetryBudget { share: fields.parsed("share", parse_share)?, minimum: minimum? })
}

fn parse_condition(text: &str) -> Result<RetryCondition, Flaw> {
    let status = |text: &str| text.parse::<u16>().ok().filter(|it| (400..=599).contains(it));
    match text {
        "connect" => Ok(RetryCondition::Connect),
        "reset" => Ok(RetryCondition::Reset),
        "timeout" => Ok(RetryCondition::Timeout),
        "4xx" => Ok(RetryCondition::Statuses(400, 499)),
        call if call.starts_with(CALL) => parse_call(call).map(RetryCondition::Call),
        "5xx" => Ok(RetryCondition::Statuses(500, 599)),
        text => match status(text) {
            Some(status) => Ok(RetryCondition::Statuses(status, status)),
            None => {
                let message = format!("\"{}\" is nothing to try again on", text.escape_debug());
                let help = "write \"connect\", \"reset\", \"timeout\", a status from \"400\" to \
                            \"599\", \"4xx\", \"5xx\", or how a gRPC call ended: \"grpc:unavailable\"";
                Err(Flaw::new(message).with_help(help))
            }
        },
    }
}
