//! Names of origins become addresses, again and again, on a thread of their own.

mod service;
mod single;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use tokio::sync::oneshot;
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};

use crate::process::{End, start_thread};

pub use single::{Lookups, Records, ServiceRecord, Wanted};

/// First pause after a failure, and the longest one.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The addresses of a name or of an address in digits, once, as the system's own resolver says. It
/// waits: for tools, before they start.
///
/// # Errors
/// There is no such name, or nobody answers.
pub fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let mut addresses: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    let mut seen = BTreeSet::new();
    addresses.retain(|address| seen.insert(*address));
    Ok(addresses)
}

/// How names are resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolverSettings {
    /// Name servers; none = those of the system.
    pub servers: Vec<SocketAddr>,
    /// How long one question may take, repetitions included.
    pub timeout: Duration,
    /// An answer is kept at least so long.
    pub min_ttl: Duration,
    /// An answer is kept at most so long.
    pub max_ttl: Duration,
}

/// What is asked of a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// The addresses of a host.
    Host(String),
    /// The servers of a service (RFC 2782), by its whole name: `_http._tcp.api.example`.
    Service(String),
    /// The addresses of a host that is among the servers of a service. Only answers have it.
    Target {
        /// The name of the service.
        service: String,
        /// The host.
        host: String,
    },
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => f.write_str(host),
            Self::Service(name) => write!(f, "srv:{name}"),
            Self::Target { service, host } => write!(f, "{host} (a server of srv:{service})"),
        }
    }
}

/// A place that a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// Servers of a higher number are for when there is no other. 0 for hosts.
    pub priority: u16,
    /// Where it is.
    pub address: IpAddr,
    /// Its port, which services say and hosts do not.
    pub port: Option<u16>,
    /// Its share relative to others of the same priority, as the service says. 0 for hosts.
    pub weight: u16,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(port) = self.port else { return write!(f, "{}", self.address) };
        let place = SocketAddr::new(self.address, port);
        write!(f, "{place} (priority {}, weight {})", self.priority, self.weight)
    }
}

/// What a name stands for at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// What was asked.
    pub question: Question,
    /// The places in their order, none twice, at least one; or why there are none. About a target it
    /// is said only that it fails, each time, and that it no longer does.
    pub answer: Result<Vec<Found>, String>,
}

/// Follows names until it is dropped.
#[derive(Debug)]
pub struct Resolver {
    /// Its end is the signal to end.
    _running: oneshot::Sender<()>,
}

impl Resolver {
    /// Asks every question now, and again whenever an answer has become old or a question failed.
    /// `deliver` hears each answer, changed or not, on the resolver's thread.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn follow(
        settings: ResolverSettings,
        questions: BTreeSet<Question>,
        deliver: impl Fn(Resolution) + Send + 'static,
    ) -> io::Result<Self> {
        let (running, stopped) = oneshot::channel();
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => {
                    let all = follow_all(settings, questions, deliver, stopped);
                    runtime.block_on(LocalSet::new().run_until(all));
                }
                Err(error) => {
                    for question in questions {
                        let answer = Err(format!("the resolver cannot start: {error}"));
                        deliver(Resolution { question, answer });
                    }
                }
            }
        };
        start_thread("sluice-resolve", run, |_: End<()>| {})?;
        Ok(Self { _running: running })
    }
}

async fn follow_all(
    settings: ResolverSettings,
    questions: BTreeSet<Question>,
    deliver: impl Fn(Resolution) + 'static,
    stopped: oneshot::Receiver<()>,
) {
    let deliver: Deliver = Rc::new(deliver);
    let asker = match build(&settings) {
        Ok(resolver) => Rc::new(Asker { resolver, settings }),
        Err(error) => {
            for question in questions {
                deliver(Resolution { question, answer: Err(error.clone()) });
            }
            return;
        }
    };
    for question in questions {
        let (asker, deliver) = (Rc::clone(&asker), Rc::clone(&deliver));
        match question {
            Question::Host(host) => {
                let asked = host.clone();
                let heard = move |addresses: Result<Vec<IpAddr>, String>| {
                    let found = |address| Found { priority: 0, address, port: None, weight: 0 };
                    let answer = addresses.map(|list| list.into_iter().map(found).collect());
                    deliver(Resolution { question: Question::Host(host.clone()), answer });
                };
                tokio::task::spawn_local(asker.follow_host(asked, Duration::ZERO, heard));
            }
            Question::Service(name) => {
                tokio::task::spawn_local(service::follow(asker, name, deliver));
            }
            // Whoever asks for a service hears of its targets.
            Question::Target { .. } => {}
        }
    }
    // The tasks end with the set they live in.
    let _ = stopped.await;
}

type Deliver = Rc<dyn Fn(Resolution)>;

/// Puts questions to the name servers.
struct Asker {
    resolver: TokioResolver,
    settings: ResolverSettings,
}

impl Asker {
    /// Asks for the addresses of a host after `rest`, and again and again. `heard` hears every
    /// answer.
    async fn follow_host(
        self: Rc<Self>,
        host: String,
        mut rest: Duration,
        heard: impl Fn(Result<Vec<IpAddr>, String>),
    ) {
        let mut pause = Pause::default();
        loop {
            sleep(rest).await;
            let (addresses, next) = match self.addresses(&host).await {
                Ok((addresses, ttl)) => (Ok(addresses), pause.after_success(ttl)),
                Err(error) => (Err(error), pause.after_failure()),
            };
            rest = next;
            heard(addresses);
        }
    }

    /// The addresses and for how long they are good.
    async fn addresses(&self, host: &str) -> Result<(Vec<IpAddr>, Duration), String> {
        let limit = self.settings.timeout;
        let answer = match timeout(limit, self.resolver.lookup_ip(host)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(in_words(&error, "the name has no address")),
            Err(_) => return Err(format!("no answer within {limit:?}")),
        };
        // In one order always: name servers rotate their answers, which changes nothing.
        let addresses: BTreeSet<IpAddr> = answer.iter().collect();
        if addresses.is_empty() {
            return Err("the name has no address".to_owned());
        }
        let ttl = answer.valid_until().saturating_duration_since(std::time::Instant::now());
        Ok((addresses.into_iter().collect(), self.within_bounds(ttl)))
    }

    /// A time to live as it is kept here.
    fn within_bounds(&self, ttl: Duration) -> Duration {
        // A TTL of zero with a minimum of zero would ask without a pause.
        let least = self.settings.min_ttl.max(Duration::from_millis(100));
        ttl.clamp(least, self.settings.max_ttl.max(least))
    }
}

/// How long to wait before a question is put again.
struct Pause(Duration);

impl Default for Pause {
    fn default() -> Self {
        Self(PAUSES.0)
    }
}

impl Pause {
    fn after_success(&mut self, ttl: Duration) -> Duration {
        self.0 = PAUSES.0;
        ttl
    }

    fn after_failure(&mut self) -> Duration {
        let next = self.0;
        self.0 = next.saturating_mul(2).min(PAUSES.1);
        next
    }
}

/// What went wrong, for somebody who has not read RFC 1035.
fn in_words(error: &NetError, nothing: &str) -> String {
    if error.is_nx_domain() {
        return "there is no such name".to_owned();
    }
    if error.is_no_records_found() {
        return nothing.to_owned();
    }
    match error {
        NetError::Timeout => "the name servers do not answer".to_owned(),
        NetError::NoConnections => "no name server can be reached".to_owned(),
        other => other.to_string(),
    }
}

fn build(settings: &ResolverSettings) -> Result<TokioResolver, String> {
    let mut builder = builder(settings);
    let options: &mut ResolverOpts = builder.options_mut();
    // We wait for the end of the TTL ourselves. A cache would only keep failures.
    options.cache_size = 0;
    options.negative_max_ttl = Some(Duration::ZERO);
    builder.build().map_err(|error| error.to_string())
}

fn builder(settings: &ResolverSettings) -> Builder {
    let mut builder = if settings.servers.is_empty() {
        // Without a usable resolv.conf the hosts file and "localhost" still work.
        TokioResolver::builder_tokio().unwrap_or_else(|_| with_servers(&[]))
    } else {
        with_servers(&settings.servers)
    };
    let options: &mut ResolverOpts = builder.options_mut();
    options.use_hosts_file = ResolveHosts::Always;
    // Half of the time for the first question, so that a lost packet is asked for once more.
    options.timeout = settings.timeout / 2;
    options.attempts = 2;
    builder
}

type Builder = hickory_resolver::ResolverBuilder<TokioRuntimeProvider>;

fn with_servers(servers: &[SocketAddr]) -> Builder {
    let servers = servers.iter().map(|server| {
        let connections =
            [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
                connection.port = server.port();
                connection
            });
        NameServerConfig::new(server.ip(), true, connections.into())
    });
    let config = ResolverConfig::from_name_servers(servers.collect());
    TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn localhost_needs_no_name_server() {
        let settings = ResolverSettings {
            servers: vec!["127.0.0.1:9".parse().unwrap()],
            timeout: Duration::from_secs(5),
            min_ttl: Duration::from_secs(1),
            max_ttl: Duration::from_secs(60),
        };
        let (sender, receiver) = channel();
        let asked = BTreeSet::from([Question::Host("localhost".to_owned())]);
        let resolver = Resolver::follow(settings, asked, move |it| drop(sender.send(it))).unwrap();
        let answer = receiver.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(answer.question.to_string(), "localhost");
        let found = answer.answer.unwrap();
        assert!(found.iter().any(|it| it.to_string() == "127.0.0.1"), "{found:?}");
        drop(resolver);
        // The thread drops its sender when it ends.
        while receiver.recv_timeout(Duration::from_secs(10)).is_ok() {}
        assert_eq!(receiver.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected));
    }
}
