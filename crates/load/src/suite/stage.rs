//! Everything a suite has running: ports, folders, filled-in configurations, servers.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Bench;
use super::features::installed;
use super::file::{Ready, Seconds, ServerEntry, Suite, cpus, is_loopback};
use super::instructions;
use super::placeholder::Places;
use super::server::Running;
use crate::environment::said;
use crate::results::Server;

/// How a server is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Under {
    /// As it is.
    Nothing,
    /// Under callgrind.
    Callgrind,
}

/// A server that answers.
#[derive(Debug)]
pub(crate) struct Actor {
    pub(crate) running: Running,
    /// Where it is asked, without a path.
    pub(crate) url: String,
    pub(crate) dir: PathBuf,
    pub(crate) record: Server,
}

/// What is needed to start servers of one suite.
#[derive(Debug)]
pub(crate) struct Stage<'a> {
    pub(crate) suite: &'a Suite,
    pub(crate) bench: &'a Bench<'a>,
    pub(crate) ports: BTreeMap<String, u16>,
}

impl<'a> Stage<'a> {
    /// Takes a free port for every server. All are held until all are found, so that no two are the
    /// same.
    pub(crate) fn new(suite: &'a Suite, bench: &'a Bench<'a>) -> Result<Self, String> {
        let mut held = Vec::new();
        let mut ports = BTreeMap::new();
        for server in &suite.servers {
            let (listener, port) = free_port()?;
            held.push(listener);
            ports.insert(server.name.get_ref().clone(), port);
        }
        drop(held);
        Ok(Self { suite, bench, ports })
    }

    /// The entry of a server.
    pub(crate) fn entry(&self, name: &str) -> Option<&'a ServerEntry> {
        self.suite.servers.iter().find(|server| server.name.get_ref() == name)
    }

    /// Starts a server and waits until it answers.
    pub(crate) fn start(&self, entry: &ServerEntry, under: Under) -> Result<Actor, String> {
        let name = entry.name.get_ref();
        let mut ports = self.ports.clone();
        let mut folder = name.clone();
        if under == Under::Callgrind {
            let (_held, port) = free_port()?;
            ports.insert(name.clone(), port);
            folder.push_str("-callgrind");
        }
        let dir = self.bench.scratch.join(folder);
        // What an earlier instance left would be taken for this one's.
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let mut places = Places {
            program: &self.bench.program,
            dir: &dir,
            config: None,
            workers: workers(entry),
            server: name,
            ports: &ports,
        };
        let config = match &entry.config {
            Some(file) => Some(self.put(file.get_ref(), &places, &dir)?),
            None => None,
        };
        let shown = self.shown(entry, &ports, under)?;
        for file in &entry.files {
            self.put(file.get_ref(), &places, &dir)?;
        }
        places.config = config.as_deref();
        let url = places.fill(entry.url.get_ref());
        if !is_loopback(&url) {
            return Err(format!("`{url}` is not on this machine"));
        }
        let command = command(entry, &places, under);
        let running = Running::start(&command, &dir)?;
        let within = match under {
            Under::Nothing => entry.ready.within.0,
            // Callgrind makes a server fifty times slower, and some do much before they listen.
            Under::Callgrind => entry.ready.within.0.saturating_mul(6),
        };
        let ready = Ready { within: Seconds(within), ..entry.ready.clone() };
        running.wait_ready(&url, &ready, self.bench.stopped)?;
        Ok(Actor { running, url, dir, record: shown })
    }

    /// What the report says of a server that was started: its command and its configuration as one
    /// would use them in a folder of one's own, without the places they had on this machine.
    fn shown(
        &self,
        entry: &ServerEntry,
        ports: &BTreeMap<String, u16>,
        under: Under,
    ) -> Result<Server, String> {
        let file = entry.config.as_ref().map(|file| self.suite.folder.join(file.get_ref()));
        let name = file.as_ref().and_then(|file| file.file_name()).map(Path::new);
        let places = Places {
            program: Path::new("sluice"),
            dir: Path::new("."),
            config: name,
            workers: workers(entry),
            server: entry.name.get_ref(),
            ports,
        };
        let config = file.as_ref().map(|file| template(file)).transpose()?;
        Ok(Server {
            command: command(entry, &places, under).join(" "),
            url: Some(places.fill(entry.url.get_ref())),
            config: config.map(|text| places.fill(&text)),
            ..self.record(entry)
        })
    }

    /// What the report says of a server that was not started.
    pub(crate) fn record(&self, entry: &ServerEntry) -> Server {
        Server {
            name: entry.name.get_ref().clone(),
            version: self.version(entry),
            command: entry.command.get_ref().join(" "),
            url: None,
            cpus: pinned(entry).map(str::to_owned),
            config: None,
            skipped: None,
        }
    }

    fn version(&self, entry: &ServerEntry) -> Option<String> {
        let (program, arguments) = entry.version.split_first()?;
        let program = match program.as_str() {
            "{sluice}" => self.bench.program.display().to_string(),
            other => other.to_owned(),
        };
        said(Command::new(program).args(arguments))
    }

    /// Fills a template in and puts it into the server's folder.
    fn put(&self, file: &str, places: &Places<'_>, dir: &Path) -> Result<PathBuf, String> {
        let from = self.suite.folder.join(file);
        let text = places.fill(&template(&from)?);
        let to = dir.join(from.file_name().unwrap_or_default());
        fs::write(&to, &text).map_err(|error| format!("cannot write {}: {error}", to.display()))?;
        Ok(to)
    }
}

fn template(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

fn command(entry: &ServerEntry, places: &Places<'_>, under: Under) -> Vec<String> {
    let plain = entry.command.get_ref();
    match under {
        Under::Nothing => {
            let filled = plain.iter().map(|word| places.fill(word));
            let pin = pinned(entry).map(|set| ["taskset", "-c", set].map(str::to_owned));
            pin.into_iter().flatten().chain(filled).collect()
        }
        Under::Callgrind => {
            let own = entry.instructions_command.as_ref().unwrap_or(plain);
            let filled: Vec<String> = own.iter().map(|word| places.fill(word)).collect();
            instructions::wrapped(&filled, places.dir)
        }
    }
}

/// The CPUs a server is bound to: as the suite says, unless this machine has fewer.
fn pinned(entry: &ServerEntry) -> Option<&str> {
    let set = entry.cpus.as_ref()?.get_ref();
    (fits(set) && installed("taskset")).then_some(set.as_str())
}

/// Whether this machine has all CPUs of a set.
pub(crate) fn fits(set: &str) -> bool {
    let have = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    cpus(set).is_some_and(|set| set.iter().all(|cpu| *cpu < have))
}

fn workers(entry: &ServerEntry) -> usize {
    let have = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    pinned(entry).and_then(cpus).map_or(have, |set| set.len())
}

fn free_port() -> Result<(TcpListener, u16), String> {
    let open = || {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        Ok((listener, port))
    };
    open().map_err(|error: std::io::Error| format!("no free port: {error}"))
}
