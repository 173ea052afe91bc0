//! Keys of an issuer that come, go, and cannot be had for a while.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sluice_acceptance::filtered::Filtered;
use sluice_acceptance::upstream;
use sluice_testkit::{Deadline, Origin, SigningKey, Switch, behaviour, jwks};

/// Longer than anything takes that the gateway does by the clock: half a minute at most.
const LONG: Duration = Duration::from_secs(50);

/// Between two questions about the same.
const PACE: Duration = Duration::from_millis(100);

/// A gateway that fetches its keys from `issuer`, anew after the shortest time there is if they are to be.
fn gate(issuer: &str, more: &str) -> Filtered {
    let filter = format!(
        "{}[filter.f.jwt]\njwks_url = \"http://id.example/keys\"\njwks_upstream = \"id\"\n{more}\n",
        upstream("id", issuer)
    );
    Filtered::start(&filter, &[])
}

/// A token that is good for longer than the test lasts.
fn token(key: &SigningKey) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    format!("Bearer {}", key.token(&format!(r#"{{"sub":"eva","exp":{}}}"#, now + 600)))
}

/// A key and what the issuer says of it alone.
fn key(name: &str) -> (String, String) {
    let key = SigningKey::generate("ES256", name);
    (token(&key), jwks(&[&key]))
}

/// Asks with this token until the status is that one.
fn until(gate: &Filtered, status: u16, token: &str) {
    let deadline = Deadline::after(LONG);
    let fields = [("Authorization", token)];
    loop {
        let told = gate.ask_http1(sluice_acceptance::filtered::Question {
            fields: &fields,
            ..Default::default()
        });
        if told.status == status {
            return;
        }
        assert!(deadline.remaining().is_some(), "still {}: {told:?}", told.status);
        // What is waited for comes with the clock alone.
        std::thread::sleep(PACE);
    }
}

/// Asks with this token, which is good, until so many attempts to fetch keys have failed.
fn until_failed(gate: &Filtered, attempts: u64, token: &str) {
    let deadline = Deadline::after(LONG);
    while gate.outcome("keys_failed") < attempts {
        gate.get(200, &[("Authorization", token)]);
        assert!(deadline.remaining().is_some(), "nobody fetches");
        std::thread::sleep(PACE);
    }
}

#[test]
fn keys_grow_old_and_tokens_of_a_key_that_is_gone_with_them() {
    let ((one, first), (two, second)) = (key("one"), key("two"));
    let switch = Switch::new(behaviour::fixed(200, &first));
    let issuer = Origin::start(switch.behaviour());
    let gate = gate(issuer.address(), "jwks_refresh = \"10s\"");
    gate.get(200, &[("Authorization", &one)]);
    gate.get(401, &[("Authorization", &two)]);
    switch.set(behaviour::fixed(200, &second));
    // Nobody comes with another token than one that is remembered.
    until(&gate, 401, &one);
    gate.get(200, &[("Authorization", &two)]);
    assert_eq!(issuer.requests().len(), 2);
    assert_eq!(gate.outcome("unknown_key"), 2 + 1);
    // What is no set of keys does not replace one.
    switch.set(behaviour::fixed(200, "<html>"));
    until_failed(&gate, 1, &two);
    gate.get(200, &[("Authorization", &two)]);
    gate.get(401, &[("Authorization", &one)]);
    let line = "no keys from /keys: it is no JSON object with a list `keys`; the last ones stay";
    gate.sluice.wait_for_line(line);
    assert_eq!(issuer.requests().len(), 3);
    gate.sluice.stop();
}

#[test]
fn a_key_that_nobody_knows_is_asked_for_and_not_too_often() {
    let ((one, first), (two, second)) = (key("one"), key("two"));
    let switch = Switch::new(behaviour::fixed(200, &first));
    let issuer = Origin::start(switch.behaviour());
    // They are not due for an hour.
    let gate = gate(issuer.address(), "");
    gate.get(200, &[("Authorization", &one)]);
    switch.set(behaviour::fixed(200, &second));
    gate.get(401, &[("Authorization", &two)]);
    assert_eq!(issuer.requests().len(), 1);
    until(&gate, 200, &two);
    assert_eq!(issuer.requests().len(), 2);
    gate.get(401, &[("Authorization", &one)]);
    let stranger = token(&SigningKey::generate("ES256", "three"));
    for _ in 0..10 {
        gate.get(401, &[("Authorization", &stranger)]);
    }
    assert_eq!(issuer.requests().len(), 2);
    gate.sluice.stop();
}

#[test]
fn the_last_keys_stay_while_the_issuer_is_gone() {
    let ((one, first), (two, second)) = (key("one"), key("two"));
    let issuer = Origin::start(behaviour::fixed(200, &first));
    let address = issuer.address().to_owned();
    let gate = gate(&address, "jwks_refresh = \"10s\"");
    gate.get(200, &[("Authorization", &one)]);
    drop(issuer);
    until_failed(&gate, 1, &one);
    gate.get(200, &[("Authorization", &one)]);
    let line = gate.sluice.wait_for_line("no keys from /keys: ");
    assert!(line.contains("; the last ones stay"), "{line}");
    // It comes back with another key.
    let _issuer = Origin::start_at(&address, behaviour::fixed(200, &second));
    until(&gate, 200, &two);
    gate.get(401, &[("Authorization", &one)]);
    gate.sluice.stop();
}
