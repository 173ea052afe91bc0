//! The lua filter, of its options.

use sluice_lua::{LuaFilter, OnError};

use super::Tools;
use crate::compile::lua::{program, settings, text};

pub(super) fn filter(
    options: &sluice_model::Lua,
    tools: &mut Tools<'_>,
) -> Result<LuaFilter, String> {
    let text = text(&options.script.source, |path| tools.files.read(path))?;
    let who = format!("filter \"{}\"", tools.name());
    let program = program(&text, (&who, tools.log()), settings(&options.script, tools.workers()))?;
    for path in program.files() {
        // Watched with the others.
        if !tools.files.paths().any(|known| known == path) {
            tools.files.read(path)?;
        }
    }
    let on_error = options.on_error.map_or(OnError::Pass, OnError::Refuse);
    LuaFilter::new(program, on_error, tools.meter(LuaFilter::OUTCOMES))
}
