//! `sluice bench redis://…`: load for servers that speak the Redis protocol (RESP2).
//!
//! What it sends and the figures it shows are those of redis-benchmark, so that both can stand beside
//! each other: first it asks for two settings, then each test runs with its own connections.

mod bench;
mod client;
mod command;
mod report;
mod scan;
mod target;
mod thread;

#[cfg(test)]
mod tests;

pub(crate) use bench::{bench, suite_run};
pub(crate) use target::is_redis;
