//! Listeners: their limits in the words of those who keep them.

use sluice_conn::ServerTimeouts;
use sluice_engine::{
    Beginning, ConnectionLimits, ProxyProtocol, TraceMethod, TrustedProxies, WhenFull,
};
use sluice_message::AmbiguousHeaders;
use sluice_model::{self as model, Address, Http2, Limits as ModelLimits, Listener};
use sluice_model::{ListenerTimeout, Older};
use sluice_net::Endpoint;
use sluice_wire::h1::Limits;
use sluice_wire::h2::{Config, Connect};

pub(crate) fn endpoint(address: &Address) -> Endpoint {
    match address {
        Address::Tcp(address) => Endpoint::Tcp(*address),
        Address::Unix(path) => Endpoint::Unix(path.clone()),
    }
}

pub(crate) fn limits(limits: &ModelLimits) -> Limits {
    let size = |value: u32| usize::try_from(value).unwrap_or(usize::MAX);
    Limits { head: size(limits.head), fields: size(limits.fields), target: size(limits.target) }
}

pub(crate) fn timeouts(timeout: &ListenerTimeout) -> ServerTimeouts {
    ServerTimeouts {
        head: timeout.head,
        idle: timeout.idle,
        body: timeout.body,
        write: timeout.write,
    }
}

/// How connections carry many requests at once; what a head may be is the same for all protocols.
pub(crate) fn http2(listener: &Listener) -> Option<Config> {
    let Http2 { streams, window, connection_window, .. } = listener.http2?;
    let limits = limits(&listener.limits);
    Some(Config {
        limits,
        streams,
        stream_window: window,
        connection_window,
        connect: Connect::Extended,
        ..Config::default()
    })
}

/// What a connection may begin with.
pub(crate) fn beginning(listener: &Listener) -> Beginning {
    match listener.http2 {
        Some(Http2 { older: Older::Refused, .. }) => Beginning::Shared,
        _ => Beginning::Any,
    }
}

/// What becomes of headers whose names servers may take for other ones.
pub(crate) fn ambiguous_headers(listener: &Listener) -> AmbiguousHeaders {
    match listener.ambiguous_headers {
        model::AmbiguousHeaders::Drop => AmbiguousHeaders::Drop,
        model::AmbiguousHeaders::Refuse => AmbiguousHeaders::Refuse,
        model::AmbiguousHeaders::Keep => AmbiguousHeaders::Keep,
    }
}

/// What becomes of requests with the method TRACE.
pub(crate) fn trace_method(listener: &Listener) -> TraceMethod {
    match listener.trace_method {
        model::TraceMethod::Refuse => TraceMethod::Refuse,
        model::TraceMethod::Allow => TraceMethod::Allow,
    }
}

/// Who says in front of a connection for whom it is.
pub(crate) fn proxy_protocol(listener: &Listener) -> Option<ProxyProtocol> {
    let rule = listener.proxy_protocol.as_ref()?;
    Some(ProxyProtocol { from: TrustedProxies::new(rule.from.clone()), timeout: rule.timeout })
}

/// No limit is the largest number.
pub(crate) fn connection_limits(limits: &ModelLimits) -> ConnectionLimits {
    ConnectionLimits {
        when_full: WhenFull::Refuse,
        requests: limits.requests_per_connection.unwrap_or(u64::MAX),
        total: limits.connections.unwrap_or(u32::MAX),
        per_client: limits.connections_per_client.unwrap_or(u32::MAX),
    }
}
