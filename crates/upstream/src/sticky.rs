//! Cookies that lead a client back to the server it had.

use std::fmt;
use std::sync::OnceLock;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::{hmac, rand};
use sluice_message::RequestHead;
use sluice_message::pair::cookies;

/// Hexadecimal digits of a token: the whole of HMAC-SHA256.
const DIGITS: usize = 64;
/// Digits by which a token is found; all of them decide whether it is right.
const NAME: usize = 16;

/// How clients are led back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StickyRule {
    /// Name of the cookie.
    pub cookie: Box<[u8]>,
    /// What its values are signed with.
    pub key: SigningKey,
    /// The cluster's name: what was signed for one cluster means nothing to another.
    pub scope: Box<str>,
    /// What follows the value in `Set-Cookie`, from the first semicolon on (RFC 6265, 4.1.1).
    pub attributes: Box<[u8]>,
}

/// A secret that signs cookies. It does not show itself.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey(Box<[u8]>);

impl SigningKey {
    /// This secret.
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        Self(secret.into())
    }

    /// One that was drawn when the process first asked for it and is gone when it ends.
    #[must_use]
    pub fn of_process() -> Self {
        static KEY: OnceLock<[u8; 32]> = OnceLock::new();
        let key = KEY.get_or_init(|| {
            let mut key = [0; 32];
            #[expect(clippy::expect_used, reason = "a key that could be guessed signs nothing")]
            rand::fill(&mut key).expect("the library drew random numbers when it was loaded");
            key
        });
        Self::new(key)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(***)")
    }
}

/// The tokens of all servers of a cluster. They depend on the key, the cluster's name and the servers'
/// addresses alone: all workers agree, and so does the process after a reload.
#[derive(Debug)]
pub(crate) struct StickyTable {
    rule: StickyRule,
    /// By index of the server.
    tokens: Box<[Token]>,
    /// Index of each server, in the order of their tokens.
    order: Box<[usize]>,
}

/// The signature of a server's address: it names the server to those who know the key, tells nothing to
/// those who do not, and nobody else can make one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Token([u8; DIGITS]);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

impl Token {
    fn new(key: &hmac::Key, scope: &str, address: &str) -> Self {
        let mut context = hmac::Context::with_key(key);
        // Neither a name nor an address holds a zero byte, so no two pairs look the same.
        for part in ["sluice sticky", "\0", scope, "\0", address] {
            context.update(part.as_bytes());
        }
        let mut digits = [0; DIGITS];
        let tag = context.sign();
        for (pair, byte) in digits.chunks_exact_mut(2).zip(tag.as_ref()) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        Self(digits)
    }

    fn name(&self) -> &[u8] {
        self.0.get(..NAME).unwrap_or_default()
    }
}

const fn digit(value: u8) -> u8 {
    if value < 10 { b'0' + value } else { b'a' + value - 10 }
}

impl StickyTable {
    /// For servers at these addresses.
    pub(crate) fn new(rule: &StickyRule, addresses: impl Iterator<Item = String>) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &rule.key.0);
        let token = |address: String| Token::new(&key, &rule.scope, &address);
        let tokens: Box<[Token]> = addresses.map(token).collect();
        let mut order: Box<[usize]> = (0..tokens.len()).collect();
        order.sort_by_key(|&index| tokens.get(index));
        Self { rule: rule.clone(), tokens, order }
    }

    /// Index of the server that the request's cookie names. What was not signed by us, and what names a
    /// server that is no more, is as good as nothing.
    pub(crate) fn find(&self, head: &RequestHead) -> Option<usize> {
        cookies(head, &self.rule.cookie).find_map(|value| self.server(value))
    }

    fn server(&self, value: &[u8]) -> Option<usize> {
        let value: &[u8; DIGITS] = value.try_into().ok()?;
        // How long this takes tells something of names only, which the client was told itself.
        let name = |index: usize| self.tokens.get(index).map(Token::name);
        let at = self.order.partition_point(|&index| name(index) < value.get(..NAME));
        let index = *self.order.get(at)?;
        let token = self.tokens.get(index)?;
        verify_slices_are_equal(&token.0, value).ok().map(|()| index)
    }

    /// The value of `Set-Cookie` that names this server.
    pub(crate) fn cookie(&self, index: usize) -> Option<Vec<u8>> {
        let token = self.tokens.get(index)?;
        Some([&self.rule.cookie, &b"="[..], &token.0, &self.rule.attributes].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(secret: &str, cluster: &str, ports: &[u16]) -> StickyTable {
        let rule = StickyRule {
            cookie: b"to"[..].into(),
            key: SigningKey::new(secret.as_bytes()),
            scope: cluster.into(),
            attributes: b"; Path=/"[..].into(),
        };
        StickyTable::new(&rule, ports.iter().map(|port| format!("10.0.0.1:{port}")))
    }

    fn value(table: &StickyTable, index: usize) -> String {
        let cookie = String::from_utf8(table.cookie(index).unwrap()).unwrap();
        let value = cookie.strip_prefix("to=").unwrap().strip_suffix("; Path=/").unwrap();
        value.to_owned()
    }

    fn find(table: &StickyTable, cookies: &str) -> Option<usize> {
        let mut head = RequestHead::new();
        head.fields.push(b"cookie", cookies.as_bytes()).unwrap();
        table.find(&head)
    }

    #[test]
    fn each_server_is_found_by_its_cookie_after_the_list_has_changed() {
        let before = table("secret", "api", &[1, 2, 3]);
        let after = table("secret", "api", &[9, 3, 7, 1]);
        for (old, new) in [(0, Some(3)), (1, None), (2, Some(1))] {
            let value = value(&before, old);
            assert_eq!(find(&before, &format!("to={value}")), Some(old));
            assert_eq!(find(&after, &format!("a=b; to=\"{value}\"; to=x")), new);
            assert!(!value.contains(':'), "{value}");
        }
    }

    #[test]
    fn what_others_signed_leads_nowhere() {
        let own = table("secret", "api", &[1, 2]);
        for other in [table("secrets", "api", &[1, 2]), table("secret", "apis", &[1, 2])] {
            assert_eq!(find(&own, &format!("to={}", value(&other, 0))), None);
        }
        assert_eq!(find(&own, &format!("too={}", value(&own, 0))), None);
    }

    #[test]
    fn every_digit_counts() {
        let own = table("secret", "api", &[1, 2]);
        let right = value(&own, 1);
        for at in 0..right.len() {
            let mut forged = right.clone().into_bytes();
            forged[at] = if forged[at] == b'0' { b'1' } else { b'0' };
            let forged = String::from_utf8(forged).unwrap();
            assert_eq!(find(&own, &format!("to={forged}")), None, "{at}");
        }
        for forged in ["", "0", &right[..63], &format!("{right}0"), &right.to_uppercase()] {
            assert_eq!(find(&own, &format!("to={forged}")), None, "{forged}");
        }
        assert_eq!(find(&own, &format!("to=x; to={right}")), Some(1), "the right one of two");
    }

    #[test]
    fn keys_do_not_show_themselves() {
        let shown = format!("{:?}", table("hush", "api", &[1]));
        assert!(!shown.contains("hush") && !shown.contains(&value(&table("hush", "api", &[1]), 0)));
        assert_eq!(SigningKey::of_process(), SigningKey::of_process());
        assert_ne!(SigningKey::of_process(), SigningKey::new(&[0; 32]));
    }
}
