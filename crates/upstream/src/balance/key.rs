//! What of a request is hashed.

use std::net::IpAddr;

use sluice_message::pair::{cookies, decoded, query_pairs};

use crate::scatter::hash;
use crate::{Ask, HashKey};

/// The hash of what is asked for; `None` if the request has nothing of that kind.
pub(super) fn key_of(ask: &Ask<'_>, key: &HashKey) -> Option<u64> {
    match key {
        HashKey::Client => Some(match ask.client.to_canonical() {
            IpAddr::V4(address) => hash(address.octets()),
            IpAddr::V6(address) => hash(address.octets()),
        }),
        HashKey::Path => Some(hash(ask.head.path().iter().copied())),
        HashKey::Header(name) => {
            let value = ask.head.fields.values_of(name).find(|value| !value.is_empty())?;
            Some(hash(value.iter().copied()))
        }
        HashKey::Cookie(name) => {
            let value = cookies(ask.head, name).find(|value| !value.is_empty())?;
            Some(hash(value.iter().copied()))
        }
        HashKey::Query(name) => {
            let named = |have: &[u8]| decoded(have).eq(name.iter().copied());
            let mut pairs = query_pairs(ask.head.query());
            let value = pairs.find(|(have, value)| named(have) && !value.is_empty())?.1;
            Some(hash(decoded(value)))
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_message::RequestHead;

    use super::*;

    fn of(key: &HashKey, head: &RequestHead, client: &str) -> Option<u64> {
        key_of(&Ask { head, client: client.parse().unwrap(), avoid: &[] }, key)
    }

    fn head(lines: &[(&str, &str)], path: &str, query: &str) -> RequestHead {
        let mut head = RequestHead::new();
        head.path = head.fields.append(path.as_bytes()).unwrap();
        head.query = head.fields.append(query.as_bytes()).unwrap();
        for (name, value) in lines {
            head.fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        head
    }

    #[test]
    fn each_key_reads_its_own_part() {
        let full = head(&[("X-Tenant", "acme"), ("Cookie", "a=1; sid=\"s\"")], "/p", "q=7&u=a%20b");
        let text = |text: &str| Some(hash(text.bytes()));
        let rows = [
            (HashKey::Path, text("/p")),
            (HashKey::Header(b"x-tenant"[..].into()), text("acme")),
            (HashKey::Cookie(b"sid"[..].into()), text("s")),
            (HashKey::Query(b"q"[..].into()), text("7")),
            (HashKey::Query(b"u"[..].into()), text("a b")),
            (HashKey::Client, Some(hash([10, 0, 0, 1]))),
        ];
        for (key, expected) in &rows {
            assert_eq!(of(key, &full, "10.0.0.1"), *expected, "{key:?}");
        }
        assert_eq!(of(&HashKey::Client, &full, "::ffff:10.0.0.1"), rows[5].1, "the same client");
    }

    #[test]
    fn what_is_not_there_has_no_hash() {
        let bare = head(&[("X-Tenant", ""), ("Cookie", "sid=; b=1")], "/", "q=&r");
        for key in [
            HashKey::Header(b"x-tenant"[..].into()),
            HashKey::Header(b"x-other"[..].into()),
            HashKey::Cookie(b"sid"[..].into()),
            HashKey::Query(b"q"[..].into()),
            HashKey::Query(b"r"[..].into()),
        ] {
            assert_eq!(of(&key, &bare, "10.0.0.1"), None, "{key:?}");
        }
    }
}
