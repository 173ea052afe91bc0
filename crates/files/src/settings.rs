//! What the configuration says.

use std::path::PathBuf;
use std::time::Duration;

use crate::Glob;

/// Where files are, and how they are answered.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder they are in.
    pub root: PathBuf,
    /// The beginning of paths that is left out, without a slash at its end.
    pub strip_prefix: Vec<u8>,
    /// Names looked for in a folder.
    pub index: Vec<Vec<u8>>,
    /// What is tried, one after the other.
    pub attempts: Vec<Attempt>,
    /// Whether folders without an index are listed.
    pub listing: Listing,
    /// Whether names that begin with a dot exist.
    pub hidden: Names,
    /// Media types by extension in lower case, before those that are known anyway.
    pub types: Vec<(Vec<u8>, String)>,
    /// The media type of everything else.
    pub default_type: String,
    /// Character set of types that are text.
    pub charset: Option<String>,
    /// `Cache-Control` by path: the first that matches counts.
    pub cache_control: Vec<(Glob, String)>,
    /// What is saved and not shown.
    pub download: Vec<Glob>,
    /// Encodings of files that may lie beside them, the best first.
    pub precompressed: Vec<Encoding>,
    /// What is kept of files.
    pub cache: Cache,
    /// How many workers ask.
    pub workers: usize,
}

/// Something to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// A path beneath the root: text around as many places of the path that was asked for.
    Path(Vec<Vec<u8>>),
    /// Nothing more: this status.
    Status(u16),
}

/// Whether folders without an index are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// They do not exist.
    Off,
    /// They are, as HTML or, for who wants it, as JSON.
    On,
}

/// Which names exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// None that begins with a dot, but `.well-known` in the root (RFC 8615).
    Visible,
    /// All.
    All,
}

/// An encoding of a file that lies beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `.br`
    Brotli,
    /// `.zst`
    Zstandard,
    /// `.gz`
    Gzip,
}

impl Encoding {
    /// Its content coding (RFC 9110, 8.4.1).
    pub(crate) const fn coding(self) -> &'static [u8] {
        match self {
            Self::Brotli => b"br",
            Self::Zstandard => b"zstd",
            Self::Gzip => b"gzip",
        }
    }

    /// What the name of the file ends with.
    pub(crate) const fn extension(self) -> &'static [u8] {
        match self {
            Self::Brotli => b".br",
            Self::Zstandard => b".zst",
            Self::Gzip => b".gz",
        }
    }
}

/// What is kept of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Names, over all workers.
    pub entries: usize,
    /// Bytes of content, over all workers.
    pub memory: u64,
    /// Larger files are sent from the disk, in bytes.
    pub file: u64,
    /// How long a name is taken for what it was.
    pub check: Duration,
}
