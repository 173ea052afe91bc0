//! Targets before and behind the filter.

use super::*;
use crate::scene::Scene;
use sluice_expression::{Phase, Scope};

fn template(text: &str) -> Template {
    Template::compile(text, &Scope::new(Phase::Request)).unwrap()
}

fn filter(rewriting: Rewriting) -> Rewrite {
    let meter = Arc::new(FilterMeter::new(1, Rewrite::OUTCOMES));
    Rewrite::new(rewriting, Afterwards::SameRoute, meter)
}

/// The target a request for this one is sent on with, or the status it is refused with.
fn rewritten(rewriting: &Rewriting, target: &str) -> Result<String, u16> {
    let mut scene = Scene::new("GET", target, &[("Host", "a.example"), ("x", "../é?&")]);
    scene.lent.captures.insert("id", "a%20b");
    match scene.ask(&filter(rewriting.clone())) {
        Some(reply) => Err(reply.status),
        None => Ok(scene.text(scene.request.target)),
    }
}

fn check(rewriting: Rewriting, rows: &[(&str, &str)]) {
    for (target, expected) in rows {
        assert_eq!(
            rewritten(&rewriting, target).as_deref(),
            Ok(*expected),
            "{target} {rewriting:?}"
        );
    }
}

#[test]
fn prefixes_are_whole_segments() {
    let strip =
        |prefix: &str| Rewriting { strip_prefix: Some(prefix.into()), ..Default::default() };
    let rows = [
        ("/api/users?a=b", "/users?a=b"),
        ("/api", "/"),
        ("/api/", "/"),
        ("/apis", "/apis"),
        ("/other/api", "/other/api"),
        // However it is spelt.
        ("//api/users", "/users"),
        ("/%61pi/a%20b", "/a%20b"),
        ("/x/../api/y", "/y"),
    ];
    check(strip("/api"), &rows);
    check(strip("/api/"), &rows);
    let add = |prefix: &str| Rewriting { add_prefix: Some(prefix.into()), ..Default::default() };
    for prefix in ["/v2", "/v2/"] {
        check(add(prefix), &[("/a?b", "/v2/a?b"), ("/", "/v2/")]);
    }
    let both = Rewriting { add_prefix: Some("/new".into()), ..strip("/old") };
    check(both, &[("/old/x", "/new/x"), ("/old", "/new/"), ("/x", "/new/x")]);
}

#[test]
fn expressions_change_the_path() {
    let replace = |pairs: &[(&str, &str)]| Rewriting {
        replace: pairs
            .iter()
            .map(|(find, with)| PathReplacement::new(find, with).unwrap())
            .collect(),
        ..Default::default()
    };
    check(
        replace(&[
            ("^/users/([0-9]+)$", "/u?id=$1"),
            ("^/(?<a>[a-z]+)/(?<b>[a-z]+)", "/${b}/${a}"),
        ]),
        &[
            ("/users/7?x=y", "/u?id=7&x=y"),
            ("/a/b/c", "/b/a/c"),
            ("/1/2?x", "/1/2?x"),
            ("/users/7", "/u?id=7"),
        ],
    );
    check(replace(&[("^/", "")]), &[("/a", "/a"), ("/", "/")]);
    check(replace(&[("a", "\u{e9} #")]), &[("/xax", "/x%C3%A9%20%23x")]);
    assert_eq!(rewritten(&replace(&[("^/([^/]*)/", "/$1./")]), "/./a/b").as_deref(), Ok("/a./b"));
    assert_eq!(rewritten(&replace(&[("^/a", "/..")]), "/a/b"), Err(400));
    assert!(PathReplacement::new("(", "").is_err());
}

#[test]
fn values_stay_in_the_path() {
    let path = |text: &str| Rewriting { path: Some(template(text)), ..Default::default() };
    check(path("/u/{capture.id}/x?by={request.method}"), &[("/?a", "/u/a%20b/x?by=GET&a")]);
    check(path("{request.header.none}"), &[("/a", "/")]);
    check(
        path("/s/{request.parameter.q}"),
        &[("/?q=a%3fb%26c%23d", "/s/a%3Fb&c%23d?q=a%3fb%26c%23d")],
    );
    // A client has no way up.
    assert_eq!(rewritten(&path("/public/{request.header.x}"), "/"), Err(400));
    assert_eq!(rewritten(&path("/public/{request.parameter.f}"), "/?f=%2e%2e/admin"), Err(400));
    assert_eq!(rewritten(&path("/public/{request.parameter.f}"), "/?f=%252e%252e/admin"), Err(400));
    assert_eq!(rewritten(&path("/{request.parameter.f}"), "/?f=%2500"), Err(400));
}

#[test]
fn queries_are_edited() {
    let query = |query: Vec<QueryEdit>| Rewriting { query, ..Default::default() };
    let remove = |names| QueryEdit::Remove(names);
    let set = |name: &str, value: &str| QueryEdit::Set(name.into(), vec![template(value)]);
    let given = "/x?a=1&b=%202&a=3&utm_x=y&%61=4&flag";
    let rows: Vec<(QueryEdit, &str)> = vec![
        (remove(QueryNames::Exact("a".into())), "/x?b=%202&utm_x=y&flag"),
        (remove(QueryNames::Prefix("utm_".into())), "/x?a=1&b=%202&a=3&%61=4&flag"),
        (remove(QueryNames::of_expression("^[abu%]|flag").unwrap()), "/x"),
        (
            QueryEdit::Rename("a".into(), "c d".into()),
            "/x?c%20d=1&b=%202&c%20d=3&utm_x=y&c%20d=4&flag",
        ),
        (set("a", "{request.parameter.b}&"), "/x?b=%202&utm_x=y&flag&a=%202%26"),
        (set("a", "{request.header.none}"), "/x?b=%202&utm_x=y&flag"),
        (set("flag", ""), "/x?a=1&b=%202&a=3&utm_x=y&%61=4&flag="),
        (
            QueryEdit::Add("a".into(), vec![template("x"), template("{request.method}")]),
            "/x?a=1&b=%202&a=3&utm_x=y&%61=4&flag&a=x&a=GET",
        ),
    ];
    for (edit, expected) in rows {
        check(query(vec![edit]), &[(given, expected)]);
    }
    check(query(vec![set("a", "1")]), &[("/", "/?a=1"), ("/?", "/?a=1")]);
}

#[test]
fn hosts_are_changed_and_have_to_be_hosts() {
    let host = |text: &str| Rewriting { host: Some(template(text)), ..Default::default() };
    let mut scene = Scene::new("GET", "/", &[("Host", "a.example"), ("x", "b.example:80")]);
    assert!(scene.ask(&filter(host("{request.header.x}"))).is_none());
    assert_eq!(scene.text(scene.request.authority), "b.example:80");
    assert_eq!(scene.request_lines(), ["x: b.example:80", "host: b.example:80"]);
    for text in ["{request.header.none}", "{request.parameter.h}"] {
        let mut scene = Scene::new("GET", "/?h=a%0d%0ax:y", &[("Host", "a.example")]);
        assert_eq!(scene.ask(&filter(host(text))).unwrap().status, 400, "{text}");
    }
}

#[test]
fn what_has_no_path_is_left_alone() {
    let mut scene = Scene::new("OPTIONS", "*", &[]);
    let add = Rewriting { add_prefix: Some("/v2".into()), ..Default::default() };
    assert!(scene.ask(&filter(add)).is_none());
    assert_eq!(scene.text(scene.request.target), "*");
}

#[test]
fn a_route_is_looked_for_anew_if_something_changed() {
    let strip = Rewriting { strip_prefix: Some("/a".into()), ..Default::default() };
    let meter = Arc::new(FilterMeter::new(1, Rewrite::OUTCOMES));
    let filter = Rewrite::new(strip, Afterwards::Reroute, meter);
    for (target, expected) in [("/a/b", true), ("/b", false)] {
        let mut scene = Scene::new("GET", target, &[]);
        let verdict = scene.with_request(|context| filter.on_request_head(context));
        assert_eq!(matches!(verdict, Verdict::Reroute), expected, "{target}");
    }
}
