//! The pages of the admin listener.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use sluice_acceptance::{config, eventually, upstream};
use sluice_testkit::{Origin, Sluice, ask, behaviour, get};

#[test]
fn each_page_answers_get_and_head_and_nothing_else() {
    let sluice = Sluice::start(&config("[[route]]\nrespond = \"x\"\n"));
    let admin = sluice.admin();
    let pages = [
        ("/", "text/html; charset=utf-8", "Sluice"),
        ("/healthz", "text/plain; charset=utf-8", "ok"),
        ("/readyz", "text/plain; charset=utf-8", "ready"),
        ("/metrics", "text/plain; version=0.0.4; charset=utf-8", "# TYPE sluice_workers gauge"),
        ("/config", "application/json", "\"generation\": 1"),
        ("/upstreams", "application/json", "\"upstreams\": []"),
    ];
    for (page, media, part) in pages {
        let answer = get(&admin, page);
        assert_eq!(
            (answer.status, answer.fields.first("content-type")),
            (200, Some(media)),
            "{page}"
        );
        assert!(answer.text().contains(part), "{page}: {}", answer.text());
        let head = format!("HEAD {page} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert_eq!(ask(&admin, &head).status, 200, "{page}");
        let post = format!(
            "POST {page} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        let refused = ask(&admin, &post);
        assert_eq!((refused.status, refused.fields.first("allow")), (405, Some("GET, HEAD")));
    }
    assert_eq!(get(&admin, "/nothing").status, 404);
    // Who watches leaves no trace in what is watched.
    let metrics = get(&admin, "/metrics").text();
    assert!(!metrics.contains("admin") && !metrics.contains("/healthz"), "{metrics}");
    sluice.stop();
}

#[test]
fn the_configuration_is_shown_without_its_secrets() {
    let text = r#"
[[route]]
path = "/"
header = { x-partner = "hush" }
query = { code = "hush" }
respond = { headers = { x-tenant = "hush" }, body = "hush" }
[[route]]
proxy = "http://127.0.0.1:1"
filters = [
    { when = "request.header.x-code == 'hush'", headers = { request = { set = { x-code = "hush" } } } },
    { body_replace = { rules = [{ text = "hush", with = "hush" }] } },
    { lua = { script = "function request_head() local x = 'hush' end" } },
]
"#;
    let sluice = Sluice::start(&config(text));
    let shown = get(&sluice.admin(), "/config").text();
    assert!(shown.contains("x-tenant") && !shown.contains("hush"), "{shown}");
    assert!(shown.contains("\"proxy\": \"http://127.0.0.1:1\""), "{shown}");
    assert!(shown.contains("sluice.toml"), "{shown}");
    let web = sluice.address("web");
    let url = format!("\"url\": \"{}{web}\"", if web.contains("://") { "" } else { "http://" });
    assert!(shown.contains(&url), "{url} in {shown}");
    sluice.stop();
}

#[test]
fn upstreams_are_counted_by_server() {
    let (one, two) =
        (Origin::start(behaviour::fixed(200, "one")), Origin::start(behaviour::fixed(200, "two")));
    let text = format!(
        "[upstream.api]\nservers = [\"{}\", {{ address = \"{}\", weight = 3 }}]\n\n\
         [[route]]\npath = \"/\"\nproxy = \"api\"\n",
        one.address(),
        two.address()
    );
    let sluice = Sluice::start(&format!("workers = 1\n{}", config(&text)));
    for _ in 0..8 {
        assert_eq!(get(&sluice.address("web"), "/").status, 200);
    }
    let shown = || -> String {
        get(&sluice.admin(), "/upstreams").text().split_whitespace().collect::<Vec<_>>().concat()
    };
    // A request is under way until its answer was passed on, which the client may see first.
    assert!(eventually(|| !shown().contains("\"active\":1")), "{}", shown());
    let shown = shown();
    let server = |address: &str, weight: u32, requests: u32| {
        format!(
            "{{\"address\":\"{address}\",\"weight\":{weight},\"resolved\":[{{\"address\":\"{address}\",\
             \"requests\":{requests},\"failures\":0,\"active\":0,\"available\":true,\"out\":[]}}]}}"
        )
    };
    assert!(shown.contains("\"name\":\"api\",\"requests\":8,\"failures\":0"), "{shown}");
    assert!(shown.contains(&server(one.address(), 1, 2)), "{shown}");
    assert!(shown.contains(&server(two.address(), 3, 6)), "{shown}");
    sluice.stop();
}

#[test]
fn an_address_in_use_matters_only_if_it_was_chosen() {
    let holder = Origin::start(behaviour::fixed(200, "mine"));
    let text = format!(
        "[admin]\naddress = \"{}\"\n[[listener]]\naddress = \"127.0.0.1:0\"\n",
        holder.address()
    );
    let refused = Sluice::try_start(&text).unwrap_err();
    assert_eq!(refused.code, Some(3), "{refused}");
    let said = refused.stderr.join("\n");
    assert!(said.contains("admin.address: cannot listen on") && said.contains("in use"), "{said}");

    let text = format!(
        "[admin]\naddress = \"off\"\n[[listener]]\nname = \"a\"\naddress = \"{}\"\n\
         [[listener]]\nname = \"b\"\naddress = \"203.0.113.1:1\"\n",
        holder.address()
    );
    let refused = Sluice::try_start(&text).unwrap_err();
    assert_eq!(refused.code, Some(3), "{refused}");
    let said = refused.stderr.join("\n");
    for part in ["listener \"a\"", "listener \"b\"", "no such address"] {
        assert!(said.contains(part), "{part} in {said}");
    }
}

#[test]
fn two_programs_do_not_share_a_port_without_a_word() {
    let first = Sluice::start(&config("[[route]]\nrespond = \"first\"\n"));
    let web = first.address("web");
    let text = format!(
        "[admin]\naddress = \"off\"\n[[listener]]\naddress = \"{}\"\n",
        web.trim_start_matches("http://")
    );
    let refused = Sluice::try_start(&text).unwrap_err();
    assert_eq!(refused.code, Some(3), "{refused}");
    first.stop();
}

#[test]
fn the_health_route_tells_how_the_gateway_is() {
    let text = format!(
        "{}[[route]]\npath = \"/\"\nproxy = \"api\"\n[[route]]\npath = \"/health\"\nhealth = true\n",
        upstream("api", "127.0.0.1:1")
    );
    let sluice = Sluice::start(&config(&text));
    let answer = get(&sluice.address("web"), "/health");
    assert_eq!(answer.fields.first("content-type"), Some("application/json"));
    for part in ["\"status\":\"ok\"", "\"generation\":1", "\"listeners\":[\"web\"]", "\"version\""]
    {
        assert!(answer.text().contains(part), "{part} in {}", answer.text());
    }
    sluice.stop();
}

#[test]
fn web_pages_of_others_read_nothing() {
    let admin =
        "[admin]\naddress = \"127.0.0.1:0\"\nhosts = [\"gateway.example\", \"*.pods.example\"]\n";
    let text = config("[[route]]\nrespond = \"x\"\n");
    let (before, rest) = text.split_once("[admin]\naddress = \"127.0.0.1:0\"\n").unwrap();
    let sluice = Sluice::start(&format!("{before}{admin}{rest}"));
    let address = sluice.admin();
    let port = address.rsplit(':').next().unwrap();
    let status = |host: &str| {
        let request = format!("GET /config HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        ask(&address, &request).status
    };
    // DNS rebinding: a page of this name is of the same origin as what the name leads to now.
    for host in ["evil.example", "evil.example:9180", "localhost.evil.example", "test"] {
        assert_eq!(status(host), 421, "{host}");
    }
    let own = [
        "localhost".to_owned(),
        format!("localhost:{port}"),
        address.clone(),
        "[::1]".to_owned(),
        "Gateway.Example:80".to_owned(),
        "a.pods.example".to_owned(),
    ];
    for host in own {
        assert_eq!(status(&host), 200, "{host}");
    }
    let request =
        "POST /caches/x/purge?all HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(ask(&address, request).status, 421);
    assert_eq!(ask(&address, "GET /healthz HTTP/1.0\r\n\r\n").status, 200, "no browser");
    sluice.stop();
}

#[test]
fn idle_connections_keep_no_probe_out() {
    let sluice = Sluice::start(&config("[[route]]\nrespond = \"x\"\n"));
    let admin = sluice.admin();
    let mut idle = Vec::new();
    for round in 0..2 {
        for _ in 0..300 {
            idle.push(std::net::TcpStream::connect(&admin).unwrap());
        }
        assert_eq!(get(&admin, "/healthz").status, 200, "round {round}");
        assert_eq!(get(&admin, "/metrics").status, 200, "round {round}");
    }
    sluice.stop();
}

#[test]
fn metrics_have_an_address_of_their_own_if_wanted() {
    let text = config("[metrics]\naddress = \"127.0.0.1:0\"\n[[route]]\nrespond = \"x\"\n");
    let sluice = Sluice::start(&text);
    let line = sluice.wait_for_line("metrics on ");
    let metrics = line.split("http://").nth(1).unwrap().trim().to_owned();
    assert!(get(&metrics, "/metrics").text().contains("sluice_workers"));
    for path in ["/", "/config", "/upstreams", "/healthz"] {
        assert_eq!(get(&metrics, path).status, 404, "{path}");
    }
    let foreign = "GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_eq!(ask(&metrics, foreign).status, 421);
    assert_eq!(get(&sluice.admin(), "/metrics").status, 200, "it stays there, too");
    sluice.stop();
}
