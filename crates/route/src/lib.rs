//! The compiled match table from a request head to a route.
//!
//! [`Table::build`] turns the routes of a configuration into hash maps and tries;
//! [`Table::find`] asks them, most specific first: exact host before wildcard before any host, inside
//! a host exact path before template before longer prefix before regular expression, among equals the
//! order of the configuration. What a request costs does not depend on how many routes there are.

mod captures;
mod compile;
mod condition;
mod host;
mod method;
mod name;
mod path;
mod site;
mod spec;
mod table;
#[cfg(test)]
mod tests;
mod trie;
mod word;

pub use captures::Captures;
pub use ipnet::IpNet;
pub use method::Allow;
pub use spec::{BuildError, HostSpec, PathSpec, RouteSpec, ValueSpec};
pub use table::{Match, Table};
