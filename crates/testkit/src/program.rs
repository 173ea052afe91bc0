//! The real program as a child process: its lines, its listeners, its signals, its end.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, kill_process, pidfd_open, pidfd_send_signal};

use crate::deadline::{Deadline, PATIENCE};
use crate::scratch::Scratch;

/// The program under test: `$SLUICE_BIN`, or `release/sluice` in the target directory of the running test.
///
/// # Panics
/// When it has not been built.
#[must_use]
pub fn binary() -> PathBuf {
    let named = std::env::var_os("SLUICE_BIN").map(PathBuf::from);
    let path = named.unwrap_or_else(|| {
        let this = std::env::current_exe().expect("a test knows its own path");
        // target/debug/deps/test
        let target = this.ancestors().nth(3).expect("a test lies in target/PROFILE/deps");
        target.join("release/sluice")
    });
    assert!(path.exists(), "{} is not there: cargo build --release -p sluice", path.display());
    path
}

/// What a finished command left.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Its output.
    pub stdout: String,
    /// Its words.
    pub stderr: String,
}

/// Runs the program to its end with these arguments and this standard input.
///
/// # Panics
/// When it does not end in time.
#[must_use]
#[track_caller]
pub fn run(arguments: &[&str], input: &str) -> Finished {
    let mut child = Command::new(binary())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let mut stdin = child.stdin.take().expect("its input is a pipe");
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let out = slurp(child.stdout.take().expect("its output is a pipe"));
    let err = slurp(child.stderr.take().expect("its words are a pipe"));
    let mut child = Owned(child);
    let status = child.wait(Deadline::patient()).expect("the program ends in time");
    let text = |from: mpsc::Receiver<String>| from.recv_timeout(PATIENCE).unwrap_or_default();
    Finished { code: status.code(), stdout: text(out), stderr: text(err) }
}

pub(crate) fn slurp(mut from: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

/// A child that does not outlive the test.
pub(crate) struct Owned(pub(crate) Child);

impl Owned {
    /// Waits for the end; `None` when it does not come in time.
    pub(crate) fn wait(&mut self, deadline: Deadline) -> Option<ExitStatus> {
        if let Ok(Some(status)) = self.0.try_wait() {
            return Some(status);
        }
        let pid = Pid::from_child(&self.0);
        // Readable once the process has ended: the wait with a bound that std does not have.
        let handle = pidfd_open(pid, PidfdFlags::empty()).expect("a child has a handle");
        loop {
            if let Ok(Some(status)) = self.0.try_wait() {
                return Some(status);
            }
            let left = Timespec::try_from(deadline.remaining()?).expect("seconds fit");
            let _ = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&left));
        }
    }
}

impl Owned {
    pub(crate) fn signal(&self, signal: Signal) {
        // A child that has ended and was not waited for still takes the signal; there is nothing to fail.
        let _ = kill_process(Pid::from_child(&self.0), number(signal));
    }
}

const fn number(signal: Signal) -> rustix::process::Signal {
    match signal {
        Signal::Reload => rustix::process::Signal::HUP,
        Signal::Drain => rustix::process::Signal::TERM,
        Signal::Interrupt => rustix::process::Signal::INT,
        Signal::ReopenLogs => rustix::process::Signal::USR1,
        Signal::Upgrade => rustix::process::Signal::USR2,
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Lines of a stream, collected while the program runs.
#[derive(Clone, Debug, Default)]
pub struct Lines(Arc<(Mutex<Collected>, Condvar)>);

#[derive(Debug, Default)]
struct Collected {
    lines: Vec<String>,
    ended: bool,
}

impl Lines {
    pub(crate) fn collect(from: impl Read + Send + 'static) -> Self {
        let lines = Self::default();
        let sink = lines.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                sink.change(|collected| collected.lines.push(line));
            }
            sink.change(|collected| collected.ended = true);
        });
        lines
    }

    fn change(&self, change: impl FnOnce(&mut Collected)) {
        change(&mut self.0.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.1.notify_all();
    }

    /// All lines so far.
    #[must_use]
    pub fn so_far(&self) -> Vec<String> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).lines.clone()
    }

    /// How many lines there are: a mark for [`Self::wait_after`].
    #[must_use]
    pub fn mark(&self) -> usize {
        self.so_far().len()
    }

    /// Waits until the stream has ended, no longer than [`PATIENCE`].
    pub(crate) fn wait_for_end(&self) {
        let collected = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.0.1.wait_timeout_while(collected, PATIENCE, |collected| !collected.ended));
    }

    /// The first line at or after `mark` that contains `needle`; `None` when none comes in time or the stream ends.
    #[must_use]
    pub fn wait_after(&self, mark: usize, needle: &str) -> Option<String> {
        let deadline = Deadline::patient();
        let mut collected = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let mut fresh = collected.lines.iter().skip(mark);
            if let Some(line) = fresh.find(|line| line.contains(needle)) {
                return Some(line.clone());
            }
            if collected.ended {
                return None;
            }
            let left = deadline.remaining()?;
            let waited = self.0.1.wait_timeout(collected, left);
            collected = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Signals the program understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGHUP.
    Reload,
    /// SIGTERM.
    Drain,
    /// SIGINT.
    Interrupt,
    /// SIGUSR1.
    ReopenLogs,
    /// SIGUSR2.
    Upgrade,
}

/// The program did not become ready.
#[derive(Clone, Debug)]
pub struct Refused {
    /// Its exit code, when it ended.
    pub code: Option<i32>,
    /// What it said.
    pub stderr: Vec<String>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not ready (exit code {:?}):\n{}", self.code, self.stderr.join("\n"))
    }
}

impl std::error::Error for Refused {}

/// A process that took over from another one and is nobody's child; it does not outlive the test.
struct Heir {
    pid: Pid,
    handle: OwnedFd,
}

impl Heir {
    fn wait(&self, deadline: Deadline) -> bool {
        let Some(left) = deadline.remaining() else { return false };
        let left = Timespec::try_from(left).expect("seconds fit");
        poll(&mut [PollFd::new(&self.handle, PollFlags::IN)], Some(&left)) == Ok(1)
    }
}

impl Drop for Heir {
    fn drop(&mut self) {
        let _ = pidfd_send_signal(&self.handle, rustix::process::Signal::KILL);
    }
}

/// A running program with a configuration file of its own, killed on drop. After an upgrade the
/// process that took over is meant.
pub struct Sluice {
    child: Owned,
    heirs: Vec<Heir>,
    scratch: Scratch,
    config: PathBuf,
    stderr: Lines,
    stdout: Lines,
}

impl Sluice {
    /// Starts the program on this configuration and waits until it is ready.
    ///
    /// # Panics
    /// When it does not become ready.
    #[must_use]
    #[track_caller]
    pub fn start(config: &str) -> Self {
        match Self::try_start(config) {
            Ok(started) => started,
            Err(refused) => panic!("{refused}"),
        }
    }

    /// Starts the program on this configuration.
    ///
    /// # Errors
    /// When it ends, or is not ready in time.
    pub fn try_start(config: &str) -> Result<Self, Refused> {
        let scratch = Scratch::new();
        let path = scratch.write("sluice.toml", config);
        let mut program = Command::new(binary());
        program.stdin(Stdio::null());
        let words = ["run", "-c", &path.display().to_string()];
        Self::launch(scratch, path.clone(), program, &words)
    }

    /// Starts the program on this configuration by the command that `prepare` makes of the directory;
    /// the words `run -c sluice.toml` are appended.
    ///
    /// # Panics
    /// When it does not become ready.
    #[must_use]
    #[track_caller]
    pub fn start_by(config: &str, prepare: impl FnOnce(&Scratch) -> Command) -> Self {
        let scratch = Scratch::new();
        let path = scratch.write("sluice.toml", config);
        let program = prepare(&scratch);
        match Self::launch(scratch, path, program, &["run", "-c", "sluice.toml"]) {
            Ok(started) => started,
            Err(refused) => panic!("{refused}"),
        }
    }

    /// Starts the program with these arguments, for the quick forms without a file.
    ///
    /// # Errors
    /// When it ends, or is not ready in time.
    pub fn try_start_with(arguments: &[&str]) -> Result<Self, Refused> {
        let scratch = Scratch::new();
        let path = scratch.path().join("sluice.toml");
        let mut program = Command::new(binary());
        program.stdin(Stdio::null());
        Self::launch(scratch, path, program, arguments)
    }

    fn launch(
        scratch: Scratch,
        config: PathBuf,
        mut program: Command,
        arguments: &[&str],
    ) -> Result<Self, Refused> {
        let mut child = program
            .args(arguments)
            .current_dir(scratch.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        // A descriptor that was its input is the program's alone.
        drop(program);
        let stderr = Lines::collect(child.stderr.take().expect("its words are a pipe"));
        let stdout = Lines::collect(child.stdout.take().expect("its output is a pipe"));
        let mut child = Owned(child);
        if wait_for_ready(&stderr) {
            return Ok(Self { child, heirs: Vec::new(), scratch, config, stderr, stdout });
        }
        let code = child.wait(Deadline::after(PATIENCE / 10)).and_then(|status| status.code());
        Err(Refused { code, stderr: stderr.so_far() })
    }

    /// The address of the listener of this name: `127.0.0.1:38211` or `unix:/path`.
    ///
    /// # Panics
    /// When the program named no such listener.
    #[must_use]
    #[track_caller]
    pub fn address(&self, name: &str) -> String {
        let lines = self.stderr();
        // The last one wins: a reload may have moved it.
        let found = lines.iter().rev().find_map(|line| listener(line, name));
        found.unwrap_or_else(|| panic!("no listener {name} in:\n{}", lines.join("\n")))
    }

    /// The address of the admin listener.
    ///
    /// # Panics
    /// When the program named none.
    #[must_use]
    #[track_caller]
    pub fn admin(&self) -> String {
        let lines = self.stderr();
        let found = lines.iter().rev().find_map(|line| after(line, "admin on "));
        found.unwrap_or_else(|| panic!("no admin listener in:\n{}", lines.join("\n")))
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        let heir = self.heirs.last().map(|heir| heir.pid.as_raw_nonzero().get().unsigned_abs());
        heir.unwrap_or_else(|| self.child.0.id())
    }

    /// The configuration file.
    #[must_use]
    pub fn config_path(&self) -> &Path {
        &self.config
    }

    /// The directory that goes with the program; it is also its working directory.
    #[must_use]
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// What the program said so far.
    #[must_use]
    pub fn stderr(&self) -> Vec<String> {
        self.stderr.so_far()
    }

    /// The lines of its standard error, for waiting.
    #[must_use]
    pub fn words(&self) -> &Lines {
        &self.stderr
    }

    /// The lines of its standard output: the access log, when that goes there.
    #[must_use]
    pub fn stdout(&self) -> &Lines {
        &self.stdout
    }

    /// Waits for a line on standard error, or finds it among those that have come.
    ///
    /// # Panics
    /// When it does not come in time.
    #[track_caller]
    pub fn wait_for_line(&self, needle: &str) -> String {
        let found = self.stderr.wait_after(0, needle);
        found.unwrap_or_else(|| panic!("no line {needle:?} in:\n{}", self.stderr().join("\n")))
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        match self.heirs.last() {
            // One that has ended: there is nothing to fail.
            Some(heir) => _ = pidfd_send_signal(&heir.handle, number(signal)),
            None => self.child.signal(signal),
        }
    }

    /// Rewrites the configuration file, in one step as an editor does.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn rewrite(&self, config: &str) {
        let fresh = self.scratch.write("sluice.toml.new", config);
        std::fs::rename(fresh, &self.config).expect("a file of the test can be renamed");
    }

    /// Rewrites the file, sends SIGHUP and waits for the line that says how it went: `reloaded` or `reload failed: ...`.
    ///
    /// # Panics
    /// When no such line comes in time.
    #[track_caller]
    pub fn reload(&self, config: &str) -> String {
        let mark = self.stderr.mark();
        self.rewrite(config);
        self.signal(Signal::Reload);
        // The program also sees that its file has changed, and may say so before or after.
        let line = self.stderr.wait_after(mark, "asked for)");
        line.unwrap_or_else(|| panic!("no reload in:\n{}", self.stderr().join("\n")))
    }

    /// Waits for the line at or after `mark` that says who took over; from then on that process is meant.
    ///
    /// # Panics
    /// When no such line comes in time.
    #[track_caller]
    pub fn follow_upgrade(&mut self, mark: usize) {
        let line = self.stderr.wait_after(mark, "upgraded: process ");
        let line = line.unwrap_or_else(|| panic!("no upgrade:\n{}", self.stderr().join("\n")));
        let number = after(&line, "upgraded: process ").and_then(|number| number.parse().ok());
        let pid = number.and_then(Pid::from_raw).expect("the line names the process");
        let handle = pidfd_open(pid, PidfdFlags::empty()).expect("the new process runs");
        self.heirs.push(Heir { pid, handle });
    }

    /// SIGUSR2, and a new process that takes over.
    ///
    /// # Panics
    /// When none does in time.
    #[track_caller]
    pub fn upgrade(&mut self) {
        let mark = self.stderr.mark();
        self.signal(Signal::Upgrade);
        self.follow_upgrade(mark);
    }

    /// Waits for the end of the process that was started, without asking for it; the exit code.
    ///
    /// # Panics
    /// When it does not end in time.
    #[track_caller]
    pub fn wait_for_exit(&mut self) -> Option<i32> {
        let status = self.child.wait(Deadline::after(PATIENCE * 2));
        match status {
            Some(status) => status.code(),
            None => panic!("still running:\n{}", self.stderr().join("\n")),
        }
    }

    /// SIGTERM, and the clean end that must follow.
    ///
    /// # Panics
    /// When it does not end with exit code 0, or has reported a panic.
    #[track_caller]
    pub fn stop(mut self) {
        self.signal(Signal::Drain);
        for heir in &self.heirs {
            let ended = heir.wait(Deadline::after(PATIENCE * 2));
            assert!(ended, "still running:\n{}", self.stderr().join("\n"));
        }
        let code = self.wait_for_exit();
        let words = self.stderr().join("\n");
        assert_eq!(code, Some(0), "{words}");
        assert!(!words.contains("panicked at"), "{words}");
    }
}

impl fmt::Debug for Sluice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sluice").field("pid", &self.pid()).finish_non_exhaustive()
    }
}

fn wait_for_ready(stderr: &Lines) -> bool {
    // "ready" alone: another line may hold the word within a sentence.
    let mut mark = 0;
    while stderr.wait_after(mark, "ready").is_some() {
        let lines = stderr.so_far();
        if lines.iter().skip(mark).any(|line| line.trim() == "ready") {
            return true;
        }
        mark = lines.len();
    }
    false
}

/// `listening on http://127.0.0.1:38211 (web)` names the listener `web`.
fn listener(line: &str, name: &str) -> Option<String> {
    let rest = line.trim_end().strip_suffix(&format!("({name})"))?;
    after(rest, "listening on ")
}

fn after(line: &str, words: &str) -> Option<String> {
    let rest = &line[line.find(words)? + words.len()..];
    let address = rest.split_whitespace().next()?;
    let schemes = ["http://", "https://", "tcp://", "tls://"];
    let bare = schemes.iter().find_map(|scheme| address.strip_prefix(scheme));
    let address = bare.unwrap_or(address);
    Some(address.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::{after, listener};

    #[test]
    fn finds_addresses_in_the_programs_lines() {
        let line = "listening on http://127.0.0.1:38211 (web)";
        assert_eq!(listener(line, "web").as_deref(), Some("127.0.0.1:38211"));
        assert_eq!(listener(line, "other"), None);
        let unix = "listening on unix:/run/s.sock (local)";
        assert_eq!(listener(unix, "local").as_deref(), Some("unix:/run/s.sock"));
        assert_eq!(after("admin on http://[::1]:9/", "admin on ").as_deref(), Some("[::1]:9"));
        assert_eq!(after("ready", "admin on "), None);
    }
}
