//! Headers of requests that change what an origin answers, although they are part of no key.
//!
//! An answer that one of them has changed would be given to those who ask without it: cache poisoning. The names are
//! those that frameworks, servers and CDNs are known to read, as collected in the literature on that attack.

use sluice_message::{may_be_read_as, may_begin_with};

/// What a header changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Steering {
    /// Nothing that is known.
    No,
    /// What is asked for, whoever sends it.
    Request,
    /// How the request came, as a proxy in front says it: scheme, host, port, country.
    Origin,
    /// Who the client is, as a proxy in front says it, and what it says for its own sake.
    Client,
}

/// Names that override method, target or host, or switch a framework into another mode.
const REQUEST: &[&[u8]] = &[
    b"base-url",
    b"destination",
    b"proxy",
    b"proxy-host",
    b"proxy-url",
    b"request-uri",
    b"script-name",
    b"surrogate-capability",
    b"translate",
    b"uri",
    b"url",
    b"x-accel-redirect",
    b"x-amz-website-redirect-location",
    b"x-backend-host",
    b"x-base-url",
    b"x-custom-ip-authorization",
    b"x-debug",
    b"x-envoy-original-path",
    b"x-forwarded-override",
    b"x-host",
    b"x-host-override",
    b"x-invoke-output",
    b"x-invoke-path",
    b"x-invoke-query",
    b"x-invoke-status",
    b"x-matched-path",
    b"x-method-override",
    b"x-middleware-invoke",
    b"x-middleware-prefetch",
    b"x-middleware-subrequest",
    b"x-nextjs-data",
    b"x-now-route-matches",
    b"x-override-url",
    b"x-path-info",
    b"x-prerender-revalidate",
    b"x-preview",
    b"x-proxy-host",
    b"x-proxy-url",
    b"x-request-uri",
    b"x-script-name",
    b"x-sendfile-type",
    b"x-server-name",
    b"x-server-port",
    b"x-status-code-override",
    b"x-ua-device",
    b"x-uri",
    b"x-url",
    b"x-wap-profile",
];

/// Beginnings of such names.
const REQUEST_PREFIXES: &[&[u8]] = &[b"x-http-", b"x-original-", b"x-rewrite-"];

/// What proxies and CDNs say of how a request came. `X-Forwarded-For` names a client and is known to the gateway.
const ORIGIN: &[&[u8]] = &[
    b"cf-device-type",
    b"cf-ipcity",
    b"cf-ipcontinent",
    b"cf-ipcountry",
    b"cf-region",
    b"cf-region-code",
    b"cf-timezone",
    b"cf-visitor",
    b"cloudfront-forwarded-proto",
    b"cloudfront-viewer-city",
    b"cloudfront-viewer-country",
    b"cloudfront-viewer-country-region",
    b"fastly-host",
    b"fastly-orig-host",
    b"fastly-ssl",
    b"front-end-https",
    b"x-cdn-host",
    b"x-forwarded",
    b"x-https",
    b"x-port",
    b"x-proto",
    b"x-protocol",
    b"x-scheme",
    b"x-ssl",
    b"x-ssl-offloaded",
    b"x-url-scheme",
];

/// Beginnings of such names.
const ORIGIN_PREFIXES: &[&[u8]] = &[b"cloudfront-is-", b"x-forwarded-", b"x-appengine-"];

/// What they say of the client.
const CLIENT: &[&[u8]] = &[
    b"client-ip",
    b"true-client-ip",
    b"x-client-ip",
    b"x-cluster-client-ip",
    b"x-envoy-external-address",
    b"x-originating-ip",
    b"x-proxyuser-ip",
    b"x-real-ip",
    b"x-remote-addr",
    b"x-remote-ip",
];

/// Beginnings of such names.
const CLIENT_PREFIXES: &[&[u8]] =
    &[b"cf-", b"cloudfront-", b"fastly-", b"akamai-", b"x-akamai-", b"x-azure-"];

/// Whether a name can be one of those above: cheap, and asked about every header the gateway itself has no use for.
#[inline]
pub(crate) fn may_steer(name: &[u8]) -> bool {
    match name.first().map(u8::to_ascii_lowercase) {
        Some(b'x' | b'c' | b'f' | b't' | b'd' | b'b' | b'r') => true,
        // Nearly every request has others with these letters.
        Some(b'u') => name.len() == 3,
        Some(b's') => matches!(name.len(), 11 | 20),
        Some(b'p') => matches!(name.len(), 5 | 9 | 10),
        Some(b'a') => name.get(1).is_some_and(|second| second.eq_ignore_ascii_case(&b'k')),
        _ => false,
    }
}

impl Steering {
    /// What a header of this name changes, or one that an origin may take it for.
    #[cold]
    pub(crate) fn of(name: &[u8]) -> Self {
        let is = |known: &[&[u8]]| known.iter().any(|known| may_be_read_as(name, known));
        let begins = |known: &[&[u8]]| known.iter().any(|known| may_begin_with(name, known));
        if is(REQUEST) || begins(REQUEST_PREFIXES) {
            return Self::Request;
        }
        if is(ORIGIN) || begins(ORIGIN_PREFIXES) {
            return Self::Origin;
        }
        if is(CLIENT) || begins(CLIENT_PREFIXES) { Self::Client } else { Self::No }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_looked_at() {
        let lists = [REQUEST, REQUEST_PREFIXES, ORIGIN, ORIGIN_PREFIXES, CLIENT, CLIENT_PREFIXES];
        for name in lists.into_iter().flatten() {
            assert!(
                may_steer(name) && may_steer(&name.to_ascii_uppercase()),
                "{}",
                name.escape_ascii()
            );
            assert_ne!(Steering::of(name), Steering::No);
        }
        for name in [
            "accept",
            "accept-language",
            "user-agent",
            "sec-fetch-mode",
            "priority",
            "dnt",
            "x-request-id",
        ] {
            assert_eq!(Steering::of(name.as_bytes()), Steering::No, "{name}");
        }
        for name in ["sec-ch-ua", "accept", "upgrade-insecure-requests", "priority", "purpose"] {
            assert!(!may_steer(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn the_longer_list_goes_first() {
        for (name, steering) in [
            ("X-Original-URL", Steering::Request),
            ("x_http_method_override", Steering::Request),
            ("CF-Visitor", Steering::Origin),
            ("CF-Ray", Steering::Client),
            ("CloudFront-Is-Mobile-Viewer", Steering::Origin),
            ("CloudFront-Viewer-Address", Steering::Client),
            ("X-Forwarded-Prefix", Steering::Origin),
            ("X_Forwarded_Host", Steering::Origin),
            ("True-Client-IP", Steering::Client),
        ] {
            assert_eq!(Steering::of(name.as_bytes()), steering, "{name}");
        }
    }
}
