//! What is done when more is asked for than can be done.

use std::time::Duration;

use crate::fields::Fields;
use crate::problem::Flaw;
use crate::section::{Key, Kind, MOMENT, Preset, Section, YEAR};
use crate::size::parse_size;
use crate::tree::Value;

/// Limits of the whole gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct Overload {
    /// How many requests of all routes may be under way; `None` = any number.
    pub concurrency: Option<Concurrency>,
    /// How much memory may be used before connections are given up.
    pub memory: MemoryLimit,
}

/// How much memory may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimit {
    /// Any amount.
    Off,
    /// So many bytes.
    Bytes(u64),
    /// So many percent of what the process may have.
    Share(u8),
}

/// How many requests may be under way at once, and what becomes of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// How many may be under way.
    pub limit: ConcurrencyLimit,
    /// How many more may wait.
    pub queue: u32,
    /// How long one may wait.
    pub wait: Duration,
    /// When a client that was refused is asked to come back; whole seconds.
    pub retry_after: Duration,
}

/// How many requests may be under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConcurrencyLimit {
    /// So many.
    Fixed(u32),
    /// As many as the origins answer without growing slower.
    Adaptive(Adaptive),
}

/// A limit that follows the latency of the origins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adaptive {
    /// The lowest limit, and the first one.
    pub min: u32,
    /// The highest limit.
    pub max: u32,
    /// By how many percent the latency may exceed the baseline.
    pub tolerance: u32,
    /// How often the limit is set anew at most.
    pub window: Duration,
    /// How often the baseline is measured anew.
    pub probe: Duration,
}

pub(crate) static OVERLOAD: Section = Section {
    name: "overload",
    doc: "What the gateway does when more is asked of it than it can do.",
    keys: &[
        Key {
            name: "concurrency",
            kind: Kind::Table(&CONCURRENCY),
            preset: Preset::Absent("no limit"),
            doc: "How many requests may be under way at once, over all routes and workers. Those \
                  of a `health` route do not count.",
        },
        Key {
            name: "memory",
            kind: Kind::Text("size, percentage, or \"off\""),
            preset: Preset::Value("80%"),
            doc: "Resident memory from which on new connections are refused and idle ones closed: \
                  `\"512MiB\"`, or a share of what the control group or the machine has. `\"off\"` \
                  lets it grow.",
        },
    ],
};

pub(crate) static CONCURRENCY: Section = Section {
    name: "concurrency",
    doc: "How many requests may be under way at once, over all workers. Others wait in a queue, \
          the first first; who finds it full or waits too long is answered with 503 and \
          `Retry-After`. It has either `limit` or `adaptive`.",
    keys: &[
        Key {
            name: "limit",
            kind: Kind::Integer { min: 1, max: 1_000_000, word: None },
            preset: Preset::Absent("`adaptive`"),
            doc: "Requests under way at once.",
        },
        Key {
            name: "adaptive",
            kind: Kind::Table(&ADAPTIVE),
            preset: Preset::Absent("`limit`"),
            doc: "Finds the limit by itself, from the latency of the origins; `{}` takes the \
                  defaults below.",
        },
        Key {
            name: "queue",
            kind: Kind::Integer { min: 0, max: 1_000_000, word: None },
            preset: Preset::Value("0"),
            doc: "Requests that may wait. A client that leaves frees its place.",
        },
        Key {
            name: "wait",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("1s"),
            doc: "How long a request may wait.",
        },
        Key {
            name: "retry_after",
            kind: Kind::Duration { min: Duration::from_secs(1), max: YEAR },
            preset: Preset::Value("1s"),
            doc: "When a client that was refused is asked to come back. Sent in whole seconds.",
        },
    ],
};

static ADAPTIVE: Section = Section {
    name: "concurrency.adaptive",
    doc: "A limit that follows the latency of the origins: it rises while it is made use of and \
          answers come as fast as they did with few requests under way, and falls when they grow \
          slower.",
    keys: &[
        Key {
            name: "min",
            kind: Kind::Integer { min: 1, max: 1_000_000, word: None },
            preset: Preset::Value("10"),
            doc: "The lowest limit, and the one to begin with.",
        },
        Key {
            name: "max",
            kind: Kind::Integer { min: 1, max: 1_000_000, word: None },
            preset: Preset::Value("1000"),
            doc: "The highest limit.",
        },
        Key {
            name: "tolerance",
            kind: Kind::Integer { min: 1, max: 1000, word: None },
            preset: Preset::Value("25"),
            doc: "Percent by which the latency may exceed the baseline before the limit falls.",
        },
        Key {
            name: "window",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("100ms"),
            doc: "How often the limit is set anew at most; it takes 32 answers at least.",
        },
        Key {
            name: "probe",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("30s"),
            doc: "How often the baseline is measured anew: for a few windows the limit is halved.",
        },
    ],
};

pub(crate) fn read_overload(fields: &Fields<'_, '_>) -> Overload {
    let memory = fields.parsed("memory", parse_memory).unwrap_or(MemoryLimit::Off);
    Overload { concurrency: read_concurrency(fields), memory }
}

fn parse_memory(text: &str) -> Result<MemoryLimit, Flaw> {
    if text == "off" {
        return Ok(MemoryLimit::Off);
    }
    let Some(percent) = text.strip_suffix('%') else {
        return match parse_size(text)? {
            0 => {
                Err(Flaw::new("without any memory nobody is served")
                    .with_help("\"off\" is no limit"))
            }
            bytes => Ok(MemoryLimit::Bytes(bytes)),
        };
    };
    match percent.trim_end().parse::<u8>() {
        Ok(percent @ 1..=100) => Ok(MemoryLimit::Share(percent)),
        _ => Err(Flaw::new(format!("\"{}\" is not a share", text.escape_debug()))
            .with_help("write a percentage from \"1%\" to \"100%\"")),
    }
}

/// The limit under the key `concurrency`, if it is written.
pub(crate) fn read_concurrency(owner: &Fields<'_, '_>) -> Option<Concurrency> {
    let entry = owner.entry("concurrency")?;
    let fields = owner.table("concurrency");
    let count = |name| fields.integer(name).and_then(|it| u32::try_from(it).ok());
    let fixed = count("limit");
    let adaptive = fields.entry("adaptive").map(|_| read_adaptive(&fields.table("adaptive")));
    let queue = count("queue").unwrap_or_default();
    let (wait, retry_after) = (fields.duration("wait"), fields.duration("retry_after"));
    let concurrency = |limit| Concurrency { limit, queue, wait, retry_after };
    match (fixed, adaptive) {
        (Some(limit), None) => Some(concurrency(ConcurrencyLimit::Fixed(limit))),
        (None, Some(adaptive)) => Some(concurrency(ConcurrencyLimit::Adaptive(adaptive))),
        (Some(_), Some(_)) => {
            let flaw = Flaw::new("`limit` and `adaptive` exclude each other")
                .with_help("write the highest limit as `adaptive = { max = ... }`");
            fields.report.error(entry.span, flaw);
            None
        }
        (None, None) => {
            let is_table = matches!(entry.node.value, Value::Table(_));
            if is_table && fields.written("limit").is_none() && fields.written("adaptive").is_none()
            {
                let flaw = Flaw::new("this limits nothing")
                    .with_help("write `limit = 100`, or `adaptive = {}`");
                fields.report.error(entry.span, flaw);
            }
            None
        }
    }
}

fn read_adaptive(fields: &Fields<'_, '_>) -> Adaptive {
    let count = |name| fields.integer(name).and_then(|it| u32::try_from(it).ok());
    let adaptive = Adaptive {
        min: count("min").unwrap_or_default(),
        max: count("max").unwrap_or_default(),
        tolerance: count("tolerance").unwrap_or_default(),
        window: fields.duration("window"),
        probe: fields.duration("probe"),
    };
    let written = || fields.entry("min").or_else(|| fields.entry("max"));
    if adaptive.min > adaptive.max
        && let Some(entry) = written()
    {
        let message = format!("`min` is {}, more than `max`: {}", adaptive.min, adaptive.max);
        fields.report.error(entry.node.span, Flaw::new(message));
    }
    adaptive
}
