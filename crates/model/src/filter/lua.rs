//! The lua filter: functions of a script, called in the phases of an exchange.

use crate::fields::Fields;
use crate::lua::{LuaScript, lua_section, read_script};
use crate::section::{Key, Kind, MOMENT, Preset, Section, YEAR};
use crate::upstream::Roster;

/// A script that looks at requests and answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lua {
    /// The script.
    pub script: LuaScript,
    /// What happens to a request whose script fails: the status of the refusal, or nothing.
    pub on_error: Option<u16>,
}

pub(super) static SECTION: Section = lua_section!(
    "filter.lua",
    "Calls functions of a script in the phases of an exchange. See docs/filters/lua.md.",
    "It is watched: a change takes effect at once, and requests that are under way end with the script they began \
     with.",
    [
        Key {
            name: "on_error",
            kind: Kind::Word(&["refuse", "pass"]),
            preset: Preset::Value("refuse"),
            doc: "What happens to a request when the script fails: it is refused, or goes on as if there were no \
                  script. Content that a script was to change never passes without it.",
        },
        Key {
            name: "error_status",
            kind: Kind::Integer { min: 400, max: 599, word: None },
            preset: Preset::Value("500"),
            doc: "The status of that refusal.",
        },
    ],
    [
        "init_by_lua": "Instead of `script`: what scripts for OpenResty run when they are loaded.",
        "rewrite_by_lua": "What they run first for each request.",
        "access_by_lua": "What they run after that.",
        "header_filter_by_lua": "What they run when the head of the answer is there.",
        "body_filter_by_lua": "What they run for each piece of its content.",
        "log_by_lua": "What they run when all is over.",
    ]
);

pub(super) fn read(fields: &Fields<'_, '_>, _: &mut Roster) -> Option<Lua> {
    let refuse = fields.word("on_error") != Some("pass");
    let status = fields.integer("error_status").and_then(|it| u16::try_from(it).ok())?;
    Some(Lua { script: read_script(fields)?, on_error: refuse.then_some(status) })
}
