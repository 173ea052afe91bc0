//! The program's own words on standard error.

use sluice_model::Style;
use sluice_net::LogWriter;

/// Says what happens, in whole lines. A reader that does not read stops nobody.
#[derive(Clone, Debug)]
pub(crate) struct Voice {
    writer: LogWriter,
    style: Style,
}

impl Voice {
    pub(crate) const fn new(writer: LogWriter, style: Style) -> Self {
        Self { writer, style }
    }

    /// How problems are shown.
    pub(crate) const fn style(&self) -> Style {
        self.style
    }

    /// Says it, as a line or several.
    pub(crate) fn say(&self, text: &str) {
        let mut lines = text.to_owned();
        if !lines.ends_with('\n') {
            lines.push('\n');
        }
        self.writer.write(lines.into_bytes());
    }

    /// What is not as it should be, but nothing to stop for.
    pub(crate) fn warn(&self, text: &str) {
        match self.style {
            Style::Plain => self.say(&format!("warning: {text}")),
            Style::Coloured => self.say(&format!("\u{1b}[1;33mwarning\u{1b}[0m: {text}")),
        }
    }
}
