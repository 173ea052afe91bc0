//! Content that is on its way and in memory, in chunks that those who follow share.

use std::collections::VecDeque;

use sluice_filter::SharedBytes;

/// Content is gathered in chunks of this size at most.
const CHUNK: usize = 256 * 1024;

/// Content in memory: all of it from the beginning, or what somebody still has to get.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// What somebody has, and shares with others, each with its place in the whole.
    shared: VecDeque<(u64, SharedBytes)>,
    /// What nobody has yet.
    open: VecDeque<Vec<u8>>,
    /// Where the first chunk begins, and where the last one ends.
    from: u64,
    to: u64,
}

impl Gathered {
    /// Nothing yet, of content whose first bytes are elsewhere.
    pub(super) fn beginning_at(from: u64) -> Self {
        Self { from, to: from, ..Self::default() }
    }

    /// Where what is here begins.
    pub(super) const fn from(&self) -> u64 {
        self.from
    }

    /// Where it ends.
    pub(super) const fn to(&self) -> u64 {
        self.to
    }

    /// Bytes that are here.
    pub(super) fn bytes(&self) -> usize {
        usize::try_from(self.to - self.from).unwrap_or(usize::MAX)
    }

    /// Room for so many bytes that are about to come.
    pub(super) fn expect(&mut self, bytes: usize) {
        self.open.push_back(Vec::with_capacity(bytes.min(CHUNK)));
    }

    pub(super) fn push(&mut self, piece: &[u8]) {
        self.to = self.to.saturating_add(size(piece));
        match self.open.back_mut().filter(|last| last.len() + piece.len() <= CHUNK) {
            Some(last) => last.extend_from_slice(piece),
            None => self.open.push_back(piece.to_vec()),
        }
    }

    /// What there is from this place on, up to the end of a chunk.
    pub(super) fn after(&mut self, place: u64) -> Option<SharedBytes> {
        if place < self.from || place >= self.to {
            return None;
        }
        loop {
            let end = self.shared.back().map_or(self.from, |(at, chunk)| at + size(chunk));
            if place < end {
                break;
            }
            let chunk = self.open.pop_front()?;
            if !chunk.is_empty() {
                self.shared.push_back((end, chunk.into()));
            }
        }
        let behind = self.shared.partition_point(|(at, _)| *at <= place);
        let (at, chunk) = self.shared.get(behind.checked_sub(1)?)?;
        Some(chunk.part(usize::try_from(place - at).ok()?..usize::MAX))
    }

    /// Lets chunks go that lie before this place.
    pub(super) fn drop_before(&mut self, place: u64) {
        while let Some(end) = self.first_end().filter(|end| *end <= place) {
            self.drop_first(end);
        }
    }

    /// Lets the oldest chunks go until there are no more bytes than this.
    pub(super) fn shrink_to(&mut self, bytes: usize) {
        while self.bytes() > bytes
            && let Some(end) = self.first_end()
        {
            self.drop_first(end);
        }
    }

    /// Where the first chunk ends.
    fn first_end(&self) -> Option<u64> {
        let first = match self.shared.front() {
            Some((_, chunk)) => size(chunk),
            None => size(self.open.front()?),
        };
        Some(self.from.saturating_add(first))
    }

    fn drop_first(&mut self, end: u64) {
        if self.shared.pop_front().is_none() {
            self.open.pop_front();
        }
        self.from = end;
    }

    /// All of it; nothing is here any more.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let Self { shared, mut open, .. } = std::mem::take(self);
        if shared.is_empty() && open.len() < 2 {
            return open.pop_front().unwrap_or_default();
        }
        let mut all = shared.iter().map(|(_, chunk)| &**chunk).collect::<Vec<_>>();
        all.extend(open.iter().map(Vec::as_slice));
        all.concat()
    }
}

fn size(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_found_at_every_place_until_it_goes() {
        let content: Vec<u8> = (0..=250).cycle().take(1_000_000).collect();
        let mut gathered = Gathered::beginning_at(7);
        gathered.expect(10);
        for piece in content.chunks(9_999) {
            gathered.push(piece);
        }
        assert_eq!(gathered.bytes(), 1_000_000);
        assert!(gathered.after(6).is_none() && gathered.after(1_000_007).is_none());
        // The middle is asked for first.
        for place in [500_000, 7, 8, 262_150, 999_999, 1_000_006] {
            let bytes = gathered.after(place).unwrap();
            let at = usize::try_from(place - 7).unwrap();
            assert!(!bytes.is_empty() && *bytes == content[at..at + bytes.len()], "{place}");
        }
        gathered.drop_before(500_000);
        assert!(gathered.from() <= 500_000 && gathered.from() > 500_000 - 262_144);
        assert!(gathered.after(7).is_none() && gathered.after(500_000).is_some());
        gathered.push(b"more");
        gathered.shrink_to(4);
        assert_eq!(
            (gathered.bytes(), gathered.after(1_000_007).as_deref()),
            (4, Some(&b"more"[..]))
        );
        gathered.drop_before(u64::MAX);
        assert_eq!((gathered.bytes(), gathered.from(), gathered.to()), (0, 1_000_011, 1_000_011));
        gathered.push(b"x");
        assert_eq!(gathered.take(), b"x");
    }
}
