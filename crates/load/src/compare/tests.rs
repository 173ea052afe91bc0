//! Comparisons of made-up results: what changed is found, noise is not taken for a difference.

use super::*;
use crate::report::sample;
use crate::results::Results;

fn recorded(results: &Results) -> Recorded {
    Recorded::parse(&serde_json::to_string(results).unwrap()).unwrap()
}

fn compared(before: &Recorded, after: &Recorded) -> Comparison {
    compare(("a.json".to_owned(), "b.json".to_owned()), before, after).unwrap()
}

#[test]
fn the_same_results_differ_in_nothing() {
    let one = recorded(&sample::results(8));
    let comparison = compared(&one, &one);
    assert_eq!(comparison.changed, []);
    assert_eq!(comparison.unmatched, Vec::<String>::new());
    // Two servers at three connection counts with four figures each, and the instructions of both.
    assert_eq!(comparison.differences.len(), 26);
    assert_eq!(comparison.beyond_noise(), 0, "{}", comparison.text());
}

#[test]
fn a_real_difference_is_beyond_noise_and_what_changed_is_named() {
    let before = sample::results(8);
    let mut after = before.clone();
    after.environment.kernel = "Linux 7.0".to_owned();
    after.servers[0].version = Some("sluice 0.2.0".to_owned());
    after.cases[0].parameters.push(("pipelining".to_owned(), "4".to_owned()));
    for run in after.cases[0].runs.iter_mut().filter(|run| run.server == "sluice") {
        if run.connections == 100 {
            run.outcome.as_mut().unwrap().rate *= 1.2;
        }
    }
    after.cases[0].runs.retain(|run| run.connections != 5000 || run.server != "nginx");
    let comparison = compared(&recorded(&before), &recorded(&after));
    let names: Vec<&str> = comparison.changed.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["kernel", "version of sluice", "hello: pipelining"]);
    assert_eq!(comparison.beyond_noise(), 1);
    let rate = &comparison.differences[0];
    assert_eq!((rate.place.as_str(), rate.figure), ("hello · sluice · 100", Figure::Rate));
    assert!((rate.ratio.median - 1.2).abs() < 1e-9);
    assert_eq!(comparison.unmatched, ["hello · nginx · 5000 is only in a.json"]);
    let text = comparison.text();
    for part in
        ["+20.0 %", "beyond noise", "within noise", "kernel: Linux 6.18.0 x86_64 -> Linux 7.0"]
    {
        assert!(text.contains(part), "{part} not in\n{text}");
    }
}

#[test]
fn single_runs_are_compared_second_by_second() {
    let mut before = sample::outcome(100, 1000.0, 100);
    before.seconds = 9.5;
    before.series = (0..10)
        .map(|offset| crate::outcome::Second {
            offset,
            responses: if offset == 9 { 500 } else { 1000 + u64::from(offset % 3) },
            errors: 0,
            p50_micros: 100,
            p99_micros: 200,
        })
        .collect();
    let mut after = before.clone();
    after.series.iter_mut().for_each(|second| second.p99_micros = 300);
    let text = |outcome: &crate::Outcome| serde_json::to_string(outcome).unwrap();
    let old = Recorded::parse(&text(&before)).unwrap();
    let new = Recorded::parse(&format!("[{}]", text(&after))).unwrap();
    let comparison = compared(&old, &new);
    assert_eq!(comparison.pairs, Pairs::Seconds);
    assert_eq!(comparison.beyond_noise(), 1);
    assert!(comparison.differences.iter().all(|one| one.ratio.rounds == 9), "{comparison:?}");
    assert!(comparison.text().contains("paired seconds"));
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let rows = [
        ("{", "no JSON"),
        ("{}", "no results"),
        ("{\"cases\": [], \"format\": 99}", "results of format 99"),
        ("[1]", "no results"),
    ];
    for (text, expected) in rows {
        let error = Recorded::parse(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let suite = recorded(&sample::results(3));
    let runs = Recorded::Runs(vec![sample::outcome(1, 1.0, 100)]);
    assert!(compare((String::new(), String::new()), &suite, &runs).is_err());
    let missing = files(Path::new("/no/such/file"), Path::new("/none")).unwrap_err();
    assert!(missing.contains("cannot read /no/such/file"), "{missing}");
}

#[test]
fn values_fit_the_difference_beside_them() {
    let before = sample::results(5);
    let mut after = before.clone();
    // Each round is a little faster than its pair, and rounds differ much more than that.
    let factors = [1.0, 0.4, 1.6, 0.5, 1.5];
    let mut all = [before, after.clone()];
    for (results, gain) in all.iter_mut().zip([1.0, 1.107]) {
        for run in results.cases[0].runs.iter_mut().filter(|run| run.server == "sluice") {
            let round = usize::try_from(run.round).unwrap() - 1;
            run.outcome.as_mut().unwrap().rate = 30_000.0 * factors[round] * gain;
        }
    }
    let [before, slower] = all;
    after = slower;
    // One round of each side is of another time of the day.
    after.cases[0].runs.retain(|run| run.round != 3);
    let comparison = compared(&recorded(&before), &recorded(&after));
    let rates = comparison.differences.iter().filter(|one| one.figure == Figure::Rate);
    for one in rates {
        assert!((one.after / one.before - one.ratio.median).abs() < 1e-9, "{one:?}");
    }
    let text = comparison.text();
    let row = text.lines().find(|line| line.contains("hello · sluice · 100 | req/s")).unwrap();
    assert!(row.contains("+10.7 %"), "{row}");
}
