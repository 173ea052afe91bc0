//! Clusters of servers: which server is next, and the connections kept open to it.
//!
//! A [`ClusterPlan`] is what the configuration asks for, shared by all threads. A [`Cluster`] is what
//! one worker makes of it: its own position in the rotation, its own pools, its own counters. When a
//! plan changes, servers that stay keep their connections.

mod ask;
mod balance;
mod cluster;
mod plan;
mod pool;
mod server;
mod state;

pub use ask::Ask;
pub use cluster::Cluster;
pub use plan::{BalanceRule, ClusterPlan, ClusterSettings, RetryPolicy, ServerPlan};
pub use server::Server;
pub use state::{Bar, ClusterState, ServerState};

#[cfg(test)]
mod tests;
