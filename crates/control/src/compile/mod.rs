//! A model becomes what runs, as far as that goes without sockets.

mod answer;
mod balance;
mod cluster;
mod files;
mod filter;
mod health;
mod listener;
mod lua;
mod mirror;
mod paths;
mod retry;
mod table;
mod tls;

use std::sync::Arc;

use sluice_engine::Answer;
use sluice_expression::{Scope, Template};
use sluice_filter::{Filter, Service};
use sluice_filters::RedirectAction;
use sluice_lua::Program;
use sluice_meter::AccessFormat;
use sluice_model::{AccessLog, Action, Listener, Log, Model, Route};
use sluice_net::files as system;

use crate::flaw::Flaw;

pub(crate) use cluster::cluster_plan;
pub(crate) use filter::{Made, Shelf, route_filters};
pub(crate) use listener::{
    ambiguous_headers, beginning, connection_limits, endpoint, http2, limits, proxy_protocol,
    timeouts, trace_method,
};
pub(crate) use mirror::mirror;
pub(crate) use paths::{compared_case, path_overrides, path_rules};
pub(crate) use table::PreparedTable;
pub(crate) use tls::{PreparedClient, PreparedTls, prepare_clients, prepare_tls, tls_paths};

/// A configuration of which everything but the world is known to work.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// What each route does, in the order of the model.
    pub(crate) actions: Vec<PreparedAction>,
    /// Tables of routes, each for one or more listeners.
    pub(crate) tables: Vec<PreparedTable>,
    /// How each listener is encrypted, in the order of the model.
    pub(crate) tls: Vec<Option<PreparedTls>>,
    /// How connections to the servers of each upstream are encrypted, by its name.
    pub(crate) clients: Vec<PreparedClient>,
    /// The filters, in the order of the model.
    pub(crate) filters: Vec<Made>,
    /// What speaks with the clients of each listener instead of HTTP, in the order of the model.
    pub(crate) services: Services,
    /// Scripts of routes and listeners.
    pub(crate) scripts: Vec<Arc<Program>>,
    /// The form of access-log lines; `None` = off.
    pub(crate) access: Option<Arc<AccessFormat>>,
}

/// What speaks with the clients of each listener; nothing for those of HTTP.
pub(crate) type Services = Vec<Option<Arc<dyn Service>>>;

/// What a route does.
#[derive(Debug)]
pub(crate) enum PreparedAction {
    Respond(Answer),
    Redirect(Arc<dyn Filter>),
    Proxy(usize),
    Handle(Arc<dyn Filter>),
    Health,
}

/// Compiles everything that needs no socket; reads the files of answers. Filters that stay the same are taken
/// from the shelf.
pub(crate) fn prepare(model: &Model, shelf: &Shelf) -> Result<Prepared, Vec<Flaw>> {
    let mut flaws = Vec::new();
    let (mut actions, mut scripts) = (Vec::new(), Vec::new());
    for route in &model.routes {
        match prepare_action(route, shelf, &mut scripts) {
            Ok(action) => actions.push(action),
            Err(message) => {
                let flaw = Flaw::new(route_element(&route.name), message);
                flaws.push(match &route.action {
                    Action::Files(_) => flaw.with_help(
                        "create the folder, or write in `root` where the files are; we have to be \
                         allowed to enter it",
                    ),
                    Action::Lua(_) => flaw.with_help(lua::HELP),
                    _ => flaw,
                });
            }
        }
    }
    let tables = table::prepare_tables(model, &mut flaws);
    let access = prepare_access(&model.log, &mut flaws);
    let tls = prepare_tls(model, &mut flaws);
    let clients = prepare_clients(model, &mut flaws);
    let services = prepare_services(model, shelf, (&mut scripts, &mut flaws));
    let filters = shelf.prepare(model, &mut flaws);
    match flaws.is_empty() {
        true => Ok(Prepared { actions, tables, tls, clients, filters, services, scripts, access }),
        false => Err(flaws),
    }
}

/// What speaks with the clients of each listener, where that is not HTTP.
fn prepare_services(
    model: &Model,
    shelf: &Shelf,
    (scripts, flaws): (&mut Vec<Arc<Program>>, &mut Vec<Flaw>),
) -> Services {
    let prepare = |listener: &Listener| {
        let lua = listener.lua.as_deref()?;
        match lua::service((listener, lua), shelf.workers(), shelf.log()) {
            Ok((service, program)) => {
                scripts.push(program);
                Some(service)
            }
            Err(message) => {
                let flaw = Flaw::new(listener_element(&listener.name), message);
                flaws.push(flaw.with_help(lua::SERVICE_HELP));
                None
            }
        }
    };
    model.listeners.iter().map(prepare).collect()
}

fn prepare_action(
    route: &Route,
    shelf: &Shelf,
    scripts: &mut Vec<Arc<Program>>,
) -> Result<PreparedAction, String> {
    match &route.action {
        Action::Respond(respond) => answer::answer(respond).map(PreparedAction::Respond),
        Action::Redirect(redirect) => Template::compile(&redirect.to, &Scope::of_redirects())
            .map(|to| RedirectAction::new(redirect.status, to))
            .map(|action| PreparedAction::Redirect(Arc::new(action)))
            .map_err(|problem| format!("redirect: {problem}")),
        Action::Proxy(proxy) => Ok(PreparedAction::Proxy(proxy.upstream)),
        Action::Files(wanted) => files::files(wanted, shelf.workers()).map(PreparedAction::Handle),
        Action::Lua(script) => {
            let who = route_element(&route.name);
            let (handler, program) = lua::action(script, (&who, shelf.workers()), shelf.log())?;
            scripts.push(program);
            Ok(PreparedAction::Handle(handler))
        }
        Action::Health => Ok(PreparedAction::Health),
    }
}

fn prepare_access(log: &Log, flaws: &mut Vec<Flaw>) -> Option<Arc<AccessFormat>> {
    let format = match &log.access {
        AccessLog::Off => return None,
        AccessLog::Combined => AccessFormat::combined(),
        AccessLog::Json => AccessFormat::json(),
        AccessLog::Template(text) => match AccessFormat::template(text) {
            Ok(format) => format,
            Err(error) => {
                flaws.push(Flaw::new("log.access", error.to_string()));
                return None;
            }
        },
    };
    if let Some(file) = &log.file {
        let directory = system::directory_of(file);
        if !system::is_directory(&directory) {
            let message = format!("there is no directory {}", directory.display());
            flaws.push(Flaw::new("log.file", message).with_help("create it before the start"));
        }
    }
    Some(Arc::new(format))
}

/// How a listener is called in messages.
fn listener_element(name: &str) -> String {
    format!("listener \"{name}\"")
}

/// How a route is called in messages.
pub(crate) fn route_element(name: &str) -> String {
    format!("route \"{name}\"")
}
