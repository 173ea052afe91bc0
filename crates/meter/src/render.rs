//! The metrics page in the Prometheus text format, version 0.0.4.

mod custom;
mod filters;
mod listeners;
mod page;
mod upstreams;

use std::time::Duration;

use page::{Page, Seconds};

use crate::fault::{SIDES, kinds};
use crate::meters::locked;
use crate::metric::{self, Metric};
use crate::{Meters, PerWorker, RouteMeter, WorkerMeter};

/// What only the caller can read: facts about the process. What is `None` is left out of the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Version of the program.
    pub version: &'static str,
    /// Start of the process, since 1970.
    pub start: Duration,
    /// User and system CPU time.
    pub cpu: Option<Duration>,
    /// Resident memory in bytes.
    pub resident_bytes: Option<u64>,
    /// Open file descriptors.
    pub open_fds: Option<u64>,
    /// Limit of open file descriptors.
    pub max_fds: Option<u64>,
}

impl Meters {
    /// Appends the metrics page to `out`, to be sent as `text/plain; version=0.0.4`.
    pub fn render(&self, process: &ProcessFacts, out: &mut String) {
        let mut page = Page { out };
        page.family(&metric::BUILD_INFO);
        page.sample(metric::BUILD_INFO.name, &[("version", process.version)], 1);
        page.family(&metric::WORKERS);
        page.sample(metric::WORKERS.name, &[], self.workers().max(1));
        self.render_workers(&mut page);
        self.render_listeners(&mut page);
        self.render_http2(&mut page);
        self.render_scripts(&mut page);
        self.render_certificates(&mut page);
        self.render_routes(&mut page);
        self.render_filters(&mut page);
        self.render_limits(&mut page);
        self.render_upstreams(&mut page);
        self.render_servers(&mut page);
        self.render_faults(&mut page);
        self.render_tallies(&mut page);
        render_process(process, &mut page);
        custom::render(&mut page);
    }

    fn render_workers(&self, page: &mut Page<'_>) {
        let mut each = |metric: &Metric, read: &dyn Fn(&WorkerMeter) -> i128| {
            page.family(metric);
            for (number, meter) in self.threads().iter().enumerate() {
                page.sample(metric.name, &[("worker", &number.to_string())], read(meter));
            }
        };
        each(&metric::WORKER_CONNECTIONS, &|meter| meter.connections.value().into());
        each(&metric::WORKER_BUSY, &|meter| meter.busy.value().into());
        each(&metric::WORKER_HANDED_OVER, &|meter| meter.handed_over.value().into());
    }

    fn render_routes(&self, page: &mut Page<'_>) {
        let routes = locked(&self.routes);
        let total = |meter: &PerWorker<RouteMeter>| meter.sum(|meter| meter.responses.total());
        page.family(&metric::ROUTE_REQUESTS);
        for (name, meter) in routes.iter() {
            page.sample(metric::ROUTE_REQUESTS.name, &[("route", name)], total(meter));
        }
        // Ten thousand idle routes with all their series would make a page of megabytes.
        let busy: Vec<_> = routes.iter().filter(|(_, meter)| total(meter) > 0).collect();
        page.family(&metric::ROUTE_RESPONSES);
        for (name, meter) in &busy {
            let label = ("route", name.as_str());
            page.classes(metric::ROUTE_RESPONSES.name, label, meter, |meter| &meter.responses);
        }
        page.family(&metric::ROUTE_GRPC);
        for (name, meter) in &busy {
            let label = ("route", name.as_str());
            page.calls(metric::ROUTE_GRPC.name, label, meter, |meter| &meter.calls);
        }
        page.family(&metric::ROUTE_DURATION);
        for (name, meter) in &busy {
            let label = ("route", name.as_str());
            page.histogram(metric::ROUTE_DURATION.name, &[label], meter, |meter| &meter.duration);
        }
        page.family(&metric::ROUTE_RECEIVED);
        for (name, meter) in &busy {
            let bytes = meter.sum(|meter| meter.received_bytes.value());
            page.sample(metric::ROUTE_RECEIVED.name, &[("route", name)], bytes);
        }
        page.family(&metric::ROUTE_SENT);
        for (name, meter) in &busy {
            let bytes = meter.sum(|meter| meter.sent_bytes.value());
            page.sample(metric::ROUTE_SENT.name, &[("route", name)], bytes);
        }
        type Read = fn(&RouteMeter) -> u64;
        let copies: [(&Metric, Read); 3] = [
            (&metric::ROUTE_MIRRORED, |meter| meter.mirrored.value()),
            (&metric::ROUTE_MIRROR_SKIPPED, |meter| meter.mirror_skipped.value()),
            (&metric::ROUTE_MIRROR_FAILURES, |meter| meter.mirror_failures.value()),
        ];
        for (metric, read) in copies {
            page.family(metric);
            let copied = |meter: &RouteMeter| meter.mirror_candidates.value();
            for (name, meter) in routes.iter().filter(|(_, meter)| meter.sum(copied) > 0) {
                page.sample(metric.name, &[("route", name)], meter.sum(read));
            }
        }
    }

    fn render_faults(&self, page: &mut Page<'_>) {
        page.family(&metric::FAULTS);
        for (side, label) in SIDES {
            for kind in kinds() {
                let count = self.faults().sum(|meter| meter.value(side, kind));
                let labels = [("side", label), ("reason", kind.reason())];
                page.sample(metric::FAULTS.name, &labels, count);
            }
        }
    }

    fn render_tallies(&self, page: &mut Page<'_>) {
        page.single(&metric::MEMORY_LIMIT, self.memory_limit.value());
        page.single(&metric::MEMORY_SHORT, self.memory_short.value());
        page.single(&metric::IDLE_CLOSED, self.idle_closed.value());
        page.single(&metric::DESCRIPTOR_SHORTAGES, self.descriptor_shortages.value());
        page.single(&metric::ACCESS_LOG_WRITTEN, self.access_log_written.value());
        page.single(&metric::ACCESS_LOG_DROPPED, self.access_log_dropped.value());
        page.family(&metric::RELOADS);
        for (result, tally) in [("ok", &self.reloads_ok), ("failed", &self.reloads_failed)] {
            page.sample(metric::RELOADS.name, &[("result", result)], tally.value());
        }
        page.family(&metric::UPGRADES);
        for (result, tally) in [("ok", &self.upgrades_ok), ("failed", &self.upgrades_failed)] {
            page.sample(metric::UPGRADES.name, &[("result", result)], tally.value());
        }
        page.single(&metric::PANICS, self.panics.value());
        page.single(&metric::DNS_FAILURES, self.dns_failures.value());
        page.single(&metric::LIST_FAILURES, self.list_failures.value());
        page.single(&metric::CERTIFICATE_FAILURES, self.certificate_failures.value());
        page.single(&metric::FILTER_FAILURES, self.filter_failures.value());
    }
}

fn render_process(process: &ProcessFacts, page: &mut Page<'_>) {
    page.single(&metric::PROCESS_START, Seconds::of(process.start));
    if let Some(cpu) = process.cpu {
        page.single(&metric::PROCESS_CPU, Seconds::of(cpu));
    }
    let gauges = [
        (&metric::PROCESS_RESIDENT, process.resident_bytes),
        (&metric::PROCESS_OPEN, process.open_fds),
        (&metric::PROCESS_MAX, process.max_fds),
    ];
    for (metric, value) in gauges {
        if let Some(value) = value {
            page.single(metric, value);
        }
    }
}

#[cfg(test)]
mod tests;
