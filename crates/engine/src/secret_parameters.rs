//! Parameters of queries that hold secrets, such as keys and tokens: what is logged has their values masked.

use sluice_message::RequestHead;
use sluice_message::pair::decoded;

/// What stands for a secret.
const MASK: &[u8] = b"***";

/// Headers that repeat the target of this or another request.
const TARGETS: [&[u8]; 5] =
    [b"referer", b"x-forwarded-uri", b"x-original-uri", b"x-original-url", b"x-rewrite-url"];

/// Names of parameters whose values are secrets, as filters declare them. Of all filters together: a request that no
/// route is for, or another one, may bring the key all the same.
#[derive(Clone, Debug, Default)]
pub struct SecretParameters(Box<[Box<[u8]>]>);

impl SecretParameters {
    /// Parameters of these names, as they are when decoded.
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = Box<[u8]>>) -> Self {
        Self(names.into_iter().collect())
    }

    /// The head as it may be logged, where it holds a secret.
    pub(crate) fn masked(&self, head: &RequestHead) -> Option<RequestHead> {
        if self.0.is_empty() {
            return None;
        }
        let target = self.mask(head.target());
        let repeated = TARGETS.into_iter().flat_map(|name| {
            head.fields.values_of(name).filter_map(move |value| Some((name, self.mask(value)?)))
        });
        let repeated: Vec<(&[u8], Vec<u8>)> = repeated.collect();
        if target.is_none() && repeated.is_empty() {
            return None;
        }
        let mut masked = RequestHead::new();
        masked.copy_from(head);
        if let Some(target) = target {
            let query =
                target.iter().position(|byte| *byte == b'?').map_or(target.len(), |at| at + 1);
            // Without room nothing of it is logged.
            masked.target = masked.fields.append(&target).unwrap_or_default();
            let query = target.get(query..).unwrap_or_default();
            masked.query = masked.fields.append(query).unwrap_or_default();
        }
        for (name, _) in &repeated {
            masked.fields.remove_named(|known| known.eq_ignore_ascii_case(name));
        }
        for (name, value) in &repeated {
            let _ = masked.fields.push(name, value);
        }
        Some(masked)
    }

    /// A target with its secrets masked, if it has any.
    fn mask(&self, target: &[u8]) -> Option<Vec<u8>> {
        let start = target.iter().position(|byte| *byte == b'?')? + 1;
        let (before, query) = target.split_at_checked(start)?;
        let end = query.iter().position(|byte| *byte == b'#').unwrap_or(query.len());
        let (query, fragment) = query.split_at_checked(end)?;
        let mut found = false;
        let mut out = before.to_vec();
        for (place, pair) in query.split(|byte| *byte == b'&').enumerate() {
            if place > 0 {
                out.push(b'&');
            }
            let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
            let secret = name.len() < pair.len()
                && self.0.iter().any(|known| decoded(name).eq(known.iter().copied()));
            found |= secret;
            match secret {
                true => out.extend([name, b"=", MASK].concat()),
                false => out.extend_from_slice(pair),
            }
        }
        out.extend_from_slice(fragment);
        found.then_some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> SecretParameters {
        SecretParameters::new([(*b"api key").into(), (*b"token").into()])
    }

    #[test]
    fn values_of_secrets_are_masked_and_nothing_else_is() {
        let rows = [
            ("/a", None),
            ("/a?x=1", None),
            ("/token=1?x=token", None),
            ("/a?token", None),
            ("/a?tokens=1&Token=2", None),
            ("/a?token=s3cret", Some("/a?token=***")),
            ("/a?token=", Some("/a?token=***")),
            ("/a?x=1&token=s3cret&y=%20", Some("/a?x=1&token=***&y=%20")),
            ("/a?token=one&token=two", Some("/a?token=***&token=***")),
            ("/a?%74oken=s3cret", Some("/a?%74oken=***")),
            ("/a?api+key=s3cret&api%20key=2", Some("/a?api+key=***&api%20key=***")),
            ("/a?token=a=b?c=d", Some("/a?token=***")),
            ("https://a.example/?token=s3cret#top", Some("https://a.example/?token=***#top")),
        ];
        for (target, expected) in rows {
            let masked = secrets().mask(target.as_bytes()).map(|it| String::from_utf8(it).unwrap());
            assert_eq!(masked.as_deref(), expected, "{target}");
        }
    }

    #[test]
    fn a_head_is_copied_only_if_it_holds_a_secret() {
        let head = |target: &str, referer: &str| {
            let mut head = RequestHead::new();
            head.target = head.fields.append(target.as_bytes()).unwrap();
            let query = target.split_once('?').map_or("", |(_, query)| query);
            head.query = head.fields.append(query.as_bytes()).unwrap();
            head.fields.push(b"Referer", referer.as_bytes()).unwrap();
            head
        };
        assert!(secrets().masked(&head("/a?x=1", "http://a/?y=2")).is_none());
        assert!(SecretParameters::default().masked(&head("/a?token=1", "")).is_none());
        let masked = secrets().masked(&head("/a?token=s3cret", "http://a/?token=s3cret")).unwrap();
        assert_eq!((masked.target(), masked.query()), (&b"/a?token=***"[..], &b"token=***"[..]));
        let referer: Vec<&[u8]> = masked.fields.values_of(b"referer").collect();
        assert_eq!(referer, [b"http://a/?token=***"]);
        let masked = secrets().masked(&head("/a?x=1", "http://a/?token=s3cret")).unwrap();
        assert_eq!(masked.target(), b"/a?x=1");
    }
}
