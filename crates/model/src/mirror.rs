//! Copies of a route's requests for another upstream.

use crate::fields::Fields;
use crate::place::Span;
use crate::problem::Flaw;
use crate::section::{Key, Kind, Preset, Section};
use crate::share::{Share, parse_share};
use crate::tree::Value;
use crate::upstream::Roster;

/// Copies of a route's requests for another upstream.
#[derive(Clone, Debug, PartialEq)]
pub struct Mirror {
    /// The position of the upstream in `Model::upstreams`.
    pub upstream: usize,
    /// Which part of the requests is copied.
    pub share: Share,
    /// Bytes of content beyond which a request is not copied.
    pub body_limit: u64,
    /// Copies under way, by each worker, beyond which there are no more.
    pub at_once: u32,
}

pub(crate) static MIRROR: Section = Section {
    name: "route.mirror",
    doc: "Copies of a route's requests for another upstream, whose answers are thrown away. The \
          request itself neither waits for them nor fails with them.",
    keys: &[
        Key {
            name: "to",
            kind: Kind::Text("upstream name or server address"),
            preset: Preset::Required,
            doc: "The upstream that gets the copies, written like `proxy`.",
        },
        Key {
            name: "share",
            kind: Kind::Text("share"),
            preset: Preset::Value("100%"),
            doc: "Which part of the requests is copied.",
        },
        Key {
            name: "body_limit",
            kind: Kind::Size { min: 0, max: 64 << 20, word: None },
            preset: Preset::Value("64KiB"),
            doc: "Content is kept up to this size, to be sent with the copy. Requests with more are \
                  not copied.",
        },
        Key {
            name: "at_once",
            kind: Kind::Integer { min: 1, max: 100_000, word: None },
            preset: Preset::Value("100"),
            doc: "How many copies each worker may have under way to the upstream. Beyond it requests \
                  are not copied.",
        },
    ],
};

/// What the key of a route says; it may be the short form.
pub(crate) fn read_mirror(route: &Fields<'_, '_>, roster: &mut Roster) -> Option<Mirror> {
    let entry = route.entry("mirror");
    let short = matches!(entry.map(|entry| &entry.node.value), Some(Value::Text(_)));
    let node = entry.filter(|_| !short).map(|entry| &entry.node);
    let span = entry.map_or_else(Span::default, |entry| entry.span);
    let fields = Fields::open(node, span, &MIRROR, route.report);
    let share = fields.parsed("share", parse_share)?;
    let body_limit = fields.size("body_limit")?;
    let at_once = fields.integer("at_once").and_then(|it| u32::try_from(it).ok())?;
    let to = if short { route.text("mirror") } else { fields.text("to") };
    if entry.is_some() && route.written("proxy").is_none() {
        let flaw = Flaw::new("only requests that go to an upstream can be copied to another")
            .with_help("give the route `proxy`, or remove `mirror`");
        route.report.error(span, flaw);
        return None;
    }
    let upstream = roster.find(to?, route.report)?;
    Some(Mirror { upstream, share, body_limit, at_once })
}
