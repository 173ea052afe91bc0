//! Byte buffers that are lent to connections while they have something to say.

use std::cell::RefCell;

/// What an exchange usually needs; a head or a burst of pipelined requests fits.
const USUAL: usize = 8 * 1024;

/// What a busy transfer grows to: fewer system calls per byte, still small in the cache.
const LARGE: usize = 64 * 1024;

/// Buffers kept for reuse per thread.
const KEPT: usize = 128;

thread_local! {
    static POOL: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Bytes between a producer and a consumer.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// Bytes before this were consumed.
    start: usize,
}

impl Buffer {
    pub(crate) const fn new() -> Self {
        Self { bytes: Vec::new(), start: 0 }
    }

    #[inline]
    pub(crate) fn content(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// Drops the first bytes of the content. The memory is kept: see [`Buffer::rest`].
    #[inline]
    pub(crate) fn consume(&mut self, length: usize) {
        self.start = (self.start + length).min(self.bytes.len());
        if self.start == self.bytes.len() {
            self.start = 0;
            self.bytes.clear();
        } else if self.start >= LARGE && self.start >= self.len() {
            self.move_to_front();
        }
    }

    /// All of it is consumed.
    #[inline]
    pub(crate) fn forget(&mut self) {
        self.start = 0;
        self.bytes.clear();
    }

    /// Output that is never quite taken would grow without end if consumed bytes stayed before it.
    /// What is moved is never more than what was consumed since the last time.
    #[cold]
    fn move_to_front(&mut self) {
        self.bytes.drain(..self.start);
        self.start = 0;
    }

    /// Gives the memory back if there is no content: for whoever is going to wait.
    #[inline]
    pub(crate) fn rest(&mut self) {
        if self.is_empty() {
            self.release();
        }
    }

    /// Gives the memory back if it is more than usual and there is no content.
    #[inline]
    pub(crate) fn shrink(&mut self) {
        if self.bytes.capacity() > 2 * USUAL {
            self.rest();
        }
    }

    /// Gives the memory back and forgets the content.
    pub(crate) fn release(&mut self) {
        self.start = 0;
        if self.bytes.capacity() == 0 {
            return;
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        if bytes.capacity() <= LARGE {
            POOL.with_borrow_mut(|pool| {
                if pool.len() < KEPT {
                    bytes.clear();
                    pool.push(bytes);
                }
            });
        }
    }

    /// The vector to append to. Consumed bytes still lie before the content.
    #[inline(always)]
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() == 0 {
            self.borrow_memory();
        }
        &mut self.bytes
    }

    #[cold]
    #[inline(never)]
    fn borrow_memory(&mut self) {
        let bytes = POOL.with_borrow_mut(Vec::pop);
        self.bytes = bytes.unwrap_or_else(|| Vec::with_capacity(USUAL));
    }

    /// The vector to read into, with room: the content is moved to the front first, and a buffer
    /// that is full, or that a transfer keeps filling, grows.
    pub(crate) fn tail_with_room(&mut self, pressure: Pressure) -> &mut Vec<u8> {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        let bytes = self.tail();
        if bytes.len() == bytes.capacity() {
            bytes.reserve(bytes.len().max(USUAL));
        } else if pressure == Pressure::High && bytes.capacity() < LARGE {
            bytes.reserve_exact(LARGE - bytes.len());
        }
        &mut self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.release();
    }
}

/// Whether the last read filled all the room there was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pressure {
    #[default]
    Low,
    High,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_never_quite_consumed_does_not_pile_up() {
        let mut buffer = Buffer::new();
        buffer.tail().extend_from_slice(b"lag");
        for turn in 0_u8..=255 {
            buffer.tail().extend_from_slice(&[turn; 32 * 1024]);
            buffer.consume(32 * 1024);
            assert_eq!(buffer.content(), [turn; 3].as_slice());
            assert!(buffer.bytes.capacity() <= 4 * LARGE, "{}", buffer.bytes.capacity());
        }
    }
}
