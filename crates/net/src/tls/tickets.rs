//! Session tickets: what a client brings back to be known again.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::{digest, rand};
use rustls::server::ProducesTickets;

/// Bytes of a key.
const KEY: usize = 32;

/// A ticket begins with the name of its key.
const NAME: usize = 16;

/// Behind the name stands what makes the encryption of each ticket another one.
const NONCE: usize = 12;

/// Seconds a ticket is good for, as far as the clients are told.
const LIFETIME: u32 = 12 * 60 * 60;

/// The keys of tickets, from a file that several machines share. The first one encrypts, all of them
/// decrypt.
pub struct TicketKeys(RwLock<Arc<Vec<Key>>>);

impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whoever knows the keys can read what was recorded.
        f.debug_struct("TicketKeys").finish_non_exhaustive()
    }
}

struct Key {
    name: [u8; NAME],
    key: LessSafeKey,
}

impl TicketKeys {
    /// From a text with a key in each line: 64 hexadecimal digits, as `openssl rand -hex 32` writes
    /// them. Empty lines and those that begin with `#` count for nothing.
    ///
    /// # Errors
    /// No key, or which line is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(Self(RwLock::new(Arc::new(parse(text)?))))
    }

    /// Goes on with the keys of another one.
    pub fn take_over(&self, other: &Self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = other.keys();
    }

    fn keys(&self) -> Arc<Vec<Key>> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn parse(text: &str) -> Result<Vec<Key>, String> {
    let mut keys = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let key = hex(line).and_then(|bytes| Key::new(&bytes));
        keys.push(key.ok_or_else(|| {
            let line = at + 1;
            format!("line {line} is no key; `openssl rand -hex 32` makes one (64 digits)")
        })?);
    }
    match keys.is_empty() {
        true => Err("there is no key in it; `openssl rand -hex 32` makes one".to_owned()),
        false => Ok(keys),
    }
}

fn hex(line: &str) -> Option<[u8; KEY]> {
    let mut bytes = [0; KEY];
    let pairs = line.as_bytes().chunks_exact(2);
    if line.len() != 2 * KEY {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        let digit = |at: usize| char::from(*pair.get(at)?).to_digit(16);
        *byte = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
    }
    Some(bytes)
}

impl Key {
    fn new(bytes: &[u8; KEY]) -> Option<Self> {
        let digest = digest::digest(&digest::SHA256, bytes);
        let name = *digest.as_ref().first_chunk::<NAME>()?;
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, bytes).ok()?);
        Some(Self { name, key })
    }
}

/// The keys of one server. A ticket is of no use to a server that asks clients for other certificates:
/// who was known to the one would be taken for known by the other.
pub(crate) struct Tickets {
    keys: Arc<TicketKeys>,
    bound_to: Vec<u8>,
}

impl Tickets {
    pub(crate) fn new(keys: &Arc<TicketKeys>, bound_to: &[u8]) -> Self {
        let bound_to = digest::digest(&digest::SHA256, bound_to).as_ref().to_vec();
        Self { keys: Arc::clone(keys), bound_to }
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets").finish_non_exhaustive()
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let keys = self.keys.keys();
        let key = keys.first()?;
        let mut nonce = [0; NONCE];
        rand::fill(&mut nonce).ok()?;
        let mut body = plain.to_vec();
        let sealed = Nonce::assume_unique_for_key(nonce);
        key.key.seal_in_place_append_tag(sealed, Aad::from(&self.bound_to), &mut body).ok()?;
        Some([&key.name[..], &nonce, &body].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME>()?;
        let (nonce, body) = rest.split_first_chunk::<NONCE>()?;
        let keys = self.keys.keys();
        let key = keys.iter().find(|key| key.name == *name)?;
        let mut body = body.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = key.key.open_in_place(nonce, Aad::from(&self.bound_to), &mut body).ok()?;
        Some(plain.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Arc<TicketKeys> {
        Arc::new(TicketKeys::parse(text).unwrap())
    }

    #[test]
    fn all_machines_with_the_file_know_a_ticket_and_old_keys_still_open() {
        let (old, new) = ("0a".repeat(32), "0B".repeat(32));
        let one = Tickets::new(&keys(&old), b"");
        let ticket = one.encrypt(b"who it was").unwrap();
        assert!(!ticket.windows(3).any(|it| it == b"who"));
        let other = Tickets::new(&keys(&format!("# new\n{new}\n\n {old}\n")), b"");
        assert_eq!(other.decrypt(&ticket).unwrap(), b"who it was");
        let newer = other.encrypt(b"who it was").unwrap();
        assert_eq!(one.decrypt(&newer), None, "the first key of the file encrypts");
        one.keys.take_over(&keys(&new));
        assert_eq!(one.decrypt(&newer).unwrap(), b"who it was");
        assert_eq!(one.decrypt(&ticket), None, "the old key is gone");
    }

    #[test]
    fn a_ticket_is_good_only_where_the_same_is_asked_of_clients() {
        let keys = keys(&"01".repeat(32));
        let ticket = Tickets::new(&keys, b"nobody").encrypt(b"x").unwrap();
        assert_eq!(Tickets::new(&keys, b"required").decrypt(&ticket), None);
        assert!(Tickets::new(&keys, b"nobody").decrypt(&ticket).is_some());
    }

    #[test]
    fn whatever_a_client_brings_is_no_ticket() {
        let tickets = Tickets::new(&keys(&"01".repeat(32)), b"");
        let ticket = tickets.encrypt(b"x").unwrap();
        for length in 0..ticket.len() {
            assert_eq!(tickets.decrypt(&ticket[..length]), None, "{length}");
        }
        for at in 0..ticket.len() {
            let mut forged = ticket.clone();
            forged[at] ^= 1;
            assert_eq!(tickets.decrypt(&forged), None, "{at}");
        }
    }

    #[test]
    fn what_is_no_key_is_told_with_its_line() {
        for (text, part) in [
            ("", "no key in it"),
            ("# nothing\n", "no key in it"),
            ("\nabc\n", "line 2 is no key"),
            (&"0g".repeat(32), "line 1 is no key"),
            (&"é".repeat(32), "line 1 is no key"),
            (&"00".repeat(33), "line 1 is no key"),
        ] {
            let said = TicketKeys::parse(text).unwrap_err();
            assert!(said.contains(part), "{said}");
        }
    }
}
