//! How `sluice bench` offers its requests: closed loop, constant rate, ramp, users.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::sync::Mutex;
use std::time::Duration;

use sluice_acceptance::config;
use sluice_acceptance::load::bench;
use sluice_testkit::{Exchange, Origin, Sluice, behaviour};

/// How long the origin stalls.
const STALL: Duration = Duration::from_millis(300);

fn url(origin: &Origin) -> String {
    format!("http://{}/", origin.address())
}

/// Answers at once, but for the 200th request: while that one waits, nobody is answered.
fn stalling() -> impl Fn(&mut Exchange) -> std::io::Result<()> {
    let count = Mutex::new(0);
    move |exchange| {
        let mut count = count.lock().unwrap();
        *count += 1;
        if *count == 200 {
            exchange.pause(STALL);
        }
        exchange.answer(200, &[], "x")
    }
}

#[test]
fn an_open_loop_shows_a_stall_that_a_closed_loop_hides() {
    let origin = Origin::start(stalling());
    let done = bench(&["-c", "2", "--rate", "500/s", "-n", "500", &url(&origin)]);
    // A busy machine may need longer than the schedule.
    assert!([Some(0), Some(4)].contains(&done.finished.code), "{:?}", done.finished);
    assert_eq!((done.number("/responses"), done.number("/errors/timeout")), (500.0, 0.0));
    // 150 requests became due within the stall; two were on the way.
    let (since_due, since_sent) =
        (done.percentile("latency", 99.0), done.percentile("uncorrected", 99.0));
    assert!(since_due > 200_000.0, "{since_due}");
    assert!(since_sent * 2.0 < since_due, "{since_sent} {since_due}");
    for of in ["latency", "uncorrected"] {
        assert!(done.percentile(of, 100.0) >= 299_000.0, "{of}");
    }
    assert!(done.finished.stdout.contains("open loop at 500/s"), "{}", done.finished.stdout);
    assert!(done.finished.stdout.contains("   since due  since sent"), "{}", done.finished.stdout);

    let origin = Origin::start(stalling());
    let done = bench(&["-c", "2", "-n", "500", &url(&origin)]);
    assert!(done.json["uncorrected"].is_null());
    assert!(done.percentile("latency", 99.0) < 200_000.0, "{:?}", done.finished);
    assert!(done.percentile("latency", 100.0) >= 299_000.0);
}

#[test]
fn a_rate_that_is_missed_is_marked() {
    let origin =
        Origin::start(behaviour::delayed(Duration::from_millis(5), behaviour::fixed(200, "x")));
    let done = bench(&["-c", "1", "--rate", "2000/s", "-d", "300ms", &url(&origin)]);
    assert_eq!(done.json["sustained"], false, "{:?}", done.finished);
    // One connection and 5 ms for each answer: what was really served stands there.
    assert!(done.number("/rate") <= 200.0, "{}", done.number("/rate"));
    assert!(done.finished.stdout.contains("/s of 2 000/s: NOT SUSTAINED"), "{:?}", done.finished);
    // So slow that a busy machine keeps up.
    let done = bench(&["-c", "1", "--rate", "10/s", "-d", "500ms", &url(&origin)]);
    assert_eq!(done.json["sustained"], true, "{:?}", done.finished);
    assert!(done.finished.stdout.contains("/s, sustained"), "{:?}", done.finished);
}

#[test]
fn a_ramp_finds_the_knee() {
    let origin =
        Origin::start(behaviour::delayed(Duration::from_millis(5), behaviour::fixed(200, "x")));
    let rates = ["--rate", "10..5000/s", "--step", "998", "--step-duration", "300ms"];
    let done = bench(&[&["-c", "1"], &rates[..], &[&url(&origin)]].concat());
    assert_eq!(done.finished.code, Some(0), "{:?}", done.finished);
    let text = &done.finished.stdout;
    let verdicts: Vec<(String, String)> = text
        .lines()
        .skip(1)
        .take_while(|line| !line.is_empty())
        .map(|line| {
            let cells: Vec<&str> =
                line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
            (cells[0].to_owned(), cells[5].to_owned())
        })
        .collect();
    // 200/s is the most there is, and after two rates that are too high there is nothing to find.
    let expected = [("10", "yes"), ("1 008", "NO"), ("2 006", "NO")];
    assert_eq!(verdicts, expected.map(|(rate, word)| (rate.to_owned(), word.to_owned())), "{text}");
    assert!(text.contains("The highest rate sustained without errors: 10/s"), "{text}");
    assert_eq!(done.json.as_array().map(Vec::len), Some(3));
    let bad = [
        (&["--rate", "100/s", "--step", "5"][..], "--step"),
        (&["--rate", "100/s", "--step-duration", "5s"], "--step-duration"),
        (&["--rate", "10..20/s", "-d", "5s"], "--step-duration"),
        (&["--rate", "10..20/s", "-n", "5"], "--step-duration"),
        (&["--rate", "20..10/s"], "the lower one"),
    ];
    for (words, part) in bad {
        let refused = bench(&[words, &[&url(&origin)]].concat()).finished;
        assert_eq!(refused.code, Some(2), "{words:?} {refused:?}");
        assert!(refused.stderr.contains(part), "{words:?} {refused:?}");
    }
}

#[test]
fn users_come_send_and_leave() {
    let origin = Origin::start(behaviour::fixed(200, "x"));
    let users = ["--users", "20", "--requests-each", "5", "--ramp-up", "200ms"];
    let done = bench(&[&users[..], &[&url(&origin)]].concat());
    done.assert_good(100.0);
    assert_eq!(origin.connections(), 20);
    let seen = origin.requests();
    for connection in 1..=20 {
        let of = seen.iter().filter(|request| request.connection == connection).count();
        assert_eq!(of, 5, "connection {connection}");
    }
    // The last one comes at the end of the ramp.
    assert!(done.number("/seconds") >= 0.19, "{}", done.number("/seconds"));
    assert!(done.finished.stdout.contains("20 users with 5 requests each"), "{:?}", done.finished);
    assert!(origin.wait_for_open_connections(0));
}

#[test]
fn the_spectrum_has_the_columns_that_plotters_read() {
    let sluice = Sluice::start(&config("[[route]]\npath = \"/\"\nrespond = \"x\"\n"));
    let target = format!("http://{}/", sluice.address("web"));
    for (words, tables) in [(&["-n", "500"][..], 1), (&["-n", "100", "--rate", "1000/s"], 2)] {
        let done = bench(&[&["-c", "2", "--spectrum"], words, &[&target]].concat());
        assert_eq!(done.finished.code, Some(0), "{:?}", done.finished);
        let text = &done.finished.stdout;
        let heads = "       Value   Percentile   TotalCount 1/(1-Percentile)\n\n";
        assert_eq!(text.matches(heads).count(), tables, "{text}");
        let count = words[1].parse::<u32>().unwrap();
        for table in text.split(heads).skip(1) {
            check_spectrum(table, count);
        }
    }
    sluice.stop();
}

/// Values, percentiles and counts rise, and the last row holds everything.
fn check_spectrum(table: &str, count: u32) {
    let (rows, tail) = table.split_once("#[").unwrap();
    let rows: Vec<Vec<f64>> = rows
        .lines()
        .map(|line| line.split_whitespace().map(|cell| cell.parse().unwrap()).collect())
        .collect();
    assert!(rows.len() > 10 && rows.iter().all(|row| row.len() == 4), "{table}");
    for pair in rows.windows(2) {
        assert!((0..3).all(|column| pair[0][column] <= pair[1][column]), "{table}");
    }
    for row in &rows {
        let expected = 1.0 / (1.0 - row[1]);
        assert!(row[3].is_infinite() || (row[3] / expected - 1.0).abs() < 0.01, "{row:?}");
    }
    let last = rows.last().unwrap();
    assert_eq!((last[1], last[2], last[3].is_infinite()), (1.0, f64::from(count), true), "{table}");
    assert!(tail.contains(&format!("Total count    = {count:12}]")), "{table}");
}
