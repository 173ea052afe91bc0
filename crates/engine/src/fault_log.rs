//! Faults in plain words on standard error, never more than a reader can follow.

use std::cell::Cell;
use std::fmt::Display;
use std::io::Write;

use sluice_meter::{push_iso_date, push_log_report};
use sluice_net::{LogWriter, unix_ms};

use crate::answer::Level;

/// Lines per second and worker; what goes beyond is counted and told later.
const PER_SECOND: u32 = 10;

/// One worker's voice.
pub(crate) struct FaultLog {
    writer: LogWriter,
    second: Cell<u64>,
    lines: Cell<u32>,
    kept_back: Cell<u64>,
}

impl FaultLog {
    pub(crate) const fn new(writer: LogWriter) -> Self {
        Self { writer, second: Cell::new(0), lines: Cell::new(0), kept_back: Cell::new(0) }
    }

    /// Writes a line, unless it is silent or the second has had its share.
    pub(crate) fn write(&self, level: Level, line: impl Display) {
        let word = match level {
            Level::Silent => return,
            Level::Info => "info",
            Level::Warn => "warning",
            Level::Error => "error",
        };
        let now = unix_ms();
        let second = now / 1000;
        if self.second.replace(second) != second {
            self.lines.set(0);
        }
        if self.lines.get() >= PER_SECOND {
            self.kept_back.set(self.kept_back.get() + 1);
            return;
        }
        self.lines.set(self.lines.get() + 1);
        let mut text = Vec::new();
        let kept_back = self.kept_back.take();
        if kept_back > 0 {
            push_iso_date(now, &mut text);
            // Writing to memory cannot fail.
            let _ = writeln!(text, " {word}: {kept_back} more lines like these were left out");
        }
        push_iso_date(now, &mut text);
        text.push(b' ');
        // Lines hold what peers have sent and what scripts say.
        push_log_report(&mut text, format!("{word}: {line}").as_bytes());
        text.push(b'\n');
        self.writer.write(text);
    }
}
