//! Keys, and which of them a token is verified by.

use super::{Algorithm, Claims, Key, Refusal, Rules, Token};

/// A token without a key id is tried with so many keys and no more: each try costs a signature.
const MOST_TRIES: usize = 8;

/// The keys of one issuer.
#[derive(Debug, Default)]
pub struct KeySet {
    keys: Vec<Key>,
}

/// What a good token says.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified {
    /// Its claims.
    pub claims: Claims,
    /// Until when it is good, as Unix time in seconds; `None` if for ever.
    pub until: Option<u64>,
}

impl KeySet {
    /// Of these keys, in this order.
    #[must_use]
    pub const fn new(keys: Vec<Key>) -> Self {
        Self { keys }
    }

    /// How many keys there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Verifies a token in compact form at `now`, Unix time in seconds.
    ///
    /// # Errors
    /// Why the token is not accepted. [`Refusal::UnknownKey`] may mean that the set is out of date.
    pub fn verify(&self, token: &[u8], rules: &Rules, now: u64) -> Result<Verified, Refusal> {
        self.verify_by(&[], token, (rules, now))
    }

    /// The same, by one of these algorithms only, unless there is none.
    ///
    /// # Errors
    /// As [`KeySet::verify`].
    pub fn verify_by(
        &self,
        algorithms: &[Algorithm],
        token: &[u8],
        (rules, now): (&Rules, u64),
    ) -> Result<Verified, Refusal> {
        let token = Token::parse(token)?;
        let algorithm = Algorithm::named(&token.algorithm).ok_or(Refusal::UnknownAlgorithm)?;
        if !algorithms.is_empty() && !algorithms.contains(&algorithm) {
            return Err(Refusal::WrongAlgorithm);
        }
        self.check_signature(&token, algorithm)?;
        let claims = Claims::new(token.payload);
        let until = claims.check(rules, now)?;
        Ok(Verified { claims, until })
    }

    fn check_signature(&self, token: &Token<'_>, algorithm: Algorithm) -> Result<(), Refusal> {
        let mut refusal = None;
        let for_it = |key: &&Key| key.algorithms().any(|one| one == algorithm);
        for key in self.candidates(token.key_id.as_deref()).filter(for_it).take(MOST_TRIES) {
            match key.verify(algorithm, token.signed, &token.signature) {
                Ok(()) => return Ok(()),
                Err(why) => refusal = Some(why),
            }
        }
        Err(refusal.unwrap_or_else(|| {
            // Nobody has the id, or those that have it are for something else.
            let known = self.candidates(token.key_id.as_deref()).next().is_some();
            if known { Refusal::WrongAlgorithm } else { Refusal::UnknownKey }
        }))
    }

    /// The keys a token may mean: those with its key id or, if there is none, those without any. A token
    /// that names no key may mean each.
    fn candidates(&self, id: Option<&str>) -> impl Iterator<Item = &Key> {
        let named = id.is_some() && self.keys.iter().any(|key| key.id() == id);
        self.keys.iter().filter(move |key| match id {
            None => true,
            Some(_) if named => key.id() == id,
            Some(_) => key.id().is_none(),
        })
    }
}
