//! Questions that are put once: the addresses of a name at the moment, or the servers of a service.

use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::LookupIpStrategy;
use hickory_resolver::proto::rr::{RData, RecordType};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::timeout;

use super::{ResolverSettings, builder, in_words};
use crate::process::{End, start_thread};

/// Answers kept for as long as they say they are good.
const KEPT: u64 = 1024;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Addresses of version 4.
    V4,
    /// Addresses of version 6.
    V6,
    /// The servers of a service (RFC 2782).
    Services,
}

/// A server of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRecord {
    /// Servers of a higher number are for when there is no other.
    pub priority: u16,
    /// Its share among those of its priority.
    pub weight: u16,
    /// Where it listens.
    pub port: u16,
    /// Its name, without the dot at the end.
    pub target: String,
}

/// What there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Records {
    /// Of a name.
    Addresses(Vec<IpAddr>),
    /// Of a service.
    Services(Vec<ServiceRecord>),
}

/// Called with the answer on the thread of the resolver, or dropped with it.
type Deliver = Box<dyn FnOnce(Result<Records, String>) + Send>;

struct Query {
    name: String,
    wanted: Wanted,
    limit: Duration,
    deliver: Deliver,
}

/// Puts questions to name servers on a thread of its own, which ends when this is dropped.
#[derive(Debug)]
pub struct Lookups {
    queries: UnboundedSender<Query>,
}

impl Lookups {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system refuses one.
    pub fn start(settings: ResolverSettings) -> io::Result<Self> {
        let (queries, inbox) = unbounded_channel();
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            // Without one, questions are dropped unanswered, and whoever asks hears of that.
            if let Ok(runtime) = runtime {
                runtime.block_on(LocalSet::new().run_until(serve(settings, inbox)));
            }
        };
        start_thread("sluice-lookups", run, |_: End<()>| {})?;
        Ok(Self { queries })
    }

    /// Asks for a name. `deliver` hears the answer, or why there is none; it is dropped without having been called
    /// when this is dropped before.
    pub fn ask(
        &self,
        (name, wanted): (String, Wanted),
        limit: Duration,
        deliver: impl FnOnce(Result<Records, String>) + Send + 'static,
    ) {
        // If the thread is gone, the question is dropped with its function.
        let _ = self.queries.send(Query { name, wanted, limit, deliver: Box::new(deliver) });
    }
}

struct Resolvers {
    v4: TokioResolver,
    v6: TokioResolver,
}

async fn serve(settings: ResolverSettings, mut inbox: UnboundedReceiver<Query>) {
    let build = |strategy| {
        let mut builder = builder(&settings);
        builder.options_mut().cache_size = KEPT;
        builder.options_mut().ip_strategy = strategy;
        builder.build().map_err(|error| error.to_string())
    };
    let resolvers = build(LookupIpStrategy::Ipv4Only).and_then(|v4| {
        let v6 = build(LookupIpStrategy::Ipv6Only)?;
        Ok(Rc::new(Resolvers { v4, v6 }))
    });
    while let Some(query) = inbox.recv().await {
        let resolvers = resolvers.clone();
        spawn_local(async move {
            let Query { name, wanted, limit, deliver } = query;
            let answer = match resolvers {
                Ok(resolvers) => timeout(limit, resolvers.answer(&name, wanted)).await,
                Err(error) => Ok(Err(error)),
            };
            deliver(answer.unwrap_or_else(|_| Err(format!("no answer within {limit:?}"))));
        });
    }
}

impl Resolvers {
    async fn answer(&self, name: &str, wanted: Wanted) -> Result<Records, String> {
        let found = match wanted {
            Wanted::V4 => self.v4.lookup_ip(name).await,
            Wanted::V6 => self.v6.lookup_ip(name).await,
            Wanted::Services => return self.services(name).await,
        };
        let found = found.map_err(|error| in_words(&error, "the name has no such address"))?;
        Ok(Records::Addresses(found.iter().collect()))
    }

    async fn services(&self, name: &str) -> Result<Records, String> {
        let found = self.v4.lookup(name, RecordType::SRV).await;
        let found = found.map_err(|error| in_words(&error, "the name has no SRV record"))?;
        let records = found.answers().iter().filter_map(|record| match &record.data {
            RData::SRV(srv) => Some(ServiceRecord {
                priority: srv.priority,
                weight: srv.weight,
                port: srv.port,
                target: srv.target.to_ascii().trim_end_matches('.').to_owned(),
            }),
            _ => None,
        });
        Ok(Records::Services(records.collect()))
    }
}
