//! The canary sends clients to variants, always the same ones, and gives a variant up that does badly.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sluice_acceptance::filters::{ask, ask_http2, page_example};
use sluice_acceptance::{config, eventually, metric};
use sluice_testkit::{FaultOrigin, Mode, Origin, Sluice, behaviour};

fn sample(gateway: &Sluice, name: &str, variant: &str) -> u64 {
    metric(&gateway.admin(), &format!("{name}{{filter=\"c\",variant=\"{variant}\"}}"))
}

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let [old, new] = [Origin::start(behaviour::echo), Origin::start(behaviour::echo)];
    let replace = [("127.0.0.1:9001", old.address()), ("127.0.0.1:9002", new.address())];
    let gateway = Sluice::start(&page_example("canary.md", &replace, ""));
    let got_new = |options: &[&str]| {
        let got = [ask, ask_http2].map(|ask| {
            let before = new.requests().len();
            let reply = ask(&gateway, "/", options);
            assert_eq!(reply.status, 200);
            let told = if new.requests().len() > before { "v2" } else { "stable" };
            // What the client says of the variant never arrives.
            let lines = reply.content.lines().map(str::to_lowercase);
            let tags: Vec<String> = lines.filter(|line| line.starts_with("x-variant:")).collect();
            assert_eq!(tags, [format!("x-variant: {told}")], "{}", reply.content);
            told == "v2"
        });
        assert!(got == [true; 2] || got == [false; 2], "{options:?}");
        got == [true; 2]
    };
    let forged = ["-H", "X-Variant: admin", "-H", "x-variant: root"];
    assert!(got_new(&[&["-H", "x-beta: yes"], &forged[..]].concat()));
    assert!(!got_new(&[&["-H", "x-shop: stable", "-H", "x-beta: yes"], &forged[..]].concat()));
    assert!(got_new(&["-H", "x-shop: v2"]));
    // A client keeps what it got by its cookie; a tenth of them get the new one.
    let mut chosen = 0;
    for user in 0..100 {
        let cookie = format!("shop=user-{user}");
        let new = got_new(&["-b", &cookie]);
        assert_eq!(got_new(&["-b", &cookie]), new);
        chosen += u32::from(new);
    }
    assert!((1..=24).contains(&chosen), "{chosen}");
    gateway.stop();
}

#[test]
fn clients_get_a_cookie_once_and_nobody_can_smuggle_one_in() {
    let origin = Origin::start(behaviour::fixed(200, "ok"));
    let replace = [("127.0.0.1:9001", origin.address()), ("127.0.0.1:9002", origin.address())];
    let gateway = Sluice::start(&page_example("canary.md", &replace, ""));
    for ask in [ask, ask_http2] {
        let set = ask(&gateway, "/", &[]);
        let cookie = set.value("set-cookie");
        let (pair, attributes) = cookie.split_once(';').unwrap();
        assert_eq!(attributes, " Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax");
        assert!(pair.starts_with("shop=") && pair.len() == 41, "{pair}");
        assert_eq!(ask(&gateway, "/", &["-b", pair]).values("set-cookie"), [""; 0]);
        let huge = format!("shop={}", "x".repeat(10_000));
        for hostile in ["shop=a%0d%0aset-cookie:b", "shop=\"><script>", "shop=", &huge] {
            let reply = ask(&gateway, "/", &["-b", hostile]);
            let cookies = reply.values("set-cookie");
            assert_eq!((reply.status, cookies.len()), (200, 1), "{hostile}");
            assert!(cookies.first().unwrap().starts_with("shop=0"), "{cookies:?}");
        }
    }
    gateway.stop();
}

/// Half of the clients get the new variant.
fn half(old: &str, new: &str, rest: &str) -> String {
    config(&format!(
        "[filter.c.canary]\nkey = \"{{request.header.x-user}}\"\n{rest}\n\
         variants.new = {{ upstream = \"new\", keys = [\"alice\"] }}\n\
         [[filter.c.canary.rules]]\nto = {{ variant = \"new\", share = 500 }}\n\
         [upstream.new]\nservers = [\"{new}\"]\nhealth = {{ path = \"/\", interval = \"50ms\", unhealthy = 1, healthy = 1 }}\n\
         [[route]]\npath = \"/*\"\nproxy = \"http://{old}\"\nfilters = [\"c\"]\n"
    ))
}

#[test]
fn the_stable_variant_stands_in_for_one_that_is_gone() {
    let [old, new] = [FaultOrigin::start("old"), FaultOrigin::start("new")];
    let gateway = Sluice::start(&half(old.address(), new.address(), ""));
    let alice = |ask: fn(&Sluice, &str, &[&str]) -> sluice_acceptance::filters::Reply| {
        ask(&gateway, "/", &["-H", "x-user: alice"]).content
    };
    assert!(eventually(|| alice(ask) == "new"));
    new.set(Mode::Gone);
    assert!(eventually(|| alice(ask) == "old"));
    assert_eq!(alice(ask_http2), "old");
    let fallback = "sluice_filter_outcomes_total{filter=\"c\",outcome=\"fallback\"}";
    assert!(metric(&gateway.admin(), fallback) >= 2);
    new.set(Mode::Good);
    assert!(eventually(|| alice(ask) == "new"));
    gateway.stop();
}

#[test]
fn a_variant_that_fails_is_given_up_and_stays_so_over_reloads() {
    let [old, new] = [FaultOrigin::start("old"), FaultOrigin::start("new")];
    let rollback = "rollback = { errors = 100, window = \"100ms\", minimum = 10 }";
    let text = half(old.address(), new.address(), rollback).replace("health = ", "# ");
    let gateway = Sluice::start(&text);
    let users = |from: u32| {
        let of = |user: u32| ask(&gateway, "/", &["-H", &format!("x-user: {user}")]);
        (from..from + 40).map(of).collect::<Vec<_>>()
    };
    assert!(users(0).iter().any(|reply| reply.content == "new"));
    assert_eq!(sample(&gateway, "sluice_variant_share", "new"), 500);
    new.set(Mode::Status(500));
    assert!(eventually(|| {
        users(1000);
        sample(&gateway, "sluice_variant_share", "new") == 0
    }));
    gateway.wait_for_line("canary: variant new is given up, too many of its requests fail");
    assert!(users(2000).iter().all(|reply| reply.content == "old"));
    gateway.reload(&format!("{text}[[route]]\npath = \"/more\"\nrespond = \"more\"\n"));
    assert_eq!(ask(&gateway, "/more", &[]).content, "more");
    assert!(users(3000).iter().all(|reply| reply.content == "old"));
    assert!(sample(&gateway, "sluice_variant_errors_total", "new") > 0);
    assert_eq!(sample(&gateway, "sluice_variant_errors_total", "stable"), 0);
    // Who is listed still gets it.
    assert_eq!(ask(&gateway, "/", &["-H", "x-user: alice"]).status, 500);
    gateway.stop();
}

#[test]
fn a_share_grows_by_itself() {
    let [old, new] = [FaultOrigin::start("old"), FaultOrigin::start("new")];
    let ramp = "share = 1000, ramp = { step = 250, every = \"300ms\" }";
    let text = half(old.address(), new.address(), "").replace("share = 500", ramp);
    let gateway = Sluice::start(&text);
    let share = || sample(&gateway, "sluice_variant_share", "new");
    let mut seen = Vec::new();
    assert!(eventually(|| {
        let _ = ask(&gateway, "/", &[]);
        seen.push(share());
        seen.last() == Some(&1000)
    }));
    assert!(seen.is_sorted() && seen.iter().all(|share| share % 250 == 0), "{seen:?}");
    assert_eq!(ask(&gateway, "/", &["-H", "x-user: bob"]).content, "new");
    gateway.stop();
}
