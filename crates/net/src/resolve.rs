//! Names of origins become addresses, again and again, on a thread of their own.

use std::collections::BTreeSet;
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

/// What a name resolves to at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// The name that was asked for.
    pub host: String,
    /// Its addresses in their order, none twice, at least one; or why there are none.
    pub addresses: Result<Vec<IpAddr>, String>,
}

/// Follows names until it is dropped.
#[derive(Debug)]
pub struct Resolver {
    /// Its end is the signal to end.
    _running: oneshot::Sender<()>,
}

impl Resolver {
    /// Asks for every name now, and again whenever an answer has become old or a question failed.
    /// `deliver` hears each answer, changed or not, on the resolver's thread.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn follow(
        settings: ResolverSettings,
        hosts: BTreeSet<String>,
        deliver: impl Fn(Resolution) + Send + 'static,
    ) -> io::Result<Self> {
        let (running, stopped) = oneshot::channel();
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => {
                    let all = follow_all(settings, hosts, deliver, stopped);
                    runtime.block_on(LocalSet::new().run_until(all));
                }
                Err(error) => {
                    for host in hosts {
                        let addresses = Err(format!("the resolver cannot start: {error}"));
                        deliver(Resolution { host, addresses });
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
    hosts: BTreeSet<String>,
    deliver: impl Fn(Resolution) + 'static,
    stopped: oneshot::Receiver<()>,
) {
    let deliver: Rc<dyn Fn(Resolution)> = Rc::new(deliver);
    let settings = Rc::new(settings);
    let resolver = match build(&settings) {
        Ok(resolver) => Rc::new(resolver),
        Err(error) => {
            for host in hosts {
                deliver(Resolution { host, addresses: Err(error.clone()) });
            }
            return;
        }
    };
    for host in hosts {
        let (resolver, settings) = (Rc::clone(&resolver), Rc::clone(&settings));
        let deliver = Rc::clone(&deliver);
        tokio::task::spawn_local(follow_one(resolver, settings, host, deliver));
    }
    // The tasks end with the set they live in.
    let _ = stopped.await;
}

async fn follow_one(
    resolver: Rc<TokioResolver>,
    settings: Rc<ResolverSettings>,
    host: String,
    deliver: Rc<dyn Fn(Resolution)>,
) {
    let (first, longest) = PAUSES;
    let mut pause = first;
    loop {
        let (addresses, next) = match ask(&resolver, &settings, &host).await {
            Ok((addresses, ttl)) => {
                pause = first;
                (Ok(addresses), ttl)
            }
            Err(error) => {
                let next = pause;
                pause = pause.saturating_mul(2).min(longest);
                (Err(error), next)
            }
        };
        deliver(Resolution { host: host.clone(), addresses });
        sleep(next).await;
    }
}

/// The addresses and for how long they are good.
async fn ask(
    resolver: &TokioResolver,
    settings: &ResolverSettings,
    host: &str,
) -> Result<(Vec<IpAddr>, Duration), String> {
    let limit = settings.timeout;
    let answer = match timeout(limit, resolver.lookup_ip(host)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err(in_words(&error)),
        Err(_) => return Err(format!("no answer within {limit:?}")),
    };
    // In one order always: name servers rotate their answers, which changes nothing.
    let addresses: BTreeSet<IpAddr> = answer.iter().collect();
    if addresses.is_empty() {
        return Err("the name has no address".to_owned());
    }
    let ttl = answer.valid_until().saturating_duration_since(std::time::Instant::now());
    // A TTL of zero with a minimum of zero would ask without a pause.
    let least = settings.min_ttl.max(Duration::from_millis(100));
    Ok((addresses.into_iter().collect(), ttl.clamp(least, settings.max_ttl.max(least))))
}

/// What went wrong, for somebody who has not read RFC 1035.
fn in_words(error: &NetError) -> String {
    if error.is_nx_domain() {
        return "there is no such name".to_owned();
    }
    if error.is_no_records_found() {
        return "the name has no address".to_owned();
    }
    match error {
        NetError::Timeout => "the name servers do not answer".to_owned(),
        NetError::NoConnections => "no name server can be reached".to_owned(),
        other => other.to_string(),
    }
}

fn build(settings: &ResolverSettings) -> Result<TokioResolver, String> {
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
    // We wait for the end of the TTL ourselves. A cache would only keep failures.
    options.cache_size = 0;
    options.negative_max_ttl = Some(Duration::ZERO);
    builder.build().map_err(|error| error.to_string())
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
        let hosts = BTreeSet::from(["localhost".to_owned()]);
        let resolver = Resolver::follow(settings, hosts, move |it| drop(sender.send(it))).unwrap();
        let answer = receiver.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(answer.host, "localhost");
        let addresses = answer.addresses.unwrap();
        assert!(addresses.contains(&"127.0.0.1".parse().unwrap()), "{addresses:?}");
        drop(resolver);
        // The thread drops its sender when it ends.
        while receiver.recv_timeout(Duration::from_secs(10)).is_ok() {}
        assert_eq!(receiver.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected));
    }
}
