//! Scripts in Lua, tried before they are in force.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluice_filter::Filter;
use sluice_lua::{Access, LuaAction, Phase, PhaseText, Program, Role, Settings, Text, Voice};
use sluice_model::{LuaAccess, LuaPhase, LuaScript, LuaSource};
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
    let read = |path: &Path| {
        let shown = path.display();
        let read = files::read_small(path, MOST);
        let read = read.map_err(|error| format!("lua: cannot read {shown}: {}", plain(&error)))?;
        read.ok_or_else(|| format!("lua: {shown} is too large for a script"))
    };
    let text = text(&script.source, read)?;
    let made = program(script, &text, who, log).and_then(LuaAction::new);
    match made {
        Ok(action) => Ok(Arc::new(action)),
        Err(said) => Err(format!("lua: {said}")),
    }
}

/// The text of a script, of which some may be in files.
pub(super) fn text(
    source: &LuaSource,
    mut read: impl FnMut(&Path) -> Result<Vec<u8>, String>,
) -> Result<Text, String> {
    Ok(match source {
        LuaSource::Inline(text) => Text::Inline(text.clone()),
        LuaSource::File(path) => Text::File(read(path)?),
        LuaSource::Chunks(chunks) => {
            let mut texts = Vec::new();
            for chunk in chunks {
                let text = match &chunk.file {
                    Some(path) => read(path)?,
                    None => chunk.text.clone().into_bytes(),
                };
                texts.push(PhaseText { phase: phase(chunk.phase), file: chunk.file.clone(), text });
            }
            Text::Phases(texts)
        }
    })
}

const fn phase(phase: LuaPhase) -> Phase {
    match phase {
        LuaPhase::Init => Phase::Init,
        LuaPhase::Rewrite => Phase::Rewrite,
        LuaPhase::Access => Phase::Access,
        LuaPhase::Content => Phase::Content,
        LuaPhase::HeaderFilter => Phase::HeaderFilter,
        LuaPhase::BodyFilter => Phase::BodyFilter,
        LuaPhase::Log => Phase::Log,
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
        // `require` looks beside the first of them.
        LuaSource::Chunks(chunks) => {
            chunks.iter().find_map(|chunk| chunk.file.clone()).unwrap_or_default()
        }
    };
    let sizes = script
        .stores
        .iter()
        .map(|store| (store.name.clone(), usize::try_from(store.size).unwrap_or(usize::MAX)));
    let settings = Settings {
        path: script.path.clone(),
        variables: script.variables.clone(),
        memory: usize::try_from(script.memory).unwrap_or(usize::MAX),
        budget: script.budget,
        access: access.collect(),
        role: Role::Part,
        stores: sizes.collect(),
        ..Settings::new(file)
    };
    Program::new(settings, text, Voice::part(who, log))
}
