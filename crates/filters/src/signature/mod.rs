//! Requests signed with a secret that both sides know (HMAC).
//!
//! What is signed is one text, [`canonical`], which anybody can make with a few lines of any language:
//!
//! ```text
//! POST
//! /orders
//! a=1&b=2
//! reports
//! Sun, 06 Nov 1994 08:49:37 GMT
//! host: shop.example
//! content-digest: sha-256=:…:
//! ```
//!
//! Method, path and query as they are sent (the query's parameters sorted by their bytes), the name of the
//! key, the value of the date's field, and a line for each signed field, in the order in which the
//! request lists them. Every line ends with a line feed.

mod authorization;
mod canonical;
mod date;
mod digest;
mod filter;
mod replays;

pub use authorization::{Authorization, Hash};
pub use canonical::{Signed, SignedQuery, canonical};
pub use date::parse_date;
pub use digest::{ContentDigest, DigestCheck};
pub use filter::{BodyDigest, HmacAuth, HmacAuthOptions};
pub use replays::{Replays, Sight};
