//! So many handshakes begin in one turn of a thread's loop, and no more.
//!
//! The key exchange and the signature of a handshake keep the processor busy for longer than hundreds of requests on
//! connections that are open. Whoever floods a server with handshakes must not make those wait.

use std::cell::Cell;

use crate::clock::{Nanos, now};
use crate::yield_now;

/// Handshakes begun per turn: about a millisecond of work.
const PER_TURN: u32 = 4;

thread_local! {
    /// The turn that handshakes were counted in last, by its time, and how many it had.
    static BEGUN: Cell<(Nanos, u32)> = const { Cell::new((0, 0)) };
}

/// Waits until a handshake may begin.
pub(crate) async fn begin() {
    loop {
        let turn = now();
        let (counted, begun) = BEGUN.get();
        let begun = if counted == turn { begun } else { 0 };
        if begun < PER_TURN {
            return BEGUN.set((turn, begun + 1));
        }
        yield_now().await;
    }
}
