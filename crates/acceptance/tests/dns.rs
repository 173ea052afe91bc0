//! Origins given by name: resolved at the start, and again when answers grow old.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::net::IpAddr;

use sluice_acceptance::{config, eventually};
use sluice_testkit::{NameServer, Origin, Resolution, Sluice, behaviour, get};

fn addresses(list: &[&str]) -> Resolution {
    let list: Vec<IpAddr> = list.iter().map(|text| text.parse().unwrap()).collect();
    Resolution::Addresses(list, 0)
}

fn through(names: &NameServer, host: &str, port: &str) -> String {
    let resolver = format!(
        "[resolver]\nservers = [\"{}\"]\ntimeout = \"500ms\"\nmin_ttl = \"100ms\"\n",
        names.address()
    );
    let upstream = format!("[upstream.api]\nservers = \"{host}:{port}\"\n");
    config(&format!("{resolver}\n{upstream}\n[[route]]\npath = \"/\"\nproxy = \"api\"\n"))
}

/// Two origins at one port of two addresses.
fn origins() -> (Origin, Origin, String) {
    let one = Origin::start(behaviour::fixed(200, "one"));
    let port = one.address().rsplit(':').next().unwrap().to_owned();
    let two = Origin::start_at(&format!("127.0.0.2:{port}"), behaviour::fixed(200, "two"));
    (one, two, port)
}

#[test]
fn a_changed_answer_changes_the_servers() {
    let names = NameServer::start();
    let (_one, _two, port) = origins();
    names.set("origin.test", addresses(&["127.0.0.1"]));
    let sluice = Sluice::start(&through(&names, "origin.test", &port));
    let web = sluice.address("web");
    assert_eq!(get(&web, "/").text(), "one");
    names.set("origin.test", addresses(&["127.0.0.2"]));
    sluice.wait_for_line("origin.test resolves to 127.0.0.2");
    let shown = sluice_testkit::Deadline::patient();
    while get(&web, "/").text() != "two" {
        assert!(shown.remaining().is_some());
    }
    // Workers have the new servers before the page tells of them.
    let page = || get(&sluice.admin(), "/upstreams").text();
    let shown = eventually(|| page().contains(&format!("\"127.0.0.2:{port}\"")));
    let page = page();
    assert!(shown && page.contains(&format!("\"origin.test:{port}\"")), "{page}");
    assert!(!page.contains(&format!("\"127.0.0.1:{port}\"")), "{page}");
    sluice.stop();
}

#[test]
fn every_address_of_a_name_is_a_server() {
    let names = NameServer::start();
    let (_one, _two, port) = origins();
    names.set(
        "origin.test",
        Resolution::Alias(
            "other.test".to_owned(),
            vec!["127.0.0.2".parse().unwrap(), "127.0.0.1".parse().unwrap()],
            1,
        ),
    );
    let sluice = Sluice::start(&through(&names, "origin.test", &port));
    let mut answers: Vec<String> =
        (0..8).map(|_| get(&sluice.address("web"), "/").text()).collect();
    answers.sort();
    answers.dedup();
    assert_eq!(answers, ["one", "two"]);
    sluice.stop();
}

#[test]
fn a_failure_keeps_the_last_good_answer() {
    let names = NameServer::start();
    let (_one, _two, port) = origins();
    names.set("origin.test", addresses(&["127.0.0.1"]));
    let sluice = Sluice::start(&through(&names, "origin.test", &port));
    names.set("origin.test", Resolution::Failure);
    sluice.wait_for_line("cannot resolve origin.test");
    assert_eq!(get(&sluice.address("web"), "/").text(), "one");
    let metrics = get(&sluice.admin(), "/metrics").text();
    assert!(!metrics.contains("sluice_dns_failures_total 0"), "{metrics}");
    names.set("origin.test", addresses(&["127.0.0.1"]));
    sluice.wait_for_line("origin.test resolves to 127.0.0.1");
    let warned = sluice.stderr().iter().filter(|line| line.contains("cannot resolve")).count();
    assert_eq!(warned, 1, "{:?}", sluice.stderr());
    sluice.stop();
}

#[test]
fn a_start_without_an_answer_is_a_start_all_the_same() {
    for state in [Resolution::Failure, Resolution::Silence] {
        let names = NameServer::start();
        let (_one, _two, port) = origins();
        names.set("origin.test", state.clone());
        let sluice = Sluice::start(&through(&names, "origin.test", &port));
        let web = sluice.address("web");
        assert_eq!(get(&web, "/").status, 503, "{state:?}");
        sluice.wait_for_line("cannot resolve origin.test");
        names.set("origin.test", addresses(&["127.0.0.1"]));
        sluice.wait_for_line("origin.test resolves to 127.0.0.1");
        let deadline = sluice_testkit::Deadline::patient();
        while get(&web, "/").status != 200 {
            assert!(deadline.remaining().is_some());
        }
        sluice.stop();
    }
}

#[test]
fn localhost_needs_no_name_server() {
    let names = NameServer::start();
    let (_one, _two, port) = origins();
    let sluice = Sluice::start(&through(&names, "localhost", &port));
    for _ in 0..4 {
        assert_eq!(get(&sluice.address("web"), "/").text(), "one");
    }
    assert!(names.queries().is_empty(), "{:?}", names.queries());
    sluice.stop();
}

#[test]
fn a_reload_waits_for_the_names_it_brings() {
    let names = NameServer::start();
    let (_one, _two, port) = origins();
    names.set("one.test", addresses(&["127.0.0.1"]));
    names.set("two.test", addresses(&["127.0.0.2"]));
    let sluice = Sluice::start(&through(&names, "one.test", &port));
    let said = sluice.reload(&through(&names, "two.test", &port));
    assert!(said.starts_with("reloaded"), "{said}");
    assert_eq!(get(&sluice.address("web"), "/").text(), "two");
    sluice.stop();
}
