//! The path of a request: the spelling that is compared and the spelling that is sent.
//!
//! A gateway that compares one spelling of a path and sends another can be walked around: its rules
//! see one resource, its upstream serves another. [`PathRules::read`] is the only function that reads
//! paths. It makes both spellings in one pass over the same segments:
//!
//! - The *sent* path is what the client wrote, in its normal form (RFC 3986, 6.2.2): escapes of unreserved
//!   characters decoded, other escapes in upper case, dot segments removed, repeated slashes merged.
//! - The *compared* path is the sent path without what upstreams disagree about: without `;` parameters,
//!   with escapes of all characters decoded that may stand for themselves in a path, and in lower case
//!   where case does not count. Routes, conditions and scripts see this one.

mod rules;
#[cfg(test)]
mod tests;

pub use rules::{ParameterAction, PathAction, PathCase, PathOverrides, PathRules};

use rules::Segments;

/// Why a path is refused with 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathProblem {
    /// A percent sign that two hexadecimal digits do not follow (RFC 3986, 2.1).
    BadEscape,
    /// An escaped slash (`%2F`), which some servers decode before they look for a resource.
    EscapedSlash,
    /// A backslash, raw or escaped (`%5C`), which some servers take for a slash.
    Backslash,
    /// An escaped control character, NUL included, which no honest client sends.
    ControlCharacter,
    /// A dot segment, where those are refused, or one between slashes that are kept in an escaped form.
    DotSegment,
    /// An empty segment, where those are refused.
    RepeatedSlash,
    /// A `;` parameter, where those are refused.
    Parameter,
}

impl PathProblem {
    /// In the words of a log line.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::BadEscape => "a percent sign without two hexadecimal digits",
            Self::EscapedSlash => "an escaped slash",
            Self::Backslash => "a backslash",
            Self::ControlCharacter => "an escaped control character",
            Self::DotSegment => "a dot segment",
            Self::RepeatedSlash => "a repeated slash",
            Self::Parameter => "a parameter behind a semicolon",
        }
    }
}

/// Whether a path may differ from its sent and its compared spelling. Decoders find out while they scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathForm {
    /// Both spellings are the path as it stands.
    #[default]
    Normal,
    /// [`PathRules::read`] has to say.
    Unread,
}

impl PathForm {
    /// The form of a path that no decoder has scanned.
    #[must_use]
    pub fn of(path: &[u8]) -> Self {
        let mut previous = 0_u8;
        for &byte in path {
            let odd = matches!(byte, b'%' | b';' | b'\\');
            if odd || (previous == b'/' && matches!(byte, b'/' | b'.')) {
                return Self::Unread;
            }
            previous = byte;
        }
        Self::Normal
    }
}

/// Both spellings of a path. Its memory is used again.
#[derive(Clone, Debug, Default)]
pub struct PathSpellings {
    /// What upstreams get.
    pub sent: Vec<u8>,
    /// What is compared.
    pub compared: Vec<u8>,
    /// What the rules refuse in it; the first such thing.
    pub problem: Option<PathProblem>,
    /// The path with characters decoded, before its segments are looked at.
    spelled: Vec<u8>,
}

impl PathRules {
    /// Reads a path in origin form (RFC 9112, 3.2.1) into `out`. What the rules refuse is noted there and
    /// read as if it were kept, so that a route can be found that may allow it.
    ///
    /// Reading the sent path again yields the same.
    ///
    /// # Errors
    /// [`PathProblem::BadEscape`]: such a path has no spelling at all.
    pub fn read(&self, path: &[u8], out: &mut PathSpellings) -> Result<(), PathProblem> {
        out.sent.clear();
        out.compared.clear();
        out.spelled.clear();
        out.problem = None;
        out.spell(self, path)?;
        let PathSpellings { sent, compared, problem, spelled } = out;
        Segments { rules: self, sent, compared, problem }.read(spelled);
        Ok(())
    }
}

impl PathSpellings {
    /// Nothing, if the rules allow the path that was read.
    ///
    /// # Errors
    /// What they refuse.
    pub fn check(&self) -> Result<(), PathProblem> {
        self.problem.map_or(Ok(()), Err)
    }

    fn note(&mut self, problem: PathProblem) {
        self.problem = self.problem.or(Some(problem));
    }

    /// Gives every character one spelling.
    fn spell(&mut self, rules: &PathRules, path: &[u8]) -> Result<(), PathProblem> {
        let mut rest = path.iter().copied();
        while let Some(byte) = rest.next() {
            match byte {
                b'%' => {
                    let high = rest.next().and_then(hex_value).ok_or(PathProblem::BadEscape)?;
                    let low = rest.next().and_then(hex_value).ok_or(PathProblem::BadEscape)?;
                    self.spell_escaped(rules, high * 16 + low);
                }
                b'\\' => self.spell_separator(rules.backslashes, PathProblem::Backslash, b"\\"),
                plain => self.spelled.push(plain),
            }
        }
        Ok(())
    }

    fn spell_escaped(&mut self, rules: &PathRules, byte: u8) {
        let escape = escaped(byte);
        match byte {
            b'/' => {
                self.spell_separator(rules.escaped_slashes, PathProblem::EscapedSlash, &escape);
            }
            b'\\' => self.spell_separator(rules.backslashes, PathProblem::Backslash, &escape),
            0..=0x1f | 0x7f => {
                if rules.control_characters == PathAction::Refuse {
                    self.note(PathProblem::ControlCharacter);
                }
                self.spelled.extend_from_slice(&escape);
            }
            // RFC 3986, 2.3: an unreserved character and its escape are the same.
            _ if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => self.spelled.push(byte),
            _ => self.spelled.extend_from_slice(&escape),
        }
    }

    /// Something that servers may take for a slash.
    fn spell_separator(&mut self, action: PathAction, problem: PathProblem, kept: &[u8]) {
        match action {
            PathAction::Normalize => self.spelled.push(b'/'),
            PathAction::Keep => self.spelled.extend_from_slice(kept),
            PathAction::Refuse => {
                self.note(problem);
                self.spelled.extend_from_slice(kept);
            }
        }
    }
}

/// What is left of the sent and of the compared path behind a prefix of the latter; `None` if the path does not
/// begin with these whole segments. Where the two cannot be laid side by side, because dot segments are sent, both are
/// the compared one.
///
/// `prefix` is in compared form; a slash at its end does not count.
#[must_use]
pub fn strip_path_prefix<'p>(
    (sent, compared): (&'p [u8], &'p [u8]),
    prefix: &[u8],
) -> Option<(&'p [u8], &'p [u8])> {
    let prefix = prefix.strip_suffix(b"/").unwrap_or(prefix);
    let rest = compared.strip_prefix(prefix)?;
    if !rest.is_empty() && !rest.starts_with(b"/") {
        return None;
    }
    let segments =
        |path: &[u8]| path.split(|&byte| byte == b'/').filter(|it| !it.is_empty()).count();
    let mut left = sent;
    for _ in 0..segments(prefix) {
        let start = left.iter().position(|&byte| byte != b'/').unwrap_or(left.len());
        let segment = left.get(start..).unwrap_or_default();
        let end = segment.iter().position(|&byte| byte == b'/').unwrap_or(segment.len());
        left = segment.get(end..).unwrap_or_default();
    }
    let alike = segments(left) == segments(rest);
    Some((if alike { left } else { rest }, rest))
}

const fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

const fn escaped(byte: u8) -> [u8; 3] {
    [b'%', hex_digit(byte >> 4), hex_digit(byte & 15)]
}

const fn hex_digit(value: u8) -> u8 {
    if value < 10 { b'0' + value } else { b'A' + value - 10 }
}
