//! The steps of signing in, each of which may wait for the provider.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::Value;
use sluice_filter::{Level, RequestContext, Resume, Verdict};
use sluice_message::pair::{cookie_pairs, cookies, decoded, query_pairs};
use sluice_message::{FieldId, RequestHead};

use super::core::{Core, Forwarding, Outcome, opens_page, redirect, unguessable};
use super::provider::Endpoints;
use super::session::{LOGIN, Login, Session};
use super::text::{form, is_local, with_query};
use super::tokens::{NoTokens, Tokens};
use crate::identity::challenge;
use crate::jwt::remote::Hurry;
use crate::jwt::{Claims, Refusal};

/// What goes on with what was waited for.
pub(super) type Then<T> = Box<dyn FnOnce(&mut RequestContext<'_>, T) -> Verdict>;

/// How long a sign-in may take, in seconds.
const SIGN_IN: u64 = 600;
/// Sign-ins that a browser may have begun; beyond it those are forgotten that it has.
const BEGUN: usize = 4;
/// Where a user wanted to go is remembered up to this length, in bytes.
const TARGET: usize = 2048;
pub(super) fn now(context: &RequestContext<'_>) -> u64 {
    context.gateway.unix_ms() / 1000
}

/// Goes on with what is known of the provider, asking it first if need be.
pub(super) fn with_endpoints(
    core: &Arc<Core>,
    context: &mut RequestContext<'_>,
    then: Then<Arc<Endpoints>>,
) -> Verdict {
    let owned = Arc::clone(core);
    let then: Then<Option<Arc<Endpoints>>> = Box::new(move |context, endpoints| match endpoints {
        Some(endpoints) => then(context, endpoints),
        None => owned.unavailable(context),
    });
    with_last_endpoints(core, context, then)
}

/// The same for what goes on without the provider, too.
pub(super) fn with_last_endpoints(
    core: &Arc<Core>,
    context: &mut RequestContext<'_>,
    then: Then<Option<Arc<Endpoints>>>,
) -> Verdict {
    let now = now(context);
    if let Some(endpoints) = core.provider.known(now) {
        return then(context, Some(endpoints));
    }
    let asking = core.provider.discover(context.gateway, now);
    let core = Arc::clone(core);
    Verdict::Wait(Box::pin(async move {
        let said = asking.await;
        let resume: Resume = Box::new(move |context| {
            if let Err(why) = &said {
                let issuer = &core.options.provider.issuer;
                context.gateway.log(Level::Warn, format_args!("cannot ask {issuer}: {why}"));
            }
            then(context, core.provider.last())
        });
        resume
    }))
}

/// Asks for tokens.
pub(super) fn with_tokens(
    core: &Arc<Core>,
    context: &mut RequestContext<'_>,
    (endpoints, form): (&Endpoints, &str),
    then: Then<Result<Tokens, NoTokens>>,
) -> Verdict {
    let how = (context.gateway, core.options.provider.timeout);
    let fetching = context.gateway.fetch(core.client.request(&endpoints.token, form, how));
    Verdict::Wait(Box::pin(async move {
        let tokens = Tokens::read(fetching.await);
        let resume: Resume = Box::new(move |context| then(context, tokens));
        resume
    }))
}

/// Verifies an ID token, fetching keys first if need be.
pub(super) fn with_claims(
    core: &Arc<Core>,
    context: &mut RequestContext<'_>,
    (endpoints, token): (Arc<Endpoints>, String),
    then: Then<Result<Claims, Refusal>>,
) -> Verdict {
    let now = now(context);
    let keys = Arc::clone(&endpoints.keys);
    let verify = {
        let (core, keys) = (Arc::clone(core), Arc::clone(&keys));
        move || keys.keys().verify(token.as_bytes(), &core.rules, now).map(|good| good.claims)
    };
    let verified = if keys.is_due(now) { Err(Refusal::UnknownKey) } else { verify() };
    let hurry = if keys.is_due(now) { Hurry::None } else { Hurry::Unknown };
    let due = keys.is_due(now) || keys.is_due_for_unknown(now);
    if verified == Err(Refusal::UnknownKey) && due {
        if let Some(renewing) = keys.renew(context.gateway, (hurry, now)) {
            return Verdict::Wait(Box::pin(async move {
                let renewal = renewing.await;
                let resume: Resume = Box::new(move |context| {
                    keys.report(&renewal, context.gateway);
                    then(context, verify())
                });
                resume
            }));
        }
        return then(context, verify());
    }
    then(context, verified)
}

/// Nobody is signed in.
pub(super) fn begin_or_refuse(core: &Arc<Core>, context: &mut RequestContext<'_>) -> Verdict {
    if opens_page(context.request) {
        return send_to_sign_in(core, context);
    }
    core.count(context, Outcome::Unauthenticated);
    challenge(b"Session", "sign-in needed")
}

/// Sends a browser to the provider.
fn send_to_sign_in(core: &Arc<Core>, context: &mut RequestContext<'_>) -> Verdict {
    let target = std::str::from_utf8(context.request.target()).unwrap_or("/");
    let fits = is_local(target) && target.len() <= TARGET;
    let target = if fits { target } else { "/" }.to_owned();
    let owned = Arc::clone(core);
    let then: Then<Arc<Endpoints>> =
        Box::new(move |context, endpoints| begin(&owned, context, &endpoints, target));
    with_endpoints(core, context, then)
}

fn begin(
    core: &Core,
    context: &RequestContext<'_>,
    endpoints: &Endpoints,
    target: String,
) -> Verdict {
    let (Some(state), Some(nonce), Some(verifier)) = (unguessable(), unguessable(), unguessable())
    else {
        return core.unavailable(context);
    };
    let challenge = BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()));
    let login = Login { state, nonce, verifier, target };
    let Some(name) = cookie_of(core, &login.state) else { return core.unavailable(context) };
    let until = now(context).saturating_add(SIGN_IN);
    let Some(sealed) = core.sealer.seal(&name, &login.to_bytes(), until) else {
        return core.unavailable(context);
    };
    let back = core.own_url(context, &core.options.callback_path);
    let query = form(&[
        ("response_type", "code"),
        ("client_id", &core.options.client_id),
        ("redirect_uri", &back),
        ("scope", &core.options.scopes),
        ("state", &login.state),
        ("nonce", &login.nonce),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ]);
    let scheme = core.scheme(context);
    let mut lines = forget_begun(core, context.request, scheme);
    lines.push(core.jar.form.set(&name, &sealed, scheme, Some(SIGN_IN)));
    core.count(context, Outcome::Sent);
    redirect(302, &with_query(&endpoints.authorization, &query), &lines)
}

/// The name of the cookie of a sign-in that has begun; `None` if the state is none of ours.
fn cookie_of(core: &Core, state: &str) -> Option<String> {
    let ours = state.len() == 43
        && state.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    let short = state.get(..8).filter(|_| ours)?;
    Some(format!("{}{LOGIN}{short}", core.options.cookie))
}

/// A browser that never comes back would gather cookies until nobody takes its requests any more.
fn forget_begun(core: &Core, request: &RequestHead, scheme: &str) -> Vec<String> {
    let prefix = format!("{}{LOGIN}", core.options.cookie);
    let names: Vec<String> = request
        .fields
        .values(FieldId::Cookie)
        .flat_map(cookie_pairs)
        .filter(|(name, _)| name.starts_with(prefix.as_bytes()))
        .filter_map(|(name, _)| std::str::from_utf8(name).ok().map(str::to_owned))
        .collect();
    if names.len() < BEGUN {
        return Vec::new();
    }
    names.iter().map(|name| core.jar.form.set(name, "", scheme, Some(0))).collect()
}

/// The one parameter of this name.
fn parameter(request: &RequestHead, name: &str) -> Option<String> {
    let mut found = query_pairs(request.query())
        .filter(|(have, _)| decoded(have).eq(name.bytes()))
        .map(|(_, value)| String::from_utf8(decoded(value).collect()).ok());
    let first = found.next()??;
    found.next().is_none().then_some(first)
}

/// The provider has sent a browser back.
pub(super) fn come_back(core: &Arc<Core>, context: &mut RequestContext<'_>) -> Verdict {
    let state = parameter(context.request, "state").unwrap_or_default();
    let Some(name) = cookie_of(core, &state) else {
        return core.refuse(context, 400, "malformed sign-in");
    };
    let now = now(context);
    let login = cookies(context.request, name.as_bytes())
        .find_map(|text| core.sealer.open(&name, text, now))
        .and_then(|opened| Login::from_bytes(&opened.plain))
        .filter(|login| login.state == state);
    // Somebody else's sign-in, which would make this user's browser his.
    let Some(login) = login else {
        return core.refuse(context, 400, "sign-in was not begun here, or too long ago");
    };
    // RFC 9207, 2.4: a code of another provider is not to be shown to this one.
    let issuer = parameter(context.request, "iss");
    if issuer.is_some_and(|issuer| issuer != core.options.provider.issuer) {
        return core.refuse(context, 403, "sign-in came from another provider");
    }
    let Some(code) = parameter(context.request, "code") else {
        let error = parameter(context.request, "error").unwrap_or_default();
        let error: String = error.chars().filter(char::is_ascii_graphic).take(64).collect();
        context.gateway.log(Level::Info, format_args!("the provider refused a sign-in: {error}"));
        return core.refuse(context, 403, "sign-in was refused by the provider");
    };
    let back = core.own_url(context, &core.options.callback_path);
    let form = form(&[
        ("grant_type", "authorization_code"),
        ("code", &code),
        ("redirect_uri", &back),
        ("code_verifier", &login.verifier),
    ]);
    let owned = Arc::clone(core);
    with_endpoints(
        core,
        context,
        Box::new(move |context, endpoints| {
            let core = Arc::clone(&owned);
            let known = Arc::clone(&endpoints);
            let then: Then<Result<Tokens, NoTokens>> = Box::new(move |context, tokens| {
                take_tokens(&core, context, (known, login, name), tokens)
            });
            with_tokens(&owned, context, (&endpoints, &form), then)
        }),
    )
}

fn take_tokens(
    core: &Arc<Core>,
    context: &mut RequestContext<'_>,
    (endpoints, login, name): (Arc<Endpoints>, Login, String),
    tokens: Result<Tokens, NoTokens>,
) -> Verdict {
    let mut tokens = match tokens {
        Ok(tokens) => tokens,
        Err(NoTokens::Refused(why)) => {
            context.gateway.log(Level::Warn, format_args!("no tokens for a sign-in: {why}"));
            return core.refuse(context, 403, "sign-in was refused by the provider");
        }
        Err(NoTokens::Failed(why)) => {
            context.gateway.log(Level::Warn, format_args!("no tokens for a sign-in: {why}"));
            return core.unavailable(context);
        }
    };
    let Some(id) = tokens.id.take() else {
        context.gateway.log(Level::Warn, format_args!("no ID token for a sign-in"));
        return core.unavailable(context);
    };
    let owned = Arc::clone(core);
    tokens.id = Some(id.clone());
    let then: Then<Result<Claims, Refusal>> =
        Box::new(move |context, claims| finish(&owned, context, (login, &name), (tokens, claims)));
    with_claims(core, context, (endpoints, id), then)
}

fn finish(
    core: &Core,
    context: &mut RequestContext<'_>,
    (login, name): (Login, &str),
    (tokens, claims): (Tokens, Result<Claims, Refusal>),
) -> Verdict {
    let claims = match claims {
        Ok(claims) if is_meant(core, &claims, &login.nonce) => claims,
        Ok(_) => {
            context.gateway.log(Level::Warn, format_args!("an ID token for another sign-in"));
            return core.refuse(context, 403, "sign-in of somebody else");
        }
        Err(refusal) => {
            context.gateway.log(Level::Warn, format_args!("a bad ID token: {refusal}"));
            return core.refuse(context, 403, "sign-in could not be verified");
        }
    };
    let now = now(context);
    let session = Session {
        subject: claims.text("sub").unwrap_or_default(),
        nonce: login.nonce,
        claims: core.claims(&claims),
        end: now.saturating_add(core.options.life),
        ..Session::default()
    };
    let session = with_access(core, session, &tokens, now);
    let Some(mut lines) = core.store(context, (&session, tokens.id.as_deref())) else {
        context.gateway.log(Level::Error, format_args!("a session is too large for cookies"));
        return core.refuse(context, 500, "session too large");
    };
    lines.push(core.jar.form.set(name, "", core.scheme(context), Some(0)));
    core.count(context, Outcome::SignedIn);
    redirect(302, &login.target, &lines)
}

/// OpenID Connect Core 1.0, 3.1.3.7: the nonce is that of this sign-in, and the token was made for us.
fn is_meant(core: &Core, claims: &Claims, nonce: &str) -> bool {
    nonce_of(claims) == Some(nonce) && is_for_client(core, claims)
}

pub(super) fn nonce_of(claims: &Claims) -> Option<&str> {
    claims.as_object().get("nonce").and_then(Value::as_str)
}

/// If there are several audiences, the token was made for us.
pub(super) fn is_for_client(core: &Core, claims: &Claims) -> bool {
    let object = claims.as_object();
    let several = object.get("aud").and_then(Value::as_array).is_some_and(|all| all.len() > 1);
    match object.get("azp") {
        Some(party) => party.as_str() == Some(core.options.client_id.as_str()),
        None => !several,
    }
}

/// A session with what the provider gave for it.
pub(super) fn with_access(core: &Core, mut session: Session, tokens: &Tokens, now: u64) -> Session {
    let access = tokens.access.clone();
    session.access_token = access.filter(|_| core.options.forwarding == Forwarding::Token);
    session.refresh_token = tokens.refresh.clone().or(session.refresh_token);
    session.renew = match (&session.refresh_token, tokens.life) {
        // A little before the access token ends, so that it does not end on its way.
        (Some(_), Some(life)) => now.saturating_add(life.saturating_sub(10).max(1)),
        _ => 0,
    };
    session
}
