//! `cargo xtask bench filters`: what filters cost, beside what does the same in nginx and HAProxy.

use std::path::{Path, PathBuf};

use super::options::{Defaults, Options};
use super::peers::{Bench, Filters, Peer, Policy, Role};
use super::report::{self, Row, Section, Side};
use super::server::Under;
use super::{IDLE_FILTERS, KNOWN_TOKEN, column, measure, origin};

const USAGE: &str = "\
usage: cargo xtask bench filters [OPTION ...]
  --sluice FILE    the program (target/release/sluice)
  --no-write       leave bench/RESULTS.md alone
  --publish-anyway write it even if the machine was not quiet
";

/// The title of the section this writes.
const TITLE: &str = "Filters";

/// Instructions are counted once: there are no rounds.
const DEFAULTS: Defaults =
    Defaults { usage: USAGE, rounds: 1, seconds: 1, own: ("--requests", 20_000, 20_000) };

/// What is asked of everybody, and what it is called. HAProxy asks services by programs in Lua alone.
const POLICIES: [(Policy, &str); 6] = [
    (Policy::Plain, "nothing but proxying"),
    (Policy::Edits, "five edits of header fields"),
    (Policy::Limit, "a rate limit by address"),
    (Policy::Split, "a tenth of the users to another upstream"),
    (Policy::Network, "four networks kept out"),
    (Policy::Login, "a service asked about each request"),
];

/// What is asked of ours alone, in front of an answer of its own, and what it may cost.
const OWN: [(Filters, &str, Option<f64>); 3] = [
    (Filters::Idle, "ten filters with conditions that do not hold", Some(IDLE_FILTERS)),
    (Filters::Jwt, "a token (HS256) that was seen before", Some(KNOWN_TOKEN)),
    (Filters::RateLimit, "a rate limit by address", None),
];

/// Counts, prints the table and writes the section.
pub(super) fn run(root: &Path, sluice: PathBuf, arguments: &[String]) -> Result<(), String> {
    let options = Options::parse(&DEFAULTS, sluice, arguments)?;
    let bench = Bench::new(root, options.sluice.clone())?;
    let rows = [policies(&bench)?, own(&bench)?].concat();
    let section = Section {
        command: "filters",
        title: TITLE,
        table: report::table(&rows),
        how: how(),
        missing: &bench.missing,
        machine: report::environment(&bench, Side::Server),
    };
    section.print();
    if options.write {
        section.write(root)?;
    }
    Ok(())
}

fn how() -> Vec<String> {
    [
        "user instructions per request by callgrind, 20 000 requests over 50 connections after a warm-up; one worker each",
        "added: less those of the same request without; a figure within 1 % of all instructions of the request is as good as none",
        "each server does it in its own way: nginx limits by a leaky bucket, HAProxy by a count over a second, Sluice by GCRA; HAProxy's figures differ by up to 1 500 from run to run",
    ]
    .map(String::from)
    .to_vec()
}

/// User instructions of a proxied request with something to do for it, less those of the same without.
fn policies(bench: &Bench) -> Result<Vec<Row>, String> {
    let origin = origin(bench, Under::Nothing)?;
    let count =
        |peer, policy| measure::instructions(bench, peer, Role::Policed(origin.port, policy));
    let title = |(policy, what): &(Policy, &str)| match policy {
        Policy::Plain => format!("user instructions, {what}"),
        _ => format!("added by {what}"),
    };
    let mut rows: Vec<Row> = POLICIES.iter().map(|it| Row::new(&title(it), "")).collect();
    for peer in &bench.peers {
        let plain = count(*peer, Policy::Plain)?;
        for (row, (policy, what)) in rows.iter_mut().zip(POLICIES) {
            eprintln!("{}: {what} ...", peer.name());
            let figure = match (*peer, policy) {
                (_, Policy::Plain) => plain,
                (Peer::Haproxy, Policy::Login) => continue,
                _ => count(*peer, policy)? - plain,
            };
            row.figures[column(*peer)] = format!("{figure:.0}");
        }
    }
    Ok(rows)
}

/// The same for what is measured of ours alone.
fn own(bench: &Bench) -> Result<Vec<Row>, String> {
    let count = |role| measure::instructions(bench, Peer::Sluice, role);
    let direct = count(Role::Direct)?;
    let mut rows = Vec::new();
    for (filters, what, limit) in OWN {
        let target = limit.map_or(String::new(), |limit| format!("at most {limit}"));
        let mut row = Row::new(&format!("added to a direct answer by {what}"), &target);
        let figure = count(Role::Filtered(filters))? - direct;
        row.figures[column(Peer::Sluice)] = format!("{figure:.0}");
        row.reached = limit.map(|limit| figure <= limit);
        rows.push(row);
    }
    Ok(rows)
}
