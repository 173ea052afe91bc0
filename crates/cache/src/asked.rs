//! What a request says that matters to a cache, found in one pass over its fields.

use sluice_message::{FieldId, Fields, is_plain_name, may_be_read_as};

use crate::steering::{Steering, may_steer};

/// What a request has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked(u16);

/// Something a request may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trait(u16);

/// `Range`.
pub(crate) const RANGE: Trait = Trait(1);
/// `If-None-Match` or `If-Modified-Since`: a cache judges them (RFC 9111, 4.3.2).
pub(crate) const NOVELTY: Trait = Trait(2);
/// `If-Match` or `If-Unmodified-Since`: the origin judges them (RFC 9111, 4.3.2).
pub(crate) const PRECONDITION: Trait = Trait(4);
/// `Cache-Control` or `Pragma`.
pub(crate) const CONTROL: Trait = Trait(8);
/// `Authorization`.
pub(crate) const AUTHORIZATION: Trait = Trait(16);
/// `Cookie`.
pub(crate) const COOKIE: Trait = Trait(32);
/// `Upgrade`.
pub(crate) const UPGRADE: Trait = Trait(64);
/// A field that frameworks let override what the request asks for, and that is not part of the key.
pub(crate) const STEERING: Trait = Trait(128);
/// What proxies say of how the client's request came.
pub(crate) const FORWARDED: Trait = Trait(256);
/// `If-Range`.
pub(crate) const IF_RANGE: Trait = Trait(512);
/// What proxies say, in headers that the gateway passes on from anybody.
pub(crate) const UNVERIFIED: Trait = Trait(1024);

impl Asked {
    /// What these fields say; `keyed` are parts of the key and steer nothing that is not told apart.
    #[inline]
    pub(crate) fn of(fields: &Fields, keyed: &[Box<[u8]>]) -> Self {
        let mut asked = 0;
        for line in fields.lines() {
            asked |= match line.id {
                FieldId::Other => other(fields.slice(line.name), keyed),
                FieldId::Cookie => COOKIE.0,
                FieldId::Upgrade => UPGRADE.0,
                FieldId::Forwarded | FieldId::XForwardedHost | FieldId::XForwardedProto => {
                    FORWARDED.0
                }
                _ => 0,
            };
        }
        if fields.is_ambiguous() {
            asked |= ambiguous(fields, keyed);
        }
        Self(asked)
    }

    /// Whether the cache has nothing to do with it: the origin alone knows what it comes to.
    #[inline]
    pub(crate) const fn passes_by(self) -> bool {
        self.0 & (UPGRADE.0 | PRECONDITION.0 | STEERING.0) != 0
    }

    /// Whether what is fresh may be given as it is: no condition, no range, no word about caches.
    #[inline]
    pub(crate) const fn wants_all(self) -> bool {
        self.0 & (RANGE.0 | NOVELTY.0 | CONTROL.0) == 0
    }

    /// Whether it has any of these.
    #[inline]
    pub(crate) const fn has(self, what: Trait) -> bool {
        self.0 & what.0 != 0
    }
}

/// What a field says that the gateway itself has no use for.
#[inline]
fn other(name: &[u8], keyed: &[Box<[u8]>]) -> u16 {
    let is = |known: &[u8]| may_be_read_as(name, known);
    match name.len() {
        5 if is(b"range") => RANGE.0,
        6 if is(b"pragma") => CONTROL.0,
        8 if is(b"if-match") => PRECONDITION.0,
        8 if is(b"if-range") => IF_RANGE.0,
        13 if is(b"if-none-match") => NOVELTY.0,
        13 if is(b"cache-control") => CONTROL.0,
        13 if is(b"authorization") => AUTHORIZATION.0,
        17 if is(b"if-modified-since") => NOVELTY.0,
        19 if is(b"if-unmodified-since") => PRECONDITION.0,
        _ if may_steer(name) => steering(name, keyed),
        _ => 0,
    }
}

#[cold]
fn steering(name: &[u8], keyed: &[Box<[u8]>]) -> u16 {
    let told_apart = keyed.iter().any(|known| name.eq_ignore_ascii_case(known));
    match Steering::of(name) {
        Steering::No => 0,
        _ if told_apart => 0,
        Steering::Request => STEERING.0,
        Steering::Origin => FORWARDED.0 | UNVERIFIED.0,
        Steering::Client => UNVERIFIED.0,
    }
}

/// What headers say whose names origins may take for other ones: whether for one that steers or is part of the key.
#[cold]
fn ambiguous(fields: &Fields, keyed: &[Box<[u8]>]) -> u16 {
    let steers = |name: &[u8]| {
        let exact = keyed.iter().any(|known| name.eq_ignore_ascii_case(known));
        let known = Steering::of(name) != Steering::No;
        !exact && (known || keyed.iter().any(|known| may_be_read_as(name, known)))
    };
    let mut names = fields.iter().map(|(name, _)| name).filter(|name| !is_plain_name(name));
    if names.any(steers) { STEERING.0 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_known_by_name() {
        let table = [
            ("Range", RANGE),
            ("If-None-Match", NOVELTY),
            ("IF-MODIFIED-SINCE", NOVELTY),
            ("if-match", PRECONDITION),
            ("If-Unmodified-Since", PRECONDITION),
            ("If-Range", IF_RANGE),
            ("Cache-Control", CONTROL),
            ("Pragma", CONTROL),
            ("Authorization", AUTHORIZATION),
            ("Cookie", COOKIE),
            ("Upgrade", UPGRADE),
            ("X-Original-URL", STEERING),
            ("x-http-method-override", STEERING),
            ("X-Forwarded-Host", FORWARDED),
            ("X-Forwarded-Port", Trait(FORWARDED.0 | UNVERIFIED.0)),
            ("CF-Connecting-IP", UNVERIFIED),
            ("If_Match", PRECONDITION),
            ("Accept", Trait(0)),
            ("X-Request-Id", Trait(0)),
        ];
        for (name, expected) in table {
            let mut fields = Fields::new();
            fields.push(b"host", b"a").unwrap();
            fields.push(name.as_bytes(), b"v").unwrap();
            assert_eq!(Asked::of(&fields, &[]), Asked(expected.0), "{name}");
        }
        let mut fields = Fields::new();
        fields.push(b"X-Host", b"a").unwrap();
        let keyed = Asked::of(&fields, &[(*b"x-host").into()]);
        assert!(!keyed.has(STEERING), "part of the key");
        assert!(Asked::of(&fields, &[]).has(STEERING));
        for (name, steers) in
            [("x_host", true), ("device_id", false), ("a_b", true), ("c_d", false)]
        {
            let mut fields = Fields::new();
            fields.push(name.as_bytes(), b"a").unwrap();
            *fields.lines_mut().1 = true;
            let keyed = [(*b"a-b").into(), (*b"c_d").into()];
            assert_eq!(Asked::of(&fields, &keyed).has(STEERING), steers, "{name}");
        }
    }
}
