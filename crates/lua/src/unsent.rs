//! Answers that go out together: what all have asked is read first, then all get their answers.
//!
//! One answer after each question would wake a client that handles many connections for each of them, and it would
//! sleep again before the next one comes: kernels work more for the same questions.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use sluice_net::{Late, at_end_of_turn, for_another_task};

/// Most connections that wait for others to be read: scripts may take their time.
const TOGETHER: usize = 16;

/// Somebody with something to send.
pub(crate) trait Sender {
    /// Sends it, outside of its task.
    fn send_late(&self);
}

/// Those who send before the turn ends.
#[derive(Default)]
pub(crate) struct Unsent {
    senders: RefCell<Vec<Rc<dyn Sender>>>,
    /// The end of the turn is waited for.
    booked: Cell<bool>,
}

impl Unsent {
    /// This one, too.
    #[inline]
    pub(crate) fn add(self: &Rc<Self>, sender: Rc<dyn Sender>) {
        let mut senders = self.senders.borrow_mut();
        senders.push(sender);
        let waiting = senders.len();
        drop(senders);
        if waiting == 1 {
            self.book();
        } else if waiting >= TOGETHER {
            self.send();
        }
    }

    #[cold]
    fn book(self: &Rc<Self>) {
        if !self.booked.replace(true) {
            let unsent = Rc::clone(self);
            at_end_of_turn(unsent);
        }
    }

    /// In the order of their coming.
    fn send(&self) {
        let mut senders = self.senders.take();
        for_another_task(|| senders.drain(..).for_each(|sender| sender.send_late()));
        // The memory is used again.
        self.senders.replace(senders);
    }
}

impl Late for Unsent {
    fn run(&self) {
        self.booked.set(false);
        self.send();
    }
}
