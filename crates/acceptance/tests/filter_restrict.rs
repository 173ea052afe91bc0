//! Filters that refuse requests by where they come from: address, program, page, place.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::fmt::Write as _;

use sluice_acceptance::filtered::Filtered;
use sluice_testkit::{PlaceOf, Scratch, place_file, run};

/// Trusted to say who the client is: the test itself.
const TRUSTED: &str = "trusted_proxies = [\"127.0.0.1\"]\n";

fn from(gate: &Filtered, client: &str, status: u16) {
    gate.get(status, &[("X-Forwarded-For", client)]);
}

#[test]
fn ip_example_of_its_page() {
    let gate = Filtered::of_page("ip", &[], |example| format!("{TRUSTED}{example}"));
    gate.get(200, &[]);
    for (client, status) in
        [("10.1.2.3", 200), ("10.66.0.1", 403), ("192.0.2.1", 403), ("2001:db8::1", 200)]
    {
        from(&gate, client, status);
    }
    gate.sluice.stop();
}

#[test]
fn an_address_in_a_header_opens_nothing() {
    let gate = Filtered::start("[filter.f.ip]\nallow = [\"10.0.0.0/8\"]\n", &[]);
    for name in ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Client-IP", "True-Client-IP"] {
        let value = if name == "Forwarded" { "for=10.0.0.1" } else { "10.0.0.1" };
        let told = gate.get(403, &[(name, value)]);
        assert!(told[0].text.contains("address not allowed"), "{told:?}");
    }
    assert_eq!(gate.origin.requests().len(), 0);
    assert_eq!((gate.outcome("passed"), gate.outcome("refused")), (0, 10));
    gate.sluice.stop();
}

#[test]
fn long_lists_come_from_files() {
    let mut list = String::from("# blocked\n127.0.0.1 # ourselves\n");
    for at in 0..100_000_u32 {
        let _ = writeln!(list, "{}/24", std::net::Ipv4Addr::from_bits(at << 9));
    }
    let filter = "[filter.f.ip]\ndeny_files = [\"{files}/list\"]\nstatus = 404\n";
    let gate = Filtered::start(filter, &[("list", &list)]);
    gate.get(404, &[]);
    // Another content of the same file counts with the next reload.
    gate.files.write("list", "10.0.0.0/8\n");
    let config = std::fs::read_to_string(gate.sluice.config_path()).unwrap();
    gate.sluice.reload(&config);
    gate.get(200, &[]);
    gate.sluice.stop();
}

#[test]
fn a_wrong_list_is_said_to_be_so() {
    let scratch = Scratch::new();
    let list = scratch.write("list", "10.0.0.0/8\n\nlocalhost\n");
    let config = scratch.write(
        "sluice.toml",
        format!(
            "[[listener]]\naddress = \"127.0.0.1:0\"\n[filter.f.ip]\ndeny_files = [\"{}\"]\n\
             [[route]]\nrespond = \"x\"\nfilters = [\"f\"]\n",
            list.display()
        ),
    );
    let checked = run(&["check", "-c", &config.display().to_string()], "");
    assert_ne!(checked.code, Some(0));
    let said = format!("{}{}", checked.stdout, checked.stderr);
    for part in ["filter \"f\", ip", "list", "line 3: `localhost`"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn user_agent_example_of_its_page() {
    let gate = Filtered::of_page("user_agent", &[], |example| example);
    let agent = |status, agents: &[&str]| {
        let fields: Vec<(&str, &str)> = agents.iter().map(|agent| ("User-Agent", *agent)).collect();
        gate.get(status, &fields);
    };
    agent(200, &["Mozilla/5.0 (X11; Linux x86_64)"]);
    agent(403, &["Googlebot/2.1"]);
    agent(403, &["curl/8.0"]);
    agent(403, &["SQLMap/1.0"]);
    // The origin might read the second one.
    agent(403, &["Mozilla/5.0", "sqlmap"]);
    agent(403, &[]);
    gate.sluice.stop();
}

#[test]
fn patterns_that_blow_up_elsewhere_do_not_here() {
    let filter = "[filter.f.user_agent]\ndeny = [\"^(a+)+$\", \"(x+x+)+y\"]\n";
    let gate = Filtered::start(filter, &[]);
    let long = format!("{}!", "a".repeat(7000));
    gate.get(200, &[("User-Agent", &long)]);
    gate.get(403, &[("User-Agent", "aaaa")]);
    gate.sluice.stop();
}

#[test]
fn referer_example_of_its_page() {
    let gate = Filtered::of_page("referer", &[], |example| example);
    for (referer, status) in [
        ("https://www.shop.example/a", 200),
        ("https://partner.example", 200),
        ("http://a.example/own", 200),
        ("https://shop.example/", 403),
        ("https://evil.example/https://partner.example/", 403),
        ("https://partner.example@evil.example/", 403),
        ("https://evil.example\\@partner.example/", 403),
        ("about:blank", 403),
    ] {
        gate.get(status, &[("Referer", referer)]);
    }
    gate.get(200, &[]);
    gate.get(403, &[("Referer", "https://partner.example/"), ("Referer", "https://evil.example/")]);
    gate.sluice.stop();
}

fn places() -> Vec<u8> {
    place_file(&[
        PlaceOf { network: "192.0.2.0/24", country: "CH", continent: "EU", asn: 64500 },
        PlaceOf { network: "198.51.100.0/24", country: "KP", continent: "AS", asn: 0 },
        PlaceOf { network: "2001:db8::/32", country: "US", continent: "NA", asn: 64501 },
        // What no field line may hold, from a database of somebody else.
        PlaceOf { network: "203.0.113.0/24", country: "X\r\nX-Admin: 1", continent: "", asn: 0 },
    ])
}

#[test]
fn geo_example_of_its_page() {
    let scratch = Scratch::new();
    scratch.write("GeoLite2-Country.mmdb", places());
    let folder = scratch.path().display().to_string();
    let gate = Filtered::of_page("geo", &[], |example| {
        format!("{TRUSTED}{}", example.replace("/etc/sluice", &folder))
    });
    let ask = |client: &str, status| {
        let fields = [("X-Forwarded-For", client), ("X-Country", "DE"), ("X_Continent", "AN")];
        gate.get(status, &fields)
    };
    for told in ask("192.0.2.9", 200) {
        assert_eq!(told.origin_got("x-country"), ["CH"]);
        assert_eq!(told.origin_got("x-continent"), ["EU"]);
        assert_eq!(told.origin_got("x_continent"), Vec::<&str>::new());
    }
    for told in ask("2001:db8::9", 200) {
        assert_eq!(told.origin_got("x-country"), ["US"]);
    }
    ask("198.51.100.1", 403);
    // Nobody knows: nothing is said, not even by the client.
    for told in ask("10.0.0.1", 200).iter().chain(&ask("203.0.113.1", 200)) {
        assert_eq!(told.origin_got("x-country"), Vec::<&str>::new());
        assert_eq!(told.origin_got("x-admin"), Vec::<&str>::new());
    }
    gate.sluice.stop();
}

#[test]
fn geo_lets_in_whom_it_names() {
    let scratch = Scratch::new();
    let file = scratch.write("places.mmdb", places());
    let filter = format!(
        "[filter.f.geo]\nfiles = [\"{}\"]\nallow_continents = [\"eu\"]\n\
         allow_asns = [\"AS64501\"]\nasn_header = \"x-asn\"\n",
        file.display()
    );
    let gate = Filtered::start(&filter, &[]);
    gate.get(403, &[]);
    assert_eq!(gate.outcome("refused"), 2);
    gate.sluice.stop();
    let wrong = scratch.write("wrong.mmdb", "no database");
    let config = scratch.write(
        "sluice.toml",
        format!(
            "[[listener]]\naddress = \"127.0.0.1:0\"\n[filter.f.geo]\nfiles = [\"{}\"]\n\
             [[route]]\nrespond = \"x\"\nfilters = [\"f\"]\n",
            wrong.display()
        ),
    );
    let checked = run(&["check", "-c", &config.display().to_string()], "");
    assert_ne!(checked.code, Some(0));
    assert!(format!("{}{}", checked.stdout, checked.stderr).contains("no database of MaxMind's"));
}

#[test]
fn filters_that_let_everybody_through_are_refused() {
    let scratch = Scratch::new();
    let table = [
        ("ip = {}", "would let everybody through"),
        ("ip = { allow = [\"10.0.0.0/33\"] }", "is not a network"),
        ("user_agent = { deny = [\"(\"] }", "is not a regular expression"),
        ("referer = { allow = [\"https://a\"] }", "not a host name"),
        ("geo = { files = [\"x\"], deny_countries = [\"Swiss\"] }", "not the code of a country"),
        ("geo = { files = [\"x\"], country_header = \"host\" }", "belongs to the message"),
    ];
    for (filter, wanted) in table {
        let config = scratch.write(
            "sluice.toml",
            format!(
                "[[listener]]\naddress = \"127.0.0.1:0\"\n[filter.f]\n{filter}\n\
                 [[route]]\nrespond = \"x\"\nfilters = [\"f\"]\n"
            ),
        );
        let checked = run(&["check", "-c", &config.display().to_string()], "");
        let said = format!("{}{}", checked.stdout, checked.stderr);
        assert!(checked.code != Some(0) && said.contains(wanted), "{filter}: {said}");
    }
}
