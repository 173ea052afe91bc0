//! A file of users and hashes, and the slow question whether a password is right.

use std::collections::HashMap;
use std::fmt;

use super::hash::Hash;

/// Users and the hashes of their passwords.
#[derive(Debug)]
pub struct Users {
    hashes: HashMap<Box<str>, Hash>,
    /// What an unknown user's password is compared with, so that he takes as long as a known one.
    decoy: Option<Hash>,
}

/// What is wrong with a file of users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsersFlaw {
    /// A line is none of a user.
    Line {
        /// Counted from one.
        line: usize,
        /// What is wrong.
        what: String,
    },
}

impl fmt::Display for UsersFlaw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { line, what } => write!(formatter, "line {line}: {what}"),
        }
    }
}

impl Users {
    /// Reads lines `name:hash`; empty ones and those that begin with `#` do not count, nor does what
    /// follows a second colon. Without any user nobody comes in.
    ///
    /// # Errors
    /// [`UsersFlaw`]; it never holds a hash.
    pub fn parse(text: &str) -> Result<Self, UsersFlaw> {
        let mut hashes = HashMap::new();
        let mut decoy = None;
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let flaw = |what: String| UsersFlaw::Line { line: index + 1, what };
            let (name, rest) =
                line.split_once(':').ok_or_else(|| flaw("it is not `name:hash`".to_owned()))?;
            if name.is_empty() || name.chars().any(char::is_control) {
                return Err(flaw(
                    "the name of the user is empty or has control characters".to_owned(),
                ));
            }
            let hash = Hash::parse(rest.split(':').next().unwrap_or_default())
                .map_err(|what| flaw(format!("user `{name}` has {what}")))?;
            decoy.get_or_insert_with(|| hash.clone());
            if hashes.insert(name.into(), hash).is_some() {
                return Err(flaw(format!("user `{name}` is there twice")));
            }
        }
        Ok(Self { hashes, decoy })
    }

    /// Whether `user` has this password. Takes a tenth of a second and more, whoever asks.
    #[must_use]
    pub fn verify(&self, user: &str, password: &[u8]) -> bool {
        let hash = self.hashes.get(user);
        let right = hash.or(self.decoy.as_ref()).is_some_and(|hash| hash.verify(password));
        right && hash.is_some()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::Users;

    // "pw" with the lowest cost there is, in the spelling of three tools, and as argon2id.
    fn bcrypt(password: &str, version: &str) -> String {
        let hash = bcrypt::hash(password, 4).unwrap();
        format!("$2{version}{}", &hash[3..])
    }

    fn argon2id(password: &str) -> String {
        use argon2::{Algorithm, Argon2, Params, PasswordHasher as _, Version};
        let params = Params::new(64, 1, 1, None).unwrap();
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let hash =
            argon2.hash_password_with_salt(password.as_bytes(), b"0123456789abcdef").unwrap();
        hash.to_string()
    }

    #[test]
    fn passwords_are_right_or_wrong() {
        let text = format!(
            "# people\n\neva:{}\nbob:{}:comment\r\n zoë:{}\nada:{}\n",
            bcrypt("pw", "a"),
            bcrypt("pw", "y"),
            argon2id("pw"),
            bcrypt("", "b"),
        );
        let users = Users::parse(&text).unwrap();
        assert_eq!((users.len(), users.is_empty()), (4, false));
        for user in ["eva", "bob", "zoë"] {
            assert!(users.verify(user, b"pw"), "{user}");
            for wrong in [&b""[..], b"pW", b"pw ", b"pw\0", b"\xff"] {
                assert!(!users.verify(user, wrong), "{user} {wrong:?}");
            }
        }
        assert!(users.verify("ada", b""));
        // The decoy's password is right for nobody but its owner.
        for nobody in ["mallory", "", "Eva", "eva ", "eva\0"] {
            assert!(!users.verify(nobody, b"pw"), "{nobody}");
        }
    }

    #[test]
    fn says_what_is_wrong_without_showing_a_hash() {
        let hash = bcrypt("pw", "b");
        let table = [
            ("eva".to_owned(), "it is not `name:hash`"),
            (format!(":{hash}"), "the name of the user is empty"),
            (format!("e\tva:{hash}"), "control characters"),
            ("eva:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=".to_owned(), "`htpasswd -B`"),
            ("eva:$apr1$x$y".to_owned(), "`htpasswd -B`"),
            ("eva:secret".to_owned(), "`htpasswd -B`"),
            (format!("eva:$2x{}", &hash[3..]), "begins with $2a$"),
            (format!("eva:{}", &hash[..50]), "a broken bcrypt hash"),
            (format!("eva:{}", hash.replace("$04$", "$31$")), "of cost 31"),
            ("eva:$argon2id$v=19$m=64".to_owned(), "a broken argon2id hash"),
            ("eva:$argon2i$v=19$m=64,t=1,p=1$MDEyMzQ1Njc$aaaa".to_owned(), "no argon2id"),
            (format!("eva:{}", argon2id("pw").replace("m=64", "m=4000000")), "asks for more than"),
            (format!("eva:{hash}\neva:{hash}"), "is there twice"),
        ];
        for (text, wanted) in table {
            let flaw = Users::parse(&text).unwrap_err().to_string();
            assert!(flaw.contains(wanted), "{flaw}");
            assert!(!flaw.contains(&hash[29..]) && !flaw.contains("W6ph5"), "{flaw}");
        }
        let nobody = Users::parse("# nobody\n").unwrap();
        assert!(nobody.is_empty() && !nobody.verify("", b"") && !nobody.verify("eva", b"pw"));
        let users = Users::parse(&format!("eva:{hash}")).unwrap();
        assert!(!format!("{users:?}").contains(&hash[7..]));
    }
}
