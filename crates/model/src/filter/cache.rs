//! The cache: answers that are kept and given again.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use sluice_expression::{Phase, Scope};

use super::{ACCESS, AccessControl};
use crate::address::parse_network;
use crate::duration::parse_duration;
use crate::expression::{Expression, read_condition};
use crate::fields::Fields;
use crate::header::{parse_field_name, parse_response_field};
use crate::nearest::suggestion;
use crate::problem::Flaw;
use crate::respond::parse_path;
use crate::section::{Key, Kind, Preset, Section, YEAR};
use crate::upstream::Roster;

/// What is kept, for how long, and what tells answers apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// Bytes that may be kept.
    pub memory: u64,
    /// Bytes of content that one answer may have.
    pub entry_limit: u64,
    /// What tells answers apart.
    pub key: Vec<CacheKeyPart>,
    /// Whether parameters are put in order.
    pub query_by_name: bool,
    /// Parameters that do not count; a star at the end stands for any rest.
    pub query_ignore: Vec<String>,
    /// Parameters that alone count, if there are any.
    pub query_only: Vec<String>,
    /// How long answers are fresh where the origin does not say, by status.
    pub ttl: Vec<(RangeInclusive<u16>, Duration)>,
    /// How long stale answers are given while they are refreshed.
    pub stale_while_revalidate: Duration,
    /// How long stale answers are given while the origin fails.
    pub stale_if_error: Duration,
    /// What requests with cookies come to.
    pub cookies: CacheCookies,
    /// Whether answers that set cookies are kept without them.
    pub strip_set_cookie: bool,
    /// Targeted fields, the most important first.
    pub targeted: Vec<String>,
    /// Whether clients' `Cache-Control` counts.
    pub heed_clients: bool,
    /// How long a request waits for what another one asked for.
    pub wait: Duration,
    /// Requests that have nothing to do with the cache.
    pub bypass: Option<Expression>,
    /// Kinds of access control behind it that hits do not pass.
    pub hits_skip: Vec<String>,
    /// Who may purge by the method PURGE.
    pub purge_from: Vec<IpNet>,
    /// Fields that answers name their tags in.
    pub tags: Vec<String>,
    /// Where answers outlive the process.
    pub disk: Option<CacheDisk>,
}

/// A folder that answers are kept in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheDisk {
    /// The folder.
    pub path: PathBuf,
    /// Bytes that all may take that is kept in it.
    pub size: u64,
    /// Bytes of content that one answer may have.
    pub entry_limit: u64,
}

/// A part of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheKeyPart {
    /// How the connection was opened.
    Scheme,
    /// Host and port.
    Host,
    /// The path.
    Path,
    /// The query.
    Query,
    /// A header field.
    Header(String),
    /// A cookie.
    Cookie(String),
}

/// What requests with cookies come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheCookies {
    /// Their answers are kept if the origin says that they are for everybody.
    Careful,
    /// They are like others.
    Ignore,
    /// They go to the origin, and nothing is kept of them.
    Bypass,
}

pub(super) static SECTION: Section = Section {
    name: "filter.cache",
    doc: "Keeps answers and gives them again, as RFC 9111 allows a shared cache. See docs/filters/cache.md.",
    keys: &[
        Key {
            name: "memory",
            kind: Kind::Size { min: 1 << 20, max: 1 << 44, word: None },
            preset: Preset::Value("256MiB"),
            doc: "How much memory answers may take, with their heads and tables. What is wanted least goes first.",
        },
        Key {
            name: "entry_limit",
            kind: Kind::Size { min: 1, max: 1 << 40, word: None },
            preset: Preset::Value("8MiB"),
            doc: "Answers with more content than this are not kept in memory; on the `disk`, if there is one.",
        },
        Key {
            name: "key",
            kind: Kind::Texts("scheme, host, path, query, header:NAME or cookie:NAME"),
            preset: Preset::Absent("scheme, host, path and query"),
            doc: "What tells answers apart, beside what they name in `Vary`. Whatever else of a request changes what \
                  the origin answers has to stand here, or clients get what is meant for others. The path is \
                  always part of it.",
        },
        Key {
            name: "query_order",
            kind: Kind::Word(&["as_sent", "by_name"]),
            preset: Preset::Value("as_sent"),
            doc: "`by_name` puts parameters in order, so that `?a=1&b=2` and `?b=2&a=1` are the same. The origin is \
                  asked in that order, too.",
        },
        Key {
            name: "query_ignore",
            kind: Kind::Texts("name, or beginning and `*`"),
            preset: Preset::Absent("none"),
            doc: "Parameters that do not count, such as `utm_*`. The origin is asked without them, so that nobody can \
                  change with them what others get.",
        },
        Key {
            name: "query_only",
            kind: Kind::Texts("name, or beginning and `*`"),
            preset: Preset::Absent("all"),
            doc: "The parameters that count; the origin is asked with these alone. Not beside `query_ignore`.",
        },
        Key {
            name: "ttl",
            kind: Kind::Pairs("duration"),
            preset: Preset::Absent("such answers are not kept"),
            doc: "How long answers are fresh whose origin does not say, by status: `{ \"200\" = \"10m\", \"404\" = \
                  \"30s\", \"5xx\" = \"1s\" }`. The first that fits counts. What an origin forbids is not kept.",
        },
        Key {
            name: "stale_while_revalidate",
            kind: Kind::Duration { min: Duration::ZERO, max: YEAR },
            preset: Preset::Value("0s"),
            doc: "How long an answer that is no longer fresh is given while it is refreshed in the background, where \
                  the origin does not say (RFC 5861).",
        },
        Key {
            name: "stale_if_error",
            kind: Kind::Duration { min: Duration::ZERO, max: YEAR },
            preset: Preset::Value("0s"),
            doc: "How long an answer that is no longer fresh is given while the origin cannot be reached or answers \
                  with 500, 502, 503 or 504, where the origin does not say (RFC 5861).",
        },
        Key {
            name: "cookies",
            kind: Kind::Word(&["careful", "ignore", "bypass"]),
            preset: Preset::Value("careful"),
            doc: "Requests with cookies: with `careful` their answers are kept if the origin says `public`, `s-maxage` \
                  or speaks to caches alone; with `ignore` they are like others; with `bypass` they go to the \
                  origin, and nothing is kept of them.",
        },
        Key {
            name: "set_cookie",
            kind: Kind::Word(&["refuse", "strip"]),
            preset: Preset::Value("refuse"),
            doc: "Answers that set cookies are not kept, or with `strip` kept without them: only the client whose \
                  request it was gets them.",
        },
        Key {
            name: "targeted",
            kind: Kind::Texts("header name"),
            preset: Preset::Absent("CDN-Cache-Control"),
            doc: "Fields that origins speak to this cache with, before `Cache-Control` (RFC 9213); the first that is \
                  there counts.",
        },
        Key {
            name: "client_directives",
            kind: Kind::Word(&["heed", "ignore"]),
            preset: Preset::Value("heed"),
            doc: "Whether what clients say in `Cache-Control` counts: `no-cache`, which has the origin asked, and \
                  the others of RFC 9111, 5.2.1.",
        },
        Key {
            name: "wait",
            kind: Kind::Duration { min: Duration::from_millis(1), max: YEAR },
            preset: Preset::Value("10s"),
            doc: "How long a request waits for the answer to another one that asks for the same; then it asks for \
                  itself.",
        },
        Key {
            name: "bypass",
            kind: Kind::Text("condition"),
            preset: Preset::Absent("none"),
            doc: "Requests that go to the origin and of which nothing is kept, such as \
                  `\"request.header['x-preview']\"`.",
        },
        Key {
            name: "hits_skip",
            kind: Kind::Texts("kind of filter"),
            preset: Preset::Absent("none: such filters stand in front of the cache"),
            doc: "Kinds of access control, such as `key_auth`, that may stand behind this filter: a hit is given \
                  without asking them, so that everybody gets what they let through once.",
        },
        Key {
            name: "purge_from",
            kind: Kind::Texts("address or network"),
            preset: Preset::Absent("PURGE is a method like others"),
            doc: "Clients that may take answers out with the method PURGE; others get 403.",
        },
        Key {
            name: "tags",
            kind: Kind::Texts("header name"),
            preset: Preset::Absent("Surrogate-Key and Cache-Tag"),
            doc: "Fields of answers that name tags to purge by, between spaces or commas. Clients do not get them.",
        },
        Key {
            name: "disk",
            kind: Kind::Table(&DISK),
            preset: Preset::Absent("a restart begins with nothing"),
            doc: "A folder that answers are kept in, too, so that they outlive the process and may be more and larger \
                  than memory holds.",
        },
    ],
};

static DISK: Section = Section {
    name: "filter.cache.disk",
    doc: "Where answers are kept that outlive the process. Caches that name the same folder share it.",
    keys: &[
        Key {
            name: "path",
            kind: Kind::Text("folder"),
            preset: Preset::Required,
            doc: "The folder. It is made if it is not there, and belongs to one process at a time.",
        },
        Key {
            name: "size",
            kind: Kind::Size { min: 1 << 20, max: 1 << 50, word: None },
            preset: Preset::Required,
            doc: "How many bytes all files in it may take, in whole blocks of 4 KiB. What is wanted least goes first.",
        },
        Key {
            name: "entry_limit",
            kind: Kind::Size { min: 1, max: 1 << 50, word: None },
            preset: Preset::Value("1GiB"),
            doc: "Answers with more content than this are not kept on the disk.",
        },
    ],
};

pub(super) fn read(fields: &Fields<'_, '_>, _: &mut Roster) -> Option<Cache> {
    let duration = |name| fields.duration(name);
    let or = |list: Vec<String>, others: &[&str]| match list.is_empty() {
        true => others.iter().map(|name| (*name).to_owned()).collect(),
        false => list,
    };
    if let (Some(entry), Some(_)) = (fields.written("query_only"), fields.written("query_ignore")) {
        let flaw = Flaw::new("`query_only` and `query_ignore` exclude each other");
        fields.report.error(entry.span, flaw);
    }
    let mut key = fields.list("key", parse_part);
    if key.is_empty() {
        key =
            vec![CacheKeyPart::Scheme, CacheKeyPart::Host, CacheKeyPart::Path, CacheKeyPart::Query];
    }
    Some(Cache {
        memory: fields.size("memory")?,
        entry_limit: fields.size("entry_limit")?,
        key,
        query_by_name: fields.word("query_order") == Some("by_name"),
        query_ignore: fields.list("query_ignore", parse_parameter),
        query_only: fields.list("query_only", parse_parameter),
        ttl: read_ttl(fields),
        stale_while_revalidate: duration("stale_while_revalidate"),
        stale_if_error: duration("stale_if_error"),
        cookies: match fields.word("cookies") {
            Some("ignore") => CacheCookies::Ignore,
            Some("bypass") => CacheCookies::Bypass,
            _ => CacheCookies::Careful,
        },
        strip_set_cookie: fields.word("set_cookie") == Some("strip"),
        targeted: or(fields.list("targeted", parse_response_field), &["CDN-Cache-Control"]),
        heed_clients: fields.word("client_directives") != Some("ignore"),
        wait: duration("wait"),
        bypass: read_condition(fields, "bypass", &Scope::new(Phase::Request)),
        hits_skip: fields.list("hits_skip", parse_access_kind),
        purge_from: fields.list("purge_from", parse_network),
        tags: or(fields.list("tags", parse_response_field), &["Surrogate-Key", "Cache-Tag"]),
        disk: fields.written("disk").and_then(|_| read_disk(&fields.table("disk"))),
    })
}

fn read_disk(fields: &Fields<'_, '_>) -> Option<CacheDisk> {
    let (path, size) = (fields.parsed("path", parse_path), fields.size("size"));
    let entry_limit = fields.size("entry_limit");
    Some(CacheDisk { path: path?, size: size?, entry_limit: entry_limit? })
}

fn parse_part(text: &str) -> Result<CacheKeyPart, Flaw> {
    match text.split_once(':') {
        None => match text {
            "scheme" => Ok(CacheKeyPart::Scheme),
            "host" => Ok(CacheKeyPart::Host),
            "path" => Ok(CacheKeyPart::Path),
            "query" => Ok(CacheKeyPart::Query),
            _ => Err(unknown_part(text)),
        },
        Some(("header", name)) => parse_field_name(name).map(CacheKeyPart::Header),
        Some(("cookie", name)) if !name.is_empty() => Ok(CacheKeyPart::Cookie(name.to_owned())),
        Some(_) => Err(unknown_part(text)),
    }
}

fn unknown_part(text: &str) -> Flaw {
    Flaw::new(format!("no key has a part \"{text}\""))
        .with_help("write scheme, host, path, query, header:NAME or cookie:NAME")
}

/// The key of a kind of filters that may say who gets something.
fn parse_access_kind(text: &str) -> Result<String, Flaw> {
    let deciding = ACCESS.iter().filter(|(_, access)| *access != AccessControl::Never);
    let known = deciding.map(|(key, _)| *key);
    if known.clone().any(|key| key == text) {
        return Ok(text.to_owned());
    }
    let mut flaw = Flaw::new(format!("\"{text}\" is not a kind of filter that controls access"));
    flaw.help = suggestion(text, known, "kinds");
    Err(flaw)
}

fn parse_parameter(text: &str) -> Result<String, Flaw> {
    if text.is_empty() || text.contains(['&', '=', '#', ' ']) {
        return Err(Flaw::new(format!("\"{text}\" is not the name of a parameter")));
    }
    Ok(text.to_owned())
}

fn read_ttl(fields: &Fields<'_, '_>) -> Vec<(RangeInclusive<u16>, Duration)> {
    let mut all = Vec::new();
    for (status, durations) in fields.pairs("ttl") {
        let range = fields.report.accept(status.span, parse_statuses(status.text));
        for duration in durations {
            let duration = fields.report.accept(duration.span, parse_duration(duration.text));
            all.extend(range.clone().zip(duration));
        }
    }
    all
}

/// `404`, `5xx` or `200-299`.
fn parse_statuses(text: &str) -> Result<RangeInclusive<u16>, Flaw> {
    let number =
        |text: &str| text.parse::<u16>().ok().filter(|status| (200..=599).contains(status));
    let range = match (text.strip_suffix("xx"), text.split_once('-')) {
        (Some(class), _) => number(&format!("{class}00")).map(|first| first..=first + 99),
        (None, Some((from, to))) => number(from).zip(number(to)).map(|(from, to)| from..=to),
        (None, None) => number(text).map(|status| status..=status),
    };
    range.filter(|range| !range.is_empty()).ok_or_else(|| {
        Flaw::new(format!("\"{text}\" is no status of an answer"))
            .with_help("write \"404\", \"5xx\" or \"200-299\"")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_one_a_class_or_a_range() {
        for (text, expected) in [
            ("404", Some(404..=404)),
            ("5xx", Some(500..=599)),
            ("200-299", Some(200..=299)),
            ("299-200", None),
            ("1xx", None),
            ("600", None),
            ("", None),
            ("abc", None),
        ] {
            assert_eq!(parse_statuses(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn parts_of_keys_are_words_headers_and_cookies() {
        assert_eq!(parse_part("host").unwrap(), CacheKeyPart::Host);
        assert_eq!(parse_part("header:X-A").unwrap(), CacheKeyPart::Header("x-a".to_owned()));
        assert_eq!(parse_part("cookie:a").unwrap(), CacheKeyPart::Cookie("a".to_owned()));
        for wrong in ["", "hosts", "header:", "header:a b", "cookie:", "query:a"] {
            assert!(parse_part(wrong).is_err(), "{wrong}");
        }
    }
}
