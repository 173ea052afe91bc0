//! Content of a kept answer: in memory, or in a file.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use sluice_filter::{Body, BodySource, Broken, Piece, SharedBytes};
use sluice_net::disk::DiskFile;

/// Bytes of memory that an open file counts for.
const OPEN_FILE: usize = 256 * 1024;

/// Content of a kept answer.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Memory(SharedBytes),
    File(Part),
    /// It is on its way.
    Coming(Ahead),
}

/// Content that is on its way.
pub(crate) trait Coming: fmt::Debug + Send + Sync {
    /// What comes from this place on, as it comes: so much of it, or all.
    fn follow(self: Arc<Self>, first: u64, length: Option<u64>) -> Box<dyn BodySource>;
}

/// A part of content that is on its way.
#[derive(Clone, Debug)]
pub(crate) struct Ahead {
    coming: Arc<dyn Coming>,
    first: u64,
    /// Bytes there will be, if that is known.
    length: Option<u64>,
}

impl Ahead {
    /// All of it; so much, if that is known.
    pub(crate) fn new(coming: Arc<dyn Coming>, length: Option<u64>) -> Self {
        Self { coming, first: 0, length }
    }

    fn part(&self, first: u64, length: u64) -> Self {
        let rest = self.length.map_or(length, |all| length.min(all.saturating_sub(first)));
        let coming = Arc::clone(&self.coming);
        Self { coming, first: self.first.saturating_add(first), length: Some(rest) }
    }

    fn body(&self) -> Body {
        Body::Stream(Arc::clone(&self.coming).follow(self.first, self.length))
    }
}

/// A part of a file.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) file: Arc<DiskFile>,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl Content {
    /// Bytes there are, if that is known.
    #[inline]
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::Memory(bytes) => u64::try_from(bytes.len()).ok(),
            Self::File(part) => Some(part.length),
            Self::Coming(ahead) => ahead.length,
        }
    }

    /// All of it, as a test wants it.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Memory(bytes) => bytes.to_vec(),
            Self::File(part) => {
                let mut bytes = vec![0; usize::try_from(part.length).unwrap()];
                assert_eq!(part.file.read_at(&mut bytes, part.offset).unwrap(), bytes.len());
                bytes
            }
            Self::Coming(_) => panic!("it is not there"),
        }
    }

    /// All of it, as one piece, of what is there.
    pub(crate) fn piece(self) -> Piece {
        match self {
            Self::Memory(bytes) => Piece::Shared(bytes),
            Self::File(Part { file, offset, length }) => Piece::File { file, offset, length },
            Self::Coming(_) => Piece::End,
        }
    }

    /// Bytes of memory it takes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            // Open files are few; this many bytes for each see to it.
            Self::File(_) => OPEN_FILE,
            Self::Coming(_) => 0,
        }
    }

    /// All of it.
    #[inline]
    pub(crate) fn body(&self) -> Body {
        match self {
            Self::Memory(bytes) => Body::Shared(bytes.clone()),
            Self::File(part) => Parts::default().with_file(part.clone()).into_body(),
            Self::Coming(ahead) => ahead.body(),
        }
    }

    /// So many bytes from the first on.
    pub(crate) fn part(&self, first: u64, length: u64) -> Self {
        let place = |place: u64| usize::try_from(place).unwrap_or(usize::MAX);
        match self {
            Self::Memory(bytes) => {
                Self::Memory(bytes.part(place(first)..place(first.saturating_add(length))))
            }
            Self::File(part) => {
                let length = length.min(part.length.saturating_sub(first));
                let offset = part.offset.saturating_add(first);
                Self::File(Part { file: Arc::clone(&part.file), offset, length })
            }
            Self::Coming(ahead) => Self::Coming(ahead.part(first, length)),
        }
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Memory(bytes.into())
    }
}

/// Content of several parts, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    parts: VecDeque<Piece>,
    length: u64,
}

impl Parts {
    pub(crate) fn with(self, content: Content) -> Self {
        let length = content.length().unwrap_or(0);
        self.with_piece(content.piece(), length)
    }

    pub(crate) fn with_bytes(self, bytes: Vec<u8>) -> Self {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.with_piece(Piece::Bytes(bytes), length)
    }

    fn with_file(self, Part { file, offset, length }: Part) -> Self {
        self.with_piece(Piece::File { file, offset, length }, length)
    }

    fn with_piece(mut self, piece: Piece, length: u64) -> Self {
        self.parts.push_back(piece);
        self.length = self.length.saturating_add(length);
        self
    }

    pub(crate) fn into_body(self) -> Body {
        Body::Stream(Box::new(self))
    }
}

impl BodySource for Parts {
    fn length(&self) -> Option<u64> {
        Some(self.length)
    }

    fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Result<Piece, Broken>> {
        Poll::Ready(Ok(self.parts.pop_front().unwrap_or(Piece::End)))
    }
}
