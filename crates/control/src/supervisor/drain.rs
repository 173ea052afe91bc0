//! The end: requests under way finish, then threads and logs.

use std::sync::mpsc::channel;
use std::time::Duration;

use sluice_engine::Drained;
use sluice_net::LogWriter;
use sluice_net::process::{End, start_thread, uptime};
use sluice_net::signals::Signal;

use super::{Failure, Supervisor, lost_thread};
use crate::event::{Event, Thread};
use crate::status::Phase;

/// What a worker may take longer than the limit, which it keeps by itself.
const GRACE: Duration = Duration::from_secs(5);

/// How long a log may take to be written at the end: a reader that does not read must not keep us.
const LOG: Duration = Duration::from_secs(3);

/// Why the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It was told to.
    Stopped,
    /// The process of this number goes on in its place.
    HandedOver(u32),
}

impl Supervisor {
    /// Takes no more connections, lets requests finish as long as the configuration allows, and ends
    /// everything. A second signal ends it at once.
    pub(super) fn drain(&mut self, ending: Ending) -> Result<(), Failure> {
        let limit = self.model.shutdown_timeout;
        match ending {
            Ending::Stopped => {
                self.status.set_phase(Phase::Draining);
                self.notify("STOPPING=1");
                self.voice.say(&format!(
                    "draining: requests under way have {limit:?}; a second signal ends at once"
                ));
            }
            // The service goes on: whoever asks for its health here is told so.
            Ending::HandedOver(pid) => {
                self.voice.say(&format!(
                    "upgraded: process {pid} has taken over; requests under way here have {limit:?}"
                ));
                self.crew.end_admin();
                // The process that goes on waits for the folders that answers are kept in.
                self.status.meters().caches().values().flatten().for_each(|cache| cache.retire());
            }
        }
        self.crew.drain(limit);
        // Workers empty the queues of their own sockets before they close them.
        self.estate.close_listeners();
        let cut_off = self.await_workers(limit.saturating_add(GRACE), ending)?;
        if ending == Ending::Stopped {
            self.crew.end_admin();
            self.await_admin();
            if let Some(file) = self.pid_file.take() {
                file.remove();
            }
        }
        if let Some(writer) = self.estate.log() {
            flush(writer);
        }
        match cut_off {
            0 => self.voice.say("stopped"),
            1 => self.voice.say("stopped; one connection was cut off"),
            count => self.voice.say(&format!("stopped; {count} connections were cut off")),
        }
        Ok(())
    }

    /// Waits for all workers; how many connections did not finish.
    fn await_workers(&mut self, limit: Duration, ending: Ending) -> Result<usize, Failure> {
        let deadline = uptime().saturating_add(limit);
        let mut warned = ending == Ending::Stopped;
        let (mut running, mut cut_off) = (self.crew.size(), 0_usize);
        while running > 0 {
            let left = deadline.saturating_sub(uptime());
            match self.next_event(Some(left)) {
                Some(Event::Ended(Thread::Worker(_), End::Returned(Ok(drained)))) => {
                    let Drained { cut_off: connections } = drained;
                    cut_off = cut_off.saturating_add(connections);
                    running -= 1;
                }
                Some(Event::Ended(thread @ Thread::Worker(_), end)) => {
                    return Err(lost_thread(thread, &end));
                }
                Some(Event::Signal(Signal::Stop)) if warned => {
                    self.voice.say("told to stop a second time");
                    return Ok(cut_off);
                }
                // A service manager that stops the service signals all of its processes.
                Some(Event::Signal(Signal::Stop)) => {
                    warned = true;
                    self.voice.say("draining already; another signal ends at once");
                }
                Some(Event::Signal(_)) => {
                    if let Ending::HandedOver(pid) = ending {
                        self.voice.say(&format!("process {pid} has taken over; signal that one"));
                    }
                }
                Some(_) => {}
                None => {
                    self.voice.warn(&format!("{running} workers do not end; going without them"));
                    return Ok(cut_off);
                }
            }
        }
        Ok(cut_off)
    }

    fn await_admin(&mut self) {
        let deadline = uptime().saturating_add(Duration::from_secs(1));
        while let Some(event) = self.next_event(Some(deadline.saturating_sub(uptime()))) {
            if matches!(event, Event::Ended(Thread::Admin, _) | Event::Signal(Signal::Stop)) {
                return;
            }
        }
    }
}

/// Waits until a log has written everything, but not for ever.
pub(super) fn flush(writer: &LogWriter) {
    let (done, wait) = channel();
    let writer = writer.clone();
    let started = start_thread("sluice-flush", move || writer.flush(), move |_| _ = done.send(()));
    if started.is_ok() {
        // Lines that are not taken in time are lost with the program.
        let _ = wait.recv_timeout(LOG);
    }
}
