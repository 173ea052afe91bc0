//! A token, a set of keys or a PEM text: whatever it is, it is judged without a panic and never accepted.

use sluice_filters::Secret;
use sluice_filters::jwt::{
    Algorithm, Claims, Expiry, Jwks, Key, KeySet, MAX_TOKEN, Rules, Secrets, Token,
};

const NOW: u64 = 1_700_000_000;

/// Feeds `data` to everything that reads bytes of strangers.
pub(crate) fn run(data: &[u8]) {
    let rules =
        Rules { audiences: vec!["api".to_owned()], expiry: Expiry::Optional, ..Rules::default() };
    if let Ok(token) = Token::parse(data) {
        assert!(data.len() <= MAX_TOKEN && data.starts_with(token.signed));
        assert_eq!(data.iter().filter(|byte| **byte == b'.').count(), 2);
        let claims = Claims::new(token.payload);
        let until = claims.check(&rules, NOW);
        assert!(!matches!(until, Ok(Some(until)) if until <= NOW), "over is over");
        for name in claims.as_object().keys() {
            let text = claims.text(name).unwrap_or_default();
            assert!(!text.contains(['\r', '\n', '\0']), "no field line can hold it");
        }
    }
    let secret = Key::secret(&Secret::new(*b"0123456789abcdef0123456789abcdef"), Algorithm::Hs256);
    let keys = KeySet::new(secret.into_iter().collect());
    assert_eq!(keys.len(), 1);
    assert!(keys.verify(data, &rules, NOW).is_err(), "nobody signed this");
    if let Ok(set) = Jwks::parse(data, Secrets::Ignored) {
        let hmac = |key: &Key| key.algorithms().any(|one| Algorithm::HMAC.contains(&one));
        assert!(!set.keys.iter().any(hmac), "a secret from where none may be");
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = Key::pem(text);
    }
}
