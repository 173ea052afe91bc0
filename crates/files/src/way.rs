//! From the path of a request to the name of a file.

use std::borrow::Cow;

use sluice_message::{PathCase, strip_path_prefix};

use crate::{Names, Settings};

/// Longer names no file system has.
const LONGEST: usize = 4096;

/// What a path asks for beneath the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// Names with slashes between them, none before and none behind; empty for the root itself.
    pub(crate) path: Vec<u8>,
    /// Whether a slash is behind it.
    pub(crate) folder: bool,
}

impl Way {
    /// What this path, sent and compared, asks for; `None` if there can be nothing. A file is found by the sent
    /// path, as an upstream would find it.
    pub(crate) fn of(path: (&[u8], &[u8]), case: PathCase, settings: &Settings) -> Option<Self> {
        let prefix = match case {
            PathCase::Sensitive => Cow::Borrowed(settings.strip_prefix.as_slice()),
            // Paths are compared in lower case.
            PathCase::Insensitive => Cow::Owned(settings.strip_prefix.to_ascii_lowercase()),
        };
        let (rest, _) = strip_path_prefix(path, &prefix)?;
        let plain = decode(rest)?;
        let folder = plain.ends_with(b"/");
        let inner = plain.strip_prefix(b"/").unwrap_or(&plain);
        let inner = inner.strip_suffix(b"/").unwrap_or(inner);
        if inner.len() > LONGEST || !inner.is_empty() && !may_exist(inner, settings.hidden) {
            return None;
        }
        Some(Self { path: inner.to_vec(), folder })
    }

    /// A path that the configuration names, with what was asked for put in where it wants it.
    pub(crate) fn made(parts: &[Vec<u8>], asked: &Self) -> Self {
        let own = [parts_are_plain(parts), asked.folder] == [true, true];
        let mut text = parts.join(asked.path.as_slice());
        let folder = own || text.ends_with(b"/");
        while text.ends_with(b"/") {
            text.pop();
        }
        let start = text.iter().take_while(|byte| **byte == b'/').count();
        text.drain(..start);
        Self { path: text, folder }
    }

    /// The same with a name behind it.
    pub(crate) fn join(&self, name: &[u8]) -> Vec<u8> {
        match self.path.as_slice() {
            b"" => name.to_vec(),
            path => [path, b"/", name].concat(),
        }
    }
}

/// Whether this is what was asked for and nothing else.
pub(crate) fn parts_are_plain(parts: &[Vec<u8>]) -> bool {
    matches!(parts, [before, after] if matches!(before.as_slice(), b"" | b"/") && after.is_empty())
}

/// Escapes decoded, once. An escaped slash separates nothing, and no name has one; NUL ends names.
fn decode(path: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path.iter();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'%' => {
                let mut digit = || char::from(*rest.next()?).to_digit(16);
                let value = digit()? * 16 + digit()?;
                u8::try_from(value).ok().filter(|byte| *byte != b'/')?
            }
            byte => *byte,
        };
        if byte == 0 {
            return None;
        }
        plain.push(byte);
    }
    Some(plain)
}

/// Whether names like these are answered for.
fn may_exist(path: &[u8], hidden: Names) -> bool {
    let mut names = path.split(|byte| *byte == b'/').enumerate();
    names.all(|(place, name)| match name {
        // The form of paths has none of these; what has come from elsewhere is not believed.
        b"" | b"." | b".." => false,
        b".well-known" if place == 0 => true,
        name => hidden == Names::All || !name.starts_with(b"."),
    })
}

/// A name as a part of a path in a reference (RFC 3986, 3.3): nothing in it means anything.
pub(crate) fn encode(name: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in name {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte);
        } else {
            let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or(b'0');
            out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::tests::settings;

    #[test]
    fn paths_are_decoded_once_and_lead_nowhere_else() {
        let plain = settings("/");
        let mut stripped = plain.clone();
        stripped.strip_prefix = b"/static".to_vec();
        let mut all = plain.clone();
        all.hidden = Names::All;
        type Row<'r> = (&'r str, &'r Settings, Option<(&'r str, bool)>);
        let rows: [Row<'_>; 26] = [
            ("/", &plain, Some(("", true))),
            ("/a/b.txt", &plain, Some(("a/b.txt", false))),
            ("/a/", &plain, Some(("a", true))),
            ("/a%20b", &plain, Some(("a b", false))),
            ("/%C3%A4", &plain, Some(("ä", false))),
            ("/a\\..\\b", &plain, Some(("a\\..\\b", false))),
            ("/%252e%252e/x", &plain, Some(("%2e%2e/x", false))),
            ("/a%2Fb", &plain, None),
            ("/a%2fb", &plain, None),
            ("/..%2Fx", &plain, None),
            ("/a%00", &plain, None),
            ("/a%", &plain, None),
            ("/a%zz", &plain, None),
            ("/../x", &plain, None),
            ("/a/../x", &plain, None),
            ("//a", &plain, None),
            ("/.git/config", &plain, None),
            ("/a/.env", &plain, None),
            ("/.well-known/x", &plain, Some((".well-known/x", false))),
            ("/a/.well-known/x", &plain, None),
            ("/.git/config", &all, Some((".git/config", false))),
            ("/a/..", &all, None),
            ("/static/a", &stripped, Some(("a", false))),
            ("/static", &stripped, Some(("", false))),
            ("/statics", &stripped, None),
            ("/other", &stripped, None),
        ];
        for (path, settings, expected) in rows {
            let way = Way::of((path.as_bytes(), path.as_bytes()), PathCase::Sensitive, settings);
            let expected = expected.map(|(path, folder)| Way { path: path.into(), folder });
            assert_eq!(way, expected, "{path}");
        }
        let long = [b'/'; 2].repeat(4000);
        assert_eq!(Way::of((&long, &long), PathCase::Sensitive, &plain), None);
        let long = [&b"/"[..], &[b'a'; LONGEST + 1]].concat();
        assert_eq!(Way::of((&long, &long), PathCase::Sensitive, &plain), None);
    }

    #[test]
    fn attempts_are_filled_in() {
        let parts = |text: &str| -> Vec<Vec<u8>> {
            text.split("{path}").map(|part| part.as_bytes().to_vec()).collect()
        };
        let asked = |path: &str, folder| Way { path: path.into(), folder };
        let rows = [
            ("{path}", asked("a/b", false), asked("a/b", false)),
            ("{path}", asked("a/b", true), asked("a/b", true)),
            ("/{path}", asked("a", true), asked("a", true)),
            ("{path}.html", asked("a/b", false), asked("a/b.html", false)),
            ("{path}/", asked("a", false), asked("a", true)),
            ("/index.html", asked("a/b", true), asked("index.html", false)),
            ("/pages/{path}/x", asked("a", true), asked("pages/a/x", false)),
            ("{path}", asked("", true), asked("", true)),
        ];
        for (text, asked, expected) in rows {
            assert_eq!(Way::made(&parts(text), &asked), expected, "{text}");
        }
    }
}
