//! Where connections come in that a listener of the gateway has accepted.

use std::any::Any;
use std::cell::RefCell;
use std::rc::{Rc, Weak};

use sluice_filter::{Client, Place};

/// A connection on its way to the handler of a script.
pub(crate) struct Arrival {
    pub(crate) client: Client,
    /// The state that is to serve it. Weak: what nobody serves keeps nothing open.
    pub(crate) state: Weak<dyn Any>,
}

/// What a connection keeps for as long as it is open.
pub(crate) struct Hold {
    pub(crate) place: Rc<dyn Place>,
    /// A state goes on until its last connection is over, also when another script has taken its place.
    _state: Rc<dyn Any>,
}

impl Hold {
    pub(crate) fn new(place: Box<dyn Place>, state: Rc<dyn Any>) -> Self {
        Self { place: Rc::from(place), _state: state }
    }
}

/// Where connections are taken in.
pub(crate) trait Door {
    fn admit(&self, arrival: Arrival);
}

/// The connections of a listener, as one state sees them.
pub(crate) struct Intake(RefCell<Stage>);

enum Stage {
    /// The script has not listened yet: they wait. Listeners limit how many there can be.
    Awaited(Vec<Arrival>),
    Open(Rc<dyn Door>),
    /// The script has closed its listener, or ended before it had one.
    Shut,
}

impl Default for Intake {
    fn default() -> Self {
        Self(RefCell::new(Stage::Awaited(Vec::new())))
    }
}

impl Intake {
    /// Whether the script has not listened yet.
    pub(crate) fn is_awaited(&self) -> bool {
        matches!(&*self.0.borrow(), Stage::Awaited(_))
    }

    /// The script listens from now on; those that have waited for that.
    pub(crate) fn open(&self, door: Rc<dyn Door>) -> Vec<Arrival> {
        match self.0.replace(Stage::Open(door)) {
            Stage::Awaited(waiting) => waiting,
            Stage::Open(_) | Stage::Shut => Vec::new(),
        }
    }

    /// Nothing is taken in any more.
    pub(crate) fn shut(&self) {
        if let Stage::Awaited(waiting) = self.0.replace(Stage::Shut) {
            waiting.iter().for_each(|arrival| arrival.client.place.on_failure());
        }
    }

    /// A connection comes; it is closed where nobody takes it.
    pub(crate) fn receive(&self, arrival: Arrival) {
        let door = match &mut *self.0.borrow_mut() {
            Stage::Awaited(waiting) => return waiting.push(arrival),
            Stage::Open(door) => Rc::clone(door),
            Stage::Shut => return arrival.client.place.on_failure(),
        };
        door.admit(arrival);
    }
}
