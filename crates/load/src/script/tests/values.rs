//! Every type of variable, and where templates take their values from.

use std::collections::BTreeSet;

use super::{Limit, answered, body, plan, send, worker};
use crate::source::Requests;

/// Values of a variable in `count` requests in a row.
fn values(definition: &str, count: usize) -> Vec<String> {
    let text = format!(
        "variables:\n  - {{name: base, type: range, from: 7, to: 7}}\n  - {{name: v, {definition}}}\n\
         requests:\n  - request: {{url: 'http://a/', method: POST, body: '$[[v]]'}}\n"
    );
    let plan = plan(&text, Limit::default());
    let mut worker = worker(&plan);
    (0..count)
        .map(|_| body(&answered(worker.as_mut(), "").unwrap_or_default()).to_owned())
        .collect()
}

fn set(values: &[String]) -> BTreeSet<&str> {
    values.iter().map(String::as_str).collect()
}

#[test]
fn lists_and_files_give_each_of_their_values() {
    let list = values("type: list, data: [a, 5, 'x y']", 200);
    assert_eq!(set(&list), BTreeSet::from(["a", "5", "x y"]));
    let file = values("type: file, path: words.txt, data: [four], replace: {'\"': '\\\"'}", 300);
    assert_eq!(set(&file), BTreeSet::from(["one", "two", "thr\\\"ee", "four"]));
}

#[test]
fn sequences_start_behind_from_and_begin_again_at_zero() {
    let rows = [
        ("type: sequence", vec!["1", "2", "3"]),
        (
            "type: sequence, from: 5, to: 7",
            vec!["6", "7", "0", "1", "2", "3", "4", "5", "6", "7", "0"],
        ),
        ("type: sequence, from: 4294967294", vec!["4294967295", "0", "1"]),
        (
            "type: sequence64, from: 18446744073709551613",
            vec!["18446744073709551614", "18446744073709551615", "0", "1"],
        ),
    ];
    for (definition, expected) in rows {
        assert_eq!(values(definition, expected.len()), expected, "{definition}");
    }
}

#[test]
fn a_sequence_is_shared_by_all_workers() {
    let text = "variables: [{name: n, type: sequence}]\nrequests: [{request: {url: \
                'http://a/$[[n]]'}}]\n";
    let plan = plan(text, Limit::default());
    let seen = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut worker = worker(&plan);
                    (0..250).filter_map(|_| answered(worker.as_mut(), "")).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<BTreeSet<_>>()
    });
    let expected: BTreeSet<String> = (1..=1000).map(|n| format!("GET /{n} HTTP/1.1")).collect();
    let lines: BTreeSet<String> =
        seen.iter().filter_map(|text| text.lines().next().map(str::to_owned)).collect();
    assert_eq!(lines, expected);
}

#[test]
fn ranges_have_both_ends() {
    let range = values("type: range, from: -1, to: 2", 400);
    assert_eq!(set(&range), BTreeSet::from(["-1", "0", "1", "2"]));
}

#[test]
fn arrays_are_made_of_another_variable() {
    let rows = [
        ("variable_type: number, size: 3", "[7,7,7]"),
        ("size: 2", "[\"7\",\"7\"]"),
        ("variable_type: string, size: 2, string_bracket: \"'\"", "['7','7']"),
        ("variable_type: number, size: 3, square_bracket: false", "7,7,7"),
        ("variable_type: number, size: 2, replace: {'7': '<$0>', ',': ''}", "[<$0><$0>]"),
        ("size: 0", "[]"),
    ];
    for (options, expected) in rows {
        let definition = format!("type: random_array, variable_key: base, {options}");
        assert_eq!(values(&definition, 1), [expected], "{options}");
    }
}

#[test]
fn ids_are_short_unique_and_sorted() {
    let ids = values("type: uuid", 2000);
    assert_eq!(set(&ids).len(), 2000);
    for id in &ids {
        assert_eq!(id.len(), 20, "{id}");
        assert!(id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'v')), "{id}");
    }
}

#[test]
fn times_are_now() {
    let now = || {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.unwrap_or_default().as_nanos()
    };
    for (kind, unit) in [
        ("now_unix", 1_000_000_000),
        ("now_unix_in_ms", 1_000_000),
        ("now_unix_in_micro", 1000),
        ("now_unix_in_nano", 1),
    ] {
        let before = now() / unit;
        let value: u128 = values(&format!("type: {kind}"), 1)[0].parse().unwrap();
        assert!((before..=now() / unit).contains(&value), "{kind} {value}");
    }
    let form = |definition: &str| {
        let value = values(definition, 1).remove(0);
        value.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect::<String>()
    };
    assert_eq!(form("type: now_utc_lite"), "0000-00-00T00:00:00.000");
    assert_eq!(form("type: now_with_format, format: '2006-01-02T15:04'"), "0000-00-00T00:00");
    let utc = form("type: now_utc");
    assert!(utc.starts_with("0000-00-00 00:00:00.") && utc.ends_with(" +0000 UTC"), "{utc}");
    assert!(form("type: now_local").starts_with("0000-00-00 00:00:00."));
}

#[test]
fn bitmaps_are_base64() {
    let rows =
        [("size: 1, from: 1, to: 1", "OjAAAAEAAAAAAAAAEAAAAAEA"), ("size: 0", "OjAAAAAAAAA=")];
    for (options, expected) in rows {
        assert_eq!(values(&format!("type: int_array_bitmap, {options}"), 1), [expected]);
    }
}

const NAMES: &str = "
variables:
  - {name: n, type: sequence}
  - {name: m, type: sequence, from: 100}
  - {name: text, type: list, data: [\"a b\\r\\nü\"]}
";

#[test]
fn values_last_as_long_as_their_kind() {
    let text = format!(
        "{NAMES}\nrequests:\n  - request:\n      url: http://a/$[[once]]\n      method: PUT\n      \
         headers: [X-N: '$[[once]]-$[[n]]']\n      runtime_variables: {{once: n}}\n      \
         runtime_body_line_variables: {{line: m}}\n      body_repeat_times: 3\n      body: \
         \"$[[line]]:$[[line]]:$[[once]]:$[[n]]\\n\"\n"
    );
    let plan = plan(&text, Limit::default());
    let mut worker = worker(&plan);
    let first = answered(worker.as_mut(), "").unwrap();
    assert!(first.starts_with("PUT /1 HTTP/1.1\r\nHost: a\r\n"), "{first}");
    assert!(first.contains("\r\nX-N: 1-2\r\n"), "{first}");
    assert!(first.contains("\r\nContent-Length: 36\r\n"), "{first}");
    assert_eq!(body(&first), "101:101:1:3\n102:102:1:4\n103:103:1:5\n");
    let second = answered(worker.as_mut(), "").unwrap();
    assert_eq!(body(&second), "104:104:6:8\n105:105:6:9\n106:106:6:10\n");
}

#[test]
fn values_cannot_break_the_head() {
    let text = format!(
        "{NAMES}\nrequests:\n  - request: {{url: 'http://a/p q?x=$[[text]]', headers: {{X: \
         '<$[[text]]>'}}, body: '$[[text]]'}}\n"
    );
    let plan = plan(&text, Limit::default());
    let request = answered(worker(&plan).as_mut(), "").unwrap();
    assert!(request.starts_with("GET /p%20q?x=a%20b%0D%0A%C3%BC HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("\r\nX: <a b  ü>\r\n"), "{request}");
    assert_eq!(body(&request), "a b\r\nü");
}

#[test]
fn simple_mode_takes_everything_literally() {
    let text = "requests:\n  - request: {url: 'http://a/$[[x]]', simple_mode: true, headers: {X: \
                '$[[y]]'}}\n";
    let plan = plan(text, Limit::default());
    let request = answered(worker(&plan).as_mut(), "").unwrap();
    assert!(request.starts_with("GET /$[[x]] HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("\r\nX: $[[y]]\r\n"), "{request}");
}

#[test]
fn the_environment_goes_before_the_default() {
    let text = "env: {HOST: 'http://default', PORT: 81, N: 2}\nrunner: {default_endpoint: \
                '$[[env.HOST]]:$[[env.PORT]]', default_basic_auth: {username: u, password: p}}\n\
                requests:\n  - request: {url: /x, body_repeat_times: '$[[env.N]]', body: ab}\n  - \
                request: {url: 'http://b:9/y', basic_auth: {username: v}, headers: {Host: z}}\n  - \
                request: {url: 'http://b:9/z', headers: {authorization: own}}\n";
    let plan = plan(text, Limit::default());
    let targets = crate::source::Requests::targets(&plan);
    assert_eq!(targets, ["http://from.environment:81", "http://b:9"]);
    let mut worker = worker(&plan);
    let first = answered(worker.as_mut(), "").unwrap();
    assert!(first.contains("\r\nHost: from.environment:81\r\n"), "{first}");
    assert!(first.contains("\r\nAuthorization: Basic dTpw\r\n"), "{first}");
    assert_eq!(body(&first), "abab");
    let second = answered(worker.as_mut(), "").unwrap();
    assert!(second.contains("\r\nAuthorization: Basic djo=\r\n"), "{second}");
    assert!(second.contains("\r\nHost: z\r\n") && !second.contains("Host: b"), "{second}");
    let third = answered(worker.as_mut(), "").unwrap();
    assert!(third.contains("\r\nauthorization: own\r\n") && !third.contains("Basic"), "{third}");
}

#[test]
fn a_body_is_json_unless_the_script_says_otherwise() {
    let rows = [
        ("body: '{}'", Some("application/json")),
        ("body: x, headers: [Content-type: text/plain]", Some("text/plain")),
        ("method: POST", None),
    ];
    for (fields, expected) in rows {
        let text = format!("requests:\n  - request: {{url: 'http://a/', {fields}}}\n");
        let plan = plan(&text, Limit::default());
        let (sent, _) = send(worker(&plan).as_mut()).unwrap();
        let found: Vec<&str> = sent
            .lines()
            .filter_map(|line| line.split_once(": "))
            .filter(|(name, _)| name.eq_ignore_ascii_case("content-type"))
            .map(|(_, value)| value)
            .collect();
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{sent}");
    }
}

#[test]
fn the_environment_has_names_that_are_not_declared() {
    let text = "requests:\n  - request: {url: '$[[env.HOST]]/x', has_variable: true}\n";
    let plan = plan(text, Limit::default());
    assert_eq!(plan.targets(), ["http://from.environment"]);
}
