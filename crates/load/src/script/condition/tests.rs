//! Conditions against answers.

use sluice_message::ResponseHead;

use super::super::answer::Answer;
use super::super::problem::Report;
use super::super::yaml;
use super::Condition;
use crate::source::Reply;

const BODY: &[u8] =
    br#"{"ok":true,"n":5,"name":"abc","list":[{"id":"x1"},"two"],"nothing":null,"tags":["red","green"]}"#;

fn read(text: &str) -> Result<Condition, String> {
    let mut report = Report::new("c.yml", text);
    let registered = ["id".to_owned(), "later".to_owned()];
    let condition = yaml::read(&mut report).and_then(|entries| {
        let node = yaml::Node {
            span: super::Span::new(0, text.len()),
            value: yaml::Value::Table(entries),
        };
        Condition::read(&node, &registered, &mut report)
    });
    match report.finish() {
        Ok(_) => Ok(condition.unwrap()),
        Err(problems) => Err(problems.list[0].message.clone()),
    }
}

fn holds(text: &str) -> bool {
    let mut head = ResponseHead { status: 201, ..ResponseHead::default() };
    head.fields.push(b"X-Id", b"42").unwrap();
    let reply = Reply { head: &head, body: BODY, body_length: 98, elapsed: 2_500_000 };
    let registered = [Some(b"42".to_vec()), None];
    let answer =
        Answer { reply: &reply, registered: &registered, json: serde_json::from_slice(BODY).ok() };
    read(text).unwrap_or_else(|error| panic!("{text}: {error}")).holds(&answer)
}

#[test]
fn every_operator() {
    let rows = [
        ("equals: {_ctx.response.status: 201}", true),
        ("equals: {_ctx.response.status: 200}", false),
        ("equals: {_ctx.response.status: '201'}", true),
        ("equals: {_ctx.response.status: 201, _ctx.response.body_json.n: 6}", false),
        ("equals: {_ctx.response.body_json.ok: true, _ctx.response.body_json.n: 5}", true),
        ("equals: {_ctx.response.body_json.ok: 'true'}", true),
        ("equals: {_ctx.response.body_json.n: 5.0}", true),
        ("equals: {_ctx.response.body_json.nothing: null}", true),
        ("equals: {'_ctx.response.body_json.list[0].id': x1}", true),
        ("equals: {_ctx.response.body_json.list.1: two}", true),
        ("equals: {_ctx.response.body_json.absent: x}", false),
        ("equals: {_ctx.response.header.x-id: 42}", true),
        ("equals: {id: '42'}", true),
        ("equals: {later: '42'}", false),
        ("contains: {_ctx.response.body: abc}", true),
        ("contains: {_ctx.response.body_json.tags: gree}", true),
        ("contains: {_ctx.response.body_json.tags: blue}", false),
        ("prefix: {_ctx.response.body_json.name: ab}", true),
        ("prefix: {_ctx.response.body_json.name: bc}", false),
        ("suffix: {_ctx.response.body_json.name: bc}", true),
        ("suffix: {_ctx.response.body_json.name: ab}", false),
        ("regexp: {_ctx.response.body_json.name: '^a.c$'}", true),
        ("regexp: {_ctx.response.body_json.tags: '^gr'}", true),
        ("regexp: {_ctx.response.body_json.name: '^b'}", false),
        ("in: {_ctx.response.status: [200, 201]}", true),
        ("in: {_ctx.response.status: [200, 404]}", false),
        ("in: {_ctx.response.body_json.name: [abc, d]}", true),
        ("range: {_ctx.response.status: {gte: 200, lt: 300}}", true),
        ("range: {_ctx.response.status: {gt: 201}}", false),
        ("range: {_ctx.response.status.gte: 201, _ctx.response.status.lte: 201}", true),
        ("range: {_ctx.elapsed.lt: 2.6, _ctx.elapsed.gt: 2.4}", true),
        ("range: {_ctx.response.body_length: {gte: 98, lte: 98}}", true),
        ("range: {_ctx.response.header.X-Id: {gt: 41}}", true),
        ("range: {_ctx.response.body_json.name: {gt: 0}}", false),
        ("exists: [_ctx.response.body_json.ok, _ctx.response.header.X-Id]", true),
        ("exists: [_ctx.response.body_json.nothing]", true),
        ("exists: [_ctx.response.body_json.ok, _ctx.response.header.X-No]", false),
        ("length: {_ctx.response.body_json.tags: 2}", true),
        ("length: {_ctx.response.body_json.name: 4}", false),
        ("not: {equals: {_ctx.response.status: 200}}", true),
        ("and: [{equals: {_ctx.response.status: 201}}, {exists: [_ctx.response.body]}]", true),
        ("and: [{equals: {_ctx.response.status: 201}}, {exists: [later]}]", false),
        ("or: [{equals: {_ctx.response.status: 1}}, {exists: [id]}]", true),
        ("and: {equals: {_ctx.response.status: 201}, not: {has_fields: [later]}}", true),
        ("and: {equals: {_ctx.response.status: 201}, has_fields: [later]}", false),
        ("or: {equals: {_ctx.response.status: 1}, has_fields: [id]}", true),
        ("or: [{equals: {_ctx.response.status: 1}}, {exists: [later]}]", false),
    ];
    for (text, expected) in rows {
        assert_eq!(holds(text), expected, "{text}");
    }
}

#[test]
fn what_is_no_condition() {
    let rows = [
        ("equal: {a: 1}", "no condition is called `equal`"),
        ("equals: {a: 1}", "`a` is nothing that is known"),
        ("equals: {_ctx.request.uri: 1}", "`_ctx.request.uri` is nothing"),
        ("equals: 5", "pairs"),
        ("equals: {id: [1]}", "a single value"),
        ("in: {id: 1}", "a list of values"),
        ("range: {id: 5}", "a range is told by"),
        ("range: {id: {over: 5}}", "a range is told by"),
        ("range: {id: {gt: x}}", "a number"),
        ("length: {id: -1}", "a length is"),
        ("regexp: {id: '('}", "not a regular expression"),
        ("and: {}", "at least one"),
        ("and: x", "a list of conditions"),
        ("or: []", "at least one"),
        ("exists: id", "a list of names"),
        ("equals: {id: 1}\nin: {id: [1]}", "exactly one operator"),
        ("not: 1", "a condition is a table"),
    ];
    for (text, expected) in rows {
        let error = read(text).map(|_| ()).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
