//! The rewrite filter: asks the origin for another path, query or host.

mod query;

pub use query::{QueryEdit, QueryNames};

use std::cell::RefCell;
use std::sync::Arc;

use regex::bytes::{Regex, RegexBuilder};
use sluice_expression::Template;
use sluice_filter::{Filter, Phases, RequestContext, Verdict};
use sluice_message::{
    PathAction, PathCase, PathProblem, PathRules, PathSpellings, TargetForm, TargetProblem,
    strip_path_prefix,
};
use sluice_meter::FilterMeter;

use crate::reference::{is_authority, push_path_value, push_target};

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
    pub fn new(mut rewriting: Rewriting, afterwards: Afterwards, meter: Arc<FilterMeter>) -> Self {
        rewriting.strip_prefix = rewriting.strip_prefix.as_deref().map(compared);
        Self { rewriting, afterwards, meter }
    }

    /// Changes the request; says whether it did.
    fn rewrite(&self, context: &mut RequestContext<'_>) -> Result<bool, Refusal> {
        let mut changed = false;
        if matches!(context.request.form, TargetForm::Origin | TargetForm::Absolute) {
            changed = BUFFERS.with_borrow_mut(|[path, next, whole]| {
                let rules = self.target(context, (path, next), whole)?;
                if *whole == context.request.target() {
                    return Ok(false);
                }
                let set = context.request.set_target(whole, &rules);
                set.map(|()| true).map_err(|problem| match problem {
                    TargetProblem::Space => Refusal(414, "no room for the rewritten target"),
                    TargetProblem::Path(PathProblem::DotSegment) => {
                        Refusal(400, "the rewritten path leads elsewhere")
                    }
                    _ => Refusal(400, "the rewritten path is none"),
                })
            })?;
        }
        Ok(changed | self.host(context)?)
    }

    /// Puts the new target together in `whole`; says how it is to be read.
    fn target(
        &self,
        context: &RequestContext<'_>,
        (path, next): (&mut Vec<u8>, &mut Vec<u8>),
        whole: &mut Vec<u8>,
    ) -> Result<PathRules, Refusal> {
        let Rewriting { strip_prefix, replace, path: template, add_prefix, query, .. } =
            &self.rewriting;
        let request = &*context.request;
        let rules = context.gateway.path_rules();
        let mut compared = request.path();
        // Dot segments that are sent by choice are no part of a path that is put together.
        let kept = rules.dot_segments == PathAction::Keep;
        let mut sent = if kept { compared } else { request.sent_path() };
        if let Some(prefix) = strip_prefix {
            let lower = (rules.case == PathCase::Insensitive).then(|| prefix.to_ascii_lowercase());
            let prefix = lower.as_deref().unwrap_or(prefix).as_bytes();
            if let Some(rest) = strip_path_prefix((sent, compared), prefix) {
                (sent, compared) = rest;
            }
        }
        path.clear();
        // What is found in the path is found in every spelling of it.
        path.extend_from_slice(if compared.is_empty() { b"/" } else { compared });
        let mut found_any = false;
        for PathReplacement { regex, with } in replace {
            let Some(groups) = regex.captures(path) else { continue };
            let Some(found) = groups.get(0) else { continue };
            next.clear();
            next.extend_from_slice(path.get(..found.start()).unwrap_or_default());
            groups.expand(with, next);
            next.extend_from_slice(path.get(found.end()..).unwrap_or_default());
            std::mem::swap(path, next);
            found_any = true;
            break;
        }
        if !found_any {
            // As it would be sent.
            path.clear();
            path.extend_from_slice(if sent.is_empty() { b"/" } else { sent });
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
            whole.extend_from_slice(request.sent_path());
            query::write(query, context, b"", whole);
            return Ok(rules);
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
        query::write(query, context, brought, whole);
        // What leads up comes from a value: it would lead elsewhere than it was meant to.
        Ok(PathRules { dot_segments: PathAction::Refuse, ..rules })
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

/// A prefix as paths are compared.
fn compared(prefix: &str) -> Box<str> {
    let mut spellings = PathSpellings::default();
    let read = PathRules::DEFAULT.read(prefix.as_bytes(), &mut spellings);
    let text = read.ok().and_then(|()| String::from_utf8(spellings.compared).ok());
    text.map_or_else(|| prefix.into(), String::into_boxed_str)
}

/// A path and the query behind it.
fn split(target: &[u8]) -> (&[u8], &[u8]) {
    let length = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
    let (path, query) = target.split_at_checked(length).unwrap_or((target, b""));
    (path, query.get(1..).unwrap_or_default())
}

#[cfg(test)]
mod tests;
