//! Content that a script changes while it passes, and the end of an exchange.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use sluice_filter::{Broken, DoneContext, Transform};
use sluice_message::{FaultKind, Fields};
use sluice_meter::FilterMeter;

use super::station::Station;
use super::turn::{Turn, Waits};
use crate::frame::{Frame, Kind};
use crate::lease::Exchange;
use crate::settings::Level;
use crate::vm;
use crate::voice::Voice;

/// What is done about a script that fails where no exchange can be asked; as a transform, content that its script could
/// not see: it does not pass.
pub(crate) struct Failure {
    pub(crate) meter: Option<Arc<FilterMeter>>,
    pub(crate) worker: usize,
    pub(crate) voice: Voice,
}

impl Failure {
    #[cold]
    pub(crate) fn complain(&self, said: &str) {
        if let Some(meter) = &self.meter {
            meter.count(self.worker, 3);
        }
        self.voice.write(Level::Error, said.as_bytes());
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Failure({})", self.voice.name())
    }
}

impl Transform for Failure {
    fn push(&mut self, _: &[u8], _: &mut Vec<u8>) -> Result<(), Broken> {
        Err(Broken)
    }

    fn end(&mut self, _: &mut Option<Fields>, _: &mut Vec<u8>) -> Result<(), Broken> {
        Err(Broken)
    }

    fn fault(&self) -> FaultKind {
        FaultKind::Broken
    }
}

/// Whether a piece is the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Within,
    Last,
}

/// Content that goes through a function of a script.
pub(crate) struct Rewriting {
    station: Rc<Station>,
    /// The function, in the registry.
    function: i32,
    failure: Failure,
}

impl fmt::Debug for Rewriting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rewriting({})", self.failure.voice.name())
    }
}

impl Rewriting {
    /// Of what a script has returned for a message: nothing, or a function for its content.
    pub(crate) fn of(
        station: Rc<Station>,
        turn: Turn,
        failure: Failure,
    ) -> Option<Box<dyn Transform>> {
        station.host.exchange.answer.take();
        station.host.exchange.wish.take();
        let run = match turn {
            Turn::Returned(run) => run,
            Turn::Failed(said) => {
                failure.complain(&said);
                return Some(Box::new(failure));
            }
            Turn::Waits(_) => return Some(Box::new(failure)),
        };
        let function = vm::with_stack(&station.host, run.thread, |frame| {
            let last = frame.count();
            let is_function = last > 0 && frame.kind(1) == Kind::Function;
            is_function.then(|| {
                frame.push_copy(1);
                frame.keep()
            })
        });
        station.give_back(run);
        Some(Box::new(Self { station, function: function?, failure }))
    }

    fn call(&self, piece: &[u8], place: Place, out: &mut Vec<u8>) -> Result<(), Broken> {
        let host = &*self.station.host;
        let run = self.station.take();
        vm::with_stack(host, run.thread, |frame| {
            frame.push_kept(self.function);
            frame.push_bytes(piece);
            frame.push_truth(place == Place::Last);
        });
        match self.station.step(run, 2, Waits::Cannot) {
            Turn::Returned(run) => {
                let good = vm::with_stack(host, run.thread, |frame| take(frame, piece, out));
                self.station.give_back(run);
                if !good {
                    self.failure.complain("a function for content returns a text or nothing");
                    return Err(Broken);
                }
                Ok(())
            }
            Turn::Failed(said) => {
                self.failure.complain(&said);
                Err(Broken)
            }
            Turn::Waits(_) => Err(Broken),
        }
    }
}

/// What a function returned is what becomes of a piece; nothing leaves it as it is. Says whether it is fit for that.
fn take(frame: &Frame<'_>, piece: &[u8], out: &mut Vec<u8>) -> bool {
    match frame.kind(1) {
        Kind::Nil => out.extend_from_slice(piece),
        Kind::String | Kind::Number => out.extend_from_slice(frame.bytes(1).unwrap_or_default()),
        _ => return false,
    }
    true
}

impl Transform for Rewriting {
    fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        self.call(piece, Place::Within, out)
    }

    fn end(&mut self, _: &mut Option<Fields>, out: &mut Vec<u8>) -> Result<(), Broken> {
        self.call(b"", Place::Last, out)
    }

    fn fault(&self) -> FaultKind {
        FaultKind::Broken
    }
}

impl Drop for Rewriting {
    fn drop(&mut self) {
        let host = &*self.station.host;
        vm::with_stack(host, host.main.get(), |frame| frame.forget(self.function));
    }
}

impl Station {
    /// Tells the script of the end of an exchange. What it does then may wait: the client does not.
    pub(crate) fn tell_end(&self, done: &DoneContext<'_>, function: i32, failure: &Failure) {
        let run = self.take();
        vm::with_stack(&self.host, run.thread, |frame| {
            frame.push_kept(function);
            frame.push_kept(self.request);
            frame.push_table(0, 4);
            frame.push_count(done.status.into());
            frame.set_field(b"status");
            frame.push_number(milliseconds(done.nanos));
            frame.set_field(b"ms");
            if let Some(nanos) = done.upstream_nanos {
                frame.push_number(milliseconds(nanos));
                frame.set_field(b"upstream_ms");
            }
        });
        match self.advance(Exchange::Done(done), run, 2, Waits::Can) {
            Turn::Returned(run) => {
                self.give_back(run);
            }
            Turn::Waits(run) => self.host.set_desk(run.id, None),
            Turn::Failed(said) => failure.complain(&said),
        }
        self.host.exchange.answer.take();
        self.host.exchange.wish.take();
    }
}

#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "a duration, as a script gets it"
)]
fn milliseconds(nanos: u64) -> f64 {
    (nanos / 1000) as f64 / 1000.0
}
