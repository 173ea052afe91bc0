//! What outlives a reload: sockets, who is connected, the log's thread.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use sluice_engine::ConnectionGuard;
use sluice_model::{Address, Log, Model, Origin};
use sluice_net::process::ensure_unclaimed;
use sluice_net::{Binding, Endpoint, LogCounts, LogTarget, LogWriter};

use crate::compile::{Prepared, endpoint};
use crate::flaw::{Flaw, plain};
use crate::heritage::{Bequest, Giver, Heritage};

/// An address we listen at, and who is connected there.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) binding: Arc<Binding>,
    pub(crate) guard: Arc<ConnectionGuard>,
    /// Who opened the sockets, if not we.
    giver: Option<Giver>,
}

/// What makes two places the same: the address. A free port is another one for each listener, so it
/// goes by the name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PlaceKey {
    endpoint: Endpoint,
    listener: Option<String>,
}

impl PlaceKey {
    fn new(endpoint: &Endpoint, listener: &str) -> Self {
        let free_port = matches!(endpoint, Endpoint::Tcp(address) if address.port() == 0);
        Self { endpoint: endpoint.clone(), listener: free_port.then(|| listener.to_owned()) }
    }

    /// What the place is called between the processes of an upgrade.
    fn label(&self) -> String {
        let name = self.listener.as_deref().unwrap_or_default();
        format!("listener {} {name}", self.endpoint)
    }
}

/// Everything of the world a configuration needs, opened.
#[derive(Debug, Default)]
pub(crate) struct Estate {
    places: HashMap<PlaceKey, Place>,
    admin: Option<(Endpoint, Place)>,
    /// Where metrics alone are asked for.
    metrics: Option<(Endpoint, Place)>,
    log: Option<(LogTarget, LogWriter)>,
}

/// What opening came to.
#[derive(Debug)]
pub(crate) struct Opened {
    /// To take the place of the estate before.
    pub(crate) estate: Estate,
    /// What is not there, but not needed either.
    pub(crate) warnings: Vec<String>,
}

impl Estate {
    /// Opens what `model` needs and is not open yet. Nothing of `self` is closed before the new estate
    /// has taken its place, and what was opened in vain is closed again.
    pub(crate) fn open(
        &self,
        model: &Model,
        prepared: &Prepared,
        opening: &Opening<'_>,
    ) -> Result<Opened, Vec<Flaw>> {
        let mut flaws = Vec::new();
        let mut estate = Self::default();
        for listener in &model.listeners {
            let element = format!("listener \"{}\"", listener.name);
            let key = PlaceKey::new(&endpoint(&listener.address), &listener.name);
            match self.place(&key, opening) {
                Ok(place) => drop(estate.places.insert(key, place)),
                Err(error) => flaws.push(bind_flaw(element, &key.endpoint, &error)),
            }
        }
        let mut warnings = Vec::new();
        let metrics = ("metrics", model.metrics.as_ref(), self.metrics.as_ref());
        match self.open_pages(metrics, opening) {
            Ok(metrics) => estate.metrics = metrics,
            Err(flaw) => flaws.push(flaw),
        }
        let admin = ("admin", model.admin.address.as_ref(), self.admin.as_ref());
        match self.open_pages(admin, opening) {
            Ok(admin) => estate.admin = admin,
            Err(flaw) if model.admin.origin == Origin::Default => {
                warnings.push(format!("{flaw}; going on without the admin listener"));
            }
            Err(flaw) => flaws.push(flaw),
        }
        if prepared.access.is_some() {
            match self.open_log(&model.log, opening.log_counts) {
                Ok(log) => estate.log = Some(log),
                Err(flaw) => flaws.push(flaw),
            }
        }
        match flaws.is_empty() {
            true => Ok(Opened { estate, warnings }),
            false => Err(flaws),
        }
    }

    /// The place there is already, or a new one.
    fn place(&self, key: &PlaceKey, opening: &Opening<'_>) -> io::Result<Place> {
        match self.places.get(key) {
            Some(place) => Ok(place.clone()),
            None => self.find_or_bind((&key.label(), &key.endpoint), opening, opening.workers),
        }
    }

    /// Sockets that were there before us, or else new ones.
    fn find_or_bind(
        &self,
        (label, endpoint): (&str, &Endpoint),
        opening: &Opening<'_>,
        workers: usize,
    ) -> io::Result<Place> {
        let guard = Arc::new(ConnectionGuard::new());
        match opening.heritage.find(label, endpoint) {
            Some((sockets, giver)) => {
                let binding = Arc::new(Binding::adopt(sockets, workers)?);
                Ok(Place { binding, guard, giver: Some(giver) })
            }
            None => {
                let binding = Arc::new(self.bind(endpoint, workers, opening.heritage)?);
                Ok(Place { binding, guard, giver: None })
            }
        }
    }

    fn bind(
        &self,
        endpoint: &Endpoint,
        workers: usize,
        heritage: &Heritage,
    ) -> io::Result<Binding> {
        // SO_REUSEPORT would let two programs of one user share a port without a word, each
        // getting half of the connections.
        if let Endpoint::Tcp(address) = endpoint
            && !self.has_port(address.port())
            && !heritage.has_port(address.port())
        {
            ensure_unclaimed(*address)?;
        }
        Binding::bind(endpoint, workers)
    }

    /// Whether we have this port at one address or another; then a claim found may be our own.
    fn has_port(&self, port: u16) -> bool {
        self.all_places().any(|place| {
            matches!(place.binding.endpoint(), Endpoint::Tcp(address) if address.port() == port)
        })
    }

    /// The place of a listener with pages of our own.
    fn open_pages(
        &self,
        (name, address, known): (&str, Option<&Address>, Option<&(Endpoint, Place)>),
        opening: &Opening<'_>,
    ) -> Result<Option<(Endpoint, Place)>, Flaw> {
        let Some(address) = address else { return Ok(None) };
        let wanted = endpoint(address);
        let known = known.filter(|(endpoint, _)| *endpoint == wanted);
        let place = match known {
            Some((_, place)) => Ok(place.clone()),
            // One worker serves it.
            None => self.find_or_bind((&pages_label(name, &wanted), &wanted), opening, 1),
        };
        match place {
            Ok(place) => Ok(Some((wanted, place))),
            Err(error) => Err(bind_flaw(format!("{name}.address"), &wanted, &error)),
        }
    }

    fn open_log(&self, log: &Log, counts: &Arc<LogCounts>) -> Result<(LogTarget, LogWriter), Flaw> {
        let target = match &log.file {
            Some(path) => LogTarget::File(path.clone()),
            None => LogTarget::Stdout,
        };
        if let Some((known, writer)) = self.log.as_ref().filter(|(known, _)| *known == target) {
            return Ok((known.clone(), writer.clone()));
        }
        match LogWriter::start(target.clone(), Arc::clone(counts)) {
            Ok(writer) => Ok((target, writer)),
            Err(error) => {
                let path = log
                    .file
                    .as_ref()
                    .map_or("standard output".into(), |path| path.display().to_string());
                Err(Flaw::new("log.file", format!("cannot open {path}: {}", plain(&error))))
            }
        }
    }

    /// The place of a listener.
    pub(crate) fn listener(&self, endpoint: &Endpoint, name: &str) -> Option<&Place> {
        self.places.get(&PlaceKey::new(endpoint, name))
    }

    /// The place of the admin listener.
    pub(crate) fn admin(&self) -> Option<&Place> {
        self.admin.as_ref().map(|(_, place)| place)
    }

    /// The place where metrics alone are asked for.
    pub(crate) fn metrics(&self) -> Option<&Place> {
        self.metrics.as_ref().map(|(_, place)| place)
    }

    /// The writer of the access log.
    pub(crate) fn log(&self) -> Option<&LogWriter> {
        self.log.as_ref().map(|(_, writer)| writer)
    }

    /// The file of the access log, if it goes to one.
    pub(crate) fn log_file(&self) -> Option<(&Path, &LogWriter)> {
        match &self.log {
            Some((LogTarget::File(path), writer)) => Some((path, writer)),
            _ => None,
        }
    }

    /// Whether a binding is one of ours.
    pub(crate) fn holds(&self, binding: *const Binding) -> bool {
        self.all_places().any(|place| Arc::as_ptr(&place.binding) == binding)
    }

    fn all_places(&self) -> impl Iterator<Item = &Place> {
        let pages = self.admin.iter().chain(&self.metrics);
        self.places.values().chain(pages.map(|(_, place)| place))
    }

    /// Everything the next process needs to listen where this one does. What a service manager keeps
    /// open is not among it: that goes by itself.
    pub(crate) fn bequest(&self) -> Bequest {
        let mut bequest = Bequest::default();
        let listeners = self.places.iter().map(|(key, place)| (key.label(), place));
        let pages = |name, place: &'_ Option<(Endpoint, Place)>| {
            place.as_ref().map(|(wanted, place)| (pages_label(name, wanted), place.clone()))
        };
        let listeners = listeners.map(|(label, place)| (label, place.clone()));
        let pages = [pages("admin", &self.admin), pages("metrics", &self.metrics)];
        for (label, place) in listeners.chain(pages.into_iter().flatten()) {
            if place.giver != Some(Giver::ServiceManager) {
                bequest.add(&label, place.binding.sockets());
            }
        }
        bequest
    }

    /// Addresses of the places whose sockets were there before us.
    pub(crate) fn inherited(&self) -> Vec<String> {
        let inherited = self.all_places().filter(|place| place.giver.is_some());
        inherited.map(|place| place.binding.endpoint().to_string()).collect()
    }

    /// The files of sockets taken over are ours, but for those of a service manager.
    pub(crate) fn keep_files(&self) {
        let ours = self.all_places().filter(|place| place.giver == Some(Giver::Predecessor));
        ours.for_each(|place| place.binding.keep());
    }

    /// Another process goes on with the sockets at these addresses.
    pub(crate) fn give_away(&self, taken: &[String]) {
        let is_taken = |place: &&Place| taken.contains(&place.binding.endpoint().to_string());
        self.all_places().filter(is_taken).for_each(|place| place.binding.give_away());
    }

    /// It does not after all.
    pub(crate) fn take_back(&self) {
        let ours = self.all_places().filter(|place| place.giver != Some(Giver::ServiceManager));
        ours.for_each(|place| place.binding.take_back());
    }

    /// Lets go of the listeners' sockets; the admin listener's stays.
    pub(crate) fn close_listeners(&mut self) {
        self.places.clear();
    }
}

/// What opening needs to know besides the model.
pub(crate) struct Opening<'a> {
    /// Worker threads that will listen.
    pub(crate) workers: usize,
    /// Where the access log counts its lines.
    pub(crate) log_counts: &'a Arc<LogCounts>,
    /// Sockets that are there already.
    pub(crate) heritage: &'a Heritage,
}

fn pages_label(name: &str, wanted: &Endpoint) -> String {
    format!("{name} {wanted}")
}

fn bind_flaw(element: String, endpoint: &Endpoint, error: &io::Error) -> Flaw {
    let flaw = Flaw::new(element, format!("cannot listen on {endpoint}: {}", plain(error)));
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            flaw.with_help("another program listens there; stop it, or choose another address")
        }
        io::ErrorKind::PermissionDenied if matches!(endpoint, Endpoint::Tcp(_)) => {
            flaw.with_help("ports below 1024 need a privilege: CAP_NET_BIND_SERVICE, or root")
        }
        io::ErrorKind::AddrNotAvailable => {
            flaw.with_help("this machine has no such address; 0.0.0.0 stands for all it has")
        }
        _ => flaw,
    }
}
