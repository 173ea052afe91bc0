//! Conditional requests, judged by who has the representation they ask for (RFC 9110, 13).

use crate::{Fields, parse_http_date};

/// What tells a representation from others of its resource (RFC 9110, 8.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validators<'a> {
    /// Value of `ETag`, with its quotes and `W/`.
    pub etag: Option<&'a [u8]>,
    /// When it was changed, in seconds since 1970.
    pub last_modified: Option<u64>,
    /// When it was sent or is sent, in seconds since 1970: says whether `last_modified` is a strong validator
    /// (RFC 9110, 8.8.2.2).
    pub date: u64,
}

/// What a condition comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// The request is done as if there was no condition.
    Holds,
    /// The client has the representation already: 304 (RFC 9110, 15.4.5).
    NotModified,
    /// The client meant another one: 412 (RFC 9110, 15.5.13).
    Failed,
}

/// How two entity tags are compared (RFC 9110, 8.8.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Equal, and neither of them weak.
    Strong,
    /// Equal apart from that.
    Weak,
}

/// What the conditions of a GET or HEAD request come to, in the order of RFC 9110, 13.2.2.
#[must_use]
pub fn judge_preconditions(request: &Fields, have: &Validators<'_>) -> Precondition {
    if has(request, b"if-match") {
        if !names_tag(request.values_of(b"if-match"), have.etag, Comparison::Strong) {
            return Precondition::Failed;
        }
    } else if let Some(limit) = date_of(request, b"if-unmodified-since", have)
        && have.last_modified.is_some_and(|changed| changed > limit)
    {
        return Precondition::Failed;
    }
    judge_novelty(request, have)
}

/// What `If-None-Match` and `If-Modified-Since` come to: the conditions that a cache judges
/// (RFC 9111, 4.3.2).
#[must_use]
pub fn judge_novelty(request: &Fields, have: &Validators<'_>) -> Precondition {
    if has(request, b"if-none-match") {
        let known = names_tag(request.values_of(b"if-none-match"), have.etag, Comparison::Weak);
        return if known { Precondition::NotModified } else { Precondition::Holds };
    }
    match (date_of(request, b"if-modified-since", have), have.last_modified) {
        (Some(limit), Some(changed)) if changed <= limit => Precondition::NotModified,
        _ => Precondition::Holds,
    }
}

/// Whether a range is to be obeyed: `If-Range` is absent or names what there is (RFC 9110, 13.1.5).
#[must_use]
pub fn range_applies(request: &Fields, have: &Validators<'_>) -> bool {
    let mut values = request.values_of(b"if-range");
    let Some(value) = values.next() else { return true };
    if values.next().is_some() {
        return false;
    }
    if value.contains(&b'"') {
        return have.etag.is_some_and(|etag| same_tag(value, etag, Comparison::Strong));
    }
    // A date that is not exactly this one, or may stand for two representations, is no match.
    let strong = |changed: u64| changed.saturating_add(1) <= have.date;
    match (parse_http_date(value, have.date), have.last_modified) {
        (Some(date), Some(changed)) => date == changed && strong(changed),
        _ => false,
    }
}

/// Whether two entity tags are the same.
#[must_use]
pub fn same_tag(one: &[u8], other: &[u8], comparison: Comparison) -> bool {
    let (one_text, other_text) = (opaque(one), opaque(other));
    let weak = one_text.len() != one.len() || other_text.len() != other.len();
    one_text == other_text && !(weak && comparison == Comparison::Strong)
}

/// An entity tag without the mark of a weak one, which is written in upper case (RFC 9110, 8.8.3).
fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

fn has(fields: &Fields, name: &[u8]) -> bool {
    fields.values_of(name).next().is_some()
}

/// The one date of a field; several are none.
fn date_of(fields: &Fields, name: &[u8], have: &Validators<'_>) -> Option<u64> {
    let mut values = fields.values_of(name);
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    parse_http_date(value, have.date)
}

/// Whether a list of entity tags has this one; a star stands for any.
fn names_tag<'v>(
    values: impl Iterator<Item = &'v [u8]>,
    have: Option<&[u8]>,
    comparison: Comparison,
) -> bool {
    for value in values {
        if value == b"*" {
            return true;
        }
        let Some(have) = have else { continue };
        if Tags(value).any(|tag| same_tag(tag, have, comparison)) {
            return true;
        }
    }
    false
}

/// The entity tags of a list; commas inside quotes are part of them.
struct Tags<'a>(&'a [u8]);

impl<'a> Iterator for Tags<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            if self.0.is_empty() {
                return None;
            }
            let mut quoted = false;
            let end = self.0.iter().position(|&byte| {
                quoted ^= byte == b'"';
                byte == b',' && !quoted
            });
            let end = end.unwrap_or(self.0.len());
            let item = self.0.get(..end).unwrap_or_default().trim_ascii();
            self.0 = self.0.get(end.saturating_add(1)..).unwrap_or_default();
            if !item.is_empty() {
                return Some(item);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of the request, what there is, what comes of it.
    type Case<'a, T> = (&'a [(&'a str, &'a str)], Validators<'a>, T);

    const CHANGED: u64 = 784_111_777;
    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn fields(lines: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        fields
    }

    const fn have(etag: Option<&'static [u8]>) -> Validators<'static> {
        Validators { etag, last_modified: Some(CHANGED), date: CHANGED + 1000 }
    }

    #[test]
    fn conditions_are_judged_in_their_order() {
        use Precondition::{Failed, Holds, NotModified};
        let strong = have(Some(b"\"a,b\""));
        let weak = have(Some(b"W/\"a,b\""));
        let bare = have(None);
        let table: &[Case<'_, Precondition>] = &[
            (&[], strong, Holds),
            (&[("If-None-Match", "\"a,b\"")], strong, NotModified),
            (&[("If-None-Match", "\"x\", W/\"a,b\"")], strong, NotModified),
            (&[("If-None-Match", "\"x\""), ("if-none-match", "\"a,b\"")], weak, NotModified),
            (&[("If-None-Match", "\"x\",,\"y\"")], strong, Holds),
            (&[("If-None-Match", "w/\"a,b\"")], strong, Holds),
            (&[("If-None-Match", "*")], bare, NotModified),
            (&[("If-None-Match", "\"a,b\"")], bare, Holds),
            (&[("If-Modified-Since", SAME)], bare, NotModified),
            (&[("If-Modified-Since", AFTER)], bare, NotModified),
            (&[("If-Modified-Since", BEFORE)], bare, Holds),
            (&[("If-Modified-Since", "yesterday")], bare, Holds),
            (&[("If-Modified-Since", SAME), ("If-Modified-Since", SAME)], bare, Holds),
            // The tag is what counts where there is one (13.1.3).
            (&[("If-None-Match", "\"x\""), ("If-Modified-Since", SAME)], strong, Holds),
            (&[("If-Match", "\"a,b\"")], strong, Holds),
            (&[("If-Match", "*")], bare, Holds),
            (&[("If-Match", "\"x\"")], strong, Failed),
            (&[("If-Match", "W/\"a,b\"")], weak, Failed),
            (&[("If-Match", "\"a,b\"")], bare, Failed),
            (&[("If-Unmodified-Since", BEFORE)], bare, Failed),
            (&[("If-Unmodified-Since", SAME)], bare, Holds),
            (&[("If-Match", "\"a,b\""), ("If-Unmodified-Since", BEFORE)], strong, Holds),
            (&[("If-Match", "\"a,b\""), ("If-None-Match", "\"a,b\"")], strong, NotModified),
        ];
        for (lines, have, expected) in table {
            assert_eq!(judge_preconditions(&fields(lines), have), *expected, "{lines:?}");
        }
    }

    #[test]
    fn a_range_is_obeyed_for_what_the_client_has_a_part_of() {
        let strong = have(Some(b"\"a\""));
        let weak = have(Some(b"W/\"a\""));
        let fresh = Validators { date: CHANGED, ..strong };
        let table: &[Case<'_, bool>] = &[
            (&[], strong, true),
            (&[("If-Range", "\"a\"")], strong, true),
            (&[("If-Range", "\"b\"")], strong, false),
            (&[("If-Range", "W/\"a\"")], weak, false),
            (&[("If-Range", SAME)], strong, true),
            (&[("If-Range", SAME)], fresh, false),
            (&[("If-Range", AFTER)], strong, false),
            (&[("If-Range", "a")], strong, false),
            (&[("If-Range", "\"a\""), ("If-Range", "\"a\"")], strong, false),
        ];
        for (lines, have, expected) in table {
            assert_eq!(range_applies(&fields(lines), have), *expected, "{lines:?}");
        }
    }
}
