//! What takes out of the cache what is no longer right: requests that change something, and purges.

use std::sync::Arc;

use sluice_filter::{Reply, RequestContext, Resume, Verdict, compute};
use sluice_message::{Fields, Method};
use sluice_meter::Thoroughness;

use super::{INVALIDATED, Inner, PURGE_REFUSED, PURGED};
use crate::job::Change;
use crate::store::Store;
use crate::target::Target;

impl Inner {
    /// A request that is not answered from what is kept.
    #[cold]
    pub(super) fn see_other_method(self: &Arc<Self>, context: &mut RequestContext<'_>) -> Verdict {
        let request = &*context.request;
        if request.method_text() == b"PURGE" && !self.settings.purgers.is_empty() {
            return self.purge(context);
        }
        // Those that change nothing (RFC 9110, 9.2.1).
        if matches!(request.method, Method::Options | Method::Trace | Method::Connect) {
            return Verdict::Continue;
        }
        let change = Change {
            scheme: context.gateway.scheme(),
            authority: request.authority().into(),
            target: request.target().into(),
        };
        context.notes.leave(self.owner, Box::new(change));
        Verdict::Continue
    }

    /// A request that changed something succeeded: what is kept of it is out of date (RFC 9111, 4.4).
    pub(super) fn invalidate(&self, change: &Change, answer: &Fields, worker: usize) {
        let mut hits = self.forget(change.scheme, &change.authority, &change.target);
        for name in [&b"location"[..], b"content-location"] {
            for value in answer.values_of(name) {
                if let Some(target) = local(value, change) {
                    hits += self.forget(change.scheme, &change.authority, target);
                }
            }
        }
        if hits > 0 {
            self.meter.count(worker, INVALIDATED);
        }
    }

    fn forget(&self, scheme: &str, authority: &[u8], target: &[u8]) -> usize {
        let mut url = Vec::new();
        self.settings.key.write_url((scheme, authority, target), &mut url);
        self.store.forget(Target::Url(&url), Thoroughness::Hard)
    }

    /// PURGE of somebody who may do that, or not.
    fn purge(self: &Arc<Self>, context: &RequestContext<'_>) -> Verdict {
        let worker = context.gateway.worker();
        if !self.may_purge(context.client) {
            self.meter.count(worker, PURGE_REFUSED);
            return Verdict::refuse(403, "purging not allowed");
        }
        let request = &*context.request;
        let says = |name: &[u8]| request.fields.values_of(name).next().is_some();
        let soft = says(b"soft-purge") || says(b"fastly-soft-purge");
        let thoroughness = if soft { Thoroughness::Soft } else { Thoroughness::Hard };
        let tags = crate::head::tags(&request.fields, &self.settings.tags);
        let mut url = Vec::new();
        let place = (context.gateway.scheme(), request.authority(), request.target());
        let what = match request.target().strip_suffix(b"*") {
            _ if !tags.is_empty() => Named::Tags(tags),
            Some(prefix) => {
                self.settings.key.write_url((place.0, place.1, prefix), &mut url);
                Named::Prefix(url)
            }
            None => {
                self.settings.key.write_url(place, &mut url);
                Named::Url(url)
            }
        };
        // All that is kept is looked at: not on the thread that serves others.
        let (inner, store) = (Arc::clone(self), Arc::clone(&self.store));
        let work = compute(context.gateway, move || what.purge(&store, thoroughness));
        Verdict::Wait(Box::pin(async move {
            let hits = work.await;
            let resume: Resume = Box::new(move |context| {
                let Some(hits) = hits else {
                    return Verdict::refuse(503, "too much waits to be purged");
                };
                inner.meter.count(context.gateway.worker(), PURGED);
                let mut reply = Reply::new(200);
                let _ = reply.fields.push(b"content-type", b"application/json");
                reply.body = format!("{{\"purged\":{hits}}}\n").into_bytes().into();
                Verdict::Respond(Box::new(reply))
            });
            resume
        }))
    }
}

/// What is to be purged.
enum Named {
    Url(Vec<u8>),
    Prefix(Vec<u8>),
    Tags(Vec<Box<[u8]>>),
}

impl Named {
    fn purge(&self, store: &Store, thoroughness: Thoroughness) -> usize {
        match self {
            Self::Url(url) => store.forget(Target::Url(url), thoroughness),
            Self::Prefix(prefix) => store.forget(Target::Prefix(prefix), thoroughness),
            Self::Tags(tags) => {
                tags.iter().map(|tag| store.forget(Target::Tag(tag), thoroughness)).sum()
            }
        }
    }
}

/// The target of a reference, if it leads to where the request went (RFC 9111, 4.4: not to other origins).
fn local<'v>(reference: &'v [u8], change: &Change) -> Option<&'v [u8]> {
    let end = reference.iter().position(|&byte| byte == b'#').unwrap_or(reference.len());
    let reference = reference.get(..end)?;
    if reference.starts_with(b"/") && !reference.starts_with(b"//") {
        return Some(reference);
    }
    let rest = reference.strip_prefix(change.scheme.as_bytes())?.strip_prefix(b"://")?;
    let (authority, target) = rest.split_at_checked(change.authority.len())?;
    let same = authority.eq_ignore_ascii_case(&change.authority);
    (same && target.starts_with(b"/")).then_some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_lead_to_the_same_origin_or_nowhere() {
        let change = Change {
            scheme: "http",
            authority: (*b"a.example:81").into(),
            target: (*b"/form").into(),
        };
        let table: &[(&str, Option<&str>)] = &[
            ("/a?b", Some("/a?b")),
            ("/a#b", Some("/a")),
            ("http://a.example:81/a", Some("/a")),
            ("http://A.EXAMPLE:81/a", Some("/a")),
            ("http://a.example:81", None),
            ("http://a.example:811/a", None),
            ("https://a.example:81/a", None),
            ("//a.example:81/a", None),
            ("http://b.example/a", None),
            ("a", None),
            ("", None),
        ];
        for (reference, expected) in table {
            let target = local(reference.as_bytes(), &change);
            assert_eq!(target, expected.map(str::as_bytes), "{reference}");
        }
    }
}
