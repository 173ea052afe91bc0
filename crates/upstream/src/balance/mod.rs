//! Which server is next.

mod round_robin;

pub(crate) use round_robin::RoundRobin;
