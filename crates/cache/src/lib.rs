//! Answers that are kept and given again, as RFC 9111 allows a shared cache.

mod answer;
mod asked;
mod desk;
mod directives;
mod entry;
mod filling;
mod filter;
mod head;
mod job;
mod key;
mod policy;
mod store;
mod told;
mod vary;

pub use filter::{Cache, Obedience, Settings};
pub use key::{Choice, KeyPlan, Order, Part, QueryPlan};
pub use policy::{Cookies, Rules, SetCookie};
