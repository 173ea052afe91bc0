//! Requests that bring a token.

use std::path::PathBuf;
use std::time::Duration;

use super::FilterUpstream;
use super::key_auth::{parse_parameter, parse_scheme};
use super::told::{
    MISSING, WithoutCredentials, parse_realm, parse_told_field, read_missing, read_path, read_paths,
};
use crate::fields::{Fields, Phrase};
use crate::header::{is_token, parse_field_name};
use crate::problem::Flaw;
use crate::secret::Secret;
use crate::section::{Key, Kind, MOMENT, Preset, Section, YEAR};
use crate::upstream::Roster;

/// Keys, claims, and where requests bring tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwt {
    /// Where the keys come from.
    pub keys: JwtKeys,
    /// The algorithms that are accepted; empty = all that the keys are for.
    pub algorithms: Vec<String>,
    /// `iss` has to be one of these, unless there is none.
    pub issuers: Vec<String>,
    /// `aud` has to hold one of these, unless there is none.
    pub audiences: Vec<String>,
    /// How far clocks may be apart.
    pub leeway: Duration,
    /// Whether tokens may have no end.
    pub endless: bool,
    /// Claims that have to be there, with the values that will do.
    pub require: Vec<(String, Vec<String>)>,
    /// The claim that names the user.
    pub user_claim: String,
    /// Fields that tell origins of claims.
    pub headers: Vec<(String, String)>,
    /// Where requests bring tokens.
    pub place: TokenPlace,
    /// Whether origins do not see it.
    pub hide: bool,
    /// What becomes of requests without one.
    pub missing: WithoutCredentials,
    /// What clients are told they need a token for.
    pub realm: String,
}

/// Where requests bring tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenPlace {
    /// The field.
    pub header: String,
    /// The scheme in front of it inside the field; empty = none.
    pub scheme: String,
    /// The cookie that may hold it instead.
    pub cookie: Option<String>,
    /// The parameter of the query that may hold it instead.
    pub query: Option<String>,
}

/// Where the keys come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JwtKeys {
    /// A secret that the issuer knows too.
    Secret(Secret),
    /// A file with such a secret.
    SecretFile(PathBuf),
    /// Files with public keys in PEM.
    PublicKeys(Vec<PathBuf>),
    /// A file with a set of keys.
    File(PathBuf),
    /// A set of keys that is fetched.
    Remote(JwksSource),
}

/// Where a set of keys is fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwksSource {
    /// Whom to ask.
    pub upstream: FilterUpstream,
    /// The host asked for.
    pub host: String,
    /// Path and query.
    pub target: String,
    /// How old the keys get before they are fetched anew.
    pub refresh: Duration,
    /// How long fetching may take.
    pub timeout: Duration,
}

const SOURCES: [&str; 5] = ["secret", "secret_file", "public_keys", "jwks_file", "jwks_url"];

const ALGORITHMS: [&str; 13] = [
    "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256",
    "ES384", "ES512", "EdDSA",
];

pub(super) static SECTION: Section = Section {
    name: "filter.jwt",
    doc: "Lets requests through that bring a good JSON Web Token (RFC 7519). Which algorithms are good is \
          a matter of the keys; a token never chooses. Keys come from exactly one of `secret`, \
          `secret_file`, `public_keys`, `jwks_file` and `jwks_url`.",
    keys: &[
        Key {
            name: "secret",
            kind: Kind::Text("text"),
            preset: Preset::Absent("another source of keys"),
            doc: "A secret that the issuer knows too, of at least 32 bytes, for HS256 unless `algorithms` \
                  names another one: `secret = \"${JWT_SECRET}\"`.",
        },
        Key {
            name: "secret_file",
            kind: Kind::Text("path"),
            preset: Preset::Absent("another source of keys"),
            doc: "A file with such a secret; a line break at its end does not count.",
        },
        Key {
            name: "public_keys",
            kind: Kind::Texts("path"),
            preset: Preset::Absent("another source of keys"),
            doc: "Files with public keys in PEM (`PUBLIC KEY`): RSA from 2048 bits, P-256, P-384, P-521, \
                  Ed25519.",
        },
        Key {
            name: "jwks_file",
            kind: Kind::Text("path"),
            preset: Preset::Absent("another source of keys"),
            doc: "A file with a set of keys (RFC 7517). Secrets may be in it, each with its `alg`.",
        },
        Key {
            name: "jwks_url",
            kind: Kind::Text("URL"),
            preset: Preset::Absent("another source of keys"),
            doc: "Where the issuer publishes its set of keys. It is fetched when the first token comes, \
                  anew after `jwks_refresh`, and when a token names a key that is not in it, though no more \
                  than twice a minute. If that fails the last keys stay.",
        },
        Key {
            name: "jwks_upstream",
            kind: Kind::Text("upstream name"),
            preset: Preset::Absent("the server of the URL"),
            doc: "The upstream that is asked for `jwks_url`, if it needs settings of its own: certificates \
                  to trust, several servers, timeouts.",
        },
        Key {
            name: "jwks_refresh",
            kind: Kind::Duration { min: std::time::Duration::from_secs(10), max: YEAR },
            preset: Preset::Value("1h"),
            doc: "How old the keys of `jwks_url` get before they are fetched anew.",
        },
        Key {
            name: "jwks_timeout",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("5s"),
            doc: "How long fetching them may take. A request that needs them waits.",
        },
        Key {
            name: "algorithms",
            kind: Kind::Texts("algorithm"),
            preset: Preset::Absent("all that the keys are for"),
            doc: "The algorithms that are accepted: HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, \
                  PS512, ES256, ES384, ES512, EdDSA.",
        },
        Key {
            name: "issuers",
            kind: Kind::Texts("text"),
            preset: Preset::Absent("any"),
            doc: "Tokens have to be from one of these (`iss`), letter by letter.",
        },
        Key {
            name: "audiences",
            kind: Kind::Texts("text"),
            preset: Preset::Absent("any"),
            doc: "Tokens have to be for one of these (`aud`). Give it, unless nobody else shares the issuer: \
                  a token for another service is good there alone.",
        },
        Key {
            name: "leeway",
            kind: Kind::Duration {
                min: std::time::Duration::ZERO,
                max: std::time::Duration::from_secs(3600),
            },
            preset: Preset::Value("30s"),
            doc: "How far the issuer's clock may be from ours, for `exp`, `nbf` and `iat`.",
        },
        Key {
            name: "endless",
            kind: Kind::Flag,
            preset: Preset::Value("false"),
            doc: "`true` accepts tokens without an end (`exp`).",
        },
        Key {
            name: "require",
            kind: Kind::PairLists("value"),
            preset: Preset::Absent("none"),
            doc: "Claims that have to be there, with the values of which one has to be in the claim: \
                  `require = { scope = \"read\", \"realm_access.roles\" = [\"admin\", \"editor\"] }`. Dots \
                  lead into objects. A list holds its elements, `scope` and `scp` their words; \
                  `\"*\"` stands for any value.",
        },
        Key {
            name: "user_claim",
            kind: Kind::Text("claim"),
            preset: Preset::Value("sub"),
            doc: "The claim that names the user, for logs and other filters.",
        },
        Key {
            name: "headers",
            kind: Kind::Pairs("claim"),
            preset: Preset::Absent("none"),
            doc: "Headers that tell origins of claims: `headers = { x-user = \"sub\" }`. What clients send \
                  under these names is taken out. Lists are joined by commas; what no header can hold is \
                  left out.",
        },
        Key {
            name: "header",
            kind: Kind::Text("header name"),
            preset: Preset::Value("authorization"),
            doc: "The header that holds the token.",
        },
        Key {
            name: "scheme",
            kind: Kind::Text("word"),
            preset: Preset::Value("Bearer"),
            doc: "The word in front of the token; \"\" if there is none.",
        },
        Key {
            name: "cookie",
            kind: Kind::Text("cookie name"),
            preset: Preset::Absent("none"),
            doc: "The cookie that may hold the token instead. Requests with more than one token are \
                  refused.",
        },
        Key {
            name: "query",
            kind: Kind::Text("parameter name"),
            preset: Preset::Absent("none"),
            doc: "The parameter of the query that may hold it instead. Tokens in addresses end in logs and \
                  histories: for clients that can do nothing else, such as WebSockets of a browser.",
        },
        Key {
            name: "hide",
            kind: Kind::Flag,
            preset: Preset::Value("false"),
            doc: "`true` takes the token out before the origin gets the request.",
        },
        Key {
            name: "missing",
            kind: Kind::Word(MISSING),
            preset: Preset::Value("refuse"),
            doc: "What becomes of requests without a token: `pass` lets them go on as nobody's. A bad \
                  token is refused in any case.",
        },
        Key {
            name: "realm",
            kind: Kind::Text("text"),
            preset: Preset::Value("api"),
            doc: "What clients are told they need a token for.",
        },
    ],
};

pub(super) fn read(fields: &Fields<'_, '_>, roster: &mut Roster) -> Option<Jwt> {
    let keys = read_keys(fields, roster)?;
    Some(Jwt {
        keys,
        algorithms: fields.list("algorithms", parse_algorithm),
        issuers: texts(fields, "issuers"),
        audiences: texts(fields, "audiences"),
        leeway: fields.duration("leeway"),
        endless: fields.flag("endless").unwrap_or(false),
        require: read_requirements(fields),
        user_claim: fields.parsed("user_claim", parse_claim)?,
        headers: read_headers(fields),
        place: TokenPlace {
            header: fields.parsed("header", parse_field_name)?,
            scheme: fields.parsed("scheme", parse_optional_scheme)?,
            cookie: fields.parsed("cookie", parse_cookie),
            query: fields.parsed("query", parse_parameter),
        },
        hide: fields.flag("hide").unwrap_or(false),
        missing: read_missing(fields),
        realm: fields.parsed("realm", parse_realm)?,
    })
}

fn read_keys(fields: &Fields<'_, '_>, roster: &mut Roster) -> Option<JwtKeys> {
    let written: Vec<_> = SOURCES.iter().filter_map(|key| fields.written(key)).collect();
    let [entry] = written.as_slice() else {
        let (span, message) = match written.get(1) {
            Some(second) => (second.span, "keys come from one source"),
            None => (fields.span, "there is no key to verify tokens by"),
        };
        let flaw = Flaw::new(message).with_help(format!("give it one of {}", SOURCES.join(", ")));
        fields.report.error(span, flaw);
        return None;
    };
    match entry.key.as_str() {
        "secret" => fields.text("secret").map(|secret| JwtKeys::Secret(Secret::new(secret.text))),
        "secret_file" => read_path(fields, "secret_file").map(JwtKeys::SecretFile),
        "public_keys" => Some(JwtKeys::PublicKeys(read_paths(fields, "public_keys"))),
        "jwks_file" => read_path(fields, "jwks_file").map(JwtKeys::File),
        _ => read_source(fields, roster).map(JwtKeys::Remote),
    }
}

fn read_source(fields: &Fields<'_, '_>, roster: &mut Roster) -> Option<JwksSource> {
    let url = fields.text("jwks_url")?;
    let parts = fields.report.accept(url.span, parse_url(url.text))?;
    Some(JwksSource {
        upstream: find_upstream(fields, roster, (Some("jwks_upstream"), url, &parts))?,
        host: parts.host,
        target: parts.target,
        refresh: fields.duration("jwks_refresh"),
        timeout: fields.duration("jwks_timeout"),
    })
}

/// A URL of another server, taken apart.
pub(super) struct Url {
    /// `https://host:port`: an address of an upstream.
    pub(super) server: String,
    /// Host and, if it is written, port.
    pub(super) host: String,
    /// Path and query.
    pub(super) target: String,
}

/// The upstream that a key names or, if it is not written or there is none, the server of a URL.
pub(super) fn find_upstream(
    fields: &Fields<'_, '_>,
    roster: &mut Roster,
    (key, url, parts): (Option<&str>, Phrase<'_>, &Url),
) -> Option<FilterUpstream> {
    let wanted = key.and_then(|key| fields.text(key));
    let wanted = wanted.unwrap_or(Phrase { text: &parts.server, span: url.span });
    let position = roster.find(wanted, fields.report)?;
    Some(FilterUpstream { position, name: wanted.text.to_owned() })
}

pub(super) fn parse_url(text: &str) -> Result<Url, Flaw> {
    let refused = || {
        Flaw::new(format!("\"{}\" is not a URL", text.escape_debug()))
            .with_help("write it like \"https://id.example/keys\"")
    };
    let (scheme, rest) = text.split_once("://").ok_or_else(refused)?;
    let port = match scheme {
        "https" => 443,
        "http" => 80,
        _ => return Err(refused()),
    };
    let cut = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, target) = rest.split_at(cut);
    let plain = |c: char| matches!(c, '!'..='~') && c != '#';
    if host.is_empty() || host.contains('@') || !text.chars().all(plain) {
        return Err(refused());
    }
    let behind = host.rsplit_once(']').map_or(host, |(_, behind)| behind);
    let server = match behind.contains(':') {
        true => format!("{scheme}://{host}"),
        false => format!("{scheme}://{host}:{port}"),
    };
    let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
    Ok(Url { server, host: host.to_owned(), target })
}

pub(super) fn texts(fields: &Fields<'_, '_>, key: &str) -> Vec<String> {
    fields.phrases(key).iter().map(|text| text.text.to_owned()).collect()
}

fn read_requirements(fields: &Fields<'_, '_>) -> Vec<(String, Vec<String>)> {
    let values = |values: Vec<Phrase<'_>>| -> Vec<String> {
        let any = values.iter().any(|value| value.text == "*");
        let texts = values.iter().map(|value| value.text.to_owned()).collect();
        if any { Vec::new() } else { texts }
    };
    let pairs = fields.pairs("require").into_iter();
    pairs.map(|(claim, wanted)| (claim.text.to_owned(), values(wanted))).collect()
}

/// Names of fields and what they tell.
pub(super) fn read_headers(fields: &Fields<'_, '_>) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    for (name, claims) in fields.pairs("headers") {
        let name = fields.report.accept(name.span, parse_told_field(name.text));
        if let (Some(name), Some(claim)) = (name, claims.first()) {
            headers.push((name, claim.text.to_owned()));
        }
    }
    headers
}

fn parse_algorithm(text: &str) -> Result<String, Flaw> {
    if ALGORITHMS.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(Flaw::new(format!("\"{}\" is not an algorithm", text.escape_debug()))
        .with_help(format!("it is one of {}", ALGORITHMS.join(", "))))
}

pub(super) fn parse_claim(text: &str) -> Result<String, Flaw> {
    if text.is_empty() { Err(Flaw::new("a claim has a name")) } else { Ok(text.to_owned()) }
}

fn parse_optional_scheme(text: &str) -> Result<String, Flaw> {
    if text.is_empty() { Ok(String::new()) } else { parse_scheme(text) }
}

pub(super) fn parse_cookie(text: &str) -> Result<String, Flaw> {
    if is_token(text) {
        return Ok(text.to_owned());
    }
    Err(Flaw::new(format!("\"{}\" is not the name of a cookie", text.escape_debug()))
        .with_help("it has letters, digits, - and _ only"))
}
