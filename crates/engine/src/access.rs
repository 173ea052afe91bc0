//! The access log: lines are gathered while a worker works and handed over when it is done.

use std::cell::RefCell;
use std::task::Waker;

use sluice_meter::AccessRecord;

use crate::AccessLog;

/// Lines gathered before they are handed over in the middle of a turn.
const ENOUGH: usize = 64 * 1024;

/// Lines of one worker that the log's thread has not got yet.
#[derive(Default)]
pub(crate) struct AccessBuffer {
    lines: RefCell<Vec<u8>>,
    flusher: RefCell<Option<Waker>>,
}

impl AccessBuffer {
    pub(crate) fn write(&self, log: &AccessLog, record: &AccessRecord<'_>) {
        let mut lines = self.lines.borrow_mut();
        if lines.is_empty()
            && let Some(flusher) = &*self.flusher.borrow()
        {
            flusher.wake_by_ref();
        }
        log.format.write(record, &mut lines);
        if lines.len() >= ENOUGH {
            log.writer.write(std::mem::take(&mut *lines));
        }
    }

    /// Who is woken by the first line of a turn.
    pub(crate) fn set_flusher(&self, flusher: &Waker) {
        *self.flusher.borrow_mut() = Some(flusher.clone());
    }

    /// Hands over what there is.
    pub(crate) fn flush(&self, log: &AccessLog) {
        let mut lines = self.lines.borrow_mut();
        if !lines.is_empty() {
            log.writer.write(std::mem::take(&mut *lines));
        }
    }
}
