//! Scripts in the DSL carried out, and what they take from a YAML beside them.

use super::{Limit, Text, answer, answered, body, read_as, send, worker};
use crate::script::{Form, Script};
use crate::source::{Requests, Verdict};
use std::sync::Arc;

fn dsl(text: &str) -> Text<'_> {
    Text { name: "s.dsl", text, form: Form::Dsl, base: None }
}

fn script(text: Text<'_>) -> Arc<Script> {
    Arc::new(read_as(text).unwrap_or_else(|problems| panic!("{problems}")))
}

#[test]
fn a_script_runs_as_it_stands() {
    let text = "\
# runner: {
#   total_rounds: 1,
#   no_warm: true,
#   default_endpoint: \"$[[env.HOST]]\",
# },
# variables: [ {name: \"n\", type: \"sequence\"} ]

POST /items
{\"n\": $[[n]], \"row\": \"$[[line]]\"}
# request: {
#   runtime_body_line_variables: {line: \"n\"},
#   body_repeat_times: 2,
# },
# assert: (201, {id: /^[a-z]+$/, tags: [\"x\"], score: >= 1 and < 2}),
# register: [ {id: \"_ctx.response.body_json.id\"} ]

GET /items/$[[id]]
# 200
";
    let script = script(dsl(text));
    assert_eq!(script.plan(Limit::default()).targets(), ["http://from.environment"]);
    let plan = script.plan(Limit::default());
    let mut source = worker(&plan);
    let (first, meta) = send(&mut *source).unwrap();
    assert!(first.starts_with("POST /items HTTP/1.1\r\n"), "{first}");
    assert!(first.contains("\r\nContent-Type: application/json\r\n"), "{first}");
    // `n` is taken twice for each copy of the body.
    assert_eq!(body(&first), "{\"n\": 2, \"row\": \"1\"}\n{\"n\": 4, \"row\": \"3\"}\n");
    let good = "{\"id\": \"abc\", \"tags\": [\"x\", \"y\"], \"score\": 1.5}";
    assert_eq!(answer(&mut *source, meta, (201, good)), Verdict::Expected);
    let (second, meta) = send(&mut *source).unwrap();
    assert!(second.starts_with("GET /items/abc HTTP/1.1\r\n"), "{second}");
    assert!(!second.contains("Content-Type"), "{second}");
    assert_eq!(answer(&mut *source, meta, (500, "")), Verdict::UnexpectedStatus);
    assert!(send(&mut *source).is_none(), "one round");
    assert_eq!(plan.counts().samples[0].what, "status 500 with 0 bytes, but asserted was 200");

    for bad in [
        "{\"id\": \"ABC\", \"tags\": [\"x\"], \"score\": 1.5}",
        "{\"id\": \"abc\", \"tags\": [\"z\"], \"score\": 1.5}",
        "{\"id\": \"abc\", \"tags\": [\"x\"], \"score\": 2}",
        "no JSON",
    ] {
        let plan = script.plan(Limit::default());
        let mut source = worker(&plan);
        let (_, meta) = send(&mut *source).unwrap();
        assert_ne!(answer(&mut *source, meta, (201, bad)), Verdict::Expected, "{bad}");
    }
}

#[test]
fn a_yaml_beside_it_gives_what_the_script_does_not_say() {
    let base = "\
env: {HOST: 'http://declared', WORD: from-yaml}
runner: {total_rounds: 5, no_warm: true, default_endpoint: '$[[env.HOST]]'}
variables:
  - {name: a, type: list, data: [yaml]}
  - {name: b, type: list, data: [yaml]}
requests:
  - request: {url: /never}
";
    let text = "\
# runner: { total_rounds: 1 }
# variables: [ {name: \"b\", type: \"list\", data: [\"dsl\"]} ]

GET /$[[a]]/$[[b]]/$[[env.WORD]]
";
    let script = script(Text { base: Some(("base.yml", base)), ..dsl(text) });
    let plan = script.plan(Limit::default());
    // The environment goes before what is declared.
    assert_eq!(plan.targets(), ["http://from.environment"]);
    let mut source = worker(&plan);
    let sent = answered(&mut *source, "").unwrap();
    assert!(sent.starts_with("GET /yaml/dsl/from-yaml HTTP/1.1\r\n"), "{sent}");
    assert_eq!(answered(&mut *source, ""), None, "the script's own number of rounds");

    let broken = "runner: {no_warm: maybe}\n";
    let problems = read_as(Text { base: Some(("base.yml", broken)), ..dsl(text) }).unwrap_err();
    assert!(problems.to_string().contains("--> base.yml:1:"), "{problems}");
    let unknown = read_as(dsl("GET http://a/$[[nowhere]]\n")).unwrap_err().to_string();
    assert!(unknown.contains("no variable is called `nowhere`"), "{unknown}");
    assert!(unknown.contains("--> s.dsl:1:14"), "{unknown}");
}
