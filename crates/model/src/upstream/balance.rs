//! How a server of an upstream is chosen.

use crate::fields::Fields;

/// How a server is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// One after the other, by weight.
    RoundRobin,
}

pub(super) fn read_balance(fields: &Fields<'_, '_>) -> Balance {
    // One word so far: reading it still refuses every other.
    match fields.word("balance") {
        Some("round_robin") | None | Some(_) => Balance::RoundRobin,
    }
}
