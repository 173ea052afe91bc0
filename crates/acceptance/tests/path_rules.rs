//! What is compared of a path is what everybody sees of it, and what `path_rules` change about that.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sluice_acceptance::http2::Http2Client;
use sluice_acceptance::{PREAMBLE, config, metric};
use sluice_testkit::{Origin, Sluice, ask, behaviour, run};

fn status(gateway: &Sluice, target: &str) -> u16 {
    let request = format!("GET {target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
    ask(&gateway.address("web"), &request).status
}

/// The target that the origin gets.
fn sent(gateway: &Sluice, origin: &Origin, target: &str) -> String {
    let before = origin.requests().len();
    assert_eq!(status(gateway, target), 200, "{target}");
    let requests = origin.requests();
    assert_eq!(requests.len(), before + 1, "{target}");
    requests.last().unwrap().target.clone()
}

/// A gateway that passes everything to an origin. `rules` are the listener's, `routes` further ones in front.
fn passing(origin: &Origin, rules: &str, routes: &str) -> Sluice {
    let address = origin.address();
    Sluice::start(&format!(
        "workers = 1\n{PREAMBLE}path_rules = {{ {rules} }}\n{routes}\n\
         [[route]]\nname = \"rest\"\nproxy = \"http://{address}\"\n"
    ))
}

#[test]
fn upstreams_get_the_normal_form() {
    let origin = Origin::start(behaviour::fixed(200, ""));
    let gateway = passing(&origin, "", "");
    let mut http2 = Http2Client::connect(&gateway.address("web"));
    for (target, expected) in [
        ("/a/b?c=/../%2f;\\", "/a/b?c=/../%2f;\\"),
        ("/x/../a//b/./%63?d", "/a/b/c?d"),
        ("/a/%2e%2e?", "/?"),
        ("/caf%c3%a9", "/caf%C3%A9"),
        ("/%40a;b=c/(d)", "/%40a;b=c/(d)"),
        ("/x/..;y/a", "/a"),
    ] {
        for target in [target.to_owned(), format!("http://a.example{target}")] {
            assert_eq!(sent(&gateway, &origin, &target), expected);
        }
        assert_eq!(http2.get(target).status(), 200);
        assert_eq!(origin.requests().last().unwrap().target, expected);
    }
    gateway.stop();
}

#[test]
fn what_is_refused_is_told_in_log_and_metrics_and_harms_no_connection() {
    let origin = Origin::start(behaviour::fixed(200, ""));
    let gateway = passing(&origin, "", "");
    let mut client = sluice_testkit::ByteScript::connect(&gateway.address("web"));
    client.send("GET /a%2Fb HTTP/1.1\r\nHost: a\r\n\r\nGET /c HTTP/1.1\r\nHost: a\r\n\r\n");
    let answers = [400, 200].map(|_| client.read_response(sluice_testkit::Asked::Get).unwrap());
    assert_eq!(answers.map(|answer| answer.status), [400, 200]);
    let line = gateway.wait_for_line("path_refused");
    assert!(line.contains("an escaped slash in \"/a%2Fb\""), "{line}");
    let sample = "sluice_faults_total{side=\"downstream\",reason=\"path_refused\"}";
    assert_eq!(metric(&gateway.admin(), sample), 1);
    assert_eq!(origin.requests().len(), 1);
    gateway.stop();
}

/// Conditions, templates, redirects, scripts and the log see the path that was compared, or the one that is sent.
#[test]
fn everybody_sees_the_same() {
    let origin = Origin::start(behaviour::fixed(200, "ok"));
    let address = origin.address();
    let gateway = Sluice::start(&format!(
        "workers = 1\n[admin]\naddress = \"127.0.0.1:0\"\n[log]\n\
         access = \"{{request.path}} {{request.target}} {{request.raw_target}} {{response.status}}\"\n\
         [[listener]]\nname = \"web\"\naddress = \"127.0.0.1:0\"\n\
         [[route]]\npath = \"/away/*\"\nredirect = \"https://b.example{{path}}{{query}}\"\n\
         [[route]]\nproxy = \"http://{address}\"\nfilters = [\n\
         {{ respond = {{ status = 403 }}, when = \"request.path starts_with '/admin/'\" }},\n\
         {{ headers = {{ request = {{ set = {{ x-path = \"{{request.path}}\", x-target = \"{{request.target}}\" }} }} }} }} ]\n"
    ));
    for target in ["/x/..;/admin/secret", "/admin;x/secret", "//admin/secret", "/%61dmin/"] {
        assert_eq!(status(&gateway, target), 403, "{target}");
    }
    assert_eq!(sent(&gateway, &origin, "/y/../a;b/%40?q"), "/a;b/%40?q");
    let request = origin.requests().last().unwrap().clone();
    assert_eq!(request.fields.first("x-path"), Some("/a/@"));
    assert_eq!(request.fields.first("x-target"), Some("/a;b/%40?q"));
    let moved = ask(&gateway.address("web"), "GET /x/..//away/%7Ea HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(moved.fields.first("location"), Some("https://b.example/away/~a"));
    let log = gateway.stdout().wait_after(0, "/y/../a;b").unwrap();
    assert_eq!(log, "/a/@ /a;b/%40?q /y/../a;b/%40?q 200");
    gateway.stop();
}

#[test]
fn an_auth_service_is_asked_about_what_is_sent() {
    let auth = Origin::start(behaviour::fixed(200, ""));
    let origin = Origin::start(behaviour::fixed(200, ""));
    let gateway = Sluice::start(&config(&format!(
        "[upstream.auth]\nservers = [\"{}\"]\n[[route]]\nproxy = \"http://{}\"\n\
         filters = [{{ external_auth = {{ upstream = \"auth\" }} }}]\n",
        auth.address(),
        origin.address()
    )));
    for target in ["/public/..;/admin/%73ecret?x", "//admin//secret?x"] {
        let target = sent(&gateway, &origin, target);
        assert_eq!(target, "/admin/secret?x");
        let asked = auth.requests().last().unwrap().clone();
        assert_eq!(asked.fields.first("x-forwarded-uri"), Some(target.as_str()));
    }
    gateway.stop();
}

#[test]
fn a_route_may_keep_what_its_upstream_needs() {
    let origin = Origin::start(behaviour::fixed(200, ""));
    let address = origin.address();
    let route = format!(
        "[[route]]\npath = \"/bucket/private/*\"\nrespond = {{ status = 403 }}\n\
         [[route]]\npath = \"/bucket/*\"\nproxy = \"http://{address}\"\n\
         path_rules = {{ escaped_slashes = \"keep\", repeated_slashes = \"keep\" }}\n\
         [[route]]\npath = \"/projects/{{id}}/issues\"\nproxy = \"http://{address}\"\n\
         path_rules = {{ escaped_slashes = \"keep\" }}\n\
         filters = [{{ rewrite = {{ strip_prefix = \"/projects\", add_prefix = \"/v4\" }} }}]\n"
    );
    let gateway = passing(&origin, "", &route);
    for (target, expected) in [
        ("/bucket/a%2fb//c", "/bucket/a%2Fb//c"),
        ("/bucket//a/../b", "/bucket//b"),
        ("/projects/group%2fname/issues?x", "/v4/group%2Fname/issues?x"),
        ("/other//a", "/other/a"),
    ] {
        assert_eq!(sent(&gateway, &origin, target), expected);
    }
    let before = origin.requests().len();
    for (target, expected) in [
        ("/other/a%2fb", 400),
        ("/bucket/a\\b", 400),
        ("/bucket/..%2fother", 400),
        ("/bucket/x%2f..%2f..%2fother", 400),
        ("/bucket%2fx", 400),
        ("/bucket//private/x", 403),
        ("/bucket/%70rivate/x", 403),
        ("/bucket/x/../private//x", 403),
    ] {
        assert_eq!(status(&gateway, target), expected, "{target}");
    }
    assert_eq!(origin.requests().len(), before);
    gateway.stop();
}

#[test]
fn listeners_read_paths_as_they_are_told() {
    let origin = Origin::start(behaviour::fixed(200, ""));
    let admin = "[[route]]\npath = \"/Admin/*\"\nrespond = { status = 403 }\n";
    for (rules, rows) in [
        (
            "escaped_slashes = \"decode\", backslashes = \"decode\"",
            &[
                ("/a%2f..%2fb", Ok("/b")),
                ("/a\\b%5cc", Ok("/a/b/c")),
                ("/x%2f..\\Admin%2fy", Err(403)),
            ][..],
        ),
        ("escaped_slashes = \"keep\"", &[("/a%2fb", Ok("/a%2Fb")), ("/a%5cb", Err(400))]),
        ("backslashes = \"keep\", control_characters = \"keep\"", &[("/a\\b%0a", Ok("/a\\b%0A"))]),
        ("dot_segments = \"keep\"", &[("/a/../b", Ok("/a/../b")), ("/x/../Admin/y", Err(403))]),
        ("dot_segments = \"refuse\"", &[("/a/%2e/b", Err(400)), ("/a/.b", Ok("/a/.b"))]),
        ("repeated_slashes = \"keep\"", &[("//a//b/", Ok("/a//b/")), ("//Admin//x", Err(403))]),
        ("repeated_slashes = \"refuse\"", &[("//a", Err(400)), ("/a/", Ok("/a/"))]),
        ("parameters = \"strip\"", &[("/a;b/c;d", Ok("/a/c")), ("/Admin;x/y", Err(403))]),
        ("parameters = \"refuse\"", &[("/a;b", Err(400)), ("/a%3Bb?;", Ok("/a%3Bb?;"))]),
        ("parameters = \"keep\"", &[("/Admin;x/y", Ok("/Admin;x/y"))]),
        ("case_sensitive = false", &[("/ADMIN/x", Err(403)), ("/aDMINs/X%4a", Ok("/aDMINs/XJ"))]),
        ("case_sensitive = true", &[("/ADMIN/x", Ok("/ADMIN/x")), ("/Admin/x", Err(403))]),
    ] {
        let gateway = passing(&origin, rules, admin);
        for &(target, expected) in rows {
            match expected {
                Ok(expected) => assert_eq!(sent(&gateway, &origin, target), expected, "{rules}"),
                Err(expected) => assert_eq!(status(&gateway, target), expected, "{target} {rules}"),
            }
        }
        gateway.stop();
    }
}

#[test]
fn a_route_cannot_have_what_its_listener_has_changed() {
    for (listener, route, complaint) in [
        ("escaped_slashes = \"decode\"", "escaped_slashes = \"keep\"", "decodes them"),
        ("backslashes = \"decode\"", "backslashes = \"keep\"", "decodes them"),
        ("parameters = \"keep\"", "parameters = \"strip\"", "keeps and compares them"),
        ("", "escaped_slashes = \"decode\"", "decode"),
        ("", "parameters = \"keep\"", "keep"),
    ] {
        let scratch = sluice_testkit::Scratch::new();
        let text = format!(
            "{PREAMBLE}path_rules = {{ {listener} }}\n[[route]]\nrespond = \"x\"\npath_rules = {{ {route} }}\n"
        );
        let path = scratch.write("sluice.toml", text);
        let finished = run(&["check", "-c", path.to_str().unwrap()], "");
        assert_eq!(finished.code, Some(1), "{listener} {route}");
        assert!(finished.stderr.contains(complaint), "{}", finished.stderr);
    }
}
