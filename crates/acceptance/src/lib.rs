//! What the acceptance tests share: the configuration of a gateway in front of scripted origins.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test tool: a failed expectation is its way of failing the test that uses it"
)]

pub mod filtered;
pub mod filters;
pub mod http2_origin;
pub mod load;
pub mod path_peers;
pub mod peers;
pub mod tls;
pub mod websocket;

use std::time::Duration;

pub use sluice_testkit::http2;
use sluice_testkit::{Deadline, get};

/// The part of a configuration that every test begins with: free ports, no access log.
pub const PREAMBLE: &str = "\
[admin]
address = \"127.0.0.1:0\"

[log]
access = \"off\"

[[listener]]
name = \"web\"
address = \"127.0.0.1:0\"

";

/// A configuration: the preamble and this.
#[must_use]
pub fn config(rest: &str) -> String {
    format!("{PREAMBLE}{rest}")
}

/// An upstream of this name with one server.
#[must_use]
pub fn upstream(name: &str, server: &str) -> String {
    format!("[upstream.{name}]\nservers = [\"{server}\"]\n\n")
}

/// Everything of one listener goes to one server, by one worker: one pool and exact counts.
/// `listener` and `upstream` are further lines of their tables.
#[must_use]
pub fn passing(listener: &str, server: &str, upstream: &str) -> String {
    format!(
        "workers = 1\n{PREAMBLE}{listener}\n[upstream.origin]\nservers = [\"{server}\"]\n\
         {upstream}\n\n[[route]]\nproxy = \"origin\"\nbody_limit = \"off\"\n"
    )
}

/// Waits until `seen` holds; whether it did in time. For what nobody announces.
pub fn eventually(mut seen: impl FnMut() -> bool) -> bool {
    let deadline = Deadline::patient();
    while deadline.remaining().is_some() {
        if seen() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

/// The value of one sample of the metrics page, labels included in its name; 0 if it is not there.
///
/// # Panics
/// When the page cannot be fetched.
#[must_use]
pub fn metric(admin: &str, sample: &str) -> u64 {
    let page = get(admin, "/metrics").text();
    let found = page.lines().find_map(|line| line.strip_prefix(sample)?.trim().parse().ok());
    found.unwrap_or(0)
}
