//! Where the lines of scripts go.

use sluice_net::LogWriter;

use crate::settings::Level;

/// The two outputs of a script.
#[derive(Clone, Debug)]
pub struct Voice {
    /// Lines of the logger, and errors.
    pub log: LogWriter,
    /// What `print` prints.
    pub output: LogWriter,
}

impl Voice {
    /// Writes a line of this level to the log.
    pub(crate) fn write(&self, level: Level, line: &[u8]) {
        let mut text = Vec::with_capacity(line.len() + 10);
        text.extend_from_slice(level.word().as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(line);
        text.push(b'\n');
        self.log.write(text);
    }

    /// Prints a line.
    pub(crate) fn print(&self, mut line: Vec<u8>) {
        line.push(b'\n');
        self.output.write(line);
    }
}
