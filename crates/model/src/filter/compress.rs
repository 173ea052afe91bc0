//! The compress filter: content of answers made smaller on its way to clients.

use super::media::media_range;
use crate::fields::Fields;
use crate::problem::Flaw;
use crate::section::{Key, Kind, Preset, Section};
use crate::upstream::Roster;

/// What is made smaller, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compress {
    /// The encodings, the best first.
    pub encodings: Vec<ContentEncoding>,
    /// How much is done to make content smaller.
    pub levels: EncodingLevels,
    /// Media types of content that is made smaller: whole ones, `text/*`, `*+json`.
    pub types: Vec<String>,
    /// Bytes below which content stays as it is.
    pub minimum: u64,
    /// Bytes of what was compressed once and is kept.
    pub memory: u64,
    /// Whether answers are compressed that another site asks for with the user's credentials.
    pub cross_site: bool,
}

/// An encoding that content is put into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentEncoding {
    /// `gzip`.
    Gzip,
    /// `br`.
    Brotli,
    /// `zstd`.
    Zstd,
}

/// The level of each encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodingLevels {
    /// 1 to 9.
    pub gzip: u32,
    /// 0 to 11.
    pub brotli: u32,
    /// 1 to 22.
    pub zstd: u32,
}

pub(super) static SECTION: Section = Section {
    name: "filter.compress",
    doc: "Makes content of answers smaller on its way to clients that accept it so.",
    keys: &[
        Key {
            name: "encodings",
            kind: Kind::Texts("encoding"),
            preset: Preset::Absent("`br`, `zstd`, `gzip`"),
            doc: "Encodings that are made, the best first: of those that a client likes equally well, it gets the \
                  first.",
        },
        Key {
            name: "levels",
            kind: Kind::Table(&LEVELS),
            preset: Preset::Absent("the levels below"),
            doc: "How much is done to make content smaller, by encoding.",
        },
        Key {
            name: "types",
            kind: Kind::Texts("media type"),
            preset: Preset::Absent(
                "texts, JSON, JavaScript, XML, WebAssembly, plain fonts and pictures",
            ),
            doc: "Media types of content that is made smaller: `\"text/html\"`, `\"text/*\"`, `\"*+json\"`. gRPC \
                  never is.",
        },
        Key {
            name: "minimum",
            kind: Kind::Size { min: 0, max: u64::MAX, word: None },
            preset: Preset::Value("1KiB"),
            doc: "Content that is known to be smaller stays as it is.",
        },
        Key {
            name: "memory",
            kind: Kind::Size { min: 0, max: u64::MAX, word: None },
            preset: Preset::Value("32MiB"),
            doc: "Bytes of memory for what was compressed once and may be asked for again; `0` keeps nothing.",
        },
        Key {
            name: "cross_site",
            kind: Kind::Flag,
            preset: Preset::Value("false"),
            doc: "`true` compresses answers also where the page of another site asks for them, with the user's \
                  cookies or credentials and without a click. By the length of such answers that site may find \
                  out secrets in them (BREACH).",
        },
    ],
};

static LEVELS: Section = Section {
    name: "filter.compress.levels",
    doc: "How much is done to make content smaller.",
    keys: &[
        Key {
            name: "gzip",
            kind: Kind::Integer { min: 1, max: 9, word: None },
            preset: Preset::Value("6"),
            doc: "From 1, the fastest, to 9.",
        },
        Key {
            name: "br",
            kind: Kind::Integer { min: 0, max: 11, word: None },
            preset: Preset::Value("5"),
            doc: "From 0, the fastest, to 11. From 10 on it takes a hundred times as long.",
        },
        Key {
            name: "zstd",
            kind: Kind::Integer { min: 1, max: 22, word: None },
            preset: Preset::Value("6"),
            doc: "From 1, the fastest, to 22. No level looks back further than the 8 MiB that every client takes.",
        },
    ],
};

/// Types of content that becomes smaller.
const TYPES: [&str; 16] = [
    "text/*",
    "application/json",
    "*+json",
    "application/javascript",
    "application/x-javascript",
    "application/x-ndjson",
    "application/xml",
    "*+xml",
    "application/wasm",
    "application/vnd.ms-fontobject",
    "application/rtf",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/x-icon",
    "image/vnd.microsoft.icon",
];

const NAMES: [(&str, ContentEncoding); 3] = [
    ("br", ContentEncoding::Brotli),
    ("zstd", ContentEncoding::Zstd),
    ("gzip", ContentEncoding::Gzip),
];

pub(super) fn read(fields: &Fields<'_, '_>, _: &mut Roster) -> Option<Compress> {
    let mut types = fields.list("types", media_range);
    if fields.written("types").is_none() {
        types = TYPES.map(str::to_owned).to_vec();
    }
    let levels = fields.table("levels");
    let level = |name, preset| {
        levels.integer(name).and_then(|level| u32::try_from(level).ok()).unwrap_or(preset)
    };
    Some(Compress {
        encodings: read_encodings(fields),
        levels: EncodingLevels {
            gzip: level("gzip", 6),
            brotli: level("br", 5),
            zstd: level("zstd", 6),
        },
        types,
        minimum: fields.size("minimum").unwrap_or(1024),
        memory: fields.size("memory").unwrap_or(32 * 1024 * 1024),
        cross_site: fields.flag("cross_site").unwrap_or_default(),
    })
}

fn read_encodings(fields: &Fields<'_, '_>) -> Vec<ContentEncoding> {
    let Some(entry) = fields.written("encodings") else {
        return NAMES.map(|(_, encoding)| encoding).to_vec();
    };
    let mut encodings = Vec::new();
    let phrases = fields.phrases("encodings");
    for phrase in &phrases {
        let known = NAMES.iter().find(|(name, _)| *name == phrase.text);
        let flaw = match known {
            None => Flaw::new(format!("no encoding \"{}\" is made", phrase.text.escape_debug()))
                .with_help("\"br\", \"zstd\" or \"gzip\""),
            Some((_, encoding)) if encodings.contains(encoding) => {
                Flaw::new(format!("\"{}\" is in the list twice", phrase.text))
            }
            Some((_, encoding)) => {
                encodings.push(*encoding);
                continue;
            }
        };
        fields.report.error(phrase.span, flaw);
    }
    if phrases.is_empty() {
        let flaw = Flaw::new("this compresses nothing").with_help("\"br\", \"zstd\" or \"gzip\"");
        fields.report.error(entry.span, flaw);
    }
    encodings
}
