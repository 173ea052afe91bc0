//! Those who get an answer as it comes, each as fast as he takes it.

use std::sync::Arc;
use std::task::{Context, Poll};

use sluice_filter::{BodySource, Broken, Piece};

use super::{Filling, Joined};
use crate::content::Coming;

/// An answer on its way, as others get it.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) filling: Arc<Filling>,
    /// Bytes there will be, if that is known.
    pub(super) length: Option<u64>,
}

impl Coming for Flow {
    fn follow(self: Arc<Self>, first: u64, length: Option<u64>) -> Box<dyn BodySource> {
        let joined = Joined::new(&self.filling, Some(first));
        let end = length.map(|length| first.saturating_add(length));
        let part = if end == self.length { Part::Last } else { Part::Inner };
        Box::new(Follower { joined, at: first, end, length, part })
    }
}

/// Which part of an answer somebody gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// One that ends where the answer does.
    Last,
    Inner,
}

/// Somebody who gets an answer as it comes, as fast as he takes it.
#[derive(Debug)]
struct Follower {
    joined: Joined,
    /// How far he is, counted from the beginning of the answer.
    at: u64,
    /// Where his part ends, and its length, if that is known.
    end: Option<u64>,
    length: Option<u64>,
    part: Part,
}

impl BodySource for Follower {
    fn length(&self) -> Option<u64> {
        self.length
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Piece, Broken>> {
        let Joined { filling, place } = &self.joined;
        let mut progress = filling.progress();
        if self.end == Some(self.at) {
            // Until it is kept, whoever brings it is not to think that nobody waits any more.
            if progress.outcome.is_none() && self.part == Part::Last {
                progress.wait(*place, cx);
                return Poll::Pending;
            }
            return Poll::Ready(Ok(Piece::End));
        }
        if let Some(content) = progress.after(self.at)? {
            let left = self.end.map_or(u64::MAX, |end| end.saturating_sub(self.at));
            let content = content.part(0, left);
            self.at = self.at.saturating_add(content.length().unwrap_or(0));
            progress.advance(*place, self.at);
            return Poll::Ready(Ok(content.piece()));
        }
        match progress.outcome {
            None => {
                progress.wait(*place, cx);
                Poll::Pending
            }
            // It was whole, and that was all.
            Some(_) if self.end.is_none() => Poll::Ready(Ok(Piece::End)),
            Some(_) => Poll::Ready(Err(Broken)),
        }
    }
}
