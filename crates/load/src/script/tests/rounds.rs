//! The order of requests, repeats, limits, registered values and assertions.

use std::time::Duration;

use super::{Limit, answer, answered, body, plan, send, worker};
use crate::source::{Content, Failure, Requests, Step, Verdict};

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// The targets of all requests a worker sends.
fn lines(worker: &mut dyn crate::source::RequestSource, most: usize) -> Vec<String> {
    let mut lines = Vec::new();
    while lines.len() < most {
        let Some(text) = answered(worker, "") else { break };
        lines.push(first_line(&text).trim_end_matches(" HTTP/1.1").to_owned());
    }
    lines
}

const THREE: &str = "
requests:
  - request: {url: http://a/1}
  - request: {url: http://a/2, execute_repeat_times: 2}
  - request: {url: http://a/3, method: DELETE}
";

#[test]
fn requests_go_round_in_order() {
    let plan = plan(THREE, Limit::default());
    let expected = ["GET /1", "GET /2", "GET /2", "DELETE /3", "GET /1", "GET /2"];
    assert_eq!(lines(worker(&plan).as_mut(), 6), expected);
}

#[test]
fn rounds_end_a_worker() {
    let text = format!("runner: {{total_rounds: 2}}\n{THREE}");
    assert_eq!(lines(worker(&plan(&text, Limit::default())).as_mut(), 100).len(), 8);
    let limit = Limit { rounds: Some(1), requests: None };
    assert_eq!(lines(worker(&plan(&text, limit)).as_mut(), 100).len(), 4);
}

#[test]
fn the_count_holds_over_all_workers_and_the_warm_up() {
    let plan = plan(THREE, Limit { requests: Some(11), rounds: None });
    let mut warm_up = plan.warm_up().unwrap();
    assert_eq!(lines(warm_up.as_mut(), 100), ["GET /1", "GET /2", "DELETE /3"]);
    let mut workers: Vec<_> = (0..3).map(|_| worker(&plan)).collect();
    let mut sent = 0;
    while workers.iter_mut().any(|worker| answered(worker.as_mut(), "").is_some()) {
        sent += 1;
    }
    assert_eq!(sent, 8);
    assert_eq!(plan.counts().warm_up, 3);
}

#[test]
fn the_warm_up_may_be_left_out() {
    let text = format!("runner: {{no_warm: true}}\n{THREE}");
    assert!(plan(&text, Limit::default()).warm_up().is_none());
}

#[test]
fn the_warm_up_says_what_is_wrong() {
    let text = format!("runner: {{valid_status_codes_during_warmup: [404]}}\n{THREE}");
    let plan = plan(&text, Limit::default());
    let mut warm_up = plan.warm_up().unwrap();
    for status in [404, 500] {
        let (_, meta) = send(warm_up.as_mut()).unwrap();
        answer(warm_up.as_mut(), meta, (status, ""));
    }
    let (_, meta) = send(warm_up.as_mut()).unwrap();
    warm_up.on_failure(meta, Failure::Connect);
    let samples: Vec<String> = plan
        .counts()
        .samples
        .iter()
        .map(|sample| format!("{}: {}", sample.request, sample.what))
        .collect();
    assert_eq!(
        samples,
        ["GET http://a/2: warm-up: status 500", "DELETE http://a/3: warm-up: no connection"]
    );
}

#[test]
fn a_pause_comes_behind_its_request() {
    let text = "requests:\n  - {request: {url: 'http://a/'}, sleep: {sleep_in_milli_seconds: 5}}\n";
    let plan = plan(text, Limit { requests: Some(2), rounds: None });
    let mut worker = worker(&plan);
    let mut steps = Vec::new();
    for _ in 0..5 {
        steps.push(match worker.next(&mut Vec::new()) {
            Step::Send(_) => None,
            Step::Pause(pause) => Some(pause),
            Step::End => Some(Duration::ZERO),
        });
    }
    let pause = Some(Duration::from_millis(5));
    assert_eq!(steps, [None, pause, None, pause, Some(Duration::ZERO)]);
}

const FLOW: &str = "
requests:
  - request: {url: http://a/login, method: POST}
    register:
      - token: _ctx.response.body_json.token
      - part: _ctx.response.body_json.deep[1].x
      - code: _ctx.response.status
    assert: {equals: {_ctx.response.status: 200}}
  - request: {url: 'http://a/use?t=$[[token]]', method: POST, body: '$[[part]] $[[code]]'}
";

#[test]
fn registered_values_reach_later_requests() {
    let plan = plan(FLOW, Limit::default());
    let mut worker = worker(&plan);
    let (_, meta) = send(worker.as_mut()).unwrap();
    assert_eq!(meta.content, Content::Gather);
    let reply = r#"{"token": "a/b c", "deep": [0, {"x": {"y": 1.5}}]}"#;
    assert_eq!(answer(worker.as_mut(), meta, (200, reply)), Verdict::Expected);
    let (text, meta) = send(worker.as_mut()).unwrap();
    assert_eq!(meta.content, Content::Discard);
    assert_eq!(first_line(&text), "POST /use?t=a/b%20c HTTP/1.1");
    assert_eq!(body(&text), "{\"y\":1.5} 200");
    assert_eq!(plan.counts().missed, 0);
}

#[test]
fn what_was_not_registered_is_not_found_and_counted() {
    let plan = plan(FLOW, Limit::default());
    let mut worker = worker(&plan);
    assert!(answered(worker.as_mut(), "no json").is_some());
    let text = answered(worker.as_mut(), "").unwrap();
    assert_eq!(first_line(&text), "POST /use?t=not_found HTTP/1.1");
    drop(worker);
    assert_eq!(plan.counts().missed, 2);
}

#[test]
fn registered_values_belong_to_a_worker_and_may_end_with_the_round() {
    let text = format!("runner: {{reset_context: true, total_rounds: 2}}\n{FLOW}");
    for (script, expected) in [(text.as_str(), "not_found"), (FLOW, "x")] {
        let plan = plan(script, Limit::default());
        let mut worker = worker(&plan);
        answered(worker.as_mut(), r#"{"token": "x"}"#);
        answered(worker.as_mut(), "");
        let (_, meta) = send(worker.as_mut()).unwrap();
        worker.on_failure(meta, Failure::Read);
        // The failure ended the round, or the run where it was the last one.
        if let Some((text, _)) = send(worker.as_mut()) {
            assert_eq!(first_line(&text), "POST /login HTTP/1.1");
        }
        let mut other = plan.worker(1);
        send(other.as_mut());
        let (text, _) = send(other.as_mut()).unwrap();
        assert!(text.contains("t=not_found"), "{expected}: {text}");
    }
}

#[test]
fn a_failed_assertion_ends_the_round() {
    let rows = [
        ("", "POST /login HTTP/1.1", 1, 0, Verdict::UnexpectedStatus),
        (
            "runner: {continue_on_assert_invalid: true}",
            "POST /use?t=not_found HTTP/1.1",
            1,
            0,
            Verdict::UnexpectedStatus,
        ),
        (
            "runner: {skip_invalid_assert: true}",
            "POST /use?t=not_found HTTP/1.1",
            0,
            1,
            Verdict::Expected,
        ),
        (
            "runner: {benchmark_only: true}",
            "POST /use?t=not_found HTTP/1.1",
            0,
            0,
            Verdict::Expected,
        ),
    ];
    for (runner, next, invalid, skipped, verdict) in rows {
        let plan = plan(&format!("{runner}\n{FLOW}"), Limit::default());
        let mut worker = worker(&plan);
        let (_, meta) = send(worker.as_mut()).unwrap();
        assert_eq!(answer(worker.as_mut(), meta, (500, "")), verdict, "{runner}");
        let (text, _) = send(worker.as_mut()).unwrap();
        assert_eq!(first_line(&text), next, "{runner}");
        let counts = plan.counts();
        assert_eq!((counts.invalid, counts.skipped), (invalid, skipped), "{runner}");
        if invalid > 0 {
            assert_eq!(
                counts.samples[0].what,
                "status 500 with 0 bytes, but asserted was equals: {_ctx.response.status: 200}"
            );
        }
    }
}

/// What a worker does, up to so many steps: `/1` for a request, its length for a pause.
fn steps(source: &mut dyn crate::source::RequestSource, most: usize) -> Vec<String> {
    let mut steps = Vec::new();
    while steps.len() < most {
        let mut out = Vec::new();
        match source.next(&mut out) {
            Step::End => break,
            Step::Pause(pause) => steps.push(format!("{pause:?}")),
            Step::Send(meta) => {
                let text = String::from_utf8(out).unwrap();
                steps.push(first_line(&text).trim_end_matches(" HTTP/1.1").to_owned());
                answer(source, meta, (200, ""));
            }
        }
    }
    steps
}

#[test]
fn entries_that_only_sleep_come_in_their_turn() {
    let text = "
runner: {total_rounds: 2, no_warm: true}
requests:
  - sleep: {sleep_in_milli_seconds: 1}
  - request: {url: http://a/1, execute_repeat_times: 2}
  - sleep: {sleep_in_milli_seconds: 2}
  - sleep: {sleep_in_milli_seconds: 3}
  - request: {url: http://a/2}
  - sleep: {sleep_in_milli_seconds: 4}
";
    let round = ["1ms", "GET /1", "GET /1", "5ms", "GET /2", "4ms"];
    let found = steps(worker(&plan(text, Limit::default())).as_mut(), 100);
    assert_eq!(found, [round, round].concat());
}
