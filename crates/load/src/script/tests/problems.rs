//! What is wrong with a script is said with its place, before anything is sent.

use super::read;

const GOOD: &str = "requests:\n  - request: {url: 'http://a/'}\n";

fn problems(text: &str) -> String {
    match read(text) {
        Ok(_) => panic!("nothing wrong with {text}"),
        Err(problems) => problems.to_string(),
    }
}

#[test]
fn a_problem_shows_its_line_and_a_caret() {
    let text = "variables:\n  - {name: a, type: uuid}\nrequests:\n  - request:\n      url: \
                http://h/x?q=$[[b]]\n";
    let expected = "error: no variable is called `b`; known are a\n \
                    --> s.yml:5:25\n  |\n5 |       url: http://h/x?q=$[[b]]\n  |                         ^^^^^^\n";
    assert_eq!(problems(text), expected);
}

#[test]
fn malformed_yaml_has_a_place() {
    for (text, place) in [
        ("requests:\n  - request: {url: 'http://a/'\n  x: [", "s.yml:3:"),
        ("requests: [\n", "s.yml:"),
        ("a: b: c\n", "s.yml:1:"),
        ("a: 1\na: 2\n", "s.yml:2:1"),
        ("- a\n- b\n", "s.yml:1:1"),
        ("a: *b\n", "s.yml:1:"),
        ("\ta: 1\n", "s.yml:1:"),
    ] {
        let shown = problems(text);
        assert!(shown.contains(place) && shown.contains('^'), "{text}: {shown}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let with = |variable: &str| format!("variables:\n  - {{name: v, {variable}}}\n{GOOD}");
    let request = |fields: &str| format!("requests:\n  - request: {{{fields}}}\n");
    let entry =
        |fields: &str| format!("requests:\n  - request: {{url: 'http://a/'}}\n    {fields}\n");
    let rows = [
        (String::new(), "a script needs `requests`"),
        ("requests: []".to_owned(), "a script needs `requests`"),
        (with("type: seqence"), "no variable is of the type `seqence`"),
        (with("typ: uuid"), "a variable needs `type`"),
        (with("type: uuid, format: x"), "a variable has no `format`"),
        (with("type: list"), "no value to pick"),
        (with("type: list, data: x"), "`data` is a list"),
        (with("type: file"), "a variable needs `path`"),
        (with("type: file, path: empty.txt"), "no value to pick"),
        (with("type: range, from: 5, to: 4"), "`from` is not more than `to`"),
        (with("type: range, from: x"), "`from` is a whole number"),
        (with("type: sequence, from: 5, to: 5"), "`from` is less than `to`"),
        (with("type: sequence, to: 4294967296"), "`to` is at most"),
        (with("type: random_array, size: 1"), "a variable needs `variable_key`"),
        (with("type: random_array, size: 1, variable_key: v"), "before this one is called `v`"),
        (with("type: now_with_format"), "needs `format`"),
        (with("type: uuid, replace: 5"), "`replace` holds pairs"),
        (request("method: GET"), "a request needs `url`"),
        (request("url: '/x'"), "no default_endpoint"),
        (request("url: 'ftp://x/'"), "begins with http"),
        (request("url: 'http://$[[env.X]]/'"), "`X` is not set"),
        (request("url: 'http://a/$[[x'"), "has no `]]`"),
        (request("url: 'http://a/', bodi: x"), "a request has no `bodi`"),
        (request("url: 'http://a/', method: 'G T'"), "this is no method"),
        (request("url: 'http://a/', method: CONNECT"), "makes a tunnel"),
        (request("url: 'http://a/', headers: [{'a b': c}]"), "no name of a header"),
        (request("url: 'http://a/', headers: [{a: '$[[x]]'}]"), "no variable is called `x`"),
        (request("url: 'http://a/', body: '$[[x]]'"), "no variable is called `x`"),
        (request("url: 'http://a/', body_repeat_times: -1"), "0 or more"),
        (request("url: 'http://a/', execute_repeat_times: 200000000"), "at most"),
        (request("url: 'http://a/', runtime_variables: {a: b}"), "no variable is called `b`"),
        (request("url: 'http://a/', basic_auth: {password: x}"), "needs `username`"),
        (request("url: 'http://a/', simple_mode: maybe"), "is true or false"),
        (entry("assert: {equals: {x: 1}}"), "`x` is nothing that is known"),
        (entry("asert: {}"), "has no `asert`"),
        (entry("assert_dsl: x"), "not supported"),
        (entry("register: [{x: body}]"), "`body` is nothing that is known"),
        (entry("sleep: {ms: 5}"), "`sleep` has no `ms`"),
        (format!("runner: {{rounds: 5}}\n{GOOD}"), "`runner` has no `rounds`"),
        (format!("runner.total_rounds: 5\n{GOOD}"), "write this as a table"),
        (format!("tests: [{{path: x}}]\n{GOOD}"), "`tests` are not supported"),
        ("requests:\n  - {}\n".to_owned(), "`request` is missing"),
    ];
    for (text, expected) in rows {
        let shown = problems(&text);
        assert!(shown.contains(expected), "{text}\n{shown}");
        assert!(shown.contains('^'), "{shown}");
    }
}

#[test]
fn every_problem_is_told_at_once() {
    let text = "variables:\n  - {name: v, type: nope}\nrequests:\n  - request: {url: 'x', body: \
                '$[[w]] $[[v]]'}\n";
    let shown = problems(text);
    assert_eq!(shown.matches("error:").count(), 3, "{shown}");
}

#[test]
fn what_has_no_effect_is_a_warning() {
    let script = read(&format!("statsd: {{a: b}}\nrunner: {{metric_sample_size: 5}}\n{GOOD}"));
    let warnings = script.map(|script| script.warnings).unwrap_or_default();
    let shown: Vec<&str> = warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert_eq!(
        shown,
        ["has no effect: percentiles are always of all requests", "`statsd` has no effect here"]
    );
}

#[test]
fn a_file_that_is_not_there_matters_where_it_is_used() {
    let with = |uses: &str| {
        format!(
            "variables:\n  - {{name: v, type: file, path: gone.txt}}\nrequests:\n  - request: {{url: \
             'http://a/', {uses}}}\n"
        )
    };
    for uses in ["body: '$[[v]]'", "headers: [{a: '$[[v]]'}]", "runtime_variables: {w: v}"] {
        let shown = problems(&with(uses));
        assert!(shown.contains("gone.txt cannot be read"), "{shown}");
    }
    let script = read(&with("body: x")).unwrap_or_else(|problems| panic!("{problems}"));
    assert!(script.warnings[0].message.contains("; nothing uses it"), "{:?}", script.warnings);
}

#[test]
fn the_last_variable_of_a_name_counts() {
    let text = "variables:\n  - {name: v, type: list, data: [a]}\n  - {name: v, type: list, data: [b]}\n\
                requests:\n  - request: {url: 'http://a/$[[v]]'}\n";
    let script = read(text).unwrap_or_else(|problems| panic!("{problems}"));
    assert!(script.warnings[0].message.contains("the first one has no effect"));
    let plan = std::sync::Arc::new(script).plan(super::Limit::default());
    let (sent, _) = super::send(&mut *super::worker(&plan)).unwrap();
    assert!(sent.starts_with("GET /b "), "{sent}");
}
