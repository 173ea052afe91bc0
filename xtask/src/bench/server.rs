//! A server that was started here, and is stopped here whatever happens.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::peers::{Bench, Peer, Role, free_port};

/// What a server runs under.
#[derive(Clone, Copy, Debug)]
pub enum Under<'a> {
    /// Nothing, on any CPU.
    Nothing,
    /// This CPU alone.
    Cpu(usize),
    /// callgrind, whose figures go to this file.
    Callgrind(&'a Path),
    /// strace, whose counts go to this file.
    Strace(&'a Path),
}

/// A running server; stopped on drop by its own process id.
#[derive(Debug)]
pub struct Server {
    child: Child,
    under_strace: bool,
    /// Its port on 127.0.0.1.
    pub port: u16,
    /// The path to ask for.
    pub path: &'static str,
    /// A header line that requests have besides those of the client.
    pub header: Option<&'static str>,
}

impl Server {
    /// Starts a server and waits until it answers with 200.
    pub fn start(bench: &Bench, peer: Peer, role: Role, under: Under<'_>) -> Result<Self, String> {
        let port = free_port()?;
        // Killed when this program dies, however it dies.
        let mut words: Vec<String> =
            ["setpriv", "--pdeathsig", "TERM", "--"].map(String::from).to_vec();
        match under {
            Under::Nothing => {}
            Under::Cpu(cpu) => words.extend(["taskset".into(), "-c".into(), cpu.to_string()]),
            Under::Callgrind(out) => words.extend([
                "valgrind".to_owned(),
                "--tool=callgrind".to_owned(),
                format!("--callgrind-out-file={}", out.display()),
            ]),
            Under::Strace(out) => {
                words.extend(["strace", "-c", "-f", "-o"].map(String::from));
                words.push(out.display().to_string());
            }
        }
        words.extend(bench.command(peer, role, port)?);
        let words_file = bench.scratch.join(format!("{}-{port}.log", peer.name()));
        let log =
            File::create(&words_file).map_err(|e| format!("{}: {e}", words_file.display()))?;
        let second = log.try_clone().map_err(|e| e.to_string())?;
        let child = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(second)
            .spawn()
            .map_err(|e| format!("{}: {e}", words.join(" ")))?;
        let under_strace = matches!(under, Under::Strace(_));
        let mut server =
            Self { child, under_strace, port, path: role.path(), header: role.header() };
        if let Err(why) = server.wait_until_it_answers() {
            let said = std::fs::read_to_string(&words_file).unwrap_or_default();
            let last: Vec<&str> = said.lines().rev().take(5).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            return Err(format!("{} as {role:?}: {why}\n{}", peer.name(), last.join("\n")));
        }
        Ok(server)
    }

    fn wait_until_it_answers(&mut self) -> Result<(), String> {
        // Ten thousand routes under callgrind take their time.
        let end = Instant::now() + Duration::from_secs(60);
        let mut last = "nobody listens".to_owned();
        while Instant::now() < end {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("ended with {status}"));
            }
            match self.ask() {
                Ok(answer) if answer.starts_with("HTTP/1.1 200 ") => return Ok(()),
                Ok(answer) => last = answer.lines().next().unwrap_or_default().to_owned(),
                Err(why) => last = why.to_string(),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(format!("never answered {} with 200: {last}", self.url()))
    }

    fn ask(&self) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let path = self.path;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
        // The beginning says it all, and the rest may be large.
        let mut answer = Vec::new();
        stream.take(64).read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// What is asked for.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}{}", self.port, self.path)
    }

    /// The process id of the server itself.
    pub fn pid(&self) -> i32 {
        let own = i32::try_from(self.child.id()).unwrap_or_default();
        if !self.under_strace {
            return own;
        }
        let children = format!("/proc/{own}/task/{own}/children");
        let text = std::fs::read_to_string(children).unwrap_or_default();
        text.split_whitespace().next().and_then(|pid| pid.parse().ok()).unwrap_or(own)
    }

    /// CPU time of the process and of its children so far, all threads, in seconds.
    pub fn cpu_seconds(&self) -> Result<f64, String> {
        let mut sum = 0.0;
        let mut all = vec![self.pid()];
        while let Some(pid) = all.pop() {
            sum += cpu_seconds(pid)?;
            let path = format!("/proc/{pid}/task/{pid}/children");
            let children = std::fs::read_to_string(path).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        }
        Ok(sum)
    }

    /// How many descriptors it has open.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).map_or(0, Iterator::count)
    }

    /// The resident size in KiB.
    pub fn resident(&self) -> Result<f64, String> {
        self.size("VmRSS:")
    }

    /// The largest resident size so far, in KiB.
    pub fn peak(&self) -> Result<f64, String> {
        self.size("VmHWM:")
    }

    fn size(&self, name: &str) -> Result<f64, String> {
        let path = format!("/proc/{}/status", self.pid());
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let size = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        size.ok_or_else(|| format!("{path} names no {name}"))
    }

    /// Ends the server, and strace with it, and waits for both.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // strace ends, and writes its counts, when the server does.
        signal(self.pid(), Signal::TERM);
        let end = Instant::now() + Duration::from_secs(8);
        while Instant::now() < end {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        signal(self.pid(), Signal::KILL);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn cpu_seconds(pid: i32) -> Result<f64, String> {
    let path = format!("/proc/{pid}/task");
    let tasks = std::fs::read_dir(&path).map_err(|e| format!("{path}: {e}"))?;
    let mut nanoseconds = 0_u64;
    for task in tasks.flatten() {
        // The scheduler's own account: what stat rounds to hundredths of a second, in nanoseconds.
        let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        nanoseconds += text.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    }
    if nanoseconds == 0 { cpu_ticks(pid) } else { Ok(nanoseconds as f64 / 1e9) }
}

fn cpu_ticks(pid: i32) -> Result<f64, String> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    let behind = text.rsplit(')').next().unwrap_or_default();
    let ticks: f64 =
        behind.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<f64>().ok()).sum();
    Ok(ticks / 100.0)
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}
