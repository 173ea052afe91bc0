//! How many lines a script may write to the log: what goes wrong in a loop must neither fill a disk nor hide the rest.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use sluice_net::{Deadline, Nanos, now, spawn};

use crate::settings::Level;
use crate::voice::Voice;

/// What lines are counted over.
const WINDOW: Duration = Duration::from_secs(1);

/// The lines of the current second.
#[derive(Debug, Default)]
struct Throttle {
    began: Cell<Nanos>,
    lines: Cell<u32>,
    dropped: Cell<u64>,
}

impl Throttle {
    /// Whether one more line may be written now.
    fn admits(&self, most: u32, now: Nanos) -> bool {
        let window = u64::try_from(WINDOW.as_nanos()).unwrap_or(u64::MAX);
        if now.saturating_sub(self.began.get()) >= window {
            self.began.set(now);
            self.lines.set(0);
        }
        self.lines.set(self.lines.get().saturating_add(1));
        self.lines.get() <= most
    }
}

/// The log of a state.
#[derive(Debug, Default)]
pub(crate) struct Throttled {
    throttle: Rc<Throttle>,
}

impl Throttled {
    /// Lets `write` write a line, unless there were `most` in this second; how many were left out is told when it is over.
    pub(crate) fn write(&self, voice: &Voice, most: u32, write: impl FnOnce(&Voice)) {
        if self.throttle.admits(most, now()) {
            write(voice);
            return;
        }
        let dropped = &self.throttle.dropped;
        dropped.set(dropped.get() + 1);
        if dropped.get() == 1 {
            spawn(tell(Rc::clone(&self.throttle), voice.clone(), most));
        }
    }
}

async fn tell(throttle: Rc<Throttle>, voice: Voice, most: u32) {
    Deadline::new().sleep(WINDOW).await;
    let dropped = throttle.dropped.take();
    let line =
        format!("{dropped} lines were left out, since there were more than {most} in a second");
    voice.write(Level::Warn, line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_so_many_lines() {
        let throttle = Throttle::default();
        let second = 1_000_000_000;
        let admitted = |times: usize, now| (0..times).filter(|_| throttle.admits(3, now)).count();
        assert_eq!(admitted(2, 5 * second), 2);
        assert_eq!(admitted(4, 6 * second - 1), 1);
        assert_eq!(admitted(4, 6 * second), 3);
    }
}
