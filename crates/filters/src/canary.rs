//! Sends a part of the requests to other variants of what a route leads to, the same clients to the same ones.

mod cookie;
mod course;
#[cfg(test)]
mod tests;

pub use cookie::{OwnCookie, Security};
pub use course::{Ramp, Rollback, ShareCourse};

use std::sync::Arc;

use sluice_expression::{Condition, Marks, Salt, share};
use sluice_filter::{
    DoneContext, Filter, Level, Owner, Phases, RequestContext, ResponseContext, ResponseVerdict,
    Verdict, View,
};
use sluice_message::AddressText;
use sluice_meter::{FilterMeter, VariantEnd, VariantMeter};

use crate::key_source::KeySource;
use course::Course;

/// Variants that one filter may have, besides the stable one.
pub const MOST_OTHERS: usize = 12;
/// The variant that the route leads to by itself; its place is 0.
pub const STABLE: &str = "stable";

/// What the filter does.
#[derive(Debug)]
pub struct CanarySettings {
    /// The variants besides the stable one; the first has the place 1.
    pub variants: Vec<Variant>,
    /// Looked at in order; the first that is for a request decides.
    pub rules: Vec<CanaryRule>,
    /// What makes a client always get the same variant.
    pub sticky: Sticky,
    /// Another salt draws other clients.
    pub salt: String,
    /// The header by which a client names the variant it wants.
    pub override_header: Option<String>,
    /// The header in which origins are told of the variant.
    pub tag_header: Option<String>,
    /// Keys that get the stable variant, whatever rules say.
    pub stable_keys: Vec<String>,
    /// What becomes of requests whose variant has no server.
    pub without_server: WithoutServer,
    /// When a variant is given up.
    pub rollback: Option<Rollback>,
}

/// A variant.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Its name in logs, metrics and headers.
    pub name: Arc<str>,
    /// The upstream that answers, by its index in the snapshot.
    pub target: usize,
    /// Keys that get it, whatever rules say.
    pub keys: Vec<String>,
}

/// What is to happen to some requests.
#[derive(Debug)]
pub struct CanaryRule {
    /// Which; `None` = all.
    pub when: Option<Condition>,
    /// Which variants get how much of them; what is left gets the stable one.
    pub shares: Vec<VariantShare>,
}

/// How much a variant gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VariantShare {
    /// Its place, from 1.
    pub variant: usize,
    /// How much, now or in the course of time.
    pub course: ShareCourse,
}

/// What makes a client always get the same variant.
#[derive(Debug)]
pub enum Sticky {
    /// This text; the client's address where it is empty.
    Key(KeySource),
    /// A cookie that clients are given; the source reads it.
    Cookie(KeySource, OwnCookie),
}

/// What becomes of requests whose variant has no server that could be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutServer {
    /// The stable variant answers.
    Stable,
    /// They fail.
    Fail,
}

/// See the module.
#[derive(Debug)]
pub struct Canary {
    settings: CanarySettings,
    names: Box<[Arc<str>]>,
    /// Keys whose variant is settled, in order.
    forced: Box<[(Box<[u8]>, usize)]>,
    course: Course,
    salt: Salt,
    owner: Owner,
    meter: Arc<FilterMeter>,
    variants: Arc<VariantMeter>,
}

impl Canary {
    /// What its meter tells apart: the names of the variants, and more.
    #[must_use]
    pub fn outcomes<'n>(others: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
        std::iter::once(STABLE).chain(others).chain(["fallback", "rolled_back"]).collect()
    }

    /// With these settings; both meters know the variants by their places.
    #[must_use]
    pub fn new(
        settings: CanarySettings,
        meter: Arc<FilterMeter>,
        variants: Arc<VariantMeter>,
    ) -> Self {
        let others = settings.variants.iter().map(|variant| Arc::clone(&variant.name));
        let names = std::iter::once(Arc::from(STABLE)).chain(others).collect();
        let keys = |keys: &[String], place: usize| -> Vec<(Box<[u8]>, usize)> {
            keys.iter().map(|key| (key.as_bytes().into(), place)).collect()
        };
        let mut forced = keys(&settings.stable_keys, 0);
        for (variant, place) in settings.variants.iter().zip(1..) {
            forced.extend(keys(&variant.keys, place));
        }
        forced.sort();
        let shares = settings.rules.iter().map(|rule| rule.shares.as_slice());
        let course = Course::new(shares, settings.rollback, settings.variants.len());
        Self {
            names,
            forced: forced.into(),
            course,
            salt: Salt::new(settings.salt.as_bytes()),
            owner: Owner::new(),
            settings,
            meter,
            variants,
        }
    }

    /// The place of the variant for this request.
    #[inline]
    fn choose(&self, context: &mut RequestContext<'_>) -> usize {
        if let Some(header) = self.settings.override_header.as_deref()
            && let Some(variant) = self.wished(context, header)
        {
            return variant;
        }
        let mut place = None;
        if !self.forced.is_empty() {
            let (share, variant) = self.force(context);
            if let Some(variant) = variant {
                return variant;
            }
            place = Some(share);
        }
        let Some(at) = self.rule(&context.view()) else { return 0 };
        let (mut start, mut chosen) = (0, 0);
        for present in self.course.shares(at) {
            let (now, most) = (present.now(), present.most());
            if now > 0 {
                // Nobody has to be told apart where all get the same.
                let place = match place {
                    _ if start == 0 && now >= 1000 => 0,
                    Some(place) => place,
                    None => *place.insert(self.with_key(context, |key| share(key, self.salt))),
                };
                if (start..start + now).contains(&place) {
                    chosen = present.variant();
                    break;
                }
            }
            // Those behind begin where this one ends at its greatest, so that nobody changes as it grows.
            start += most;
        }
        chosen
    }

    /// The place of the client among all, and the variant that its key has by the configuration.
    #[inline(never)]
    fn force(&self, context: &mut RequestContext<'_>) -> (u32, Option<usize>) {
        let (place, found) = self.with_key(context, |key| {
            let found = self.forced.binary_search_by(|(known, _)| (**known).cmp(key)).ok();
            (share(key, self.salt), found)
        });
        (place, found.and_then(|at| self.forced.get(at)).map(|(_, variant)| *variant))
    }

    /// The variant that the client names.
    #[inline(never)]
    fn wished(&self, context: &RequestContext<'_>, header: &str) -> Option<usize> {
        let value = context.request.fields.values_of(header.as_bytes()).next()?;
        self.names.iter().position(|name| name.as_bytes() == value)
    }

    /// The first rule that is for the request.
    fn rule(&self, view: &View<'_>) -> Option<usize> {
        // Looked at once; most conditions are settled by that.
        let mut marks = None;
        let mut holds = |when: &Condition| {
            marks.get_or_insert_with(|| Marks::of(view.request)).has(when.marks())
                && when.holds(view)
        };
        let is_for = |rule: &CanaryRule| rule.when.as_ref().is_none_or(&mut holds);
        self.settings.rules.iter().position(is_for)
    }

    /// Lends what the client is known by.
    #[inline]
    fn with_key<R>(&self, context: &mut RequestContext<'_>, read: impl FnOnce(&[u8]) -> R) -> R {
        match &self.settings.sticky {
            Sticky::Key(source) => source.with(&context.view(), |key| match key {
                [] => read(AddressText::new(context.client.to_canonical()).as_bytes()),
                key => read(key),
            }),
            Sticky::Cookie(source, cookie) => read(&identifier(context, source, cookie)),
        }
    }

    /// Tells the origin which variant it is asked for; what the client said of it is gone.
    #[inline(never)]
    fn tag(context: &mut RequestContext<'_>, header: &str, name: &str) {
        let fields = &mut context.request.fields;
        fields.remove_read_as(header.as_bytes());
        // A head without room for the line goes without it.
        let _ = fields.push(header.as_bytes(), name.as_bytes());
    }

    /// Lets time pass: shares grow, and variants that do badly are given up.
    #[cold]
    fn look(&self, context: &RequestContext<'_>, now: u64) {
        for fallen in self.course.look(now, &self.variants) {
            let name = self.names.get(fallen.variant).map_or("", |name| &**name);
            let line = format_args!("canary: variant {name} is given up, {}", fallen.why);
            context.gateway.log(Level::Warn, line);
            self.meter.count(context.gateway.worker(), self.names.len() + 1);
        }
    }
}

/// What a cookie of ours says of the client; one that has none gets one.
#[inline(never)]
fn identifier(context: &mut RequestContext<'_>, source: &KeySource, cookie: &OwnCookie) -> Vec<u8> {
    let known =
        source.with(&context.view(), |key| cookie::is_identifier(key).then(|| key.to_vec()));
    known.unwrap_or_else(|| cookie.identifier(context).to_vec())
}

impl Filter for Canary {
    fn phases(&self) -> Phases {
        let answers = match self.settings.sticky {
            Sticky::Cookie(..) => Phases::RESPONSE_HEAD,
            Sticky::Key(_) => Phases::NONE,
        };
        Phases::REQUEST_HEAD | Phases::DONE | answers
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        let (now, worker) = (context.gateway.now(), context.gateway.worker());
        if self.course.is_due(now) {
            self.look(context, now);
        }
        // A request that was routed anew counts once, and stays with its variant.
        let before = context.notes.kept(self.owner);
        let known = before.and_then(|[variant, ..]| usize::try_from(variant).ok());
        let mut chosen = known.unwrap_or_else(|| self.choose(context));
        let target =
            |place: usize| self.settings.variants.get(place.checked_sub(1)?).map(|it| it.target);
        if let Some(target) = target(chosen)
            && self.settings.without_server == WithoutServer::Stable
            && !context.gateway.is_available(target)
        {
            chosen = 0;
            self.meter.count(worker, self.names.len());
        }
        if let Some(target) = target(chosen) {
            context.notes.set_target(Some(target));
        }
        let Some(name) = self.names.get(chosen) else { return Verdict::Continue };
        if let Some(header) = &self.settings.tag_header {
            Self::tag(context, header, name);
        }
        context.notes.set_variant(name);
        if known.is_none() {
            self.meter.count(worker, chosen);
        }
        let place = u32::try_from(chosen).unwrap_or_default();
        context.notes.keep(self.owner, [place, 0, 0, 0]);
        Verdict::Continue
    }

    fn on_response_head(&self, context: &mut ResponseContext<'_>) -> ResponseVerdict {
        if let Sticky::Cookie(_, cookie) = &self.settings.sticky {
            cookie.set(context);
        }
        ResponseVerdict::Continue
    }

    fn on_done(&self, done: &DoneContext<'_>) {
        let Some([variant, ..]) = done.notes.kept(self.owner) else { return };
        let Ok(variant) = usize::try_from(variant) else { return };
        let end = if done.status >= 500 { VariantEnd::Failed } else { VariantEnd::Good };
        self.variants.on_end(done.worker, variant, end, done.upstream_nanos);
    }
}
