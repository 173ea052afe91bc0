//! Attacks that cost their client little: floods of frames and clients that are slow.
//!
//! Each ends its own connection, for the reason that belongs to it, and costs no memory to speak of. With
//! `ATTACKS_REPORT`, the name of a file, the same attacks go on for longer, against this gateway and
//! against nginx, and a table of what they cost is written there.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::as_conversions,
    reason = "a test fails by panicking"
)]

#[path = "attacks/flooding.rs"]
mod flooding;
#[path = "attacks/frames.rs"]
mod frames;
#[path = "attacks/neighbour.rs"]
mod neighbour;
#[path = "attacks/slow.rs"]
mod slow;
#[path = "attacks/table.rs"]
mod table;
#[path = "attacks/target.rs"]
mod target;

use std::time::Duration;

use flooding::{Bound, flood};
use frames::FLOODS;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use slow::{SLOWNESSES, hold};
use sluice_acceptance::http2::Http2Client;
use sluice_acceptance::{eventually, metric};
use sluice_testkit::get;
use target::{Running, Target};

/// What an attack may add to the resident memory, in KiB.
const COST: u64 = 16 * 1024;

/// What a response that nobody takes may cost, in KiB: the piece at hand and what belongs to a request.
const PIECE: u64 = 48;

/// Steps of a flood on each of its connections.
const STEPS: u32 = 2_500;

fn descriptors() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

fn admin(target: &Target) -> String {
    match &target.running {
        Running::Sluice(sluice) => sluice.admin(),
        Running::Nginx { .. } => unreachable!("it has none"),
    }
}

fn stop(target: Target) {
    match target.running {
        Running::Sluice(sluice) => sluice.stop(),
        Running::Nginx { .. } => {}
    }
}

/// The connections that ended for a reason of HTTP/2.
fn ended(admin: &str, reason: &str) -> u64 {
    metric(
        admin,
        &format!("sluice_listener_http2_errors_total{{listener=\"web\",reason=\"{reason}\"}}"),
    )
}

#[test]
fn every_flood_ends_its_connections_or_costs_nothing() {
    descriptors();
    let origin = target::origin();
    let target = target::sluice(&origin.address, "");
    let admin = admin(&target);
    let mut other = Http2Client::connect(&target.http2);
    let mut complaints = Vec::new();
    for attack in FLOODS {
        let before = (target.usage().resident, ended(&admin, attack.reason));
        let sent = flood(&target.http2, attack, Bound::Steps(STEPS));
        assert_eq!(other.get("/").text(), "hello", "{}", attack.name);
        if !attack.reason.is_empty() {
            let found = || ended(&admin, attack.reason) - before.1 == sent.connections;
            if !eventually(found) {
                complaints.push(format!("{} goes on: {sent:?}", attack.name));
            }
        }
        let grown = target.usage().resident.saturating_sub(before.0);
        if grown > COST {
            complaints.push(format!("{} cost {grown} KiB", attack.name));
        }
    }
    assert_eq!(complaints, Vec::<String>::new());
    assert_eq!(metric(&admin, "sluice_panics_total"), 0);
    stop(target);
}

#[test]
fn slow_clients_cost_little_and_are_not_waited_for() {
    descriptors();
    let origin = target::origin();
    let target = target::sluice(
        &origin.address,
        "timeout = { head = \"500ms\", handshake = \"500ms\", body = \"30s\", write = \"500ms\" }",
    );
    let admin = admin(&target);
    for slowness in SLOWNESSES {
        let before = target.usage().resident;
        let (opened, _) = hold(&target, slowness, 400, Duration::from_secs(1));
        assert_eq!(opened, 400 / slowness.share, "{}", slowness.name);
        assert_eq!(get(&target.http1, "/").text(), "hello", "{}", slowness.name);
        let grown = target.usage().resident.saturating_sub(before);
        // Two thousand streams at most, with the piece of a response that each of them holds.
        assert!(grown < 2_000 * PIECE, "{} cost {grown} KiB", slowness.name);
        let gone = || {
            let of = |name| {
                metric(&admin, &format!("sluice_listener_connections{{listener=\"{name}\"}}"))
            };
            of("web") + of("secure") == 0
        };
        assert!(eventually(gone), "{}: connections are left", slowness.name);
    }
    stop(target);
}

#[test]
fn a_table_is_written_where_it_is_asked_for() {
    let Some(path) = std::env::var_os("ATTACKS_REPORT") else { return };
    descriptors();
    let text = table::measure();
    println!("{text}");
    std::fs::write(path, text).unwrap();
}
