//! Stale answers are refreshed in the background, by what stands behind the cache, and by nobody's leave.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use sluice_acceptance::filters::{Reply, ask, ask_http2};
use sluice_acceptance::http2::Http2Client;
use sluice_acceptance::tls::curl;
use sluice_acceptance::{config, eventually, metric};
use sluice_testkit::{After, Exchange, Gate, Origin, Scratch, Sluice};

const STALE: [&str; 4] = [
    "Cache-Control: max-age=60, stale-while-revalidate=600",
    "Age: 100",
    "ETag: \"one\"",
    "Content-Type: text/plain",
];
const FRESH: [&str; 3] =
    ["Cache-Control: max-age=600", "ETag: \"two\"", "Content-Type: text/plain"];

/// Larger than memory takes as one answer.
const LARGE: usize = 5_000_000;

/// What is asked for, and how often. The first answer of each target is stale when it comes, the others are fresh;
/// the first word of a target says what is special about it.
#[derive(Clone, Default)]
struct Pages {
    asked: Arc<Mutex<HashMap<String, usize>>>,
    /// What the second answers of gated targets wait for.
    gate: Gate,
    /// Whether the second answer of `/sick` is one.
    well: Arc<AtomicBool>,
    /// Whether an answer without an end was broken off.
    cut: Arc<AtomicBool>,
}

impl Pages {
    fn origin(&self) -> Origin {
        let pages = self.clone();
        Origin::start(move |exchange: &mut Exchange| pages.answer(exchange))
    }

    fn asked(&self, target: &str) -> usize {
        self.asked.lock().unwrap().get(target).copied().unwrap_or(0)
    }

    fn count(&self, target: &str) -> usize {
        let mut asked = self.asked.lock().unwrap();
        let count = asked.entry(target.to_owned()).or_default();
        *count += 1;
        *count
    }

    fn answer(&self, exchange: &mut Exchange) -> std::io::Result<()> {
        exchange.sink_body()?;
        let target = exchange.head().target.clone();
        let behind = exchange.head().fields.first("x-behind").unwrap_or("none").to_owned();
        let known = exchange.head().fields.first("if-none-match") == Some("\"one\"");
        let count = self.count(&target);
        let word = target.trim_start_matches('/').split('/').next().unwrap_or_default();
        let text = format!("answer {count} of {target}, behind {behind}");
        match (word, count) {
            ("held", _) | ("gated", 2) => self.gate.pass(),
            _ => {}
        }
        match (word, count) {
            ("large", _) => {
                let lines: &[&str] = if count == 1 { &STALE } else { &FRESH };
                exchange.answer(200, lines, large(count))
            }
            (_, 1) => exchange.answer(200, &STALE, text),
            ("same", _) if known => exchange.answer(304, &FRESH, ""),
            ("sick", _) if !self.well.load(Ordering::Relaxed) => exchange.answer(503, &[], "no"),
            ("private", _) => exchange.answer(200, &["Cache-Control: private"], text),
            ("half", 2) => {
                exchange.write(format!(
                    "HTTP/1.1 200 OK\r\n{}\r\nContent-Length: 100\r\n\r\nhalf",
                    FRESH[0]
                ))?;
                exchange.then(After::Close);
                Ok(())
            }
            ("endless", 2) => {
                let head = format!("HTTP/1.1 200 OK\r\n{}\r\n", FRESH[0]);
                exchange.write(head + "Transfer-Encoding: chunked\r\n\r\n")?;
                let piece = [b"10000\r\n", &[b'e'; 65536][..], b"\r\n"].concat();
                while exchange.write(&piece).is_ok() {}
                self.cut.store(true, Ordering::Relaxed);
                exchange.then(After::Close);
                Ok(())
            }
            _ => exchange.answer(200, &FRESH, text),
        }
    }
}

fn large(count: usize) -> Vec<u8> {
    format!("{count:07}\n").into_bytes().repeat(LARGE / 8)
}

/// A gateway with this before its route, and this in it.
fn text(origin: &Origin, before: &str, route: &str) -> String {
    let address = origin.address();
    config(&format!(
        "{before}\n[[route]]\nname = \"all\"\npath = \"/{{kind}}/{{rest}}\"\nproxy = \"{address}\"\n{route}\n"
    ))
}

const PAGES: &str = "[filter.pages.cache]\nmemory = \"16MiB\"\n";

fn outcome(gateway: &Sluice, outcome: &str) -> u64 {
    let sample = format!("sluice_filter_outcomes_total{{filter=\"pages\",outcome=\"{outcome}\"}}");
    metric(&gateway.admin(), &sample)
}

fn comes_to(gateway: &Sluice, name: &str, count: u64) {
    let seen = || outcome(gateway, name);
    assert!(eventually(|| seen() == count), "{name} is {} and not {count}", seen());
}

fn is_stale(reply: &Reply) -> bool {
    reply.value("cache-status").contains("; hit; ttl=-")
}

fn is_fresh(reply: &Reply) -> bool {
    reply.value("cache-status").contains("; hit; ttl=") && !is_stale(reply)
}

#[test]
fn those_behind_take_part_and_those_in_front_do_not() {
    let pages = Pages::default();
    let origin = pages.origin();
    let filters = format!(
        "{PAGES}\
         [filter.fair.rate_limit]\nlimits = [{{ rate = \"1/h\", burst = 3 }}]\n\
         [filter.named.headers]\nrequest = {{ set = {{ x-behind = \"{{capture.kind}}\" }} }}\n\
         response = {{ set = {{ x-line = \"{{response.status}} behind\" }} }}\n\
         [filter.front.headers]\nresponse = {{ set = {{ x-front = \"seen\" }} }}\n\
         [filter.moved.rewrite]\npath = \"/moved/page\"\nhost = \"inner.example\"\n\
         [filter.small.compress]\nencodings = [\"gzip\"]\nminimum = \"1B\"\ntypes = [\"text/*\"]\n"
    );
    let route = "filters = [\"fair\", \"moved\", \"front\", \"pages\", \"small\", \"named\"]";
    let gateway = Sluice::start(&text(&origin, &filters, route));
    let get = |ask: fn(&Sluice, &str, &[&str]) -> Reply| {
        ask(&gateway, "/some/page", &["--compressed", "-H", "Host: a", "-H", "X-Behind: evil"])
    };
    assert_eq!(get(ask_http2).content, "answer 1 of /moved/page, behind some");
    let stale = get(ask_http2);
    assert!(is_stale(&stale), "{stale:?}");
    assert_eq!(stale.content, "answer 1 of /moved/page, behind some");
    comes_to(&gateway, "refreshed", 1);
    // The last of three that may come in an hour.
    let fresh = get(ask);
    assert!(is_fresh(&fresh), "{fresh:?}");
    assert_eq!(fresh.content, "answer 2 of /moved/page, behind some");
    for name in ["x-line", "x-front", "content-encoding", "vary"] {
        assert_eq!(stale.values(name), fresh.values(name), "{name}");
    }
    assert_eq!((fresh.value("x-line"), fresh.value("content-encoding")), ("200 behind", "gzip"));
    assert_eq!(get(ask).status, 429);
    // The origin is told the same, but for what is kept.
    let [first, second] = <[_; 2]>::try_from(origin.requests()).unwrap();
    let told = |lines: &[String]| {
        let others = lines.iter().filter(|line| !line.to_lowercase().starts_with("if-none-match:"));
        others.cloned().collect::<Vec<_>>()
    };
    assert_eq!(told(&first.lines), told(&second.lines));
    assert!(second.lines.len() == first.lines.len() + 1 && second.method == "GET");
    gateway.stop();
}

#[test]
fn what_a_client_asks_for_otherwise_refreshes_all_of_it() {
    let pages = Pages::default();
    let origin = pages.origin();
    let gateway = Sluice::start(&text(&origin, PAGES, "filters = [\"pages\"]"));
    for (number, (target, options)) in
        [("/a/head", ["-I", "-s"]), ("/a/part", ["-r", "0-5"])].into_iter().enumerate()
    {
        assert_eq!(ask(&gateway, target, &[]).status, 200);
        assert!(is_stale(&ask(&gateway, target, &options)), "{target}");
        comes_to(&gateway, "refreshed", u64::try_from(number).unwrap() + 1);
        let fresh = ask(&gateway, target, &[]);
        assert!(is_fresh(&fresh) && fresh.content.starts_with("answer 2 of"), "{fresh:?}");
    }
    // What is the same stays, and is fresh.
    assert_eq!(ask(&gateway, "/same/page", &[]).status, 200);
    assert!(is_stale(&ask(&gateway, "/same/page", &[])));
    comes_to(&gateway, "refreshed", 3);
    let fresh = ask(&gateway, "/same/page", &[]);
    assert!(is_fresh(&fresh) && fresh.content.starts_with("answer 1 of"), "{fresh:?}");
    assert_eq!(pages.asked("/same/page"), 2);
    gateway.stop();
}

#[test]
fn whoever_refuses_the_refresh_leaves_what_there_is() {
    let pages = Pages::default();
    let (origin, open) = (pages.origin(), Arc::new(AtomicBool::new(true)));
    let (asked, state) = (Arc::new(Mutex::new(0)), Arc::clone(&open));
    let count = Arc::clone(&asked);
    let login = Origin::start(move |exchange: &mut Exchange| {
        exchange.sink_body()?;
        *count.lock().unwrap() += 1;
        exchange.answer(if state.load(Ordering::Relaxed) { 200 } else { 403 }, &[], "")
    });
    let filters = format!(
        "{PAGES}hits_skip = [\"external_auth\"]\n\
         [filter.login.external_auth]\nupstream = \"http://{}\"\n",
        login.address()
    );
    let gateway = Sluice::start(&text(&origin, &filters, "filters = [\"pages\", \"login\"]"));
    assert_eq!(ask(&gateway, "/a/page", &[]).status, 200);
    open.store(false, Ordering::Relaxed);
    assert!(is_stale(&ask(&gateway, "/a/page", &[])));
    comes_to(&gateway, "refresh_failed", 1);
    assert_eq!((*asked.lock().unwrap(), pages.asked("/a/page")), (2, 1));
    open.store(true, Ordering::Relaxed);
    // After a pause somebody tries again.
    let again = || {
        let reply = ask(&gateway, "/a/page", &[]);
        assert_eq!(reply.status, 200);
        is_fresh(&reply)
    };
    assert!(eventually(again));
    assert_eq!((outcome(&gateway, "refreshed"), pages.asked("/a/page")), (1, 2));
    gateway.stop();
}

#[test]
fn the_variant_of_the_client_is_refreshed() {
    let (one, two) = (Pages::default(), Pages::default());
    let (first, second) = (one.origin(), two.origin());
    let filters = format!(
        "[filter.pages.cache]\nmemory = \"16MiB\"\nkey = [\"scheme\", \"host\", \"path\", \"query\", \"header:x-shop\"]\n\
         [filter.shop.canary]\noverride_header = \"x-shop\"\nvariants.v2 = {{ upstream = \"http://{}\" }}\n",
        second.address()
    );
    for (round, filters_of_route) in
        ["\"pages\", \"shop\"", "\"shop\", \"pages\""].iter().enumerate()
    {
        let route = format!("filters = [{filters_of_route}]");
        let gateway = Sluice::start(&text(&first, &filters, &route));
        let target = format!("/a/{round}");
        let get = || ask(&gateway, &target, &["-H", "X-Shop: v2"]);
        assert_eq!(get().status, 200);
        assert!(is_stale(&get()));
        comes_to(&gateway, "refreshed", 1);
        assert!(is_fresh(&get()));
        assert_eq!((one.asked(&target), two.asked(&target)), (0, 2), "{filters_of_route}");
        gateway.stop();
    }
}

#[test]
fn a_refresh_waits_for_a_permit_and_gives_it_back() {
    let pages = Pages::default();
    let origin = pages.origin();
    let route = "filters = [\"pages\"]\nconcurrency = { limit = 1, queue = 5, wait = \"60s\" }";
    let gateway = Sluice::start(&text(&origin, PAGES, route));
    assert_eq!(ask(&gateway, "/a/page", &[]).status, 200);
    let gauge = |name: &str| {
        metric(&gateway.admin(), &format!("sluice_concurrency_{name}_requests{{route=\"all\"}}"))
    };
    thread::scope(|scope| {
        let held = scope.spawn(|| ask(&gateway, "/held/page", &[]));
        assert!(eventually(|| pages.asked("/held/page") == 1));
        assert!(is_stale(&ask(&gateway, "/a/page", &[])));
        assert!(eventually(|| gauge("waiting") == 1));
        assert_eq!(pages.asked("/a/page"), 1);
        pages.gate.open();
        assert_eq!(held.join().unwrap().status, 200);
    });
    comes_to(&gateway, "refreshed", 1);
    assert!(eventually(|| gauge("active") == 0 && gauge("waiting") == 0));
    assert!(is_fresh(&ask(&gateway, "/a/page", &[])));
    assert_eq!(ask(&gateway, "/a/other", &[]).status, 200);
    gateway.stop();
}

#[test]
fn requests_of_clients_alone_are_counted_and_logged() {
    let pages = Pages::default();
    let origin = pages.origin();
    let log = "access = \"line {request.target} {response.status}\"";
    let text = text(&origin, PAGES, "filters = [\"pages\"]").replace("access = \"off\"", log);
    let gateway = Sluice::start(&text);
    for _ in 0..2 {
        assert_eq!(ask(&gateway, "/a/page", &[]).status, 200);
    }
    comes_to(&gateway, "refreshed", 1);
    assert!(is_fresh(&ask(&gateway, "/a/page", &[])));
    assert_eq!(pages.asked("/a/page"), 2);
    let count = |sample: &str| metric(&gateway.admin(), sample);
    assert!(eventually(|| count("sluice_route_requests_total{route=\"all\"}") == 3));
    assert_eq!(count("sluice_listener_requests_total{listener=\"web\"}"), 3);
    assert_eq!(count("sluice_listener_accepted_total{listener=\"web\"}"), 3);
    let active = "sluice_listener_connections{listener=\"web\"}";
    assert!(eventually(|| count(active) == 0));
    let lines = gateway.stdout().clone();
    gateway.stop();
    let lines = lines.so_far();
    let said = lines.iter().filter(|line| line.starts_with("line ")).collect::<Vec<_>>();
    assert_eq!(said, ["line /a/page 200"; 3]);
}

#[test]
fn a_refresh_that_fails_harms_nobody() {
    let pages = Pages::default();
    let origin = pages.origin();
    let options = format!("{PAGES}entry_limit = \"1MiB\"\n");
    let gateway = Sluice::start(&text(&origin, &options, "filters = [\"pages\"]"));
    let mut failed = 0;
    for target in ["/sick/page", "/half/page", "/endless/page"] {
        let get = || ask(&gateway, target, &[]);
        let first = get();
        assert!(is_stale(&get()), "{target}");
        failed += 1;
        comes_to(&gateway, "refresh_failed", failed);
        let again = get();
        assert_eq!((again.status, &again.content), (200, &first.content), "{target}");
        pages.well.store(true, Ordering::Relaxed);
        assert!(eventually(|| is_fresh(&get())), "{target}");
    }
    // Nobody reads what nobody wants.
    assert!(eventually(|| pages.cut.load(Ordering::Relaxed)));
    // What is for one alone now is no longer given to all.
    assert_eq!(ask(&gateway, "/private/page", &[]).status, 200);
    assert!(is_stale(&ask(&gateway, "/private/page", &[])));
    comes_to(&gateway, "refresh_failed", failed + 1);
    let mine = ask(&gateway, "/private/page", &[]);
    assert_eq!(mine.content, "answer 3 of /private/page, behind none");
    // An origin that is gone.
    assert_eq!(ask(&gateway, "/a/page", &[]).status, 200);
    drop(origin);
    assert!(is_stale(&ask(&gateway, "/a/page", &[])));
    comes_to(&gateway, "refresh_failed", failed + 2);
    assert!(is_stale(&ask(&gateway, "/a/page", &[])));
    let told = gateway.wait_for_line("in the background");
    assert!(told.contains("route all"), "{told}");
    gateway.stop();
}

#[test]
fn what_lies_on_the_disk_is_refreshed_there() {
    let pages = Pages::default();
    let (origin, scratch) = (pages.origin(), Scratch::new());
    let options = format!(
        "{PAGES}entry_limit = \"1MiB\"\ndisk = {{ path = \"{}\", size = \"64MiB\" }}\n\
         [filter.named.headers]\nresponse = {{ set = {{ x-line = \"behind\" }} }}\n",
        scratch.path().display()
    );
    let gateway = Sluice::start(&text(&origin, &options, "filters = [\"pages\", \"named\"]"));
    let get = || ask(&gateway, "/large/file", &[]);
    let is = |reply: &Reply, count: usize| reply.content.as_bytes() == large(count);
    assert!(is(&get(), 1));
    let entries = format!("sluice_cache_disk_entries{{folder=\"{}\"}}", scratch.path().display());
    assert!(eventually(|| metric(&gateway.admin(), &entries) == 1));
    let stale = get();
    assert!(is_stale(&stale) && is(&stale, 1), "{:?}", stale.fields);
    comes_to(&gateway, "refreshed", 1);
    assert!(eventually(|| is_fresh(&get())));
    let fresh = get();
    assert!(is(&fresh, 2) && fresh.value("x-line") == "behind", "{:?}", fresh.fields);
    assert_eq!((pages.asked("/large/file"), metric(&gateway.admin(), &entries)), (2, 1));
    let bytes = metric(&gateway.admin(), "sluice_cache_bytes{filter=\"pages\"}");
    assert!(bytes < 2 << 20, "memory has none of it: {bytes}");
    gateway.stop();
}

#[test]
fn a_reload_does_not_stop_a_refresh_and_a_refresh_does_not_stop_the_end() {
    let pages = Pages::default();
    let origin = pages.origin();
    let before = text(&origin, PAGES, "filters = [\"pages\"]");
    let gateway = Sluice::start(&before);
    assert_eq!(ask(&gateway, "/gated/page", &[]).status, 200);
    assert!(is_stale(&ask(&gateway, "/gated/page", &[])));
    assert!(eventually(|| pages.asked("/gated/page") == 2));
    gateway.reload(&format!(
        "{before}\n[[route]]\nname = \"new\"\npath = \"/new\"\nrespond = \"new\"\n"
    ));
    assert_eq!(ask(&gateway, "/new", &[]).content, "new");
    assert!(is_stale(&ask(&gateway, "/gated/page", &[])));
    assert_eq!(outcome(&gateway, "refreshed"), 0);
    pages.gate.open();
    comes_to(&gateway, "refreshed", 1);
    let fresh = ask(&gateway, "/gated/page", &[]);
    assert!(is_fresh(&fresh) && fresh.content.starts_with("answer 2 of"), "{fresh:?}");
    gateway.stop();
    // One that never ends.
    let pages = Pages::default();
    let origin = pages.origin();
    let gateway = Sluice::start(&text(&origin, PAGES, "filters = [\"pages\"]"));
    assert_eq!(ask(&gateway, "/gated/page", &[]).status, 200);
    assert!(is_stale(&ask(&gateway, "/gated/page", &[])));
    assert!(eventually(|| pages.asked("/gated/page") == 2));
    gateway.stop();
    pages.gate.open();
}

#[test]
fn a_client_that_is_gone_is_not_waited_for() {
    let pages = Pages::default();
    let origin = pages.origin();
    let gateway = Sluice::start(&text(&origin, PAGES, "filters = [\"pages\"]"));
    let plain = || ask(&gateway, "/gated/plain", &["-H", "Host: a"]);
    assert_eq!(plain().status, 200);
    let mut client = Http2Client::connect(&gateway.address("web"));
    assert_eq!(client.get("/gated/page").status(), 200);
    assert_eq!(client.get("/gated/page").text(), "answer 1 of /gated/page, behind none");
    drop(client);
    let active = "sluice_listener_connections{listener=\"web\"}";
    assert!(eventually(|| pages.asked("/gated/page") == 2));
    assert!(eventually(|| metric(&gateway.admin(), active) == 0));
    // Whoever does not even wait for what it asked for.
    let requests = "GET /gated/plain HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3);
    for _ in 0..10 {
        let mut stream = TcpStream::connect(gateway.address("web")).unwrap();
        stream.write_all(requests.as_bytes()).unwrap();
    }
    assert!(is_stale(&plain()));
    assert!(eventually(|| pages.asked("/gated/plain") == 2));
    assert_eq!(outcome(&gateway, "refreshed"), 0);
    pages.gate.open();
    comes_to(&gateway, "refreshed", 2);
    assert_eq!(plain().content, "answer 2 of /gated/plain, behind none");
    let mut client = Http2Client::connect(&gateway.address("web"));
    assert_eq!(client.get("/gated/page").text(), "answer 2 of /gated/page, behind none");
    assert_eq!((pages.asked("/gated/page"), pages.asked("/gated/plain")), (2, 2));
    gateway.stop();
}

#[test]
fn all_is_said_of_the_connection_that_there_was() {
    let pages = Pages::default();
    let origin = pages.origin();
    let filters = format!(
        "[[listener]]\nname = \"tls\"\naddress = \"127.0.0.1:0\"\ntls = {{ self_signed = true }}\n\
         {PAGES}[filter.named.headers.request.set]\n\
         x-behind = \"{{request.scheme}} {{tls.version}} {{client.ip}} {{client.port}} {{connection.listener}}\"\n"
    );
    let text = text(&origin, &filters, "filters = [\"pages\", \"named\"]");
    let gateway = Sluice::start(&text);
    let url = format!("https://{}/a/page", gateway.address("tls"));
    // The same connection for both.
    let told = curl(&["-k", &url, &url]);
    assert_eq!(told.text.matches("behind https 1.3 127.0.0.1").count(), 2, "{}", told.text);
    comes_to(&gateway, "refreshed", 1);
    let [first, second] = <[_; 2]>::try_from(origin.requests()).unwrap();
    assert_eq!(second.fields.first("x-forwarded-proto"), Some("https"));
    assert_eq!(first.fields.first("x-behind"), second.fields.first("x-behind"));
    gateway.stop();
}
