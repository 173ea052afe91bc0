//! What a line of the access log can hold.

use std::io::Write as _;
use std::net::IpAddr;

use sluice_message::{FieldId, RequestHead, Version};

use super::escape::{push_json, push_text};
use super::record::{AccessRecord, ClientRecord, TlsRecord};
use crate::date::Civil;
use crate::decimal::{push, push_padded};

/// A value of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Variable {
    ClientIp,
    TimeIso,
    TimeClf,
    TimeUnixMs,
    RequestLine,
    RequestMethod,
    RequestTarget,
    RequestRawTarget,
    RequestPath,
    RequestQuery,
    RequestHost,
    RequestVersion,
    /// The name in lower case, and what it means to the gateway.
    RequestHeader(Box<str>, FieldId),
    ResponseStatus,
    ResponseBytes,
    RequestBytes,
    DurationMs,
    DurationSeconds,
    UpstreamName,
    UpstreamAddress,
    UpstreamDurationMs,
    UpstreamAttempts,
    Route,
    Listener,
    Scheme,
    TlsVersion,
    TlsSuite,
    TlsGroup,
    TlsResumed,
    TlsServerName,
    TlsClientSubject,
    TlsClientNames,
    TlsClientFingerprint,
    GrpcStatus,
    User,
    Variant,
    Fault,
}

/// Defines names, meanings and what they stand for once.
macro_rules! variables {
    ($($name:literal $variable:ident $meaning:literal;)*) => {
        /// Variables of an access-log template: name and meaning.
        pub const VARIABLES: &[(&str, &str)] = &[
            $(($name, $meaning),)*
            ("request.scheme", "As in expressions, the same as scheme"),
            ("route.id", "As in expressions, the same as route"),
            ("connection.listener", "As in expressions, the same as listener"),
            ("tls.cipher", "As in expressions, the same as tls.suite"),
            ("certificate.subject", "As in expressions, the same as tls.client.subject"),
            ("certificate.names", "As in expressions, the same as tls.client.names"),
            ("certificate.fingerprint", "As in expressions, the same as tls.client.fingerprint"),
            ("request.header.<name>", "Value of a request header; lines of one name joined by a comma"),
        ];

        impl Variable {
            /// The variable of this name, those of headers excepted.
            pub(super) fn of(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variable),)*
                    _ => Self::of_expression(name),
                }
            }
        }
    };
}

variables! {
    "client.ip" ClientIp "Address of the client";
    "time.iso" TimeIso "When the request began, RFC 3339 in UTC with milliseconds";
    "time.clf" TimeClf "When the request began, in the form of the Common Log Format, UTC";
    "time.unix_ms" TimeUnixMs "When the request began, in milliseconds since 1970";
    "request.line" RequestLine "Method, target and version";
    "request.method" RequestMethod "Method";
    "request.target" RequestTarget "Path and query as they are sent on";
    "request.raw_target" RequestRawTarget "Path and query as the client wrote them";
    "request.path" RequestPath "Path as routes compare it, without query";
    "request.query" RequestQuery "Query without its question mark";
    "request.host" RequestHost "Host the client asked for, without port";
    "request.version" RequestVersion "Protocol version, such as HTTP/1.1";
    "request.bytes" RequestBytes "Bytes received for the request, head included";
    "response.status" ResponseStatus "Status code";
    "response.bytes" ResponseBytes "Bytes sent for the response, head included";
    "duration.ms" DurationMs "From the request's first byte to the response's last, in milliseconds with three decimals";
    "duration.seconds" DurationSeconds "The same in seconds with three decimals";
    "upstream.name" UpstreamName "Name of the upstream";
    "upstream.address" UpstreamAddress "Address of the server that was asked last";
    "upstream.duration.ms" UpstreamDurationMs "From the request sent to the response head, in milliseconds with three decimals";
    "upstream.attempts" UpstreamAttempts "How often the request was sent to the upstream";
    "route" Route "Name of the route";
    "listener" Listener "Name of the listener";
    "scheme" Scheme "https if the client's connection is encrypted, else http";
    "tls.version" TlsVersion "Version of TLS, such as 1.3";
    "tls.suite" TlsSuite "Cipher suite by its IANA name";
    "tls.group" TlsGroup "Group the key was agreed upon in";
    "tls.resumed" TlsResumed "Whether a ticket shortened the handshake: yes or no";
    "tls.server_name" TlsServerName "Server name the client asked for in the handshake";
    "tls.client.subject" TlsClientSubject "Subject of the certificate the client has shown, as in RFC 4514";
    "tls.client.names" TlsClientNames "DNS names and URIs that certificate is for, joined by commas";
    "tls.client.fingerprint" TlsClientFingerprint "SHA-256 digest of that certificate, in hexadecimal digits";
    "grpc.status" GrpcStatus "How a gRPC call ended, such as ok or unavailable";
    "auth.user" User "Who the client has proved to be, where a filter asks for that";
    "canary.variant" Variant "The variant that the canary filter chose";
    "fault" Fault "Reason of the fault, if there was one, or why a filter refused the request";
}

/// What a line is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Plain text; what is missing is `-`.
    Text,
    /// A JSON value; what is missing is `null`.
    Json,
}

impl Style {
    fn push_missing(self, out: &mut Vec<u8>) {
        out.extend_from_slice(match self {
            Self::Text => b"-",
            Self::Json => b"null",
        });
    }

    /// A value that came from elsewhere; empty is missing.
    fn push_value(self, out: &mut Vec<u8>, value: &[u8]) {
        if value.is_empty() {
            return self.push_missing(out);
        }
        self.quote(out);
        self.push_escaped(out, value);
        self.quote(out);
    }

    fn push_escaped(self, out: &mut Vec<u8>, value: &[u8]) {
        match self {
            Self::Text => push_text(out, value),
            Self::Json => push_json(out, value),
        }
    }

    /// Around what is no number.
    fn quote(self, out: &mut Vec<u8>) {
        if self == Self::Json {
            out.push(b'"');
        }
    }
}

impl Variable {
    /// The variable that has this name in expressions, where the log calls it otherwise.
    fn of_expression(name: &str) -> Option<Self> {
        Some(match name {
            "request.scheme" => Self::Scheme,
            "route.id" | "route.name" => Self::Route,
            "connection.listener" => Self::Listener,
            "tls.cipher" => Self::TlsSuite,
            "certificate.subject" => Self::TlsClientSubject,
            "certificate.names" => Self::TlsClientNames,
            "certificate.fingerprint" => Self::TlsClientFingerprint,
            _ => return None,
        })
    }

    /// Appends what the variable is for `record`.
    pub(super) fn write(&self, record: &AccessRecord<'_>, style: Style, out: &mut Vec<u8>) {
        let moment = || Civil::of(record.unix_ms / 1_000);
        match self {
            Self::ClientIp => quoted(style, out, |out| push_address(out, record.client)),
            Self::TimeIso => {
                quoted(style, out, |out| moment().push_iso(record.unix_ms % 1_000, out));
            }
            Self::TimeClf => quoted(style, out, |out| moment().push_clf(out)),
            Self::TimeUnixMs => push(out, record.unix_ms),
            Self::ResponseStatus => push(out, u64::from(record.status)),
            Self::ResponseBytes => push(out, record.sent_bytes),
            Self::RequestBytes => push(out, record.received_bytes),
            Self::DurationMs => push_thousandths(out, record.duration_nanos / 1_000),
            Self::DurationSeconds => push_thousandths(out, record.duration_nanos / 1_000_000),
            Self::UpstreamName => style.push_value(out, record.upstream.as_bytes()),
            Self::UpstreamAddress => style.push_value(out, record.upstream_address.as_bytes()),
            Self::UpstreamDurationMs => match record.upstream_nanos {
                Some(nanos) => push_thousandths(out, nanos / 1_000),
                None => style.push_missing(out),
            },
            Self::UpstreamAttempts => push(out, u64::from(record.attempts)),
            Self::Route => style.push_value(out, record.route.as_bytes()),
            Self::Listener => style.push_value(out, record.listener.as_bytes()),
            Self::Scheme => {
                style.push_value(out, if record.tls.is_some() { b"https" } else { b"http" });
            }
            Self::TlsVersion => push_tls(record, style, out, |tls| tls.version),
            Self::TlsSuite => push_tls(record, style, out, |tls| tls.suite),
            Self::TlsGroup => push_tls(record, style, out, |tls| tls.group),
            Self::TlsResumed => push_tls(record, style, out, |tls| tls.resumed),
            Self::TlsServerName => push_tls(record, style, out, |tls| tls.server_name),
            Self::TlsClientSubject => push_client(record, style, out, |client| client.subject),
            Self::TlsClientFingerprint => {
                push_client(record, style, out, |client| client.fingerprint);
            }
            Self::TlsClientNames => {
                let names = record.tls.and_then(|tls| tls.client).map(|client| client.names);
                style.push_value(out, names.unwrap_or_default().join(",").as_bytes());
            }
            Self::GrpcStatus => {
                style.push_value(out, record.grpc_status.unwrap_or_default().as_bytes());
            }
            Self::User => style.push_value(out, record.user.unwrap_or_default()),
            Self::Variant => style.push_value(out, record.variant.unwrap_or_default().as_bytes()),
            Self::Fault => style.push_value(out, record.fault.unwrap_or_default().as_bytes()),
            _ => match record.head {
                Some(head) => self.write_of_head(head, style, out),
                None => style.push_missing(out),
            },
        }
    }

    fn write_of_head(&self, head: &RequestHead, style: Style, out: &mut Vec<u8>) {
        match self {
            Self::RequestMethod => style.push_value(out, head.method_text()),
            Self::RequestTarget => style.push_value(out, head.target()),
            Self::RequestRawTarget => style.push_value(out, head.raw_target()),
            Self::RequestPath => style.push_value(out, head.path()),
            Self::RequestQuery => style.push_value(out, head.query()),
            Self::RequestHost => style.push_value(out, head.host()),
            Self::RequestVersion => style.push_value(out, version(head)),
            Self::RequestHeader(name, FieldId::Other) => {
                push_lines(style, out, head.fields.values_of(name.as_bytes()));
            }
            Self::RequestHeader(_, id) => push_lines(style, out, head.fields.values(*id)),
            _ => {
                style.quote(out);
                for part in [head.method_text(), b" ", head.raw_target(), b" ", version(head)] {
                    style.push_escaped(out, part);
                }
                style.quote(out);
            }
        }
    }
}

fn push_tls<'r>(
    record: &AccessRecord<'r>,
    style: Style,
    out: &mut Vec<u8>,
    value: impl Fn(TlsRecord<'r>) -> &'r str,
) {
    style.push_value(out, record.tls.map_or("", value).as_bytes());
}

fn push_client<'r>(
    record: &AccessRecord<'r>,
    style: Style,
    out: &mut Vec<u8>,
    value: impl Fn(ClientRecord<'r>) -> &'r str,
) {
    push_tls(record, style, out, |tls| tls.client.map_or("", &value));
}

const fn version(head: &RequestHead) -> &'static [u8] {
    match head.version {
        Version::Http10 => b"HTTP/1.0",
        Version::Http11 => b"HTTP/1.1",
        Version::Http2 => b"HTTP/2.0",
    }
}

fn quoted(style: Style, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    style.quote(out);
    write(out);
    style.quote(out);
}

/// Lines of one name are one list (RFC 9110, 5.3).
fn push_lines<'a>(style: Style, out: &mut Vec<u8>, values: impl Iterator<Item = &'a [u8]>) {
    let mut values = values.peekable();
    if values.peek().is_none_or(|value| value.is_empty()) {
        return style.push_missing(out);
    }
    style.quote(out);
    for (place, value) in values.enumerate() {
        if place > 0 {
            out.extend_from_slice(b", ");
        }
        style.push_escaped(out, value);
    }
    style.quote(out);
}

/// IPv4 addresses mapped into IPv6 are written as IPv4, however the listener is bound.
fn push_address(out: &mut Vec<u8>, address: IpAddr) {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            for (place, part) in address.octets().into_iter().enumerate() {
                if place > 0 {
                    out.push(b'.');
                }
                push(out, u64::from(part));
            }
        }
        // Formats without allocation; a vector takes every write.
        IpAddr::V6(address) => drop(write!(out, "{address}")),
    }
}

fn push_thousandths(out: &mut Vec<u8>, value: u64) {
    push(out, value / 1_000);
    out.push(b'.');
    push_padded(out, value % 1_000, 3);
}
