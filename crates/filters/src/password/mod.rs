//! Users and their passwords: a file like that of `htpasswd`, and what a request offers.

mod credentials;
mod filter;
mod hash;
mod users;
mod verified;

pub use credentials::Credentials;
pub use filter::{BasicAuth, BasicAuthOptions};
pub use users::{Users, UsersFlaw};
pub use verified::Fingerprints;
