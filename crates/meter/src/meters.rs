//! All meters of the process, by the names the configuration gives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{
    CacheSource, ConcurrencySource, FaultMeter, FilterMeter, Gauge, ListenerMeter, PerWorker,
    RouteMeter, ServerMeter, Tally, UpstreamMeter, WorkerMeter,
};

/// Meters by name; sorted, so that the metrics page has the same order every time.
type ByName<K, T> = Mutex<BTreeMap<K, Arc<PerWorker<T>>>>;

/// The meters of the process. Those with a name outlive a reload: whoever asks for the same name
/// again gets the same counters.
///
/// The locks are taken at start, at a reload and by [`Meters::render`], never for a request.
#[derive(Debug)]
pub struct Meters {
    workers: usize,
    pub(crate) routes: ByName<String, RouteMeter>,
    pub(crate) upstreams: ByName<String, UpstreamMeter>,
    pub(crate) servers: ByName<(String, String), ServerMeter>,
    pub(crate) listeners: ByName<String, ListenerMeter>,
    /// Limits of concurrency by route.
    pub(crate) limits: Mutex<BTreeMap<String, Arc<dyn ConcurrencySource>>>,
    /// Filters by name.
    pub(crate) filters: Mutex<BTreeMap<String, Arc<FilterMeter>>>,
    /// Certificates that clients are shown.
    pub(crate) certificates: Mutex<BTreeSet<ShownCertificate>>,
    faults: PerWorker<FaultMeter>,
    threads: PerWorker<WorkerMeter>,
    /// Lines of the access log written.
    pub access_log_written: Tally,
    /// Lines of the access log given up because the writer could not follow or could not write.
    pub access_log_dropped: Tally,
    /// Memory from which on connections are given up, in bytes; 0 = no limit.
    pub memory_limit: Gauge,
    /// 1 while connections are given up.
    pub memory_short: Gauge,
    /// Idle connections closed because memory or descriptors were short.
    pub idle_closed: Tally,
    /// Times a listener waited because the limit of open files was reached or near.
    pub descriptor_shortages: Tally,
    /// Reloads that took effect.
    pub reloads_ok: Tally,
    /// Reloads refused because the configuration has problems.
    pub reloads_failed: Tally,
    /// Upgrades after which a new process went on.
    pub upgrades_ok: Tally,
    /// Upgrades that left the old process serving.
    pub upgrades_failed: Tally,
    /// Panics caught.
    pub panics: Tally,
    /// Names of upstream servers that could not be resolved.
    pub dns_failures: Tally,
    /// Lists of upstream servers that could not be used.
    pub list_failures: Tally,
    /// Files of certificates that changed and could not be used.
    pub certificate_failures: Tally,
    /// Files of filters that changed and could not be used.
    pub filter_failures: Tally,
}

/// What a meter belongs to; asked by [`Meters::retain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// A route.
    Route(&'a str),
    /// An upstream.
    Upstream(&'a str),
    /// A server of an upstream.
    Server {
        /// The upstream.
        upstream: &'a str,
        /// The server's address.
        address: &'a str,
    },
    /// A listener.
    Listener(&'a str),
}

/// A certificate that clients are shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShownCertificate {
    /// The listener that shows it.
    pub listener: String,
    /// Its first name; empty if it has none.
    pub name: String,
    /// Its SHA-256 digest.
    pub fingerprint: String,
    /// The last moment it is valid at, since 1970.
    pub expiry: Duration,
}

impl Meters {
    /// Meters for so many workers.
    #[must_use]
    pub fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self {
            workers,
            routes: Mutex::default(),
            upstreams: Mutex::default(),
            servers: Mutex::default(),
            listeners: Mutex::default(),
            limits: Mutex::default(),
            filters: Mutex::default(),
            certificates: Mutex::default(),
            faults: PerWorker::new(workers),
            threads: PerWorker::new(workers),
            access_log_written: Tally::default(),
            access_log_dropped: Tally::default(),
            memory_limit: Gauge::default(),
            memory_short: Gauge::default(),
            idle_closed: Tally::default(),
            descriptor_shortages: Tally::default(),
            reloads_ok: Tally::default(),
            reloads_failed: Tally::default(),
            upgrades_ok: Tally::default(),
            upgrades_failed: Tally::default(),
            panics: Tally::default(),
            dns_failures: Tally::default(),
            list_failures: Tally::default(),
            certificate_failures: Tally::default(),
            filter_failures: Tally::default(),
        })
    }

    /// How many workers these are for.
    #[must_use]
    pub const fn workers(&self) -> usize {
        self.workers
    }

    /// The meter of a route.
    pub fn route(&self, name: &str) -> Arc<PerWorker<RouteMeter>> {
        self.named(&self.routes, name.to_owned())
    }

    /// The meter of an upstream.
    pub fn upstream(&self, name: &str) -> Arc<PerWorker<UpstreamMeter>> {
        self.named(&self.upstreams, name.to_owned())
    }

    /// The meter of a server of an upstream.
    pub fn server(&self, upstream: &str, address: &str) -> Arc<PerWorker<ServerMeter>> {
        self.named(&self.servers, (upstream.to_owned(), address.to_owned()))
    }

    /// The meter of a listener.
    pub fn listener(&self, name: &str) -> Arc<PerWorker<ListenerMeter>> {
        self.named(&self.listeners, name.to_owned())
    }

    /// These are the limits of concurrency from now on, by the route they are for.
    pub fn set_limits(&self, limits: BTreeMap<String, Arc<dyn ConcurrencySource>>) {
        *locked(&self.limits) = limits;
    }

    /// The caches that filters keep answers in, by the name of the filter.
    #[must_use]
    pub fn caches(&self) -> BTreeMap<String, Vec<Arc<dyn CacheSource>>> {
        let filters = locked(&self.filters);
        let caches = filters.iter().map(|(name, meter)| (name.clone(), meter.caches()));
        caches.filter(|(_, caches)| !caches.is_empty()).collect()
    }

    /// These are the filters from now on, by name.
    pub fn set_filters(&self, filters: BTreeMap<String, Arc<FilterMeter>>) {
        *locked(&self.filters) = filters;
    }

    /// Clients are shown these certificates from now on.
    pub fn set_certificates(&self, shown: BTreeSet<ShownCertificate>) {
        *locked(&self.certificates) = shown;
    }

    /// Faults of all requests.
    #[must_use]
    #[inline]
    pub const fn faults(&self) -> &PerWorker<FaultMeter> {
        &self.faults
    }

    /// What each worker has to do.
    #[must_use]
    #[inline]
    pub const fn threads(&self) -> &PerWorker<WorkerMeter> {
        &self.threads
    }

    fn named<K: Ord, T: Default>(&self, meters: &ByName<K, T>, name: K) -> Arc<PerWorker<T>> {
        let mut meters = locked(meters);
        Arc::clone(meters.entry(name).or_insert_with(|| Arc::new(PerWorker::new(self.workers))))
    }

    /// Forgets the meters whose name is no longer configured; whatever they counted. Those that stay
    /// configured stay, also if they never counted: a series that vanishes and comes back looks like
    /// a restart to whoever reads it.
    pub fn retain(&self, configured: impl Fn(Name<'_>) -> bool) {
        locked(&self.routes).retain(|name, _| configured(Name::Route(name)));
        locked(&self.upstreams).retain(|name, _| configured(Name::Upstream(name)));
        locked(&self.servers)
            .retain(|(upstream, address), _| configured(Name::Server { upstream, address }));
        locked(&self.listeners).retain(|name, _| configured(Name::Listener(name)));
    }
}

/// Counters have no broken state a panicking holder could leave, so poison is ignored.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_counters() {
        let meters = Meters::new(2);
        meters.route("a").worker(1).on_response(200, 1, 1, 1);
        assert_eq!(meters.route("a").sum(|meter| meter.responses.total()), 1);
        assert_eq!(meters.route("b").sum(|meter| meter.responses.total()), 0);
    }

    #[test]
    fn only_what_is_configured_stays() {
        let meters = Meters::new(1);
        for name in ["old", "new"] {
            meters.route(name).worker(0).on_response(200, 1, 1, 1);
            meters.upstream(name).worker(0).requests.increment();
            meters.server(name, "127.0.0.1:1").worker(0).requests.increment();
            meters.listener(name).worker(0).requests.increment();
        }
        meters.retain(|name| match name {
            Name::Route(name) | Name::Upstream(name) | Name::Listener(name) => name == "new",
            Name::Server { upstream, address } => upstream == "new" && address == "127.0.0.1:1",
        });
        for (name, count) in [("new", 1), ("old", 0)] {
            assert_eq!(meters.route(name).sum(|meter| meter.responses.total()), count);
            assert_eq!(meters.upstream(name).sum(|meter| meter.requests.value()), count);
            let server = meters.server(name, "127.0.0.1:1");
            assert_eq!(server.sum(|meter| meter.requests.value()), count);
            assert_eq!(meters.listener(name).sum(|meter| meter.requests.value()), count);
        }
    }
}
