//! What filters decide: whom to let through, and what to make of a request.
//!
//! Nothing here touches a socket, a file or a clock: contents of files and the time come as arguments.

pub mod jwt;
mod network_set;
pub mod password;
mod recent;
mod sealed;
mod secret;
pub mod signature;

pub use network_set::{ListFlaw, NetworkSet};
pub use recent::Recent;
pub use sealed::{Opened, SealedBy, Sealer, SealerFlaw};
pub use secret::Secret;
