//! Pages of the admin listener: what the program tells about itself to those who run it, and the few
//! things it does for them.
//!
//! Each page is a [`Report`](sluice_engine::Report) of the engine: it is asked on the admin thread,
//! reads what is at hand and never waits.

mod config;
mod drain;
mod index;
mod json;
mod metrics;
mod probes;
mod purge;
mod upstreams;

use std::sync::Arc;

use sluice_control::{AdminPage, Service, Status};
use sluice_engine::{Report, ReportAnswer};
use sluice_message::RequestHead;

use drain::Switch;
use purge::Purge;

/// All pages, for [`sluice_control::Launch`].
#[must_use]
pub fn pages(status: &Arc<Status>) -> Vec<AdminPage> {
    let pages = PAGES.iter().map(|(path, _, answer)| page(path, status, *answer));
    let switches = SWITCHES.iter().map(|(path, _, service)| switch(path, status, *service));
    let purge = Arc::new(Purge { status: Arc::clone(status) });
    let (path, _) = PURGE;
    pages.chain(switches).chain([AdminPage { method: "POST", path, report: purge }]).collect()
}

/// What a page says about the state of the program.
type Say = fn(&Status) -> ReportAnswer;

/// The pages: path, what it is for, and what it says.
const PAGES: [(&str, &str, Say); 6] = [
    ("/", "this page", index::index),
    ("/healthz", "200 while the process lives", probes::healthz),
    ("/readyz", "200 while requests are served, 503 before and while draining", probes::readyz),
    ("/metrics", "counters and histograms for Prometheus", metrics::metrics),
    ("/config", "the configuration in force, secrets hidden", config::config),
    ("/upstreams", "upstreams, their servers and addresses", upstreams::upstreams),
];

/// The pages that change something: path, what it does, and how.
const SWITCHES: [(&str, &str, Service); 2] = [
    (
        "/upstreams/{name}/servers/{address}/drain",
        "no more requests for a server; those under way end as they would",
        Service::Drain,
    ),
    (
        "/upstreams/{name}/servers/{address}/restore",
        "the server takes part again",
        Service::Restore,
    ),
];

/// The page that has a cache forget something, and what it is for.
const PURGE: (&str, &str) = (
    "/caches/{name}/purge",
    "answers of a cache go: ?url=, ?prefix=, ?tag= or ?all; with &amp;soft they are confirmed first",
);

struct Page {
    status: Arc<Status>,
    say: Say,
}

impl Report for Page {
    fn report(&self, _: &RequestHead) -> ReportAnswer {
        (self.say)(&self.status)
    }
}

fn page(path: &'static str, status: &Arc<Status>, say: Say) -> AdminPage {
    AdminPage { method: "GET", path, report: Arc::new(Page { status: Arc::clone(status), say }) }
}

fn switch(path: &'static str, status: &Arc<Status>, service: Service) -> AdminPage {
    let report = Arc::new(Switch { status: Arc::clone(status), service });
    AdminPage { method: "POST", path, report }
}
