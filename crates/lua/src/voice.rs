//! Where the lines of scripts go.

use std::sync::Arc;

use sluice_meter::{push_log_line, push_log_report};
use sluice_net::LogWriter;

use crate::settings::Level;

/// The two outputs of a script.
#[derive(Clone, Debug)]
pub struct Voice {
    /// Lines of the logger, and errors; nowhere where a script is only tried.
    log: Option<LogWriter>,
    /// What `print` prints; a line of the log where there is nothing else.
    output: Option<LogWriter>,
    /// Whose lines they are; empty where nobody else writes.
    name: Arc<str>,
}

impl Voice {
    /// That of a program of its own.
    #[must_use]
    pub fn new(log: LogWriter, output: LogWriter) -> Self {
        Self { log: Some(log), output: Some(output), name: Arc::default() }
    }

    /// That of a part of the gateway, which says in its log who speaks.
    #[must_use]
    pub fn part(name: &str, log: Option<LogWriter>) -> Self {
        Self { log, output: None, name: name.into() }
    }

    /// The same without a sound.
    pub(crate) fn mute(&self) -> Self {
        Self { log: None, output: None, name: Arc::clone(&self.name) }
    }

    /// Waits until everything is written.
    #[cfg(test)]
    pub(crate) fn flush(&self) {
        [&self.log, &self.output].into_iter().flatten().for_each(LogWriter::flush);
    }

    /// Who speaks.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Writes a text of this level to the log, as one line whatever is in it.
    pub(crate) fn write(&self, level: Level, line: &[u8]) {
        self.put(level, line, push_log_line);
    }

    /// The same with what may have a traceback, whose lines stay lines.
    pub(crate) fn report(&self, level: Level, text: &[u8]) {
        self.put(level, text, push_log_report);
    }

    fn put(&self, level: Level, line: &[u8], push: fn(&mut Vec<u8>, &[u8])) {
        let Some(log) = &self.log else { return };
        let mut text = Vec::with_capacity(line.len() + self.name.len() + 12);
        text.extend_from_slice(level.word().as_bytes());
        text.extend_from_slice(b": ");
        // Errors of a script in the configuration name it themselves.
        if !self.name.is_empty() && !line.starts_with(self.name.as_bytes()) {
            text.extend_from_slice(self.name.as_bytes());
            text.extend_from_slice(b": ");
        }
        push(&mut text, line);
        text.push(b'\n');
        log.write(text);
    }

    /// Prints a line.
    pub(crate) fn print(&self, mut line: Vec<u8>) {
        match &self.output {
            Some(output) => {
                line.push(b'\n');
                output.write(line);
            }
            None => self.write(Level::Info, &line),
        }
    }
}
