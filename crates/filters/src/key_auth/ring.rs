//! Keys and whose they are, asked without telling how much of a guess is right.

use std::collections::HashMap;
use std::fmt;

use aws_lc_rs::{hmac, rand};

use crate::Secret;

/// Keys and whose they are.
///
/// They are found by a hash with a key that nobody knows: how long that takes says nothing about the keys, however
/// many there are.
pub struct KeyRing {
    hash: hmac::Key,
    owners: HashMap<Box<[u8]>, Box<str>>,
}

/// What is wrong with keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyRingFlaw {
    /// The key of this one is empty.
    Empty(String),
    /// These two have the same key.
    Same(String, String),
    /// The name cannot stand in a field line.
    Name(String),
    /// A line, counted from one, is not `name:key`.
    Line(usize),
    /// The system has no random bytes.
    Random,
}

impl fmt::Display for KeyRingFlaw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty(name) => write!(formatter, "the key of `{name}` is empty"),
            Self::Same(one, other) => write!(formatter, "`{one}` and `{other}` have the same key"),
            Self::Name(name) => write!(formatter, "`{}` is no name", name.escape_debug()),
            Self::Line(line) => write!(formatter, "line {line} is not `name:key`"),
            Self::Random => formatter.write_str("the system has no random bytes"),
        }
    }
}

impl KeyRing {
    /// Of these names and keys. Without any, every key is a wrong one.
    ///
    /// # Errors
    /// [`KeyRingFlaw`]; it never holds a key.
    pub fn new(keys: impl IntoIterator<Item = (String, Secret)>) -> Result<Self, KeyRingFlaw> {
        let mut seed = [0; 32];
        rand::fill(&mut seed).map_err(|_| KeyRingFlaw::Random)?;
        let hash = hmac::Key::new(hmac::HMAC_SHA256, &seed);
        let mut owners: HashMap<Box<[u8]>, Box<str>> = HashMap::new();
        for (name, key) in keys {
            if name.trim().is_empty() || name.trim() != name || name.chars().any(char::is_control) {
                return Err(KeyRingFlaw::Name(name));
            }
            if key.is_empty() {
                return Err(KeyRingFlaw::Empty(name));
            }
            let tag = hmac::sign(&hash, key.expose());
            if let Some(other) = owners.insert(tag.as_ref().into(), name.as_str().into()) {
                return Err(KeyRingFlaw::Same(other.into(), name));
            }
        }
        Ok(Self { hash, owners })
    }

    /// Names and keys of a file: lines `name:key`, empty ones and those that begin with `#` left out.
    ///
    /// # Errors
    /// [`KeyRingFlaw::Line`]
    pub fn lines(text: &str) -> Result<Vec<(String, Secret)>, KeyRingFlaw> {
        let mut keys = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, key) = line.split_once(':').ok_or(KeyRingFlaw::Line(index + 1))?;
            keys.push((name.trim().to_owned(), Secret::new(key.trim())));
        }
        Ok(keys)
    }

    /// Whose key this is.
    #[must_use]
    pub fn owner(&self, key: &[u8]) -> Option<&str> {
        self.owners.get(hmac::sign(&self.hash, key).as_ref()).map(|name| &**name)
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "KeyRing({} keys)", self.owners.len())
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyRing, KeyRingFlaw};

    fn ring(text: &str) -> Result<KeyRing, KeyRingFlaw> {
        KeyRing::new(KeyRing::lines(text)?)
    }

    #[test]
    fn finds_the_owner_of_a_key() {
        let ring = ring("# keys\n\nreports: a:b \nshop:secret\n").unwrap();
        assert_eq!(ring.owner(b"a:b"), Some("reports"));
        assert_eq!(ring.owner(b"secret"), Some("shop"));
        for wrong in ["", "a", "a:b ", "Secret", "secret\0", "reports"] {
            assert_eq!(ring.owner(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(format!("{ring:?}"), "KeyRing(2 keys)");
        let none = super::KeyRing::new([]).unwrap();
        for key in ["", "a:b", "secret"] {
            assert_eq!(none.owner(key.as_bytes()), None, "{key}");
        }
    }

    #[test]
    fn says_what_is_wrong_without_a_key() {
        let table = [
            ("a:1\nsecret", KeyRingFlaw::Line(2)),
            ("a:", KeyRingFlaw::Empty("a".to_owned())),
            ("a:1\nb:1", KeyRingFlaw::Same("a".to_owned(), "b".to_owned())),
            (":1", KeyRingFlaw::Name(String::new())),
            ("a\tb:1", KeyRingFlaw::Name("a\tb".to_owned())),
        ];
        for (text, wanted) in table {
            assert_eq!(ring(text).unwrap_err(), wanted, "{text}");
        }
    }
}
