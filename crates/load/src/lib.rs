//! The load generator and its reports.

mod figures;
pub mod histogram;
pub mod outcome;
pub mod source;
pub mod statistics;

pub use outcome::Outcome;
