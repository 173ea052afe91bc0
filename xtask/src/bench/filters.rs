//! What filters cost, beside what does the same in nginx and HAProxy.

use super::options::Options;
use super::peers::{Bench, Peer, Policy, Role};
use super::report::Row;
use super::server::Under;
use super::{column, measure, origin};

/// What is asked of everybody, and what it is called. HAProxy asks services by programs in Lua alone.
const POLICIES: [(Policy, &str); 5] = [
    (Policy::Edits, "five edits of header fields"),
    (Policy::Limit, "a rate limit by address"),
    (Policy::Split, "a tenth of the users to another upstream"),
    (Policy::Network, "four networks kept out"),
    (Policy::Login, "a service asked about each request"),
];

/// User instructions of a request with something to do for it, less those of the same without.
pub(super) fn instructions(bench: &Bench, _: &Options) -> Result<Vec<Row>, String> {
    let origin = origin(bench, Under::Nothing)?;
    let count =
        |peer, policy| measure::instructions(bench, peer, Role::Policed(origin.port, policy));
    let mut rows: Vec<Row> = POLICIES
        .iter()
        .map(|(_, what)| Row::new(&format!("user instructions added by {what}"), ""))
        .collect();
    for peer in &bench.peers {
        let plain = count(*peer, Policy::Plain)?;
        for (row, (policy, _)) in rows.iter_mut().zip(POLICIES) {
            if (*peer, policy) != (Peer::Haproxy, Policy::Login) {
                row.figures[column(*peer)] = format!("{:.0}", count(*peer, policy)? - plain);
            }
        }
    }
    Ok(rows)
}
