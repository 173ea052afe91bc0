//! Scripts in Lua: what a filter or a route does, in a few lines of one's own.

use std::path::PathBuf;
use std::time::Duration;

use crate::fields::Fields;
use crate::name::parse_name;
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
    /// Tasks that it may have on each worker, and timers that may be to come.
    pub tasks: usize,
    /// Variables of the environment that `os.getenv` finds.
    pub env: Vec<String>,
    /// What it may do beside what every script may.
    pub allow: Vec<LuaAccess>,
    /// Stores that it may use.
    pub stores: Vec<Store>,
}

/// Values that scripts share between all workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// Name in the configuration.
    pub name: String,
    /// Bytes that it may have.
    pub size: u64,
}

/// The store that is there without being declared.
const DEFAULT: &str = "default";

pub(crate) static STORE: Section = Section {
    name: "store",
    doc: "Values that scripts share between all workers, kept through reloads; its name is the key, as in \
          `[store.limits]`. The one called `default` is there without being declared.",
    keys: &[Key {
        name: "size",
        kind: Kind::Size { min: 64 << 10, max: 1 << 40, word: None },
        preset: Preset::Value("16MiB"),
        doc: "What it may have of memory; what was not used for the longest time goes when it is full.",
    }],
};

/// Reads the stores; `default` is among them.
pub(crate) fn read_stores(root: &Fields<'_, '_>) -> Vec<Store> {
    let mut stores = Vec::new();
    for (name, fields) in root.named("store") {
        root.report.accept(name.span, parse_name(name.text));
        let size = fields.size("size");
        stores.extend(size.map(|size| Store { name: name.text.to_owned(), size }));
    }
    if !stores.iter().any(|store| store.name == DEFAULT) {
        let fields = Fields::open(None, root.span, &STORE, root.report);
        let size = fields.size("size");
        stores.extend(size.map(|size| Store { name: DEFAULT.to_owned(), size }));
    }
    stores
}

/// Where a script is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LuaSource {
    /// In the configuration.
    Inline(String),
    /// In a file.
    File(PathBuf),
    /// Chunks for phases, as scripts for OpenResty are written.
    Chunks(Vec<LuaChunk>),
}

/// What is run in one phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LuaChunk {
    /// When.
    pub phase: LuaPhase,
    /// The file it is in, if it is in one.
    pub file: Option<PathBuf>,
    /// Its text, if it is in the configuration.
    pub text: String,
}

/// A phase of a script for OpenResty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LuaPhase {
    /// When the script is loaded.
    Init,
    /// When the head of a request is there.
    Rewrite,
    /// After that.
    Access,
    /// To answer.
    Content,
    /// When the head of an answer is there.
    HeaderFilter,
    /// For each piece of content of an answer.
    BodyFilter,
    /// When all is over.
    Log,
}

impl LuaPhase {
    /// All of them, in their order, with the keys that have their text and their file.
    const ALL: [(Self, &str, &str); 7] = [
        (Self::Init, "init_by_lua", "init_by_lua_file"),
        (Self::Rewrite, "rewrite_by_lua", "rewrite_by_lua_file"),
        (Self::Access, "access_by_lua", "access_by_lua_file"),
        (Self::Content, "content_by_lua", "content_by_lua_file"),
        (Self::HeaderFilter, "header_filter_by_lua", "header_filter_by_lua_file"),
        (Self::BodyFilter, "body_filter_by_lua", "body_filter_by_lua_file"),
        (Self::Log, "log_by_lua", "log_by_lua_file"),
    ];
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
    ($name:literal, $doc:literal, $changes:literal, [$($more:expr),* $(,)?], [$($phase:literal: $phase_doc:literal),* $(,)?]) => {
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
                    doc: "CPU time that the script may take without waiting for anything; others of the worker wait \
                          meanwhile.",
                },
                Key {
                    name: "tasks",
                    kind: Kind::Integer { min: 1, max: 10_000_000, word: None },
                    preset: Preset::Value("100000"),
                    doc: "Tasks that the script may have at once on each worker, those of connections included, and \
                          timers that may be to come; `fork` and `after` fail beyond.",
                },
                Key {
                    name: "env",
                    kind: Kind::Texts("name"),
                    preset: Preset::Absent("none"),
                    doc: "Variables of the environment that `os.getenv` finds; for all others it gives nil.",
                },
                Key {
                    name: "allow",
                    kind: Kind::Texts("`files` or `processes`"),
                    preset: Preset::Absent("neither"),
                    doc: "What the script may do beside what every script may: `files` is `io` and parts of `os`, \
                          `processes` is `os.execute` and `io.popen`. Both hold the worker up.",
                },
                $($more,)*
                $(
                    Key {
                        name: $phase,
                        kind: Kind::Text("Lua"),
                        preset: Preset::Absent("nothing is run"),
                        doc: concat!($phase_doc, " See docs/lua-openresty.md."),
                    },
                    Key {
                        name: concat!($phase, "_file"),
                        kind: Kind::Text("file"),
                        preset: Preset::Absent("nothing is run"),
                        doc: concat!("The same in a file, instead of `", $phase, "`."),
                    },
                )*
            ],
        }
    };
}
pub(crate) use lua_section;

pub(crate) static LUA: Section = lua_section!(
    "route.lua",
    "Answers requests by a function `answer` of a script. See docs/filters/lua.md.",
    "It is watched: a change takes effect at once, and requests that are under way end with the script they began \
     with.",
    [],
    [
        "init_by_lua": "Instead of `script`: what scripts for OpenResty run when they are loaded.",
        "rewrite_by_lua": "What they run first for each request.",
        "access_by_lua": "What they run after that.",
        "content_by_lua": "What they answer with.",
    ]
);

/// Reads what every script has.
pub(crate) fn read_script(fields: &Fields<'_, '_>) -> Option<LuaScript> {
    let chunks = read_chunks(fields)?;
    let source = match chunks.is_empty() {
        true => read_source(fields)?,
        false => LuaSource::Chunks(chunks),
    };
    read_bounds(fields, source)
}

/// What this script may do and use.
pub(crate) fn read_bounds(fields: &Fields<'_, '_>, source: LuaSource) -> Option<LuaScript> {
    let variables = fields.pairs("variables").into_iter();
    let variables = variables
        .filter_map(|(name, values)| Some((name.text.to_owned(), values.first()?.text.to_owned())));
    Some(LuaScript {
        source,
        path: fields.list("path", parse_path),
        variables: variables.collect(),
        memory: fields.size("memory")?,
        budget: fields.duration("budget"),
        tasks: usize::try_from(fields.integer("tasks")?).unwrap_or(usize::MAX),
        env: fields.list("env", parse_variable),
        allow: fields.list("allow", parse_access),
        stores: Vec::new(),
    })
}

/// The one script, where there are no phases.
fn read_source(fields: &Fields<'_, '_>) -> Option<LuaSource> {
    let report = fields.report;
    let inline = fields.text("script");
    let file = fields.written("file").and_then(|_| fields.text("file"));
    match (inline, file) {
        (Some(script), None) => Some(LuaSource::Inline(script.text.to_owned())),
        (None, Some(file)) => {
            Some(LuaSource::File(report.accept(file.span, parse_path(file.text))?))
        }
        (Some(_), Some(file)) => {
            let flaw = Flaw::new("a script is in `script` or in `file`, not in both")
                .with_help("remove one of them");
            report.error(file.span, flaw);
            None
        }
        (None, None) => {
            let flaw = Flaw::new("there is no script")
                .with_help("write it in `script`, or say in `file` where it is");
            report.error(fields.span, flaw);
            None
        }
    }
}

/// What is run in the phases of a script for OpenResty; nothing if none is written.
fn read_chunks(fields: &Fields<'_, '_>) -> Option<Vec<LuaChunk>> {
    let report = fields.report;
    let mut chunks = Vec::new();
    for (phase, inline, file) in LuaPhase::ALL {
        // Not every section has every phase.
        if !fields.knows(inline) {
            continue;
        }
        match (fields.text(inline), fields.text(file)) {
            (None, None) => {}
            (Some(text), None) => {
                chunks.push(LuaChunk { phase, file: None, text: text.text.to_owned() });
            }
            (None, Some(file)) => {
                let file = Some(report.accept(file.span, parse_path(file.text))?);
                chunks.push(LuaChunk { phase, file, text: String::new() });
            }
            (Some(_), Some(span)) => {
                let flaw =
                    Flaw::new(format!("this phase is in `{inline}` or in `{file}`, not in both"));
                report.error(span.span, flaw.with_help("remove one of them"));
                return None;
            }
        }
    }
    for other in ["script", "file"].into_iter().filter(|_| !chunks.is_empty()) {
        if let Some(written) = fields.written(other).and_then(|_| fields.text(other)) {
            let flaw = Flaw::new(format!(
                "`{other}` and phases of a script for OpenResty are in one place"
            ));
            let help = "write two filters: one with `script` or `file`, one with the phases";
            report.error(written.span, flaw.with_help(help));
            return None;
        }
    }
    Some(chunks)
}

fn parse_variable(text: &str) -> Result<String, Flaw> {
    if !text.is_empty() && !text.contains(['=', '\0']) {
        return Ok(text.to_owned());
    }
    let shown = text.escape_debug();
    Err(Flaw::new(format!("\"{shown}\" is no name of a variable of the environment"))
        .with_help("write the name alone, as in env = [\"HOME\"]"))
}

fn parse_access(text: &str) -> Result<LuaAccess, Flaw> {
    match text {
        "files" => Ok(LuaAccess::Files),
        "processes" => Ok(LuaAccess::Processes),
        other => Err(Flaw::new(format!("\"{}\" cannot be allowed", other.escape_debug()))
            .with_help("write \"files\" or \"processes\"")),
    }
}
