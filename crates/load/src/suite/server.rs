//! A server of a suite while it runs: started in a process group of its own, ready, and surely stopped.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::file::Ready;
use crate::environment::group_runs;

/// How long a server may take to end by itself.
const GRACE: Duration = Duration::from_secs(5);
/// How often it is looked whether something has happened.
const LOOK: Duration = Duration::from_millis(20);
/// How much of a server's last words is repeated.
const LAST_WORDS: usize = 600;

/// A started server. Dropping it stops it and everything it started.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    /// Where both its outputs go.
    words: PathBuf,
}

impl Running {
    /// Starts a command in a process group of its own, so that a Ctrl-C in the terminal reaches it only
    /// through us. Its outputs go into a file in `dir`.
    pub(crate) fn start(command: &[String], dir: &Path) -> Result<Self, String> {
        let (program, arguments) = command.split_first().ok_or("a command needs a program")?;
        let words = dir.join("output.txt");
        let file = |error: io::Error| format!("{}: {error}", words.display());
        let output = File::create(&words).map_err(file)?;
        let errors = output.try_clone().map_err(file)?;
        let child = Command::new(program)
            .args(arguments)
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{program} cannot be started: {error}"))?;
        Ok(Self { child, words })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended. Its number stays taken until it is waited for, so that its process
    /// group can still be signalled safely.
    pub(crate) fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let Some(pid) = self.group() else { return true };
        !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
    }

    /// Waits until it answers as it should.
    pub(crate) fn wait_ready(
        &self,
        url: &str,
        ready: &Ready,
        stopped: &dyn Fn() -> bool,
    ) -> Result<(), String> {
        let end = Instant::now() + ready.within.0;
        let mut last = String::from("nothing was tried");
        while Instant::now() < end && !stopped() {
            if self.has_ended() {
                return Err(format!("it ended at once{}", self.last_words()));
            }
            match probe(url, ready) {
                Ok(()) => return Ok(()),
                Err(reason) => last = reason,
            }
            sleep(LOOK);
        }
        Err(format!("it was not ready in {:?}: {last}{}", ready.within.0, self.last_words()))
    }

    /// The end of what it said, for messages; empty if it said nothing.
    pub(crate) fn last_words(&self) -> String {
        let text = fs::read(&self.words).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let text = text.trim();
        let skip = text.chars().count().saturating_sub(LAST_WORDS);
        let words: String = text.chars().skip(skip).collect();
        if words.is_empty() { String::new() } else { format!("; its last words: {words}") }
    }

    fn group(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.id()).ok()?)
    }

    fn stop(&mut self) {
        let Some(group) = self.group() else { return };
        let _ = kill_process_group(group, Signal::TERM);
        let end = Instant::now() + GRACE;
        while Instant::now() < end && !self.has_ended() {
            sleep(LOOK);
        }
        // Also when the first process has ended: others of its group may not have.
        let _ = kill_process_group(group, Signal::KILL);
        // Even SIGKILL takes a moment, and who is still dying still holds a port and a CPU.
        while Instant::now() < end + GRACE && group_runs(self.child.id()) {
            sleep(LOOK);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// One attempt to get the answer that shows that the server is ready.
fn probe(url: &str, ready: &Ready) -> Result<(), String> {
    let address = address(url)?;
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))
        .map_err(|error| format!("{address}: {error}"))?;
    if ready.status == 0 {
        return Ok(());
    }
    let limit = Some(Duration::from_secs(2));
    let mut ask = || -> io::Result<Vec<u8>> {
        stream.set_read_timeout(limit)?;
        stream.set_write_timeout(limit)?;
        let path = &ready.path;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        let mut head = Vec::new();
        (&mut stream).take(64).read_to_end(&mut head)?;
        Ok(head)
    };
    let head = ask().map_err(|error| format!("{address}: {error}"))?;
    let head = String::from_utf8_lossy(&head);
    match head.split(' ').nth(1) {
        Some(status) if status == ready.status.to_string() => Ok(()),
        Some(status) => Err(format!("{} was answered with {status}", ready.path)),
        None => Err("the answer is no HTTP".to_owned()),
    }
}

fn address(url: &str) -> Result<SocketAddr, String> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let mut all = authority.to_socket_addrs().map_err(|error| format!("{authority}: {error}"))?;
    all.next().ok_or_else(|| format!("{authority} has no address"))
}
