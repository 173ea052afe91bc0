//! Lua patterns, matched in steps that somebody can interrupt.
//!
//! The matcher of LuaJIT never looks at the budget of a run: a pattern such as `^%s*(.-)%s*$` takes time that grows
//! with the square of the text and more. This one gives the same results and reports the same mistakes, and asks every
//! few thousand steps whether it may go on.

use std::ops::Range;

use memchr::memchr;

/// Most captures of a pattern, as in LuaJIT.
const CAPTURES: usize = 32;

/// How deep matches are nested, as in LuaJIT.
const DEPTH: u32 = 200;

/// Steps between two questions whether to go on: some microseconds.
const SLICE: usize = 4096;

/// Why a match came to no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchError {
    /// The pattern is wrong, or asks for too much.
    Pattern(&'static str),
    /// It has taken too long.
    Interrupted,
}

const CLASS_END: MatchError = MatchError::Pattern("malformed pattern (missing ']')");
const ESCAPE_END: MatchError = MatchError::Pattern("malformed pattern (ends with '%')");
const NO_SET: MatchError = MatchError::Pattern("missing '[' after '%f' in pattern");
const NO_START: MatchError = MatchError::Pattern("invalid pattern capture");
const UNBALANCED: MatchError = MatchError::Pattern("unbalanced pattern");
const TOO_DEEP: MatchError = MatchError::Pattern("pattern too complex");
const NO_CAPTURE: MatchError = MatchError::Pattern("invalid capture index");
const TOO_MANY: MatchError = MatchError::Pattern("too many captures");
const UNFINISHED: MatchError = MatchError::Pattern("unfinished capture");

/// What a capture holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    /// A part of the text.
    Part(Range<usize>),
    /// A place in it, from 0 on.
    Place(usize),
}

/// How far a capture has come.
#[derive(Clone, Copy, Debug)]
enum Length {
    Open,
    Place,
    Closed(usize),
}

/// A pattern at work on a text.
pub(crate) struct Matcher<'m> {
    text: &'m [u8],
    pattern: &'m [u8],
    may_go_on: &'m dyn Fn() -> bool,
    captures: [(usize, Length); CAPTURES],
    level: usize,
    depth: u32,
    steps: usize,
}

impl<'m> Matcher<'m> {
    /// Matches a pattern without its anchor. It ends at the first zero, as in LuaJIT.
    pub(crate) fn new(text: &'m [u8], pattern: &'m [u8], may_go_on: &'m dyn Fn() -> bool) -> Self {
        let pattern = pattern.split(|byte| *byte == 0).next().unwrap_or_default();
        let captures = [(0, Length::Open); CAPTURES];
        Self { text, pattern, may_go_on, captures, level: 0, depth: 0, steps: 0 }
    }

    /// The first match that begins at `start` or behind it.
    pub(crate) fn find(&mut self, start: usize) -> Result<Option<Range<usize>>, MatchError> {
        let mut start = start;
        let literal = self.literal();
        while start <= self.text.len() {
            if let Some(byte) = literal {
                let rest = self.text.get(start..).unwrap_or_default();
                match memchr(byte, rest) {
                    Some(skipped) => start += skipped,
                    None => return Ok(None),
                }
            }
            if let Some(end) = self.at(start)? {
                return Ok(Some(start..end));
            }
            start += 1;
        }
        Ok(None)
    }

    /// The byte that every match begins with, where that is known at a glance.
    fn literal(&self) -> Option<u8> {
        let first = self.byte(0).filter(|byte| !has_specials(&[*byte]) && *byte != b')')?;
        match self.byte(1) {
            Some(b'*' | b'?' | b'-') => None,
            _ => Some(first),
        }
    }

    /// Where the match ends that begins at `start`.
    pub(crate) fn at(&mut self, start: usize) -> Result<Option<usize>, MatchError> {
        (self.level, self.depth) = (0, 0);
        self.go(start, 0)
    }

    /// Number of captures of the last match.
    pub(crate) const fn count(&self) -> usize {
        self.level
    }

    /// One of them, from 0 on; without any, the first is the whole match.
    pub(crate) fn capture(&self, index: usize, all: &Range<usize>) -> Result<Capture, MatchError> {
        match self.captures.get(index).filter(|_| index < self.level) {
            Some((start, Length::Closed(length))) => Ok(Capture::Part(*start..start + length)),
            Some((start, Length::Place)) => Ok(Capture::Place(*start)),
            Some((_, Length::Open)) => Err(UNFINISHED),
            None if index == 0 => Ok(Capture::Part(all.clone())),
            None => Err(NO_CAPTURE),
        }
    }

    #[inline]
    fn spend(&mut self, steps: usize) -> Result<(), MatchError> {
        self.steps += steps;
        if self.steps < SLICE {
            return Ok(());
        }
        self.steps = 0;
        if (self.may_go_on)() { Ok(()) } else { Err(MatchError::Interrupted) }
    }

    #[inline]
    fn byte(&self, place: usize) -> Option<u8> {
        self.pattern.get(place).copied()
    }

    fn go(&mut self, at: usize, pattern: usize) -> Result<Option<usize>, MatchError> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(TOO_DEEP);
        }
        let end = self.items(at, pattern)?;
        self.depth -= 1;
        Ok(end)
    }

    /// Matches the items of the pattern from one place on, without a call for those that are matched once.
    fn items(&mut self, mut at: usize, mut pattern: usize) -> Result<Option<usize>, MatchError> {
        loop {
            self.spend(1)?;
            let next = match (self.byte(pattern), self.byte(pattern + 1)) {
                (None, _) => return Ok(Some(at)),
                (Some(b'('), Some(b')')) => return self.open(at, pattern + 2, Length::Place),
                (Some(b'('), _) => return self.open(at, pattern + 1, Length::Open),
                (Some(b')'), _) => return self.close(at, pattern + 1),
                (Some(b'$'), None) => return Ok((at == self.text.len()).then_some(at)),
                (Some(b'%'), Some(b'b')) => {
                    self.balance(at, pattern + 2)?.map(|at| (at, pattern + 4))
                }
                (Some(b'%'), Some(b'f')) => {
                    self.frontier(at, pattern + 2)?.map(|pattern| (at, pattern))
                }
                (Some(b'%'), Some(digit @ b'0'..=b'9')) => {
                    self.again(at, digit)?.map(|at| (at, pattern + 2))
                }
                _ => match self.item(at, pattern)? {
                    Item::Next(at, pattern) => Some((at, pattern)),
                    Item::End(end) => return Ok(end),
                },
            };
            match next {
                Some(next) => (at, pattern) = next,
                None => return Ok(None),
            }
        }
    }

    /// One class of bytes, and how often it may come.
    fn item(&mut self, at: usize, pattern: usize) -> Result<Item, MatchError> {
        let end = self.class_end(pattern)?;
        let class = pattern..end;
        let matches = self.single(at, &class);
        self.spend(class.len())?;
        Ok(match self.byte(end) {
            Some(b'?') => {
                if matches && let Some(found) = self.go(at + 1, end + 1)? {
                    return Ok(Item::End(Some(found)));
                }
                Item::Next(at, end + 1)
            }
            Some(b'*') => Item::End(self.most(at, &class)?),
            Some(b'+') if matches => Item::End(self.most(at + 1, &class)?),
            Some(b'-') => Item::End(self.fewest(at, &class)?),
            Some(b'+') => Item::End(None),
            _ if matches => Item::Next(at + 1, end),
            _ => Item::End(None),
        })
    }

    fn most(&mut self, at: usize, class: &Range<usize>) -> Result<Option<usize>, MatchError> {
        let mut end = at;
        while self.single(end, class) {
            end += 1;
            self.spend(class.len())?;
        }
        loop {
            if let Some(found) = self.go(end, class.end + 1)? {
                return Ok(Some(found));
            }
            if end == at {
                return Ok(None);
            }
            end -= 1;
        }
    }

    fn fewest(&mut self, mut at: usize, class: &Range<usize>) -> Result<Option<usize>, MatchError> {
        loop {
            if let Some(found) = self.go(at, class.end + 1)? {
                return Ok(Some(found));
            }
            if !self.single(at, class) {
                return Ok(None);
            }
            self.spend(class.len())?;
            at += 1;
        }
    }

    fn open(
        &mut self,
        at: usize,
        pattern: usize,
        length: Length,
    ) -> Result<Option<usize>, MatchError> {
        let place = self.captures.get_mut(self.level).ok_or(TOO_MANY)?;
        *place = (at, length);
        self.level += 1;
        let end = self.go(at, pattern)?;
        if end.is_none() {
            self.level -= 1;
        }
        Ok(end)
    }

    fn close(&mut self, at: usize, pattern: usize) -> Result<Option<usize>, MatchError> {
        let open = self.captures.iter().take(self.level);
        let index = open.rev().position(|(_, length)| matches!(length, Length::Open));
        let index = index.map(|from_end| self.level - 1 - from_end).ok_or(NO_START)?;
        self.set_length(index, |start| Length::Closed(at - start));
        let end = self.go(at, pattern)?;
        if end.is_none() {
            self.set_length(index, |_| Length::Open);
        }
        Ok(end)
    }

    fn set_length(&mut self, index: usize, length: impl FnOnce(usize) -> Length) {
        if let Some((start, place)) = self.captures.get_mut(index) {
            *place = length(*start);
        }
    }

    /// `%bxy`: behind the last of what is balanced.
    fn balance(&mut self, at: usize, pattern: usize) -> Result<Option<usize>, MatchError> {
        let (Some(open), Some(close)) = (self.byte(pattern), self.byte(pattern + 1)) else {
            return Err(UNBALANCED);
        };
        if self.text.get(at) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1_usize;
        let mut end = at + 1;
        while let Some(byte) = self.text.get(end) {
            end += 1;
            if *byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(end));
                }
            } else if *byte == open {
                depth += 1;
            }
            self.spend(1)?;
        }
        Ok(None)
    }

    /// `%f[set]`: where the pattern goes on, if the set begins here.
    fn frontier(&mut self, at: usize, pattern: usize) -> Result<Option<usize>, MatchError> {
        if self.byte(pattern) != Some(b'[') {
            return Err(NO_SET);
        }
        let end = self.class_end(pattern)?;
        // Beside the text lie zeros.
        let before = at.checked_sub(1).and_then(|at| self.text.get(at)).copied().unwrap_or(0);
        let here = self.text.get(at).copied().unwrap_or(0);
        let set = self.pattern.get(pattern..end).unwrap_or_default();
        Ok((!in_set(before, set) && in_set(here, set)).then_some(end))
    }

    /// `%1`: what a capture holds, once more.
    fn again(&mut self, at: usize, digit: u8) -> Result<Option<usize>, MatchError> {
        let index = usize::from(digit).checked_sub(usize::from(b'1')).ok_or(NO_CAPTURE)?;
        let capture = self.captures.get(index).filter(|_| index < self.level);
        let (start, length) = match capture {
            Some((start, Length::Closed(length))) => (*start, *length),
            // As in LuaJIT, where the length of a place is more than any text has.
            Some((_, Length::Place)) => return Ok(None),
            Some((_, Length::Open)) | None => return Err(NO_CAPTURE),
        };
        self.spend(length / 16)?;
        let held = self.text.get(start..start + length);
        let here = self.text.get(at..at + length);
        Ok((here.is_some() && here == held).then_some(at + length))
    }

    /// Where a class ends that begins here.
    fn class_end(&self, pattern: usize) -> Result<usize, MatchError> {
        let mut place = pattern + 1;
        match self.byte(pattern) {
            Some(b'%') => match self.byte(place) {
                Some(_) => Ok(place + 1),
                None => Err(ESCAPE_END),
            },
            Some(b'[') => {
                if self.byte(place) == Some(b'^') {
                    place += 1;
                }
                // The first byte belongs to the set, whatever it is.
                loop {
                    let byte = self.byte(place).ok_or(CLASS_END)?;
                    place += 1;
                    if byte == b'%' && self.byte(place).is_some() {
                        place += 1;
                    }
                    if self.byte(place) == Some(b']') {
                        return Ok(place + 1);
                    }
                }
            }
            _ => Ok(place),
        }
    }

    /// Whether a byte of the text is of the class.
    #[inline]
    fn single(&self, at: usize, class: &Range<usize>) -> bool {
        let (Some(byte), Some(class)) = (self.text.get(at), self.pattern.get(class.clone())) else {
            return false;
        };
        match class {
            [b'.', ..] => true,
            [b'%', letter, ..] => in_class(*byte, *letter),
            [b'[', ..] => in_set(*byte, class),
            [other, ..] => byte == other,
            [] => false,
        }
    }
}

/// What came of an item of a pattern.
enum Item {
    /// The match goes on here, with the pattern from there on.
    Next(usize, usize),
    /// The whole rest was tried.
    End(Option<usize>),
}

/// Whether a byte is in a set with its brackets.
fn in_set(byte: u8, set: &[u8]) -> bool {
    let inner = set.get(1..set.len().saturating_sub(1)).unwrap_or_default();
    let (mut inner, found) = match inner {
        [b'^', rest @ ..] => (rest, false),
        _ => (inner, true),
    };
    loop {
        let (hit, rest) = match inner {
            [] => return !found,
            [b'%', letter, rest @ ..] => (in_class(byte, *letter), rest),
            [from, b'-', to, rest @ ..] => ((*from..=*to).contains(&byte), rest),
            [other, rest @ ..] => (byte == *other, rest),
        };
        if hit {
            return found;
        }
        inner = rest;
    }
}

/// Whether a byte is of the class with this letter; of one that names none, whether it is that letter.
fn in_class(byte: u8, letter: u8) -> bool {
    let is = match letter.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b'\t'..=b'\r' | b' '),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return byte == letter,
    };
    is != letter.is_ascii_uppercase()
}

/// Whether a pattern has bytes that do not stand for themselves.
pub(crate) fn has_specials(pattern: &[u8]) -> bool {
    pattern.iter().any(|byte| b"^$*+?.([%-".contains(byte))
}
