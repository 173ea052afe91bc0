//! The load generator and its reports.

mod answer;
mod arguments;
mod bench;
mod bottleneck;
mod claims;
pub mod compare;
mod console;
pub mod environment;
mod figures;
pub mod h2;
pub mod histogram;
mod lane;
mod link;
pub mod live;
pub mod outcome;
mod pace;
pub mod plain;
pub mod plan;
mod redis;
pub mod report;
pub mod request;
pub mod results;
pub mod run;
pub mod script;
mod scripted;
pub mod source;
pub mod statistics;
pub mod suite;
pub mod tally;
pub mod target;
mod thread;
mod thresholds;
mod worker;

pub use arguments::BenchArguments;
pub use bench::bench;
pub use outcome::Outcome;
