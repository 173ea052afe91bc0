//! Files of scripts that change while the program runs: those of routes and listeners.

use std::path::Path;
use std::sync::Arc;

use sluice_lua::Program;

use super::Supervisor;
use crate::event::Event;
use crate::flaw::plain;

impl Supervisor {
    /// These scripts are in force: watches the files they are made of.
    pub(super) fn follow_scripts(&mut self, scripts: &[Arc<Program>]) {
        self.scripts = scripts.to_vec();
        let paths = scripts.iter().flat_map(|program| program.files()).cloned().collect();
        let sender = self.sender.clone();
        let deliver = move |_: Option<&Path>| drop(sender.send(Event::ScriptChanged));
        if let Err(error) = self.script_files.follow(paths, deliver) {
            self.voice.warn(&format!(
                "changes of scripts go unnoticed ({}); SIGHUP still reads them",
                plain(&error)
            ));
        }
    }

    /// Whether a file is not what it was when its script was put in force.
    pub(super) fn has_new_scripts(&self) -> bool {
        !self.scripts.iter().all(|program| program.is_unchanged())
    }
}
