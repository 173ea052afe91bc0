//! `request.ctx`: a table that belongs to one exchange and goes with it through all phases of one script.

use std::rc::{Rc, Weak};

use sluice_filter::{Notes, Owner};

use super::missing::nothing_there;
use crate::frame::{Frame, Reply};
use crate::host::Host;
use crate::lease::Exchange;
use crate::vm;

/// Keeps the table until the exchange is over.
struct Kept {
    host: Weak<Host>,
    place: i32,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(host) = self.host.upgrade().filter(|host| !host.main.get().is_null()) {
            vm::with_stack(&host, host.main.get(), |frame| frame.forget(self.place));
        }
    }
}

/// Pushes the table of the exchange that is under way, a new one if it has none.
pub(crate) fn push(frame: &Frame<'_>) -> Reply {
    match try_push(frame) {
        Some(()) => Reply::Values(1),
        None => nothing_there(frame),
    }
}

/// The same; `None`, with nothing pushed, where no exchange is.
pub(crate) fn try_push(frame: &Frame<'_>) -> Option<()> {
    let host = frame.host();
    let owner = host.exchange.owner.get()?;
    host.exchange.with(|exchange| match exchange {
        Exchange::Request(context) => push_kept(frame, context.notes, owner),
        Exchange::Response(context) => push_kept(frame, context.notes, owner),
        Exchange::Done(context) => match context.notes.kept(owner) {
            Some([place, ..]) => frame.push_kept(place.cast_signed()),
            None => frame.push_table(0, 0),
        },
    })
}

fn push_kept(frame: &Frame<'_>, notes: &mut Notes, owner: Owner) {
    // A note of another state, which was swapped in between two phases, means nothing here.
    let host = frame.host();
    let known = notes
        .left::<Kept>(owner)
        .filter(|kept| kept.host.upgrade().is_some_and(|of| std::ptr::eq(Rc::as_ptr(&of), host)));
    if let Some(kept) = known {
        frame.push_kept(kept.place);
        return;
    }
    frame.push_table(0, 4);
    frame.push_copy(-1);
    let place = frame.keep();
    notes.keep(owner, [place.cast_unsigned(), 0, 0, 0]);
    notes.leave(owner, Box::new(Kept { host: Rc::downgrade(&host.shared()), place }));
}
