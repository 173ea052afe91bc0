//! The action that answers from files.

use std::path::PathBuf;
use std::time::Duration;

use crate::fields::Fields;
use crate::header::parse_field_value;
use crate::nearest::suggestion;
use crate::place::Span;
use crate::problem::Flaw;
use crate::report::Report;
use crate::respond::parse_path;
use crate::section::{Key, Kind, Preset, Section};
use crate::tree::{Node, Value};

/// Answers from the files of a folder.
#[derive(Clone, Debug, PartialEq)]
pub struct Files {
    /// The folder.
    pub root: PathBuf,
    /// The beginning of paths that is left out, without a slash at its end; empty = nothing.
    pub strip_prefix: String,
    /// Names looked for in folders, in this order.
    pub index: Vec<String>,
    /// What is tried, in this order: paths with `{path}` for what was asked for, or `=404`.
    pub attempts: Vec<String>,
    /// Whether folders are listed.
    pub listing: bool,
    /// Whether names that begin with a dot exist.
    pub hidden: bool,
    /// Media types by extension, without dots and in lower case.
    pub types: Vec<(String, String)>,
    /// The media type of everything else.
    pub default_type: String,
    /// Character set of text; `None` = it is not said.
    pub charset: Option<String>,
    /// `Cache-Control` by pattern.
    pub cache_control: Vec<(String, String)>,
    /// Patterns of what is saved and not shown.
    pub download: Vec<String>,
    /// Encodings that lie beside files.
    pub precompressed: Vec<Precompressed>,
    /// What is kept of files.
    pub cache: FileCache,
}

/// An encoding that lies beside a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precompressed {
    /// `.br`
    Brotli,
    /// `.zst`
    Zstandard,
    /// `.gz`
    Gzip,
}

/// What is kept of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileCache {
    /// Names.
    pub entries: u64,
    /// Bytes of content in all.
    pub memory: u64,
    /// Bytes a file may have to be kept in memory.
    pub file: u64,
    /// How long a name is taken for what it was.
    pub check: Duration,
}

static CACHE: Section = Section {
    name: "route.files.cache",
    doc: "What the server keeps of files that are asked for often, so that they cost the disk nothing.",
    keys: &[
        Key {
            name: "entries",
            kind: Kind::Integer { min: 1, max: 1_000_000, word: None },
            preset: Preset::Value("4096"),
            doc: "Names the workers remember together: files that are open or in memory, folders, and names \
                  that do not exist.",
        },
        Key {
            name: "memory",
            kind: Kind::Size { min: 0, max: 1 << 40, word: None },
            preset: Preset::Value("64MiB"),
            doc: "Bytes of content the workers keep together.",
        },
        Key {
            name: "file",
            kind: Kind::Size { min: 0, max: 16 << 20, word: None },
            preset: Preset::Value("64KiB"),
            doc: "Larger files are not kept in memory: the kernel sends them from where it has them.",
        },
        Key {
            name: "check",
            kind: Kind::Duration { min: Duration::ZERO, max: Duration::from_secs(3600) },
            preset: Preset::Value("1s"),
            doc: "How long a name is taken for what it was when it was last looked at. A file that has changed \
                  is answered anew after that at the latest.",
        },
    ],
};

pub(crate) static FILES: Section = Section {
    name: "route.files",
    doc: "Answers from the files of a folder. The short form, `files = \"/srv/www\"`, is the folder.",
    keys: &[
        Key {
            name: "root",
            kind: Kind::Text("path"),
            preset: Preset::Required,
            doc: "The folder. Neither `..` nor symbolic links lead out of it.",
        },
        Key {
            name: "strip_prefix",
            kind: Kind::Text("path"),
            preset: Preset::Absent("the whole path is looked for"),
            doc: "The beginning of paths that is no part of the names of files: with `\"/static\"`, \
                  `/static/a.css` is the file `a.css`.",
        },
        Key {
            name: "index",
            kind: Kind::Texts("file name"),
            preset: Preset::Absent("`index.html`"),
            doc: "What a folder is answered with: the first of these files that is in it. An empty list is none.",
        },
        Key {
            name: "try",
            kind: Kind::Texts("path"),
            preset: Preset::Absent("`{path}`"),
            doc: "What is tried until something is there: paths beneath the root, in which `{path}` is what \
                  was asked for, and at the end, if wanted, a status: `[\"{path}\", \"{path}.html\", \
                  \"/index.html\"]`, `[\"{path}\", \"=410\"]`.",
        },
        Key {
            name: "listing",
            kind: Kind::Flag,
            preset: Preset::Value("false"),
            doc: "`true` answers folders without an index with a list of what is in them, as HTML, or as JSON \
                  for who prefers that.",
        },
        Key {
            name: "hidden",
            kind: Kind::Flag,
            preset: Preset::Value("false"),
            doc: "`true` answers for names that begin with a dot as for others. Else they do not exist, except \
                  for `.well-known` in the root.",
        },
        Key {
            name: "types",
            kind: Kind::Pairs("media type"),
            preset: Preset::Absent("those everybody knows"),
            doc: "Media types by extension, before those the server knows: `{ \"foo\" = \"text/x-foo\" }`.",
        },
        Key {
            name: "default_type",
            kind: Kind::Text("media type"),
            preset: Preset::Value("application/octet-stream"),
            doc: "The media type of files whose extension nobody knows.",
        },
        Key {
            name: "charset",
            kind: Kind::Text("character set"),
            preset: Preset::Value("utf-8"),
            doc: "The character set of types that are text; `\"off\"` says none.",
        },
        Key {
            name: "cache_control",
            kind: Kind::Pairs("value"),
            preset: Preset::Absent("not said"),
            doc: "Values of `Cache-Control` by pattern, of which the first that matches counts: \
                  `{ \"*.html\" = \"no-cache\", \"/assets/*\" = \"max-age=31536000, immutable\" }`. `*` stands \
                  for any characters; a pattern without a slash is for the name of the file.",
        },
        Key {
            name: "download",
            kind: Kind::Texts("pattern"),
            preset: Preset::Absent("none"),
            doc: "Patterns of files that browsers are to save under their name and not to show, written as for \
                  `cache_control`.",
        },
        Key {
            name: "precompressed",
            kind: Kind::Texts("encoding"),
            preset: Preset::Absent("none"),
            doc: "Encoded forms that may lie beside files: `\"br\"` (`.br`), `\"zstd\"` (`.zst`), `\"gzip\"` \
                  (`.gz`). A client gets the one it likes best; of those it likes as well the first.",
        },
        Key {
            name: "cache",
            kind: Kind::Table(&CACHE),
            preset: Preset::Absent("its defaults"),
            doc: "What is kept of files that are asked for often.",
        },
    ],
};

/// `files = "folder"` or its table.
pub(crate) fn read_files(node: &Node, span: Span, report: &Report<'_>) -> Option<Files> {
    let short = match &node.value {
        Value::Text(text) => Some(&text.value),
        _ => None,
    };
    // The short form has the defaults of the table.
    let fields = match short {
        Some(_) => Fields::open(None, span, &FILES, report),
        None => Fields::open(Some(node), span, &FILES, report),
    };
    let root = match short {
        Some(text) => report.accept(node.span, parse_path(text)),
        None => fields.parsed("root", parse_path),
    };
    let index = match fields.written("index") {
        Some(_) => fields.list("index", parse_name),
        None => vec!["index.html".to_owned()],
    };
    let attempts = read_attempts(&fields);
    let charset = fields.parsed("charset", parse_field_value);
    Some(Files {
        strip_prefix: fields.parsed("strip_prefix", parse_prefix).unwrap_or_default(),
        index,
        attempts,
        listing: fields.flag("listing").unwrap_or(false),
        hidden: fields.flag("hidden").unwrap_or(false),
        types: read_pairs(&fields, "types", parse_extension, parse_media),
        default_type: fields.parsed("default_type", parse_media).unwrap_or_default(),
        charset: charset.filter(|it| it != "off"),
        cache_control: read_pairs(&fields, "cache_control", parse_pattern, parse_field_value),
        download: fields.list("download", parse_pattern),
        precompressed: fields.list("precompressed", parse_encoding),
        cache: read_cache(&fields.table("cache")),
        root: root?,
    })
}

fn read_cache(fields: &Fields<'_, '_>) -> FileCache {
    FileCache {
        entries: fields.integer("entries").unwrap_or(1),
        memory: fields.size("memory").unwrap_or(0),
        file: fields.size("file").unwrap_or(0),
        check: fields.duration("check"),
    }
}

fn read_attempts(fields: &Fields<'_, '_>) -> Vec<String> {
    let Some(entry) = fields.written("try") else { return vec!["{path}".to_owned()] };
    let phrases = fields.phrases("try");
    let last = phrases.len().saturating_sub(1);
    let mut attempts = Vec::new();
    for (place, it) in phrases.into_iter().enumerate() {
        let parsed = parse_attempt(it.text).and_then(|text| match text.starts_with('=') {
            true if place < last => Err(Flaw::new("nothing is tried after a status")
                .with_help("put the status at the end of the list")),
            _ => Ok(text),
        });
        attempts.extend(fields.report.accept(it.span, parsed));
    }
    if attempts.is_empty() && !fields.report.has_errors() {
        let flaw = Flaw::new("the list `try` is empty, so nothing could be found")
            .with_help("remove the key to look for what is asked for");
        fields.report.error(entry.node.span, flaw);
    }
    attempts
}

fn parse_attempt(text: &str) -> Result<String, Flaw> {
    if let Some(status) = text.strip_prefix('=') {
        return match status.parse() {
            Ok(400_u16..=599) => Ok(text.to_owned()),
            _ => Err(Flaw::new(format!("\"{status}\" is not a status from 400 to 599"))
                .with_help("write it like \"=404\"")),
        };
    }
    let plain = text.replace("{path}", "");
    if plain.contains(['{', '}']) {
        return Err(Flaw::new(format!("\"{text}\" has a name in braces that is not known"))
            .with_help("the path that was asked for is {path}"));
    }
    if text.is_empty() || text.contains('\0') || text.split('/').any(|name| name == "..") {
        return Err(Flaw::new(format!("\"{}\" is no path beneath the root", text.escape_debug())));
    }
    Ok(text.to_owned())
}

fn parse_prefix(text: &str) -> Result<String, Flaw> {
    match text.starts_with('/') {
        true => Ok(text.trim_end_matches('/').to_owned()),
        false => Err(Flaw::new(format!(
            "the path \"{}\" does not begin with a slash",
            text.escape_debug()
        ))),
    }
}

fn parse_name(text: &str) -> Result<String, Flaw> {
    match text.is_empty() || text.contains(['/', '\0']) || matches!(text, "." | "..") {
        true => Err(Flaw::new(format!("\"{}\" is not the name of a file", text.escape_debug()))),
        false => Ok(text.to_owned()),
    }
}

fn parse_extension(text: &str) -> Result<String, Flaw> {
    let plain = text.trim_start_matches('.').to_ascii_lowercase();
    match plain.is_empty() || plain.contains(['/', '.', '*']) {
        true => Err(Flaw::new(format!("\"{}\" is not an extension", text.escape_debug()))
            .with_help("write what is behind the last dot of the name: \"html\"")),
        false => Ok(plain),
    }
}

fn parse_media(text: &str) -> Result<String, Flaw> {
    let (main, sub) = text.split_once('/').unwrap_or_default();
    match main.is_empty() || sub.is_empty() || text.chars().any(char::is_control) {
        true => Err(Flaw::new(format!("\"{}\" is not a media type", text.escape_debug()))
            .with_help("write it like \"text/html\"")),
        false => Ok(text.to_owned()),
    }
}

fn parse_pattern(text: &str) -> Result<String, Flaw> {
    match text.is_empty() || text.contains('/') && !text.starts_with(['/', '*']) {
        true => {
            Err(Flaw::new(format!("the pattern \"{}\" could never match", text.escape_debug()))
                .with_help("begin it with a slash, or write the name of a file without one"))
        }
        false => Ok(text.to_owned()),
    }
}

fn parse_encoding(text: &str) -> Result<Precompressed, Flaw> {
    match text {
        "br" => Ok(Precompressed::Brotli),
        "zstd" => Ok(Precompressed::Zstandard),
        "gzip" => Ok(Precompressed::Gzip),
        _ => {
            let mut flaw = Flaw::new(format!("there is no encoding \"{}\"", text.escape_debug()));
            flaw.help = suggestion(text, ["br", "zstd", "gzip"], "encodings");
            Err(flaw)
        }
    }
}

/// Names and values, each read by a parser of its own.
fn read_pairs(
    fields: &Fields<'_, '_>,
    key: &str,
    name: impl Fn(&str) -> Result<String, Flaw>,
    value: impl Fn(&str) -> Result<String, Flaw>,
) -> Vec<(String, String)> {
    let report = fields.report;
    let mut pairs = Vec::new();
    for (phrase, values) in fields.pairs(key) {
        let checked = report.accept(phrase.span, name(phrase.text));
        for it in values {
            let value = report.accept(it.span, value(it.text));
            pairs.extend(checked.clone().zip(value));
        }
    }
    pairs
}
