//! From the command line to the reports of all tests and the exit code.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sluice_net::process::{Usage, start_thread, wall_clock};
use sluice_net::{Deadline, Endpoint, Mailbox, Nanos, mailbox, spawn};

use super::client::{Client, Event};
use super::command::{Size, Test, array};
use super::report::{Config, Measured, report};
use super::target::Server;
use super::thread::{self, Counts, News, Plan};
use crate::arguments::{BenchArguments, CONNECTIONS};
use crate::console::{Refusal, print, say, threads, write_all};
use crate::figures::float;
use crate::live;
use crate::outcome::{Mode, Outcome, Second};
use crate::plain;
use crate::run::{Phase, Progress, Stopper, Watcher};
use crate::suite::{CaseRun, Extent};
use crate::thresholds::{self, Misses};

/// Requests of a test if the command line says neither how many nor how long.
const REQUESTS: u64 = 100_000;
/// What is run if no tests are named.
const TESTS: &str = "ping";
/// A thread that is busy for more than this share of the time may be what is measured.
const SATURATED: f64 = 0.95;

/// Runs the tests one after the other and prints the report of each.
///
/// # Errors
/// Arguments that make no sense, or a server that cannot be reached.
pub(crate) fn bench(
    arguments: &BenchArguments,
    target: &str,
    stopper: &Stopper,
) -> Result<u8, Refusal> {
    let server = Server::parse(target).map_err(Refusal::usage)?;
    refuse_unfit(arguments)?;
    let size = Size {
        data: usize::try_from(arguments.data_size).unwrap_or(usize::MAX),
        keyspace: arguments.keyspace,
    };
    let names = arguments.test.as_deref().unwrap_or(TESTS);
    let tests = Test::list(names, size).map_err(Refusal::usage)?;
    let endpoints = match &arguments.unix {
        Some(path) => vec![Endpoint::Unix(path.clone())],
        None => server.endpoints().map_err(Refusal::unreachable)?,
    };
    let config = ask(&endpoints, &server, arguments.timeout)?;
    let mut outcomes = Vec::new();
    let mut code = 0;
    for test in tests {
        let plan = Arc::new(plan(arguments, (&server, &endpoints), test));
        let measured = measure(&plan, target, stopper, live::watcher())?;
        live::clear();
        print(&report(&measured, &plan, &config, arguments.data_size));
        print(&plain::spectrum(arguments, &measured.outcome));
        if let Some(trouble) = &measured.trouble {
            say(&format!("error: {}: {trouble}\n", plan.test.title));
        }
        let misses = Misses::of(arguments, &measured.outcome);
        print(&misses.report());
        say(&misses.message());
        // The first test that went wrong decides.
        if code == 0 {
            code = thresholds::code(arguments, &measured.outcome, &misses);
        }
        let broken = measured.trouble.is_some();
        outcomes.push(measured.outcome);
        if broken || stopper.is_stopped() {
            break;
        }
    }
    write_all(arguments, &outcomes)?;
    Ok(code)
}

/// One run of a suite: the one test it names.
///
/// # Errors
/// A test or a server that does not exist, and what broke, in words.
pub(crate) fn suite_run(case: &CaseRun, stopper: &Stopper) -> Result<Outcome, String> {
    let server = Server::parse(&case.url)?;
    let endpoints = server.endpoints()?;
    let names = case.redis.as_deref().unwrap_or(TESTS);
    let mut tests = Test::list(names, Size { data: 3, keyspace: None })?;
    let test = match (tests.pop(), tests.is_empty()) {
        (Some(test), true) => test,
        _ => return Err(format!("a suite runs one test at a time, not `{names}`")),
    };
    let (requests, duration) = match case.extent {
        Extent::Time(time) => (u64::MAX, Some(time)),
        Extent::Requests(count) => (count, None),
    };
    let plan = Arc::new(Plan {
        test,
        endpoints,
        greeting: server.greeting,
        greetings: server.greetings,
        connections: case.connections,
        threads: case.threads.unwrap_or(1).min(case.connections).max(1),
        pipeline: case.pipeline,
        keyspace: None,
        timeout: case.timeout,
        duration,
        left: AtomicU64::new(requests),
        closed: AtomicU64::new(u64::from(case.connections)),
        stopped: AtomicBool::new(false),
    });
    let measured =
        measure(&plan, &case.url, stopper, live::silence()).map_err(|refusal| refusal.message)?;
    match measured.trouble {
        Some(trouble) => Err(trouble),
        None => Ok(measured.outcome),
    }
}

/// Options that mean nothing to Redis.
fn refuse_unfit(arguments: &BenchArguments) -> Result<(), Refusal> {
    let unfit = [
        ("--config", arguments.config.is_some()),
        ("--rate", arguments.rate.is_some()),
        ("--users", arguments.users.is_some()),
        ("--method", !arguments.method.is_empty()),
        ("--header", !arguments.headers.is_empty()),
        ("--body", arguments.body.is_some() || arguments.body_file.is_some()),
        ("--expect-body", arguments.expect_body.is_some()),
        ("--expect-status", arguments.expect_status.is_some()),
        ("--no-keepalive", arguments.no_keepalive),
        ("--http2", arguments.http2),
        ("--warmup", !arguments.warmup.is_zero()),
    ];
    match unfit.iter().find(|(_, used)| *used) {
        Some((option, _)) => Err(Refusal::usage(format!("{option} does not go with Redis"))),
        None => Ok(()),
    }
}

fn plan(
    arguments: &BenchArguments,
    (server, endpoints): (&Server, &[Endpoint]),
    test: Test,
) -> Plan {
    let connections = arguments.connections.unwrap_or(CONNECTIONS);
    let requests = match (arguments.requests, arguments.duration) {
        (Some(requests), _) => requests,
        (None, Some(_)) => u64::MAX,
        (None, None) => REQUESTS,
    };
    Plan {
        test,
        endpoints: endpoints.to_vec(),
        greeting: server.greeting.clone(),
        greetings: server.greetings,
        connections,
        threads: threads(arguments).min(connections),
        pipeline: arguments.pipeline,
        keyspace: arguments.keyspace,
        timeout: arguments.timeout.max(Duration::from_millis(1)),
        duration: arguments.duration,
        left: AtomicU64::new(requests),
        closed: AtomicU64::new(u64::from(connections)),
        stopped: AtomicBool::new(false),
    }
}

/// Asks for the two settings that decide how much a server writes to its disk.
fn ask(endpoints: &[Endpoint], server: &Server, timeout: Duration) -> Result<Config, Refusal> {
    let endpoints = endpoints.to_vec();
    let (mut requests, replies) = (server.greeting.clone(), server.greetings + 2);
    for name in [&b"save"[..], b"appendonly"] {
        array(&mut requests, &[b"CONFIG", b"GET", name]);
    }
    let greetings = server.greetings;
    let asked = sluice_net::run(async move {
        let deadline = Deadline::new();
        let work = async {
            let mut client = Client::open(&endpoints).await?;
            let mut config = Config::default();
            let (mut text, mut number) = (Vec::new(), 0_u32);
            client
                .exchange(&requests, replies, &mut |event| match event {
                    // A setting is short; what is longer is none.
                    Event::Part(bytes) if text.len() < 65_536 => text.extend_from_slice(bytes),
                    Event::Reply(reply, bytes) => {
                        text.extend_from_slice(bytes);
                        number += 1;
                        config.note(number > greetings, reply, &text);
                        text.clear();
                    }
                    Event::Sent(_) | Event::Read(_) | Event::Part(_) => {}
                })
                .await?;
            Ok(config)
        };
        deadline.limit(timeout.max(Duration::from_millis(1)), work).await
    });
    match asked {
        Ok(Ok(Ok(config))) => match config.refusal.clone() {
            Some(words) => Err(Refusal::unreachable(format!("the server refuses us: {words}"))),
            None => Ok(config),
        },
        Ok(Ok(Err(trouble))) => {
            let trouble: super::client::Trouble = trouble;
            Err(Refusal::unreachable(trouble.words()))
        }
        Ok(Err(_)) => Err(Refusal::unreachable(format!("no reply within {timeout:?}"))),
        Err(error) => Err(Refusal::unreachable(format!("cannot start: {error}"))),
    }
}

fn measure(
    plan: &Arc<Plan>,
    target: &str,
    stopper: &Stopper,
    watcher: Watcher,
) -> Result<Measured, Refusal> {
    let broken = |error: std::io::Error| Refusal::unreachable(format!("cannot start: {error}"));
    let (post, news) = mailbox();
    for number in 0..plan.threads {
        let (plan, own, last) = (Arc::clone(plan), post.clone(), post.clone());
        let name = format!("sluice-redis-{number}");
        // An error shows as a thread that is gone before it is done.
        let body = move || thread::run(plan, number, own).is_ok();
        start_thread(&name, body, move |_| last.send(News::Gone)).map_err(broken)?;
    }
    let stops = stopper.clone();
    let shared = Arc::clone(plan);
    let watched = Arc::clone(plan);
    let title = target.to_owned();
    let measured = sluice_net::run(async move {
        spawn(async move {
            let deadline = Deadline::new();
            while !stops.is_stopped() {
                deadline.sleep(Duration::from_millis(50)).await;
            }
            watched.stopped.store(true, Ordering::Relaxed);
        });
        Conductor::new(shared, watcher).conduct(news, title).await
    })
    .map_err(broken)?;
    let mut measured =
        measured.ok_or_else(|| Refusal::unreachable("a thread of the load generator broke"))?;
    measured.outcome.interrupted = stopper.is_stopped();
    Ok(measured)
}

/// Adds up what the threads of a test tell.
struct Conductor {
    plan: Arc<Plan>,
    watcher: Watcher,
    total: Counts,
    seconds: BTreeMap<u32, (Counts, u32)>,
    series: Vec<Second>,
    begun: Nanos,
    ended: Nanos,
    started_unix_ms: u64,
    cpu: Duration,
    busiest: Duration,
    done: u32,
}

impl Conductor {
    fn new(plan: Arc<Plan>, watcher: Watcher) -> Self {
        Self {
            plan,
            watcher,
            total: Counts::default(),
            seconds: BTreeMap::new(),
            series: Vec::new(),
            begun: Nanos::MAX,
            ended: 0,
            started_unix_ms: 0,
            cpu: Duration::ZERO,
            busiest: Duration::ZERO,
            done: 0,
        }
    }

    /// Nothing if a thread broke.
    async fn conduct(mut self, mut news: Mailbox<News>, target: String) -> Option<Measured> {
        let mut gone = 0;
        while gone < self.plan.threads {
            match news.recv().await? {
                News::Begun(at) => {
                    if self.begun == Nanos::MAX {
                        let unix_ms = wall_clock().as_millis();
                        self.started_unix_ms = u64::try_from(unix_ms).unwrap_or(0);
                        self.cpu = Usage::now().cpu.unwrap_or_default();
                    }
                    self.begun = self.begun.min(at);
                }
                News::Second(second, counts) => self.add(second, *counts),
                News::Done(second, counts, ended, cpu) => {
                    self.done += 1;
                    self.ended = self.ended.max(ended);
                    self.busiest = self.busiest.max(cpu);
                    self.add(second, *counts);
                }
                News::Gone => gone += 1,
            }
        }
        self.emit(u32::MAX);
        (self.done == self.plan.threads).then(|| self.finish(target))
    }

    fn add(&mut self, second: u32, counts: Counts) {
        let (part, reports) = self.seconds.entry(second).or_default();
        part.add(counts);
        *reports += 1;
        if *reports >= self.plan.threads {
            self.emit(second);
        }
    }

    /// Closes the books of this second and all before it.
    fn emit(&mut self, last: u32) {
        while let Some(entry) = self.seconds.first_entry().filter(|entry| *entry.key() <= last) {
            let (offset, (part, _)) = entry.remove_entry();
            let second = Second {
                offset,
                responses: part.responses,
                errors: part.errors.total(),
                p50_micros: part.latency.percentile(50.0),
                p99_micros: part.latency.percentile(99.0),
            };
            self.total.add(part);
            if second.responses > 0 || second.errors > 0 {
                self.series.push(second);
            }
            // The last second is usually cut short, and the report follows at once.
            if self.ended == 0 {
                let phase = Phase::Running { second, left: None };
                let (responses, errors) = (self.total.responses, self.total.errors.total());
                (self.watcher)(&Progress { phase, responses, errors });
            }
        }
    }

    fn finish(self, target: String) -> Measured {
        let Self { plan, total, .. } = self;
        let elapsed = Duration::from_nanos(self.ended.saturating_sub(self.begun));
        let seconds = if self.begun == Nanos::MAX { 0.0 } else { elapsed.as_secs_f64() };
        let rate = if seconds > 0.0 { float(total.responses) / seconds } else { 0.0 };
        let cpu = Usage::now().cpu.unwrap_or_default().saturating_sub(self.cpu);
        let outcome = Outcome {
            tool: concat!("sluice ", env!("CARGO_PKG_VERSION")).to_owned(),
            target: format!("{target} {}", plan.test.title),
            mode: Mode::Closed,
            connections: plan.connections,
            threads: plan.threads,
            pipeline: plan.pipeline,
            started_unix_ms: self.started_unix_ms,
            seconds,
            requests: total.requests,
            responses: total.responses,
            bytes_received: total.received,
            bytes_sent: total.sent,
            statuses: BTreeMap::new(),
            errors: total.errors,
            in_flight: 0,
            oldest_in_flight_micros: 0,
            rate,
            sustained: None,
            bottleneck: None,
            latency: total.latency.latency(),
            uncorrected: None,
            unexpected: None,
            series: self.series,
            client_cpu_seconds: cpu.as_secs_f64(),
            client_saturated: self.busiest.as_secs_f64() > SATURATED * seconds && seconds > 0.0,
            interrupted: false,
            reply_bytes: None,
            protocol: Some("RESP".to_owned()),
            streams: 1,
            streams_allowed: None,
            tls: None,
        };
        Measured { outcome, replies: total.replies, trouble: total.trouble }
    }
}
