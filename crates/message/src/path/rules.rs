//! What listeners and routes say about paths, and how segments obey it.

use super::{PathProblem, escaped, hex_value};

/// What happens to something in a path that servers read in different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathAction {
    /// The request is refused with 400.
    Refuse,
    /// It is read as RFC 3986 or most servers read it, before anything is compared: dot segments are
    /// resolved, repeated slashes merged, escaped slashes and backslashes become slashes.
    Normalize,
    /// It is sent as the client wrote it.
    Keep,
}

/// What happens to parameters of segments: `;` and what follows it (RFC 3986, 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterAction {
    /// They are sent, and not compared.
    Ignore,
    /// They are neither compared nor sent.
    Strip,
    /// The request is refused with 400.
    Refuse,
    /// A semicolon is a character like others.
    Keep,
}

/// Whether upper and lower case differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathCase {
    /// They do.
    Sensitive,
    /// Paths are compared in lower case; ASCII letters only.
    Insensitive,
}

/// What a listener says about paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathRules {
    /// `.` and `..`. They are resolved in what is compared, whatever is sent.
    pub dot_segments: PathAction,
    /// Empty segments. They are merged in what is compared, whatever is sent, and at the beginning of a path.
    pub repeated_slashes: PathAction,
    /// `%2F`.
    pub escaped_slashes: PathAction,
    /// `\` and `%5C`.
    pub backslashes: PathAction,
    /// `%00` to `%1F` and `%7F`; [`PathAction::Normalize`] means the same as [`PathAction::Keep`].
    pub control_characters: PathAction,
    /// `;` and what follows it in a segment.
    pub parameters: ParameterAction,
    /// Whether case counts.
    pub case: PathCase,
}

impl PathRules {
    /// No spelling leads around a rule, whatever the upstream is, as long as case counts there.
    pub const DEFAULT: Self = Self {
        dot_segments: PathAction::Normalize,
        repeated_slashes: PathAction::Normalize,
        escaped_slashes: PathAction::Refuse,
        backslashes: PathAction::Refuse,
        control_characters: PathAction::Refuse,
        parameters: ParameterAction::Ignore,
        case: PathCase::Sensitive,
    };

    /// The same for a route with rules of its own: they change what is refused and sent, never what is
    /// compared.
    #[must_use]
    pub fn with(self, own: &PathOverrides) -> Self {
        Self {
            dot_segments: own.dot_segments.unwrap_or(self.dot_segments),
            repeated_slashes: own.repeated_slashes.unwrap_or(self.repeated_slashes),
            escaped_slashes: own.escaped_slashes.unwrap_or(self.escaped_slashes),
            backslashes: own.backslashes.unwrap_or(self.backslashes),
            control_characters: own.control_characters.unwrap_or(self.control_characters),
            parameters: own.parameters.unwrap_or(self.parameters),
            case: self.case,
        }
    }
}

impl Default for PathRules {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What a route says about paths; `None` is what its listener says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathOverrides {
    /// See [`PathRules::dot_segments`].
    pub dot_segments: Option<PathAction>,
    /// See [`PathRules::repeated_slashes`].
    pub repeated_slashes: Option<PathAction>,
    /// See [`PathRules::escaped_slashes`]; never [`PathAction::Normalize`], which would change what is compared.
    pub escaped_slashes: Option<PathAction>,
    /// See [`PathRules::backslashes`]; never [`PathAction::Normalize`].
    pub backslashes: Option<PathAction>,
    /// See [`PathRules::control_characters`].
    pub control_characters: Option<PathAction>,
    /// See [`PathRules::parameters`]; never [`ParameterAction::Keep`], which would change what is compared.
    pub parameters: Option<ParameterAction>,
}

/// Reads segments one by one into both spellings.
pub(super) struct Segments<'p> {
    pub(super) rules: &'p PathRules,
    pub(super) sent: &'p mut Vec<u8>,
    pub(super) compared: &'p mut Vec<u8>,
    pub(super) problem: &'p mut Option<PathProblem>,
}

impl Segments<'_> {
    /// Reads a path whose characters have one spelling each.
    pub(super) fn read(&mut self, spelled: &[u8]) {
        let mut segments = spelled.split(|&byte| byte == b'/').peekable();
        // A path starts with a slash: the first segment is the empty one before it.
        segments.next();
        while let Some(segment) = segments.next() {
            let last = segments.peek().is_none();
            let name = self.name(segment);
            self.judge(segment, (name, last));
            match name {
                b"" if last => {
                    self.send(segment);
                    self.compared.push(b'/');
                }
                // Two slashes at the beginning would begin a host for whoever resolves a reference (RFC 3986, 4.2).
                b"" if self.rules.repeated_slashes == PathAction::Keep && !self.sent.is_empty() => {
                    self.send(segment);
                }
                b"" => {}
                b"." | b".." => self.walk(segment, (name, last)),
                _ => {
                    self.send(segment);
                    self.compare(name);
                }
            }
        }
        for path in [&mut *self.sent, &mut *self.compared] {
            if path.is_empty() {
                path.push(b'/');
            }
        }
    }

    /// The segment without its parameters.
    fn name<'s>(&self, segment: &'s [u8]) -> &'s [u8] {
        match self.rules.parameters {
            ParameterAction::Keep => segment,
            _ => segment.split(|&byte| byte == b';').next().unwrap_or_default(),
        }
    }

    /// Notes what the rules refuse.
    fn judge(&mut self, segment: &[u8], (name, last): (&[u8], bool)) {
        let rules = self.rules;
        let dots = matches!(name, b"." | b"..");
        let refused = [
            (dots && rules.dot_segments == PathAction::Refuse, PathProblem::DotSegment),
            // An upstream that takes what is kept for a slash would leave the prefix that was compared.
            (
                hides_dots(segment) && rules.dot_segments != PathAction::Keep,
                PathProblem::DotSegment,
            ),
            (
                name.is_empty() && !last && rules.repeated_slashes == PathAction::Refuse,
                PathProblem::RepeatedSlash,
            ),
            (
                segment.contains(&b';') && rules.parameters == ParameterAction::Refuse,
                PathProblem::Parameter,
            ),
        ];
        for (holds, problem) in refused {
            if holds {
                *self.problem = self.problem.or(Some(problem));
            }
        }
    }

    /// A dot segment (RFC 3986, 5.2.4; never above the root).
    fn walk(&mut self, segment: &[u8], (name, last): (&[u8], bool)) {
        let kept = self.rules.dot_segments == PathAction::Keep;
        if kept {
            self.send(segment);
        }
        if name == b".." {
            let semicolons = self.rules.parameters == ParameterAction::Keep;
            // Empty segments behind the one that goes are only sent: what is sent stays what is compared.
            let is_named = |byte: &u8| semicolons || *byte != b';';
            if !kept {
                pop(self.sent, is_named);
            }
            pop(self.compared, is_named);
        }
        if last {
            if !kept {
                self.sent.push(b'/');
            }
            self.compared.push(b'/');
        }
    }

    fn send(&mut self, segment: &[u8]) {
        self.sent.push(b'/');
        let sent = match self.rules.parameters {
            ParameterAction::Strip => {
                segment.split(|&byte| byte == b';').next().unwrap_or_default()
            }
            _ => segment,
        };
        self.sent.extend_from_slice(sent);
    }

    /// Decodes what may stand for itself: whether `@`, `:` or `(` is escaped makes no difference to servers
    /// that look for a resource.
    fn compare(&mut self, name: &[u8]) {
        self.compared.push(b'/');
        let mut rest = name.iter().copied();
        while let Some(byte) = rest.next() {
            let (byte, was_escaped) = match byte {
                b'%' => {
                    let mut digit = || rest.next().and_then(hex_value).unwrap_or_default();
                    (digit() * 16 + digit(), true)
                }
                plain => (plain, false),
            };
            let own = match byte {
                // A slash or a mark of the query would become one; a percent sign might begin an escape.
                b'/' | b'%' | b'?' | b'#' | b'\\' => false,
                // Behind it would be a parameter.
                b';' => !was_escaped || self.rules.parameters == ParameterAction::Keep,
                _ => byte.is_ascii_graphic(),
            };
            match own {
                true if self.rules.case == PathCase::Insensitive => {
                    self.compared.push(byte.to_ascii_lowercase());
                }
                true => self.compared.push(byte),
                false => self.compared.extend_from_slice(&escaped(byte)),
            }
        }
    }
}

/// Takes off the last segment whose first byte says that it has a name, and those behind it.
fn pop(path: &mut Vec<u8>, is_named: impl Fn(&u8) -> bool) {
    while let Some(at) = path.iter().rposition(|&byte| byte == b'/') {
        let named = path.get(at + 1).is_some_and(&is_named);
        path.truncate(at);
        if named {
            return;
        }
    }
}

/// Whether a dot segment lies between what upstreams may take for slashes.
fn hides_dots(segment: &[u8]) -> bool {
    let is_dots =
        |piece: &[u8]| matches!(piece.split(|&byte| byte == b';').next(), Some(b"." | b".."));
    let mut rest = segment;
    while let Some((at, width)) = separator(rest) {
        if is_dots(rest.get(..at).unwrap_or_default()) {
            return true;
        }
        rest = rest.get(at + width..).unwrap_or_default();
    }
    rest.len() < segment.len() && is_dots(rest)
}

/// Where the first escaped slash or backslash is, and how long. Escapes are in upper case here.
fn separator(segment: &[u8]) -> Option<(usize, usize)> {
    (0..segment.len()).find_map(|at| match segment.get(at..)? {
        [b'\\', ..] => Some((at, 1)),
        [b'%', b'2', b'F', ..] | [b'%', b'5', b'C', ..] => Some((at, 3)),
        _ => None,
    })
}
