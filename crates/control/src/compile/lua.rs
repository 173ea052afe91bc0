//! Scripts in Lua, tried before they are in force.

use std::path::PathBuf;
use std::sync::Arc;

use sluice_filter::Filter;
use sluice_lua::{Access, LuaAction, Program, Role, Settings, Text, Voice};
use sluice_model::{LuaAccess, LuaScript, LuaSource};
use sluice_net::{LogWriter, files};

use crate::flaw::plain;

/// What whoever wrote the script can do about it.
pub(super) const HELP: &str = "the message says where: behind the name stands the line of the script; docs/filters/lua.md has examples";

/// Largest script.
const MOST: usize = 16 << 20;

/// What answers the requests of a route.
pub(super) fn action(
    script: &LuaScript,
    who: &str,
    log: Option<LogWriter>,
) -> Result<Arc<dyn Filter>, String> {
    let text = match &script.source {
        LuaSource::Inline(text) => Text::Inline(text.clone()),
        LuaSource::File(path) => {
            let shown = path.display();
            let read = files::read_small(path, MOST);
            let read =
                read.map_err(|error| format!("lua: cannot read {shown}: {}", plain(&error)))?;
            Text::File(read.ok_or_else(|| format!("lua: {shown} is too large for a script"))?)
        }
    };
    let made = program(script, &text, who, log).and_then(LuaAction::new);
    match made {
        Ok(action) => Ok(Arc::new(action)),
        Err(said) => Err(format!("lua: {said}")),
    }
}

/// A script with its bounds, tried.
pub(super) fn program(
    script: &LuaScript,
    text: &Text,
    who: &str,
    log: Option<LogWriter>,
) -> Result<Arc<Program>, String> {
    let access = script.allow.iter().map(|allowed| match allowed {
        LuaAccess::Files => Access::Files,
        LuaAccess::Processes => Access::Processes,
    });
    let file = match &script.source {
        LuaSource::Inline(_) => PathBuf::new(),
        LuaSource::File(path) => path.clone(),
    };
    let settings = Settings {
        path: script.path.clone(),
        variables: script.variables.clone(),
        memory: usize::try_from(script.memory).unwrap_or(usize::MAX),
        budget: script.budget,
        access: access.collect(),
        role: Role::Part,
        ..Settings::new(file)
    };
    Program::new(settings, text, Voice::part(who, log))
}
