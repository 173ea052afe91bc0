//! Users and their passwords: a file like that of `htpasswd`, and what a request offers.

mod credentials;
mod hash;
mod users;
mod verified;

pub use credentials::Credentials;
pub use users::{Users, UsersFlaw};
pub use verified::Fingerprints;
