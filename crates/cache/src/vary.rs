//! Answers that are only for requests that say the same (RFC 9111, 4.1).

use sluice_message::{Fields, may_be_read_as};

use crate::key::write_values;
use crate::policy::items;

/// A field of requests that an answer depends on, and what the request said that it was given to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selecting {
    /// In lower case.
    name: Box<[u8]>,
    /// The lines, in the form of [`write_values`].
    values: Box<[u8]>,
}

/// What the fields of an answer say it depends on, with what the request says there.
pub(crate) fn selecting(answer: &Fields, request: &Fields) -> Vec<Selecting> {
    let mut all: Vec<Selecting> = Vec::new();
    for line in answer.values_of(b"vary") {
        for name in items(line) {
            let name = name.to_ascii_lowercase().into_boxed_slice();
            if all.iter().any(|known| known.name == name) {
                continue;
            }
            let mut values = Vec::new();
            // Nothing is for a request of which nobody knows what its origin has read in it.
            if !is_doubtful(request, &name) {
                write_values(request.values_of(&name), &mut values);
            }
            all.push(Selecting { name, values: values.into() });
        }
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

impl Selecting {
    /// Whether this request says the same.
    pub(crate) fn matches(&self, request: &Fields) -> bool {
        if self.values.is_empty() || is_doubtful(request, &self.name) {
            return false;
        }
        let mut rest = &*self.values;
        let mut same = true;
        for value in request.values_of(&self.name) {
            let behind = rest.strip_prefix(b"\n").and_then(|rest| rest.strip_prefix(value));
            match behind {
                Some(behind) => rest = behind,
                None => {
                    same = false;
                    break;
                }
            }
        }
        same && rest == [0] || *self.name == *b"accept-encoding" && self.means_the_same(request)
    }

    /// Whether the encodings are the same in another order or spelling (RFC 9110, 12.5.3).
    #[cold]
    fn means_the_same(&self, request: &Fields) -> bool {
        let stored = self.values.split(|&byte| byte == b'\n' || byte == 0);
        encodings(stored) == encodings(request.values_of(b"accept-encoding"))
    }

    /// The field of this name in lower case, and the lines in the form of [`write_values`].
    pub(crate) fn new(name: &[u8], values: &[u8]) -> Self {
        Self { name: name.into(), values: values.into() }
    }

    /// What it was made of.
    pub(crate) fn parts(&self) -> (&[u8], &[u8]) {
        (&self.name, &self.values)
    }

    /// Bytes it takes.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>() + self.name.len() + self.values.len()
    }
}

/// Whether a request has a header that is not of this name and that origins may take for one.
#[inline]
fn is_doubtful(request: &Fields, name: &[u8]) -> bool {
    request.is_ambiguous() && has_lookalike(request, name)
}

#[cold]
fn has_lookalike(request: &Fields, name: &[u8]) -> bool {
    let is_one = |have: &[u8]| may_be_read_as(have, name) && !have.eq_ignore_ascii_case(name);
    request.iter().any(|(have, _)| is_one(have))
}

/// The members of `Accept-Encoding` in a form of their own.
fn encodings<'v>(lines: impl Iterator<Item = &'v [u8]>) -> Vec<Vec<u8>> {
    let normal = |item: &[u8]| {
        let visible = item.iter().filter(|byte| !byte.is_ascii_whitespace());
        let mut text = visible.map(u8::to_ascii_lowercase).collect::<Vec<_>>();
        for full in [&b";q=1.000"[..], b";q=1.00", b";q=1.0", b";q=1"] {
            if text.ends_with(full) {
                text.truncate(text.len() - full.len());
                break;
            }
        }
        text
    };
    let mut all = lines.flat_map(items).map(normal).collect::<Vec<_>>();
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::fields;

    #[test]
    fn requests_get_what_was_given_to_one_that_said_the_same() {
        let (ae, al) = ("accept-encoding", "accept-language");
        let vary = "Accept-Encoding, ACCEPT-language,,accept-encoding";
        let all = selecting(
            &fields(&[("Vary", vary)]),
            &fields(&[(ae, "gzip, br;q=0.5"), (al, "de"), (al, "en")]),
        );
        assert_eq!(all.len(), 2);
        let good: &[&[(&str, &str)]] = &[
            &[(ae, "gzip, br;q=0.5"), (al, "de"), (al, "en")],
            &[(al, "de"), ("x", "y"), (ae, "gzip, br;q=0.5"), (al, "en")],
            &[(ae, "BR; q=0.5,gzip;q=1.0"), (al, "de"), (al, "en")],
            &[(ae, "br;q=0.5"), (ae, "gzip"), (al, "de"), (al, "en")],
        ];
        for lines in good {
            assert!(all.iter().all(|one| one.matches(&fields(lines))), "{lines:?}");
        }
        let bad: &[&[(&str, &str)]] = &[
            &[],
            &[(ae, "gzip, br;q=0.5"), (al, "de")],
            &[(ae, "gzip, br;q=0.5"), (al, "en"), (al, "de")],
            &[(ae, "gzip, br;q=0.5"), (al, "de"), (al, "en"), (al, "fr")],
            &[(ae, "gzip, br"), (al, "de"), (al, "en")],
            &[(ae, "gzip"), (al, "de"), (al, "en")],
        ];
        for lines in bad {
            assert!(!all.iter().all(|one| one.matches(&fields(lines))), "{lines:?}");
        }
        for name in ["Accept_Language", "accept.encoding"] {
            let mut doubtful =
                fields(&[(ae, "gzip, br;q=0.5"), (al, "de"), (al, "en"), (name, "x")]);
            *doubtful.lines_mut().1 = true;
            assert!(!all.iter().all(|one| one.matches(&doubtful)), "{name}");
            let kept = selecting(&fields(&[("Vary", vary)]), &doubtful);
            assert!(!kept.iter().all(|one| one.matches(&doubtful)), "{name}");
            assert!(!kept.iter().all(|one| one.matches(&fields(&[]))), "{name}");
        }
        // Absent is not empty.
        let absent = selecting(&fields(&[("Vary", "x-a")]), &fields(&[]));
        assert!(absent[0].matches(&fields(&[])) && !absent[0].matches(&fields(&[("x-a", "")])));
    }
}
