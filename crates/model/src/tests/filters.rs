//! One row for each kind of filter, for the tests of the tables.

/// A kind of filter.
pub(super) struct Row {
    /// All its tables opened, with what is required.
    pub(super) example: &'static str,
    /// For each of its tables an unknown key in it.
    pub(super) wrong: &'static [&'static str],
}

pub(super) const FILTERS: &[Row] =
    &[Row { example: "guard = {}", wrong: &["guard = { zzzzzzz = 1 }"] }];
