//! Has users sign in with an OpenID provider, and keeps who they are in a cookie.
//!
//! The code flow with PKCE (OpenID Connect Core 1.0, 3.1; RFC 7636). Nothing is kept here: a sign-in that has begun
//! and the session itself lie in the browser, sealed. Each step that waits for the provider goes on in the next.

mod core;
mod filter;
mod flow;
mod jar;
mod logout;
mod provider;
mod renewal;
mod renewals;
mod session;
mod text;
mod tokens;

pub use self::core::{Forwarding, OidcOptions};
pub use filter::Oidc;
pub use provider::{Endpoint, ProviderOptions};
pub use tokens::ClientAuth;
