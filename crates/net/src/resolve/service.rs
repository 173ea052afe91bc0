//! The servers of a service: its SRV records, and the addresses of the hosts they name (RFC 2782).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::NetError;
use hickory_resolver::proto::rr::{RData, RecordType};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::{Instant, timeout, timeout_at};

use super::{Asker, Deliver, Found, Pause, Question, Resolution, in_words};

/// Aliases of a service's name that are followed.
const ALIASES: usize = 8;

/// One SRV record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Record {
    priority: u16,
    weight: u16,
    port: u16,
    /// In lower case, with the dot at the end: it is never searched for in other domains.
    target: String,
}

/// What a name server says of a service.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    records: BTreeSet<Record>,
    ttl: Duration,
    /// Addresses that came along, with their time to live.
    additional: BTreeMap<String, (BTreeSet<IpAddr>, Duration)>,
}

/// Follows a service. Its records and the addresses of each host are asked for as often as their own
/// times to live say.
pub(super) async fn follow(asker: Rc<Asker>, name: String, deliver: Deliver) {
    let mut pause = Pause::default();
    let mut service = Service {
        targets: BTreeMap::new(),
        records: BTreeSet::new(),
        heard: Rc::new(Notify::new()),
        asker,
        name,
        deliver,
    };
    loop {
        let asked = service.asker.service(&service.name).await;
        let good = asked.is_ok();
        let next = match asked {
            Ok(answer) => {
                let ttl = answer.ttl;
                service.take_in(answer);
                pause.after_success(ttl)
            }
            Err(why) => {
                service.tell(Err(why));
                pause.after_failure()
            }
        };
        let due = Instant::now() + next;
        loop {
            // Told nothing of hosts while its own question fails: that would look like an answer.
            if good && service.is_complete() {
                service.tell(service.found());
            }
            if timeout_at(due, service.heard.notified()).await.is_err() {
                break;
            }
        }
    }
}

struct Service {
    asker: Rc<Asker>,
    name: String,
    deliver: Deliver,
    records: BTreeSet<Record>,
    targets: BTreeMap<String, Target>,
    /// Something was heard of a target.
    heard: Rc<Notify>,
}

/// A host that is followed as long as it is among the servers.
struct Target {
    known: Rc<Known>,
    task: AbortHandle,
}

impl Drop for Target {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Default)]
struct Known {
    /// The last good answer.
    addresses: RefCell<Vec<IpAddr>>,
    /// Whether there was any answer.
    answered: Cell<bool>,
    failing: Cell<bool>,
}

impl Service {
    fn take_in(&mut self, answer: Answer) {
        let Answer { records, mut additional, .. } = answer;
        self.targets.retain(|host, _| records.iter().any(|record| record.target == *host));
        for record in &records {
            let known = self.targets.get(&record.target);
            let along = additional.remove(&record.target);
            // What comes along may be a part of what there is, so it says something new only if
            // it has an address that is not known.
            let is_news = |(addresses, _): &(BTreeSet<IpAddr>, Duration)| {
                known.is_none_or(|target| {
                    let known = target.known.addresses.borrow();
                    addresses.iter().any(|address| !known.contains(address))
                })
            };
            let along = along.filter(is_news);
            if known.is_none() || along.is_some() {
                let target = self.follow_target(&record.target, along);
                self.targets.insert(record.target.clone(), target);
            }
        }
        self.records = records;
    }

    /// Asks for a host from now on; later, if its addresses came along.
    fn follow_target(&self, host: &str, along: Option<(BTreeSet<IpAddr>, Duration)>) -> Target {
        let known = Rc::new(Known::default());
        let rest = match along {
            Some((addresses, ttl)) => {
                *known.addresses.borrow_mut() = addresses.into_iter().collect();
                known.answered.set(true);
                ttl
            }
            None => Duration::ZERO,
        };
        let question = Question::Target {
            service: self.name.clone(),
            host: host.trim_end_matches('.').to_owned(),
        };
        let (deliver, heard, of_task) =
            (Rc::clone(&self.deliver), Rc::clone(&self.heard), Rc::clone(&known));
        let hear = move |answer: Result<Vec<IpAddr>, String>| {
            let failed_before = of_task.failing.replace(answer.is_err());
            of_task.answered.set(true);
            match answer {
                Ok(addresses) => {
                    *of_task.addresses.borrow_mut() = addresses;
                    if failed_before {
                        let question = question.clone();
                        deliver(Resolution { question, answer: Ok(Vec::new()) });
                    }
                }
                Err(why) => {
                    deliver(Resolution { question: question.clone(), answer: Err(why) });
                }
            }
            heard.notify_one();
        };
        let task = Rc::clone(&self.asker).follow_host(host.to_owned(), rest, hear);
        Target { known, task: spawn_local(task).abort_handle() }
    }

    /// Whether every host has been asked for: before that, servers would come one by one.
    fn is_complete(&self) -> bool {
        self.targets.values().all(|target| target.known.answered.get())
    }

    fn found(&self) -> Result<Vec<Found>, String> {
        let mut found = BTreeSet::new();
        for record in &self.records {
            let Some(target) = self.targets.get(&record.target) else { continue };
            for &address in &*target.known.addresses.borrow() {
                let Record { priority, weight, port, .. } = *record;
                found.insert(Found { priority, address, port: Some(port), weight });
            }
        }
        match found.is_empty() {
            true => Err("none of its servers has an address".to_owned()),
            false => Ok(found.into_iter().collect()),
        }
    }

    fn tell(&self, answer: Result<Vec<Found>, String>) {
        (self.deliver)(Resolution { question: Question::Service(self.name.clone()), answer });
    }
}

impl Asker {
    async fn service(&self, name: &str) -> Result<Answer, String> {
        let limit = self.settings.timeout;
        match timeout(limit, self.service_or_alias(name)).await {
            Ok(Ok(lookup)) => self.answer(&lookup),
            Ok(Err(error)) => Err(in_words(&error, "the name has no SRV record")),
            Err(_) => Err(format!("no answer within {limit:?}")),
        }
    }

    /// The library takes a target of the records for the name to look for next if the records belong
    /// to an alias, so aliases are followed here.
    async fn service_or_alias(&self, name: &str) -> Result<Lookup, NetError> {
        let mut name = name.to_owned();
        let mut aliases = 0;
        loop {
            let error = match self.resolver.lookup(name.as_str(), RecordType::SRV).await {
                Ok(lookup) => return Ok(lookup),
                Err(error) => error,
            };
            let nothing = error.is_no_records_found() || error.is_nx_domain();
            if !nothing || aliases == ALIASES {
                return Err(error);
            }
            let Ok(lookup) = self.resolver.lookup(name.as_str(), RecordType::CNAME).await else {
                return Err(error);
            };
            let alias = lookup.answers().iter().find_map(|record| match &record.data {
                RData::CNAME(alias) => Some(alias.0.to_ascii()),
                _ => None,
            });
            name = alias.ok_or(error)?;
            aliases += 1;
        }
    }

    fn answer(&self, lookup: &Lookup) -> Result<Answer, String> {
        let mut records = BTreeSet::new();
        let mut ttl = u32::MAX;
        let mut offered = 0_usize;
        for record in lookup.answers() {
            let RData::SRV(srv) = &record.data else { continue };
            offered += 1;
            ttl = ttl.min(record.ttl);
            // The root for a target: "decidedly not available" (RFC 2782).
            if srv.target.is_root() || srv.port == 0 {
                continue;
            }
            let target = srv.target.to_lowercase().to_ascii();
            let (priority, weight, port) = (srv.priority, srv.weight, srv.port);
            records.insert(Record { priority, weight, port, target });
        }
        if records.is_empty() {
            return Err(match offered {
                0 => "the name has no SRV record".to_owned(),
                _ => "its records say that the service is not available".to_owned(),
            });
        }
        let ttl = self.within_bounds(Duration::from_secs(u64::from(ttl)));
        Ok(Answer { records, ttl, additional: self.additional(lookup) })
    }

    fn additional(&self, lookup: &Lookup) -> BTreeMap<String, (BTreeSet<IpAddr>, Duration)> {
        let mut additional: BTreeMap<String, (BTreeSet<IpAddr>, Duration)> = BTreeMap::new();
        for record in lookup.additionals() {
            let address = match &record.data {
                RData::A(it) => IpAddr::V4(it.0),
                RData::AAAA(it) => IpAddr::V6(it.0),
                _ => continue,
            };
            let ttl = self.within_bounds(Duration::from_secs(u64::from(record.ttl)));
            let host = record.name.to_lowercase().to_ascii();
            let entry = additional.entry(host).or_insert_with(|| (BTreeSet::new(), ttl));
            entry.0.insert(address);
            entry.1 = entry.1.min(ttl);
        }
        additional
    }
}
