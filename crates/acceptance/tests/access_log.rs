//! The access log over the life of the program: its forms, its file, what clients cannot do to it.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sluice_acceptance::{eventually, metric};
use sluice_testkit::{
    After, Asked, ByteScript, Origin, Signal, Sluice, State, ask, behaviour, get,
};

/// A gateway with this log section, an own answer at `/` and an origin at `/origin`.
fn logging(log: &str, origin: &str) -> Sluice {
    Sluice::start(&format!(
        "workers = 1\n[admin]\naddress = \"127.0.0.1:0\"\n[log]\n{log}\n\
         [[listener]]\nname = \"web\"\naddress = \"127.0.0.1:0\"\n\
         [upstream.api]\nservers = [\"{origin}\"]\ntimeout = {{ read = \"1s\" }}\n\
         [[route]]\nname = \"own\"\npath = \"/\"\nrespond = \"hello\"\n\
         [[route]]\nname = \"there\"\npath = \"/origin\"\nproxy = \"api\"\nbody_limit = \"4B\"\n"
    ))
}

fn nobody() -> String {
    Origin::start(behaviour::fixed(200, "")).address().to_owned()
}

#[test]
fn the_combined_form_is_what_its_readers_know() {
    let sluice = logging("access = \"combined\"", &nobody());
    let request =
        "GET /?q=1 HTTP/1.1\r\nHost: a\r\nReferer: http://r/\r\nUser-Agent: curl/8\r\n\r\n";
    assert_eq!(ask(&sluice.address("web"), request).text(), "hello");
    let line = sluice.stdout().wait_after(0, "/?q=1").expect("a line");
    let (before, rest) = line.split_once('[').unwrap();
    let (time, after) = rest.split_once("] ").unwrap();
    assert_eq!(before, "127.0.0.1 - - ");
    assert_eq!(time.len(), "10/Oct/2000:13:55:36 +0000".len(), "{line}");
    let (asked, after) = after.split_once("\" ").unwrap();
    assert_eq!(asked, "\"GET /?q=1 HTTP/1.1");
    let parts: Vec<&str> = after.split(' ').collect();
    assert_eq!((parts[0], parts[2], parts[3]), ("200", "\"http://r/\"", "\"curl/8\""));
    assert!(parts[1].parse::<u64>().is_ok(), "{line}");
    assert!(get(&sluice.address("web"), "/").status == 200);
    assert!(sluice.stdout().wait_after(0, "\"GET / HTTP/1.1\"").unwrap().ends_with("\"-\" \"-\""));
    sluice.stop();
}

const FORM: &str = "access = \"{request.method} {request.target} {response.status} {route} \
                    {upstream.name} {upstream.address} {upstream.attempts} {fault}\"";

#[test]
fn faults_and_origins_are_named() {
    let good = Origin::start(behaviour::mirror);
    let silent = Origin::start(behaviour::gated(sluice_testkit::Gate::new(), behaviour::echo));
    let closing = Origin::start(behaviour::close_unanswered);
    let broken = Origin::start(behaviour::cut_short(9, "half", After::Close));
    let strange = Origin::start(behaviour::raw(b"nonsense\r\n\r\n", After::Close));
    let dead = nobody();
    let rows = [
        (good.address(), 200, 1, "-"),
        (silent.address(), 504, 1, "response_timed_out"),
        (closing.address(), 502, 1, "closed"),
        // The status that went out, and why the answer has no end.
        (broken.address(), 200, 1, "closed"),
        (strange.address(), 502, 1, "malformed"),
        (&dead, 502, 2, "connect_failed"),
    ];
    for (origin, status, attempts, fault) in rows {
        let sluice = logging(FORM, origin);
        let mut client = ByteScript::connect(&sluice.address("web"));
        client.send("GET /origin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert_ne!(client.wait_for_end(), State::Open);
        let line = sluice.stdout().wait_after(0, "GET").expect("a line");
        assert_eq!(line, format!("GET /origin {status} there api {origin} {attempts} {fault}"));
        sluice.stop();
    }
    drop(silent);
}

#[test]
fn clients_faults_are_named_too() {
    let origin =
        Origin::start(|exchange: &mut sluice_testkit::Exchange| exchange.sink_body().map(drop));
    let sluice = logging(FORM, origin.address());
    let address = origin.address();
    // What is sent, what ends it, and the line.
    let rows = [
        ("GET /none HTTP/1.1\r\nHost: a\r\n\r\n", "GET /none 404 - - - 0 no_route".to_owned()),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "- - 400 - - - 0 malformed".to_owned()),
        (
            "POST /origin HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
            "POST /origin 413 there - - 0 body_too_large".to_owned(),
        ),
        (
            "POST /origin HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            format!("POST /origin 413 there api {address} 1 body_too_large"),
        ),
        (
            "POST /origin HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nhi",
            format!("POST /origin 499 there api {address} 1 closed"),
        ),
    ];
    for (request, expected) in rows {
        let mark = sluice.stdout().mark();
        let mut client = ByteScript::connect(&sluice.address("web"));
        client.send(request).finish_sending();
        let _ = client.read_to_end();
        let line = sluice.stdout().wait_after(mark, " ").expect("a line");
        assert_eq!(line, expected);
    }
    sluice.stop();
}

/// What clients write to make a line look like something else.
const HOSTILE: &[&str] = &[
    "x\" 200 5 \"-\" \"forged",
    "back\\slash\\\"",
    "tab\there",
    "{\"json\": \"inside\"}",
    "caf\u{e9} \u{202e}reversed",
    "%0d%0aGET / HTTP/1.1",
    "\\x0a\\n",
];

#[test]
fn no_client_forges_a_line() {
    for form in
        ["combined", "json", "{request.target} <{request.header.user-agent}> {response.status}"]
    {
        let sluice = logging(&format!("access = \"{form}\""), &nobody());
        let mut client = ByteScript::connect(&sluice.address("web"));
        for (number, agent) in HOSTILE.iter().enumerate() {
            let request =
                format!("GET /?{number} HTTP/1.1\r\nHost: a\r\nUser-Agent: {agent}\r\n\r\n");
            assert_eq!(client.send(request).read_response(Asked::Get).unwrap().status, 200);
            let line = sluice.stdout().wait_after(number, &format!("/?{number}")).unwrap();
            assert!(line.bytes().all(|byte| byte >= b' ' && byte != 0x7f), "{line:?}");
            match form {
                // Quotes of a value are escaped, so those that are left are the format's own.
                "combined" => assert_eq!(line.matches('"').count(), 6, "{line}"),
                "json" => check_json(&line),
                _ => assert!(line.ends_with("> 200") && line.is_ascii(), "{line}"),
            }
        }
        // A control character does not even get that far.
        assert_eq!(
            ask(&sluice.address("web"), "GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: a\x1bb\r\n\r\n")
                .status,
            400
        );
        assert!(sluice.stdout().wait_after(HOSTILE.len(), "400").is_some());
        assert_eq!(sluice.stdout().mark(), HOSTILE.len() + 1, "a line for each request");
        sluice.stop();
    }
}

/// One flat object: strings end where they should, and nothing follows.
fn check_json(line: &str) {
    let inside = line.strip_prefix('{').and_then(|line| line.strip_suffix('}')).unwrap();
    let (mut quoted, mut escaped, mut colons) = (false, false, 0);
    for character in inside.chars() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ':' if !quoted => colons += 1,
            '{' | '}' if !quoted => panic!("{line}"),
            _ => {}
        }
    }
    assert!(!quoted && colons == 22, "{colons}: {line}");
    for member in
        ["\"listener\":\"web\"", "\"route\":\"own\"", "\"status\":200", "\"method\":\"GET\""]
    {
        assert!(inside.contains(member), "{member} in {line}");
    }
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

#[test]
fn secrets_in_queries_do_not_show() {
    let origin = Origin::start(behaviour::echo);
    for access in ["combined", "json", "{request.line} {request.target} {request.query}"] {
        let sluice = Sluice::start(&format!(
            "admin.address = \"127.0.0.1:0\"\nlog.access = \"{access}\"\n\
             [[listener]]\nname = \"web\"\naddress = \"127.0.0.1:0\"\n\
             [filter.key.key_auth]\nkeys = {{ a = \"s3cret-of-a-key\" }}\nquery = \"api key\"\n\
             [filter.token.jwt]\nsecret = \"01234567890123456789012345678901\"\nquery = \"token\"\n\
             [[route]]\npath = \"/key\"\nproxy = \"http://{0}\"\nfilters = [\"key\"]\n\
             [[route]]\npath = \"/token\"\nproxy = \"http://{0}\"\nfilters = [\"token\"]\n\
             [[route]]\npath = \"/open\"\nrespond = \"ok\"\n",
            origin.address()
        ));
        // The path, what the log says of it, the status.
        let rows = [
            ("/key?x=1&api+key=s3cret-of-a-key&y=2", "/key?x=1&api+key=***&y=2", 200),
            ("/key?x=2&api%20key=s3cret-that-is-wrong", "/key?x=2&api%20key=***", 401),
            ("/token?token=s3cret.of.somebody", "/token?token=***", 401),
            ("/open?token=s3cret.at.the.wrong.place", "/open?token=***", 200),
            ("/nowhere?x=3&api+key=s3cret-of-a-key", "/nowhere?x=3&api+key=***", 404),
        ];
        for (target, logged, status) in rows {
            let request = format!(
                "GET {target} HTTP/1.1\r\nHost: a\r\nReferer: http://a/?token=s3cret\r\n\r\n"
            );
            let response = ask(&sluice.address("web"), &request);
            assert_eq!(response.status, status, "{target}");
            // The origin does not get the key either.
            assert!(!response.text().contains("s3cret-of"), "{target}");
            let line = sluice.stdout().wait_after(0, logged).expect("a line");
            assert!(!line.contains("s3cret"), "{access}: {line}");
        }
        assert!(!sluice.stdout().so_far().iter().any(|line| line.contains("s3cret")), "{access}");
        assert!(!sluice.stderr().iter().any(|line| line.contains("s3cret")), "{access}");
        sluice.stop();
    }
}

#[test]
fn a_file_that_was_moved_away_is_opened_again() {
    let sluice = logging("access = \"combined\"\nfile = \"access.log\"", &nobody());
    let (log, old) =
        (sluice.scratch().path().join("access.log"), sluice.scratch().path().join("old.log"));
    let mut client = ByteScript::connect(&sluice.address("web"));
    let mut ask = |count: usize| {
        for _ in 0..count {
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").read_response(Asked::Get).unwrap();
        }
    };
    ask(3);
    assert!(eventually(|| lines(&log) == 3));
    let mode = std::fs::metadata(&log).unwrap().permissions().mode();
    assert_eq!(mode & 0o137, 0, "not for every user of the system: {mode:o}");
    std::fs::rename(&log, &old).unwrap();
    ask(2);
    assert!(eventually(|| lines(&old) == 5), "until it is told, it goes on where it was");
    sluice.signal(Signal::ReopenLogs);
    assert!(eventually(|| log.exists()));
    ask(4);
    assert!(eventually(|| lines(&log) == 4));
    assert_eq!(lines(&old), 5);
    assert_eq!(metric(&sluice.admin(), "sluice_access_log_dropped_total"), 0);
    sluice.stop();
}

#[test]
fn a_full_disk_costs_lines_and_no_request() {
    let sluice = logging("access = \"json\"\nfile = \"/dev/full\"", &nobody());
    let mut client = ByteScript::connect(&sluice.address("web"));
    for _ in 0..1000 {
        let answer =
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").read_response(Asked::Get).unwrap();
        assert_eq!(answer.text(), "hello");
    }
    let count = |what| metric(&sluice.admin(), &format!("sluice_access_log_{what}_total"));
    assert!(eventually(|| count("dropped") == 1000), "{}", count("dropped"));
    assert_eq!(count("written"), 0);
    sluice.stop();
}

#[test]
fn every_line_is_written_before_the_end() {
    let sluice = logging("access = \"{request.target}\"\nfile = \"access.log\"", &nobody());
    let log = sluice.scratch().path().join("access.log");
    let mut client = ByteScript::connect(&sluice.address("web"));
    let burst: String =
        (0..500).map(|number| format!("GET /?{number} HTTP/1.1\r\nHost: a\r\n\r\n")).collect();
    client.send(burst).read_responses(500).unwrap();
    drop(client);
    sluice.signal(Signal::Drain);
    let mut sluice = sluice;
    assert_eq!(sluice.wait_for_exit(), Some(0));
    let text = std::fs::read_to_string(&log).unwrap();
    let expected: Vec<String> = (0..500).map(|number| format!("/?{number}")).collect();
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
}
