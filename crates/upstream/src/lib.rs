//! Clusters of servers: which server is next, and the connections kept open to it.
//!
//! A [`ClusterPlan`] is what the configuration asks for, shared by all threads. A [`Cluster`] is what
//! one worker makes of it: its own position in the rotation, its own pools, its own counters. When a
//! plan changes, servers that stay keep their connections.

mod ask;
mod balance;
mod breaker;
mod cluster;
mod health;
mod limit;
mod opening;
mod plan;
mod pool;
mod retry;
mod ring;
mod scatter;
mod server;
mod state;
mod sticky;
mod visit;

pub use ask::Ask;
pub use breaker::{Breaker, BreakerRule, Pass};
pub use cluster::Cluster;
pub use health::{
    CheckRule, EjectionRule, HealthOrder, HealthParts, HealthSettings, HttpProbe, Initial, Panic,
    Probe, Tone, watch_health,
};
pub use limit::{QueueRule, ServerLimit};
pub use opening::Protocol;
pub use plan::{BalanceRule, ClusterPlan, ClusterSettings, HashKey, Layout, Role, ServerPlan};
pub use retry::{BudgetRule, Condition, Conditions, HedgeRule, Repeatable, RetryPolicy};
pub use server::{Call, Demand, Server};
pub use state::{Bar, ClusterState, ServerState};
pub use sticky::{SigningKey, StickyRule};
pub use visit::{Visit, VisitToBe};

#[cfg(test)]
mod tests;
