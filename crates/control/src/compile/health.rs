//! Checks of servers as the threads know them.

use sluice_message::{GrpcStatus, GrpcStatuses};
use sluice_model::{
    Breaker, Ejection, Health, HealthRequest, InitialHealth, Panic as ModelPanic, Upstream,
};
use sluice_upstream::{
    BreakerRule, CheckRule, EjectionRule, HealthSettings, HttpProbe, Initial, Panic, Probe,
};

pub(super) fn health_settings(upstream: &Upstream) -> HealthSettings {
    let check = upstream.health.as_ref().map(|health| check_rule(health, upstream));
    let ejection = upstream.ejection.as_ref().map(ejection_rule);
    let panic = match upstream.panic {
        ModelPanic::Off => Panic::Never,
        ModelPanic::Below(share) => Panic::Below(share.0),
    };
    HealthSettings { check, ejection, panic }
}

fn ejection_rule(ejection: &Ejection) -> EjectionRule {
    EjectionRule {
        failures: ejection.failures.unwrap_or(0),
        share: ejection.share.map(|share| share.0),
        requests: ejection.requests,
        window: ejection.window,
        statuses: ejection.statuses.clone(),
        calls: ejection
            .calls
            .iter()
            .filter_map(|name| GrpcStatus::of_name(name))
            .fold(GrpcStatuses::default(), GrpcStatuses::with),
        time: ejection.time,
        max_time: ejection.max_time,
        limit: ejection.limit.0,
    }
}

pub(super) const fn breaker_rule(breaker: Breaker) -> BreakerRule {
    let Breaker { connections, pending, requests, retries } = breaker;
    BreakerRule { connections, pending, requests, retries }
}

fn check_rule(health: &Health, upstream: &Upstream) -> CheckRule {
    let probe = match &health.request {
        None => Probe::Tcp,
        Some(request) => Probe::Http(http_probe(request, upstream)),
    };
    CheckRule {
        probe,
        port: health.port,
        interval: health.interval,
        jitter: health.jitter.0,
        timeout: health.timeout,
        healthy: health.healthy,
        unhealthy: health.unhealthy,
        initial: match health.initial {
            InitialHealth::Healthy => Initial::Healthy,
            InitialHealth::Unhealthy => Initial::Unhealthy,
        },
    }
}

fn http_probe(request: &HealthRequest, upstream: &Upstream) -> HttpProbe {
    let host = request.host.as_ref().or(upstream.host.as_ref());
    HttpProbe {
        method: request.method.as_str().into(),
        target: request.path.as_str().into(),
        host: host.map(|host| host.as_str().into()),
        statuses: request.statuses.clone(),
        body: request.body.as_ref().map(|body| body.as_bytes().into()),
        service: request.service.as_deref().map(Into::into),
    }
}
