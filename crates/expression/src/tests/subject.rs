//! An exchange made of texts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use sluice_message::{BodyLength, FieldId, Method, RequestHead, ResponseHead, Version};

use crate::{Subject, Word};

/// Sunday, 2026-11-22 04:34:56.789 UTC.
const NOW: u64 = 1_795_322_096_789;

#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub(super) request: RequestHead,
    pub(super) response: Option<ResponseHead>,
    pub(super) client: IpAddr,
    pub(super) words: Vec<(Word, &'static str)>,
    pub(super) named: BTreeMap<&'static str, &'static [u8]>,
}

impl Exchange {
    /// With everything that may be there.
    pub(super) fn full() -> Self {
        let mut request = request("POST", "/api/users/7", "a=1&b=x%20y&b=z&e=&%6eame=n&flag");
        request.authority = request.fields.append(b"Shop.Example.:8443").unwrap();
        request.version = Version::Http2;
        request.body = BodyLength::Known(2048);
        for (name, value) in [
            ("Host", "Shop.Example.:8443"),
            ("X-Mode", "test"),
            ("x-mode", "Trial"),
            ("X-Empty", ""),
            ("X-Number", "42"),
            ("X-Ip", " 192.0.2.9 "),
            ("Cookie", "sid=abc; quoted=\"q\"; sid=def"),
            ("Cookie", "late=1"),
            ("User-Agent", "curl/8.5"),
        ] {
            request.fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        let mut response = ResponseHead::new();
        response.status = 503;
        for (name, value) in [("Server", "origin"), ("X-Cache", "miss"), ("x-cache", "stale")] {
            response.fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        Self {
            request,
            response: Some(response),
            client: "10.1.2.3".parse().unwrap(),
            words: vec![
                (Word::Scheme, "https"),
                (Word::RequestId, "0193-id"),
                (Word::Listener, "web"),
                (Word::TlsVersion, "1.3"),
                (Word::TlsCipher, "TLS_AES_128_GCM_SHA256"),
                (Word::TlsServerName, "shop.example"),
                (Word::TlsResumed, "true"),
                (Word::CertificateSubject, "CN=robot,O=Example"),
                (Word::CertificateNames, "robot.example,spiffe://example/robot"),
                (Word::CertificateFingerprint, "00ff"),
                (Word::Route, "users"),
                (Word::User, "alice"),
                (Word::Variant, "new"),
            ],
            named: BTreeMap::from([
                ("capture id", &b"7"[..]),
                ("claim sub", b"alice"),
                ("claim org/team", b"red"),
                ("claim https://x.example/roles", b"[\"admin\"]"),
                ("note seen", b"yes"),
            ]),
        }
    }

    /// With nothing that may be missing.
    pub(super) fn bare() -> Self {
        Self {
            request: request("GET", "/", ""),
            response: None,
            client: "2001:db8::7".parse().unwrap(),
            words: Vec::new(),
            named: BTreeMap::new(),
        }
    }

    fn named(&self, kind: &str, name: &str) -> Option<Cow<'_, [u8]>> {
        self.named.get(format!("{kind} {name}").as_str()).map(|text| Cow::Borrowed(*text))
    }
}

pub(super) fn request(method: &str, path: &str, query: &str) -> RequestHead {
    let mut head = RequestHead::new();
    head.method = Method::of(method.as_bytes());
    head.method_text = head.fields.append(method.as_bytes()).unwrap();
    head.path = head.fields.append(path.as_bytes()).unwrap();
    head.target = head.path;
    if !query.is_empty() {
        head.fields.append(b"?").unwrap();
        head.query = head.fields.append(query.as_bytes()).unwrap();
        head.target.end = head.query.end;
    }
    head
}

impl Subject for Exchange {
    fn request(&self) -> &RequestHead {
        &self.request
    }
    fn response(&self) -> Option<&ResponseHead> {
        self.response.as_ref()
    }
    fn client(&self) -> IpAddr {
        self.client
    }
    fn peer(&self) -> IpAddr {
        "::ffff:192.0.2.1".parse().unwrap()
    }
    fn port(&self) -> u16 {
        50_000
    }
    fn word(&self, word: Word) -> Option<Cow<'_, [u8]>> {
        let found = self.words.iter().find(|(known, _)| *known == word);
        found.map(|(_, text)| Cow::Borrowed(text.as_bytes()))
    }
    fn capture(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.named("capture", name)
    }
    fn claim(&self, path: &[Box<str>]) -> Option<Cow<'_, [u8]>> {
        self.named("claim", &path.join("/"))
    }
    fn note(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.named("note", name)
    }
    fn unix_ms(&self) -> u64 {
        NOW
    }
}

#[test]
fn lines_that_were_taken_out_are_not_there() {
    let mut exchange = Exchange::full();
    let condition = super::compile("request.header.x-number == '42' || request.header.host");
    assert!(condition.holds(&exchange));
    exchange.request.fields.remove(FieldId::Host);
    exchange.request.fields.remove_named(|name| name == b"X-Number");
    assert!(!condition.holds(&exchange));
}
