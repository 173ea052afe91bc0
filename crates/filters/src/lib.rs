//! What filters decide: whom to let through, and what to make of a request.
//!
//! Nothing here touches a socket, a file or a clock: contents of files and the time come as arguments.

mod cookie;
mod csrf;
mod external_auth;
mod flight;
mod guard;
mod hosts;
mod identity;
pub mod jwt;
mod key_auth;
mod network_set;
pub mod password;
mod patterns;
mod per_thread;
mod places;
mod recent;
pub mod replace;
mod sealed;
mod secret;
pub mod signature;
mod uuid;

pub use external_auth::{
    AuthBody, AuthProtocol, AuthSettings, DecisionCache, ExternalAuth, Names, OnError,
};
pub use guard::{Guard, GuardLimits, Length};
pub mod restrict;
mod target;

pub use cookie::{CookieForm, Readers, SameSite};
pub use csrf::{Csrf, CsrfToken};
pub use hosts::{Hosts, authority_of, host_of, without_port};
pub use identity::{Hiding, Missing};
pub use key_auth::{KeyAuth, KeyAuthOptions, KeyRing, KeyRingFlaw};
pub use network_set::{ListFlaw, NetworkSet};
pub use patterns::Patterns;
pub use places::{Place, Places};
pub use recent::Recent;
pub use sealed::{Opened, SealedBy, Sealer, SealerFlaw};
pub use secret::Secret;
pub use uuid::{UUID_LENGTH, uuid_v7};
