//! Tokens of every algorithm, and the ways in which tokens have been forged.

use sluice_testkit::{SigningKey, forged, jwks};

use super::{Algorithm, Expiry, Jwks, JwksFlaw, Key, KeyFlaw, KeySet, Refusal, Rules, Secrets};
use crate::Secret;

const NAMES: [&str; 13] = [
    "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256",
    "ES384", "ES512", "EdDSA",
];
const NOW: u64 = 1_700_000_000;
const CLAIMS: &str = r#"{"sub":"eva","exp":1700000060}"#;

fn keys(set: &str) -> KeySet {
    KeySet::new(Jwks::parse(set.as_bytes(), Secrets::Allowed).unwrap().keys)
}

fn refusal(keys: &KeySet, token: &str) -> Refusal {
    keys.verify(token.as_bytes(), &Rules::default(), NOW).unwrap_err()
}

#[test]
fn every_algorithm_verifies_its_own_tokens_and_no_others() {
    let all: Vec<SigningKey> = NAMES.iter().map(|name| SigningKey::generate(name, name)).collect();
    let set = keys(&jwks(&all.iter().collect::<Vec<_>>()));
    for key in &all {
        let token = key.token(CLAIMS);
        let verified = set.verify(token.as_bytes(), &Rules::default(), NOW).unwrap();
        assert_eq!(verified.claims.text("sub").as_deref(), Some("eva"));
        assert_eq!(verified.until, Some(1_700_000_060));
        // One bit of each part.
        let parts: Vec<&str> = token.split('.').collect();
        let other = key.token(r#"{"sub":"bob","exp":1700000060}"#);
        let others: Vec<&str> = other.split('.').collect();
        assert_eq!(
            refusal(&set, &format!("{}.{}.{}", parts[0], others[1], parts[2])),
            Refusal::Signature
        );
        assert_eq!(refusal(&set, &format!("{}.{}.", parts[0], parts[1])), Refusal::Signature);
        let cut = &parts[2][..16];
        assert_eq!(refusal(&set, &format!("{}.{}.{cut}", parts[0], parts[1])), Refusal::Signature);
    }
    // A key of the same kind that nobody knows.
    let stranger = SigningKey::generate("ES256", "ES256");
    assert_eq!(refusal(&set, &stranger.token(CLAIMS)), Refusal::Signature);
    let stranger = SigningKey::generate("ES256", "other");
    assert_eq!(refusal(&set, &stranger.token(CLAIMS)), Refusal::UnknownKey);
}

#[test]
fn a_token_never_chooses_what_its_key_is_for() {
    let rsa = SigningKey::generate("RS256", "a");
    let set = keys(&jwks(&[&rsa]));
    // Without any signature.
    for none in ["none", "None", "NONE", "nOnE", ""] {
        let header = format!(r#"{{"alg":"{none}","kid":"a"}}"#);
        assert_eq!(
            refusal(&set, &forged(&header, CLAIMS, |_| Vec::new())),
            Refusal::UnknownAlgorithm
        );
    }
    // The public key, in every form an attacker has it, as the secret of an HMAC.
    for secret in [rsa.pem(), rsa.pem().trim().to_owned(), rsa.jwk()] {
        let forger = SigningKey::secret("HS256", "a", secret.as_bytes());
        assert_eq!(refusal(&set, &forger.token(CLAIMS)), Refusal::WrongAlgorithm);
        let no_id = forger.token_with(r#"{"alg":"HS256"}"#, CLAIMS);
        assert_eq!(refusal(&set, &no_id), Refusal::WrongAlgorithm);
        // The same key from PEM, for every algorithm of RSA.
        let set = KeySet::new(vec![Key::pem(&rsa.pem()).unwrap()]);
        assert_eq!(refusal(&set, &forger.token(CLAIMS)), Refusal::WrongAlgorithm);
    }
    // The key says RS256, so PS256 is refused even with a signature that fits.
    let other = rsa.token_with(r#"{"alg":"PS256","kid":"a"}"#, CLAIMS);
    assert_eq!(refusal(&set, &other), Refusal::WrongAlgorithm);
    // A key inside the token means nothing.
    let stranger = SigningKey::generate("RS256", "a");
    let header = format!(r#"{{"alg":"RS256","kid":"a","jwk":{}}}"#, stranger.jwk());
    assert_eq!(refusal(&set, &stranger.token_with(&header, CLAIMS)), Refusal::Signature);
}

#[test]
fn some_algorithms_may_be_left_out() {
    let rsa = SigningKey::generate("RS256", "a");
    let set = KeySet::new(vec![Key::pem(&rsa.pem()).unwrap()]);
    let token = rsa.token(CLAIMS);
    let verify = |algorithms: &[Algorithm]| {
        set.verify_by(algorithms, token.as_bytes(), (&Rules::default(), NOW)).map(|_| ())
    };
    assert_eq!(verify(&[Algorithm::Ps256, Algorithm::Rs256]), Ok(()));
    assert_eq!(verify(&[Algorithm::Ps256]), Err(Refusal::WrongAlgorithm));
}

#[test]
fn a_signature_of_zeros_is_no_signature() {
    // What CVE-2022-21449 was about.
    for (name, size) in [("ES256", 64), ("ES384", 96), ("ES512", 132)] {
        let key = SigningKey::generate(name, "a");
        let set = keys(&jwks(&[&key]));
        let header = format!(r#"{{"alg":"{name}","kid":"a"}}"#);
        assert_eq!(refusal(&set, &forged(&header, CLAIMS, |_| vec![0; size])), Refusal::Signature);
    }
}

#[test]
fn keys_are_found_by_their_id() {
    let (old, new) = (SigningKey::generate("ES256", "old"), SigningKey::generate("ES256", "new"));
    let set = keys(&jwks(&[&old, &new]));
    for key in [&old, &new] {
        assert!(set.verify(key.token(CLAIMS).as_bytes(), &Rules::default(), NOW).is_ok());
        // Without an id each key is tried.
        let token = key.token_with(r#"{"alg":"ES256"}"#, CLAIMS);
        assert!(set.verify(token.as_bytes(), &Rules::default(), NOW).is_ok());
    }
    let token = old.token_with(r#"{"alg":"ES256","kid":"new"}"#, CLAIMS);
    assert_eq!(refusal(&set, &token), Refusal::Signature);
    // A key without an id is good for every token that names one nobody has.
    let set = KeySet::new(vec![Key::pem(&old.pem()).unwrap()]);
    assert!(set.verify(old.token(CLAIMS).as_bytes(), &Rules::default(), NOW).is_ok());
    assert_eq!(refusal(&KeySet::default(), &old.token(CLAIMS)), Refusal::UnknownKey);
}

#[test]
fn reads_keys_from_pem() {
    for name in NAMES.iter().filter(|name| !name.starts_with("HS")) {
        let signing = SigningKey::generate(name, "a");
        let key = Key::pem(&signing.pem()).unwrap();
        assert!(key.algorithms().any(|algorithm| algorithm.name() == *name), "{key:?}");
        let set = KeySet::new(vec![key]);
        assert!(set.verify(signing.token(CLAIMS).as_bytes(), &Rules::default(), NOW).is_ok());
    }
    let key = SigningKey::generate("ES256", "a");
    let private = key.pem().replace("PUBLIC", "PRIVATE");
    assert!(Key::pem(&private).unwrap_err().to_string().contains("private key"));
    assert!(Key::pem("").is_err());
    let cut = "-----BEGIN PUBLIC KEY-----\nAQID\n-----END PUBLIC KEY-----\n";
    assert_eq!(Key::pem(cut).unwrap_err(), KeyFlaw::Unusable);
    let only = Key::pem(&SigningKey::generate("RS256", "a").pem()).unwrap();
    let only = only.only(&[Algorithm::Ps384]).unwrap();
    assert_eq!(only.algorithms().collect::<Vec<_>>(), [Algorithm::Ps384]);
    assert_eq!(only.only(&[Algorithm::Es256]).unwrap_err(), KeyFlaw::NotFor(Algorithm::Es256));
}

#[test]
fn secrets_are_as_long_as_their_hash_and_show_nothing() {
    let secret = |bytes, algorithm| Key::secret(&Secret::new(vec![b'x'; bytes]), algorithm);
    assert_eq!(secret(31, Algorithm::Hs256).unwrap_err(), KeyFlaw::ShortSecret(32));
    assert_eq!(secret(63, Algorithm::Hs512).unwrap_err(), KeyFlaw::ShortSecret(64));
    assert_eq!(secret(64, Algorithm::Rs256).unwrap_err(), KeyFlaw::NotFor(Algorithm::Rs256));
    let key = secret(32, Algorithm::Hs256).unwrap();
    assert_eq!(format!("{key:?}"), "Key { id: None, algorithms: [Hs256], .. }");
}

#[test]
fn sets_of_keys_pass_over_what_they_do_not_need() {
    let good = SigningKey::generate("ES256", "good");
    let secret = SigningKey::generate("HS256", "secret");
    let set = |members: &str, secrets| {
        Jwks::parse(format!(r#"{{"keys":[{members}]}}"#).as_bytes(), secrets)
    };
    let good_jwk = good.jwk();
    let parsed = set(
        &[
            &good_jwk,
            &good_jwk.replace(r#""use":"sig""#, r#""use":"enc""#),
            &good_jwk.replace(r#""use":"sig""#, r#""key_ops":["encrypt"]"#),
            &good_jwk.replace("P-256", "secp256k1"),
            &good_jwk.replace("P-256", "P-384"),
            &good_jwk.replace("ES256", "RS256"),
            &good_jwk.replace("ES256", "ECDH-ES"),
            &good_jwk.replace(r#""x":""#, r#""x":"A"#),
            r#"{"kty":"new","kid":"x"}"#,
            r#"{"kty":"RSA","n":"AQAB","e":"AQAB","kid":"tiny"}"#,
            &secret.jwk(),
        ]
        .join(","),
        Secrets::Ignored,
    )
    .unwrap();
    assert_eq!(parsed.keys.iter().map(Key::id).collect::<Vec<_>>(), [Some("good")]);
    assert_eq!(parsed.ignored.len(), 8, "{:#?}", parsed.ignored);
    assert!(parsed.ignored[7].contains("a secret"), "{:?}", parsed.ignored);
    assert_eq!(set(&secret.jwk(), Secrets::Ignored).unwrap_err(), JwksFlaw::Empty);
    assert_eq!(set(&secret.jwk(), Secrets::Allowed).unwrap().keys.len(), 1);
    let nameless = secret.jwk().replace(r#""alg":"HS256","#, "");
    assert_eq!(set(&nameless, Secrets::Allowed).unwrap_err(), JwksFlaw::Empty);
    assert_eq!(set("7", Secrets::Allowed).unwrap_err(), JwksFlaw::Form);
    for text in ["", "[]", "{}", r#"{"keys":{}}"#, "null"] {
        assert_eq!(Jwks::parse(text.as_bytes(), Secrets::Allowed).unwrap_err(), JwksFlaw::Form);
    }
    let many = vec![good_jwk.as_str(); 257].join(",");
    assert_eq!(set(&many, Secrets::Ignored).unwrap_err(), JwksFlaw::TooLarge);
}

#[test]
fn claims_are_looked_at_only_behind_a_good_signature() {
    let key = SigningKey::generate("HS256", "a");
    let set = keys(&jwks(&[&key]));
    let old = key.token(r#"{"exp":1}"#);
    assert_eq!(refusal(&set, &old), Refusal::Expired);
    let forged = format!("{}x", &old[..old.len() - 1]);
    assert_ne!(refusal(&set, &forged), Refusal::Expired);
    let rules = Rules { expiry: Expiry::Optional, ..Rules::default() };
    assert_eq!(set.verify(key.token("{}").as_bytes(), &rules, NOW).unwrap().until, None);
}
