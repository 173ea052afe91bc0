//! Parts of a file as the content of an answer.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use sluice_filter::{Body, BodySource, Broken, Piece};
use sluice_message::ByteRange;

use crate::open::{Content, Store};

/// Pieces that are there, one after the other.
#[derive(Debug)]
struct Pieces {
    length: u64,
    pieces: VecDeque<Piece>,
}

impl BodySource for Pieces {
    fn length(&self) -> Option<u64> {
        Some(self.length)
    }

    fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Result<Piece, Broken>> {
        Poll::Ready(Ok(self.pieces.pop_front().unwrap_or(Piece::End)))
    }
}

/// The bytes of a file in this range; all of them without one.
pub(crate) fn body(content: &Content, range: Option<ByteRange>) -> Body {
    match (&content.store, range) {
        (Store::Memory(bytes), None) => Body::Shared(bytes.clone()),
        (Store::Memory(_), Some(range)) => match piece(content, range) {
            Piece::Shared(bytes) => Body::Shared(bytes),
            other => stream([other].into(), range.length()),
        },
        (Store::Disk(_), range) => {
            let whole = ByteRange { first: 0, last: content.looks.size.saturating_sub(1) };
            let range = range.unwrap_or(whole);
            if content.looks.size == 0 {
                return Body::EMPTY;
            }
            stream([piece(content, range)].into(), range.length())
        }
    }
}

fn stream(pieces: VecDeque<Piece>, length: u64) -> Body {
    Body::Stream(Box::new(Pieces { length, pieces }))
}

fn piece(content: &Content, range: ByteRange) -> Piece {
    match &content.store {
        Store::Memory(bytes) => {
            let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
            Piece::Shared(bytes.part(place(range.first)..place(range.last).saturating_add(1)))
        }
        Store::Disk(file) => Piece::File {
            file: std::sync::Arc::clone(file),
            offset: range.first,
            length: range.length(),
        },
    }
}

/// Several parts in one content (RFC 9110, 14.6), told apart by `boundary`.
pub(crate) fn multipart(content: &Content, ranges: &[ByteRange], boundary: &str) -> Body {
    let size = content.looks.size;
    let (mut pieces, mut length) = (VecDeque::new(), 0_u64);
    let mut add = |piece: Piece, bytes: u64| {
        pieces.push_back(piece);
        length = length.saturating_add(bytes);
    };
    let text = |text: String, add: &mut dyn FnMut(Piece, u64)| {
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        add(Piece::Bytes(text.into_bytes()), bytes);
    };
    for range in ranges {
        let head = format!(
            "\r\n--{boundary}\r\ncontent-type: {}\r\ncontent-range: {}\r\n\r\n",
            content.media,
            content_range(*range, size)
        );
        text(head, &mut add);
        add(piece(content, *range), range.length());
    }
    text(format!("\r\n--{boundary}--\r\n"), &mut add);
    stream(pieces, length)
}

/// The value of `Content-Range` (RFC 9110, 14.4).
pub(crate) fn content_range(range: ByteRange, size: u64) -> String {
    format!("bytes {}-{}/{size}", range.first, range.last)
}
