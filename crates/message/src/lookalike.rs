//! Header names that differ and still mean the same header to some origins.
//!
//! CGI (RFC 3875, 4.1.18), WSGI, Rack, PHP and their kin hand headers to programs as variables: `X-User` becomes
//! `HTTP_X_USER`. `X_User` and `X.User` become the same variable on many of them. Whoever sets, removes or trusts a
//! header has to mean all of these names, else a client speaks under one of the others.

/// Whether every byte of a name is a letter, a digit or a hyphen, so that it is its own and only meaning.
#[must_use]
pub fn is_plain_name(name: &[u8]) -> bool {
    name.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Whether an origin may take a header called `name` for `known`: letters compare without case (RFC 9110, 5.1), and
/// every byte that is neither a letter nor a digit counts for every other one.
#[must_use]
#[inline]
pub fn may_be_read_as(name: &[u8], known: &[u8]) -> bool {
    name.len() == known.len()
        && name.iter().zip(known).all(|(one, other)| one == other || folded(*one) == folded(*other))
}

/// Whether an origin may take the beginning of `name` for `prefix`; see [`may_be_read_as`].
#[must_use]
pub fn may_begin_with(name: &[u8], prefix: &[u8]) -> bool {
    name.get(..prefix.len()).is_some_and(|start| may_be_read_as(start, prefix))
}

/// A byte of a name as variables of CGI have it, in lower case.
const fn folded(byte: u8) -> u8 {
    if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'_' }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_alike_but_for_case_and_what_is_no_letter() {
        for (name, known, alike) in [
            ("x-user", "X-User", true),
            ("X_User", "x-user", true),
            ("x.user", "X_USER", true),
            ("x~user", "x-user", true),
            ("x-users", "x-user", false),
            ("xuser", "x-user", false),
            ("x-uses", "x-user", false),
            ("x1user", "x-user", false),
            ("", "", true),
        ] {
            let (name, known) = (name.as_bytes(), known.as_bytes());
            assert_eq!(may_be_read_as(name, known), alike, "{}", name.escape_ascii());
            assert_eq!(may_be_read_as(known, name), alike, "{}", name.escape_ascii());
        }
        assert!(
            may_begin_with(b"X_Auth.User", b"x-auth-") && !may_begin_with(b"x-aut", b"x-auth-")
        );
    }

    #[test]
    fn plain_names_hold_letters_digits_and_hyphens() {
        assert!(is_plain_name(b"Sec-CH-UA-Platform-2") && is_plain_name(b""));
        for byte in b"!#$%&'*+.^_`|~" {
            assert!(!is_plain_name(&[b'x', *byte, b'y']), "{}", byte.escape_ascii());
        }
    }
}
