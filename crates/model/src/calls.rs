//! What holds for the gRPC calls of a route.

use std::time::Duration;

use crate::fields::Fields;
use crate::problem::Flaw;
use crate::section::{Key, Kind, MOMENT, Preset, Section, YEAR};

/// What holds for the gRPC calls of a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// The longest a call may take; `None` = what its client says.
    pub max_timeout: Option<Duration>,
    /// What becomes of calls in the form for browsers.
    pub web: WebCalls,
}

/// What becomes of calls in the form for browsers (gRPC-Web).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WebCalls {
    /// They are passed on as they are.
    #[default]
    Passed,
    /// Upstreams get plain gRPC.
    Translated,
}

pub(crate) static CALLS: Section = Section {
    name: "route.grpc",
    doc: "What holds for the gRPC calls of a route that has `proxy`. Calls are recognised by their \
          content type; everything else about them needs no configuration.",
    keys: &[
        Key {
            name: "max_timeout",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Absent("what the client says in `grpc-timeout`"),
            doc: "The longest a call may take, streams included, also if its client gives it more time \
              or says nothing. The upstream is told how much of it is left.",
        },
        Key {
            name: "web",
            kind: Kind::Flag,
            preset: Preset::Absent("`false`"),
            doc: "`true` translates gRPC-Web, binary or text, into gRPC and back, for upstreams that \
              speak nothing else.",
        },
    ],
};

pub(crate) fn read_calls(route: &Fields<'_, '_>) -> Calls {
    let fields = route.table("grpc");
    if let Some(entry) = route.written("grpc")
        && route.written("proxy").is_none()
    {
        let flaw = Flaw::new("only calls that go to an upstream are touched by `grpc`")
            .with_help("give the route `proxy`, or remove `grpc`");
        route.report.error(entry.span, flaw);
    }
    let most = fields.duration("max_timeout");
    let web = match fields.flag("web") {
        Some(true) => WebCalls::Translated,
        _ => WebCalls::Passed,
    };
    Calls { max_timeout: fields.written("max_timeout").map(|_| most), web }
}
