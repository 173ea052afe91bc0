//! A service of one's own says whether requests may pass, by HTTP or by Envoy's call.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use sluice_acceptance::filters::{ask, ask_both, ask_http2, page_example};
use sluice_acceptance::http2_origin::{Deed, Http2Origin};
use sluice_acceptance::{config, metric};
use sluice_testkit::{Exchange, Gate, Origin, Sluice, behaviour};

/// Lets those pass who have the session `good`, and says who they are.
fn login(exchange: &mut Exchange) -> std::io::Result<()> {
    exchange.sink_body()?;
    let cookie = exchange.head().fields.first("cookie").unwrap_or_default().to_owned();
    match cookie.as_str() {
        "session=good" => {
            let fields =
                ["X-User: ann", "X-Groups: a", "X-Groups: b", "Set-Cookie: s=1", "X-Own: 1"];
            exchange.answer(200, &fields, "")
        }
        "session=broken" => exchange.answer(500, &[], "oops"),
        _ => exchange.answer(401, &["WWW-Authenticate: Basic", "X-Own: 1"], "who are you?\n"),
    }
}

/// The outcome counts of the filter `login`.
fn outcome(gateway: &Sluice, outcome: &str) -> u64 {
    let labels = format!("{{filter=\"login\",outcome=\"{outcome}\"}}");
    metric(&gateway.admin(), &format!("sluice_filter_outcomes_total{labels}"))
}

fn gateway(service: &str, options: &str, origin: &Origin) -> Sluice {
    Sluice::start(&config(&format!(
        "[filter.login.external_auth]\nupstream = \"{service}\"\n{options}\n\
         [[route]]\nproxy = \"http://{}\"\nfilters = \"login\"\n",
        origin.address()
    )))
}

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let service = Origin::start(login);
    let origin = Origin::start(behaviour::echo);
    let words = [("127.0.0.1:9100", service.address()), ("127.0.0.1:9001", origin.address())];
    let gateway = Sluice::start(&page_example("external_auth.md", &words, ""));
    let good = ["-H", "Cookie: session=good", "-H", "x-user: root", "-H", "X-GROUPS: root"];
    let mut cookies = 0;
    for ask in [ask, ask_http2] {
        let reply = ask(&gateway, "/a?b=c", &good);
        let text = reply.content.to_lowercase();
        assert_eq!(reply.status, 200);
        cookies += reply.values("set-cookie").iter().filter(|value| **value == "s=1").count();
        assert!(
            text.contains("x-user: ann") && text.contains("x-groups: a\nx-groups: b"),
            "{text}"
        );
        assert!(!text.contains("root") && !text.contains("x-own"), "{text}");
    }
    // Each worker asks once.
    let asked = service.requests();
    assert!(asked.len() <= 2, "{asked:?}");
    assert_eq!(cookies, asked.len(), "a cookie is for the client whose request was asked for");
    let head = &asked[0];
    assert_eq!((head.method.as_str(), head.target.as_str()), ("GET", "/verify"));
    let field = |name| head.fields.first(name).unwrap_or_default();
    assert_eq!(field("x-forwarded-uri"), "/a?b=c");
    assert_eq!((field("x-forwarded-method"), field("x-forwarded-for")), ("GET", "127.0.0.1"));
    assert_eq!((field("x-user"), field("x-groups")), ("", ""), "what a client says of itself");
    let reply = ask_both(&gateway, "/x y?".replace(' ', "").as_str(), &[], &["www-authenticate"]);
    assert_eq!((reply.status, reply.content.as_str()), (401, "who are you?\n"));
    assert_eq!((reply.value("www-authenticate"), reply.value("x-own")), ("Basic", ""));
    let page = ["-H", "Accept: text/html,*/*"];
    let reply = ask_both(&gateway, "/p?q=1", &page, &["location"]);
    assert_eq!(reply.status, 302);
    assert_eq!(reply.value("location"), "https://login.example/?back=%2Fp%3Fq%3D1");
    let known = outcome(&gateway, "allowed") + outcome(&gateway, "allowed_known");
    assert_eq!((known, outcome(&gateway, "denied")), (2, 4));
    gateway.stop();
}

#[test]
fn forwarded_fields_are_the_gateways_own() {
    let service = Origin::start(login);
    let origin = Origin::start(behaviour::fixed(200, ""));
    let gateway = gateway(
        &format!("http://{}", service.address()),
        "send = [\"cookie\", \"x-a*\"]\n\
         add = { \"x-path\" = \"{request.path}\", \"x-evil\" = \"{request.parameter.v}\" }",
        &origin,
    );
    let forged = [
        "-H",
        "Cookie: session=good",
        "-H",
        "X-Forwarded-For: 6.6.6.6",
        "-H",
        "X-Forwarded-Uri: /evil",
        "-H",
        "X-Forwarded-Method: PUT",
        "-H",
        "X-Abc: 1",
        "-H",
        "X-B: 2",
        "-H",
        "X-Path: /evil",
    ];
    let path = "/p?v=a%0d%0aX-Injected:%201";
    assert_eq!(ask_both(&gateway, path, &forged, &[]).status, 200);
    for head in service.requests() {
        let field = |name: &str| head.fields.all(name).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(field("x-forwarded-for"), ["127.0.0.1"]);
        assert_eq!(
            (field("x-forwarded-uri"), field("x-forwarded-method")),
            (vec![path.to_owned()], vec!["GET".into()])
        );
        assert_eq!((field("x-abc"), field("x-b")), (vec!["1".into()], vec![]));
        assert_eq!((field("x-path"), field("x-injected")), (vec!["/p".into()], vec![]));
        assert_eq!(field("x-evil").len(), 1);
    }
    gateway.stop();
}

#[test]
fn the_requests_own_path_can_be_asked_for() {
    let service = Origin::start(behaviour::fixed(204, ""));
    let origin = Origin::start(behaviour::echo);
    let options = "protocol = \"prefix\"\npath = \"/auth/\"";
    let gateway = gateway(&format!("http://{}", service.address()), options, &origin);
    assert_eq!(ask(&gateway, "/a/b?c", &["-X", "DELETE", "-H", "Host: shop.example"]).status, 200);
    let head = service.last_request();
    assert_eq!((head.method.as_str(), head.target.as_str()), ("DELETE", "/auth/a/b?c"));
    assert_eq!(head.fields.first("host"), Some("shop.example"));
    gateway.stop();
}

#[test]
fn content_is_shown_and_goes_on_to_the_origin() {
    let service = Origin::start(|exchange: &mut Exchange| {
        let body = exchange.read_body()?;
        let partial =
            exchange.head().fields.first("x-auth-partial-body").unwrap_or("false").to_owned();
        let seen = format!("X-Seen: {} {partial}", String::from_utf8_lossy(&body.bytes));
        exchange.answer(200, &[&seen], "")
    });
    let origin = Origin::start(|exchange: &mut Exchange| {
        let body = exchange.read_body()?.bytes;
        let seen = exchange.head().fields.first("x-seen").unwrap_or_default().to_owned();
        let text = format!("{seen}|{}", String::from_utf8_lossy(&body));
        exchange.answer(200, &[], text)
    });
    let service = format!("http://{}", service.address());
    let large = "x".repeat(100_000);
    let chunked = ["-H", "Transfer-Encoding: chunked"];
    for (body, content, expected) in [
        ("partial", "12345", "12345 false|12345".to_owned()),
        ("partial", "1234567890abc", "1234567890 true|1234567890abc".to_owned()),
        ("full", "1234567890", "1234567890 false|1234567890".to_owned()),
        ("partial", &large, format!("xxxxxxxxxx true|{large}")),
    ] {
        let options =
            format!("method = \"POST\"\nbody = \"{body}\"\nbody_limit = 10\nup = [\"x-seen\"]");
        let gateway = gateway(&service, &options, &origin);
        for extra in [&[][..], &chunked] {
            let sent = [&["-d", content], extra].concat();
            let reply = ask(&gateway, "/", &sent);
            assert!(reply.status == 200 && reply.content == expected, "{body}: {}", reply.status);
            // Over HTTP/2 there are no chunks to ask for.
            assert!(ask_http2(&gateway, "/", &["-d", content]).content == expected);
        }
        gateway.stop();
    }
    let gateway = gateway(&service, "body = \"full\"\nbody_limit = 10", &origin);
    for extra in [&[][..], &chunked] {
        let sent = [&["-d", "12345678901"], extra].concat();
        assert_eq!(ask(&gateway, "/", &sent).status, 413);
    }
    assert_eq!(outcome(&gateway, "too_large"), 2);
    gateway.stop();
}

#[test]
fn without_a_decision_requests_are_refused_unless_somebody_says_otherwise() {
    let origin = Origin::start(behaviour::fixed(200, "let in"));
    let service = Origin::start(login);
    let broken = ["-H", "Cookie: session=broken"];
    let refusing = gateway(&format!("http://{}", service.address()), "attempts = 3", &origin);
    let reply = ask_both(&refusing, "/", &broken, &[]);
    assert_eq!(reply.status, 503);
    assert!(!reply.content.contains("oops"), "{}", reply.content);
    assert_eq!((service.requests().len(), outcome(&refusing, "failed")), (6, 2));
    refusing.stop();
    // Nobody listens there any more.
    let gone = Origin::start(login).address().to_owned();
    let options = "on_error = \"pass\"\ntimeout = \"500ms\"";
    let passing = gateway(&format!("http://{gone}"), options, &origin);
    assert_eq!(ask_both(&passing, "/", &[], &[]).content, "let in");
    assert_eq!(outcome(&passing, "passed_on_error"), 2);
    passing.stop();
    let gate = Gate::new();
    let mute = Origin::start(behaviour::gated(gate.clone(), login));
    let options = "timeout = \"100ms\"\nerror_status = 418";
    let late = gateway(&format!("http://{}", mute.address()), options, &origin);
    assert_eq!(ask(&late, "/", &[]).status, 418);
    assert_eq!(outcome(&late, "timed_out"), 1);
    gate.open();
    late.stop();
}

#[test]
fn decisions_hold_as_long_as_they_may_and_are_asked_for_once() {
    let gate = Gate::new();
    let (asked, status) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU16::new(200)));
    let (count, answer, door) = (Arc::clone(&asked), Arc::clone(&status), gate.clone());
    let service = Origin::start(move |exchange: &mut Exchange| {
        exchange.sink_body()?;
        count.fetch_add(1, Ordering::SeqCst);
        door.pass();
        let store = exchange.head().target.contains("no-store");
        let fields: &[&str] = if store { &["Cache-Control: no-store"] } else { &[] };
        exchange.answer(answer.load(Ordering::SeqCst), fields, "said")
    });
    let origin = Origin::start(behaviour::fixed(200, "ok"));
    let text = format!(
        "workers = 1\n{}",
        config(&format!(
            "[filter.login.external_auth]\nupstream = \"http://{}\"\nprotocol = \"prefix\"\n\
             cache = {{ key = \"{{request.header.k}}\", ttl = \"1h\", negative_ttl = \"1h\" }}\n\
             [[route]]\nproxy = \"http://{}\"\nfilters = \"login\"\n",
            service.address(),
            origin.address()
        ))
    );
    let gateway = Sluice::start(&text);
    std::thread::scope(|scope| {
        let ask = || ask(&gateway, "/", &["-H", "K: 1"]).status;
        let all: Vec<_> = (0..5).map(|_| scope.spawn(ask)).collect();
        assert!(service.wait_for_requests(1));
        gate.open();
        assert!(all.into_iter().all(|one| one.join().unwrap() == 200));
    });
    assert_eq!(asked.load(Ordering::SeqCst), 1, "the others waited for the first");
    for _ in 0..3 {
        assert_eq!(ask(&gateway, "/no-store", &["-H", "K: 2"]).status, 200);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 4, "not to be remembered");
    status.store(403, Ordering::SeqCst);
    assert_eq!(ask_both(&gateway, "/", &["-H", "K: 1"], &[]).status, 200);
    for _ in 0..3 {
        let reply = ask(&gateway, "/", &["-H", "K: 3"]);
        assert_eq!((reply.status, reply.content.as_str()), (403, "said"));
    }
    assert_eq!(asked.load(Ordering::SeqCst), 5);
    assert_eq!(outcome(&gateway, "denied_known"), 2);
    // A reload that leaves the filter alone leaves what it knows.
    gateway.reload(&format!("{text}\n# changed\n"));
    assert_eq!(ask(&gateway, "/", &["-H", "K: 3"]).status, 403);
    assert_eq!(asked.load(Ordering::SeqCst), 5);
    gateway.stop();
}

/// A field of a message of protocol buffers: its number and bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut length = content.len();
    let mut bytes = vec![number << 3 | 2];
    while length >= 128 {
        bytes.push(u8::try_from(length % 128).unwrap() | 128);
        length /= 128;
    }
    bytes.push(u8::try_from(length).unwrap());
    [&bytes, content].concat()
}

fn header(name: &str, value: &str) -> Vec<u8> {
    field(1, &[field(1, name.as_bytes()), field(2, value.as_bytes())].concat())
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&[0][..], &u32::try_from(message.len()).unwrap().to_be_bytes(), message].concat()
}

#[test]
fn envoys_call_is_understood() {
    let service = Http2Origin::start(|request| {
        let text = String::from_utf8_lossy(&request.content).into_owned();
        let message = if text.contains("let-me-in") {
            let set = [
                header("x-user", "bob"),
                header("content-length", "5"),
                header("x-bad", "a\r\nb: c"),
            ];
            let set = set.iter().flat_map(|option| field(2, option)).collect::<Vec<_>>();
            let allowed =
                [set, field(5, b"authorization"), field(6, &header("x-down", "1"))].concat();
            field(3, &allowed)
        } else if text.contains("rubbish") {
            vec![0xff; 9]
        } else {
            // status { code: 7 }, denied { status { code: 429 }, headers, body }
            let denied =
                [vec![10, 3, 8, 0xad, 3], field(2, &header("x-why", "no")), field(3, b"no\n")];
            [vec![10, 2, 8, 7], field(2, &denied.concat())].concat()
        };
        let fields = vec![("content-type", "application/grpc")];
        Deed::Answer(200, fields, framed(&message), vec![("grpc-status", "0")])
    });
    let origin = Origin::start(behaviour::echo);
    let gateway = Sluice::start(&config(&format!(
        "[upstream.auth]\nservers = [\"{}\"]\nprotocol = \"http2\"\n\
         [filter.login.external_auth]\nupstream = \"auth\"\nprotocol = \"grpc\"\nuser = \"x-user\"\n\
         context = {{ where = \"edge-1\" }}\n\
         [[route]]\nproxy = \"http://{}\"\nfilters = \"login\"\n",
        service.address(),
        origin.address()
    )));
    for ask in [ask, ask_http2] {
        let reply =
            ask(&gateway, "/a?b", &["-H", "Authorization: let-me-in", "-H", "X-User: root"]);
        let text = reply.content.to_lowercase();
        assert_eq!((reply.status, reply.value("x-down")), (200, "1"), "{text}");
        assert!(text.contains("x-user: bob") && !text.contains("root"), "{text}");
        assert!(!text.contains("authorization") && !text.contains("x-bad"), "{text}");
    }
    let seen = service.seen();
    let call = &seen[0];
    assert_eq!(call.path, "/envoy.service.auth.v3.Authorization/Check");
    let told = String::from_utf8_lossy(&call.content).into_owned();
    for word in ["edge-1", "127.0.0.1", "/a?b", "let-me-in", "GET"] {
        assert!(told.contains(word), "{word}");
    }
    let reply = ask_both(&gateway, "/", &[], &["x-why"]);
    assert_eq!((reply.status, reply.value("x-why"), reply.content.as_str()), (429, "no", "no\n"));
    assert_eq!(ask_both(&gateway, "/", &["-H", "A: rubbish"], &[]).status, 503);
    gateway.stop();
}

/// A service that says by the path what its response is like; `asked` counts.
fn speaking(asked: &Arc<AtomicUsize>) -> Origin {
    let count = Arc::clone(asked);
    Origin::start(move |exchange: &mut Exchange| {
        exchange.sink_body()?;
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        let cookie = format!("Set-Cookie: for={number}");
        let target = exchange.head().target.clone();
        let (status, fields): (u16, &[&str]) = match target.as_str() {
            "/private" => (200, &["Cache-Control: private, max-age=60"]),
            "/stale" => (200, &["Expires: 0"]),
            "/varies" => (200, &["Vary: X-Tenant"]),
            "/denied" => (403, &["Cache-Control: no-store"]),
            "/denied-cookie" => (403, &[&cookie]),
            "/denied-page" => (401, &[]),
            _ => (200, &[&cookie, "X-Shared: yes"]),
        };
        exchange.answer(status, fields, "said")
    })
}

#[test]
fn what_is_for_one_client_is_not_given_to_others() {
    let asked = Arc::new(AtomicUsize::new(0));
    let service = speaking(&asked);
    let origin = Origin::start(behaviour::fixed(200, "ok"));
    let gateway = Sluice::start(&format!(
        "workers = 1\n{}",
        config(&format!(
            "[filter.login.external_auth]\nupstream = \"http://{}\"\nprotocol = \"prefix\"\n\
             down = [\"set-cookie\", \"x-shared\"]\n\
             sign_in = \"https://login.example/?back={{url_encode(request.header.x-back)}}\"\n\
             cache = {{ key = \"{{request.header.k}}{{request.path}}\", ttl = \"1h\", \
                        negative_ttl = \"1h\" }}\n\
             [[route]]\nproxy = \"http://{}\"\nfilters = \"login\"\n",
            service.address(),
            origin.address()
        ))
    ));
    let count = || asked.swap(0, Ordering::SeqCst);
    let first = ask(&gateway, "/cookie", &["-H", "K: 1"]);
    assert_eq!((first.value("set-cookie"), first.value("x-shared")), ("for=1", "yes"));
    let second = ask(&gateway, "/cookie", &["-H", "K: 1"]);
    assert_eq!((second.value("set-cookie"), second.value("x-shared")), ("", "yes"));
    assert_eq!(count(), 1);
    for path in ["/private", "/stale", "/denied", "/denied-cookie"] {
        let replies = [(); 2].map(|()| ask(&gateway, path, &["-H", "K: 1"]));
        assert_eq!(count(), 2, "{path}");
        assert_eq!(replies[0].status, replies[1].status);
        if path == "/denied-cookie" {
            assert_eq!(replies[1].value("set-cookie"), "for=2");
        }
    }
    // A decision that varies is for those who say the same.
    for (tenant, expected) in [("a", 1), ("a", 0), ("b", 1), ("a", 1)] {
        let tenant = format!("X-Tenant: {tenant}");
        assert_eq!(ask(&gateway, "/varies", &["-H", "K: 1", "-H", &tenant]).status, 200);
        assert_eq!(count(), expected, "{tenant}");
    }
    // Each is sent where it wanted to go, not where the first one did.
    for back in ["/one", "/other"] {
        let header = format!("X-Back: {back}");
        let page = ["-H", "K: 1", "-H", "Accept: text/html", "-H", &header];
        let reply = ask(&gateway, "/denied-page", &page);
        let place = format!("https://login.example/?back={}", back.replace('/', "%2F"));
        assert_eq!((reply.status, reply.value("location")), (302, place.as_str()));
    }
    assert_eq!(count(), 1, "and the refusal itself is remembered");
    // The parts of a key are told apart: a token cannot hold a part of the path.
    assert_eq!(ask(&gateway, "/x/y", &["-H", "K: t"]).status, 200);
    assert_eq!(ask(&gateway, "/y", &["-H", "K: t/x"]).status, 200);
    assert_eq!(count(), 2);
    gateway.stop();
}
