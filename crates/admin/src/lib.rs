//! Pages of the admin listener: what the program tells about itself to those who run it.
//!
//! Each page is a [`Report`](sluice_engine::Report) of the engine: it is asked on the admin thread,
//! reads what is at hand and never waits.

mod config;
mod index;
mod json;
mod metrics;
mod probes;
mod upstreams;

use std::sync::Arc;

use sluice_control::{AdminPage, Status};
use sluice_engine::{Report, ReportAnswer};
use sluice_message::RequestHead;

/// All pages, for [`sluice_control::Launch`].
#[must_use]
pub fn pages(status: &Arc<Status>) -> Vec<AdminPage> {
    PAGES.iter().map(|(path, _, answer)| page(path, status, *answer)).collect()
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
    AdminPage { path, report: Arc::new(Page { status: Arc::clone(status), say }) }
}
