//! A script and its bounds, as every worker runs it.

use sluice_filter::Owner;

use crate::settings::Settings;

/// What a script is.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) settings: Settings,
    /// Its text.
    pub(crate) text: Vec<u8>,
    /// How LuaJIT calls it in messages.
    pub(crate) chunk: String,
    /// Whose notes are its own.
    pub(crate) owner: Owner,
}
