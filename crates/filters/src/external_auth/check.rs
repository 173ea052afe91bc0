//! The messages of Envoy's `envoy.service.auth.v3.Authorization/Check`, as far as they are used.
//!
//! Numbers and names are those of the published definitions (envoy/service/auth/v3/external_auth.proto,
//! attribute_context.proto, envoy/config/core/v3/base.proto).

use std::collections::BTreeMap;

use prost::{Message, Oneof};

/// The path that is asked.
pub(super) const METHOD: &[u8] = b"/envoy.service.auth.v3.Authorization/Check";

#[derive(Clone, PartialEq, Message)]
pub(super) struct CheckRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) attributes: Option<AttributeContext>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AttributeContext {
    #[prost(message, optional, tag = "1")]
    pub(super) source: Option<Peer>,
    #[prost(message, optional, tag = "2")]
    pub(super) destination: Option<Peer>,
    #[prost(message, optional, tag = "4")]
    pub(super) request: Option<Request>,
    #[prost(btree_map = "string, string", tag = "10")]
    pub(super) context_extensions: BTreeMap<String, String>,
    #[prost(message, optional, tag = "12")]
    pub(super) tls_session: Option<TlsSession>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Peer {
    #[prost(message, optional, tag = "1")]
    pub(super) address: Option<Address>,
    #[prost(string, tag = "4")]
    pub(super) principal: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Address {
    #[prost(message, optional, tag = "1")]
    pub(super) socket_address: Option<SocketAddress>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SocketAddress {
    #[prost(string, tag = "2")]
    pub(super) address: String,
    #[prost(uint32, tag = "3")]
    pub(super) port_value: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Request {
    #[prost(message, optional, tag = "1")]
    pub(super) time: Option<Timestamp>,
    #[prost(message, optional, tag = "2")]
    pub(super) http: Option<HttpRequest>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Timestamp {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(super) nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HttpRequest {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(string, tag = "2")]
    pub(super) method: String,
    #[prost(btree_map = "string, string", tag = "3")]
    pub(super) headers: BTreeMap<String, String>,
    #[prost(string, tag = "4")]
    pub(super) path: String,
    #[prost(string, tag = "5")]
    pub(super) host: String,
    #[prost(string, tag = "6")]
    pub(super) scheme: String,
    #[prost(int64, tag = "9")]
    pub(super) size: i64,
    #[prost(string, tag = "10")]
    pub(super) protocol: String,
    #[prost(bytes = "vec", tag = "12")]
    pub(super) raw_body: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TlsSession {
    #[prost(string, tag = "1")]
    pub(super) sni: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CheckResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<Status>,
    #[prost(oneof = "HttpResponse", tags = "2, 3")]
    pub(super) http_response: Option<HttpResponse>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum HttpResponse {
    #[prost(message, tag = "2")]
    Denied(Denied),
    #[prost(message, tag = "3")]
    Allowed(Allowed),
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Status {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Denied {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<HttpStatus>,
    #[prost(message, repeated, tag = "2")]
    pub(super) headers: Vec<HeaderOption>,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) body: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct HttpStatus {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Allowed {
    #[prost(message, repeated, tag = "2")]
    pub(super) headers: Vec<HeaderOption>,
    #[prost(string, repeated, tag = "5")]
    pub(super) headers_to_remove: Vec<String>,
    #[prost(message, repeated, tag = "6")]
    pub(super) response_headers_to_add: Vec<HeaderOption>,
}

/// `HeaderValueOption`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct HeaderOption {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    /// `google.protobuf.BoolValue`, before there were actions.
    #[prost(message, optional, tag = "2")]
    pub(super) append: Option<BoolValue>,
    #[prost(int32, tag = "3")]
    pub(super) append_action: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Header {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) value: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) raw_value: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct BoolValue {
    #[prost(bool, tag = "1")]
    pub(super) value: bool,
}

/// A message in a frame of gRPC, not compressed.
pub(super) fn frame(request: &CheckRequest) -> Vec<u8> {
    let message = request.encode_to_vec();
    let mut framed = vec![0];
    framed.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    framed.extend_from_slice(&message);
    framed
}

/// The message in the only frame of an answer.
pub(super) fn unframe(body: &[u8]) -> Option<CheckResponse> {
    let ([0, length @ ..], message) = body.split_first_chunk::<5>()? else { return None };
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    (message.len() == length).then(|| CheckResponse::decode(message).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_of_the_definitions() {
        let http = HttpRequest { method: "GET".into(), path: "/".into(), ..Default::default() };
        let request = Request { http: Some(http), time: None };
        let attributes = AttributeContext { request: Some(request), ..Default::default() };
        let framed = frame(&CheckRequest { attributes: Some(attributes) });
        // attributes (1) { request (4) { http (2) { method (2) "GET", path (4) "/" } } }
        let message = b"\x0a\x0c\x22\x0a\x12\x08\x12\x03GET\x22\x01/";
        assert_eq!(framed, [&[0, 0, 0, 0, 14][..], message].concat());
    }

    #[test]
    fn answers_are_read_and_rubbish_is_none() {
        // ok_response (3) { headers (2) { header (1) { key (1) "a", value (2) "b" } } }
        let message = b"\x1a\x0a\x12\x08\x0a\x06\x0a\x01a\x12\x01b";
        let framed = [&[0, 0, 0, 0, 12][..], message].concat();
        let Some(HttpResponse::Allowed(allowed)) = unframe(&framed).unwrap().http_response else {
            panic!("allowed");
        };
        let header = allowed.headers[0].header.as_ref().unwrap();
        assert_eq!((header.key.as_str(), &*header.value), ("a", &b"b"[..]));
        let rows: [&[u8]; 6] = [
            b"",
            b"\x00\x00\x00\x00",
            b"\x01\x00\x00\x00\x00",
            b"\x00\x00\x00\x00\x02\x0a",
            b"\x00\x00\x00\x00\x00x",
            b"\x00\x00\x00\x00\x02\x0a\x7f",
        ];
        for rubbish in rows {
            assert!(unframe(rubbish).is_none(), "{rubbish:?}");
        }
        assert_eq!(unframe(&[0; 5]), Some(CheckResponse::default()));
    }
}
