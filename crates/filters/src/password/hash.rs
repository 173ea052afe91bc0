//! Hashes of passwords that are slow on purpose: bcrypt and argon2id.

use std::fmt;
use std::str::FromStr as _;

use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, Params, PasswordVerifier as _};
use bcrypt::HashParts;

/// bcrypt with more takes many seconds a try.
const MAX_BCRYPT_COST: u32 = 16;
/// argon2 with more memory (KiB) or passes than this stops the machine.
const MAX_MEMORY_KIB: u32 = 1024 * 1024;
const MAX_PASSES: u32 = 64;

/// The hash of a password, checked for being one.
#[derive(Clone)]
pub(super) enum Hash {
    Bcrypt(Box<str>),
    Argon2(Box<str>),
}

impl Hash {
    /// Reads a hash as tools write it; the error says what is wrong without repeating it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Some(rest) = text.strip_prefix("$2") {
            if !matches!(rest.get(..2), Some("a$" | "b$" | "y$")) {
                return Err("a bcrypt hash begins with $2a$, $2b$ or $2y$".to_owned());
            }
            let parts = HashParts::from_str(text).map_err(|_| "a broken bcrypt hash".to_owned())?;
            let cost = parts.get_cost();
            if !(4..=MAX_BCRYPT_COST).contains(&cost) {
                return Err(format!(
                    "a bcrypt hash of cost {cost}; 4 to {MAX_BCRYPT_COST} can be used"
                ));
            }
            return Ok(Self::Bcrypt(text.into()));
        }
        if text.starts_with("$argon2id$") {
            let broken = || "a broken argon2id hash".to_owned();
            let parsed = PasswordHash::new(text).map_err(|_| broken())?;
            let params = Params::try_from(&parsed).map_err(|_| broken())?;
            if parsed.salt.is_none() || parsed.hash.is_none() {
                return Err(broken());
            }
            if params.m_cost() > MAX_MEMORY_KIB || params.t_cost() > MAX_PASSES {
                return Err(format!(
                    "an argon2id hash that asks for more than {MAX_MEMORY_KIB} KiB or {MAX_PASSES} passes"
                ));
            }
            return Ok(Self::Argon2(text.into()));
        }
        Err("no bcrypt and no argon2id hash; `htpasswd -B` and `argon2 -id -e` write such"
            .to_owned())
    }

    /// Whether the password has this hash. Takes a tenth of a second and more.
    pub(super) fn verify(&self, password: &[u8]) -> bool {
        match self {
            Self::Bcrypt(hash) => bcrypt::verify(password, hash).unwrap_or(false),
            Self::Argon2(hash) => Argon2::default().verify_password(password, &**hash).is_ok(),
        }
    }
}

/// A hash is half a password.
impl fmt::Debug for Hash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Bcrypt(_) => "bcrypt ***",
            Self::Argon2(_) => "argon2id ***",
        })
    }
}
