//! What filters decide: whom to let through, and what to make of a request.
//!
//! Nothing here touches a socket, a file or a clock: contents of files and the time come as arguments.

mod altered;
mod bandwidth_limit;
mod body_replace;
pub mod canary;
mod compress;
mod concurrency_limit;
mod cookie;
mod cors;
mod csrf;
mod decompress;
mod digits;
mod external_auth;
mod flight;
mod guard;
mod headers;
mod hosts;
mod identity;
pub mod jwt;
mod key_auth;
pub mod key_source;
pub mod key_table;
mod media_range;
mod network_list;
pub mod oidc;
pub mod password;
mod patterns;
mod per_thread;
mod places;
pub mod quota;
mod rate_limit;
mod recent;
mod redirect;
mod redirect_action;
mod reference;
pub mod replace;
mod request_id;
mod respond;
pub mod restrict;
mod rewrite;
#[cfg(test)]
mod scene;
mod sealed;
mod secret;
mod security;
pub mod signature;
mod target;
mod uuid;

pub use bandwidth_limit::BandwidthLimit;
pub use body_replace::{BodyReplace, Direction};
pub use compress::{Breach, Compress, CompressOptions, Levels};
pub use concurrency_limit::{ConcurrencyLimit, ConcurrencyRule};
pub use cookie::{CookieForm, Readers, SameSite};
pub use cors::{AllowedNames, AllowedOrigin, Cors, CorsRules, Credentials};
pub use csrf::{Csrf, CsrfToken};
pub use decompress::{Decompress, DecompressOptions, Requests, Responses};
pub use external_auth::{
    AuthBody, AuthProtocol, AuthSettings, DecisionCache, ExternalAuth, Names, OnError,
};
pub use guard::{Guard, GuardLimits, Length};
pub use headers::{Answers, Change, HeaderEdit, HeaderNames, Headers};
pub use hosts::{Hosts, authority_of, host_of, without_port};
pub use identity::{Hiding, Missing};
pub use key_auth::{KeyAuth, KeyAuthOptions, KeyRing, KeyRingFlaw};
pub use media_range::MediaRange;
pub use network_list::{ListFlaw, addresses, read_networks};
pub use patterns::Patterns;
pub use places::{Place, Places};
pub use rate_limit::{MOST_RATES, Rate, RateFields, RateLimit, RateManner, Strictness, WhenFull};
pub use recent::Recent;
pub use redirect::{Destination, Query, RedirectFilter};
pub use redirect_action::RedirectAction;
pub use request_id::{Accepted, RequestId, Told};
pub use respond::{Mock, MockBody, Respond};
pub use rewrite::{Afterwards, PathReplacement, QueryEdit, QueryNames, Rewrite, Rewriting};
pub use sealed::{Opened, SealedBy, Sealer, SealerFlaw};
pub use secret::Secret;
pub use security::{Connections, Precedence, SecurityField, SecurityHeaders};
pub use uuid::{UUID_LENGTH, uuid_v7};
