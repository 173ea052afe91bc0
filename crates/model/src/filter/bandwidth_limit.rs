//! The limit of bandwidth: how fast a connection may be.

use crate::fields::Fields;
use crate::problem::Flaw;
use crate::section::{Key, Kind, Preset, Section};
use crate::upstream::Roster;

/// How fast a connection may be, in bytes a second. At least one direction is limited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BandwidthLimit {
    /// What its client gets; `None` = as fast as it can.
    pub download: Option<u64>,
    /// What its client sends; `None` = as fast as it can.
    pub upload: Option<u64>,
    /// Bytes that may go at once, in each direction.
    pub burst: u64,
}

/// Nobody has a line that is faster.
const FASTEST: u64 = 1 << 40;

pub(super) static SECTION: Section = Section {
    name: "filter.bandwidth_limit",
    doc: "Holds connections to so many bytes a second. At least one of `download` and `upload` is needed. All \
          requests of a connection share what it allows.",
    keys: &[
        Key {
            name: "download",
            kind: Kind::Size { min: 1, max: FASTEST, word: None },
            preset: Preset::Absent("as fast as it can"),
            doc: "Bytes a second that the client of a connection gets.",
        },
        Key {
            name: "upload",
            kind: Kind::Size { min: 1, max: FASTEST, word: None },
            preset: Preset::Absent("as fast as it can"),
            doc: "Bytes a second that the client of a connection may send as content of requests. It is held \
                  back: no more is read.",
        },
        Key {
            name: "burst",
            kind: Kind::Size { min: 0, max: FASTEST, word: None },
            preset: Preset::Value("0"),
            doc: "Bytes that go at full speed before the limit holds, in each direction. They come back at the \
                  rate of the limit while less is used. A tenth of a second's worth goes at once in any case.",
        },
    ],
};

pub(super) fn read(fields: &Fields<'_, '_>, _: &mut Roster) -> Option<BandwidthLimit> {
    let (download, upload) = (fields.size("download"), fields.size("upload"));
    let burst = fields.size("burst")?;
    if fields.written("download").is_none() && fields.written("upload").is_none() {
        let flaw = Flaw::new("this limits nothing")
            .with_help("say `download`, `upload` or both, such as download = \"1MiB\"");
        fields.report.error(fields.span, flaw);
        return None;
    }
    Some(BandwidthLimit { download, upload, burst })
}
