//! Handing over to a new process of the program, which may be another one by now.

use std::time::Duration;

use sluice_net::errand::Asker;
use sluice_net::process::{End, start_thread};
use sluice_net::signals::Signal;
use sluice_net::succession::{Channel, Successor, signal};

use super::configure::Cause;
use super::drain::Ending;
use super::{Failure, Supervisor};
use crate::event::Event;
use crate::flaw::plain;
use crate::heritage::{Answer, Bequest, Candidate, Upgrades, give};

/// How long a process may take to end after it has said that it will.
const END: Duration = Duration::from_secs(5);

/// An upgrade under way.
pub(super) struct Attempt {
    pid: u32,
    asker: Option<Asker>,
    /// What was asked for meanwhile and has to wait.
    reload: Option<Cause>,
    reopen_logs: bool,
}

impl Supervisor {
    /// Starts the program anew and offers it everything; what came of it is an event.
    pub(super) fn upgrade(&mut self) {
        if self.attempt.is_some() {
            return self.voice.say("an upgrade is under way already");
        }
        let asker = Asker::find();
        match self.begin_upgrade() {
            Ok(pid) => {
                self.voice.say(&format!("upgrading: process {pid} is to take over"));
                self.attempt = Some(Attempt { pid, asker, reload: None, reopen_logs: false });
            }
            Err(reason) => self.fail(asker, &reason),
        }
    }

    fn begin_upgrade(&self) -> Result<u32, String> {
        if std::process::id() == 1 {
            return Err("this is process 1, with which its container ends; replace the container \
                        instead"
                .to_owned());
        }
        let (line, successor) = self.program.start().map_err(|error| {
            format!("cannot start {}: {}", self.program.path().display(), plain(&error))
        })?;
        let pid = successor.pid();
        let mut bequest = self.estate.bequest();
        self.heritage.lasting().for_each(|sockets| bequest.add_lasting(sockets));
        let meters = self.status.meters();
        let upgrades =
            Upgrades { ok: meters.upgrades_ok.value(), failed: meters.upgrades_failed.value() };
        let limit = self.model.upgrade_timeout;
        let sender = self.sender.clone();
        start_thread(
            "sluice-upgrade",
            move || offer((line, successor), &bequest, upgrades, limit),
            move |end| {
                let outcome = match end {
                    End::Returned(outcome) => outcome,
                    End::Panicked => Err("the thread that conducts it panicked".to_owned()),
                };
                drop(sender.send(Event::Upgraded(outcome)));
            },
        )
        .map_err(|error| format!("no thread to conduct it: {}", plain(&error)))?;
        Ok(pid)
    }

    /// What is asked for while an upgrade is under way and must not be lost with this process; given
    /// back if there is none.
    pub(super) fn postpone(&mut self, cause: Cause) -> Option<Cause> {
        let Some(attempt) = &mut self.attempt else { return Some(cause) };
        attempt.reload = attempt.reload.max(Some(cause));
        self.voice.say("the reload waits until the upgrade is decided");
        None
    }

    pub(super) fn note_reopening(&mut self) {
        if let Some(attempt) = &mut self.attempt {
            attempt.reopen_logs = true;
        }
    }

    /// The program is to end: so is the process that was to take over.
    pub(super) fn give_upgrade_up(&mut self) {
        if let Some(attempt) = self.attempt.take() {
            // It may have ended by itself.
            let _ = signal(attempt.pid, Signal::Stop);
            if let Some(asker) = attempt.asker {
                asker.answer("failed\nthe program was told to stop meanwhile\n");
            }
        }
    }

    /// The new process serves, or does not. Whether this one is to end.
    pub(super) fn on_upgraded(
        &mut self,
        outcome: Result<Candidate, String>,
    ) -> Result<Option<Ending>, Failure> {
        // Without an attempt it was given up.
        let Some(attempt) = self.attempt.take() else { return Ok(None) };
        let outcome = outcome.and_then(|mut candidate| {
            // Before the word is given: from then on the files of sockets are the other's.
            self.estate.give_away(&candidate.taken);
            match give(&candidate.line) {
                Ok(()) => Ok(candidate),
                Err(_) => {
                    self.estate.take_back();
                    Err(format!("it was ready, but then {}", candidate.successor.end(END)))
                }
            }
        });
        let Attempt { pid, asker, reload, reopen_logs } = attempt;
        match outcome {
            Ok(_) => {
                self.notify(&format!("MAINPID={pid}"));
                for (wanted, what) in
                    [(reload.is_some(), Signal::Reload), (reopen_logs, Signal::ReopenLogs)]
                {
                    if wanted && let Err(error) = signal(pid, what) {
                        self.voice.warn(&format!("process {pid} cannot be told: {error}"));
                    }
                }
                if let Some(asker) = asker {
                    asker.answer(&format!("ok {pid}\n"));
                }
                Ok(Some(Ending::HandedOver(pid)))
            }
            Err(reason) => {
                self.fail(asker, &reason);
                match reload {
                    Some(cause) => self.reload(cause).map(|()| None),
                    None => Ok(None),
                }
            }
        }
    }

    fn fail(&self, asker: Option<Asker>, reason: &str) {
        self.status.meters().upgrades_failed.increment();
        let reason = reason.trim_end();
        self.voice.say(&format!("upgrade failed: {reason}\nthis process goes on serving"));
        if let Some(asker) = asker {
            asker.answer(&format!("failed\n{reason}\n"));
        }
    }
}

/// Offers everything to the new process and waits until it serves.
fn offer(
    (line, mut successor): (Channel, Successor),
    bequest: &Bequest,
    upgrades: Upgrades,
    limit: Duration,
) -> Result<Candidate, String> {
    let sent = bequest.send(&line, upgrades);
    // A process that does not listen may still have said why.
    match (sent, Answer::receive(&line, limit)) {
        (Ok(()), Ok(Some(Answer::Ready(taken)))) => Ok(Candidate { line, successor, taken }),
        (_, Ok(Some(Answer::Failed(reason)))) => {
            let end = successor.end(END);
            Err(format!("the new process cannot start, {end}:\n{reason}"))
        }
        (Ok(()), Err(error)) if error.kind() == std::io::ErrorKind::WouldBlock => {
            successor.kill();
            Err(format!("the new process was not ready within {limit:?} and was killed"))
        }
        (_, Ok(None)) => Err(format!("the new process did not start: {}", successor.end(END))),
        (Err(error), _) | (_, Err(error)) => {
            Err(format!("the new process cannot be talked to ({error}): {}", successor.kill()))
        }
    }
}
