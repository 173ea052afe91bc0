//! The beginning of a script that speaks with the clients of a listener.

use std::rc::{Rc, Weak};

use super::script::Script;
use crate::host::{Ending, Host, Owner};
use crate::settings::Level;
use crate::vm::{self, Started};

/// What is wrong with a script that ended without having asked for connections.
const DEAF: &str =
    "the script has ended and takes no connections: call tcp.listen(address, handler)";

/// Starts the script of a listener, in a coroutine like all others: it may wait before it listens.
pub(super) fn begin(host: &Rc<Host>, script: &Script) -> Result<(), String> {
    let Some(chunk) = script.chunks.first() else { return Err(DEAF.to_owned()) };
    let (id, thread) = vm::create(host, None);
    vm::with_stack(host, thread, |frame| frame.push_chunk(&chunk.text, &chunk.name))?;
    match vm::start(host, id, thread)? {
        Started::Waits => host.set_owner(id, Rc::new(Main(Rc::downgrade(host)))),
        Started::Over if is_deaf(host) => return Err(DEAF.to_owned()),
        Started::Over => {}
    }
    Ok(())
}

/// Whether there is nobody left in a state who could ask for its connections.
fn is_deaf(host: &Host) -> bool {
    host.intake.is_awaited()
        && host.coroutines.borrow().is_empty()
        && host.timers.borrow().calls() == 0
}

/// The coroutine of the script itself. Weak: it belongs to the host.
struct Main(Weak<Host>);

impl Owner for Main {
    fn ended(&self, ending: Ending) {
        let Some(host) = self.0.upgrade() else { return };
        match ending {
            // What it failed with is in the log.
            Ending::Failed if host.intake.is_awaited() => {}
            Ending::Returned if is_deaf(&host) => host.say(Level::Error, DEAF),
            Ending::Failed | Ending::Returned => return,
        }
        host.intake.shut();
    }
}
