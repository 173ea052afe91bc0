//! Ten thousand routes of every kind, each of which finds its own requests.

use super::{CLIENT, answer, request, table};
use crate::Match;

const COUNT: usize = 10_000;

fn check_all(route: impl Fn(usize) -> String, url: impl Fn(usize) -> String) {
    let routes: Vec<String> = (0..COUNT).map(route).collect();
    let routes: Vec<&str> = routes.iter().map(String::as_str).collect();
    let table = table(&routes);
    for number in 0..COUNT {
        let line = format!("GET {}", url(number));
        let found = table.find(&request(&line, &[]), CLIENT);
        assert_eq!(found, Match::Found(number), "{line}");
    }
    for line in ["GET h/", "GET h/nothing/here", "GET h/r", "GET h/r10000"] {
        assert_eq!(answer(table.find(&request(line, &[]), CLIENT)), "404", "{line}");
    }
}

#[test]
fn exact_paths() {
    check_all(|n| format!("/r{n}"), |n| format!("h/r{n}"));
}

#[test]
fn prefixes() {
    check_all(|n| format!("/r{n}/*"), |n| format!("h/r{n}/x/y"));
}

#[test]
fn templates() {
    check_all(|n| format!("/r{n}/{{a}}/c/{{d}}"), |n| format!("h/r{n}/b/c/d"));
}

#[test]
fn templates_that_share_their_start() {
    check_all(|n| format!("/{{tenant}}/r{n}"), |n| format!("h/t/r{n}"));
}

#[test]
fn hosts() {
    check_all(|n| format!("h{n}.example/*"), |n| format!("H{n}.example:80/x"));
}

#[test]
fn wildcards() {
    check_all(|n| format!("*.h{n}.example/*"), |n| format!("a.b.h{n}.example/x"));
}

#[test]
fn regexes() {
    let routes: Vec<String> = (0..1_000).map(|n| format!("~^/r{n}/[a-z]+$")).collect();
    let routes: Vec<&str> = routes.iter().map(String::as_str).collect();
    let table = table(&routes);
    for number in [0, 1, 500, 999] {
        let head = request(&format!("GET h/r{number}/x"), &[]);
        assert_eq!(table.find(&head, CLIENT), Match::Found(number));
    }
}

/// A path of many starts (`/a`, `/aa`, ...) must neither overflow the stack nor lose one.
#[test]
fn a_chain_of_prefixes() {
    let routes: Vec<String> = (1..2_000).map(|n| format!("/{}*", "a".repeat(n))).collect();
    let routes: Vec<&str> = routes.iter().map(String::as_str).collect();
    let table = table(&routes);
    for number in [1, 2, 1_000, 1_999] {
        let head = request(&format!("GET h/{}", "a".repeat(number)), &[]);
        assert_eq!(table.find(&head, CLIENT), Match::Found(number - 1));
    }
    assert_eq!(answer(table.find(&request("GET h/b", &[]), CLIENT)), "404");
}
