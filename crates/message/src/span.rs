//! A range of bytes inside a head.

use std::ops::Range;

/// A half-open range of byte offsets into the bytes of a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The span from `start` to `end`; `end` before `start` reads as empty.
    #[must_use]
    pub const fn new(start: u32, end: u32) -> Self {
        Self { start, end }
    }

    /// The span of `start..end` given as `usize`. Offsets beyond `u32::MAX` saturate, which makes
    /// [`Span::of`] answer empty; heads are limited to 64 KiB long before that.
    #[must_use]
    pub fn at(start: usize, end: usize) -> Self {
        Self { start: offset(start), end: offset(end) }
    }

    /// As a range to index with.
    #[must_use]
    #[inline]
    #[expect(
        clippy::as_conversions,
        reason = "u32 to usize never loses bits on the 32- and 64-bit targets we build for"
    )]
    pub const fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The bytes of `bytes` that the span covers, empty if it points outside.
    #[must_use]
    #[inline]
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.range()).unwrap_or_default()
    }

    /// The same length, so many bytes further on.
    #[must_use]
    #[inline]
    pub(crate) const fn shifted(self, by: u32) -> Self {
        Self { start: self.start.saturating_add(by), end: self.end.saturating_add(by) }
    }

    /// Whether the span covers nothing.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// Length in bytes.
    #[must_use]
    pub const fn len(self) -> u32 {
        self.end.saturating_sub(self.start)
    }
}

/// An offset as it is kept in spans; saturates.
#[inline]
pub(crate) fn offset(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
