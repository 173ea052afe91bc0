//! Tests of the way from a text to what runs.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sluice_cache::Claim;
use sluice_meter::Meters;
use sluice_model::{Format, Model, ServerAddress, Upstream};
use sluice_net::tls::{ClientSettings, TlsClient, Trust};
use sluice_net::{Binding, Endpoint, LogCounts};
use sluice_upstream::{ClusterPlan, Role};

use crate::compile::{Prepared, PreparedAction, Shelf, cluster_plan, prepare};
use crate::estate::{Estate, Opening};
use crate::flaw::Flaw;
use crate::heritage::Heritage;
use crate::places::{Place, questions};
use crate::{ConfigError, Document, check};

fn document(text: &str) -> Document {
    Document { name: "a.toml".to_owned(), text: text.to_owned(), format: Format::Toml }
}

fn model(text: &str) -> Model {
    document(text).parse().unwrap_or_else(|error| panic!("{}", error.summary()))
}

fn prepared(model: &Model) -> Prepared {
    prepare(model, &Shelf::new(1, Claim::Look)).unwrap_or_else(|flaws| panic!("{flaws:?}"))
}

fn open(before: &Estate, text: &str) -> Result<Estate, Vec<Flaw>> {
    let model = model(text);
    let counts = Arc::new(LogCounts::default());
    let opening = Opening { workers: 2, log_counts: &counts, heritage: &Heritage::default() };
    before.open(&model, &prepared(&model), &opening).map(|opened| opened.estate)
}

const OFF: &str = "[admin]\naddress = \"off\"\n";

#[test]
fn listeners_share_a_table_unless_routes_tell_them_apart() {
    let listeners = "[[listener]]\nname = \"a\"\naddress = \":1\"\n[[listener]]\nname = \"b\"\n\
                     address = \":2\"\n[[listener]]\nname = \"c\"\naddress = \":3\"\n";
    let shared = "[[route]]\npath = \"/\"\nrespond = \"x\"\n";
    let own = "[[route]]\nlistener = [\"b\", \"c\"]\npath = \"/b\"\nrespond = \"x\"\n";
    type Groups = Vec<(Vec<usize>, Vec<usize>)>;
    let rows: [(String, Groups); 3] = [
        (listeners.to_owned(), vec![(vec![], vec![0, 1, 2])]),
        (format!("{listeners}{shared}"), vec![(vec![0], vec![0, 1, 2])]),
        (format!("{listeners}{own}{shared}"), vec![(vec![1], vec![0]), (vec![0, 1], vec![1, 2])]),
    ];
    for (text, expected) in rows {
        let tables = prepared(&model(&text)).tables;
        let got: Groups = tables.into_iter().map(|table| (table.routes, table.listeners)).collect();
        assert_eq!(got, expected, "{text}");
    }
}

#[test]
fn actions_follow_the_model() {
    let text = "[[listener]]\naddress = \":1\"\n[[route]]\nrespond = \"x\"\n[[route]]\npath = \"/r\"\n\
                redirect = \"https://{host}{path}\"\n[[route]]\npath = \"/p\"\nproxy = \"h.test:1\"\n\
                [[route]]\npath = \"/h\"\nhealth = true\n[[route]]\npath = \"/f\"\nfiles = \"/\"\n";
    let model = model(text);
    let actions = prepared(&model).actions;
    let kinds: Vec<&str> = actions
        .iter()
        .map(|action| match action {
            PreparedAction::Respond(_) => "respond",
            PreparedAction::Redirect(_) => "redirect",
            PreparedAction::Proxy(0) => "proxy",
            PreparedAction::Proxy(_) => "another upstream",
            PreparedAction::Handle(_) => "files",
            PreparedAction::Health => "health",
        })
        .collect();
    assert_eq!(kinds, ["respond", "redirect", "proxy", "health", "files"]);
    let upstreams: Vec<Cow<'_, Upstream>> = model.upstreams.iter().map(Cow::Borrowed).collect();
    let names: Vec<String> = questions(&upstreams).iter().map(ToString::to_string).collect();
    assert_eq!(names, ["h.test"]);
}

#[test]
fn everything_that_cannot_be_had_is_told_at_once() {
    let text = "[log]\naccess = \"{nope}\"\n[[listener]]\naddress = \":1\"\n\
                [[route]]\nname = \"one\"\nrespond = { file = \"/nowhere/one\" }\n\
                [[route]]\nname = \"two\"\npath = \"/two\"\nrespond = { file = \"/\" }\n";
    let Err(ConfigError::Unusable(flaws)) = check(&document(text)) else { panic!("refused") };
    let said: Vec<String> = flaws.iter().map(Flaw::to_string).collect();
    assert_eq!(said.len(), 3, "{said:?}");
    let parts =
        [("route \"one\"", "/nowhere/one"), ("route \"two\"", "directory"), ("log.access", "nope")];
    for ((element, part), said) in parts.iter().zip(&said) {
        assert!(said.starts_with(element) && said.contains(part), "{said}");
    }
    let error = ConfigError::Unusable(flaws);
    assert_eq!(error.count(), 3);
    assert!(error.summary().ends_with("(and 2 more problems)"), "{}", error.summary());
}

#[test]
fn a_log_without_its_directory_is_refused_before_the_start() {
    let text = "[log]\naccess = \"json\"\nfile = \"/nowhere/at/all.log\"\n[[listener]]\naddress = \":1\"\n";
    let error = check(&document(text)).unwrap_err();
    assert!(error.summary().contains("log.file: there is no directory /nowhere/at"), "{error}");
}

/// The places of an address when every host name stands for these.
fn placed(server: &ServerAddress, addresses: &str) -> Vec<Place> {
    let place =
        |address| Place { endpoint: Endpoint::Tcp(address), weight: 1, role: Role::Primary };
    match server {
        ServerAddress::Ip(address) => vec![place(*address)],
        ServerAddress::Name { port, .. } => {
            let list = addresses.split(' ').flat_map(str::parse::<IpAddr>);
            list.map(|ip| place(SocketAddr::new(ip, *port))).collect()
        }
        other => panic!("{other} has no address here"),
    }
}

#[test]
fn a_plan_is_the_same_object_until_something_changes() {
    let meters = Meters::new(1);
    let text = |rest: &str| {
        format!(
            "[[listener]]\naddress = \":1\"\n[upstream.api]\n{rest}\n[[route]]\nproxy = \"api\"\n"
        )
    };
    let build = |rest: &str, address: &str, before| {
        let model = model(&text(rest));
        let places = |server: &ServerAddress| placed(server, address);
        cluster_plan(&model.upstreams[0], (&places, None), &meters, before)
    };
    let servers = "servers = [\"h.test:80\", { address = \"10.0.0.9:80\", weight = 3 }]";
    let first = build(servers, "10.0.0.1 10.0.0.2", None);
    let places: Vec<(String, u32)> =
        first.servers.iter().map(|it| (it.endpoint.to_string(), it.weight)).collect();
    let expected = [("10.0.0.1:80", 1), ("10.0.0.2:80", 1), ("10.0.0.9:80", 3)];
    assert_eq!(places, expected.map(|(place, weight)| (place.to_owned(), weight)));
    let again = build(servers, "10.0.0.1 10.0.0.2", Some(&first));
    assert!(Arc::ptr_eq(&first, &again));
    let rows = [
        (servers, "10.0.0.1"),
        (&servers.replace("= 3", "= 4"), "10.0.0.1 10.0.0.2"),
        (&format!("{servers}\nretry = {{ attempts = 7 }}"), "10.0.0.1 10.0.0.2"),
        (&format!("{servers}\nlimit = {{ connections = 7 }}"), "10.0.0.1 10.0.0.2"),
    ];
    for (rest, address) in rows {
        let other = build(rest, address, Some(&first));
        assert!(!Arc::ptr_eq(&first, &other), "{rest} {address}");
        assert!(Arc::ptr_eq(&first.meter, &other.meter), "counters stay");
        assert!(Arc::ptr_eq(&first.servers[0].meter, &other.servers[0].meter));
    }
}

#[test]
fn encrypted_servers_are_reached_by_their_names() {
    let meters = Meters::new(1);
    let client = || TlsClient::new("x.invalid", &ClientSettings::new(Trust::Anything)).unwrap();
    let (one, other) = (client(), client());
    let build = |more: &str, tls, before| {
        let text = format!(
            "[[listener]]\naddress = \":1\"\n[upstream.api]\n\
             servers = [\"https://h.test\", \"https://10.0.0.9\"]\n{more}\n[[route]]\nproxy = \"api\"\n"
        );
        let places = |server: &ServerAddress| placed(server, "10.0.0.1");
        cluster_plan(&model(&text).upstreams[0], (&places, tls), &meters, before)
    };
    let names = |plan: &Arc<ClusterPlan>, names: [&str; 2]| {
        let named = names.map(|name| one.with_name(name).unwrap());
        plan.servers.iter().zip(named).all(|(server, named)| server.tls == Some(named))
    };
    let first = build("", Some(&one), None);
    assert!(names(&first, ["h.test", "10.0.0.9"]));
    assert!(Arc::ptr_eq(&first, &build("", Some(&one), Some(&first))));
    // Other certificates, another name, no encryption.
    let renewed = build("", Some(&other), Some(&first));
    assert!(!Arc::ptr_eq(&first, &renewed) && !names(&renewed, ["h.test", "10.0.0.9"]));
    assert!(names(&build("tls.server_name = \"a.test\"", Some(&one), None), ["a.test", "a.test"]));
    assert_eq!(build("", None, Some(&first)).servers[0].tls, None);
}

#[test]
fn a_place_named_twice_is_one_server_with_both_weights() {
    let text = "[[listener]]\naddress = \":1\"\n[upstream.api]\n\
                servers = [\"h.test:80\", { address = \"10.0.0.1:80\", weight = 3 }]\n[[route]]\nproxy = \"api\"\n";
    let places = |server: &ServerAddress| placed(server, "10.0.0.1");
    let plan = cluster_plan(&model(text).upstreams[0], (&places, None), &Meters::new(1), None);
    assert_eq!(plan.servers.len(), 1);
    assert_eq!(plan.servers[0].weight, 4);
}

#[test]
fn a_limit_of_a_server_goes_before_that_of_its_upstream() {
    let meters = Meters::new(1);
    let build = |limit: &str, before| {
        let text = format!(
            "[[listener]]\naddress = \":1\"\n[upstream.api]\n{limit}\nservers = [\"h.test:80\", \
             {{ address = \"10.0.0.9:80\", max_connections = 3 }}, \"10.0.0.9:80\"]\n[[route]]\nproxy = \"api\"\n"
        );
        let places = |server: &ServerAddress| placed(server, "10.0.0.1 10.0.0.2");
        cluster_plan(&model(&text).upstreams[0], (&places, None), &meters, before)
    };
    let limits = |plan: &Arc<ClusterPlan>| -> Vec<Option<u32>> {
        plan.servers.iter().map(|it| it.limit.as_ref().map(|limit| limit.most())).collect()
    };
    let first = build("limit = { connections = 8, queue = 5 }", None);
    // Named twice, the lower limit counts.
    assert_eq!(limits(&first), [Some(8), Some(8), Some(3)]);
    assert_eq!(first.servers[0].limit.as_ref().unwrap().places(), 5);
    let same = build("limit = { connections = 8, queue = 5 }", Some(&first));
    assert!(Arc::ptr_eq(&first, &same));
    let second = build("limit = { connections = 9 }", Some(&first));
    assert_eq!(limits(&second), [Some(9), Some(9), Some(3)]);
    let state = |plan: &Arc<ClusterPlan>| Arc::as_ptr(plan.servers[0].limit.as_ref().unwrap());
    assert_eq!(state(&first), state(&second), "what is under way counts on");
    assert_eq!(limits(&build("", Some(&second))), [None, None, Some(3)]);
}

#[test]
fn sockets_are_carried_over_by_address() {
    let text = |name: &str, address: &str| {
        format!("{OFF}[[listener]]\nname = \"{name}\"\naddress = \"{address}\"\n")
    };
    let first = open(&Estate::default(), &text("web", "127.0.0.1:0")).unwrap();
    let binding = |estate: &Estate, name: &str, address: &str| -> Arc<Binding> {
        let endpoint = sluice_net::Endpoint::Tcp(address.parse().unwrap());
        Arc::clone(&estate.listener(&endpoint, name).unwrap().binding)
    };
    let web = binding(&first, "web", "127.0.0.1:0");
    // The same address and name: the same sockets. Another name with a free port: another port.
    let same = open(&first, &text("web", "127.0.0.1:0")).unwrap();
    assert!(
        Arc::ptr_eq(&web, &binding(&same, "web", "127.0.0.1:0")) && same.holds(Arc::as_ptr(&web))
    );
    let other = open(&first, &text("more", "127.0.0.1:0")).unwrap();
    assert!(!other.holds(Arc::as_ptr(&web)));
    // With a port of its own a listener may change its name and keep its sockets.
    let fixed = binding(&other, "more", "127.0.0.1:0").endpoint().to_string();
    drop(other);
    let named = open(&first, &text("one", &fixed)).unwrap();
    let renamed = open(&named, &text("two", &fixed)).unwrap();
    assert!(Arc::ptr_eq(&binding(&named, "one", &fixed), &binding(&renamed, "two", &fixed)));
}

#[test]
fn what_was_opened_in_vain_is_closed_again() {
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap();
    let free = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let text = format!(
        "{OFF}[[listener]]\nname = \"good\"\naddress = \"{free}\"\n[[listener]]\nname = \"bad\"\n\
         address = \"{taken}\"\n"
    );
    let flaws = open(&Estate::default(), &text).unwrap_err();
    assert_eq!(flaws.len(), 1);
    assert!(flaws[0].to_string().starts_with("listener \"bad\": cannot listen on"), "{flaws:?}");
    std::net::TcpListener::bind(free).unwrap();
}

#[test]
fn the_default_admin_address_may_be_taken_a_chosen_one_not() {
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap();
    let listener = "[[listener]]\naddress = \"127.0.0.1:0\"\n";
    let mut model = model(&format!("[admin]\naddress = \"{address}\"\n{listener}"));
    let counts = Arc::new(LogCounts::default());
    let opening = Opening { workers: 1, log_counts: &counts, heritage: &Heritage::default() };
    let flaws = Estate::default().open(&model, &prepared(&model), &opening).unwrap_err();
    assert!(flaws[0].to_string().starts_with("admin.address: cannot listen on"), "{flaws:?}");
    model.admin.origin = sluice_model::Origin::Default;
    let opened = Estate::default().open(&model, &prepared(&model), &opening).unwrap();
    assert!(opened.estate.admin().is_none());
    assert!(opened.warnings[0].contains("going on without"), "{:?}", opened.warnings);
}
