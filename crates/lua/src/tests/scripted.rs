//! A script in a worker of its own, which tells a test what it sees over a connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use sluice_net::{LogTarget, LogWriter, Post, mailbox, run};
use sluice_testkit::Scratch;

use crate::ports::Ports;
use crate::settings::Settings;
use crate::voice::Voice;
use crate::worker::{Parts, work};

/// How long a test waits for what has to come.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// What every script of a test begins with: a line of its own, so that the script's lines keep their numbers.
const BEGIN: &str = "local tcp, task, time, errno, env = require 'silly.net.tcp', require 'silly.task', \
    require 'silly.time', require 'silly.errno', require 'silly.env'; local out = assert(tcp.connect(env.get 'report')); \
    function report(...) local t = {...} for i = 1, select('#', ...) do t[i] = tostring(t[i]) end \
    out:write(table.concat(t, ' ') .. '\\n') end; \
    function serve(accept) report(assert(tcp.listen{addr = '127.0.0.1:0', accept = accept}).addr) end \n";

pub(super) struct Scripted {
    reports: BufReader<TcpStream>,
    end: Receiver<Result<u8, String>>,
    signals: Post<&'static str>,
    scratch: Scratch,
    voice: Voice,
}

impl Scripted {
    pub(super) fn start(script: &str) -> Self {
        Self::start_with(script, |_| {})
    }

    pub(super) fn start_with(script: &str, change: impl FnOnce(&mut Settings)) -> Self {
        let scratch = Scratch::new();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut settings = Settings::new(scratch.write("test.lua", format!("{BEGIN}{script}")));
        let report = listener.local_addr().unwrap().to_string();
        settings.variables.push(("report".to_owned(), report));
        change(&mut settings);
        let open = |name| {
            LogWriter::start(LogTarget::File(scratch.path().join(name)), Arc::default()).unwrap()
        };
        let voice = Voice::new(open("log"), open("output"));
        let (signals, inbox) = mailbox();
        let (sender, end) = channel();
        let parts = Parts {
            settings,
            voice: voice.clone(),
            ports: Ports::new(1),
            index: 0,
            signals: inbox,
        };
        std::thread::spawn(move || {
            let _ = sender.send(run(work(parts)).unwrap());
        });
        let stream = listener.accept().unwrap().0;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { reports: BufReader::new(stream), end, signals, scratch, voice }
    }

    /// The next line the script reports.
    #[track_caller]
    pub(super) fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.reports.read_line(&mut line);
        assert!(read.as_ref().is_ok_and(|length| *length > 0), "{read:?}\n{}", self.log());
        line.trim_end().to_owned()
    }

    /// The same where it may be no text.
    #[track_caller]
    pub(super) fn raw_line(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        let read = self.reports.read_until(b'\n', &mut line);
        assert!(read.as_ref().is_ok_and(|length| *length > 0), "{read:?}\n{}", self.log());
        line
    }

    /// Every one of these lines, in this order.
    #[track_caller]
    pub(super) fn expect(&mut self, lines: &[&str]) {
        for line in lines {
            assert_eq!(self.line(), *line, "{}", self.log());
        }
    }

    /// A connection to the listener the script reports next.
    pub(super) fn connect(&mut self) -> Peer {
        let address = self.line();
        Peer::new(&address)
    }

    pub(super) fn signal(&self, name: &'static str) {
        self.signals.send(name);
    }

    /// How the script ended.
    pub(super) fn end(&self) -> Result<u8, String> {
        self.end.recv_timeout(PATIENCE).unwrap()
    }

    /// What is in the log by now.
    pub(super) fn log(&self) -> String {
        self.voice.flush();
        std::fs::read_to_string(self.scratch.path().join("log")).unwrap_or_default()
    }

    /// What was printed by now.
    pub(super) fn output(&self) -> String {
        self.voice.flush();
        std::fs::read_to_string(self.scratch.path().join("output")).unwrap_or_default()
    }

    pub(super) fn scratch(&self) -> &Scratch {
        &self.scratch
    }
}

/// The other side of a connection.
pub(super) struct Peer(pub(super) TcpStream);

impl Peer {
    pub(super) fn new(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    pub(super) fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).unwrap();
    }

    #[track_caller]
    pub(super) fn expect(&mut self, text: &str) {
        let mut got = vec![0; text.len()];
        self.0.read_exact(&mut got).unwrap();
        assert_eq!(String::from_utf8_lossy(&got), text);
    }

    pub(super) fn finish_sending(&self) {
        self.0.shutdown(std::net::Shutdown::Write).unwrap();
    }

    /// Everything until the end.
    #[track_caller]
    pub(super) fn rest(&mut self) -> String {
        let mut text = String::new();
        self.0.read_to_string(&mut text).unwrap();
        text
    }
}
