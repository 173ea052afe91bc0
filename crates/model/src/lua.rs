//! Scripts in Lua: what a filter or a route does, in a few lines of one's own.

use std::path::PathBuf;
use std::time::Duration;

use crate::fields::Fields;
use crate::problem::Flaw;
use crate::respond::parse_path;
use crate::section::{Key, Kind, MOMENT, Preset, Section, YEAR};

/// A script and its bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LuaScript {
    /// The script.
    pub source: LuaSource,
    /// Folders that `require` looks in.
    pub path: Vec<PathBuf>,
    /// What the script finds in `silly.env`.
    pub variables: Vec<(String, String)>,
    /// Bytes of memory that it may use on each worker.
    pub memory: u64,
    /// CPU time that it may take without waiting for anything.
    pub budget: Duration,
    /// What it may do beside what every script may.
    pub allow: Vec<LuaAccess>,
}

/// Where a script is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LuaSource {
    /// In the configuration.
    Inline(String),
    /// In a file.
    File(PathBuf),
}

/// What a script may be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LuaAccess {
    /// Read and write files.
    Files,
    /// Start processes.
    Processes,
}

/// The keys of every script, and those of one kind of it.
macro_rules! lua_section {
    ($name:literal, $doc:literal, $changes:literal, [$($more:expr),* $(,)?]) => {
        Section {
            name: $name,
            doc: $doc,
            keys: &[
                Key {
                    name: "script",
                    kind: Kind::Text("Lua"),
                    preset: Preset::Absent("`file`"),
                    doc: "The script itself; one of `script` and `file` is there.",
                },
                Key {
                    name: "file",
                    kind: Kind::Text("file"),
                    preset: Preset::Absent("`script`"),
                    doc: concat!("The file of the script. ", $changes),
                },
                Key {
                    name: "path",
                    kind: Kind::Texts("folder"),
                    preset: Preset::Absent("the folder of `file`"),
                    doc: "Where `require` looks for modules, after the folder of `file`.",
                },
                Key {
                    name: "variables",
                    kind: Kind::Pairs("text"),
                    preset: Preset::Absent("none"),
                    doc: "What the script gets by `require('silly.env').get(name)`.",
                },
                Key {
                    name: "memory",
                    kind: Kind::Size { min: 4 << 20, max: 64 << 30, word: None },
                    preset: Preset::Value("64MiB"),
                    doc: "What the script may use of memory, on each worker.",
                },
                Key {
                    name: "budget",
                    kind: Kind::Duration { min: MOMENT, max: YEAR },
                    preset: Preset::Value("100ms"),
                    doc: "CPU time that the script may take for a request without waiting for anything; others of \
                          the worker wait meanwhile.",
                },
                Key {
                    name: "allow",
                    kind: Kind::Texts("`files` or `processes`"),
                    preset: Preset::Absent("neither"),
                    doc: "What the script may do beside what every script may: `files` is `io` and parts of `os`, \
                          `processes` is `os.execute` and `io.popen`. Both hold the worker up.",
                },
                $($more,)*
            ],
        }
    };
}
pub(crate) use lua_section;

pub(crate) static LUA: Section = lua_section!(
    "route.lua",
    "Answers requests by a function `answer` of a script. See docs/filters/lua.md.",
    "It is read again with the configuration.",
    []
);

/// Reads what every script has.
pub(crate) fn read_script(fields: &Fields<'_, '_>) -> Option<LuaScript> {
    let report = fields.report;
    let inline = fields.text("script");
    let file = fields.written("file").and_then(|_| fields.text("file"));
    let source = match (inline, file) {
        (Some(script), None) => LuaSource::Inline(script.text.to_owned()),
        (None, Some(file)) => LuaSource::File(report.accept(file.span, parse_path(file.text))?),
        (Some(_), Some(file)) => {
            let flaw = Flaw::new("a script is in `script` or in `file`, not in both")
                .with_help("remove one of them");
            report.error(file.span, flaw);
            return None;
        }
        (None, None) => {
            let flaw = Flaw::new("there is no script")
                .with_help("write it in `script`, or say in `file` where it is");
            report.error(fields.span, flaw);
            return None;
        }
    };
    let variables = fields.pairs("variables").into_iter();
    let variables = variables
        .filter_map(|(name, values)| Some((name.text.to_owned(), values.first()?.text.to_owned())));
    Some(LuaScript {
        source,
        path: fields.list("path", parse_path),
        variables: variables.collect(),
        memory: fields.size("memory")?,
        budget: fields.duration("budget"),
        allow: fields.list("allow", parse_access),
    })
}

fn parse_access(text: &str) -> Result<LuaAccess, Flaw> {
    match text {
        "files" => Ok(LuaAccess::Files),
        "processes" => Ok(LuaAccess::Processes),
        other => Err(Flaw::new(format!("\"{}\" cannot be allowed", other.escape_debug()))
            .with_help("write \"files\" or \"processes\"")),
    }
}
