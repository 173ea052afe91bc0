//! Filters become what runs, and go on over reloads as long as nothing of them changes.

mod access;
mod auth;
mod bandwidth_limit;
mod body_replace;
mod cache;
mod canary;
mod compress;
mod concurrency_limit;
mod cors;
mod external_auth;
mod files;
mod guard;
mod headers;
mod key;
mod lua;
mod oidc;
mod rate_limit;
mod redirect;
mod request_id;
mod respond;
mod rewrite;
mod security;
mod skipped;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluice_cache::Claim;
use sluice_engine::RouteFilters;
use sluice_expression::{Condition, Need, Phase, Scope, Template};
use sluice_filter::{Chain, Filter, Link, ResponseCondition};
use sluice_message::PathCase;
use sluice_meter::FilterMeter;
use sluice_model::{Action, Expression, FilterKind, Model, Route};
use sluice_net::LogWriter;
use sluice_route::Captures;

use self::files::Files;
use super::table::path_spec;
use crate::flaw::Flaw;

/// A filter that runs, or is about to.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    name: Arc<str>,
    kind: FilterKind,
    when: Option<Arc<Condition>>,
    filter: Arc<dyn Filter>,
    meter: Arc<FilterMeter>,
    files: Files,
}

/// The filters in force, by name.
#[derive(Debug)]
pub(crate) struct Shelf {
    workers: usize,
    /// What becomes of the folders that filters keep things in.
    claim: Claim,
    /// Where filters say what goes wrong beside requests.
    log: Option<LogWriter>,
    made: BTreeMap<String, Made>,
}

/// What a filter is built with.
pub(crate) struct Tools<'a> {
    name: &'a str,
    workers: usize,
    claim: Claim,
    log: Option<&'a LogWriter>,
    /// The meter of the filter that had the name before.
    before: Option<&'a Arc<FilterMeter>>,
    /// The one it has now.
    meter: Option<Arc<FilterMeter>>,
    /// The files it is made of.
    files: Files,
}

impl Tools<'_> {
    /// The name of the filter.
    pub(crate) const fn name(&self) -> &str {
        self.name
    }

    /// How many workers ask it.
    pub(crate) const fn workers(&self) -> usize {
        self.workers
    }

    /// What becomes of a folder that it keeps things in.
    pub(crate) const fn claim(&self) -> Claim {
        self.claim
    }

    /// Where it says what goes wrong beside requests.
    pub(crate) fn log(&self) -> Option<LogWriter> {
        self.log.cloned()
    }

    /// The meter of the filter, which tells these outcomes apart. Counts go on under the same name.
    pub(crate) fn meter(&mut self, outcomes: &[&str]) -> Arc<FilterMeter> {
        let meter = match self.before {
            Some(before) if before.is_for(outcomes) => Arc::clone(before),
            _ => Arc::new(FilterMeter::new(self.workers, outcomes)),
        };
        self.meter = Some(Arc::clone(&meter));
        meter
    }
}

impl Shelf {
    /// Nothing yet, for so many workers, whose filters do this with the folders they keep things in.
    pub(crate) const fn new(workers: usize, claim: Claim) -> Self {
        Self { workers, claim, log: None, made: BTreeMap::new() }
    }

    /// The same, of filters that say here what goes wrong beside requests.
    pub(crate) fn with_log(self, log: LogWriter) -> Self {
        Self { log: Some(log), ..self }
    }

    /// From now on nobody else is about to leave the folders that filters keep things in.
    pub(crate) const fn settle(&mut self) {
        self.claim = Claim::Take;
    }

    /// Where what is made here says what goes wrong beside requests.
    pub(super) fn log(&self) -> Option<LogWriter> {
        self.log.clone()
    }

    /// How many workers there are.
    pub(super) const fn workers(&self) -> usize {
        self.workers
    }

    /// The filters of a model, in its order. Those that are the same as before are the same objects: what
    /// they know and count goes on.
    pub(super) fn prepare(&self, model: &Model, flaws: &mut Vec<Flaw>) -> Vec<Made> {
        let mut all = Vec::new();
        if let Some((filter, message)) = cache::contradiction(&model.filters) {
            flaws.push(Flaw::new(element(filter), message));
            return all;
        }
        for filter in &model.filters {
            let before = self.made.get(&filter.name);
            let when = match filter.when.as_ref().map(condition).transpose() {
                Ok(when) => when,
                Err(message) => {
                    flaws.push(Flaw::new(element(filter), message));
                    continue;
                }
            };
            let is_same = |made: &&Made| made.kind == filter.kind && made.files.are_unchanged();
            let made = match before.filter(is_same) {
                Some(same) => {
                    let same = Made { when, ..same.clone() };
                    same.refuse_late_condition(filter).map(|()| same)
                }
                None => self.make(filter, when),
            };
            match made {
                Ok(made) => all.push(made),
                Err(flaw) => flaws.push(flaw),
            }
        }
        if all.len() == model.filters.len() {
            skipped::refuse(model, &all, flaws);
        }
        all
    }

    /// A filter as its options and files are now. Counts go on under the same name.
    fn make(
        &self,
        filter: &sluice_model::Filter,
        when: Option<Arc<Condition>>,
    ) -> Result<Made, Flaw> {
        let before = self.made.get(&filter.name).map(|before| &before.meter);
        let name = filter.name.as_str();
        let files = Files::default();
        let (workers, claim, log) = (self.workers, self.claim, self.log.as_ref());
        let mut tools = Tools { name, workers, claim, log, before, meter: None, files };
        let built = build(&filter.kind, &mut tools)
            .map_err(|message| Flaw::new(element(filter), message))?;
        let made = Made {
            name: name.into(),
            kind: filter.kind.clone(),
            when,
            filter: built,
            meter: tools.meter.unwrap_or_else(|| Arc::new(FilterMeter::new(1, &[]))),
            files: tools.files,
        };
        made.refuse_late_condition(filter).map(|()| made)
    }

    /// The files that the filters in force are made of.
    pub(crate) fn paths(&self) -> BTreeSet<PathBuf> {
        self.made.values().flat_map(|made| made.files.paths()).map(Path::to_path_buf).collect()
    }

    /// The filters in force with those made anew that are made of this file, or of any if none is named, and
    /// whose files are others now; and the names of these. `None` if there are none. What cannot be made anew
    /// stays.
    pub(crate) fn renew(
        &self,
        model: &Model,
        path: Option<&Path>,
        flaws: &mut Vec<Flaw>,
    ) -> Option<(Vec<Made>, Vec<String>)> {
        let (mut all, mut names) = (Vec::new(), Vec::new());
        for filter in &model.filters {
            let made = self.made.get(&filter.name)?;
            let concerned = |path| made.files.paths().any(|known| known == path);
            let mut chosen = made.clone();
            if path.is_none_or(concerned) && !made.files.are_unchanged() {
                match self.make(filter, made.when.clone()) {
                    Ok(new) => {
                        names.push(format!("\"{}\"", filter.name));
                        chosen = new;
                    }
                    Err(flaw) => flaws.push(flaw),
                }
            }
            all.push(chosen);
        }
        let known = flaws.len();
        skipped::refuse(model, &all, flaws);
        if flaws.len() > known {
            return None;
        }
        (!names.is_empty()).then_some((all, names))
    }

    /// These are in force from now on.
    pub(crate) fn take(&mut self, model: &Model, made: &[Made]) {
        let names = model.filters.iter().map(|filter| filter.name.clone());
        self.made = names.zip(made.iter().cloned()).collect();
    }

    /// What the metrics page reads.
    pub(crate) fn meters(&self) -> BTreeMap<String, Arc<FilterMeter>> {
        let meters = self.made.iter();
        meters.map(|(name, made)| (name.clone(), Arc::clone(&made.meter))).collect()
    }
}

impl Made {
    /// Names of parameters of the query that hold secrets.
    pub(crate) fn secret_parameters(&self) -> Vec<Box<[u8]>> {
        self.filter.secret_parameters()
    }

    /// A condition about the response leaves out the phases of the request. A filter that needs them would never
    /// act, and one that authenticates let everybody in.
    fn refuse_late_condition(&self, filter: &sluice_model::Filter) -> Result<(), Flaw> {
        let late = self.when.as_ref().is_some_and(|when| when.needs().has(Need::Response));
        if !late
            || !self.filter.phases().act_on_requests()
            || self.filter.response_condition() != ResponseCondition::Refused
        {
            return Ok(());
        }
        let text = filter.when.as_ref().map_or("", |when| &when.0);
        let message = format!(
            "`when = \"{text}\"` speaks of the response, but {} acts on the request, before there is one: \
             it would never act",
            filter.kind.key()
        );
        let help = "write a condition about the request (request.*, client.*, auth.*, ...), or give what acts on \
                    the response a filter of its own";
        Err(Flaw::of_document(element(filter), filter.written.error(&message, help)))
    }
}

/// How a filter is called in messages.
fn element(filter: &sluice_model::Filter) -> String {
    format!("filter \"{}\", {}", filter.name, filter.kind.key())
}

/// A condition of the model, which has checked it.
fn condition(text: &Expression) -> Result<Arc<Condition>, String> {
    let compiled = Condition::compile(&text.0, &Scope::new(Phase::Response));
    compiled.map(Arc::new).map_err(|problem| problem.to_string())
}

/// A template of the model, which has checked it.
fn template(text: &Expression, phase: Phase) -> Result<Template, String> {
    Template::compile(&text.0, &Scope::new(phase)).map_err(|problem| problem.to_string())
}

/// What a filter of this kind does.
fn build(kind: &FilterKind, tools: &mut Tools<'_>) -> Result<Arc<dyn Filter>, String> {
    Ok(match kind {
        FilterKind::Guard(options) => Arc::new(guard::guard(options, tools)),
        FilterKind::Ip(options) => Arc::new(access::ip(options, tools)?),
        FilterKind::UserAgent(options) => Arc::new(access::user_agent(options, tools)?),
        FilterKind::Referer(options) => Arc::new(access::referer(options, tools)?),
        FilterKind::Geo(options) => Arc::new(access::geo(options, tools)?),
        FilterKind::KeyAuth(options) => Arc::new(auth::key_auth(options, tools)?),
        FilterKind::BasicAuth(options) => Arc::new(auth::basic_auth(options, tools)?),
        FilterKind::Jwt(options) => Arc::new(auth::jwt(options, tools)?),
        FilterKind::HmacAuth(options) => Arc::new(auth::hmac_auth(options, tools)?),
        FilterKind::Csrf(options) => Arc::new(auth::csrf(options, tools)?),
        FilterKind::ExternalAuth(options) => {
            Arc::new(external_auth::external_auth(options, tools)?)
        }
        FilterKind::Canary(options) => Arc::new(canary::canary(options, tools)?),
        FilterKind::RateLimit(options) => Arc::new(rate_limit::rate_limit(options, tools)?),
        FilterKind::KeyedConcurrency(options) => {
            Arc::new(concurrency_limit::concurrency_limit(options, tools)?)
        }
        FilterKind::BandwidthLimit(options) => {
            Arc::new(bandwidth_limit::bandwidth_limit(options, tools))
        }
        FilterKind::Headers(options) => Arc::new(headers::headers(options, tools)?),
        FilterKind::Rewrite(options) => Arc::new(rewrite::rewrite(options, tools)?),
        FilterKind::RedirectFilter(options) => Arc::new(redirect::redirect(options, tools)?),
        FilterKind::RespondFilter(options) => Arc::new(respond::respond(options, tools)?),
        FilterKind::RequestId(options) => Arc::new(request_id::request_id(options, tools)),
        FilterKind::BodyReplace(options) => Arc::new(body_replace::body_replace(options, tools)?),
        FilterKind::Oidc(options) => Arc::new(oidc::oidc(options, tools)?),
        FilterKind::Cors(options) => Arc::new(cors::cors(options, tools)?),
        FilterKind::Compress(options) => Arc::new(compress::compress(options, tools)),
        FilterKind::Decompress(options) => Arc::new(compress::decompress(options, tools)),
        FilterKind::Cache(options) => Arc::new(cache::cache(options, tools)?),
        FilterKind::Lua(options) => Arc::new(lua::filter(options, tools)?),
        FilterKind::SecurityHeaders(options) => Arc::new(security::security(options, tools)),
    })
}

/// What requests of a route go through.
pub(crate) fn route_filters(route: &Route, made: &[Made], case: PathCase) -> Option<RouteFilters> {
    let chosen = route.filters.iter().filter_map(|&at| made.get(at));
    let link = |made: &Made| Link {
        name: Arc::clone(&made.name),
        filter: Arc::clone(&made.filter),
        when: made.when.clone(),
    };
    let links = chosen.map(link);
    let chain = Chain::new(&links.collect::<Vec<_>>());
    // What answers by itself is asked in the way of filters.
    let chain = match route.action {
        Action::Files(_) | Action::Lua(_) | Action::Redirect(_) => chain.unwrap_or_default(),
        _ => chain?,
    };
    Some(RouteFilters { chain, captures: Captures::of(&path_spec(&route.path), case) })
}
