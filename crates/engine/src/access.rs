//! The access log: lines are gathered while a worker works and handed over when it is done.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use sluice_meter::AccessRecord;

use crate::AccessLog;
use crate::local::Worker;

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

    /// Hands over what there is.
    pub(crate) fn flush(&self, log: &AccessLog) {
        let mut lines = self.lines.borrow_mut();
        if !lines.is_empty() {
            log.writer.write(std::mem::take(&mut *lines));
        }
    }
}

/// Hands lines over once per turn of the loop, after the exchanges that wrote them.
pub(crate) async fn flush_each_turn(worker: Rc<Worker>) {
    poll_fn(|cx| {
        *worker.access.flusher.borrow_mut() = Some(cx.waker().clone());
        let view = worker.view();
        if let Some(log) = &view.snapshot.access {
            worker.access.flush(log);
        }
        Poll::<()>::Pending
    })
    .await;
}
