//! Questions by HTTP, and what their answers mean.

use sluice_filter::{Fetch, Fetched, Reply, RequestContext};
use sluice_message::{AddressText, FieldId, Fields, Method, SpaceExhausted};

use super::personal::is_personal;
use super::{AuthProtocol, Decision, Inner, Place};

/// Why a request is refused, in the log.
const DENIED: &str = "denied by external authentication";

/// Bytes of what is said of a request besides its own fields and its target, nearly always.
const INTRODUCTION: usize = 256;

/// The request to the service.
pub(super) fn question(
    inner: &Inner,
    context: &RequestContext<'_>,
) -> Result<Fetch, SpaceExhausted> {
    let settings = &inner.settings;
    let request = &*context.request;
    let (method, target, host) = match &settings.protocol {
        AuthProtocol::Prefix(prefix) => {
            let target = [prefix.as_bytes(), request.target()].concat();
            (request.method_text().to_vec(), target, request.authority().to_vec())
        }
        AuthProtocol::Forward { path, method } => {
            let method = method.as_ref().map_or(request.method_text(), |method| method.as_bytes());
            (method.to_vec(), path.clone().into_bytes(), Vec::new())
        }
        AuthProtocol::Grpc(_) => (b"POST".to_vec(), Vec::new(), Vec::new()),
    };
    // One piece of memory for what will stand there: it grows for rare requests alone.
    let room = request.fields.bytes().len() + request.target().len() + INTRODUCTION;
    let mut fields = Fields::with_capacity(room, request.fields.lines().len() + 8);
    for line in request.fields.lines() {
        let name = request.fields.slice(line.name);
        if is_told(line.id, context) && settings.send.has(name) {
            fields.push(name, request.fields.slice(line.value))?;
        }
    }
    introduce(&mut fields, context)?;
    add(inner, &mut fields, context)?;
    let body = shown_content(inner, &mut fields, context)?;
    Ok(Fetch {
        cluster: settings.cluster,
        method,
        target,
        host,
        fields,
        body,
        timeout: settings.timeout,
        limit: settings.answer_limit,
        client: context.client,
    })
}

/// Whether a field says something of the request, and not of how it came here. What clients say of
/// themselves being forwarded is told only if they are trusted.
pub(super) fn is_told(id: FieldId, context: &RequestContext<'_>) -> bool {
    match id {
        FieldId::Host | FieldId::ContentLength | FieldId::Expect | FieldId::Trailer => false,
        FieldId::XForwardedProto | FieldId::XForwardedHost => false,
        FieldId::XForwardedFor | FieldId::Forwarded => context.gateway.is_peer_trusted(),
        id => !id.is_hop_by_hop(),
    }
}

/// Says what the request is and whose, as Traefik and others do.
fn introduce(fields: &mut Fields, context: &RequestContext<'_>) -> Result<(), SpaceExhausted> {
    let request = &*context.request;
    for name in [&b"x-forwarded-method"[..], b"x-forwarded-uri", b"x-original-uri"] {
        fields.remove_read_as(name);
    }
    fields.push(b"x-forwarded-method", request.method_text())?;
    fields.push(b"x-forwarded-proto", context.gateway.scheme().as_bytes())?;
    fields.push(b"x-forwarded-host", request.authority())?;
    fields.push(b"x-forwarded-uri", request.target())?;
    let peer = AddressText::new(context.gateway.peer());
    fields.push(b"x-forwarded-for", peer.as_bytes())
}

/// Adds what the configuration says.
pub(super) fn add(
    inner: &Inner,
    fields: &mut Fields,
    context: &RequestContext<'_>,
) -> Result<(), SpaceExhausted> {
    let view = context.view();
    for (name, template) in &inner.settings.add {
        let mut value = Vec::new();
        template.render_field_value(&view, &mut value).map_err(|_| SpaceExhausted)?;
        fields.remove_read_as(name.as_bytes());
        fields.push(name.as_bytes(), value.trim_ascii())?;
    }
    Ok(())
}

/// The content that the service is shown; a field says whether it is only the beginning.
fn shown_content(
    inner: &Inner,
    fields: &mut Fields,
    context: &RequestContext<'_>,
) -> Result<Vec<u8>, SpaceExhausted> {
    fields.remove_read_as(b"x-auth-partial-body");
    let (bytes, partial) = inner.content(context);
    if partial {
        fields.push(b"x-auth-partial-body", b"true")?;
    }
    Ok(bytes.to_vec())
}

impl Inner {
    /// The content that the service is shown, and whether there is more.
    pub(super) fn content<'c>(&self, context: &RequestContext<'c>) -> (&'c [u8], bool) {
        let content = context.content;
        match self.settings.body {
            super::AuthBody::None => (&[], false),
            super::AuthBody::Partial(most) | super::AuthBody::Full(most) => {
                let shown = content.bytes.get(..most).unwrap_or(content.bytes);
                (shown, shown.len() < content.bytes.len() || content.more)
            }
        }
    }
}

/// What an answer means; nothing if it is none: the service fails.
pub(super) fn decision(inner: &Inner, answer: &Fetched) -> Option<Decision> {
    match answer.status {
        200..=299 => Some(allowed(inner, answer)),
        500.. => None,
        _ => Some(denied(inner, answer)),
    }
}

fn allowed(inner: &Inner, answer: &Fetched) -> Decision {
    let settings = &inner.settings;
    let mut decision = Decision::default();
    for line in answer.fields.lines() {
        let (name, value) = (answer.fields.slice(line.name), answer.fields.slice(line.value));
        if !is_passed(line.id) {
            continue;
        }
        if settings.up.has(name) && !is_personal(name) {
            // Those of the client are gone already, and several of one name stand beside each other.
            decision.up.push((name.into(), value.into(), Place::Beside));
        }
        if settings.down.has(name) {
            let fields = if is_personal(name) { &mut decision.own } else { &mut decision.down };
            // They were in a head already.
            let _ = fields.push(name, value);
        }
    }
    if let Some(name) = &settings.user {
        decision.user = answer.fields.values_of(name.as_bytes()).next().map(Into::into);
    }
    decision
}

fn denied(inner: &Inner, answer: &Fetched) -> Decision {
    let mut reply = Reply { body: answer.body.clone().into(), ..Reply::new(answer.status) };
    reply.reason = Some(DENIED);
    for line in answer.fields.lines() {
        let name = answer.fields.slice(line.name);
        if is_passed(line.id) && inner.settings.denied.has(name) {
            let _ = reply.fields.push(name, answer.fields.slice(line.value));
        }
    }
    Decision { denied: Some(reply.into()), ..Decision::default() }
}

/// Sends somebody away who has to sign in: those who look at pages, not programs.
pub(super) fn sign_in(inner: &Inner, status: u16, context: &RequestContext<'_>) -> Option<Reply> {
    let template = inner.settings.sign_in.as_ref()?;
    let request = &*context.request;
    let page = matches!(request.method, Method::Get | Method::Head)
        && request.fields.values_of(b"accept").any(|value| {
            let lower = value.to_ascii_lowercase();
            lower.windows(9).any(|window| window == b"text/html")
        });
    if status != 401 || !page || matches!(inner.settings.protocol, AuthProtocol::Grpc(_)) {
        return None;
    }
    let mut place = Vec::new();
    template.render_field_value(&context.view(), &mut place).ok()?;
    let mut reply = Reply { reason: Some(DENIED), ..Reply::new(302) };
    reply.fields.push(b"location", &place).ok()?;
    reply.fields.push(b"cache-control", b"no-store").ok()?;
    Some(reply)
}

/// Whether a field of an answer belongs to it, and not to the connection it came by.
fn is_passed(id: FieldId) -> bool {
    !id.is_hop_by_hop()
        && !matches!(id, FieldId::ContentLength | FieldId::Date | FieldId::Trailer | FieldId::Host)
}

/// The lines in the bytes of [`Fields`].
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.filter_map(|line| {
        let line = line.strip_suffix(b"\r")?;
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((line.get(..colon)?, line.get(colon + 1..)?.trim_ascii()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_what_was_written() {
        let mut fields = Fields::new();
        fields.push(b"set-cookie", b"a=b: c").unwrap();
        fields.push(b"x", b"").unwrap();
        let all: Vec<_> = lines(fields.bytes()).collect();
        assert_eq!(all, [(&b"set-cookie"[..], &b"a=b: c"[..]), (b"x", b"")]);
    }
}
