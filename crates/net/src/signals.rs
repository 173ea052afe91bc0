//! Signals from outside, brought to a thread that may do anything.

use std::io;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::process::{End, start_thread};

/// What somebody outside asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGTERM or SIGINT: finish what runs, then end.
    Stop,
    /// SIGUSR1: open log files again, they were moved away.
    ReopenLogs,
    /// SIGUSR2: let a new process of the program as it is now take over.
    Upgrade,
}

/// Takes the signals over from now on; `deliver` is called for each, on a thread of its own.
///
/// # Errors
/// If the kernel refuses a handler or the thread.
pub fn watch_signals(mut deliver: impl FnMut(Signal) + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2])?;
    let run = move || {
        for number in signals.forever() {
            deliver(match number {
                SIGHUP => Signal::Reload,
                SIGUSR1 => Signal::ReopenLogs,
                SIGUSR2 => Signal::Upgrade,
                _ => Signal::Stop,
            });
        }
    };
    start_thread("sluice-signals", run, |_: End<()>| {})
}

/// Takes the same signals over, and tells each by its name, like `SIGTERM`: for programs that decide themselves what a
/// signal means.
///
/// # Errors
/// If the kernel refuses a handler or the thread.
pub fn watch_names(mut deliver: impl FnMut(&'static str) + Send + 'static) -> io::Result<()> {
    let names = [
        (SIGHUP, "SIGHUP"),
        (SIGINT, "SIGINT"),
        (SIGTERM, "SIGTERM"),
        (SIGUSR1, "SIGUSR1"),
        (SIGUSR2, "SIGUSR2"),
    ];
    let mut signals = Signals::new(names.map(|(number, _)| number))?;
    let run = move || {
        for number in signals.forever() {
            names.iter().filter(|(known, _)| *known == number).for_each(|(_, name)| deliver(name));
        }
    };
    start_thread("sluice-signals", run, |_: End<()>| {})
}
