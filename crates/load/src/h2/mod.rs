//! HTTP/2: lanes that have several requests under way on one connection.

mod flights;
mod lane;
mod link;
mod request;
mod words;

pub(crate) use lane::StreamLane;
pub use request::{StreamRequest, prepare_stream};
