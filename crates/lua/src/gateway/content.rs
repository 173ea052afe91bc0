//! Content that a script changes while it passes, and the end of an exchange.

use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use sluice_filter::{Broken, DoneContext, Transform};
use sluice_message::{FaultKind, Fields};
use sluice_meter::FilterMeter;

use super::station::{Run, Station};
use super::turn::Turn;
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
        self.voice.report(Level::Error, said.as_bytes());
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
    /// The piece that the function waits with.
    held: Option<(Run, Vec<u8>)>,
    /// What comes after that.
    queue: VecDeque<(Vec<u8>, Place)>,
    /// What has come out of it meanwhile.
    out: Vec<u8>,
    /// Whether the function was told of the end.
    told: bool,
    /// It has failed.
    broken: bool,
}

impl fmt::Debug for Rewriting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rewriting({})", self.failure.voice.name())
    }
}

impl Rewriting {
    /// Of what a function has returned for a message: nothing, or a function for its content.
    pub(crate) fn of(
        station: &Rc<Station>,
        run: &Run,
        failure: Failure,
    ) -> Option<Box<dyn Transform>> {
        let function = vm::with_stack(&station.host, run.thread, |frame| {
            let is_function = frame.count() > 0 && frame.kind(1) == Kind::Function;
            is_function.then(|| {
                frame.push_copy(1);
                frame.keep()
            })
        });
        let this = Self {
            station: Rc::clone(station),
            function: function?,
            failure,
            held: None,
            queue: VecDeque::new(),
            out: Vec::new(),
            told: false,
            broken: false,
        };
        Some(Box::new(this))
    }

    /// Gives a piece to the function.
    fn call(&mut self, piece: &[u8], place: Place) {
        let host = &*self.station.host;
        let run = self.station.take();
        vm::with_stack(host, run.thread, |frame| {
            frame.push_kept(self.function);
            frame.push_bytes(piece);
            frame.push_truth(place == Place::Last);
        });
        let turn = self.station.step(run, 2);
        self.settle(turn, piece);
    }

    /// What the function has made of a piece, if it does not wait.
    fn settle(&mut self, turn: Turn, piece: &[u8]) {
        let lease = &self.station.host.exchange;
        lease.answer.take();
        lease.wish.take();
        match turn {
            Turn::Returned(run) => {
                let out = &mut self.out;
                let take = |frame: &Frame<'_>| take(frame, piece, out);
                let good = vm::with_stack(&self.station.host, run.thread, take);
                self.station.give_back(run);
                if !good {
                    self.fail("a function for content returns a text or nothing");
                }
            }
            Turn::Failed(said) => self.fail(&said),
            Turn::Waits(run) => self.held = Some((run, piece.to_vec())),
        }
    }

    #[cold]
    fn fail(&mut self, said: &str) {
        self.failure.complain(said);
        self.broken = true;
        self.queue.clear();
    }

    /// Goes on as far as it goes; whether there is nothing left to wait for.
    fn drive(&mut self, waker: &Waker) -> bool {
        loop {
            if let Some((run, piece)) = self.held.take() {
                let Poll::Ready(values) = run.desk.poll(&Context::from_waker(waker)) else {
                    self.held = Some((run, piece));
                    return false;
                };
                let turn = self.station.step(run, values);
                self.settle(turn, &piece);
            } else if let Some((piece, place)) = self.queue.pop_front() {
                self.call(&piece, place);
            } else {
                return true;
            }
        }
    }

    /// Hands over what has come out.
    fn give(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        out.append(&mut self.out);
        if self.broken { Err(Broken) } else { Ok(()) }
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
        if self.held.is_some() {
            self.queue.push_back((piece.to_vec(), Place::Within));
        } else if !self.broken {
            self.call(piece, Place::Within);
        }
        self.give(out)
    }

    fn is_full(&mut self, waker: &Waker) -> bool {
        !self.drive(waker)
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.out);
    }

    fn can_end(&mut self, waker: &Waker) -> bool {
        if !self.drive(waker) {
            return false;
        }
        if !self.told && !self.broken {
            self.told = true;
            self.call(b"", Place::Last);
        }
        self.drive(waker)
    }

    fn end(&mut self, _: &mut Option<Fields>, out: &mut Vec<u8>) -> Result<(), Broken> {
        self.give(out)
    }

    fn fault(&self) -> FaultKind {
        FaultKind::Broken
    }
}

impl Drop for Rewriting {
    fn drop(&mut self) {
        let host = &*self.station.host;
        vm::with_stack(host, host.main.get(), |frame| frame.forget(self.function));
        // The message is over: whatever the function waits for it goes on without.
        if let Some((run, _)) = self.held.take() {
            host.bereave(run.id);
            if let Some(values) = run.desk.take() {
                host.make_ready(run.id, values);
            }
        }
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
        match self.advance(Exchange::Done(done), run, 2) {
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
