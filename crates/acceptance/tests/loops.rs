//! Gateways that lead back to themselves.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::sync::Mutex;

use sluice_acceptance::metric;
use sluice_testkit::{Exchange, Origin, Response, Sluice, ask, unclaimed_port};

/// What `sluice_faults_total` counts.
const COUNTED: &str = "sluice_faults_total{side=\"internal\",reason=\"loop_detected\"}";

/// A gateway with this address and routes.
fn gateway(address: &str, rest: &str) -> Sluice {
    Sluice::start(&format!(
        "[[listener]]\nname = \"web\"\naddress = \"{address}\"\n[admin]\naddress = \"127.0.0.1:0\"\n\
         [log]\naccess = \"off\"\n{rest}"
    ))
}

fn own_address() -> String {
    format!("127.0.0.1:{}", unclaimed_port())
}

fn get(address: &str, fields: &str) -> Response {
    ask(address, &format!("GET / HTTP/1.1\r\nHost: a.example\r\n{fields}Connection: close\r\n\r\n"))
}

/// It answers with 508, says so and counts.
#[track_caller]
fn breaks(sluice: &Sluice, what: &str) {
    let response = get(&sluice.address("web"), "");
    assert_eq!(response.status, 508, "{what}: {response:?}");
    let line = sluice.wait_for_line("loop_detected");
    assert!(line.contains("upstream") || line.contains("listener"), "{what}: {line}");
    assert_eq!(metric(&sluice.admin(), COUNTED), 1, "{what}");
}

#[test]
fn a_gateway_that_leads_to_itself_answers_508() {
    let rest = |address: &str| {
        let filters =
            |filters: &str| format!("[[route]]\nproxy = \"{address}\"\nfilters = [{filters}]\n");
        [
            ("plain", format!("[[route]]\nproxy = \"{address}\"\n")),
            // Whatever filters do to `Via`, and whatever they wait for.
            ("via removed", filters("{ headers = { request = { remove = [\"via\"] } } }")),
            ("cached", filters("{ cache = {} }")),
            ("rewritten", filters("{ rewrite = { strip_prefix = \"/x\" } }")),
        ]
    };
    for kind in 0..4 {
        let address = own_address();
        let (what, routes) = rest(&address)[kind].clone();
        let sluice = gateway(&address, &routes);
        breaks(&sluice, what);
        let line = sluice.wait_for_line("loop_detected");
        assert!(line.contains(&address), "it names the upstream: {line}");
        sluice.stop();
    }
}

#[test]
fn questions_of_filters_go_round_no_more() {
    let (address, front) = (own_address(), own_address());
    let rest = format!(
        "[[route]]\nproxy = \"{front}\"\nfilters = [{{ external_auth = {{ upstream = \"{address}\" }} }}]\n"
    );
    let sluice = gateway(&address, &rest);
    let response = get(&sluice.address("web"), "");
    assert!(matches!(response.status, 403 | 503 | 508), "{response:?}");
    sluice.wait_for_line("loop_detected");
    assert_eq!(metric(&sluice.admin(), COUNTED), 1);
    sluice.stop();
}

#[test]
fn two_gateways_that_lead_to_each_other_answer_508() {
    let (here, there) = (own_address(), own_address());
    let other = gateway(&there, &format!("[[route]]\nproxy = \"{here}\"\n"));
    let sluice = gateway(&here, &format!("[[route]]\nproxy = \"{there}\"\n"));
    breaks(&sluice, "through another one");
    assert_eq!(metric(&other.admin(), COUNTED), 0);
    sluice.stop();
    other.stop();
}

#[test]
fn gateways_in_a_chain_are_not_taken_for_each_other() {
    // Ten gateways, each a process of its own, are no loop; neither are listeners that lead to each other.
    let vias = Mutex::new(Vec::new());
    let vias: &'static Mutex<Vec<String>> = Box::leak(Box::new(vias));
    let origin = Origin::start(move |exchange: &mut Exchange| {
        let all: Vec<String> = exchange.head().fields.all("via").map(str::to_owned).collect();
        *vias.lock().unwrap() = all;
        exchange.answer(200, &[], "")
    });
    let mut gateways = Vec::new();
    let mut next = origin.address().to_owned();
    for _ in 0..5 {
        let sluice = gateway("127.0.0.1:0", &format!("[[route]]\nproxy = \"{next}\"\n"));
        next = sluice.address("web");
        gateways.push(sluice);
    }
    assert_eq!(get(&next, "").status, 200);
    let mut seen = vias.lock().unwrap().clone();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 5, "each has a name of its own: {seen:?}");
    // Whatever others write is not ours, however often.
    let forged = "Via: 1.1 sluice, 1.1 sluice-0123456789ab, 1.1 fred\r\n".repeat(9);
    assert_eq!(get(&next, &forged).status, 200);
    // An origin that asks the gateway in front of it sends what it got.
    let own: String = seen.iter().map(|via| format!("Via: {via}\r\n")).collect();
    assert_eq!(get(&next, &own.repeat(3)).status, 200);
    assert_eq!(get(&next, &own.repeat(4)).status, 508);
    for sluice in gateways {
        sluice.stop();
    }
}
