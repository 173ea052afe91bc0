//! The line that shows how a run is getting on.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use crate::figures::{count, float, time};
use crate::run::{Phase, Progress, Watcher};

/// A watcher that writes to standard error: one line that is written over and over to a terminal,
/// one line a second to anything else.
#[must_use]
pub fn watcher() -> Watcher {
    let mut line = match std::io::stderr().is_terminal() {
        true => Line::Rewritten { width: 0 },
        false => Line::Repeated,
    };
    Box::new(move |progress| line.show(&text(progress)))
}

/// A watcher that says nothing.
#[must_use]
pub fn silence() -> Watcher {
    Box::new(|_| {})
}

/// Takes the line away, so that the report begins where it stood.
pub fn clear() {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        // There is nobody else to tell.
        let _ = stderr.write_all(b"\r\x1b[K");
    }
}

enum Line {
    Rewritten { width: usize },
    Repeated,
}

impl Line {
    fn show(&mut self, text: &str) {
        let line = match self {
            Self::Repeated => format!("{text}\n"),
            Self::Rewritten { width } => {
                let length = text.chars().count();
                let pad = std::mem::replace(width, length).saturating_sub(length);
                format!("\r{text}{}", " ".repeat(pad))
            }
        };
        // There is nobody else to tell.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

fn text(progress: &Progress) -> String {
    match progress.phase {
        Phase::Opening { open, all } => format!("opening connections: {open} of {all}"),
        Phase::Running { second, left } => {
            let (rate, errors) = (count(second.responses), count(progress.errors));
            let p99 = match second.responses {
                0 => "-".to_owned(),
                _ => time(float(second.p99_micros)),
            };
            let left = match left {
                Some(left) => format!(", {} left", whole(left)),
                None => format!(", {} answers", count(progress.responses)),
            };
            format!("{:>4}s  {rate}/s  errors {errors}  p99 {p99}{left}", second.offset + 1)
        }
    }
}

/// The nearest whole second.
fn whole(time: Duration) -> String {
    format!("{}s", (time + Duration::from_millis(500)).as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Second;

    #[test]
    fn the_line_says_rate_errors_p99_and_time_left() {
        let second =
            Second { offset: 2, responses: 12_345, errors: 1, p50_micros: 90, p99_micros: 1234 };
        let left = Some(Duration::from_millis(6_998));
        let running = Phase::Running { second, left };
        let shown = text(&Progress { phase: running, responses: 40_000, errors: 7 });
        assert_eq!(shown, "   3s  12 345/s  errors 7  p99 1.23 ms, 7s left");
        let running = Phase::Running { second, left: None };
        let shown = text(&Progress { phase: running, responses: 40_000, errors: 7 });
        assert_eq!(shown, "   3s  12 345/s  errors 7  p99 1.23 ms, 40 000 answers");
        let none = Second { responses: 0, p50_micros: 0, p99_micros: 0, ..second };
        let running = Phase::Running { second: none, left };
        let shown = text(&Progress { phase: running, responses: 0, errors: 7 });
        assert_eq!(shown, "   3s  0/s  errors 7  p99 -, 7s left");
        let opening = Phase::Opening { open: 256, all: 5000 };
        let shown = text(&Progress { phase: opening, responses: 0, errors: 0 });
        assert_eq!(shown, "opening connections: 256 of 5000");
    }
}
