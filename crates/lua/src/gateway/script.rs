//! A script and its bounds, as every worker runs it.

use sluice_filter::Owner;

use crate::settings::Settings;

/// What a script is.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) settings: Settings,
    /// Its text: one chunk, or one for each phase.
    pub(crate) chunks: Vec<Chunk>,
    /// Whose notes are its own.
    pub(crate) owner: Owner,
}

/// Text of a script.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// When it is run; when the script is loaded, as the whole of it, if there is no phase.
    pub(crate) phase: Option<Phase>,
    pub(crate) text: Vec<u8>,
    /// How LuaJIT calls it in messages.
    pub(crate) name: String,
}

/// A phase of a script for OpenResty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
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

impl Phase {
    /// Its name, as `ngx.get_phase` has it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Rewrite => "rewrite",
            Self::Access => "access",
            Self::Content => "content",
            Self::HeaderFilter => "header_filter",
            Self::BodyFilter => "body_filter",
            Self::Log => "log",
        }
    }
}
