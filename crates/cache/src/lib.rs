//! Answers that are kept and given again, as RFC 9111 allows a shared cache.

mod answer;
mod asked;
mod budget;
mod content;
mod desk;
mod directives;
mod disk;
mod entry;
mod fifo;
mod filling;
mod filter;
mod hashing;
mod head;
mod job;
mod key;
#[cfg(test)]
mod lines;
mod policy;
mod steering;
mod store;
mod target;
mod told;
mod vary;

pub use disk::{Claim, rewrite_head};
pub use filter::{Cache, DiskPlan, Obedience, Settings};
pub use key::{Choice, KeyPlan, Order, Part, QueryPlan};
pub use policy::{Cookies, Rules, SetCookie};
