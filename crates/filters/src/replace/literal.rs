//! A literal text found in pieces.

use std::sync::Arc;

use memchr::memmem::Finder;

use super::Occurrences;

/// A text that is looked for, and what takes its place.
#[derive(Debug)]
pub(super) struct Literal {
    finder: Finder<'static>,
    /// For each length of a beginning of the text: how long a shorter beginning is its end (Knuth, Morris,
    /// Pratt).
    borders: Box<[usize]>,
    with: Box<[u8]>,
}

impl Literal {
    pub(super) fn new(text: &str, with: &str) -> Self {
        let mut literal = Self {
            finder: Finder::new(text).into_owned(),
            borders: Box::default(),
            with: with.as_bytes().into(),
        };
        let mut borders = vec![0; text.len() + 1];
        for (length, byte) in text.bytes().enumerate().skip(1) {
            literal.borders = borders.as_slice().into();
            let border = borders.get(length).copied().unwrap_or_default();
            if let Some(next) = borders.get_mut(length + 1) {
                *next = literal.longer(border, byte);
            }
        }
        literal.borders = borders.into();
        literal
    }

    /// How long a beginning of the text stands at the end, if one of `matched` bytes stood there before `byte`.
    fn longer(&self, mut matched: usize, byte: u8) -> usize {
        loop {
            if self.finder.needle().get(matched) == Some(&byte) {
                return matched + 1;
            }
            if matched == 0 {
                return 0;
            }
            matched = self.borders.get(matched).copied().unwrap_or_default();
        }
    }

    /// How many bytes at the end of `rest`, in which the text is not, may be its beginning.
    fn begun(&self, rest: &[u8]) -> usize {
        let longest = self.finder.needle().len().saturating_sub(1);
        let tail = rest.get(rest.len().saturating_sub(longest)..).unwrap_or_default();
        tail.iter().fold(0, |matched, byte| self.longer(matched, *byte))
    }
}

/// The search in one message.
#[derive(Debug)]
pub(super) struct LiteralStream {
    literal: Arc<Literal>,
    /// What may be the beginning of the text.
    held: Vec<u8>,
    found: bool,
}

impl LiteralStream {
    pub(super) const fn new(literal: Arc<Literal>) -> Self {
        Self { literal, held: Vec::new(), found: false }
    }

    pub(super) fn push(&mut self, piece: &[u8], occurrences: Occurrences, out: &mut Vec<u8>) {
        if self.held.is_empty() {
            let kept = self.search(piece, occurrences, out);
            self.held.extend_from_slice(kept);
            return;
        }
        let mut whole = std::mem::take(&mut self.held);
        whole.extend_from_slice(piece);
        let kept = self.search(&whole, occurrences, out).len();
        whole.drain(..whole.len() - kept);
        self.held = whole;
    }

    /// Appends what is settled of `text` and gives the rest back.
    fn search<'t>(
        &mut self,
        text: &'t [u8],
        occurrences: Occurrences,
        out: &mut Vec<u8>,
    ) -> &'t [u8] {
        let mut rest = text;
        while !self.is_over(occurrences) {
            let Some(at) = self.literal.finder.find(rest) else {
                let settled = rest.len() - self.literal.begun(rest);
                let (settled, begun) = rest.split_at_checked(settled).unwrap_or((rest, b""));
                out.extend_from_slice(settled);
                return begun;
            };
            self.found = true;
            out.extend_from_slice(rest.get(..at).unwrap_or_default());
            out.extend_from_slice(&self.literal.with);
            rest = rest.get(at + self.literal.finder.needle().len()..).unwrap_or_default();
        }
        out.extend_from_slice(rest);
        b""
    }

    fn is_over(&self, occurrences: Occurrences) -> bool {
        self.found && occurrences == Occurrences::First
    }

    pub(super) fn end(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.held);
    }
}
