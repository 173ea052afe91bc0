//! Conditions and orders of filters that would never act, or let everybody in, are refused with their place.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use sluice_acceptance::config;
use sluice_acceptance::filters::ask_both;
use sluice_testkit::{Exchange, Origin, PlaceOf, Scratch, Sluice, place_file, run};

/// What `check` says of a filter with a condition about the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Late {
    /// It acts on the request, and would never act.
    Refused,
    /// What it does to responses is enough.
    Taken,
}

use Late::{Refused, Taken};

/// Kind, its options, and what is said of them. `GEO` stands for a database.
const KINDS: [(&str, &str, Late); 41] = [
    ("guard", "{ methods = ['POST'] }", Refused),
    ("ip", "{ allow = ['10.0.0.0/8'] }", Refused),
    ("user_agent", "{ deny = ['bot'] }", Refused),
    ("referer", "{ allow = ['shop.example'] }", Refused),
    ("key_auth", "{ keys = { a = 'a-long-enough-key' } }", Refused),
    ("basic_auth", "{ passwords = { eva = '$2y$04$HASH' } }", Refused),
    ("jwt", "{ secret = '01234567890123456789012345678901' }", Refused),
    ("hmac_auth", "{ keys = { a = 'a-long-enough-key' } }", Refused),
    ("geo", "{ files = ['GEO'] }", Refused),
    ("geo", "{ files = ['GEO'], deny_countries = ['CH'] }", Refused),
    ("csrf", "{}", Refused),
    ("csrf", "{ secrets = ['a secret of some length'] }", Refused),
    ("external_auth", "{ upstream = '127.0.0.1:1' }", Refused),
    ("external_auth", "{ upstream = '127.0.0.1:1', down = ['x-a'] }", Refused),
    ("rate_limit", "{ limits = ['5/m'] }", Refused),
    ("rate_limit", "{ limits = ['5/m'], headers = 'none' }", Refused),
    ("concurrency_limit", "{ limit = 2 }", Refused),
    ("headers", "{ request = { set = { x-a = '1' } } }", Refused),
    ("headers", "{ request = { set = { x-a = '1' } }, response = { remove = ['x-b'] } }", Refused),
    ("headers", "{ response = { set = { x-a = '1' } } }", Taken),
    ("rewrite", "{ path = '/b' }", Refused),
    ("redirect", "{ scheme = 'https' }", Refused),
    ("respond", "{ status = 403 }", Refused),
    ("request_id", "{}", Refused),
    ("body_replace", "{ of = 'requests', rules = [{ text = 'a', with = 'b' }] }", Refused),
    ("body_replace", "{ of = 'responses', rules = [{ text = 'a', with = 'b' }] }", Taken),
    (
        "oidc",
        "{ issuer = 'http://127.0.0.1:1', client_id = 'a', client_secret = 'b', \
         secrets = ['a secret of some length'] }",
        Refused,
    ),
    ("cors", "{ origins = ['https://a.example'] }", Refused),
    ("security", "{}", Taken),
    ("bandwidth_limit", "{ download = '64KiB' }", Taken),
    ("bandwidth_limit", "{ upload = '64KiB' }", Refused),
    (
        "canary",
        "{ variants = { v2 = { upstream = '127.0.0.1:1' } }, rules = [{ to = 'v2' }] }",
        Refused,
    ),
    ("compress", "{}", Taken),
    ("decompress", "{}", Refused),
    ("decompress", "{ requests = false }", Taken),
    ("cache", "{ memory = '1MiB' }", Refused),
    ("lua", "{ script = 'function request_head(request) end' }", Refused),
    ("lua", "{ script = 'function response_head(response) end' }", Taken),
    ("lua", "{ script = 'function done(request, facts) end' }", Taken),
    ("lua", "{ access_by_lua = 'ngx.exit(403)' }", Refused),
    ("lua", "{ header_filter_by_lua = 'ngx.header.x = 1' }", Taken),
];

/// The kinds of the language, from its schema.
fn all_kinds() -> Vec<String> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema.json");
    let schema: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let keys = schema["$defs"]["filter"]["properties"].as_object().unwrap().keys();
    keys.filter(|key| *key != "when").cloned().collect()
}

fn check(scratch: &Scratch, rest: &str) -> (bool, String) {
    let file = scratch.write("sluice.toml", config(rest));
    let checked = run(&["check", "--config", &file.display().to_string()], "");
    (checked.code == Some(0), format!("{}{}", checked.stdout, checked.stderr))
}

#[test]
fn a_condition_about_the_response_is_refused_wherever_it_would_keep_a_filter_from_acting() {
    let scratch = Scratch::new();
    let place = PlaceOf { network: "192.0.2.0/24", country: "CH", continent: "EU", asn: 1 };
    let geo = scratch.path().join("geo.mmdb");
    std::fs::write(&geo, place_file(&[place])).unwrap();
    for kind in all_kinds() {
        assert!(KINDS.iter().any(|(known, ..)| *known == kind), "a row for {kind}");
    }
    let condition = "request.path == '/a' || response.header.x-area != 'public'";
    for (kind, options, expected) in KINDS {
        let options = options.replace("GEO", &geo.display().to_string());
        let options = options
            .replace("$2y$04$HASH", "$2y$04$abcdefghijklmnopqrstuuxbOxBzZl0hXwqXQ9MTGXCkbCeAPRFvC");
        // By name and in place, for one route and for all.
        let named = format!("[filter.it]\nwhen = \"{condition}\"\n{kind} = {options}\n");
        let route = "[[route]]\nproxy = '127.0.0.1:9'\n";
        let inline = format!("{{ when = \"{condition}\", {kind} = {options} }}");
        let texts =
            [format!("{named}{route}filters = ['it']\n"), format!("{route}filters = [{inline}]\n")];
        for text in texts {
            let (taken, said) = check(&scratch, &text);
            match expected {
                Taken => assert!(taken, "{kind} {options}: {said}"),
                Refused => {
                    assert!(!taken, "{kind} {options} was taken");
                    let parts =
                        [condition, "speaks of the response", "sluice.toml:", "^^^", "help"];
                    for part in parts.into_iter().chain([kind]) {
                        assert!(said.contains(part), "{kind} {options}: {part}: {said}");
                    }
                }
            }
        }
        let (plain, said) = check(&scratch, &texts_without(&named, condition, route));
        assert!(plain, "{kind} {options} without a condition: {said}");
    }
}

fn texts_without(named: &str, condition: &str, route: &str) -> String {
    let named = named.replace(&format!("when = \"{condition}\"\n"), "");
    format!("{named}{route}filters = ['it']\n")
}

#[test]
fn a_reload_refuses_it_too() {
    let text = |when: &str| {
        config(&format!(
            "[filter.it]\n{when}\nkey_auth = {{ keys = {{ a = 'a-long-enough-key' }} }}\n\
             [[route]]\nrespond = \"ok\"\nfilters = [\"it\"]\n"
        ))
    };
    let gateway = Sluice::start(&text(""));
    assert_eq!(ask_both(&gateway, "/", &[], &[]).status, 401);
    let said = gateway.reload(&text("when = \"response.header.x-area != 'public'\""));
    assert!(said.contains("reload failed") && said.contains("speaks of the response"), "{said}");
    assert_eq!(ask_both(&gateway, "/", &[], &[]).status, 401);
    gateway.stop();
}

#[test]
fn what_prepares_or_looks_back_goes_by_the_response() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        exchange.sink_body()?;
        let codings = exchange.head().fields.all("accept-encoding").count();
        let status = if exchange.head().target == "/missing" { 404 } else { 200 };
        exchange.answer(status, &["Content-Type: text/plain"], format!("codings {codings}"))
    });
    let script = "function done(request, facts) log('done ' .. facts.status) end";
    let gateway = Sluice::start(&config(&format!(
        "[[route]]\nproxy = \"http://{}\"\nfilters = [\n\
         {{ when = \"response.status == 404\", lua = {{ script = \"{script}\" }} }},\n\
         {{ when = \"response.status == 200\", body_replace = {{ of = 'responses', \
            rules = [{{ text = 'codings', with = 'encodings' }}] }} }} ]\n",
        origin.address()
    )));
    let ask = |path| ask_both(&gateway, path, &["-H", "Accept-Encoding: br;q=0"], &[]).content;
    // The origin was asked for plain content before anybody knew whether the condition would hold.
    assert_eq!(ask("/"), "encodings 0");
    assert_eq!(ask("/missing"), "codings 0");
    gateway.wait_for_line("done 404");
    assert!(!gateway.stderr().iter().any(|line| line.contains("done 200")));
    gateway.stop();
}

const KEY: &str = "key_auth = { keys = { a = 'a-long-enough-key' } }";

#[test]
fn access_control_behind_a_cache_needs_a_word() {
    let scratch = Scratch::new();
    let cache = "{ cache = { memory = '1MiB' } }";
    let open = "{ cache = { memory = '1MiB', hits_skip = ['key_auth', 'lua', 'respond'] } }";
    let geo = scratch.path().join("geo.mmdb");
    let place = PlaceOf { network: "192.0.2.0/24", country: "CH", continent: "EU", asn: 1 };
    std::fs::write(&geo, place_file(&[place])).unwrap();
    let geo = geo.display();
    let route =
        |filters: &str| format!("[[route]]\nproxy = '127.0.0.1:9'\nfilters = [{filters}]\n");
    let respond = |when: &str| {
        route(&format!("{cache}, {{ when = \"{when}\", respond = {{ status = 403 }} }}"))
    };
    let lua = |cache: &str, script: &str| {
        route(&format!("{cache}, {{ lua = {{ script = '{script}' }} }}"))
    };
    let rows = [
        (route(&format!("{cache}, {{ {KEY} }}")), false),
        (route(&format!("{{ {KEY} }}, {cache}")), true),
        (route(&format!("{open}, {{ {KEY} }}")), true),
        (route(&format!("{open}, {{ ip = {{ allow = ['10.0.0.0/8'] }} }}")), false),
        (route(&format!("{cache}, {{ ip = {{ allow = ['10.0.0.0/8'] }} }}")), false),
        (route(&format!("{cache}, {{ geo = {{ files = ['{geo}'] }} }}")), true),
        (
            route(&format!(
                "{cache}, {{ geo = {{ files = ['{geo}'], deny_countries = ['CH'] }} }}"
            )),
            false,
        ),
        (
            route(&format!(
                "{cache}, {{ rate_limit = {{ limits = ['5/m'] }} }}, {{ compress = {{}} }}"
            )),
            true,
        ),
        // What depends on the URL alone is as true of a hit.
        (respond("request.path == '/a' && request.parameter.b == 'c'"), true),
        (respond("client.ip not in '10.0.0.0/8'"), false),
        (respond("!request.header.x-key"), false),
        (respond("auth.user != 'eva'"), false),
        (lua(cache, "function request_head(request) end"), false),
        (lua(open, "function request_head(request) end"), true),
        (lua(cache, "function response_head(response) end"), true),
        // By name, and of all routes.
        (
            format!(
                "[filter.k]\n{KEY}\n[filter.c]\ncache = {{ memory = '1MiB' }}\n{}",
                route("'c', 'k'")
            ),
            false,
        ),
        (
            format!(
                "[filter.k]\n{KEY}\n[filter.c]\ncache = {{ memory = '1MiB' }}\n{}",
                route("'k', 'c'")
            ),
            true,
        ),
    ];
    for (text, expected) in rows {
        let (taken, said) = check(&scratch, &text);
        assert_eq!(taken, expected, "{text}: {said}");
        if !taken {
            for part in ["stands behind the cache", "hits_skip = [", "sluice.toml:", "^^^"] {
                assert!(said.contains(part), "{text}: {part}: {said}");
            }
        }
    }
    let global = format!("filters = [{cache}]\n{}", config(&route(&format!("{{ {KEY} }}"))));
    let file = scratch.write("sluice.toml", &global);
    let checked = run(&["check", "--config", &file.display().to_string()], "");
    assert_ne!(checked.code, Some(0), "a cache of all routes");
    let (taken, said) = check(&scratch, &route("{ cache = { hits_skip = ['kay_auth'] } }"));
    assert!(!taken && said.contains("did you mean \"key_auth\"?"), "{said}");
}
