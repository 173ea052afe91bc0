//! A script that speaks with the clients of a listener of the gateway.

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

use sluice_filter::{Client, Service};

use super::program::Program;
use crate::intake::Arrival;
use crate::settings::Level;

/// A script as the service of a listener.
#[derive(Debug)]
pub struct LuaService {
    program: Arc<Program>,
    /// How many workers run it; all, if there is no number.
    workers: Option<usize>,
}

impl LuaService {
    /// This script, run by so many workers, each with a state of its own; by all if there is no number.
    #[must_use]
    pub const fn new(program: Arc<Program>, workers: Option<usize>) -> Self {
        Self { program, workers }
    }
}

impl Service for LuaService {
    fn home(&self, worker: usize) -> Option<usize> {
        self.workers.and_then(|workers| worker.checked_rem(workers))
    }

    fn serve(&self, worker: usize, client: Client) {
        // A worker that is about to end gives nothing to others; there is to be no further state for its last one.
        if self.home(worker).is_some_and(|home| home != worker) {
            return;
        }
        match self.program.station(|| worker) {
            Ok(station) => {
                let host = Rc::clone(&station.host);
                let state: Rc<dyn Any> = station;
                host.intake.receive(Arrival { client, state: Rc::downgrade(&state) });
            }
            Err(said) => {
                client.place.on_failure();
                self.program.voice().write(Level::Error, said.as_bytes());
            }
        }
    }
}
