//! Servers that SRV records name: followed by their time to live, with weights and priorities.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use sluice_acceptance::{config, eventually, metric};
use sluice_testkit::{NameServer, Origin, Resolution, Service, Sluice, behaviour, get};

const NAME: &str = "_http._tcp.api.test";

fn through(names: &NameServer, rest: &str) -> String {
    let resolver = format!(
        "[resolver]\nservers = [\"{}\"]\ntimeout = \"500ms\"\nmin_ttl = \"100ms\"\n",
        names.address()
    );
    let upstream = format!("[upstream.api]\nservers = \"srv:{NAME}\"\n{rest}\n");
    let route = "[[route]]\npath = \"/\"\nproxy = \"api\"\n";
    format!("workers = 1\n{}", config(&format!("{resolver}\n{upstream}\n{route}")))
}

fn origin(text: &str) -> (Origin, u16) {
    let origin = Origin::start(behaviour::fixed(200, text));
    let port = origin.address().rsplit(':').next().unwrap().parse().unwrap();
    (origin, port)
}

fn record(priority: u16, weight: u16, port: u16, target: &str) -> Service {
    Service { priority, weight, port, target: target.to_owned(), along: None }
}

fn local(ttl: u32) -> Resolution {
    Resolution::Addresses(vec!["127.0.0.1".parse().unwrap()], ttl)
}

/// How many of so many answers each text has.
fn share(web: &str, requests: usize, text: &str) -> usize {
    (0..requests).filter(|_| get(web, "/").text() == text).count()
}

#[test]
fn ports_and_weights_come_from_the_records() {
    let names = NameServer::start();
    let ((_one, a), (_two, b)) = (origin("one"), origin("two"));
    names.set("a.test", local(60));
    names.set(
        NAME,
        Resolution::Service(vec![record(1, 30, a, "a.test"), record(1, 10, b, "a.test")], 0),
    );
    let sluice = Sluice::start(&through(&names, ""));
    let web = sluice.address("web");
    assert_eq!(share(&web, 40, "one"), 30);
    let page = get(&sluice.admin(), "/upstreams").text();
    assert!(
        page.contains(&format!("\"srv:{NAME}\"")) && page.contains(&format!("\"127.0.0.1:{b}\""))
    );
    // Other weights, no other servers.
    let mark = sluice.words().mark();
    names.set(
        NAME,
        Resolution::Service(vec![record(1, 0, a, "a.test"), record(1, 0, b, "a.test")], 0),
    );
    assert!(sluice.words().wait_after(mark, "weight 0").is_some(), "{:?}", sluice.stderr());
    assert!(eventually(|| share(&web, 10, "one") == 5), "no selection to do: all are equal");
    // The host was good for a minute: it was asked for once.
    let asked =
        names.queries().iter().filter(|(name, kind)| name == "a.test" && *kind == 1).count();
    assert_eq!(asked, 1, "{:?}", names.queries());
    sluice.stop();
}

#[test]
fn servers_of_a_higher_priority_number_wait() {
    let names = NameServer::start();
    let ((_one, a), (_two, b)) = (origin("one"), origin("two"));
    names.set("a.test", local(60));
    let both = vec![record(10, 1, a, "a.test"), record(20, 100, b, "a.test")];
    names.set(NAME, Resolution::Service(both, 0));
    let sluice = Sluice::start(&through(&names, ""));
    let web = sluice.address("web");
    assert_eq!(share(&web, 10, "one"), 10);
    let mark = sluice.words().mark();
    names.set(NAME, Resolution::Service(vec![record(20, 100, b, "a.test")], 0));
    assert!(sluice.words().wait_after(mark, "resolves to").is_some(), "{:?}", sluice.stderr());
    assert!(eventually(|| get(&web, "/").text() == "two"));
    sluice.stop();
}

#[test]
fn hosts_are_followed_by_their_own_time_to_live() {
    let names = NameServer::start();
    let one = Origin::start(behaviour::fixed(200, "one"));
    let port: u16 = one.address().rsplit(':').next().unwrap().parse().unwrap();
    let _two = Origin::start_at(&format!("127.0.0.2:{port}"), behaviour::fixed(200, "two"));
    names.set("a.test", local(0));
    names.set(NAME, Resolution::Service(vec![record(1, 1, port, "a.test")], 3600));
    let sluice = Sluice::start(&through(&names, ""));
    let web = sluice.address("web");
    assert_eq!(get(&web, "/").text(), "one");
    names.set("a.test", Resolution::Addresses(vec!["127.0.0.2".parse().unwrap()], 0));
    assert!(eventually(|| get(&web, "/").text() == "two"));
    let asked = names.queries().iter().filter(|(name, _)| name == NAME).count();
    assert_eq!(asked, 1, "the records are good for an hour: {:?}", names.queries());
    sluice.stop();
}

#[test]
fn addresses_that_come_along_are_used_without_asking() {
    let names = NameServer::start();
    let (_one, port) = origin("one");
    let along = Some(("127.0.0.1".parse().unwrap(), 3600));
    let record = Service { along, ..record(1, 1, port, "unknown.test") };
    names.set(NAME, Resolution::Service(vec![record], 3600));
    let sluice = Sluice::start(&through(&names, ""));
    assert_eq!(get(&sluice.address("web"), "/").text(), "one");
    assert!(names.queries().iter().all(|(name, _)| name == NAME), "{:?}", names.queries());
    sluice.stop();
}

#[test]
fn an_alias_of_a_service_is_followed() {
    let names = NameServer::start();
    let (_one, port) = origin("one");
    names.set("a.test", local(60));
    let list = vec![record(1, 1, port, "a.test")];
    names.set(NAME, Resolution::ServiceAlias("_http._tcp.other.test".to_owned(), list.clone(), 60));
    names.set("_http._tcp.other.test", Resolution::Service(list, 60));
    let sluice = Sluice::start(&through(&names, ""));
    assert_eq!(get(&sluice.address("web"), "/").text(), "one");
    sluice.stop();
}

#[test]
fn a_failure_keeps_the_last_good_servers() {
    let names = NameServer::start();
    let (_one, port) = origin("one");
    names.set("a.test", local(0));
    let good = Resolution::Service(vec![record(1, 1, port, "a.test")], 0);
    names.set(NAME, good.clone());
    let sluice = Sluice::start(&through(&names, ""));
    let web = sluice.address("web");
    let gone = Resolution::Service(vec![record(0, 0, 1, ".")], 0);
    for (trouble, word) in [(Resolution::Failure, "cannot resolve"), (gone, "is not available")] {
        let mark = sluice.words().mark();
        names.set(NAME, trouble);
        let said = sluice.words().wait_after(mark, word);
        assert!(
            said.is_some_and(|it| it.contains("last known servers stay")),
            "{:?}",
            sluice.stderr()
        );
        assert_eq!(get(&web, "/").text(), "one");
        let mark = sluice.words().mark();
        names.set(NAME, good.clone());
        assert!(sluice.words().wait_after(mark, &format!("srv:{NAME} resolves to")).is_some());
    }
    // A host of it that fails is told apart, and its addresses stay as well.
    let mark = sluice.words().mark();
    names.set("a.test", Resolution::Failure);
    let told = format!("cannot resolve a.test (a server of srv:{NAME})");
    assert!(sluice.words().wait_after(mark, &told).is_some(), "{:?}", sluice.stderr());
    assert_eq!(get(&web, "/").text(), "one");
    assert!(metric(&sluice.admin(), "sluice_dns_failures_total") >= 3);
    let warned = sluice.stderr().iter().filter(|line| line.contains("a.test (a server")).count();
    assert_eq!(warned, 1, "{:?}", sluice.stderr());
    sluice.stop();
}

#[test]
fn a_start_without_an_answer_is_a_start_all_the_same() {
    let names = NameServer::start();
    let (_one, port) = origin("one");
    names.set("a.test", local(60));
    let sluice = Sluice::start(&through(&names, ""));
    let web = sluice.address("web");
    assert_eq!(get(&web, "/").status, 503);
    sluice.wait_for_line("there is no such name");
    names.set(NAME, Resolution::Service(vec![record(1, 1, port, "a.test")], 0));
    assert!(eventually(|| get(&web, "/").status == 200));
    sluice.stop();
}
