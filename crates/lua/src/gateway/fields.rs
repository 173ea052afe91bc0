//! Field lines, as scripts read and write them: names of any case, values that forge nothing.

use std::rc::Rc;

use sluice_message::{FieldName, Fields};

use crate::frame::{Frame, Kind, Reply};
use crate::host::Host;
use crate::known::{Known, Writer};

/// What is wrong with a field that a script wants to write.
pub(crate) enum Wrong {
    Name,
    /// It is neither a text nor a list of texts.
    Kind,
    Value,
    /// What it says is said by the gateway itself.
    Ours,
    Full,
}

impl Wrong {
    #[cold]
    pub(crate) fn raise(&self, frame: &Frame<'_>, name: &[u8]) -> Reply {
        let name = String::from_utf8_lossy(name);
        let name = name.escape_debug();
        frame.raise(&match self {
            Self::Name => format!("'{name}' is no name of a header"),
            Self::Kind => {
                format!("the header '{name}' takes a text, a number or a list of those")
            }
            Self::Value => format!(
                "the value for the header '{name}' holds a line break or another control character"
            ),
            Self::Ours => format!("the header '{name}' is written by the gateway itself"),
            Self::Full => format!("no room for the header '{name}'"),
        })
    }
}

/// A value without what surrounds it; `None` if it holds what would end its line (RFC 9110, 5.5).
#[inline(always)]
pub(crate) fn value(text: &[u8]) -> Option<&[u8]> {
    let (words, rest) = text.as_chunks::<8>();
    let rest_is_good = match text.last_chunk::<8>() {
        // Some of it for the second time, which is sooner done than byte by byte.
        Some(last) => is_plain(*last),
        None => !rest.iter().any(is_bad),
    };
    // Few values have tabs within; those are looked at byte by byte.
    let good =
        (rest_is_good && words.iter().all(|word| is_plain(*word))) || !text.iter().any(is_bad);
    let [first, .., last] = text else { return good.then(|| text.trim_ascii()) };
    let is_bare = *first > b' ' && *last > b' ';
    good.then(|| if is_bare { text } else { text.trim_ascii() })
}

#[inline]
const fn is_bad(byte: &u8) -> bool {
    (*byte < b' ' && *byte != b'\t') || *byte == 0x7f
}

/// Whether this can be a host with its port, as far as that is of interest here (RFC 9110, 7.2).
pub(crate) fn is_host(text: &[u8]) -> bool {
    let legal = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:[]".contains(byte);
    !text.is_empty() && text.iter().all(legal)
}

/// Whether none of these is a control character; some of those above 127 may be taken for one.
#[inline]
const fn is_plain(word: [u8; 8]) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const TOPS: u64 = ONES << 7;
    let word = u64::from_ne_bytes(word);
    let deleted = word ^ (ONES * 0x7f);
    // A byte below a bound borrows from its highest bit.
    let low = word.wrapping_sub(ONES * 0x20) | deleted.wrapping_sub(ONES);
    low & TOPS == 0
}

/// Checks a name that a script writes.
#[inline]
pub(crate) fn check_name(name: &[u8], host: &Host) -> Result<Rc<Known>, Wrong> {
    let known = host.exchange.fields.look_up(name);
    check_writer(&known).map(|()| known)
}

/// Whether scripts may write lines of this name.
#[inline]
pub(crate) const fn check_writer(known: &Known) -> Result<(), Wrong> {
    match known.writer {
        Writer::Anybody => Ok(()),
        Writer::Gateway => Err(Wrong::Ours),
        Writer::Nobody => Err(Wrong::Name),
    }
}

/// What becomes of the lines of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    Stay,
    Go,
}

/// Writes what lies at an index, a text or a list of texts, as values of this name.
pub(crate) fn write(
    frame: &Frame<'_>,
    fields: &mut Fields,
    name: &[u8],
    index: i32,
    others: Others,
) -> Result<(), Wrong> {
    let known = check_name(name, frame.host())?;
    if let Some(text) = frame.bytes(index) {
        return match others {
            Others::Go => replace(fields, &known, text),
            Others::Stay => push(fields, &known.name, text),
        };
    }
    if frame.kind(index) != Kind::Table {
        return Err(Wrong::Kind);
    }
    if others == Others::Go {
        fields.remove_name(&known.name);
    }
    for element in 1..=i32::try_from(frame.elements(index)).unwrap_or(0) {
        frame.push_element(index, element);
        let pushed = frame.bytes(-1).ok_or(Wrong::Kind);
        let pushed = pushed.and_then(|text| push(fields, &known.name, text));
        frame.pop();
        pushed?;
    }
    Ok(())
}

/// Writes a table of names and values for a function of this name.
pub(crate) fn write_all(
    frame: &Frame<'_>,
    fields: &mut Fields,
    (table, function): (i32, &str),
) -> Result<(), Reply> {
    frame.push_nil();
    while frame.next(table) {
        if frame.kind(-2) != Kind::String {
            return Err(frame.raise(&format!("{function}: the names of headers are texts")));
        }
        let value = frame.absolute(-1);
        let name = frame.bytes(value - 1).unwrap_or_default();
        write(frame, fields, name, value, Others::Stay)
            .map_err(|wrong| wrong.raise(frame, name))?;
        frame.pop();
    }
    Ok(())
}

/// Writes a text as the only value of this name.
#[inline(always)]
pub(crate) fn replace(fields: &mut Fields, known: &Known, text: &[u8]) -> Result<(), Wrong> {
    let text = value(text).ok_or(Wrong::Value)?;
    fields.remove_name(&known.name);
    fields.push_as(&known.name, text).map_err(|_| Wrong::Full)
}

#[inline]
fn push(fields: &mut Fields, name: &FieldName, text: &[u8]) -> Result<(), Wrong> {
    let text = value(text).ok_or(Wrong::Value)?;
    fields.push_as(name, text).map_err(|_| Wrong::Full)
}

/// Pushes the first value of a name, or nil.
#[inline]
pub(crate) fn push_first(frame: &Frame<'_>, fields: &Fields, name: &[u8]) {
    let known = frame.host().exchange.fields.look_up(name);
    match known.name.values(fields).next() {
        Some(value) => frame.push_bytes(value),
        None => frame.push_nil(),
    }
}

/// Pushes a list of all values of a name.
pub(crate) fn push_list(frame: &Frame<'_>, fields: &Fields, name: &[u8]) {
    frame.push_table(1, 0);
    let known = frame.host().exchange.fields.look_up(name);
    for (index, value) in (1..).zip(known.name.values(fields)) {
        frame.push_bytes(value);
        frame.set_element(index);
    }
}

/// Pushes a table of all fields: names in lower case, the values of each as one text with commas between them, but
/// those of `Set-Cookie`, which has no such form (RFC 9110, 5.3), as a list.
pub(crate) fn push_all(frame: &Frame<'_>, fields: &Fields) {
    frame.push_table(0, 16);
    let mut seen: Vec<Vec<u8>> = Vec::new();
    for (name, _) in fields.iter() {
        let lower = name.to_ascii_lowercase();
        if seen.contains(&lower) {
            continue;
        }
        if lower == b"set-cookie" {
            push_list(frame, fields, name);
        } else {
            let values: Vec<&[u8]> = fields.values_of(name).collect();
            frame.push_bytes(&values.join(&b", "[..]));
        }
        frame.set_field(&lower);
        seen.push(lower);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_forge_nothing() {
        for (text, expected) in [
            (&b" a b\t"[..], Some(&b"a b"[..])),
            (b"", Some(b"")),
            ("\u{fc}".as_bytes(), Some("\u{fc}".as_bytes())),
            (b"a\r\nb", None),
            (b"a\nb", None),
            (b"a\0", None),
            (b"\x7f", None),
            ("\u{fc}bc def\u{fc}".as_bytes(), Some("\u{fc}bc def\u{fc}".as_bytes())),
        ] {
            assert_eq!(value(text), expected);
        }
        // Each byte at each place of a word, and behind it.
        for byte in 0..=255 {
            for place in 0..11 {
                let mut text = *b"abcdefghijk";
                text[place] = byte;
                let bad = (byte < 32 && byte != 9) || byte == 127;
                assert_eq!(value(&text).is_none(), bad, "{byte} at {place}");
            }
        }
    }
}
