//! Reports of made-up results: well-formed, complete, and honest about what is wrong.

use quick_xml::Reader;
use quick_xml::events::Event;

use super::sample;
use super::*;
use crate::outcome::{Errors, Mode};
use crate::results::State;

/// Names of all elements of a well-formed XML text; panics where it is not.
fn elements(text: &str) -> Vec<String> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_end_names = true;
    let (mut names, mut open) = (Vec::new(), 0_i32);
    loop {
        match reader.read_event().expect("well-formed") {
            Event::Start(tag) => {
                open += 1;
                tag.attributes().for_each(|attribute| drop(attribute.expect("well-formed")));
                names.push(tag.name().as_ref().to_owned());
            }
            Event::Empty(tag) => names.push(tag.name().as_ref().to_owned()),
            Event::End(_) => open -= 1,
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(open, 0, "every element is closed");
    names
}

fn count(names: &[String], wanted: &str) -> usize {
    names.iter().filter(|name| *name == wanted).count()
}

#[test]
fn the_page_of_a_suite_is_one_well_formed_file_with_everything_in_it() {
    let report = suite(&sample::results(10)).unwrap();
    let names = elements(&report.html);
    // Three latency charts, the rate and the CPU time over connections.
    assert_eq!(count(&names, "svg"), 5);
    for nothing in ["script", "link", "img", "iframe"] {
        assert_eq!(count(&names, nothing), 0, "{nothing}");
    }
    for outside in ["src=", "url(", "@import", "href="] {
        assert!(!report.html.contains(outside), "{outside}");
    }
    let expected = [
        "2026-",
        "complete",
        "Example CPU &lt;3 GHz&gt;, 2 cores",
        "8.0 GiB",
        "0123456789ab",
        "nginx/1.22.1",
        "caddy is not installed",
        "waiting for compression",
        "Conclusion",
        "ahead",
        "prefers-color-scheme: dark",
        "8 847",
        "0.19 times the user instructions",
    ];
    for part in expected {
        assert!(report.html.contains(part), "{part}");
    }
}

#[test]
fn tables_have_all_their_rows() {
    let report = suite(&sample::results(10)).unwrap();
    let rows = |start: &str| {
        let after = report.markdown.split(start).nth(1).unwrap_or_else(|| panic!("{start}"));
        let table = after.trim_start().lines().take_while(|line| line.starts_with('|'));
        table.count() - 2
    };
    assert_eq!(rows("### Comparison\n"), 3);
    assert_eq!(rows("### Results of sluice\n"), 3);
    assert_eq!(rows("### Results of nginx\n"), 3);
    assert_eq!(rows("## Every run\n"), 60);
    let columns: Vec<usize> = report
        .markdown
        .lines()
        .filter(|line| line.starts_with("| 1 000 |"))
        .map(|line| line.matches('|').count())
        .collect();
    assert_eq!(columns, [15, 15], "two servers' rows, as wide as their heads");
    for (name, _) in &report.charts {
        assert!(report.markdown.contains(&format!("](charts/{name})")), "{name}");
    }
}

#[test]
fn every_chart_is_a_well_formed_file_of_its_own() {
    let report = suite(&sample::results(3)).unwrap();
    assert_eq!(report.charts.len(), 5);
    for (name, svg) in &report.charts {
        let names = elements(svg);
        assert_eq!(names.first().map(String::as_str), Some("svg"), "{name}");
        assert!(count(&names, "style") == 1 && !svg.contains("NaN"), "{name}");
    }
}

#[test]
fn files_for_programs_hold_every_run() {
    let results = sample::results(4);
    let report = suite(&results).unwrap();
    let lines: Vec<&str> = report.csv.lines().collect();
    assert_eq!(lines.len(), 1 + 24);
    let width = lines[0].split(',').count();
    assert!(lines.iter().all(|line| line.split(',').count() == width), "{}", report.csv);
    let back: Results = serde_json::from_str(&report.json).unwrap();
    assert_eq!(back, results);
}

#[test]
fn what_is_wrong_is_said() {
    let mut results = sample::results(3);
    results.state = State::Failed;
    results.environment.steal = 0.05;
    results.environment.load_before = 4.0;
    let case = &mut results.cases[0];
    for run in &mut case.runs {
        let outcome = run.outcome.as_mut().unwrap();
        match run.server.as_str() {
            "nginx" => {
                outcome.reply_bytes = Some((250, 260));
                outcome.errors = Errors { timeout: 331, read: 3249, ..Errors::default() };
            }
            _ => {
                outcome.sustained = Some(false);
                outcome.client_saturated = true;
                outcome.interrupted = true;
            }
        }
    }
    case.runs[0].noise.steal = 0.2;
    case.runs[1].noise.others = 0.3;
    case.runs[0].outcome = None;
    case.runs[0].failure = Some("it died".to_owned());
    let found = super::caveats::of_suite(&results).join("\n");
    let expected = [
        "incomplete",
        "took away 5.0 %",
        "load average was 4.00 on 2 cores",
        "With 3 rounds an interval covers the true median in 75.0 %",
        "9 747 read, 993 timeout",
        "not sustained in 2 of 2 runs",
        "the load generator was the limit in 3 of 3 runs",
        "stopped before its end",
        "nginx 250 to 260 bytes, sluice 180 bytes",
        "1 of 18 runs lost more than 1.0 %",
        "in 1 of 18 runs other programs used more than 10.0 %",
        "sluice at 100, round 1: it died",
    ];
    for part in expected {
        assert!(found.contains(part), "{part}\nnot in\n{found}");
    }
    let marked = suite(&results).unwrap();
    let mark = "Not to be published: CPU time was stolen by the host";
    assert!(marked.markdown.contains(mark) && marked.html.contains(mark));
    assert!(!suite(&sample::results(10)).unwrap().markdown.contains("Not to be published"));
    let quiet = "no: CPU time was stolen by the host, others were working before it began, others \
                 were working during 1 of 18 runs";
    assert!(suite(&results).unwrap().markdown.contains(quiet));
    assert!(suite(&sample::results(10)).unwrap().markdown.contains("| Quiet | yes |"));
}

#[test]
fn a_quiet_even_suite_has_no_caveats() {
    assert_eq!(super::caveats::of_suite(&sample::results(10)), Vec::<String>::new());
}

#[test]
fn the_conclusion_states_the_honest_ratios() {
    let headlines = super::conclusion::headlines(&sample::results(10));
    assert_eq!(
        headlines,
        [
            "sluice against nginx, medians over all settings (3): 0.80 times the CPU time per request (3 of 3 \
          beyond noise), 0.77 times the p99 latency (3 of 3 beyond noise), 1.02 times the requests \
          per second (3 of 3 beyond noise)."
        ]
    );
    let sentences = super::conclusion::sentences(&sample::results(2));
    assert_eq!(sentences.len(), 3);
    assert!(
        sentences[0].contains("0.80 times (too few rounds for an interval) the CPU time"),
        "{sentences:?}"
    );
}

#[test]
fn runs_without_a_suite() {
    let mut open = sample::outcome(100, 3000.0, 400);
    open.mode = Mode::Open { rate_per_second: 3000.0 };
    open.sustained = Some(false);
    open.uncorrected = Some(sample::outcome(100, 3000.0, 200).latency);
    let outcomes = [sample::outcome(10, 1000.0, 100), open];
    let page = html(&outcomes);
    let names = elements(&page);
    assert_eq!(count(&names, "svg"), 2);
    assert!(page.contains("3 000/s over 100 connections, uncorrected"), "{page}");
    assert!(page.contains("not sustained"));
    assert_eq!(csv(&outcomes).lines().count(), 3);
    assert!(markdown(&outcomes).contains("](charts/latency.svg)"));
    assert_eq!(charts(&outcomes).len(), 2);
    let one: crate::Outcome = serde_json::from_str(&json(&outcomes[..1]).unwrap()).unwrap();
    assert_eq!(one, outcomes[0]);
    let both: Vec<crate::Outcome> = serde_json::from_str(&json(&outcomes).unwrap()).unwrap();
    assert_eq!(both, outcomes);
    elements(&html(&[]));
}

#[test]
fn a_run_without_a_histogram_is_drawn_from_its_percentiles() {
    let mut outcome = sample::outcome(10, 1000.0, 100);
    outcome.latency.histogram = String::new();
    let page = html(std::slice::from_ref(&outcome));
    elements(&page);
    assert!(page.contains("<circle"));
}

/// The cells of the first row of the comparison.
fn comparison(results: &crate::results::Results) -> Vec<String> {
    let markdown = suite(results).unwrap().markdown;
    let after = markdown.split("### Comparison\n").nth(1).unwrap();
    let row = after.trim_start().lines().nth(2).unwrap();
    row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()
}

#[test]
fn a_row_of_a_comparison_does_not_contradict_itself() {
    let mut results = sample::results(5);
    // Each round of the subject is ahead by a tenth, but rounds differ by far more than that, and two
    // of the peer's are missing.
    let factors = [1.0, 0.4, 1.6, 0.5, 1.5];
    for run in &mut results.cases[0].runs {
        let gain = if run.server == "sluice" { 1.107 } else { 1.0 };
        let round = usize::try_from(run.round).unwrap() - 1;
        run.outcome.as_mut().unwrap().rate = 30_000.0 * factors[round] * gain;
    }
    results.cases[0].runs.retain(|run| run.server == "sluice" || ![2, 4].contains(&run.round));
    let cells = comparison(&results);
    let rate = |cell: &str| cell.replace(' ', "").parse::<f64>().unwrap();
    assert!((rate(&cells[1]) / rate(&cells[2]) - 1.107).abs() < 0.001, "{cells:?}");
    assert_eq!(
        (cells[3].as_str(), cells[4].as_str()),
        ("1.11 (1.11 to 1.11)", "ahead"),
        "{cells:?}"
    );
    // The tail has a ratio and a verdict, too.
    assert_eq!(cells.len(), 13);
    assert_eq!(cells[12], "ahead", "{cells:?}");
    assert!(cells[11].starts_with("0.77 (0.77 to"), "{cells:?}");
}

#[test]
fn a_rate_that_is_the_ramps_is_no_verdict() {
    let mut results = sample::results(6);
    for run in &mut results.cases[0].runs {
        let outcome = run.outcome.as_mut().unwrap();
        outcome.mode = Mode::Users { users: 9000, requests_each: 10, ramp_seconds: 1.0 };
    }
    assert_eq!(comparison(&results)[4], "the ramp's");
    let caveats = super::caveats::of_suite(&results).join("\n");
    assert!(caveats.contains("the rate is the ramp's, 90 000 requests per second"), "{caveats}");
    let sentences = super::conclusion::sentences(&results);
    assert!(!sentences[0].contains("the requests per second"), "{sentences:?}");
}
