//! Asking a running process for something by a signal, and hearing what came of it.
//!
//! Whoever asks listens at an abstract Unix-domain address that follows from the number of the process
//! asked. That one connects to it when the signal comes, if somebody of the same user listens there,
//! and writes its answer when it has one. So nothing has to be open in a process that nobody asks.

use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, PidfdFlags, getuid, pidfd_open};

use crate::signals::Signal;
use crate::succession::signal;

/// Longest answer, in bytes.
const LONGEST: u64 = 64 * 1024;

fn address(pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("sluice-upgrade-{pid}"))
}

/// Sends the process SIGUSR2 and waits for its answer.
///
/// # Errors
/// In words: there is no such process, it is not ours, it does not know the signal, somebody else is
/// asking, it ended without an answer, or it gave none within `limit`.
pub fn ask_for_upgrade(pid: u32, limit: Duration) -> Result<String, String> {
    let say = |what: &str, error: io::Error| format!("{what}: {error}");
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.ok_or(format!("there is no process {pid}"))?;
    let process = pidfd_open(number, PidfdFlags::empty());
    let process = process.map_err(|_| format!("there is no process {pid}"))?;
    // The usual effect of SIGUSR2 is to end a process.
    if !catches_upgrade(pid) {
        return Err(format!("process {pid} does not know upgrades; it was left alone"));
    }
    let listener = address(pid).and_then(|address| UnixListener::bind_addr(&address));
    let listener = listener.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => format!("somebody else is upgrading process {pid}"),
        _ => say("cannot listen for its answer", error),
    })?;
    signal(pid, Signal::Upgrade).map_err(|error| say("cannot signal it", error))?;
    let since = crate::process::uptime();
    loop {
        let left = limit.saturating_sub(crate::process::uptime().saturating_sub(since));
        let left = Timespec::try_from(left).map_err(|_| "the time is too long".to_owned())?;
        let mut watched = [
            PollFd::new(&listener, PollFlags::IN),
            // Readable once it has ended.
            PollFd::new(&process, PollFlags::IN),
        ];
        match poll(&mut watched, Some(&left)) {
            Ok(0) => return Err(format!("process {pid} did not answer in time")),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(say("cannot wait for it", error.into())),
        }
        let [answers, ends] = watched.map(|it| it.revents());
        if answers.intersects(PollFlags::IN) {
            let stream = listener.accept().map_err(|error| say("it cannot answer", error))?.0;
            // Anybody can connect to an abstract address.
            if socket_peercred(&stream).is_ok_and(|peer| peer.pid == number) {
                return hear(&stream, limit).map_err(|error| say("it gave no answer", error));
            }
        } else if !ends.is_empty() {
            return Err(format!("process {pid} ended"));
        }
    }
}

fn hear(stream: &UnixStream, limit: Duration) -> io::Result<String> {
    stream.set_read_timeout(Some(limit))?;
    let mut answer = String::new();
    stream.take(LONGEST).read_to_string(&mut answer)?;
    match answer.is_empty() {
        true => Err(io::Error::other("it ended meanwhile")),
        false => Ok(answer),
    }
}

/// Whether the process has a handler for SIGUSR2 (proc_pid_status(5), `SigCgt`).
fn catches_upgrade(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & 1 << (signal_hook::consts::SIGUSR2 - 1) != 0)
}

/// Somebody who asked this process for something and waits for the answer.
#[derive(Debug)]
pub struct Asker(UnixStream);

impl Asker {
    /// Whoever listens for an answer of this process now, if it is the same user or root.
    #[must_use]
    pub fn find() -> Option<Self> {
        let stream = UnixStream::connect_addr(&address(std::process::id()).ok()?).ok()?;
        let uid = socket_peercred(&stream).ok()?.uid;
        // What went wrong may quote the configuration: it is not for everybody.
        (uid == getuid() || uid.is_root()).then_some(Self(stream))
    }

    /// Answers, once.
    pub fn answer(mut self, text: &str) {
        // It may have lost patience.
        let _ = self.0.set_nonblocking(true).and_then(|()| self.0.write_all(text.as_bytes()));
    }
}

/// Running gateways of this program that we may signal: processes called `sluice run`. One that has
/// started another is about to end and not among them.
#[must_use]
pub fn running() -> Vec<u32> {
    let all: Vec<u32> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != std::process::id() && is_gateway(*pid))
        .collect();
    let parents: Vec<u32> = all.iter().filter_map(|pid| parent(*pid)).collect();
    all.into_iter().filter(|pid| !parents.contains(pid)).collect()
}

fn is_gateway(pid: u32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0);
    let program = words.next().unwrap_or_default();
    let name = program.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    name == b"sluice"
        && words.next() == Some(b"run")
        && owner(pid).is_some_and(|uid| getuid().is_root() || uid == getuid().as_raw())
}

fn owner(pid: u32) -> Option<u32> {
    std::fs::metadata(format!("/proc/{pid}"))
        .ok()
        .map(|it| std::os::unix::fs::MetadataExt::uid(&it))
}

fn parent(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_would_die_of_the_signal_is_left_alone() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let said = ask_for_upgrade(child.id(), Duration::from_secs(1)).unwrap_err();
        assert!(said.contains("left alone"), "{said}");
        assert_eq!(child.try_wait().unwrap(), None);
        child.kill().unwrap();
        child.wait().unwrap();
        let said = ask_for_upgrade(child.id(), Duration::from_secs(1)).unwrap_err();
        assert!(said.contains("no process"), "{said}");
    }

    #[test]
    fn nobody_asks_and_nobody_is_found() {
        assert!(Asker::find().is_none());
    }
}
