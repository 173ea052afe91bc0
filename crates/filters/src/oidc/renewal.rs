//! Sessions that go on without their users, by a refresh token (OpenID Connect Core 1.0, 12).

use std::sync::Arc;

use sluice_filter::{Level, RequestContext, Resume, Verdict};

use super::core::{Core, Outcome};
use super::flow::{
    Then, begin_or_refuse, is_for_client, nonce_of, now, with_access, with_claims, with_endpoints,
    with_tokens,
};
use super::provider::Endpoints;
use super::renewals::Turn;
use super::session::Session;
use super::text::form;
use super::tokens::{NoTokens, Tokens};
use crate::flight::Pilot;
use crate::jwt::{Claims, Refusal};

/// A session whose provider cannot be asked goes on for so long before it is asked again, in seconds.
const PATIENCE: u64 = 30;

/// Has the provider renew a session.
pub(super) fn renew(
    core: &Arc<Core>,
    context: &mut RequestContext<'_>,
    session: Arc<Session>,
) -> Verdict {
    let Some(token) = session.refresh_token.clone() else {
        core.count(context, Outcome::Passed);
        return core.accept(context, &session);
    };
    match core.renewals.begin(&token, now(context)) {
        Turn::Known(Some(renewed)) => go_on(core, context, (&renewed, None)),
        Turn::Known(None) => begin_or_refuse(core, context),
        Turn::Wait(flight) => {
            let core = Arc::clone(core);
            let landing = flight.landing();
            Verdict::Wait(Box::pin(async move {
                landing.await;
                let resume: Resume = Box::new(move |context| renew(&core, context, session));
                resume
            }))
        }
        Turn::Ask(pilot) => {
            let form = form(&[("grant_type", "refresh_token"), ("refresh_token", &token)]);
            let owned = Arc::clone(core);
            with_endpoints(
                core,
                context,
                Box::new(move |context, endpoints| {
                    let core = Arc::clone(&owned);
                    let known = Arc::clone(&endpoints);
                    let renewal = Renewal { session, _pilot: pilot };
                    let then: Then<Result<Tokens, NoTokens>> = Box::new(move |context, tokens| {
                        learn(&core, context, (renewal, known), tokens)
                    });
                    with_tokens(&owned, context, (&endpoints, &form), then)
                }),
            )
        }
    }
}

/// A session that is being renewed. Others of it wait until this is dropped.
struct Renewal {
    session: Arc<Session>,
    _pilot: Pilot,
}

fn learn(
    core: &Arc<Core>,
    context: &mut RequestContext<'_>,
    (renewal, endpoints): (Renewal, Arc<Endpoints>),
    tokens: Result<Tokens, NoTokens>,
) -> Verdict {
    let now = now(context);
    match tokens {
        Ok(tokens) => match tokens.id.clone() {
            // The provider may leave the ID token out (12.2): nothing is new about the user.
            None => {
                let renewed = with_access(core, (*renewal.session).clone(), &tokens, now);
                settle(core, context, &renewal, Some((renewed, None)))
            }
            Some(id) => {
                let owned = Arc::clone(core);
                let then: Then<Result<Claims, Refusal>> = Box::new(move |context, claims| {
                    verified(&owned, context, &renewal, (&tokens, claims))
                });
                with_claims(core, context, (endpoints, id), then)
            }
        },
        Err(NoTokens::Refused(why)) => {
            context.gateway.log(Level::Info, format_args!("a session was not renewed: {why}"));
            settle(core, context, &renewal, None)
        }
        // The user is who he was; it is the provider that fails.
        Err(NoTokens::Failed(why)) => {
            context.gateway.log(Level::Warn, format_args!("a session was not renewed: {why}"));
            let renew = now.saturating_add(PATIENCE);
            let session = Session { renew, ..(*renewal.session).clone() };
            settle(core, context, &renewal, Some((session, None)))
        }
    }
}

/// The provider says anew who the user is. A token that is not good ends the session: whatever it is, the user is
/// not known to be who he was.
fn verified(
    core: &Arc<Core>,
    context: &mut RequestContext<'_>,
    renewal: &Renewal,
    (tokens, claims): (&Tokens, Result<Claims, Refusal>),
) -> Verdict {
    let claims = claims.map_err(|refusal| refusal.to_string());
    let continued = claims.and_then(|claims| match continues(core, &renewal.session, &claims) {
        Ok(()) => Ok(claims),
        Err(why) => Err(why.to_owned()),
    });
    match continued {
        Ok(claims) => {
            let session = Session { claims: core.claims(&claims), ..(*renewal.session).clone() };
            let session = with_access(core, session, tokens, now(context));
            settle(core, context, renewal, Some((session, tokens.id.as_deref())))
        }
        Err(why) => {
            let line = format_args!("a session was not renewed, a bad ID token: {why}");
            context.gateway.log(Level::Warn, line);
            settle(core, context, renewal, None)
        }
    }
}

/// OpenID Connect Core 1.0, 12.2: the same user of the same client, and no other sign-in.
fn continues(core: &Core, session: &Session, claims: &Claims) -> Result<(), &'static str> {
    if claims.text("sub").as_ref() != Some(&session.subject) {
        return Err("it is for another user");
    }
    if !is_for_client(core, claims) {
        return Err("it is for another client");
    }
    if claims.as_object().contains_key("nonce") && nonce_of(claims) != Some(&*session.nonce) {
        return Err("it is for another sign-in");
    }
    Ok(())
}

/// Tells those who wait what came of it, and goes on.
fn settle(
    core: &Arc<Core>,
    context: &mut RequestContext<'_>,
    renewal: &Renewal,
    renewed: Option<(Session, Option<&str>)>,
) -> Verdict {
    let before = renewal.session.refresh_token.as_deref().unwrap_or_default();
    core.renewals.end(before, renewed.as_ref().map(|(session, _)| session.clone()));
    match renewed {
        Some((session, id_token)) => go_on(core, context, (&session, id_token)),
        None => begin_or_refuse(core, context),
    }
}

fn go_on(
    core: &Core,
    context: &mut RequestContext<'_>,
    (session, id_token): (&Session, Option<&str>),
) -> Verdict {
    core.count(context, Outcome::Renewed);
    if let Some(lines) = core.store(context, (session, id_token)) {
        context.notes.set(&core.lines, lines.join("\n").as_bytes());
    }
    core.accept(context, session)
}
