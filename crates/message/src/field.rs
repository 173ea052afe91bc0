//! Field names the gateway itself has to understand.

use crate::may_be_read_as;

/// A field name (RFC 9110, section 5.1) the gateway acts on; every other one is [`FieldId::Other`].
///
/// Names are recognised once, while the head is decoded, so that nothing compares strings later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldId {
    /// A name without meaning to the gateway.
    #[default]
    Other,
    /// A line that was taken out: it is kept in the bytes but never read or sent.
    Removed,
    /// `Host` (RFC 9110, 7.2).
    Host,
    /// `Connection` (RFC 9110, 7.6.1).
    Connection,
    /// `Keep-Alive`, hop-by-hop by custom (RFC 2068, 19.7.1.1).
    KeepAlive,
    /// `Proxy-Connection`, a historic mistake that is never forwarded (RFC 9112, appendix C.2.2).
    ProxyConnection,
    /// `Proxy-Authenticate` (RFC 9110, 11.7.1), meant for the next hop only.
    ProxyAuthenticate,
    /// `Proxy-Authorization` (RFC 9110, 11.7.2), meant for the next hop only.
    ProxyAuthorization,
    /// `TE` (RFC 9110, 10.1.4).
    Te,
    /// `Trailer` (RFC 9110, 6.6.2).
    Trailer,
    /// `Transfer-Encoding` (RFC 9112, 6.1).
    TransferEncoding,
    /// `Upgrade` (RFC 9110, 7.8).
    Upgrade,
    /// `Content-Length` (RFC 9110, 8.6).
    ContentLength,
    /// `Content-Type` (RFC 9110, 8.3).
    ContentType,
    /// `Expect` (RFC 9110, 10.1.1).
    Expect,
    /// `Via` (RFC 9110, 7.6.3).
    Via,
    /// `Forwarded` (RFC 7239).
    Forwarded,
    /// `X-Forwarded-For`.
    XForwardedFor,
    /// `X-Forwarded-Proto`.
    XForwardedProto,
    /// `X-Forwarded-Host`.
    XForwardedHost,
    /// `Cookie` (RFC 6265).
    Cookie,
    /// `Date` (RFC 9110, 6.6.1).
    Date,
    /// `Server` (RFC 9110, 10.2.4).
    Server,
    /// `User-Agent` (RFC 9110, 10.1.5).
    UserAgent,
    /// `Referer` (RFC 9110, 10.1.3).
    Referer,
}

/// Names by length, so that most names are refused by one comparison of lengths.
const KNOWN: &[(&[u8], FieldId)] = &[
    (b"te", FieldId::Te),
    (b"via", FieldId::Via),
    (b"host", FieldId::Host),
    (b"date", FieldId::Date),
    (b"cookie", FieldId::Cookie),
    (b"expect", FieldId::Expect),
    (b"server", FieldId::Server),
    (b"referer", FieldId::Referer),
    (b"trailer", FieldId::Trailer),
    (b"upgrade", FieldId::Upgrade),
    (b"forwarded", FieldId::Forwarded),
    (b"connection", FieldId::Connection),
    (b"keep-alive", FieldId::KeepAlive),
    (b"user-agent", FieldId::UserAgent),
    (b"content-type", FieldId::ContentType),
    (b"content-length", FieldId::ContentLength),
    (b"x-forwarded-for", FieldId::XForwardedFor),
    (b"proxy-connection", FieldId::ProxyConnection),
    (b"x-forwarded-host", FieldId::XForwardedHost),
    (b"transfer-encoding", FieldId::TransferEncoding),
    (b"x-forwarded-proto", FieldId::XForwardedProto),
    (b"proxy-authenticate", FieldId::ProxyAuthenticate),
    (b"proxy-authorization", FieldId::ProxyAuthorization),
];

impl FieldId {
    /// What `name` means to the gateway; names compare without case (RFC 9110, 5.1).
    #[must_use]
    #[inline]
    pub fn of(name: &[u8]) -> Self {
        // One arm per length: `match` on it compiles to a jump, the candidates left are one to four.
        let candidates: &[(&[u8], Self)] = match name.len() {
            2 => range(0, 1),
            3 => range(1, 2),
            4 => range(2, 4),
            6 => range(4, 7),
            7 => range(7, 10),
            9 => range(10, 11),
            10 => range(11, 14),
            12 => range(14, 15),
            14 => range(15, 16),
            15 => range(16, 17),
            16 => range(17, 19),
            17 => range(19, 21),
            18 => range(21, 22),
            19 => range(22, 23),
            _ => return Self::Other,
        };
        candidates
            .iter()
            .find(|(known, _)| name.eq_ignore_ascii_case(known))
            .map_or(Self::Other, |&(_, id)| id)
    }

    /// Whether an origin may take `name` for one that means something to the gateway.
    #[must_use]
    #[cold]
    pub fn may_be_read(name: &[u8]) -> bool {
        KNOWN.iter().any(|(known, _)| may_be_read_as(name, known))
    }

    /// Whether the field belongs to this hop alone and is never forwarded as it stands
    /// (RFC 9110, 7.6.1). `TE`, `Trailer` and `Upgrade` are re-made where the next hop needs them.
    #[must_use]
    #[inline]
    pub const fn is_hop_by_hop(self) -> bool {
        matches!(
            self,
            Self::Removed
                | Self::Connection
                | Self::KeepAlive
                | Self::ProxyConnection
                | Self::ProxyAuthenticate
                | Self::ProxyAuthorization
                | Self::Te
                | Self::TransferEncoding
                | Self::Upgrade
        )
    }
}

#[inline]
fn range(start: usize, end: usize) -> &'static [(&'static [u8], FieldId)] {
    KNOWN.get(start..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_name_is_found_in_any_case() {
        for (name, id) in KNOWN {
            assert_eq!(FieldId::of(name), *id, "{}", String::from_utf8_lossy(name));
            assert_eq!(FieldId::of(&name.to_ascii_uppercase()), *id);
        }
        assert!(KNOWN.is_sorted_by_key(|(name, _)| name.len()), "ranges are by length");
    }

    #[test]
    fn other_names_of_a_known_length_are_other() {
        for name in ["xx", "xxx", "hosx", "cookix", "x-forwarded-fox", "content-lengtx", ""] {
            assert_eq!(FieldId::of(name.as_bytes()), FieldId::Other, "{name}");
        }
    }
}
