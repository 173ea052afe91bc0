//! What a user may write: types, defaults, checks, schema.
//!
//! A document in TOML or YAML becomes one small tree with a span on every key and value, the tree
//! is read into a [`Model`] under the tables of the sections, and every problem on the way is
//! collected with its place. The tables are also what the schema and the reference are made from.

mod address;
mod calls;
mod duration;
mod environment;
mod expression;
mod fields;
mod files;
mod filter;
mod header;
mod listener;
mod log;
mod lua;
mod media;
mod mirror;
mod model;
mod name;
mod nearest;
mod overload;
mod path_rules;
mod pattern;
mod place;
mod problem;
mod redact;
mod reference;
mod report;
mod respond;
mod route;
mod schema;
mod secret;
mod section;
mod share;
mod size;
mod source;
mod status;
mod toml;
mod tree;
mod upstream;
mod written;
mod yaml;

pub use address::{Address, ServerAddress};
pub use calls::{Calls, WebCalls};
pub use expression::Expression;
pub use files::{FileCache, Files, Precompressed};
pub use filter::{
    AcceptedIds, AccessControl, AuthBody, AuthCache, AuthProtocol, BandwidthLimit, BasicAuth,
    BodyPattern, BodyReplace, BodyRule, Cache, CacheCookies, CacheDisk, CacheKeyPart, Canary,
    CanaryCookie, CanaryRamp, CanaryRollback, CanaryRule, CanaryShare, CanaryVariant, ClientAuth,
    Compress, ContentEncoding, Cors, Csrf, CsrfToken, Decompress, EncodingLevels, ExternalAuth,
    Fallback, Filter, FilterKind, FilterUpstream, Geo, Guard, HeaderEdits, Headers, HmacAuth, Ip,
    JwksSource, Jwt, JwtKeys, KeyAuth, KeyOptions, KeyedConcurrency, Length, Letters, Lua,
    MockBody, NamePattern, NamedSecrets, Oidc, OidcEndpoint, OidcProvider, OidcSession, PageOrigin,
    Places, PlainResponses, QueryEdits, RateHeaders, RateLimit, RateRule, RedirectFilter, Referer,
    RequestId, RespondFilter, Rewrite, Run, SecurityHeaders, TokenPlace, Unsaid, UserAgent,
    WhenFull, WithoutCredentials,
};
pub use listener::{
    AmbiguousHeaders, CertificateFiles, CertificateHeaders, ClientCertificates, ClientMode, Http2,
    Limits, Listener, ListenerLua, ListenerTimeout, ListenerTls, Older, ProxyProtocol, SelfSigned,
    TLS_GROUPS, TLS_SUITES, TLS_VERSIONS, TlsTerms, TraceMethod, WriteFull,
};
pub use log::{AccessLog, Log};
pub use lua::{LuaAccess, LuaChunk, LuaPhase, LuaScript, LuaSource, Store};
pub use mirror::Mirror;
pub use model::{Admin, Model, Origin, Resolver};
pub use overload::{Adaptive, Concurrency, ConcurrencyLimit, MemoryLimit, Overload};
pub use path_rules::{ParameterAction, PathAction, PathOverrides, PathRules};
pub use pattern::{HostPattern, PathPattern, ValueMatch};
pub use problem::{Problem, Problems, Severity, Style};
pub use redact::redacted;
pub use reference::reference;
pub use respond::{BodySource, Redirect, Respond};
pub use route::{Action, Proof, Proxy, Route};
pub use schema::schema;
pub use secret::Secret;
pub use share::Share;
pub use source::{Format, Source};
pub use status::CALL_FAILURES;
pub use upstream::{
    Balance, Breaker, Ejection, HashOn, Health, HealthRequest, Hedge, InitialHealth, Keepalive,
    Panic, Protocol, ProxyVersion, Repeatable, Retry, RetryBudget, RetryCondition, Role, Scheme,
    Server, ServerLimit, Sticky, Upstream, UpstreamHttp2, UpstreamTimeout, UpstreamTls, Verify,
    parse_servers,
};
pub use written::Written;

#[cfg(test)]
mod tests;

use report::Report;
use tree::Node;

/// What a document means, or everything that is wrong with it. `environment` looks variables up.
///
/// # Errors
/// All problems of the document, in the order of its text; at least one is an error. Warnings alone
/// do not fail: they are in [`Model::warnings`].
pub fn parse(
    source: &Source<'_>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Model, Problems> {
    let report = Report::new(source.name, source.body());
    let Some(mut document) = read_tree(source, &report) else {
        return Err(report.into_problems());
    };
    if !matches!(document.value, tree::Value::Table(_)) {
        let message = format!("a configuration has keys and values, this is {}", document.kind());
        report.error(document.span, problem::Flaw::new(message));
        return Err(report.into_problems());
    }
    environment::expand(&mut document, environment, &report);
    let model = model::read_model(&document, &report);
    if report.has_errors() {
        return Err(report.into_problems());
    }
    Ok(Model { warnings: report.into_list(), ..model })
}

/// The tree of a document; nothing if it cannot be read at all.
fn read_tree(source: &Source<'_>, report: &Report<'_>) -> Option<Node> {
    match source.format {
        Format::Toml => toml::read(source.body(), report),
        Format::Yaml => yaml::read(source.body(), report),
    }
}
