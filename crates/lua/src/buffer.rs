//! Bytes on their way between a socket and a script.

use std::cell::RefCell;

use crate::delimiter::{Delimiter, Want, Wanted};

/// What a read usually brings.
const USUAL: usize = 8 * 1024;

/// What the buffer of a busy connection grows to by reads.
const LARGE: usize = 64 * 1024;

/// What a connection keeps for short answers.
const SHORT: usize = 128;

/// Buffers kept for the next ones, per thread.
const KEPT: usize = 128;

thread_local! {
    /// The one given back last: a line and its answer take it in turns. Without memory while it is lent.
    static NEXT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

#[inline]
fn lend() -> Vec<u8> {
    // Somebody may just read into it, and a collection that this starts lend another.
    let take =
        |next: &RefCell<Vec<u8>>| next.try_borrow_mut().map(|mut it| std::mem::take(&mut *it));
    let next = NEXT.try_with(take).ok().and_then(Result::ok).unwrap_or_default();
    if next.capacity() == 0 { lend_another() } else { next }
}

#[cold]
fn lend_another() -> Vec<u8> {
    SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(|| Vec::with_capacity(USUAL))
}

/// Takes the memory, empty from now on.
#[inline]
fn give_back(bytes: &mut Vec<u8>) {
    if bytes.capacity() == 0 {
        return;
    }
    bytes.clear();
    let mut given = std::mem::take(bytes);
    if given.capacity() <= LARGE {
        // States that end with their thread come when there is nothing left to give it back to.
        let _ = NEXT.try_with(|next| {
            if let Ok(mut next) = next.try_borrow_mut() {
                std::mem::swap(&mut *next, &mut given);
            }
        });
    }
    if given.capacity() > 0 {
        put_aside(given);
    }
}

#[cold]
fn put_aside(bytes: Vec<u8>) {
    let _ = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() < KEPT && bytes.capacity() <= LARGE {
            spare.push(bytes);
        }
    });
}

/// What has arrived and was not read by the script.
#[derive(Debug)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
    /// What the reader waits for.
    want: Want,
    /// So many bytes of the content hold no beginning of that.
    searched: usize,
}

/// What a read has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    Nothing,
    /// What the reader waits for, and nothing else.
    Whole,
    /// More than that, or less: so many bytes are what the reader waits for, if there are enough.
    Other(Option<usize>),
}

/// What nobody has to wait for.
const NOTHING: Want = Want::Exactly(0);

impl Default for Input {
    fn default() -> Self {
        Self { bytes: Vec::new(), start: 0, want: NOTHING, searched: 0 }
    }
}

impl Input {
    #[inline]
    fn content(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Bytes that wait to be read.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// A reader wants this from now on; how many bytes that are, if they are there.
    // In line: what services call most.
    #[inline(always)]
    pub(crate) fn expect(&mut self, wanted: Wanted<'_>) -> Option<usize> {
        match (wanted, &self.want) {
            // Nearly always the same as before.
            (Wanted::Until(bytes), Want::Until(delimiter)) if delimiter.is(bytes) => {}
            (Wanted::Until(bytes), _) => {
                self.want = Delimiter::new(bytes).map_or(NOTHING, Want::Until)
            }
            (Wanted::Exactly(length), _) => self.want = Want::Exactly(length),
        }
        self.searched = 0;
        // Nothing waits nearly each time that a reader begins.
        if self.len() == 0 && self.want != NOTHING {
            return None;
        }
        self.find()
    }

    /// How many bytes satisfy the reader; absent if more have to come.
    #[inline]
    pub(crate) fn find(&mut self) -> Option<usize> {
        let found = self.want.end_in(self.content(), self.searched);
        if found.is_none() {
            self.note_searched();
        }
        found
    }

    #[inline]
    fn note_searched(&mut self) {
        if let Want::Until(delimiter) = &self.want {
            self.searched = delimiter.searched(self.len());
        }
    }

    /// The first bytes, which count as read.
    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> &[u8] {
        let start = self.start;
        self.start = (start + length).min(self.bytes.len());
        self.bytes.get(start..self.start).unwrap_or_default()
    }

    /// Whether it has no memory of its own, and therefore nothing in it.
    #[inline]
    pub(crate) fn is_at_rest(&self) -> bool {
        self.bytes.capacity() == 0
    }

    /// Reads while it is [at rest](Self::is_at_rest). What satisfies the reader, and is all that came, goes to `whole` from
    /// memory that is nobody's, as a line of a service nearly always does; else it is taken in.
    #[inline]
    pub(crate) fn read_at_rest<R>(
        &mut self,
        read: impl FnOnce(&mut Vec<u8>) -> R,
        whole: impl FnOnce(&[u8]),
    ) -> (R, Came) {
        NEXT.with_borrow_mut(|bytes| {
            if bytes.capacity() == 0 {
                *bytes = lend_another();
            }
            let result = read(bytes);
            if bytes.is_empty() {
                return (result, Came::Nothing);
            }
            let found = self.want.end_in(bytes, 0);
            if found == Some(bytes.len()) {
                whole(bytes);
                bytes.clear();
                return (result, Came::Whole);
            }
            self.start = 0;
            std::mem::swap(&mut self.bytes, bytes);
            if found.is_none() {
                self.note_searched();
            }
            (result, Came::Other(found))
        })
    }

    /// What to read into; at most `most` bytes fit beside what waits already, but always some.
    pub(crate) fn tail(&mut self, most: usize) -> &mut Vec<u8> {
        if self.bytes.capacity() == 0 {
            self.bytes = lend();
        }
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        let waiting = self.bytes.len();
        if waiting == self.bytes.capacity() {
            let more = waiting.clamp(USUAL, 16 * LARGE);
            self.bytes.reserve_exact(more.min(most.saturating_sub(waiting)).max(USUAL));
        }
        &mut self.bytes
    }

    /// Gives the memory back if nothing is in it.
    #[inline]
    pub(crate) fn rest(&mut self) {
        if self.bytes.capacity() > 0 && self.len() == 0 {
            self.release();
        }
    }

    /// Gives the memory back with whatever is in it.
    #[inline]
    pub(crate) fn release(&mut self) {
        self.start = 0;
        give_back(&mut self.bytes);
    }
}

/// What the script wrote and the kernel has not taken.
#[derive(Debug, Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    start: usize,
}

impl Output {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    #[inline]
    pub(crate) fn content(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Adds bytes; says how many wait now.
    #[inline]
    pub(crate) fn append(&mut self, bytes: &[u8]) -> usize {
        if bytes.len() > self.bytes.capacity() - self.bytes.len() {
            self.make_room(bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
        self.len()
    }

    /// What does not fit into memory of its own is lent some.
    #[cold]
    fn make_room(&mut self, more: usize) {
        if self.bytes.capacity() == 0 && more <= SHORT {
            self.bytes = Vec::with_capacity(SHORT);
        } else if self.bytes.capacity() <= SHORT {
            let short = std::mem::replace(&mut self.bytes, lend());
            self.bytes.extend_from_slice(&short);
        }
    }

    /// Bytes that wait.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// The kernel has taken so many.
    // In line: after each answer.
    #[inline(always)]
    pub(crate) fn consume(&mut self, length: usize) {
        self.start = (self.start + length).min(self.bytes.len());
        if self.is_empty() {
            self.release();
        } else if self.start >= LARGE && self.start >= self.len() {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }

    /// Gives the memory back with whatever is in it, unless it is its own.
    #[inline]
    pub(crate) fn release(&mut self) {
        self.start = 0;
        if self.bytes.capacity() <= SHORT {
            self.bytes.clear();
        } else {
            give_back(&mut self.bytes);
        }
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.release();
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.release();
    }
}
