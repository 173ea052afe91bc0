//! The filters that find out who a client is, of their options.

use std::collections::HashMap;
use std::path::Path;

use sluice_filters::jwt::{
    Algorithm, Expiry, Jwks, Jwt, JwtOptions, Key, KeySet, Keys, RemoteKeys, Requirement, Rules,
};
use sluice_filters::password::{BasicAuth, BasicAuthOptions, Users};
use sluice_filters::signature::{
    BodyDigest, Hash, HmacAuth, HmacAuthOptions, Replays, SignedQuery,
};
use sluice_filters::{
    CookieForm, Csrf, CsrfToken, Hiding, KeyAuth, KeyAuthOptions, KeyRing, Missing, Readers,
    SameSite, Sealer, Secret,
};
use sluice_model::{JwtKeys, NamedSecrets, WithoutCredentials};

use super::Tools;
use super::access::hosts;

const RANDOM: &str = "the system has no random bytes";

fn field(name: &str) -> Box<[u8]> {
    name.as_bytes().into()
}

fn optional_field(name: Option<&String>) -> Option<Box<[u8]>> {
    name.map(|name| field(name))
}

const fn missing(without: WithoutCredentials) -> Missing {
    match without {
        WithoutCredentials::Refused => Missing::Refused,
        WithoutCredentials::Passed => Missing::Passed,
    }
}

const fn hiding(hide: bool) -> Hiding {
    if hide { Hiding::Hidden } else { Hiding::Shown }
}

/// Names and secrets, those of the file behind the others.
fn secrets(named: &NamedSecrets, tools: &mut Tools<'_>) -> Result<Vec<(String, Secret)>, String> {
    let written = named.written.iter();
    let mut all: Vec<_> =
        written.map(|(name, secret)| (name.clone(), Secret::new(secret.expose()))).collect();
    if let Some(path) = &named.file {
        let lines = KeyRing::lines(&tools.files.text(path)?)
            .map_err(|flaw| format!("the file {}: {flaw}", path.display()))?;
        all.extend(lines);
    }
    Ok(all)
}

pub(super) fn key_auth(
    options: &sluice_model::KeyAuth,
    tools: &mut Tools<'_>,
) -> Result<KeyAuth, String> {
    let keys = secrets(&options.keys, tools)?;
    let keys = KeyRing::new(keys).map_err(|flaw| flaw.to_string())?;
    let settings = KeyAuthOptions {
        field: Some(field(&options.header)),
        scheme: optional_field(options.scheme.as_ref()),
        parameter: optional_field(options.query.as_ref()),
        hiding: hiding(options.hide),
        missing: missing(options.missing),
        user_field: optional_field(options.user_header.as_ref()),
    };
    Ok(KeyAuth::new(settings, keys, tools.meter(KeyAuth::OUTCOMES)))
}

pub(super) fn basic_auth(
    options: &sluice_model::BasicAuth,
    tools: &mut Tools<'_>,
) -> Result<BasicAuth, String> {
    let mut text = String::new();
    for (name, hash) in &options.users.written {
        if name.contains([':', '\n', '\r']) {
            return Err(format!("\"{}\" is not the name of a user", name.escape_debug()));
        }
        text.push_str(&format!("{name}:{}\n", hash.expose()));
    }
    let written = text.lines().count();
    if let Some(path) = &options.users.file {
        text.push_str(&tools.files.text(path)?);
    }
    let users = Users::parse(&text).map_err(|flaw| match &options.users.file {
        Some(path) if written == 0 => format!("the file {}, {flaw}", path.display()),
        Some(path) => format!("{flaw} (`passwords`, then the file {})", path.display()),
        None => format!("`passwords`, {flaw}"),
    })?;
    let settings = BasicAuthOptions {
        realm: options.realm.clone(),
        hiding: hiding(options.hide),
        missing: missing(options.missing),
        user_field: optional_field(options.user_header.as_ref()),
        remember: options.remember.as_secs(),
    };
    let meter = tools.meter(BasicAuth::OUTCOMES);
    BasicAuth::new(settings, users, meter).ok_or_else(|| RANDOM.to_owned())
}

pub(super) fn jwt(options: &sluice_model::Jwt, tools: &mut Tools<'_>) -> Result<Jwt, String> {
    let algorithms: Vec<Algorithm> =
        options.algorithms.iter().filter_map(|name| Algorithm::named(name)).collect();
    let keys = jwt_keys(&options.keys, &algorithms, tools)?;
    let place = &options.place;
    let settings = JwtOptions {
        field: Some(field(&place.header)),
        scheme: (!place.scheme.is_empty()).then(|| field(&place.scheme)),
        cookie: optional_field(place.cookie.as_ref()),
        parameter: optional_field(place.query.as_ref()),
        rules: Rules {
            issuers: options.issuers.clone(),
            audiences: options.audiences.clone(),
            leeway: options.leeway,
            expiry: if options.endless { Expiry::Optional } else { Expiry::Required },
            required: options.require.iter().map(requirement).collect(),
        },
        user_claim: options.user_claim.clone(),
        fields: options.headers.iter().map(|(name, claim)| (field(name), claim.clone())).collect(),
        hiding: hiding(options.hide),
        missing: missing(options.missing),
        realm: options.realm.clone(),
        algorithms,
    };
    Ok(Jwt::new(settings, keys, tools.meter(Jwt::OUTCOMES)))
}

fn requirement((claim, any_of): &(String, Vec<String>)) -> Requirement {
    Requirement { claim: claim.as_str().into(), any_of: any_of.clone() }
}

fn jwt_keys(
    keys: &JwtKeys,
    algorithms: &[Algorithm],
    tools: &mut Tools<'_>,
) -> Result<Keys, String> {
    let in_file =
        |path: &Path, why: &dyn std::fmt::Display| format!("the file {}: {why}", path.display());
    let found = match keys {
        JwtKeys::Secret(secret) => secret_keys(&Secret::new(secret.expose()), algorithms)
            .map_err(|why| format!("`secret`: {why}"))?,
        JwtKeys::SecretFile(path) => {
            secret_keys(&Secret::from_file(&tools.files.read(path)?), algorithms)
                .map_err(|why| in_file(path, &why))?
        }
        JwtKeys::PublicKeys(paths) => {
            let mut keys = Vec::new();
            for path in paths {
                let key = Key::pem(&tools.files.text(path)?).map_err(|why| in_file(path, &why))?;
                keys.push(key);
            }
            keys
        }
        JwtKeys::File(path) => {
            let set = Jwks::of_file(&tools.files.read(path)?);
            let keys = set.map_err(|why| in_file(path, &why))?.keys;
            if keys.is_empty() {
                return Ok(Keys::Fixed(KeySet::new(keys)));
            }
            keys
        }
        JwtKeys::Remote(source) => {
            return Ok(Keys::Remote(RemoteKeys {
                cluster: source.upstream.position,
                target: source.target.clone().into_bytes(),
                host: source.host.clone().into_bytes(),
                timeout: source.timeout,
                refresh: source.refresh.as_secs(),
                pause: 30,
            }));
        }
    };
    let usable = |key: &Key| key.algorithms().any(|one| algorithms.contains(&one));
    if !algorithms.is_empty() && !found.iter().any(usable) {
        return Err("no key is for any of `algorithms`".to_owned());
    }
    Ok(Keys::Fixed(KeySet::new(found)))
}

/// A secret is for one algorithm, so that there is a key for each.
fn secret_keys(secret: &Secret, algorithms: &[Algorithm]) -> Result<Vec<Key>, String> {
    let algorithms = if algorithms.is_empty() { &[Algorithm::Hs256] } else { algorithms };
    let key = |algorithm: &Algorithm| Key::secret(secret, *algorithm);
    algorithms.iter().map(key).collect::<Result<_, _>>().map_err(|flaw| flaw.to_string())
}

pub(super) fn hmac_auth(
    options: &sluice_model::HmacAuth,
    tools: &mut Tools<'_>,
) -> Result<HmacAuth, String> {
    let named = secrets(&options.keys, tools)?;
    // What is wrong with keys is the same as for those that are sent.
    KeyRing::new(named.clone()).map_err(|flaw| flaw.to_string())?;
    let mut keys = HashMap::new();
    for (name, secret) in named {
        if let Some((name, _)) = keys.insert(name.clone(), secret).map(|old| (name, old)) {
            return Err(format!("there are two secrets for \"{name}\""));
        }
    }
    let settings = HmacAuthOptions {
        hashes: options.algorithms.iter().filter_map(|name| Hash::named(name)).collect(),
        date_field: options.date_header.as_str().into(),
        skew: options.skew.as_secs(),
        signed: options.signed.clone(),
        query: if options.sorted_query { SignedQuery::Sorted } else { SignedQuery::AsSent },
        body: if options.digest { BodyDigest::Required } else { BodyDigest::Optional },
        realm: options.realm.clone(),
        hiding: hiding(options.hide),
        missing: missing(options.missing),
        user_field: optional_field(options.user_header.as_ref()),
    };
    let replays = options.once.map(Replays::new);
    Ok(HmacAuth::new(settings, keys, replays, tools.meter(HmacAuth::OUTCOMES)))
}

pub(super) fn csrf(options: &sluice_model::Csrf, tools: &mut Tools<'_>) -> Result<Csrf, String> {
    let token = match &options.token {
        None => None,
        Some(token) => Some(CsrfToken {
            sealer: sealer((&token.secrets, &token.secret_files), ("csrf", &[]), tools)?,
            cookie: token.cookie.clone(),
            form: CookieForm {
                path: token.path.clone(),
                domain: None,
                same_site: SameSite::Lax,
                readers: Readers::Scripts,
            },
            field: field(&token.header),
            session: optional_field(token.session_cookie.as_ref()),
            life: token.life.as_secs(),
        }),
    };
    Ok(Csrf { trusted: hosts(&options.trusted)?, token, meter: tools.meter(Csrf::OUTCOMES) })
}

/// What seals and opens with these secrets, those of files behind the others, for a purpose and what it is bound to.
pub(super) fn sealer(
    (written, files): (&[sluice_model::Secret], &[std::path::PathBuf]),
    (purpose, bindings): (&str, &[&str]),
    tools: &mut Tools<'_>,
) -> Result<Sealer, String> {
    let mut secrets: Vec<Secret> =
        written.iter().map(|secret| Secret::new(secret.expose())).collect();
    for path in files {
        secrets.push(Secret::from_file(&tools.files.read(path)?));
    }
    Sealer::new(&secrets, purpose, bindings).map_err(|flaw| flaw.to_string())
}
