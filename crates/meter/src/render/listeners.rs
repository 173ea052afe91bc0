//! What is counted for listeners.

use super::page::Page;
use crate::meters::locked;
use crate::metric::{self, Metric};
use crate::{
    Counter, HANDSHAKE_REASONS, HTTP2_REASONS, HandshakeMeter, ListenerMeter, Meters,
    ShownCertificate, TLS_VERSIONS,
};

impl Meters {
    pub(super) fn render_listeners(&self, page: &mut Page<'_>) {
        let listeners = locked(&self.listeners);
        let counter = |page: &mut Page<'_>, metric: &Metric, read: fn(&ListenerMeter) -> u64| {
            page.family(metric);
            for (name, meter) in listeners.iter() {
                page.sample(metric.name, &[("listener", name)], meter.sum(read));
            }
        };
        counter(page, &metric::LISTENER_ACCEPTED, |meter| meter.accepted.value());
        page.family(&metric::LISTENER_CONNECTIONS);
        for (name, meter) in listeners.iter() {
            let active = meter.balance(|meter| meter.active.value());
            page.sample(metric::LISTENER_CONNECTIONS.name, &[("listener", name)], active);
        }
        page.family(&metric::LISTENER_REJECTED);
        for (name, meter) in listeners.iter() {
            let limits = [
                ("listener", meter.sum(|meter| meter.rejected_listener_limit.value())),
                ("client", meter.sum(|meter| meter.rejected_client_limit.value())),
                ("memory", meter.sum(|meter| meter.rejected_memory.value())),
            ];
            for (limit, count) in limits {
                let labels = [("listener", name.as_str()), ("limit", limit)];
                page.sample(metric::LISTENER_REJECTED.name, &labels, count);
            }
        }
        page.family(&metric::LISTENER_DROPPED_HEADERS);
        for (name, meter) in listeners.iter() {
            let reasons = [
                ("ambiguous", meter.sum(|meter| meter.dropped_ambiguous.value())),
                ("lookalike", meter.sum(|meter| meter.dropped_lookalikes.value())),
                ("trailer", meter.sum(|meter| meter.dropped_trailers.value())),
            ];
            for (reason, count) in reasons.into_iter().filter(|(_, count)| *count > 0) {
                let labels = [("listener", name.as_str()), ("reason", reason)];
                page.sample(metric::LISTENER_DROPPED_HEADERS.name, &labels, count);
            }
        }
        counter(page, &metric::LISTENER_REQUESTS, |meter| meter.requests.value());
        page.family(&metric::LISTENER_HANDSHAKES);
        for (name, meter) in listeners.iter() {
            for (at, version) in TLS_VERSIONS.into_iter().enumerate() {
                let count = |of: fn(&HandshakeMeter) -> &[Counter; 2]| {
                    meter.sum(|meter| of(&meter.handshakes).get(at).map_or(0, Counter::value))
                };
                let counts = [("no", count(|it| &it.full)), ("yes", count(|it| &it.resumed))];
                for (resumed, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
                    let labels =
                        [("listener", name.as_str()), ("version", version), ("resumed", resumed)];
                    page.sample(metric::LISTENER_HANDSHAKES.name, &labels, count);
                }
            }
        }
        page.family(&metric::LISTENER_HANDSHAKE_FAILURES);
        for (name, meter) in listeners.iter() {
            for (at, reason) in HANDSHAKE_REASONS.into_iter().enumerate() {
                let count =
                    meter.sum(|meter| meter.handshakes.failed.get(at).map_or(0, Counter::value));
                if count > 0 {
                    let labels = [("listener", name.as_str()), ("reason", reason)];
                    page.sample(metric::LISTENER_HANDSHAKE_FAILURES.name, &labels, count);
                }
            }
        }
    }

    pub(super) fn render_scripts(&self, page: &mut Page<'_>) {
        page.family(&metric::LISTENER_SCRIPT_FAILURES);
        for (name, meter) in locked(&self.listeners).iter() {
            let count = meter.sum(|meter| meter.script_failures.value());
            if count > 0 {
                page.sample(metric::LISTENER_SCRIPT_FAILURES.name, &[("listener", name)], count);
            }
        }
    }

    pub(super) fn render_http2(&self, page: &mut Page<'_>) {
        page.family(&metric::LISTENER_HTTP2_ERRORS);
        for (name, meter) in locked(&self.listeners).iter() {
            for (at, reason) in HTTP2_REASONS.into_iter().enumerate() {
                let count = meter.sum(|meter| meter.http2.errors.get(at).map_or(0, Counter::value));
                if count > 0 {
                    let labels = [("listener", name.as_str()), ("reason", reason)];
                    page.sample(metric::LISTENER_HTTP2_ERRORS.name, &labels, count);
                }
            }
        }
    }

    pub(super) fn render_certificates(&self, page: &mut Page<'_>) {
        page.family(&metric::CERTIFICATE_EXPIRY);
        for ShownCertificate { listener, name, fingerprint, expiry } in
            locked(&self.certificates).iter()
        {
            let labels = [
                ("listener", listener.as_str()),
                ("name", name.as_str()),
                ("fingerprint", fingerprint.as_str()),
            ];
            page.sample(metric::CERTIFICATE_EXPIRY.name, &labels, expiry.as_secs());
        }
    }
}
