//! JSON Web Tokens: parsed strictly, verified by keys that say themselves what they are for.
//!
//! Which algorithm is right is a matter of the key, never of the token (RFC 8725, 3.1): a token only
//! chooses among what a key allows. So `none` has no meaning here, and a public RSA key can never be
//! used as the secret of an HMAC.

mod algorithm;
mod claims;
mod compact;
mod filter;
mod jwks;
mod key;
mod key_set;
mod pem;
mod refusal;
pub(crate) mod remote;
#[cfg(test)]
mod tests;

pub use algorithm::Algorithm;
pub use claims::{Claims, Expiry, Requirement, Rules};
pub use compact::{MAX_TOKEN, Token};
pub use filter::{Jwt, JwtOptions, Keys};
pub use jwks::{Jwks, JwksFlaw, Secrets};
pub use key::{Key, KeyFlaw};
pub use key_set::{KeySet, Verified};
pub use refusal::Refusal;
pub use remote::RemoteKeys;
