//! The rewrite filter: asks the origin for another path, query or host.

mod query;

pub use query::{QueryEdit, QueryNames};

use std::cell::RefCell;
use std::sync::Arc;

use regex::bytes::{Regex, RegexBuilder};
use sluice_expression::Template;
use sluice_filter::{Filter, Phases, RequestContext, Verdict};
use sluice_message::{TargetForm, TargetProblem};
use sluice_meter::FilterMeter;

use crate::reference::{has_dot_segments, is_authority, push_path_value, push_target};

/// What happens after the request was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// The route stays.
    SameRoute,
    /// A route is looked for anew.
    Reroute,
}

/// An expression that is searched in the path, and what takes its place.
#[derive(Clone, Debug)]
pub struct PathReplacement {
    regex: Regex,
    with: Box<[u8]>,
}

impl PathReplacement {
    /// `$1` and `${name}` in `with` stand for groups; it may bring a query.
    ///
    /// # Errors
    /// Why there is no such expression.
    pub fn new(expression: &str, with: &str) -> Result<Self, String> {
        let regex = RegexBuilder::new(expression).unicode(false).build();
        let regex = regex.map_err(|error| error.to_string())?;
        Ok(Self { regex, with: with.as_bytes().into() })
    }
}

/// What is changed, in this order.
#[derive(Clone, Debug, Default)]
pub struct Rewriting {
    /// Segments that are taken off the front of the path.
    pub strip_prefix: Option<Box<str>>,
    /// The first of these that is found changes the path.
    pub replace: Vec<PathReplacement>,
    /// The path becomes this; a query may follow it.
    pub path: Option<Template>,
    /// What is put in front of the path.
    pub add_prefix: Option<Box<str>>,
    /// What happens to the query.
    pub query: Vec<QueryEdit>,
    /// The host, with a port or without.
    pub host: Option<Template>,
}

/// See the module.
#[derive(Debug)]
pub struct Rewrite {
    rewriting: Rewriting,
    afterwards: Afterwards,
    meter: Arc<FilterMeter>,
}

/// Places among [`Rewrite::OUTCOMES`].
const REWRITTEN: usize = 0;
const UNCHANGED: usize = 1;
const REFUSED: usize = 2;

thread_local! {
    /// What a target is put together in: the path so far, the path to be, the whole.
    static BUFFERS: RefCell<[Vec<u8>; 3]> = RefCell::default();
}

/// Why a request is refused instead.
struct Refusal(u16, &'static str);

impl Rewrite {
    /// What its meter tells apart.
    pub const OUTCOMES: &'static [&'static str] = &["rewritten", "unchanged", "refused"];

    /// A filter that changes so much.
    #[must_use]
    pub fn new(rewriting: Rewriting, afterwards: Afterwards, meter: Arc<FilterMeter>) -> Self {
        Self { rewriting, afterwards, meter }
    }

    /// Changes the request; says whether it did.
    fn rewrite(&self, context: &mut RequestContext<'_>) -> Result<bool, Refusal> {
        let mut changed = false;
        if matches!(context.request.form, TargetForm::Origin | TargetForm::Absolute) {
            changed = BUFFERS.with_borrow_mut(|[path, next, whole]| {
                self.target(context, (path, next), whole)?;
                if *whole == context.request.target() {
                    return Ok(false);
                }
                context.request.set_target(whole).map(|()| true).map_err(|problem| match problem {
                    TargetProblem::Space => Refusal(414, "no room for the rewritten target"),
                    _ => Refusal(400, "the rewritten path is none"),
                })
            })?;
        }
        Ok(changed | self.host(context)?)
    }

    /// Puts the new target together in `whole`.
    fn target(
        &self,
        context: &RequestContext<'_>,
        (path, next): (&mut Vec<u8>, &mut Vec<u8>),
        whole: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let Rewriting { strip_prefix, replace, path: template, add_prefix, query, .. } =
            &self.rewriting;
        path.clear();
        // The path as routes match it: another spelling of it is rewritten alike.
        let matched = context.request.path();
        path.extend_from_slice(stripped(matched, strip_prefix.as_deref()));
        for PathReplacement { regex, with } in replace {
            let Some(groups) = regex.captures(path) else { continue };
            let Some(found) = groups.get(0) else { continue };
            next.clear();
            next.extend_from_slice(path.get(..found.start()).unwrap_or_default());
            groups.expand(with, next);
            next.extend_from_slice(path.get(found.end()..).unwrap_or_default());
            std::mem::swap(path, next);
            break;
        }
        if let Some(template) = template {
            path.clear();
            let rendered = template.render_escaped(&context.view(), push_path_value, path);
            rendered.map_err(|_| Refusal(414, "the rewritten path is too long"))?;
        }
        let untouched = replace.is_empty() && template.is_none() && strip_prefix.is_none();
        let prefix = add_prefix.as_deref().unwrap_or_default();
        whole.clear();
        if untouched && prefix.is_empty() {
            // As the client wrote it.
            let target = context.request.target();
            let raw = target.split(|&byte| byte == b'?').next().unwrap_or_default();
            whole.extend_from_slice(raw);
            query::write(query, context, b"", whole);
            return Ok(());
        }
        whole.extend_from_slice(prefix.as_bytes());
        let (path, brought) = split(path);
        let doubled = whole.ends_with(b"/") && path.starts_with(b"/");
        let missing = !whole.ends_with(b"/") && !path.starts_with(b"/") && !path.is_empty();
        if doubled {
            whole.pop();
        }
        if missing || (whole.is_empty() && path.is_empty()) {
            whole.push(b'/');
        }
        push_target(path, whole);
        if has_dot_segments(whole) {
            return Err(Refusal(400, "the rewritten path leads elsewhere"));
        }
        query::write(query, context, brought, whole);
        Ok(())
    }

    fn host(&self, context: &mut RequestContext<'_>) -> Result<bool, Refusal> {
        let Some(template) = &self.rewriting.host else { return Ok(false) };
        BUFFERS.with_borrow_mut(|[host, ..]| {
            host.clear();
            let rendered = template.render(&context.view(), host);
            if rendered.is_err() || !is_authority(host) {
                return Err(Refusal(400, "the rewritten host is none"));
            }
            if *host == context.request.authority() {
                return Ok(false);
            }
            let set = context.request.set_authority(host);
            set.map(|()| true).map_err(|_| Refusal(431, "no room for the rewritten host"))
        })
    }
}

impl Filter for Rewrite {
    fn phases(&self) -> Phases {
        Phases::REQUEST_HEAD
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        let (outcome, verdict) = match self.rewrite(context) {
            Ok(true) if self.afterwards == Afterwards::Reroute => (REWRITTEN, Verdict::Reroute),
            Ok(true) => (REWRITTEN, Verdict::Continue),
            Ok(false) => (UNCHANGED, Verdict::Continue),
            Err(Refusal(status, reason)) => (REFUSED, Verdict::refuse(status, reason)),
        };
        self.meter.count(context.gateway.worker(), outcome);
        verdict
    }
}

/// The path without these segments in front of it, if they are there.
fn stripped<'p>(path: &'p [u8], prefix: Option<&str>) -> &'p [u8] {
    let prefix = prefix.unwrap_or_default().trim_end_matches('/');
    match path.strip_prefix(prefix.as_bytes()) {
        Some([]) => b"/",
        Some(rest) if rest.starts_with(b"/") => rest,
        _ => path,
    }
}

/// A path and the query behind it.
fn split(target: &[u8]) -> (&[u8], &[u8]) {
    let length = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
    let (path, query) = target.split_at_checked(length).unwrap_or((target, b""));
    (path, query.get(1..).unwrap_or_default())
}

#[cfg(test)]
mod tests;
