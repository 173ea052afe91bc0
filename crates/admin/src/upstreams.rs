//! The upstreams with what is known of their servers.

use serde_json::{Value, json};
use sluice_control::{ShownPlace, ShownServer, ShownUpstream, Status};
use sluice_engine::ReportAnswer;

pub(crate) fn upstreams(status: &Status) -> ReportAnswer {
    let shown = status.shown();
    let list = shown.iter().flat_map(|shown| &shown.upstreams).map(upstream);
    crate::json::answer(&json!({ "upstreams": list.collect::<Value>() }))
}

fn upstream(upstream: &ShownUpstream) -> Value {
    let meter = &upstream.meter;
    let resolved = || upstream.servers.iter().flat_map(|server| &server.resolved);
    let failures: u64 =
        resolved().map(|place| place.meter.sum(|meter| meter.failures.value())).sum();
    json!({
        "name": upstream.name,
        "requests": meter.sum(|meter| meter.requests.value()),
        "failures": failures,
        "retries": meter.sum(|meter| meter.retries.value()),
        "active": meter.balance(|meter| meter.active.value()),
        "waiting": meter.balance(|meter| meter.waiting.value()),
        "idle": meter.balance(|meter| meter.idle.value()),
        "connects": meter.sum(|meter| meter.connects.value()),
        "connect_failures": meter.sum(|meter| meter.connect_failures.value()),
        "servers": upstream.servers.iter().map(server).collect::<Value>(),
    })
}

fn server(server: &ShownServer) -> Value {
    let resolved = server.resolved.iter().map(|ShownPlace { address, meter, state }| {
        json!({
            "address": address,
            "requests": meter.sum(|meter| meter.requests.value()),
            "failures": meter.sum(|meter| meter.failures.value()),
            "active": meter.balance(|meter| meter.active.value()),
            "available": state.is_available(),
            "out": state.reasons(),
        })
    });
    json!({
        "address": server.address,
        "weight": server.weight,
        "resolved": resolved.collect::<Value>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_meter::Meters;
    use sluice_net::Endpoint;
    use sluice_upstream::{Bar, ClusterState};

    #[test]
    fn servers_are_shown_as_written_with_their_addresses() {
        let meters = Meters::new(2);
        let meter = meters.server("api", "10.0.0.1:80");
        meter.worker(0).requests.add(2);
        meter.worker(1).requests.add(3);
        let place = Endpoint::Tcp("10.0.0.1:80".parse().unwrap());
        let state = ClusterState::default().server(&place, &meter);
        state.bar_because(Bar::Unhealthy, "status 500");
        let shown = ShownUpstream {
            name: "api".to_owned(),
            meter: meters.upstream("api"),
            servers: vec![ShownServer {
                address: "origin.test:80".to_owned(),
                weight: 4,
                resolved: vec![ShownPlace { address: place.to_string(), meter, state }],
            }],
        };
        let json = upstream(&shown);
        assert_eq!(json["name"], "api");
        let server = &json["servers"][0];
        assert_eq!((&server["address"], &server["weight"]), (&json!("origin.test:80"), &json!(4)));
        let expected = json!([{"address":"10.0.0.1:80","requests":5,"failures":0,"active":0,
            "available":false,"out":["unhealthy: status 500"]}]);
        assert_eq!(server["resolved"], expected);
    }
}
