//! What filters that find out who a client is have in common: where it goes, and how they refuse.

use sluice_filter::{Reply, RequestContext, Verdict};
use sluice_message::Fields;

/// What becomes of a request without credentials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// It is refused.
    #[default]
    Refused,
    /// It goes on as nobody's.
    Passed,
}

/// What becomes of the credentials of a request that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hiding {
    /// The origin gets them.
    Shown,
    /// They are taken out.
    Hidden,
}

/// Takes out every line that an origin may read as `name`, so that nobody else speaks under it: an
/// underscore counts for a hyphen, as many origins read both as one.
pub(crate) fn strip(fields: &mut Fields, name: &[u8]) {
    fields.remove_named(|have| is_read_as(have, name));
}

#[inline]
fn is_read_as(have: &[u8], name: &[u8]) -> bool {
    let same = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    have.len() == name.len() && have.iter().map(same).eq(name.iter().map(same))
}

/// The value of the one line of this name. Of several, client and origin may mean different ones.
pub(crate) fn only_value<'f>(fields: &'f Fields, name: &'f [u8]) -> Result<Option<&'f [u8]>, ()> {
    let mut values = fields.values_of(name);
    let first = values.next();
    if values.next().is_some() { Err(()) } else { Ok(first) }
}

/// The client is `user`: for other filters, for the log, and for the origin under `name`.
pub(crate) fn accept(
    context: &mut RequestContext<'_>,
    user: &[u8],
    name: Option<&[u8]>,
) -> Verdict {
    context.notes.set_user(user);
    match name.map(|name| context.request.fields.push(name, user)) {
        Some(Err(_)) => too_large(),
        _ => Verdict::Continue,
    }
}

/// There is no room for what the origin has to be told.
pub(crate) fn too_large() -> Verdict {
    Verdict::refuse(431, "header too large")
}

/// Asks for credentials (RFC 9110, 15.5.2).
pub(crate) fn challenge(scheme: &[u8], reason: &'static str) -> Verdict {
    let reply = Reply::refusal(401, reason).with_field(b"www-authenticate", scheme);
    match reply {
        Ok(reply) => Verdict::Respond(Box::new(reply)),
        // The challenge is of the configuration and short.
        Err(_) => Verdict::refuse(401, reason),
    }
}

/// A text inside quotes of a challenge (RFC 9110, 5.6.4).
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        if matches!(letter, '"' | '\\') {
            out.push('\\');
        }
        out.push(letter);
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use sluice_message::Fields;

    use super::{only_value, quoted, strip};

    #[test]
    fn nobody_else_speaks_under_a_name() {
        let mut fields = Fields::new();
        for name in ["x-user", "X_User", "X-USER", "x-users", "x-use"] {
            fields.push(name.as_bytes(), b"admin").unwrap();
        }
        strip(&mut fields, b"X-User");
        let left: Vec<_> = fields.iter().map(|(name, _)| name.to_vec()).collect();
        assert_eq!(left, [b"x-users".to_vec(), b"x-use".to_vec()]);
    }

    #[test]
    fn two_values_are_none() {
        let mut fields = Fields::new();
        assert_eq!(only_value(&fields, b"a"), Ok(None));
        fields.push(b"A", b"1").unwrap();
        assert_eq!(only_value(&fields, b"a"), Ok(Some(&b"1"[..])));
        fields.push(b"a", b"1").unwrap();
        assert_eq!(only_value(&fields, b"a"), Err(()));
    }

    #[test]
    fn quotes_are_escaped() {
        assert_eq!(quoted(r#"a "b" \c"#), r#""a \"b\" \\c""#);
    }
}
