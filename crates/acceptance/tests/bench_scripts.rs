//! `sluice bench FILE.yml`: scripts of requests in Loadgen's vocabulary.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use sluice_acceptance::config;
use sluice_acceptance::load::{Measured, bench_in};
use sluice_testkit::{Exchange, Origin, Scratch, Sluice, behaviour};

/// Runs this script, in whose text `ORIGIN` stands for the origin's address.
fn script(text: &str, origin: &str, words: &[&str]) -> Measured {
    let scratch = Scratch::new();
    scratch.write("names.txt", "Ann\nBea\n");
    scratch.write("script.yml", text.replace("ORIGIN", origin));
    bench_in(scratch, &[&["script.yml"], words].concat())
}

#[test]
fn variables_fill_url_header_and_body() {
    // The body has to come twice, filled each time.
    let origin = Origin::start(|exchange: &mut Exchange| {
        let body = exchange.read_body()?;
        let text = String::from_utf8_lossy(&body.bytes).into_owned();
        let twice = text.matches(r#"{"n":5,"t":""#).count() == 2 && !text.contains("$[[");
        exchange.answer(if twice { 200 } else { 400 }, &[], text)
    });
    let text = r#"
variables:
  - {name: name, type: file, path: names.txt}
  - {name: colour, type: list, data: [red]}
  - {name: id, type: sequence, from: 6, to: 1000}
  - {name: half, type: range, from: 5, to: 5}
  - {name: unique, type: uuid}
  - {name: now, type: now_utc}
  - {name: unix, type: now_unix}
  - {name: millis, type: now_unix_in_ms}
  - {name: local, type: now_local}
  - {name: many, type: random_array, variable_type: number, variable_key: half, square_bracket: true, size: 3}
runner: {no_warm: true}
requests:
  - request:
      method: POST
      url: http://ORIGIN/$[[colour]]/$[[id]]
      headers:
        - X-Name: $[[name]]
        - X-Unique: $[[unique]]
      basic_auth: {username: ann, password: secret}
      body: '{"n":$[[half]],"t":"$[[now]]","u":$[[unix]],"m":$[[millis]],"l":"$[[local]]","a":$[[many]]}'
      body_repeat_times: 2
    assert:
      equals: {_ctx.response.status: 200}
"#;
    let done = script(text, origin.address(), &["-c", "2", "-t", "1", "-l", "9"]);
    assert_eq!(done.finished.code, Some(0), "{:?}", done.finished);
    assert_eq!(done.number("/responses"), 9.0);
    let seen = origin.requests();
    // The first value is the one after `from`, as in Loadgen.
    let mut ids: Vec<u32> = seen
        .iter()
        .map(|request| request.target.strip_prefix("/red/").unwrap().parse().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (7..16).collect::<Vec<u32>>());
    let mut unique: Vec<&str> =
        seen.iter().map(|request| request.fields.first("x-unique").unwrap()).collect();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), 9);
    for request in &seen {
        let name = request.fields.first("x-name").unwrap();
        assert!(["Ann", "Bea"].contains(&name), "{name}");
        // ann:secret
        assert_eq!(request.fields.first("authorization"), Some("Basic YW5uOnNlY3JldA=="));
    }
    for part in
        ["[Latency Metrics]", "[Latency Distribution]", "[Estimated Server Metrics]", "Status 200"]
    {
        assert!(done.finished.stdout.contains(part), "{part} {}", done.finished.stdout);
    }
}

/// `/login` gives a token, and whoever brings it along is welcome.
fn guarded(exchange: &mut Exchange) -> std::io::Result<()> {
    if exchange.head().target == "/login" {
        return exchange.answer(201, &["X-Realm: here"], "{\"user\":{\"token\":\"open\"}}");
    }
    let token = exchange.head().fields.first("x-token") == Some("open");
    let realm = exchange.head().fields.first("x-realm") == Some("here");
    exchange.answer(if token && realm { 200 } else { 403 }, &[], "inside")
}

#[test]
fn a_registered_value_goes_into_the_next_request() {
    let origin = Origin::start(guarded);
    let text = r"
runner: {total_rounds: 3, no_warm: true, assert_invalid: true, default_endpoint: 'http://ORIGIN'}
requests:
  - request: {method: POST, url: /login}
    register:
      - token: _ctx.response.body_json.user.token
      - realm: _ctx.response.header.x-realm
    assert:
      and:
        - equals: {_ctx.response.status: 201}
        - contains: {_ctx.response.body: token}
  - request:
      url: /data
      headers: [{X-Token: '$[[token]]'}, {X-Realm: '$[[realm]]'}]
      execute_repeat_times: 2
    assert:
      equals: {_ctx.response.status: 200, _ctx.response.body: inside}
    sleep: {sleep_in_milli_seconds: 1}
";
    let done = script(text, origin.address(), &["-c", "2"]);
    assert_eq!(done.finished.code, Some(0), "{:?}", done.finished);
    // Two workers, three rounds, one and two requests.
    assert_eq!((done.number("/statuses/201"), done.number("/statuses/200")), (6.0, 12.0));
}

#[test]
fn exit_codes_are_those_of_loadgen() {
    let sluice = Sluice::start(&config("[[route]]\npath = \"/\"\nrespond = \"Hello\"\n"));
    let closing = Origin::start(behaviour::close_unanswered);
    let rows = [
        (sluice.address("web"), "/", "", 0),
        (sluice.address("web"), "/", "assert_invalid: true, assert_error: true", 0),
        // Nothing went well: that is no success, whatever the script asks for.
        (sluice.address("web"), "/none", "", 1),
        (sluice.address("web"), "/none", "assert_invalid: true", 1),
        (closing.address().to_owned(), "/", "", 1),
        (closing.address().to_owned(), "/", "assert_error: true", 2),
    ];
    for (address, path, runner, code) in rows {
        let text = format!(
            "runner: {{no_warm: true, {runner}}}\nrequests:\n  - request: {{url: 'http://ORIGIN{path}'}}\n    \
             assert: {{equals: {{_ctx.response.status: 200}}}}\n"
        );
        let done = script(&text, &address, &["-c", "2", "-l", "10"]);
        assert_eq!(done.finished.code, Some(code), "{path} {runner} {:?}", done.finished);
        assert_eq!(done.number("/requests"), 10.0);
        if path == "/none" {
            let text = &done.finished.stdout;
            assert!(text.contains("Assert Invalid") && text.contains("Status 404"), "{text}");
        }
    }
    sluice.stop();
}

#[test]
fn scripts_have_rates_times_warm_ups_and_tables_too() {
    let origin = Origin::start(behaviour::fixed(200, "x"));
    let text =
        "requests:\n  - request: {url: 'http://ORIGIN/a'}\n  - request: {url: 'http://ORIGIN/b'}\n";
    // The warm-up is one round, and part of what `-l` counts.
    let done = script(text, origin.address(), &["-c", "2", "-r", "1000", "-l", "42", "--spectrum"]);
    assert_eq!((done.finished.code, origin.requests().len()), (Some(0), 42), "{:?}", done.finished);
    assert_eq!(done.number("/responses"), 40.0);
    assert!(done.number("/uncorrected/count") == 40.0);
    assert!(done.finished.stdout.contains("1/(1-Percentile)"), "{}", done.finished.stdout);
    let done = script(text, origin.address(), &["-c", "2", "-d", "200ms"]);
    assert!(done.number("/seconds") >= 0.2 && done.number("/responses") > 0.0);
}

#[test]
fn a_wrong_script_is_shown_with_line_and_caret_and_nothing_is_sent() {
    let origin = Origin::start(behaviour::fixed(200, "x"));
    let rows = [
        (
            "requests:\n  - request: {url: 'http://ORIGIN/$[[nmae]]'}\nvariables:\n  - {name: name, type: uuid}\n",
            "script.yml:2:",
            "nmae",
            "^^^^^^^^",
        ),
        ("requests:\n  - request: [\n      url: x\n", "script.yml:2:14", "'['", "              ^"),
        (
            "requests:\n  - request: {url: 'http://ORIGIN/', colour: red}\n",
            "script.yml:2:",
            "colour",
            "^^^^^^",
        ),
        (
            "variables:\n  - {name: a, type: guid}\nrequests:\n  - request: {url: 'http://ORIGIN/'}\n",
            "script.yml:2:",
            "guid",
            "^^^^",
        ),
        ("runner: {}\n", "script.yml:1:", "requests", "^"),
        ("requests:\n\t- request: {url: 'http://ORIGIN/'}\n", "script.yml:2:", "tab", "^"),
        ("", "script.yml:1:", "requests", "^"),
    ];
    for (text, place, word, caret) in rows {
        let done = script(text, origin.address(), &["-n", "5"]).finished;
        assert_eq!(done.code, Some(2), "{text} {done:?}");
        for part in [place, word, caret, "was not run, nothing was sent"] {
            assert!(done.stderr.contains(part), "{part:?} for {text:?} in\n{}", done.stderr);
        }
    }
    assert_eq!(origin.connections(), 0);
    let missing = bench_in(Scratch::new(), &["none.yml"]).finished;
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.contains("cannot read none.yml"), "{missing:?}");
}
