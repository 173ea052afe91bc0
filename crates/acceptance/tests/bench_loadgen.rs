//! Scripts as they are published for Loadgen: in YAML and in its DSL, run as they stand.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use sluice_acceptance::load::bench_in;
use sluice_testkit::{Exchange, Origin, Scratch, behaviour};

/// An index of documents: makes, counts and forgets them.
fn store() -> Origin {
    Origin::start(|exchange: &mut Exchange| {
        exchange.sink_body()?;
        let target = exchange.head().target.clone();
        let (status, body) = match target.split_once('?').map_or(target.as_str(), |it| it.0) {
            "/notes" => (200, r#"{"acknowledged":true,"shards":{"total":2,"failed":0}}"#),
            "/notes/_doc" => (201, r#"{"_id":"n1","result":"created"}"#),
            "/notes/_doc/n1" => (200, r#"{"found":true,"_source":{"tags":["a","b"],"year":1999}}"#),
            "/_bulk" => (200, r#"{"took":3,"errors":false,"items":[]}"#),
            _ => (404, r#"{"error":"nothing here"}"#),
        };
        exchange.answer(status, &["Content-Type: application/json"], body)
    })
}

/// The constructs of published scripts: names that are declared twice, a file that comes with the
/// program and is not used, marks of earlier versions, names of the environment, entries that sleep.
const YAML: &str = r#"
env:
  STORE_USER: reader
  STORE_URL: http://localhost:1
runner:
  # total_rounds: 1
  no_warm: false
  log_requests: false
  assert_invalid: true
  assert_error: true
statsd: {enabled: false, host: 192.0.2.1, port: 8125}
variables:
  - name: address
    type: file
    path: words/addresses.txt
    replace:
      '"': '\"'
      '\': '\\'
  - {name: id, type: sequence}
  - {name: id, type: sequence64}
  - {name: key, type: uuid}
  - {name: year, type: range, from: 1990, to: 2000}
  - {name: years, type: random_array, variable_type: number, variable_key: year, square_bracket: false, size: 3}
requests:
  - request:
      method: POST
      has_variable: true
      runtime_variables: {batch: key}
      runtime_body_line_variables: {route: key}
      basic_auth:
        username: $[[env.STORE_USER]]
        password: $[[env.STORE_PASSWORD]]
      url: $[[env.STORE_URL]]/_bulk
      body_repeat_times: 3
      body: "{\"index\": {\"_id\": \"$[[key]]\", \"routing\": \"$[[route]]\"}}\n{\"n\": $[[id]], \"batch\": \"$[[batch]]\", \"years\": [$[[years]]]}\n"
    assert:
      and:
        equals: {_ctx.response.status: 200, _ctx.response.body_json.errors: false}
        not: {has_fields: [_ctx.response.body_json.failures]}
  - sleep: {sleep_in_milli_seconds: 5}
  - request:
      url: $[[env.STORE_URL]]/notes
    assert:
      and:
        - equals: {_ctx.response.body_json.acknowledged: true}
        - has_fields: ['_ctx.response.body_json.shards.total']
"#;

#[test]
fn a_published_script_runs_as_it_stands() {
    let origin = store();
    let scratch = Scratch::new();
    // The address of the store is the only thing that differs from place to place.
    let here = format!("http://{}", origin.address());
    scratch.write("loadgen.yml", YAML.replace("http://localhost:1", &here));
    let undeclared = bench_in(scratch, &["loadgen.yml", "-l", "12"]);
    assert_eq!(undeclared.finished.code, Some(2), "{:?}", undeclared.finished);
    assert!(undeclared.finished.stderr.contains("`STORE_PASSWORD` is not set"));
    let scratch = undeclared.scratch;
    let script = YAML.replace("http://localhost:1", &here);
    scratch.write("loadgen.yml", script.replace("$[[env.STORE_PASSWORD]]", "$[[env.PATH]]"));
    let done = bench_in(scratch, &["loadgen.yml", "-l", "12"]);
    assert_eq!(done.finished.code, Some(0), "{:?}", done.finished);
    // One worker unless somebody says more; two requests were the warm-up's.
    assert_eq!((done.number("/responses"), done.number("/connections")), (10.0, 1.0));
    let said = &done.finished.stderr;
    for part in [
        "a second variable is called `id`",
        "words/addresses.txt cannot be read",
        "nothing uses it",
        "`statsd` has no effect here",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let seen = origin.requests();
    assert_eq!(seen.len(), 12);
    assert_eq!(seen[0].fields.first("content-type"), Some("application/json"));
    assert_eq!(seen[1].fields.first("content-type"), None);
}

const DSL: &str = r#"# // How to use it: STORE=http://... bench notes.dsl

# runner: {
#   total_rounds: 1,
#   no_warm: true,
#   assert_invalid: true,
#   continue_on_assert_invalid: true,
# }

DELETE /notes

#//-----------------------------------------
#// Make a note and remember its id
POST /notes/_doc?refresh
{
  "year": $[[year]],
  "key": "$[[key]]"
}
# request: {
#   headers: [
#     {X-Trace: "$[[key]]"},
#   ],
#   disable_header_names_normalizing: true,
# },
#
# assert: (201, {result: "created"}),
# register: [
#   { note: "_ctx.response.body_json._id" },
# ]
#
# sleep: {
#   "sleep_in_milli_seconds": 1
# },

GET /notes/_doc/$[[note]]
# assert: {
#   _ctx.response.status: 200,
#   _ctx.response.body_json: {
#     found: true,
#     _source: { tags: ["a", /^b$/], year: > 1990 and <= 2000 },
#     _source.tags.0: not "b",
#   },
# },

POST /_bulk
{"index": {"_id": "$[[key]]"}}
{"n": $[[id]]}
# 200
# {"errors":false,}
"#;

#[test]
fn a_script_in_the_dsl_runs_as_it_stands() {
    let origin = store();
    let scratch = Scratch::new();
    scratch.write("notes.dsl", DSL);
    // As Loadgen does, the rest comes from the file beside it.
    let base = YAML.replace("http://localhost:1", &format!("http://{}", origin.address()));
    let base = base.replace("STORE_PASSWORD", "PATH");
    let base = base.replace("runner:\n", "runner:\n  default_endpoint: $[[env.STORE_URL]]\n");
    scratch.write("loadgen.yml", &base);
    let done = bench_in(scratch, &["notes.dsl"]);
    assert_eq!(done.finished.code, Some(0), "{:?}", done.finished);
    assert!(done.finished.stderr.contains("also from "), "{:?}", done.finished);
    let seen: Vec<String> =
        origin.requests().iter().map(|it| format!("{} {}", it.method, it.target)).collect();
    let expected =
        ["DELETE /notes", "POST /notes/_doc?refresh", "GET /notes/_doc/n1", "POST /_bulk"];
    assert_eq!(seen, expected);
    assert!(origin.requests()[1].fields.first("x-trace").is_some_and(|it| it.len() == 20));

    // The same with an assertion that does not hold: the message shows it as it is written.
    let scratch = done.scratch;
    scratch.write("notes.dsl", DSL.replace("<= 2000", "< 1999"));
    let done = bench_in(scratch, &["notes.dsl", "--config", "loadgen.yml"]);
    assert_eq!(done.finished.code, Some(1), "{:?}", done.finished);
    let text = &done.finished.stdout;
    assert!(text.contains("GET /notes/_doc/$[[note]]: status 200"), "{text}");

    let scratch = done.scratch;
    scratch.write("notes.dsl", DSL.replace("assert: (201", "assert (201"));
    let done = bench_in(scratch, &["notes.dsl"]);
    assert_eq!(done.finished.code, Some(2), "{:?}", done.finished);
    assert!(done.finished.stderr.contains("`assert` needs a `:`"), "{:?}", done.finished);
    assert!(done.finished.stderr.contains("notes.dsl:26:3"), "{:?}", done.finished);
}

#[test]
fn a_script_in_which_every_response_is_unexpected_fails() {
    let bad = Origin::start(behaviour::fixed(503, "no"));
    let good = Origin::start(behaviour::fixed(200, "yes"));
    let asserted = "    assert: {equals: {_ctx.response.status: 200}}\n";
    let plain = "runner: {no_warm: true}\nrequests:\n  - request: {url: 'http://ORIGIN/'}\n";
    let rows = [
        (&bad, "", &["-l", "5"][..], 1),
        (&bad, asserted, &["-l", "5"], 1),
        (&good, asserted, &["-l", "5"], 0),
        (&good, "", &["-l", "5", "--expect-status", "204"], 1),
        (&good, "", &["-l", "5", "--min-rate", "100000000/s"], 5),
        (&bad, "", &["-l", "5", "--expect-status", "503"], 0),
    ];
    for (origin, assertion, words, code) in rows {
        let scratch = Scratch::new();
        let text = format!("{plain}{assertion}").replace("ORIGIN", origin.address());
        scratch.write("s.yml", text);
        let done = bench_in(scratch, &[&["s.yml"], words].concat());
        assert_eq!(done.finished.code, Some(code), "{words:?} {:?}", done.finished);
        let said = done.finished.stderr.contains("every response was unexpected");
        assert_eq!(said, code == 1, "{:?}", done.finished);
    }
}
