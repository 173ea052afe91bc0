//! What is purged.

use crate::entry::Identity;

/// What is purged.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    /// All answers to a URL, in the form of the key plan.
    Url(&'a [u8]),
    /// All answers to URLs that begin so.
    Prefix(&'a [u8]),
    /// All answers with this tag.
    Tag(&'a [u8]),
    /// Everything.
    All,
}

impl Target<'_> {
    /// Whether it means an answer with these tags.
    pub(crate) fn has(self, identity: &Identity, tags: &[Box<[u8]>]) -> bool {
        match self {
            Self::Url(url) => *identity.url == *url,
            Self::Prefix(prefix) => identity.url.starts_with(prefix),
            Self::Tag(tag) => tags.iter().any(|one| **one == *tag),
            Self::All => true,
        }
    }
}
