//! What values are for a subject.

use std::borrow::Cow;
use std::net::IpAddr;

use sluice_message::pair::{cookies, decoded, is_encoded, query_pairs};
use sluice_message::{AddressText, BodyLength, RequestHead, Version};

use crate::decimal::{parse_decimal, push_decimal};
use crate::moment::date;
use crate::share::share;
use crate::subject::{Subject, Word};
use crate::value::{Address, HeadPart, Number, Text};

impl Text {
    /// The text, if it is there; lines of a header are joined.
    pub(crate) fn read<'a, S: Subject + ?Sized>(&'a self, subject: &'a S) -> Option<Cow<'a, [u8]>> {
        match self {
            Self::Literal(text) => Some(Cow::Borrowed(text)),
            Self::Head(part) => part.read(subject.request()),
            Self::Header(name) => one(name.values(&subject.request().fields)),
            Self::ResponseHeader(name) => one(name.values(&subject.response()?.fields)),
            Self::Parameter(name) => parameters(subject.request(), name).next(),
            Self::Cookie(name) => cookies(subject.request(), name).next().map(Cow::Borrowed),
            Self::Capture(name) => subject.capture(name),
            Self::Claim(path) => subject.claim(path),
            Self::Note(name) => subject.note(name),
            Self::Word(word) => subject.word(*word),
            Self::Date => Some(Cow::Owned(date(subject.unix_ms()))),
            Self::Number(number) => {
                let mut digits = Vec::new();
                push_decimal(&mut digits, number.read(subject)?, 0);
                Some(Cow::Owned(digits))
            }
            Self::Address(address) => {
                Some(Cow::Owned(AddressText::new(address.read(subject)?).as_bytes().to_vec()))
            }
            Self::Mapped(mapping, text) => mapping.apply(text.read(subject)?),
            Self::Default(texts) => {
                let [text, instead] = &**texts;
                text.read(subject).or_else(|| instead.read(subject))
            }
        }
    }

    /// Lends the text to `read`, with no memory taken for those that are asked for most.
    #[inline]
    pub(crate) fn lend<S: Subject + ?Sized, R>(
        &self,
        subject: &S,
        read: impl FnOnce(Option<&[u8]>) -> R,
    ) -> R {
        match self {
            Self::Address(address) => {
                let text = address.read(subject).map(AddressText::new);
                read(text.as_ref().map(AddressText::as_bytes))
            }
            Self::Header(name) => {
                let mut values = name.values(&subject.request().fields);
                match (values.next(), values.next()) {
                    (Some(first), Some(second)) => read(Some(&joined(first, second, values))),
                    (only, _) => read(only),
                }
            }
            other => read(other.read(subject).as_deref()),
        }
    }

    /// Whether `holds` holds for one of the texts that this may be at once: lines of a header, cookies and
    /// parameters of one name, names of a certificate.
    pub(crate) fn any<S: Subject + ?Sized>(
        &self,
        subject: &S,
        holds: &mut dyn FnMut(&[u8]) -> bool,
    ) -> bool {
        match self {
            Self::Header(name) => name.any(&subject.request().fields, holds),
            Self::ResponseHeader(name) => {
                subject.response().is_some_and(|head| name.any(&head.fields, holds))
            }
            Self::Parameter(name) => parameters(subject.request(), name).any(|value| holds(&value)),
            Self::Cookie(name) => cookies(subject.request(), name).any(holds),
            Self::Word(Word::CertificateNames) => {
                let names = subject.word(Word::CertificateNames);
                names.is_some_and(|names| {
                    names.split(|&byte| byte == b',').any(|name| holds(name.trim_ascii()))
                })
            }
            Self::Mapped(mapping, text) => text.any(subject, &mut |value| {
                mapping.apply(Cow::Borrowed(value)).is_some_and(|mapped| holds(&mapped))
            }),
            Self::Default(texts) => {
                let [text, instead] = &**texts;
                let mut present = false;
                let held = text.any(subject, &mut |value| {
                    present = true;
                    holds(value)
                });
                held || (!present && instead.any(subject, holds))
            }
            single => single.read(subject).is_some_and(|value| holds(&value)),
        }
    }

    /// Whether the text is there at all.
    pub(crate) fn is_present<S: Subject + ?Sized>(&self, subject: &S) -> bool {
        self.any(subject, &mut |_| true)
    }
}

/// The value of a field, of however many lines.
fn one<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Option<Cow<'a, [u8]>> {
    let first = values.next()?;
    Some(match values.next() {
        None => Cow::Borrowed(first),
        Some(second) => Cow::Owned(joined(first, second, values)),
    })
}

/// Lines of one field as one (RFC 9110, 5.3).
fn joined<'a>(first: &[u8], second: &[u8], others: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut all = [first, second].join(&b", "[..]);
    for value in others {
        all.extend_from_slice(b", ");
        all.extend_from_slice(value);
    }
    all
}

/// The values of this name in the query, decoded.
fn parameters<'a>(
    head: &'a RequestHead,
    name: &'a [u8],
) -> impl Iterator<Item = Cow<'a, [u8]>> + use<'a> {
    let pairs = query_pairs(head.query());
    let named = pairs.filter(move |(have, _)| {
        if is_encoded(have) { decoded(have).eq(name.iter().copied()) } else { *have == name }
    });
    named.map(|(_, value)| {
        if is_encoded(value) { Cow::Owned(decoded(value).collect()) } else { Cow::Borrowed(value) }
    })
}

impl HeadPart {
    /// The text, if it is there.
    #[inline]
    pub(crate) fn read(self, head: &RequestHead) -> Option<Cow<'_, [u8]>> {
        let text = match self {
            Self::Method => head.method_text(),
            Self::Path => head.path(),
            Self::Target => head.target(),
            Self::RawTarget => head.raw_target(),
            Self::Query => head.query(),
            Self::Host => return present(host(head.host())),
            Self::Authority => head.authority(),
            Self::RawPath => head.target().split(|&byte| byte == b'?').next().unwrap_or_default(),
            Self::Search => return search(head),
            Self::Version => match head.version {
                Version::Http10 => b"HTTP/1.0",
                Version::Http11 => b"HTTP/1.1",
                Version::Http2 => b"HTTP/2.0",
            },
        };
        present(Cow::Borrowed(text))
    }
}

/// The query with its question mark.
fn search(head: &RequestHead) -> Option<Cow<'_, [u8]>> {
    let query = head.query();
    (!query.is_empty()).then(|| Cow::Owned([b"?", query].concat()))
}

/// An empty part of a head is one that is not there.
fn present(text: Cow<'_, [u8]>) -> Option<Cow<'_, [u8]>> {
    (!text.is_empty()).then_some(text)
}

/// A host as routes compare it: without case and without the dot of a complete name.
fn host(host: &[u8]) -> Cow<'_, [u8]> {
    let host = host.strip_suffix(b".").unwrap_or(host);
    if host.iter().any(u8::is_ascii_uppercase) {
        Cow::Owned(host.to_ascii_lowercase())
    } else {
        Cow::Borrowed(host)
    }
}

impl Number {
    /// The number, if it is there.
    pub(crate) fn read<S: Subject + ?Sized>(&self, subject: &S) -> Option<u64> {
        match self {
            Self::Literal(value) => Some(*value),
            Self::Size => match subject.request().body {
                BodyLength::Empty => Some(0),
                BodyLength::Known(bytes) => Some(bytes),
                BodyLength::Framed | BodyLength::UntilClose => None,
            },
            Self::Port => Some(u64::from(subject.port())),
            Self::Status => subject.response().map(|head| u64::from(head.status)),
            Self::Time(hand) => Some(hand.at(subject.unix_ms())),
            Self::Length(text) => u64::try_from(text.read(subject)?.len()).ok(),
            Self::Share(text, salt) => Some(u64::from(share(&text.read(subject)?, *salt))),
            Self::Parsed(text) => parse_decimal(text.read(subject)?.trim_ascii()),
        }
    }
}

impl Address {
    /// The address, if it is there. An IPv4 address mapped into IPv6 is an IPv4 address.
    pub(crate) fn read<S: Subject + ?Sized>(&self, subject: &S) -> Option<IpAddr> {
        let address = match self {
            Self::Client => subject.client(),
            Self::Peer => subject.peer(),
            Self::Parsed(text) => {
                let text = text.read(subject)?;
                std::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()?
            }
        };
        Some(address.to_canonical())
    }
}
