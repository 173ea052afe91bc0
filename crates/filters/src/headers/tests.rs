//! Fields before and behind the filter.

use super::*;
use crate::scene::{Scene, lines};
use sluice_expression::{Phase, Scope, Template};

fn meter() -> Arc<FilterMeter> {
    Arc::new(FilterMeter::new(1, Headers::OUTCOMES))
}

fn write(change: Change, name: &str, values: &[&str]) -> HeaderEdit {
    let scope = Scope::new(Phase::Response);
    let values = values.iter().map(|value| Template::compile(value, &scope).unwrap());
    HeaderEdit::Write(change, name.into(), values.collect())
}

fn remove(names: HeaderNames) -> HeaderEdit {
    HeaderEdit::Remove(names)
}

fn exact(name: &str) -> HeaderNames {
    HeaderNames::Exact(name.into())
}

/// What is left of a request with these lines.
fn edited(edits: Vec<HeaderEdit>, given: &[(&str, &str)]) -> Vec<String> {
    let filter = Headers::new(Answers::Given, meter()).with_request(edits);
    let mut scene = Scene::new("GET", "/a?q=1", given);
    assert!(scene.ask(&filter).is_none());
    scene.request_lines()
}

#[test]
fn fields_are_edited() {
    let given = [("A", "1"), ("b", "2"), ("a", "3"), ("C", "4")];
    let rows: Vec<(HeaderEdit, Vec<&str>)> = vec![
        (write(Change::Set, "a", &["x"]), vec!["b: 2", "C: 4", "a: x"]),
        (
            write(Change::Set, "d", &["x", "{request.parameter.q}"]),
            vec!["A: 1", "b: 2", "a: 3", "C: 4", "d: x", "d: 1"],
        ),
        (write(Change::Set, "a", &["{request.header.a}!"]), vec!["b: 2", "C: 4", "a: 1, 3!"]),
        (write(Change::Set, "a", &["{request.header.none}"]), vec!["b: 2", "C: 4"]),
        (write(Change::Set, "a", &[""]), vec!["b: 2", "C: 4"]),
        (write(Change::Add, "a", &["x"]), vec!["A: 1", "b: 2", "a: 3", "C: 4", "a: x"]),
        (write(Change::Add, "a", &["{request.header.none}"]), vec!["A: 1", "b: 2", "a: 3", "C: 4"]),
        (write(Change::AddIfAbsent, "a", &["x"]), vec!["A: 1", "b: 2", "a: 3", "C: 4"]),
        (write(Change::AddIfAbsent, "d", &["x"]), vec!["A: 1", "b: 2", "a: 3", "C: 4", "d: x"]),
        (write(Change::ReplaceIfPresent, "a", &["x"]), vec!["b: 2", "C: 4", "a: x"]),
        (write(Change::ReplaceIfPresent, "d", &["x"]), vec!["A: 1", "b: 2", "a: 3", "C: 4"]),
        (HeaderEdit::Rename("a".into(), "c".into()), vec!["b: 2", "c: 1", "c: 3"]),
        (HeaderEdit::Rename("d".into(), "c".into()), vec!["A: 1", "b: 2", "a: 3", "C: 4"]),
        (remove(exact("a")), vec!["b: 2", "C: 4"]),
        (remove(HeaderNames::Prefix("c".into())), vec!["A: 1", "b: 2", "a: 3"]),
        (remove(HeaderNames::Regex(regex::bytes::Regex::new("^[ac]$").unwrap())), vec!["b: 2"]),
    ];
    for (edit, expected) in rows {
        let shown = format!("{edit:?}");
        assert_eq!(edited(vec![edit], &given), expected, "{shown}");
    }
}

#[test]
fn edits_see_what_those_before_them_did() {
    let edits = vec![
        remove(exact("x-user")),
        write(Change::Set, "x-path", &["{request.path}"]),
        write(Change::Add, "x-both", &["{request.header.x-path} {request.header.x-user}"]),
    ];
    assert_eq!(edited(edits, &[("X-User", "forged")]), ["x-path: /a", "x-both: /a"]);
}

#[test]
fn no_value_ends_its_field() {
    let filter = Headers::new(Answers::Given, meter()).with_request(vec![write(
        Change::Set,
        "x",
        &["{request.parameter.v}", " a\r\nb "],
    )]);
    let mut scene = Scene::new("GET", "/?v=a%0d%0aevil:%20yes%00", &[]);
    assert!(scene.ask(&filter).is_none());
    assert_eq!(scene.request_lines(), ["x: a  evil: yes", "x: a  b"]);
    assert_eq!(scene.request.fields.bytes().windows(2).filter(|two| two == b"\r\n").count(), 2);
}

#[test]
fn patterns_leave_what_a_message_is_read_by() {
    let given =
        [("Host", "a"), ("Content-Length", "0"), ("Connection", "x"), ("c-d", "1"), ("X", "2")];
    let all = HeaderNames::Regex(regex::bytes::Regex::new(".").unwrap());
    assert_eq!(
        edited(vec![remove(all)], &given),
        ["Host: a", "Content-Length: 0", "Connection: x"]
    );
    let prefix = remove(HeaderNames::Prefix("c".into()));
    assert_eq!(
        edited(vec![prefix], &given),
        ["Host: a", "Content-Length: 0", "Connection: x", "X: 2"]
    );
}

#[test]
fn a_head_without_room_refuses_the_request() {
    let long = "a".repeat(8000);
    let edits = (0..40).map(|at| write(Change::Add, &format!("x-{at}"), &[&long])).collect();
    let filter = Headers::new(Answers::Given, meter()).with_request(edits);
    let reply = Scene::new("GET", "/", &[]).ask(&filter);
    assert_eq!(reply.unwrap().status, 431);
}

#[test]
fn answers_are_edited_and_those_of_faults_if_that_is_wanted() {
    let edits = || {
        vec![
            write(Change::Set, "x", &["{response.status} {request.path}"]),
            remove(exact("server")),
        ]
    };
    for (answers, source, expected) in [
        (Answers::Given, Source::Origin, vec!["a: b", "x: 404 /"]),
        (Answers::Given, Source::Gateway, vec!["a: b", "x: 404 /"]),
        (Answers::Given, Source::Fault, vec!["Server: s", "a: b"]),
        (Answers::All, Source::Fault, vec!["a: b", "x: 404 /"]),
    ] {
        let filter = Headers::new(answers, meter()).with_response(edits()).with_trailers(edits());
        let mut scene = Scene::new("GET", "/", &[]).answered(404, &[("Server", "s"), ("a", "b")]);
        scene.source = source;
        scene.answer(&filter);
        assert_eq!(scene.response_lines(), expected, "{source:?}");
        let trailers = scene.with_response(|context| filter.response_body(context));
        assert_eq!(trailers.is_some(), expected.contains(&"x: 404 /"));
    }
}

#[test]
fn what_is_behind_the_content_is_edited() {
    let edits = vec![
        remove(exact("a")),
        HeaderEdit::Rename("b".into(), "c".into()),
        write(Change::Set, "x", &["{response.status}"]),
        write(Change::AddIfAbsent, "d", &["no"]),
    ];
    let filter = Headers::new(Answers::Given, meter()).with_trailers(edits);
    assert_eq!(filter.phases(), Phases::RESPONSE_BODY);
    let mut scene = Scene::new("GET", "/", &[]).answered(200, &[]);
    let mut transform = scene.with_response(|context| filter.response_body(context)).unwrap();
    let mut out = Vec::new();
    transform.push(b"content", &mut out).unwrap();
    let mut given = sluice_message::Fields::new();
    for (name, value) in [("A", "1"), ("B", "2"), ("D", "3"), ("x", "4")] {
        given.push(name.as_bytes(), value.as_bytes()).unwrap();
    }
    let mut trailers = Some(given);
    transform.end(&mut trailers, &mut out).unwrap();
    assert_eq!(lines(&trailers.unwrap()), ["D: 3", "c: 2", "x: 200"]);
    assert_eq!(out, b"content");
    let mut nothing = scene.with_response(|context| filter.response_body(context)).unwrap();
    let mut none = None;
    nothing.end(&mut none, &mut out).unwrap();
    assert_eq!(lines(&none.unwrap()), ["x: 200", "d: no"]);
}

#[test]
fn phases_are_those_with_something_to_do() {
    let edits = || vec![remove(exact("a"))];
    let none = || Headers::new(Answers::Given, meter());
    assert_eq!(none().phases(), Phases::NONE);
    assert_eq!(none().with_request(edits()).phases(), Phases::REQUEST_HEAD);
    let both = none().with_request(edits()).with_response(edits());
    assert_eq!(both.phases(), Phases::REQUEST_HEAD | Phases::RESPONSE_HEAD);
}
