//! Scripts in Lua, tried before they are in force.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluice_filter::{Filter, Service};
use sluice_lua::{
    Access, Encryption, ListenerRole, LuaAction, LuaService, Phase, PhaseText, Program, Role,
    Settings, Text, Voice, WriteFull,
};
use sluice_model::{Listener, ListenerLua, LuaAccess, LuaPhase, LuaScript, LuaSource};
use sluice_net::{LogWriter, files};

use super::listener_element;
use crate::flaw::plain;

/// What whoever wrote the script can do about it.
pub(super) const HELP: &str = "the message says where: behind the name stands the line of the script; docs/filters/lua.md has examples";

/// The same for a script that speaks with the clients of a listener.
pub(super) const SERVICE_HELP: &str = "the message says where: behind the name stands the line of the script; docs/lua.md has examples";

/// Largest script.
const MOST: usize = 16 << 20;

/// What answers the requests of a route, and the script it does that by.
pub(super) fn action(
    script: &LuaScript,
    (who, workers): (&str, usize),
    log: Option<LogWriter>,
) -> Result<(Arc<dyn Filter>, Arc<Program>), String> {
    let text = text(&script.source, read)?;
    let made = program(&text, (who, log), settings(script, workers));
    let made = made.and_then(|it| Ok((LuaAction::new(Arc::clone(&it))?, it)));
    match made {
        Ok((action, program)) => Ok((Arc::new(action), program)),
        Err(said) => Err(format!("lua: {said}")),
    }
}

/// What speaks with the clients of a listener, and the script it does that by.
pub(super) fn service(
    (listener, lua): (&Listener, &ListenerLua),
    workers: usize,
    log: Option<LogWriter>,
) -> Result<(Arc<dyn Service>, Arc<Program>), String> {
    let bytes = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
    let settings = Settings {
        read_limit: bytes(lua.read_limit),
        write_limit: bytes(lua.write_limit),
        write_full: match lua.write_full {
            sluice_model::WriteFull::Close => WriteFull::Close,
            sluice_model::WriteFull::Wait => WriteFull::Wait,
        },
        role: Role::Listener(ListenerRole {
            name: listener.name.clone(),
            address: listener.address.to_string(),
            encryption: match listener.tls {
                None => Encryption::Script,
                Some(_) => Encryption::Gateway,
            },
        }),
        ..settings(&lua.script, workers)
    };
    let who = listener_element(&listener.name);
    let text = text(&lua.script.source, read)?;
    let program = program(&text, (&who, log), settings).map_err(|said| format!("lua: {said}"))?;
    Ok((Arc::new(LuaService::new(Arc::clone(&program), lua.workers)), program))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let read = files::read_small(path, MOST);
    let read = read.map_err(|error| format!("lua: cannot read {shown}: {}", plain(&error)))?;
    read.ok_or_else(|| format!("lua: {shown} is too large for a script"))
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
    text: &Text,
    (who, log): (&str, Option<LogWriter>),
    settings: Settings,
) -> Result<Arc<Program>, String> {
    Program::new(settings, text, Voice::part(who, log))
}

/// The bounds of a script that so many workers run.
pub(super) fn settings(script: &LuaScript, workers: usize) -> Settings {
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
    Settings {
        path: script.path.clone(),
        variables: script.variables.clone(),
        memory: usize::try_from(script.memory).unwrap_or(usize::MAX),
        budget: script.budget,
        tasks: script.tasks,
        env: script.env.clone(),
        access: access.collect(),
        role: Role::Part,
        workers,
        stores: sizes.collect(),
        ..Settings::new(file)
    }
}
