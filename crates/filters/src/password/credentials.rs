//! User name and password as a request carries them (RFC 7617, 2).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::Secret;

/// Longer credentials are nobody's, in bytes as encoded.
const MAX_ENCODED: usize = 4096;

/// What a request offers in its field `Authorization`.
#[derive(Debug)]
pub struct Credentials {
    /// The name of the user.
    pub user: String,
    /// The password.
    pub password: Secret,
}

impl Credentials {
    /// Reads the field's value; `None` if it is another scheme or malformed.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (scheme, rest) = value.split_at_checked(5)?;
        let encoded = rest.trim_ascii_start();
        // RFC 9110, 11.1: the scheme's case does not matter, the space behind it has to be there.
        if !scheme.eq_ignore_ascii_case(b"basic")
            || encoded.len() == rest.len()
            || encoded.len() > MAX_ENCODED
        {
            return None;
        }
        let decoded = BASE64_STANDARD.decode(encoded.trim_ascii_end()).ok()?;
        let colon = decoded.iter().position(|byte| *byte == b':')?;
        let (user, password) = decoded.split_at(colon);
        let user = std::str::from_utf8(user).ok()?;
        // RFC 7617, 2: neither may hold control characters.
        let control = |byte: &u8| byte.is_ascii_control();
        if user.is_empty() || decoded.iter().any(control) {
            return None;
        }
        Some(Self { user: user.to_owned(), password: Secret::new(password.get(1..)?) })
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;

    use super::{Credentials, MAX_ENCODED};

    #[test]
    fn reads_user_and_password() {
        let table = [
            ("Basic ZXZhOnB3", Some(("eva", "pw"))),
            ("bASIC   ZXZhOnB3 ", Some(("eva", "pw"))),
            // The first colon counts; a password may be empty or have colons.
            ("Basic ZXZhOmE6Yg==", Some(("eva", "a:b"))),
            ("Basic ZXZhOg==", Some(("eva", ""))),
            ("Basic Wm/DqzpwdyDigqw=", Some(("Zoë", "pw €"))),
            ("Basic OnB3", None),
            ("Basic ZXZh", None),
            ("Basic", None),
            ("Basic ", None),
            ("BasicZXZhOnB3", None),
            ("Bearer ZXZhOnB3", None),
            ("Basic ZXZhOnB3=", None),
            ("Basic ZXZh OnB3", None),
            ("Basic ZXZhOg", None),
            ("Basic /zpwdw==", None),
            ("", None),
        ];
        for (value, wanted) in table {
            let found = Credentials::parse(value.as_bytes());
            let found = found.as_ref().map(|found| {
                (found.user.as_str(), std::str::from_utf8(found.password.expose()).unwrap())
            });
            assert_eq!(found, wanted, "{value}");
        }
    }

    #[test]
    fn what_could_break_a_field_line_is_nobody() {
        for text in ["a\r\nX-Admin: 1:pw", "a\0:pw", "a\tb:pw", "eva:p\nw"] {
            let value = format!("Basic {}", BASE64_STANDARD.encode(text));
            assert!(Credentials::parse(value.as_bytes()).is_none(), "{text:?}");
        }
        let long =
            format!("Basic {}", BASE64_STANDARD.encode(format!("a:{}", "x".repeat(MAX_ENCODED))));
        assert!(Credentials::parse(long.as_bytes()).is_none());
    }

    #[test]
    fn a_password_does_not_show() {
        let found = Credentials::parse(b"Basic ZXZhOnB3").unwrap();
        assert_eq!(format!("{found:?}"), r#"Credentials { user: "eva", password: *** }"#);
    }
}
