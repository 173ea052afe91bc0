//! Texts replaced in content that comes in pieces: the same comes out however it is cut.

mod literal;
mod pattern;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use literal::{Literal, LiteralStream};
use pattern::{Pattern, PatternStream};

/// Bytes that a text to find may have.
pub const LONGEST_TEXT: usize = 4096;

/// How often a text is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrences {
    /// Wherever it is found.
    All,
    /// The first time it is found in a message.
    First,
}

/// Whether capitals and small letters of ASCII are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// They differ.
    Matters,
    /// They are the same.
    Ignored,
}

/// What is looked for, and what takes its place.
#[derive(Clone, Debug)]
pub struct Replacement {
    search: Search,
    occurrences: Occurrences,
}

#[derive(Clone, Debug)]
enum Search {
    Literal(Arc<Literal>),
    Pattern(Arc<Pattern>),
}

impl Replacement {
    /// Puts `with` where `text` stands.
    ///
    /// # Errors
    /// Why there can be no such search, for the user: the text is empty or too long.
    pub fn of_text(
        text: &str,
        with: &str,
        case: Case,
        occurrences: Occurrences,
    ) -> Result<Self, String> {
        if text.is_empty() {
            return Err("an empty text is found everywhere".to_owned());
        }
        if text.len() > LONGEST_TEXT {
            return Err(format!("the text is longer than {LONGEST_TEXT} bytes"));
        }
        let search = match case {
            Case::Matters => Search::Literal(Arc::new(Literal::new(text, with))),
            Case::Ignored => {
                let expression = format!("(?i){}", regex::escape(text));
                let with = with.replace('$', "$$");
                Search::Pattern(Arc::new(Pattern::new(&expression, &with, LONGEST_TEXT)?))
            }
        };
        Ok(Self { search, occurrences })
    }

    /// Puts `with` where the regular expression matches; `$1` and `${name}` in it stand for groups, `$$` for a
    /// dollar. Classes mean ASCII. At most `longest` bytes are kept back to find a match: a longer one is not
    /// found, or ends there.
    ///
    /// # Errors
    /// Why there can be no such search, for the user.
    pub fn of_expression(
        expression: &str,
        with: &str,
        longest: usize,
        occurrences: Occurrences,
    ) -> Result<Self, String> {
        let pattern = Pattern::new(expression, with, longest)?;
        Ok(Self { search: Search::Pattern(Arc::new(pattern)), occurrences })
    }

    /// For the content of one message.
    #[must_use]
    pub fn stream(&self) -> ReplacementStream {
        let search = match &self.search {
            Search::Literal(literal) => Searching::Literal(LiteralStream::new(Arc::clone(literal))),
            Search::Pattern(pattern) => Searching::Pattern(PatternStream::new(Arc::clone(pattern))),
        };
        ReplacementStream { search, occurrences: self.occurrences }
    }
}

/// A replacement in the content of one message.
#[derive(Debug)]
pub struct ReplacementStream {
    search: Searching,
    occurrences: Occurrences,
}

#[derive(Debug)]
enum Searching {
    Literal(LiteralStream),
    Pattern(PatternStream),
}

impl ReplacementStream {
    /// Takes a piece and appends what is settled: all but what may be the beginning of a match.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        match &mut self.search {
            Searching::Literal(stream) => stream.push(piece, self.occurrences, out),
            Searching::Pattern(stream) => stream.push(piece, self.occurrences, out),
        }
    }

    /// There is no more: appends what was kept back.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        match &mut self.search {
            Searching::Literal(stream) => stream.end(out),
            Searching::Pattern(stream) => stream.end(self.occurrences, out),
        }
    }
}
