//! How URLs are hashed in this process.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

static HASHING: OnceLock<Hashing> = OnceLock::new();

/// Makes hashes of URLs, by a secret that is random, so that nobody can choose URLs that share a place.
#[derive(Clone, Debug)]
pub(crate) struct Hashing(SeedableRandomState);

impl Hashing {
    /// The one of this process: what lies in memory and what lies on the disk have the same hashes.
    pub(crate) fn of_process() -> Self {
        let new = || {
            let seed = RandomState::new().hash_one(0);
            Self(SeedableRandomState::with_seed(seed, SharedSeed::global_random()))
        };
        HASHING.get_or_init(new).clone()
    }

    /// What stands for a URL.
    #[inline]
    pub(crate) fn hash(&self, url: &[u8]) -> u64 {
        let mut hasher = self.0.build_hasher();
        hasher.write(url);
        hasher.finish()
    }
}
