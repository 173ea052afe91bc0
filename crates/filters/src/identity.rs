//! What filters that find out who a client is have in common: where it goes, and how they refuse.

use sluice_filter::{Reply, RequestContext, Verdict};
use sluice_message::{FieldId, Fields, Span};

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

/// Takes out every line that an origin may read as `name`, so that nobody else speaks under it.
pub(crate) fn strip(fields: &mut Fields, name: &[u8]) {
    fields.remove_read_as(name);
}

#[inline]
fn span_length(span: Span) -> usize {
    span.range().len()
}

/// The value of the one line of this name. Of several, client and origin may mean different ones.
pub(crate) fn only_value<'f>(fields: &'f Fields, name: &[u8]) -> Result<Option<&'f [u8]>, ()> {
    let mut found = None;
    for line in fields.lines() {
        let meant = span_length(line.name) == name.len()
            && line.id != FieldId::Removed
            && is_named(fields.slice(line.name), name);
        if meant && found.replace(line.value).is_some() {
            return Err(());
        }
    }
    Ok(found.map(|value| fields.slice(value)))
}

/// Whether two names of the same length are the same but for the case of letters: eight bytes at a time, as far
/// as that tells them apart.
#[inline]
fn is_named(have: &[u8], name: &[u8]) -> bool {
    const CASE: u64 = 0x2020_2020_2020_2020;
    let fold = |word: &[u8; 8]| u64::from_le_bytes(*word) | CASE;
    let ends = |text: &[u8]| Some((fold(text.first_chunk()?), fold(text.last_chunk()?)));
    let (Some(one), Some(other)) = (ends(have), ends(name)) else {
        return have.eq_ignore_ascii_case(name);
    };
    if one != other {
        return false;
    }
    // Up to 16 bytes that was all. Of the bytes that can stand in a name only `^` and `~` are told apart by the
    // bit of the case without being letters.
    let doubtful = name.len() > 16 || has_tilde(one.0) || has_tilde(one.1);
    !doubtful || have.eq_ignore_ascii_case(name)
}

/// Whether one of the bytes is `~`.
#[inline]
const fn has_tilde(word: u64) -> bool {
    let zero_where = word ^ 0x7e7e_7e7e_7e7e_7e7e;
    zero_where.wrapping_sub(0x0101_0101_0101_0101) & !zero_where & 0x8080_8080_8080_8080 != 0
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
        for name in ["x-user", "X_User", "X-USER", "x.user", "x-users", "x-use"] {
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
    fn names_compare_without_case() {
        for (have, name, wanted) in [
            ("Authorization", "authorization", true),
            ("authorizatioN", "authorization", true),
            ("authorizatiom", "authorization", false),
            ("auth", "AUTH", true),
            ("autj", "auth", false),
            ("x-very-long-name-of-a-field", "X-Very-Long-Name-Of-A-Field", true),
            ("x-very-long-nbme-of-a-field", "X-Very-Long-Name-Of-A-Field", false),
            ("x-name-with-^a", "x-name-with-~a", false),
        ] {
            let mut fields = Fields::new();
            fields.push(have.as_bytes(), b"1").unwrap();
            let found = only_value(&fields, name.as_bytes()).unwrap().is_some();
            assert_eq!(found, wanted, "{have} {name}");
            fields.remove_named(|_| true);
            assert_eq!(only_value(&fields, name.as_bytes()), Ok(None), "taken out");
        }
    }

    #[test]
    fn quotes_are_escaped() {
        assert_eq!(quoted(r#"a "b" \c"#), r#""a \"b\" \\c""#);
    }
}
