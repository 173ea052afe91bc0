//! The real program doing one piece of work that ends by itself, like a measurement.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use crate::deadline::Deadline;
use crate::program::{Finished, Lines, Owned, Signal, binary, slurp};

/// The program at work, killed on drop.
pub struct Job {
    child: Owned,
    stdout: Receiver<String>,
    words: Lines,
}

impl Job {
    /// Starts the program with these arguments in this directory.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    #[track_caller]
    pub fn start(arguments: &[&str], directory: &Path) -> Self {
        let mut child = Command::new(binary())
            .args(arguments)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let words = Lines::collect(child.stderr.take().expect("its words are a pipe"));
        let stdout = slurp(child.stdout.take().expect("its output is a pipe"));
        Self { child: Owned(child), stdout, words }
    }

    /// The lines of its standard error, for waiting.
    #[must_use]
    pub fn words(&self) -> &Lines {
        &self.words
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        self.child.signal(signal);
    }

    /// What it left when it had ended, within this time.
    ///
    /// # Panics
    /// When it does not end in time.
    #[must_use]
    #[track_caller]
    pub fn finish(mut self, within: Duration) -> Finished {
        let words = || self.words.so_far().join("\n");
        let Some(status) = self.child.wait(Deadline::after(within)) else {
            panic!("still running after {within:?}:\n{}", words());
        };
        // The pipes close with the program; what is still in them comes at once.
        let stdout = self.stdout.recv_timeout(within).unwrap_or_default();
        self.words.wait_for_end();
        Finished { code: status.code(), stdout, stderr: words() }
    }
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("pid", &self.child.0.id()).finish_non_exhaustive()
    }
}
