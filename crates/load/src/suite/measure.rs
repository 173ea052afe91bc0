//! The runs of a suite: servers in alternating order, round after round, each run after a warm-up.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::features::Missing;
use super::file::{CaseEntry, Handshakes, Protocol, Suite, cpus};
use super::instructions;
use super::stage::{Actor, Stage, Under, fits};
use super::{Bench, CaseRun, Extent, Purpose};
use crate::environment::{Environment, MachineTicks, process_cpu};
use crate::outcome::{Mode, Outcome};
use crate::results::{Case, FORMAT, Length, Results, Run, Server, State};

/// How long an answer may take if the case says nothing.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Requests before instructions are counted: everything lazy has happened then.
const BEFORE_COUNTING: u64 = 2000;

/// A suite under way.
struct Measurement<'a> {
    stage: Stage<'a>,
    actors: BTreeMap<String, Actor>,
    missing: Missing,
    threads: Option<u32>,
    order: u32,
    failed: bool,
}

pub(super) fn run(suite: &Suite, bench: &Bench<'_>) -> Result<Results, String> {
    let started = unix_ms();
    let mut environment = Environment::observe(&suite.folder);
    let ticks = MachineTicks::now();
    if environment.was_busy() {
        (bench.say)(&format!(
            "the machine is not quiet: a load average of {:.2} on {} cores; the report will not be \
             publishable",
            environment.load_before, environment.cores
        ));
    }
    let pinned = suite.load_cpus.as_ref().map(|set| set.get_ref().as_str()).filter(|set| fits(set));
    let mut measurement = Measurement {
        stage: Stage::new(suite, bench)?,
        actors: BTreeMap::new(),
        missing: Missing::look(suite, bench),
        threads: pinned.and_then(cpus).and_then(|set| u32::try_from(set.len()).ok()),
        order: 0,
        failed: false,
    };
    measurement.raise_curtain();
    let cases = {
        let _bound = pinned.map(Bound::to);
        suite.cases.iter().map(|case| measurement.case(case)).collect()
    };
    let servers = measurement.servers();
    let failed = measurement.failed;
    // Stops every server, so that the load afterwards is that of the others.
    drop(measurement);
    let noise = ticks.until_now();
    environment.load_after = noise.load_after;
    environment.steal = noise.steal;
    Ok(Results {
        format: FORMAT,
        suite: suite.name.clone(),
        title: suite.title.clone(),
        about: suite.about.clone(),
        notes: suite.notes.clone(),
        tool: bench.tool.clone(),
        started_unix_ms: started,
        finished_unix_ms: unix_ms(),
        state: match ((bench.stopped)(), failed) {
            (true, _) => State::Interrupted,
            (false, true) => State::Failed,
            (false, false) => State::Complete,
        },
        length: bench.length,
        environment,
        parameters: parameters(suite, bench.length, pinned),
        servers,
        cases,
    })
}

impl Measurement<'_> {
    /// Starts every server that a case needs, those first that others use.
    fn raise_curtain(&mut self) {
        let suite = self.stage.suite;
        let playing = suite.cases.iter().filter(|case| self.missing.case(case).is_none());
        let names: Vec<&str> = playing
            .flat_map(|case| case.servers.iter().map(|name| name.get_ref().as_str()))
            .collect();
        for name in names {
            self.start(name, suite.servers.len());
        }
    }

    /// Starts one server after those it uses; `depth` ends circles.
    fn start(&mut self, name: &str, depth: usize) {
        let done = self.actors.contains_key(name) || self.missing.servers.contains_key(name);
        let Some(entry) = self.stage.entry(name).filter(|_| !done && depth > 0) else { return };
        if (self.stage.bench.stopped)() {
            return;
        }
        for used in &entry.uses {
            self.start(used.get_ref(), depth.saturating_sub(1));
        }
        let lost = entry.uses.iter().find(|used| !self.actors.contains_key(used.get_ref()));
        let started = match lost {
            Some(used) => Err(format!("{} did not start", used.get_ref())),
            None => self.stage.start(entry, Under::Nothing),
        };
        match started {
            Ok(actor) => {
                (self.stage.bench.say)(&format!("{name} answers on {}", actor.url));
                self.actors.insert(name.to_owned(), actor);
            }
            Err(reason) => {
                (self.stage.bench.say)(&format!("{name} did not start: {reason}"));
                self.missing.servers.insert(name.to_owned(), format!("did not start: {reason}"));
                self.failed |= !(self.stage.bench.stopped)();
            }
        }
    }

    fn servers(&self) -> Vec<Server> {
        let entries = self.stage.suite.servers.iter();
        let record = |name: &str| self.actors.get(name).map(|actor| actor.record.clone());
        entries
            .map(|entry| {
                let name = entry.name.get_ref();
                let skipped = || match self.missing.servers.get(name) {
                    Some(reason) => reason.clone(),
                    None => "no case that was run needs it".to_owned(),
                };
                record(name).unwrap_or_else(|| Server {
                    skipped: Some(skipped()),
                    ..self.stage.record(entry)
                })
            })
            .collect()
    }

    fn case(&mut self, entry: &CaseEntry) -> Case {
        let bench = self.stage.bench;
        let skipped = self.missing.case(entry);
        let names = entry.servers.iter().map(|name| name.get_ref().clone());
        let servers: Vec<String> = names.filter(|name| self.actors.contains_key(name)).collect();
        let mut case = Case {
            name: entry.name.get_ref().clone(),
            title: entry.title.clone(),
            about: entry.about.clone(),
            parameters: case_parameters(entry),
            servers,
            ..Case::default()
        };
        if skipped.is_some() || (bench.stopped)() {
            let stopped = || "the suite was stopped before it".to_owned();
            case.skipped = Some(skipped.unwrap_or_else(stopped));
            (bench.say)(&format!("{}: {}", case.name, case.skipped.as_deref().unwrap_or_default()));
            return case;
        }
        for connections in entry.connections.get_ref() {
            for round in 1..=self.stage.suite.rounds.of(bench.length) {
                for server in turn(&case.servers, round) {
                    if (bench.stopped)() {
                        return case;
                    }
                    let run = self.one(entry, server, (*connections, round));
                    (bench.say)(&line(&case.name, &run));
                    self.failed |= run.failure.is_some();
                    case.runs.push(run);
                }
            }
        }
        if entry.instructions {
            case.instructions = self.instructions(entry, &case.servers);
        }
        case
    }

    fn one(&mut self, entry: &CaseEntry, server: &str, (connections, round): (u32, u32)) -> Run {
        self.order = self.order.saturating_add(1);
        let mut run = Run {
            server: server.to_owned(),
            connections,
            round,
            order: self.order,
            ..Run::default()
        };
        match self.measured(entry, server, connections, &mut run) {
            Ok(outcome) => run.outcome = Some(outcome),
            Err(reason) => run.failure = Some(reason),
        }
        run
    }

    fn measured(
        &self,
        entry: &CaseEntry,
        server: &str,
        connections: u32,
        run: &mut Run,
    ) -> Result<Outcome, String> {
        let actor = self.actors.get(server).ok_or("it is not running")?;
        let alive = || match actor.running.has_ended() {
            true => Err(format!("the server has ended{}", actor.running.last_words())),
            false => Ok(()),
        };
        alive()?;
        let bench = self.stage.bench;
        (bench.run)(&self.warm_up(entry, server, &actor.url))
            .map_err(|reason| format!("warm-up: {reason}"))?;
        let (pid, ticks) = (actor.running.pid(), MachineTicks::now());
        let cpu = process_cpu(pid);
        // The load generator and every server: they are its children.
        let all = || process_cpu(std::process::id()).unwrap_or(0.0);
        let before = all();
        let outcome = (bench.run)(&self.load(entry, server, &actor.url, connections));
        run.noise = ticks.until_now().beside(all() - before);
        run.server_cpu_seconds =
            process_cpu(pid).zip(cpu).map(|(after, before)| (after - before).max(0.0));
        let outcome = outcome?;
        alive()?;
        Ok(outcome)
    }

    fn load(&self, entry: &CaseEntry, server: &str, url: &str, connections: u32) -> CaseRun {
        let length = self.stage.bench.length;
        let path = entry.paths.get(server).unwrap_or(&entry.path);
        let duration = entry.duration.unwrap_or(self.stage.suite.duration).of(length).0;
        let mode = match (&entry.rate, entry.users) {
            (Some(rate), _) => Mode::Open { rate_per_second: *rate.get_ref() },
            (None, Some(users)) => Mode::Users {
                users: connections.into(),
                requests_each: users.requests,
                ramp_seconds: users.ramp.0.as_secs_f64(),
            },
            (None, None) => Mode::Closed,
        };
        let repeat = usize::try_from(entry.body_repeat).unwrap_or(usize::MAX);
        CaseRun {
            purpose: Purpose::Measure,
            url: if entry.redis.is_some() { url.to_owned() } else { format!("{url}{path}") },
            method: entry.method.clone(),
            headers: entry.headers.clone().into_iter().collect(),
            body: entry.body.repeat(repeat).into_bytes(),
            mode,
            connections,
            threads: self.threads,
            pipeline: entry.pipeline,
            protocol: entry.protocol,
            streams: entry.streams.as_ref().map_or(1, |streams| *streams.get_ref()),
            handshakes: entry.handshakes.as_ref().map(|handshakes| *handshakes.get_ref()),
            extent: Extent::Time(duration),
            timeout: entry.timeout.map_or(TIMEOUT, |timeout| timeout.0),
            status: entry.status,
            redis: entry.redis.clone(),
        }
    }

    fn warm_up(&self, entry: &CaseEntry, server: &str, url: &str) -> CaseRun {
        let warm_up = self.stage.suite.warm_up;
        let time = match self.stage.bench.length {
            Length::Short => warm_up.short,
            Length::Full => warm_up.full,
        };
        CaseRun {
            purpose: Purpose::WarmUp,
            mode: Mode::Closed,
            extent: Extent::Time(time.0),
            ..self.load(entry, server, url, warm_up.connections)
        }
    }

    /// Counts each server's instructions on an instance of its own.
    fn instructions(&mut self, entry: &CaseEntry, servers: &[String]) -> BTreeMap<String, f64> {
        let say = self.stage.bench.say;
        if !instructions::possible() {
            say("valgrind is not installed: no instructions are counted");
            return BTreeMap::new();
        }
        let mut counted = BTreeMap::new();
        for server in servers {
            if (self.stage.bench.stopped)() {
                break;
            }
            match self.count(entry, server) {
                Ok(count) => {
                    say(&format!("{server}: {count:.0} user instructions per request"));
                    counted.insert(server.clone(), count);
                }
                Err(reason) => {
                    say(&format!("{server}: no instructions: {reason}"));
                    self.failed = true;
                }
            }
        }
        counted
    }

    fn count(&self, entry: &CaseEntry, server: &str) -> Result<f64, String> {
        let settings = self.stage.suite.instructions;
        let definition = self.stage.entry(server).ok_or("there is no such server")?;
        let actor = self.stage.start(definition, Under::Callgrind)?;
        let load = |requests: u64| CaseRun {
            purpose: Purpose::Count,
            mode: Mode::Closed,
            extent: Extent::Requests(requests),
            // Callgrind makes a server fifty times slower.
            timeout: TIMEOUT.saturating_mul(6),
            ..self.load(entry, server, &actor.url, settings.connections)
        };
        (self.stage.bench.run)(&load(BEFORE_COUNTING))?;
        instructions::reset(actor.running.pid())?;
        let outcome = (self.stage.bench.run)(&load(settings.requests))?;
        instructions::collect(actor.running.pid(), &actor.dir, outcome.responses)
    }
}

/// Servers forwards in odd rounds, backwards in even ones: A B, B A, ... so that whatever drifts
/// during the measurement hits all alike.
fn turn(servers: &[String], round: u32) -> Vec<&String> {
    match round % 2 {
        0 => servers.iter().rev().collect(),
        _ => servers.iter().collect(),
    }
}

/// The load generator's CPUs while this is alive. Threads started meanwhile inherit them.
struct Bound(Option<CpuSet>);

impl Bound {
    fn to(set: &str) -> Self {
        let before = sched_getaffinity(None).ok();
        let mut wanted = CpuSet::new();
        cpus(set).unwrap_or_default().into_iter().for_each(|cpu| wanted.set(cpu));
        // Refused where CPUs are taken away from this process: then it stays where it may be.
        let _ = sched_setaffinity(None, &wanted);
        Self(before)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = sched_setaffinity(None, before);
        }
    }
}

fn line(case: &str, run: &Run) -> String {
    let place = format!("{case} · {} · {} · round {}", run.server, run.connections, run.round);
    match (&run.outcome, &run.failure) {
        (Some(outcome), _) => format!(
            "{place}: {:.0} req/s, p99 {} µs, {} errors",
            outcome.rate,
            outcome.latency.percentile(99.0),
            outcome.errors.total()
        ),
        (None, reason) => format!("{place}: {}", reason.as_deref().unwrap_or("nothing")),
    }
}

fn parameters(suite: &Suite, length: Length, pinned: Option<&str>) -> Vec<(String, String)> {
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let warm_up = match length {
        Length::Short => suite.warm_up.short,
        Length::Full => suite.warm_up.full,
    };
    let durations = match length {
        Length::Short => "short",
        Length::Full => "as published",
    };
    let load = match pinned {
        Some(set) => format!("CPU {set}, one thread each"),
        None => "not bound to CPUs".to_owned(),
    };
    vec![
        fact("Durations", durations.to_owned()),
        fact("Rounds", suite.rounds.of(length).to_string()),
        fact("Each run", format!("{:?}", suite.duration.of(length).0)),
        fact(
            "Warm-up",
            format!(
                "{:?} with {} connections before each run",
                warm_up.0, suite.warm_up.connections
            ),
        ),
        fact("Order", "alternating: forwards, backwards, ...".to_owned()),
        fact("Load generator", load),
    ]
}

fn case_parameters(entry: &CaseEntry) -> Vec<(String, String)> {
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let mut facts = match &entry.redis {
        Some(test) => vec![fact("Redis test", test.clone())],
        None => vec![fact("request", format!("{} {}", entry.method, entry.path))],
    };
    facts.push(match (&entry.rate, entry.users) {
        (Some(rate), _) => fact("open loop", format!("{} requests per second", rate.get_ref())),
        (None, Some(users)) => fact(
            "users",
            format!("{} requests each, all started within {:?}", users.requests, users.ramp.0),
        ),
        (None, None) => fact("closed loop", "as fast as answers come".to_owned()),
    });
    if entry.protocol == Protocol::Http2 {
        let streams = entry.streams.as_ref().map_or(1, |streams| *streams.get_ref());
        facts.push(fact("HTTP/2", format!("{streams} streams on each connection")));
    }
    match entry.handshakes.as_ref().map(|handshakes| *handshakes.get_ref()) {
        Some(Handshakes::Full) => facts.push(fact("handshakes", "a full one each".to_owned())),
        Some(Handshakes::Resumed) => {
            facts.push(fact("handshakes", "one each, shortened by a ticket".to_owned()));
        }
        None => {}
    }
    if entry.pipeline > 1 {
        facts.push(fact("pipelining", entry.pipeline.to_string()));
    }
    facts.extend(entry.headers.iter().map(|(name, value)| fact(name, value.clone())));
    if !entry.body.is_empty() {
        let repeat = usize::try_from(entry.body_repeat).unwrap_or(usize::MAX);
        facts.push(fact("body", format!("{} bytes", entry.body.len().saturating_mul(repeat))));
    }
    facts
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_take_turns() {
        let servers = ["a", "b", "c"].map(str::to_owned);
        let order: Vec<&String> = (1..=2).flat_map(|round| turn(&servers, round)).collect();
        assert_eq!(order, ["a", "b", "c", "c", "b", "a"]);
    }

    #[test]
    fn the_load_generator_gets_its_cpus_back() {
        let before = sched_getaffinity(None).unwrap();
        {
            let _bound = Bound::to("0");
            assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        }
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
