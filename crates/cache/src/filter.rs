//! The filter: answers from what is kept, and keeps what passes.

mod ask;
mod change;
mod keep;
mod recall;
mod refresh;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;

use ipnet::IpNet;
use sluice_expression::Condition;
use sluice_filter::{
    Filter, Owner, Phases, RequestContext, ResponseContext, ResponseVerdict, Source, Transform,
    Verdict,
};
use sluice_message::Method;
use sluice_meter::FilterMeter;
use sluice_net::LogWriter;

use crate::answer::{Question, answer};
use crate::asked::{Asked, CONTROL, COOKIE, FORWARDED, UNVERIFIED};
use crate::desk::{Desk, Desks, Wanted};
use crate::disk::{Claim, Disk, Tier};
use crate::entry::{Entry, Identity};
use crate::job::{Job, Tee};
use crate::key::{KeyPlan, write_forwarded};
use crate::policy::{Cookies, Rules};
use crate::store::Store;
use crate::told::{Forward, Told};

/// All that is to be known.
#[derive(Debug)]
pub struct Settings {
    /// What tells answers apart.
    pub key: KeyPlan,
    /// What is kept.
    pub rules: Rules,
    /// Bytes that may be kept.
    pub memory: usize,
    /// Bytes of content that one answer may have.
    pub entry_limit: usize,
    /// How long a request waits for what another one asked for.
    pub wait: Duration,
    /// Requests that have nothing to do with the cache.
    pub bypass: Option<Condition>,
    /// Whether what clients wish is heeded.
    pub wishes: Obedience,
    /// Who may purge by the method PURGE.
    pub purgers: Vec<IpNet>,
    /// Names of the fields that answers name their tags in; lower case.
    pub tags: Vec<Box<[u8]>>,
    /// Where answers outlive the process, if they do.
    pub disk: Option<DiskPlan>,
}

/// Where answers outlive the process.
#[derive(Clone, Debug)]
pub struct DiskPlan {
    /// The name of the cache: caches that share a folder have names of their own.
    pub name: String,
    /// The folder.
    pub path: PathBuf,
    /// Bytes that all may take that use the folder.
    pub size: u64,
    /// Bytes of content that one answer may have.
    pub entry_limit: u64,
    /// What becomes of the folder now.
    pub claim: Claim,
    /// Where it is told what goes wrong with it.
    pub log: Option<LogWriter>,
}

impl DiskPlan {
    /// The part of the folder for a cache with these keys.
    fn tier(&self, key: &KeyPlan) -> Result<Option<Tier>, String> {
        let place = (self.claim, self.log.clone());
        let Some(disk) = Disk::at(&self.path, self.size, place)? else { return Ok(None) };
        // Answers that were told apart in another way are not found again.
        let name = format!("{}\n{key:?}", self.name);
        Ok(Some(Tier::new(disk, name.as_bytes(), self.entry_limit)))
    }
}

/// Whether what clients say in `Cache-Control` is heeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obedience {
    /// It is (RFC 9111, 5.2.1).
    Heed,
    /// It is not.
    Ignore,
}

const HIT: usize = 0;
const STALE: usize = 1;
const STALE_ERROR: usize = 2;
const COALESCED: usize = 3;
const MISS: usize = 4;
const REVALIDATED: usize = 5;
const UNCACHEABLE: usize = 6;
const BYPASS: usize = 7;
const ONLY_IF_CACHED: usize = 8;
const WAITED_TOO_LONG: usize = 9;
const FAILED_TOGETHER: usize = 10;
const INVALIDATED: usize = 11;
const PURGED: usize = 12;
const PURGE_REFUSED: usize = 13;
const REFRESHED: usize = 14;
const REFRESH_FAILED: usize = 15;

/// See the module.
#[derive(Debug)]
pub struct Cache(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: Settings,
    store: Arc<Store>,
    tier: Option<Tier>,
    desks: Desks,
    meter: Arc<FilterMeter>,
    owner: Owner,
}

impl Cache {
    /// What its meter tells apart.
    pub const OUTCOMES: &'static [&'static str] = &[
        "hit",
        "stale",
        "stale_error",
        "coalesced",
        "miss",
        "revalidated",
        "uncacheable",
        "bypass",
        "only_if_cached",
        "waited_too_long",
        "failed_together",
        "invalidated",
        "purged",
        "purge_refused",
        "refreshed",
        "refresh_failed",
    ];

    /// A cache with these settings, for so many workers. What a cache with this meter keeps is kept on.
    ///
    /// # Errors
    /// Why the folder cannot be used that answers are to outlive the process in.
    pub fn new(
        settings: Settings,
        workers: usize,
        meter: Arc<FilterMeter>,
    ) -> Result<Self, String> {
        let tier = match &settings.disk {
            Some(plan) => plan.tier(&settings.key)?,
            None => None,
        };
        // What was kept stays, if requests are told apart as before.
        let same = meter.caches_of::<Store>().into_iter().find(|it| *it.plan() == settings.key);
        let store = same.unwrap_or_else(|| {
            let store = Arc::new(Store::new(settings.memory, settings.key.clone()));
            let watched: Weak<Store> = Arc::downgrade(&store);
            meter.watch(watched);
            store
        });
        store.resize(settings.memory);
        store.set_tier(tier.clone());
        let desks = Desks::new(workers);
        Ok(Self(Arc::new(Inner { settings, store, tier, desks, meter, owner: Owner::new() })))
    }
}

/// A request that is looked for.
#[derive(Clone, Debug)]
struct Seeking {
    identity: Identity,
    asked: Asked,
    /// What is kept for it.
    entry: Option<Arc<Entry>>,
    /// How often it has waited for others.
    waits: u32,
}

impl Filter for Cache {
    fn phases(&self) -> Phases {
        Phases::REQUEST_HEAD | Phases::RESPONSE_HEAD | Phases::RESPONSE_BODY
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        self.0.seek(context)
    }

    fn on_response_head(&self, context: &mut ResponseContext<'_>) -> ResponseVerdict {
        match context.source {
            Source::Gateway => ResponseVerdict::Continue,
            Source::Origin => self.0.hear(context),
            Source::Fault => self.0.hear_fault(context),
        }
    }

    fn alters_content(&self) -> bool {
        false
    }

    fn concerns(&self, source: Source) -> bool {
        source != Source::Gateway
    }

    fn response_body(&self, context: &mut ResponseContext<'_>) -> Option<Box<dyn Transform>> {
        if context.source != Source::Origin {
            return None;
        }
        let job = context.notes.left::<Job>(self.0.owner)?;
        // One that has not begun is given up.
        let lead = job.lead.take().filter(|lead| lead.about().is_some())?;
        Some(Box::new(Tee::new(lead, job.audience)))
    }
}

impl Inner {
    /// Answers from what is at hand, or finds out what else is to be done.
    fn seek(self: &Arc<Self>, context: &mut RequestContext<'_>) -> Verdict {
        let request = &*context.request;
        if !matches!(request.method, Method::Get | Method::Head) {
            return self.see_other_method(context);
        }
        let asked = Asked::of(&request.fields, &self.settings.key.headers);
        if self.goes_by(asked, context) {
            return self.pass_by(context, Forward::Bypass);
        }
        let (now, worker) = (context.gateway.now(), context.gateway.worker());
        let mut desk = self.desks.of(worker);
        let Desk { extra, near, .. } = &mut *desk;
        self.write_extra(extra, asked, context);
        let wanted = self.wanted(context, extra);
        let found = near.find(&wanted);
        if let Some((place, entry)) = &found
            && entry.is_fresh(now)
            && asked.wants_all()
            && let Some(ready) = near.ready(*place, entry, now)
        {
            entry.touch();
            self.meter.count(worker, HIT);
            return Verdict::Give(ready);
        }
        self.look_up(context, (desk, asked), found.map(|(_, entry)| entry))
    }

    /// The same for what is not at hand, or not wanted as it is.
    #[inline(never)]
    fn look_up(
        self: &Arc<Self>,
        context: &mut RequestContext<'_>,
        (mut desk, asked): (MutexGuard<'_, Desk>, Asked),
        at_hand: Option<Arc<Entry>>,
    ) -> Verdict {
        let request = &*context.request;
        let Desk { url, extra, near } = &mut *desk;
        url.clear();
        let place = (context.gateway.scheme(), request.authority(), request.target());
        self.settings.key.write_url(place, url);
        let hash = self.store.hash(url);
        let entry = at_hand.or_else(|| {
            let found = self.store.find(hash, (url, extra), &request.fields)?;
            near.put(&self.wanted(context, extra), &found);
            Some(found)
        });
        let now = context.gateway.now();
        if let Some(entry) = &entry
            && entry.is_fresh(now)
            && !asked.has(CONTROL)
        {
            drop(desk);
            return self.give(context, (entry, asked), Told::Hit(entry.left(now)), HIT);
        }
        let identity =
            Identity { hash, url: url.as_slice().into(), extra: extra.as_slice().into() };
        drop(desk);
        self.look_further(context, Seeking { identity, asked, entry, waits: 0 })
    }

    /// What a request asks for, as its client wrote it.
    #[inline(always)]
    fn wanted<'r>(&self, context: &'r RequestContext<'_>, extra: &'r [u8]) -> Wanted<'r> {
        let request = &*context.request;
        let target = request.target();
        Wanted {
            hash: self.store.hash(target),
            scheme: context.gateway.scheme(),
            authority: request.authority(),
            target,
            extra,
            fields: &request.fields,
        }
    }

    /// Whether the cache has nothing to do with this request.
    #[inline]
    fn goes_by(&self, asked: Asked, context: &RequestContext<'_>) -> bool {
        let request = &*context.request;
        // A GET with content may mean what no other GET of this URL means (RFC 9110, 9.3.1).
        request.has_content()
            || !request.protocol().is_empty()
            || asked.passes_by()
            || (asked.has(UNVERIFIED) && !context.gateway.is_peer_trusted())
            || (asked.has(COOKIE) && self.settings.rules.cookies == Cookies::Bypass)
            || self.settings.bypass.as_ref().is_some_and(|when| when.holds(&context.view()))
    }

    /// The request goes to the origin, and its answer is not kept.
    #[cold]
    fn pass_by(&self, context: &mut RequestContext<'_>, forward: Forward) -> Verdict {
        self.meter.count(context.gateway.worker(), BYPASS);
        context.notes.keep(self.owner, [forward.number(), 0, 0, 0]);
        Verdict::Continue
    }

    /// Writes what of the head is part of the key.
    #[inline]
    fn write_extra(&self, key: &mut Vec<u8>, asked: Asked, context: &RequestContext<'_>) {
        let request = &*context.request;
        key.clear();
        self.settings.key.write_extra(&request.fields, key);
        // What others say of the client's request never reaches an origin; what these say does.
        if asked.has(FORWARDED) && context.gateway.is_peer_trusted() {
            write_forwarded(&request.fields, key);
        }
    }

    /// Answers from an entry.
    #[inline]
    fn give(
        &self,
        context: &RequestContext<'_>,
        (entry, asked): (&Arc<Entry>, Asked),
        told: Told,
        outcome: usize,
    ) -> Verdict {
        entry.touch();
        self.meter.count(context.gateway.worker(), outcome);
        let question = Question {
            method: context.request.method,
            fields: &context.request.fields,
            asked,
            now: context.gateway.now(),
            told,
        };
        match answer(entry, &question) {
            Ok(reply) => Verdict::Respond(Box::new(reply)),
            // What was kept leaves no room for what has to be added: the origin may be asked.
            Err(_) => Verdict::Continue,
        }
    }

    /// Whether this client may purge.
    fn may_purge(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        self.settings.purgers.iter().any(|net| net.contains(&client))
    }
}
