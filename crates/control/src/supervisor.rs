//! The program's life: start, act on events one at a time, drain.

mod certificates;
mod configure;
mod drain;
mod filters;
mod scripts;
mod shown;
mod sources;
mod succeed;
mod upgrade;

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use sluice_cache::Claim;
use sluice_engine::Snapshot;
use sluice_meter::Name;
use sluice_model::{Model, Style};
use sluice_net::process::{End, cpus, notify_service_manager, uptime};
use sluice_net::signals::{Signal, watch_signals};
use sluice_net::succession::Program;
use sluice_net::watch::watch_file;
use sluice_net::{LogCounts, LogTarget, LogWriter, PidFile};
use sluice_upstream::{ClusterPlan, ServerPlan};

use crate::admin::{AdminPage, AdminSite};
use crate::compile::{Shelf, prepare};
use crate::crew::{Crew, CrewParts};
use crate::document::{ConfigError, ConfigSource};
use crate::estate::Estate;
use crate::event::{Event, Thread};
use crate::flaw::plain;
use crate::followed::Followed;
use crate::heritage::Heritage;
use crate::keyring::Keyring;
use crate::limiters::Limiters;
use crate::lists::Lists;
use crate::memory::{MemoryWatch, MemoryWatchParts};
use crate::names::Names;
use crate::status::{Phase, Status};
use crate::voice::Voice;
use crate::watcher::Watcher;

use configure::Cause;
use drain::Ending;
use succeed::Origin;
use upgrade::Attempt;

/// What the program is started with.
pub struct Launch {
    /// Where the configuration comes from.
    pub source: ConfigSource,
    /// Worker threads, whatever the configuration says.
    pub workers: Option<usize>,
    /// Where to write the number of the process.
    pub pid_file: Option<PathBuf>,
    /// How problems are shown on standard error.
    pub style: Style,
    /// The pages of the admin listener.
    pub pages: fn(&Arc<Status>) -> Vec<AdminPage>,
}

/// Why the program ended with something to complain about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The configuration it was started with cannot be used.
    Config(ConfigError),
    /// The world does not have what it needs, or a thread was lost. In full, with a newline at the
    /// end.
    Runtime(String),
}

/// Runs until it is told to stop, and has stopped.
///
/// # Errors
/// If it could not start, or had to end.
pub fn run(launch: Launch) -> Result<(), Failure> {
    // Counts from here.
    let _ = uptime();
    let mut origin = Origin::find()?;
    let (sender, events) = channel();
    let fault_log = LogWriter::start(LogTarget::Stderr, Arc::new(LogCounts::default()))
        .map_err(|error| Failure::Runtime(format!("error: cannot write: {error}\n")))?;
    let voice = Voice::new(fault_log.clone(), launch.style);
    let result = start_and_serve(launch, (sender, events), (&voice, &fault_log), &mut origin);
    if let Err(failure) = &result {
        origin.excuse(failure);
    }
    // What was said last is what matters most.
    drain::flush(&fault_log);
    result
}

fn start_and_serve(
    launch: Launch,
    (sender, events): (Sender<Event>, Receiver<Event>),
    (voice, fault_log): (&Voice, &LogWriter),
    origin: &mut Origin,
) -> Result<(), Failure> {
    let (heritage, upgrades) = origin.take(voice)?;
    let document = launch.source.read().map_err(Failure::Config)?;
    let model = document.parse().map_err(Failure::Config)?;
    let workers = launch.workers.or(model.workers).unwrap_or_else(cpus);
    let claim = if upgrades.is_some() { Claim::Await } else { Claim::Take };
    let shelf = Shelf::new(workers, claim).with_log(fault_log.clone());
    let prepared =
        prepare(&model, &shelf).map_err(|flaws| Failure::Config(ConfigError::Unusable(flaws)))?;
    let status = Status::new(workers);
    status.set_voice(voice.clone());
    let site = AdminSite::build((launch.pages)(&status))
        .map_err(|error| Failure::Runtime(format!("error: admin pages: {error}\n")))?;
    let opened = Estate::default()
        .open(&model, &prepared, &configure::opening(&status, &heritage))
        .map_err(|flaws| Failure::Runtime(ConfigError::Unusable(flaws).render(voice.style())))?;
    // Before threads are started, which would keep the signals' usual effect for a moment longer.
    listen_to_signals(&sender)?;
    let crew = Crew::start(&CrewParts {
        workers,
        meters: Arc::clone(status.meters()),
        admin_meters: Arc::clone(&site.meters),
        fault_log: fault_log.clone(),
        events: sender.clone(),
    })
    .map_err(|error| lost("a worker thread cannot be started", &error))?;
    let memory = MemoryWatch::start(MemoryWatchParts {
        workers: crew.workers().to_vec(),
        meters: Arc::clone(status.meters()),
        voice: voice.clone(),
    });
    let mut supervisor = Supervisor {
        source: launch.source,
        program: Program::this(),
        pid_file_path: launch.pid_file,
        pid_file: None,
        heritage,
        attempt: None,
        fixed_workers: launch.workers.is_some(),
        voice: voice.clone(),
        sender,
        events,
        deferred: VecDeque::new(),
        estate: Estate::default(),
        names: Names::default(),
        lists: Lists::default(),
        keyring: Keyring::default(),
        certificate_files: Followed::default(),
        filter_files: Followed::default(),
        script_files: Followed::default(),
        scripts: Vec::new(),
        limiters: Limiters::default(),
        shelf,
        memory,
        crew,
        watcher: Watcher::default(),
        site,
        status,
        model,
        snapshot: Arc::new(Snapshot::empty()),
        last_text: document.text.clone(),
    };
    supervisor.configure(document, prepared, opened)?;
    supervisor.status.set_phase(Phase::Serving);
    supervisor.take_over(origin)?;
    if let Some(upgrades) = upgrades {
        let meters = supervisor.status.meters();
        meters.upgrades_ok.add(upgrades.ok.saturating_add(1));
        meters.upgrades_failed.add(upgrades.failed);
    }
    supervisor.watch_file();
    supervisor.notify("READY=1");
    supervisor.voice.say("ready");
    supervisor.serve()
}

fn listen_to_signals(sender: &Sender<Event>) -> Result<(), Failure> {
    let sender = sender.clone();
    let deliver = move |signal| drop(sender.send(Event::Signal(signal)));
    watch_signals(deliver).map_err(|error| lost("signals cannot be handled", &error))
}

fn lost(what: &str, error: &io::Error) -> Failure {
    Failure::Runtime(format!("error: {what}: {}\n", plain(error)))
}

/// The thread that has the say, and what it decides on.
struct Supervisor {
    source: ConfigSource,
    /// How to start the next one.
    program: Program,
    pid_file_path: Option<PathBuf>,
    pid_file: Option<PidFile>,
    /// Sockets that were open before.
    heritage: Heritage,
    /// The upgrade under way.
    attempt: Option<Attempt>,
    /// Whether the number of workers was given on the command line.
    fixed_workers: bool,
    voice: Voice,
    sender: Sender<Event>,
    events: Receiver<Event>,
    /// What happened while something else was waited for.
    deferred: VecDeque<Event>,
    estate: Estate,
    names: Names,
    lists: Lists,
    keyring: Keyring,
    certificate_files: Followed,
    filter_files: Followed,
    script_files: Followed,
    /// Scripts of routes and listeners in force.
    scripts: Vec<Arc<sluice_lua::Program>>,
    limiters: Limiters,
    shelf: Shelf,
    memory: MemoryWatch,
    crew: Crew,
    watcher: Watcher,
    site: AdminSite,
    status: Arc<Status>,
    /// What is in force.
    model: Model,
    snapshot: Arc<Snapshot>,
    /// The text that was tried last, good or not.
    last_text: String,
}

impl Supervisor {
    fn serve(&mut self) -> Result<(), Failure> {
        loop {
            match self.next_event(None) {
                Some(Event::Signal(Signal::Stop)) => {
                    self.give_upgrade_up();
                    return self.drain(Ending::Stopped);
                }
                Some(Event::Signal(Signal::Reload)) => self.reload_now_or_later(Cause::Asked)?,
                Some(Event::FileChanged) => self.reload_now_or_later(Cause::FileChanged)?,
                Some(Event::Signal(Signal::ReopenLogs)) => {
                    self.reopen_logs();
                    self.note_reopening();
                }
                Some(Event::Signal(Signal::Upgrade)) => self.upgrade(),
                Some(Event::Upgraded(outcome)) => {
                    if let Some(ending) = self.on_upgraded(outcome)? {
                        return self.drain(ending);
                    }
                }
                Some(Event::Resolved(resolution)) => {
                    if self.take_in(resolution) {
                        self.apply_servers();
                    }
                }
                Some(Event::CertificatesChanged) => {
                    if let Some(cause) = self.read_certificates_again() {
                        self.reload_now_or_later(cause)?;
                    }
                }
                Some(Event::FilterFileChanged(path)) => self.read_filters_again(path.as_deref()),
                Some(Event::ScriptChanged) => {
                    if self.has_new_scripts() {
                        self.reload_now_or_later(Cause::ScriptChanged)?;
                    }
                }
                Some(Event::ListChanged(path)) => self.read_list_again(&path),
                Some(Event::Ended(thread, end)) => return Err(lost_thread(thread, &end)),
                // Cannot be: we hold a sender ourselves.
                None => return Ok(()),
            }
        }
    }

    fn reload_now_or_later(&mut self, cause: Cause) -> Result<(), Failure> {
        match self.postpone(cause) {
            Some(cause) => self.reload(cause),
            None => Ok(()),
        }
    }

    /// The next event, deferred ones first; `None` once `limit` has passed.
    fn next_event(&mut self, limit: Option<Duration>) -> Option<Event> {
        if let Some(event) = self.deferred.pop_front() {
            return Some(event);
        }
        self.fresh_event(limit)
    }

    fn fresh_event(&self, limit: Option<Duration>) -> Option<Event> {
        match limit {
            None => self.events.recv().ok(),
            Some(limit) => self.events.recv_timeout(limit).ok(),
        }
    }

    fn watch_file(&self) {
        let Some(path) = self.source.file() else { return };
        let sender = self.sender.clone();
        match watch_file(path, move || drop(sender.send(Event::FileChanged))) {
            // It may have changed between the moment it was read and this one.
            Ok(()) => drop(self.sender.send(Event::FileChanged)),
            Err(error) => self.voice.warn(&format!(
                "changes of {} go unnoticed ({}); SIGHUP still reloads",
                path.display(),
                plain(&error)
            )),
        }
    }

    /// Has the servers of the configuration in force watched.
    fn watch_servers(&mut self) {
        let ears = (&self.voice, &self.sender);
        if let Err(error) = self.watcher.watch(&self.snapshot.clusters, ears) {
            self.voice.warn(&format!("servers go unwatched: {}", plain(&error)));
        }
    }

    /// Series of what is no longer configured would stand still on the metrics page for ever.
    fn forget_unused_meters(&self) {
        let plans = &self.snapshot.clusters;
        let routes: BTreeSet<&str> = self.model.routes.iter().map(|it| it.name.as_str()).collect();
        let upstreams: BTreeSet<&str> = plans.iter().map(|plan| plan.name.as_str()).collect();
        let places = |plan: &'_ Arc<ClusterPlan>| -> Vec<(String, String)> {
            let place = |server: &ServerPlan| (plan.name.clone(), server.endpoint.to_string());
            plan.servers.iter().map(place).collect()
        };
        let servers: BTreeSet<(String, String)> = plans.iter().flat_map(places).collect();
        let listeners = &self.snapshot.listeners;
        self.status.meters().retain(|name| match name {
            Name::Route(name) => name == configure::UNMATCHED || routes.contains(name),
            Name::Upstream(name) => upstreams.contains(name),
            Name::Server { upstream, address } => {
                servers.contains(&(upstream.to_owned(), address.to_owned()))
            }
            Name::Listener(name) => listeners.iter().any(|plan| plan.name == name),
        });
    }

    fn reopen_logs(&self) {
        match self.estate.log_file() {
            Some((path, writer)) => {
                writer.reopen();
                self.voice.say(&format!("reopened {}", path.display()));
            }
            None => self.voice.say("there is no log file to be reopened"),
        }
    }

    /// Says what workers could not do.
    fn report(&self, problems: &[String]) {
        problems.iter().for_each(|problem| self.voice.warn(problem));
    }

    fn notify(&self, state: &str) {
        if let Err(error) = notify_service_manager(state) {
            self.voice.warn(&format!("the service manager cannot be told: {}", plain(&error)));
        }
    }
}

fn lost_thread(thread: Thread, end: &End<io::Result<sluice_engine::Drained>>) -> Failure {
    let name = match thread {
        Thread::Worker(index) => format!("worker {index}"),
        Thread::Admin => "the admin thread".to_owned(),
        Thread::Health => "the thread that watches over servers".to_owned(),
    };
    let why = match end {
        End::Panicked => "panicked".to_owned(),
        End::Returned(Err(error)) => format!("ended: {error}"),
        End::Returned(Ok(_)) => "ended without being told to".to_owned(),
    };
    Failure::Runtime(format!(
        "error: {name} {why}; the program ends, because it would serve only a part of its clients\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_thread_is_named() {
        let rows = [
            (Thread::Worker(3), End::Panicked, "worker 3 panicked"),
            (Thread::Admin, End::Returned(Err(io::Error::other("no"))), "admin thread ended: no"),
        ];
        for (thread, end, part) in rows {
            let Failure::Runtime(text) = lost_thread(thread, &end) else { panic!("not that") };
            assert!(text.contains(part) && text.ends_with('\n'), "{text}");
        }
    }
}
