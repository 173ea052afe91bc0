//! Log output on a thread of its own: a full disk or a slow pipe never stops a worker.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

/// Batches that may wait for the thread; a batch holds what a worker logged in one turn of its loop.
const QUEUE: usize = 512;

/// What a log file is made with: its owner writes, its group reads.
const LOG_FILE_MODE: u32 = 0o640;

/// Where log lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A file, appended to; opened again on request, so that it can be rotated.
    File(PathBuf),
}

enum Order {
    Lines(Vec<u8>),
    Reopen,
    /// Everything before this was written once the sender is dropped.
    Flush(Sender<()>),
}

/// A log and the thread that writes it. Clones share the thread.
#[derive(Clone, Debug)]
pub struct LogWriter {
    orders: SyncSender<Order>,
    counts: Arc<LogCounts>,
}

/// What became of log lines.
#[derive(Debug, Default)]
pub struct LogCounts {
    /// Lines handed to the kernel.
    pub written: AtomicU64,
    /// Lines lost: the queue was full, or writing failed.
    pub dropped: AtomicU64,
}

impl LogWriter {
    /// Opens the target and starts the thread.
    ///
    /// # Errors
    /// If the file cannot be opened or the thread cannot be started.
    pub fn start(target: LogTarget, counts: Arc<LogCounts>) -> io::Result<Self> {
        let output = open(&target)?;
        let (orders, inbox) = sync_channel(QUEUE);
        let writer = Writer { target, output: Some(output), counts: Arc::clone(&counts) };
        thread::Builder::new().name("sluice-log".into()).spawn(move || writer.run(&inbox))?;
        Ok(Self { orders, counts })
    }

    /// Hands over whole lines. If the thread cannot keep up they are dropped and counted.
    pub fn write(&self, lines: Vec<u8>) {
        if let Err(refused) = self.orders.try_send(Order::Lines(lines)) {
            let (std::sync::mpsc::TrySendError::Full(Order::Lines(lines))
            | std::sync::mpsc::TrySendError::Disconnected(Order::Lines(lines))) = refused
            else {
                return;
            };
            self.counts.dropped.fetch_add(count_lines(&lines), Ordering::Relaxed);
        }
    }

    /// Opens the file again, after it was moved away.
    pub fn reopen(&self) {
        // The thread lives as long as a sender does.
        let _ = self.orders.send(Order::Reopen);
    }

    /// Waits until all lines handed over so far are written. For the control thread, at the end.
    pub fn flush(&self) {
        let (done, wait) = channel();
        if self.orders.send(Order::Flush(done)).is_ok() {
            // An error means that the sender was dropped, which is the signal.
            let _ = wait.recv();
        }
    }
}

struct Writer {
    target: LogTarget,
    /// Absent while the file cannot be opened.
    output: Option<File>,
    counts: Arc<LogCounts>,
}

impl Writer {
    fn run(mut self, inbox: &Receiver<Order>) {
        while let Ok(order) = inbox.recv() {
            match order {
                Order::Lines(lines) => self.write(&lines),
                Order::Reopen => self.output = open(&self.target).ok(),
                Order::Flush(done) => drop(done),
            }
        }
    }

    fn write(&mut self, lines: &[u8]) {
        if self.output.is_none() {
            // The directory may be back, the disk mounted again.
            self.output = open(&self.target).ok();
        }
        let written = self.output.as_mut().is_some_and(|output| output.write_all(lines).is_ok());
        let counter = if written { &self.counts.written } else { &self.counts.dropped };
        counter.fetch_add(count_lines(lines), Ordering::Relaxed);
    }
}

fn count_lines(lines: &[u8]) -> u64 {
    let count = lines.iter().filter(|&&byte| byte == b'\n').count();
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn open(target: &LogTarget) -> io::Result<File> {
    match target {
        // A duplicate, so that closing it leaves the process's own one open.
        LogTarget::Stdout => Ok(File::from(rustix::io::dup(rustix::stdio::stdout())?)),
        LogTarget::Stderr => Ok(File::from(rustix::io::dup(rustix::stdio::stderr())?)),
        // Addresses and paths of clients are not for every user of the system. A file that is there keeps its mode.
        LogTarget::File(path) => {
            OpenOptions::new().append(true).create(true).mode(LOG_FILE_MODE).open(path)
        }
    }
}
