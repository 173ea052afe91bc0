//! What is counted for upstreams and their servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::page::Page;
use crate::fault::kinds;
use crate::meters::locked;
use crate::metric::{self, Metric};
use crate::{Meters, PerWorker, ServerMeter, TunnelMeter, UpstreamMeter};

impl Meters {
    pub(super) fn render_upstreams(&self, page: &mut Page<'_>) {
        let upstreams = locked(&self.upstreams);
        let counter = |page: &mut Page<'_>, metric: &Metric, read: fn(&UpstreamMeter) -> u64| {
            page.family(metric);
            for (name, meter) in upstreams.iter() {
                page.sample(metric.name, &[("upstream", name)], meter.sum(read));
            }
        };
        let gauge = |page: &mut Page<'_>, metric: &Metric, read: fn(&UpstreamMeter) -> i64| {
            page.family(metric);
            for (name, meter) in upstreams.iter() {
                page.sample(metric.name, &[("upstream", name)], meter.balance(read));
            }
        };
        counter(page, &metric::UPSTREAM_REQUESTS, |meter| meter.requests.value());
        counter(page, &metric::UPSTREAM_RETRIES, |meter| meter.retries.value());
        counter(page, &metric::UPSTREAM_RETRIES_REFUSED, |meter| meter.retries_refused.value());
        counter(page, &metric::UPSTREAM_HEDGES, |meter| meter.hedges.value());
        counter(page, &metric::UPSTREAM_HEDGES_WON, |meter| meter.hedges_won.value());
        counter(page, &metric::UPSTREAM_CONNECTS, |meter| meter.connects.value());
        counter(page, &metric::UPSTREAM_CONNECT_FAILURES, |meter| meter.connect_failures.value());
        counter(page, &metric::UPSTREAM_REUSES, |meter| meter.reuses.value());
        page.family(&metric::UPSTREAM_FAILURES);
        for (name, meter) in upstreams.iter() {
            for kind in kinds() {
                let count = meter.sum(|meter| meter.failures.value(kind));
                let labels = [("upstream", name.as_str()), ("reason", kind.reason())];
                if count > 0 {
                    page.sample(metric::UPSTREAM_FAILURES.name, &labels, count);
                }
            }
        }
        page.family(&metric::UPSTREAM_RESPONSES);
        for (name, meter) in upstreams.iter() {
            let label = ("upstream", name.as_str());
            page.classes(metric::UPSTREAM_RESPONSES.name, label, meter, |meter| &meter.responses);
        }
        page.family(&metric::UPSTREAM_GRPC);
        for (name, meter) in upstreams.iter() {
            let label = ("upstream", name.as_str());
            page.calls(metric::UPSTREAM_GRPC.name, label, meter, |meter| &meter.calls);
        }
        page.family(&metric::UPSTREAM_DURATION);
        for (name, meter) in upstreams.iter() {
            let label = ("upstream", name.as_str());
            page.histogram(metric::UPSTREAM_DURATION.name, &[label], meter, |meter| {
                &meter.duration
            });
        }
        gauge(page, &metric::UPSTREAM_ACTIVE, |meter| meter.active.value());
        gauge(page, &metric::UPSTREAM_WAITING, |meter| meter.waiting.value());
        gauge(page, &metric::UPSTREAM_IDLE, |meter| meter.idle.value());
        render_tunnels(page, &upstreams);
        page.family(&metric::UPSTREAM_REFUSED);
        for (name, meter) in upstreams.iter() {
            let limits = [
                ("connections", meter.sum(|meter| meter.refused.connections.value())),
                ("pending", meter.sum(|meter| meter.refused.pending.value())),
                ("requests", meter.sum(|meter| meter.refused.requests.value())),
                ("retries", meter.sum(|meter| meter.refused.retries.value())),
            ];
            for (limit, count) in limits.into_iter().filter(|(_, count)| *count > 0) {
                let labels = [("upstream", name.as_str()), ("limit", limit)];
                page.sample(metric::UPSTREAM_REFUSED.name, &labels, count);
            }
        }
        gauge(page, &metric::UPSTREAM_PANIC, |meter| meter.panic.value());
        counter(page, &metric::UPSTREAM_RECEIVED, |meter| meter.received_bytes.value());
        counter(page, &metric::UPSTREAM_SENT, |meter| meter.sent_bytes.value());
    }

    pub(super) fn render_servers(&self, page: &mut Page<'_>) {
        let servers = locked(&self.servers);
        let counter = |page: &mut Page<'_>, metric: &Metric, read: fn(&ServerMeter) -> u64| {
            page.family(metric);
            for ((upstream, server), meter) in servers.iter() {
                let labels = [("upstream", upstream.as_str()), ("server", server.as_str())];
                page.sample(metric.name, &labels, meter.sum(read));
            }
        };
        counter(page, &metric::SERVER_REQUESTS, |meter| meter.requests.value());
        counter(page, &metric::SERVER_FAILURES, |meter| meter.failures.value());
        page.family(&metric::SERVER_ACTIVE);
        for ((upstream, server), meter) in servers.iter() {
            let labels = [("upstream", upstream.as_str()), ("server", server.as_str())];
            let active = meter.balance(|meter| meter.active.value());
            page.sample(metric::SERVER_ACTIVE.name, &labels, active);
        }
        page.family(&metric::SERVER_AVAILABLE);
        for ((upstream, server), meter) in servers.iter() {
            let labels = [("upstream", upstream.as_str()), ("server", server.as_str())];
            let available = i64::from(meter.balance(|meter| meter.bars.value()) == 0);
            page.sample(metric::SERVER_AVAILABLE.name, &labels, available);
        }
        // Most servers are not watched: their series would say nothing.
        let rare = |page: &mut Page<'_>,
                    metric: &Metric,
                    appears: fn(&ServerMeter) -> u64,
                    read: fn(&ServerMeter) -> u64| {
            page.family(metric);
            for ((upstream, server), meter) in servers.iter() {
                let labels = [("upstream", upstream.as_str()), ("server", server.as_str())];
                if meter.sum(appears) > 0 {
                    page.sample(metric.name, &labels, meter.sum(read));
                }
            }
        };
        let faulty: fn(&ServerMeter) -> u64 = |meter| meter.faulty.value();
        let ejections: fn(&ServerMeter) -> u64 = |meter| meter.ejections.value();
        let checks: fn(&ServerMeter) -> u64 = |meter| meter.checks.value();
        rare(page, &metric::SERVER_FAULTY, faulty, faulty);
        rare(page, &metric::SERVER_EJECTIONS, ejections, ejections);
        rare(page, &metric::SERVER_CHECKS, checks, checks);
        rare(page, &metric::SERVER_CHECK_FAILURES, checks, |meter| meter.check_failures.value());
    }
}

fn render_tunnels(
    page: &mut Page<'_>,
    upstreams: &BTreeMap<String, Arc<PerWorker<UpstreamMeter>>>,
) {
    type Find = fn(&UpstreamMeter) -> &TunnelMeter;
    let protocols: [(&str, Find); 2] =
        [("websocket", |meter| &meter.tunnels.websocket), ("other", |meter| &meter.tunnels.other)];
    for metric in [&metric::UPSTREAM_TUNNELS, &metric::UPSTREAM_TUNNELS_OPENED] {
        page.family(metric);
        for (name, meter) in upstreams {
            for (protocol, find) in protocols {
                let opened = meter.sum(|meter| find(meter).opened.value());
                let labels = [("upstream", name.as_str()), ("protocol", protocol)];
                if opened == 0 {
                    continue;
                }
                if metric.name == metric::UPSTREAM_TUNNELS.name {
                    let open = meter.balance(|meter| find(meter).open.value());
                    page.sample(metric.name, &labels, open);
                } else {
                    page.sample(metric.name, &labels, opened);
                }
            }
        }
    }
}
