//! Signing out: here, of the tokens at the provider, and of the provider's own session.

use std::sync::Arc;

use sluice_filter::{Body, Level, Reply, RequestContext, Resume, Verdict};
use sluice_message::{Method, RequestHead};

use super::core::{Core, Outcome, redirect};
use super::flow::with_last_endpoints;
use super::provider::Endpoints;
use super::session::Session;
use super::text::{form, with_query};
use super::tokens::revoked;
use crate::identity::only_value;
use crate::{authority_of, without_port};

/// The page that asks, for those who come from elsewhere.
const PAGE: &str = "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Sign out</title>\n\
     <meta name=\"viewport\" content=\"width=device-width\">\n\
     <form method=\"post\"><p>Sign out?</p><button>Sign out</button></form>\n</html>\n";

/// A page of ours that nobody frames and that loads nothing. There is no `form-action`: browsers apply it to
/// the redirect that follows, too, which leads to the provider.
const PAGE_FIELDS: [(&str, &str); 5] = [
    ("content-type", "text/html; charset=utf-8"),
    ("cache-control", "no-store"),
    ("content-security-policy", "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"),
    ("x-frame-options", "DENY"),
    ("x-content-type-options", "nosniff"),
];

/// A user wants to sign out, or somebody else wants him to.
pub(super) fn sign_out(core: &Arc<Core>, context: &mut RequestContext<'_>) -> Verdict {
    let origin = origin_of(core, context.request);
    match context.request.method {
        Method::Post if origin == Origin::Own => end_session(core, context),
        Method::Get if origin == Origin::Own && is_navigation(context.request) => {
            end_session(core, context)
        }
        Method::Post => core.refuse(context, 403, "sign-out requested by another site"),
        Method::Get | Method::Head => {
            core.count(context, Outcome::LogoutPage);
            page()
        }
        _ => {
            core.count(context, Outcome::Refused);
            let reply = Reply::refusal(405, "sign-out takes GET and POST");
            match reply.with_field(b"allow", b"GET, HEAD, POST") {
                Ok(reply) => Verdict::Respond(Box::new(reply)),
                Err(_) => Verdict::refuse(405, "sign-out takes GET and POST"),
            }
        }
    }
}

fn page() -> Verdict {
    let mut reply = Reply { body: Body::from(PAGE.as_bytes().to_vec()), ..Reply::new(200) };
    for (name, value) in PAGE_FIELDS {
        if reply.fields.push(name.as_bytes(), value.as_bytes()).is_err() {
            return Verdict::refuse(500, "no room for the response");
        }
    }
    Verdict::Respond(Box::new(reply))
}

/// Whose page has the browser make a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// One of this origin, or the user himself.
    Own,
    /// Another one, or nobody says.
    Other,
}

/// `Sec-Fetch-Site` cannot be set by pages (Fetch Metadata, 2.3); browsers leave it out where the gateway is
/// asked without encryption. Then it is `Origin`, or `Referer` where a link was followed, that a page can
/// leave out but not choose. Nothing at all is not believed.
fn origin_of(core: &Core, request: &RequestHead) -> Origin {
    let value = |name: &[u8]| only_value(&request.fields, name);
    let own = match value(b"sec-fetch-site") {
        Ok(Some(site)) => matches!(site, b"same-origin" | b"none"),
        Err(()) => false,
        Ok(None) => match (value(b"origin"), value(b"referer")) {
            (Ok(Some(url)), Ok(_)) | (Ok(None), Ok(Some(url))) => {
                authority_of(url).is_some_and(|authority| is_own(core, request, authority))
            }
            _ => false,
        },
    };
    if own { Origin::Own } else { Origin::Other }
}

fn is_own(core: &Core, request: &RequestHead, authority: &[u8]) -> bool {
    let public = core.options.public_url.as_ref().and_then(|url| authority_of(url.as_bytes()));
    let own = public.unwrap_or(request.authority());
    without_port(own).is_some() && authority.eq_ignore_ascii_case(own)
}

/// Whether a browser opens a page, and no image, frame or prefetch: a page of ours may show what others wrote.
fn is_navigation(request: &RequestHead) -> bool {
    let value = |name: &[u8]| only_value(&request.fields, name);
    let opens = matches!(value(b"sec-fetch-dest"), Ok(None | Some(b"document")));
    let asked = [&b"sec-purpose"[..], b"purpose"].iter().all(|name| value(name) == Ok(None));
    opens && asked
}

/// What a sign-out takes to the provider.
struct Farewell {
    /// `Set-Cookie` lines that take the session away.
    lines: Vec<String>,
    id_token: Option<String>,
}

fn end_session(core: &Arc<Core>, context: &mut RequestContext<'_>) -> Verdict {
    let now = context.gateway.unix_ms() / 1000;
    let session = core.jar.read(context.request).and_then(|text| core.open(&text, now));
    let id_token = core.id_jar.read(context.request);
    let id_token = id_token.and_then(|text| core.sealer.open(&core.id_jar.name, &text, now));
    let scheme = core.scheme(context);
    let mut lines = core.jar.remove(context.request, scheme);
    lines.extend(core.id_jar.remove(context.request, scheme));
    let farewell = Farewell {
        lines,
        id_token: id_token.and_then(|opened| String::from_utf8(opened.plain).ok()),
    };
    let owned = Arc::clone(core);
    with_last_endpoints(
        core,
        context,
        Box::new(move |context, endpoints| {
            let forms = session.as_deref().map(revocations).unwrap_or_default();
            let Some(endpoints) = endpoints.filter(|_| !forms.is_empty()) else {
                return part(&owned, context, &farewell);
            };
            revoke(&owned, context, (endpoints, forms), farewell)
        }),
    )
}

/// The requests that have the provider revoke the tokens of a session, as forms (RFC 7009, 2.1). With the refresh
/// token most providers revoke all that was made of it.
fn revocations(session: &Session) -> Vec<String> {
    let tokens =
        [("refresh_token", &session.refresh_token), ("access_token", &session.access_token)];
    let forms = tokens.iter().filter_map(|(kind, token)| {
        Some(form(&[("token", token.as_deref()?), ("token_type_hint", kind)]))
    });
    forms.collect()
}

fn revoke(
    core: &Arc<Core>,
    context: &mut RequestContext<'_>,
    (endpoints, forms): (Arc<Endpoints>, Vec<String>),
    farewell: Farewell,
) -> Verdict {
    let endpoint = match &endpoints.revocation {
        Some(Ok(endpoint)) => endpoint,
        Some(Err(why)) => {
            context.gateway.log(Level::Warn, format_args!("tokens are not revoked: {why}"));
            return part(core, context, &farewell);
        }
        None => return part(core, context, &farewell),
    };
    let how = (context.gateway, core.options.provider.timeout);
    let requests = forms.iter().map(|form| core.client.request(endpoint, form, how));
    let fetching: Vec<_> = requests.map(|request| context.gateway.fetch(request)).collect();
    let core = Arc::clone(core);
    Verdict::Wait(Box::pin(async move {
        let mut failed = None;
        for fetching in fetching {
            // One that fails is not asked again; the user signs out all the same.
            if failed.is_none() {
                failed = revoked(fetching.await).err();
            }
        }
        let resume: Resume = Box::new(move |context| {
            if let Some(why) = &failed {
                context.gateway.log(Level::Warn, format_args!("a token was not revoked: {why}"));
            }
            part(&core, context, &farewell)
        });
        resume
    }))
}

/// Sends the browser on: to the provider, which ends its own session, or to `after_logout`.
fn part(core: &Core, context: &RequestContext<'_>, farewell: &Farewell) -> Verdict {
    core.count(context, Outcome::SignedOut);
    let known = core.provider.last().and_then(|endpoints| endpoints.end_session.clone());
    let known = known.or_else(|| core.options.provider.end_session.clone());
    let target = match known {
        None => core.options.after_logout.clone(),
        // OpenID Connect RP-Initiated Logout 1.0, 2.
        Some(url) => {
            let back = core.own_url(context, &core.options.after_logout);
            let mut pairs = vec![
                ("client_id", core.options.client_id.as_str()),
                ("post_logout_redirect_uri", back.as_str()),
            ];
            // Without it the provider has to ask the user.
            pairs.extend(farewell.id_token.as_deref().map(|token| ("id_token_hint", token)));
            with_query(&url, &form(&pairs))
        }
    };
    redirect(303, &target, &farewell.lines)
}

#[cfg(test)]
mod tests {
    use sluice_message::RequestHead;

    use super::is_navigation;

    #[test]
    fn images_and_prefetches_are_no_navigation() {
        let table: [(&[(&str, &str)], bool); 6] = [
            (&[], true),
            (&[("sec-fetch-dest", "document")], true),
            (&[("sec-fetch-dest", "image")], false),
            (&[("sec-fetch-dest", "iframe")], false),
            (&[("sec-fetch-dest", "document"), ("sec-purpose", "prefetch")], false),
            (&[("purpose", "prefetch")], false),
        ];
        for (lines, wanted) in table {
            let mut head = RequestHead::new();
            for (name, value) in lines {
                head.fields.push(name.as_bytes(), value.as_bytes()).unwrap();
            }
            assert_eq!(is_navigation(&head), wanted, "{lines:?}");
        }
    }
}
