//! Questions by Envoy's gRPC call, and what their answers mean.

use std::collections::BTreeMap;
use std::net::IpAddr;

use sluice_filter::{Fetch, Fetched, Reply, RequestContext};
use sluice_message::{Fields, SpaceExhausted, Version, write_grpc_timeout};

use super::check::{
    Address, AttributeContext, CheckRequest, Header, HeaderOption, HttpRequest, HttpResponse,
    METHOD, Peer, Request, SocketAddress, Timestamp, TlsSession, frame, unframe,
};
use super::http::{add, is_told};
use super::personal::is_personal;
use super::{Decision, Inner, Place};

/// The call.
pub(super) fn question(
    inner: &Inner,
    extensions: &[(String, String)],
    context: &RequestContext<'_>,
) -> Result<Fetch, SpaceExhausted> {
    let settings = &inner.settings;
    let mut fields = Fields::new();
    fields.push(b"content-type", b"application/grpc")?;
    fields.push(b"te", b"trailers")?;
    let timeout = write_grpc_timeout(settings.timeout);
    fields.push(b"grpc-timeout", timeout.as_bytes())?;
    let attributes = Some(attributes(inner, extensions, context)?);
    Ok(Fetch {
        cluster: settings.cluster,
        method: b"POST".to_vec(),
        target: METHOD.to_vec(),
        host: Vec::new(),
        fields,
        body: frame(&CheckRequest { attributes }),
        timeout: settings.timeout,
        limit: settings.answer_limit,
        client: context.client,
    })
}

/// What is told of the request.
fn attributes(
    inner: &Inner,
    extensions: &[(String, String)],
    context: &RequestContext<'_>,
) -> Result<AttributeContext, SpaceExhausted> {
    let gateway = context.gateway;
    let address = |address: IpAddr, port: u16| {
        let socket = SocketAddress { address: address.to_string(), port_value: port.into() };
        Some(Address { socket_address: Some(socket) })
    };
    let principal = gateway.certificate().map(|shown| shown.subject.to_owned());
    let ms = gateway.unix_ms();
    let time = Timestamp {
        seconds: i64::try_from(ms / 1000).unwrap_or(i64::MAX),
        nanos: i32::try_from(ms % 1000 * 1_000_000).unwrap_or(0),
    };
    let http = http(inner, context)?;
    let sni = gateway.encryption().map(|encryption| encryption.server_name.to_owned());
    Ok(AttributeContext {
        source: Some(Peer {
            address: address(context.client, gateway.port()),
            principal: principal.unwrap_or_default(),
        }),
        destination: None,
        request: Some(Request { time: Some(time), http: Some(http) }),
        context_extensions: extensions.iter().cloned().collect(),
        tls_session: sni.map(|sni| TlsSession { sni }),
    })
}

fn http(inner: &Inner, context: &RequestContext<'_>) -> Result<HttpRequest, SpaceExhausted> {
    let request = &*context.request;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    let mut tell = |name: &[u8], value: &[u8]| {
        let name = text(name).to_ascii_lowercase();
        let value = text(value);
        match headers.get_mut(&name) {
            // Lines of one name are one list (RFC 9110, 5.3).
            Some(before) => {
                before.push_str(if name == "cookie" { "; " } else { "," });
                before.push_str(&value);
            }
            None => drop(headers.insert(name, value)),
        }
    };
    for line in request.fields.lines() {
        let name = request.fields.slice(line.name);
        if is_told(line.id, context) && inner.settings.send.has(name) {
            tell(name, request.fields.slice(line.value));
        }
    }
    let mut added = Fields::new();
    add(inner, &mut added, context)?;
    added.iter().for_each(|(name, value)| tell(name, value));
    let (body, _) = inner.content(context);
    Ok(HttpRequest {
        id: context.gateway.random().to_string(),
        method: text(request.method_text()),
        headers,
        path: text(request.target()),
        host: text(request.authority()),
        scheme: context.gateway.scheme().to_owned(),
        size: match request.body {
            sluice_message::BodyLength::Known(length) => i64::try_from(length).unwrap_or(-1),
            sluice_message::BodyLength::Empty => 0,
            _ => -1,
        },
        protocol: match request.version {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2",
        }
        .to_owned(),
        raw_body: body.to_vec(),
    })
}

/// What the answer means; nothing if it is none.
pub(super) fn decision(inner: &Inner, answer: &Fetched) -> Option<Decision> {
    let status = |fields: &Fields| {
        let value = fields.values_of(b"grpc-status").next()?;
        Some(value == b"0")
    };
    let told = answer.trailers.as_ref().and_then(status).or_else(|| status(&answer.fields));
    if answer.status != 200 || told != Some(true) {
        return None;
    }
    let response = unframe(&answer.body)?;
    let good = response.status.is_none_or(|status| status.code == 0);
    match response.http_response {
        Some(HttpResponse::Denied(denied)) if !good => {
            let status = denied.status.and_then(|status| u16::try_from(status.code).ok());
            let status = status.filter(|status| (200..=599).contains(status)).unwrap_or(403);
            let mut reply = Reply { body: denied.body.into(), ..Reply::new(status) };
            reply.reason = Some("denied by external authentication");
            for (name, value, _) in valid(&denied.headers) {
                reply.fields.push(name, value).ok()?;
            }
            Some(Decision { denied: Some(reply.into()), ..Decision::default() })
        }
        _ if !good => {
            let reply = Reply::refusal(403, "denied by external authentication");
            Some(Decision { denied: Some(reply.into()), ..Decision::default() })
        }
        Some(HttpResponse::Allowed(allowed)) => {
            let mut decision =
                Decision { remove: allowed.headers_to_remove, ..Decision::default() };
            // Without these a message could be cut elsewhere than the gateway cuts it.
            decision.remove.retain(|name| !is_kept(name.as_bytes()));
            for (name, value, place) in valid(&allowed.headers) {
                let user = inner.settings.user.as_ref();
                if user.is_some_and(|user| name.eq_ignore_ascii_case(user.as_bytes())) {
                    decision.user = Some(value.into());
                }
                decision.up.push((name.into(), value.into(), place));
            }
            for (name, value, _) in valid(&allowed.response_headers_to_add) {
                let fields = match is_personal(name) {
                    true => &mut decision.own,
                    false => &mut decision.down,
                };
                fields.push(name, value).ok()?;
            }
            Some(decision)
        }
        _ => Some(Decision::default()),
    }
}

/// The headers that can be written: a name is a token, a value has no control characters (RFC 9110, 5.1, 5.5),
/// and none of them is the gateway's own.
fn valid(headers: &[HeaderOption]) -> impl Iterator<Item = (&[u8], &[u8], Place)> {
    headers.iter().filter_map(|option| {
        let Header { key, value, raw_value } = option.header.as_ref()?;
        let value = if value.is_empty() { raw_value } else { value };
        let token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
        let name = key.as_bytes();
        let good = !name.is_empty()
            && name.iter().all(token)
            && value.iter().all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f))
            && !is_kept(name);
        let place = match (option.append.is_some_and(|append| append.value), option.append_action) {
            (true, _) => Place::Beside,
            (_, 1) => Place::IfAbsent,
            (_, 3) => Place::IfPresent,
            _ => Place::Instead,
        };
        good.then_some((name, value.trim_ascii(), place))
    })
}

/// Whether a field is the gateway's own business.
fn is_kept(name: &[u8]) -> bool {
    use sluice_message::FieldId as Id;
    let id = Id::of(name);
    id.is_hop_by_hop() || matches!(id, Id::Host | Id::ContentLength | Id::Expect | Id::Trailer)
}
