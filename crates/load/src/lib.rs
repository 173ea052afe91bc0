//! The load generator and its reports.

pub mod outcome;
pub mod source;
