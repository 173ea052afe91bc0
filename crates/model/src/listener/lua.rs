//! Listeners whose clients speak with a script.

use crate::fields::Fields;
use crate::lua::{LuaScript, LuaSource, lua_section, read_bounds, read_script};
use crate::problem::Flaw;
use crate::respond::parse_path;
use crate::section::{Key, Kind, MOMENT, Preset, Section, YEAR};
use crate::tree::Value;

/// The script of a listener.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenerLua {
    /// The script.
    pub script: LuaScript,
    /// How many workers run it, each with a state of its own; `None` = all.
    pub workers: Option<usize>,
    /// Bytes of a connection that may wait to be read by the script.
    pub read_limit: u64,
    /// Bytes that may wait to be taken by a client.
    pub write_limit: u64,
    /// What happens when more wait.
    pub write_full: WriteFull,
}

/// What becomes of a connection whose client does not take what is written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFull {
    /// It is closed.
    Close,
    /// The script waits.
    Wait,
}

pub(super) static LUA: Section = lua_section!(
    "listener.lua",
    "A script that speaks with the clients of the listener, as with `sluice lua`: the handler it gives to `tcp.listen` \
     gets the connections, whatever address it names. The short form, `lua = \"chat.lua\"`, is its file. See docs/lua.md.",
    "It is watched: a change takes effect for connections that come after it.",
    [
        Key {
            name: "workers",
            kind: Kind::Integer { min: 1, max: 4096, word: Some("all") },
            preset: Preset::Value("1"),
            doc: "How many workers run the script, each with a state of its own: with one, all clients meet in the \
                  same variables.",
        },
        Key {
            name: "read_limit",
            kind: Kind::Size { min: 1 << 10, max: 1 << 40, word: None },
            preset: Preset::Value("16MiB"),
            doc: "Bytes of a connection that may wait to be read: a read that wants more fails.",
        },
        Key {
            name: "write_limit",
            kind: Kind::Size { min: 1 << 10, max: 1 << 40, word: None },
            preset: Preset::Value("16MiB"),
            doc: "Bytes that may wait to be taken by a client.",
        },
        Key {
            name: "write_full",
            kind: Kind::Word(&["close", "wait"]),
            preset: Preset::Value("close"),
            doc: "What happens when more wait: the connection is closed, or the script waits until the client has \
                  taken half of it.",
        },
    ],
    []
);

/// `lua = "file"` or its table; `None` if the listener speaks HTTP.
pub(super) fn read_lua(listener: &Fields<'_, '_>) -> Option<Box<ListenerLua>> {
    let report = listener.report;
    let entry = listener.entry("lua")?;
    if let Some(http2) = listener.written("http2") {
        let flaw = Flaw::new("the script of this listener speaks, and not HTTP/2")
            .with_help("remove `http2`, or write a second listener for HTTP");
        report.error(http2.span, flaw);
    }
    let (fields, script) = if let Value::Text(file) = &entry.node.value {
        let fields = Fields::open(None, entry.span, &LUA, report);
        let file = report.accept(entry.node.span, parse_path(&file.value))?;
        let script = read_bounds(&fields, LuaSource::File(file))?;
        (fields, script)
    } else {
        let fields = listener.table("lua");
        let script = read_script(&fields)?;
        (fields, script)
    };
    Some(Box::new(ListenerLua {
        script,
        workers: fields.integer("workers").and_then(|it| usize::try_from(it).ok()),
        read_limit: fields.size("read_limit")?,
        write_limit: fields.size("write_limit")?,
        write_full: match fields.word("write_full") {
            Some("wait") => WriteFull::Wait,
            _ => WriteFull::Close,
        },
    }))
}
