//! Content of an answer: in memory, shared, or made while it is sent.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::task::{Context, Poll};

use sluice_net::disk::DiskFile;

use crate::Broken;

/// Content of an answer.
pub enum Body {
    /// Of this answer alone.
    Bytes(Vec<u8>),
    /// Of as many answers as need it.
    Shared(SharedBytes),
    /// Made piece by piece, no faster than the client takes it.
    Stream(Box<dyn BodySource>),
}

impl Body {
    /// None.
    pub const EMPTY: Self = Self::Bytes(Vec::new());

    /// All of it, if it is in memory.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Shared(bytes) => Some(bytes),
            Self::Stream(_) => None,
        }
    }

    /// How many bytes it has, if that is known before.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => u64::try_from(bytes.len()).ok(),
            Self::Shared(bytes) => u64::try_from(bytes.len()).ok(),
            Self::Stream(source) => source.length(),
        }
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<SharedBytes> for Body {
    fn from(bytes: SharedBytes) -> Self {
        Self::Shared(bytes)
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Shared(bytes) => write!(f, "{} shared bytes", bytes.len()),
            Self::Stream(source) => source.fmt(f),
        }
    }
}

/// A part of bytes that nobody changes any more and many may read at once, without a copy.
#[derive(Clone)]
pub struct SharedBytes {
    all: Arc<[u8]>,
    from: usize,
    to: usize,
}

impl SharedBytes {
    /// The part of these in `range`, counted from their beginning; what lies beyond them is left out.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        let from = self.from.saturating_add(range.start).min(self.to);
        let to = self.from.saturating_add(range.end).clamp(from, self.to);
        Self { all: Arc::clone(&self.all), from, to }
    }
}

impl SharedBytes {
    /// All that this is a part of, and which part.
    #[must_use]
    #[inline]
    pub fn into_place(self) -> (Arc<[u8]>, Range<usize>) {
        (self.all, self.from..self.to)
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.all.get(self.from..self.to).unwrap_or_default()
    }
}

impl From<Arc<[u8]>> for SharedBytes {
    fn from(all: Arc<[u8]>) -> Self {
        let to = all.len();
        Self { all, from: 0, to }
    }
}

/// Copies them, once.
impl From<Vec<u8>> for SharedBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Arc::<[u8]>::from(bytes).into()
    }
}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bytes {} to {} of {}", self.from, self.to, self.all.len())
    }
}

/// What makes content while it is sent. It lives on the worker of its request, and is dropped when the answer is
/// sent, when the client leaves, and at once where nobody wants the content: after HEAD, with 304.
pub trait BodySource: fmt::Debug {
    /// How many bytes there will be, if that is known. An answer whose source makes another number is broken
    /// off. Asked before the first piece, whose making it must not need.
    fn length(&self) -> Option<u64>;

    /// The next piece. Asked when the client has taken the one before; not again after [`Piece::End`]. A source
    /// that has to wait keeps the waker, and has a limit of its own for how long it waits: the gateway has
    /// none but that of a call.
    ///
    /// # Errors
    /// [`Broken`] if it cannot go on: the answer is broken off, so that nobody takes half for the whole.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Piece, Broken>>;
}

/// A part of the content of an answer.
#[derive(Debug)]
pub enum Piece {
    /// These bytes.
    Bytes(Vec<u8>),
    /// These, which others use as well.
    Shared(SharedBytes),
    /// Part of a file. What is not there any more is an answer broken off.
    File {
        /// Open for reading.
        file: Arc<DiskFile>,
        /// Where the part begins, in bytes.
        offset: u64,
        /// How long it is, in bytes.
        length: u64,
    },
    /// There is no more.
    End,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_shared_bytes_stay_within() {
        let all = SharedBytes::from(b"0123456789".to_vec());
        let rows: [(Range<usize>, &[u8]); 6] = [
            (0..10, b"0123456789"),
            (2..4, b"23"),
            (8..20, b"89"),
            (10..12, b""),
            (12..usize::MAX, b""),
            (usize::MAX..usize::MAX, b""),
        ];
        for (range, expected) in rows {
            assert_eq!(&*all.part(range.clone()), expected, "{range:?}");
        }
        assert_eq!(&*all.part(2..8).part(1..100), b"34567");
        assert_eq!(&*all.part(2..8).part(3..4), b"5");
        assert_eq!(Body::from(all.part(1..4)).length(), Some(3));
    }
}
