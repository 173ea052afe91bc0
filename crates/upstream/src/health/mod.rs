//! Whether servers are well: checked by asking them, and judged by what becomes of requests.
//!
//! What is decided is plain code with results and times as arguments. Whatever takes time is done by
//! one thread for the whole process ([`watch_health`]); workers see its decisions as bars of
//! [`crate::ServerState`].

mod check;
mod ejection;
mod order;
mod panic;
mod probe;
mod rule;
mod schedule;
mod verdict;
mod watch;

pub use order::{HealthOrder, HealthParts, Tone};
pub(crate) use panic::{is_asked, is_panic};
pub use rule::{CheckRule, EjectionRule, HealthSettings, HttpProbe, Initial, Panic, Probe};
pub use watch::watch_health;

#[cfg(test)]
mod tests;
