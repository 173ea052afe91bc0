//! Field lines, as scripts read and write them: names of any case, values that forge nothing.

use sluice_message::{FieldId, Fields};

use crate::frame::{Frame, Kind, Reply};

/// What is wrong with a field that a script wants to write.
pub(crate) enum Wrong {
    Name,
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
            Self::Value => format!(
                "the value for the header '{name}' holds a line break or another control character"
            ),
            Self::Ours => format!("the header '{name}' is written by the gateway itself"),
            Self::Full => format!("no room for the header '{name}'"),
        })
    }
}

/// Whether this is a token (RFC 9110, 5.6.2).
pub(crate) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| byte < 128 && TOKEN >> byte & 1 == 1)
}

/// A bit for each byte of tokens; none above 127 is one.
const TOKEN: u128 = {
    let mut bits = 0;
    let mut byte = 0_u8;
    while byte < 128 {
        let other = matches!(
            byte,
            b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~'
        );
        if byte.is_ascii_alphanumeric() || other {
            bits |= 1 << byte;
        }
        byte += 1;
    }
    bits
};

/// Whether this can be a host with its port, as far as that is of interest here (RFC 9110, 7.2).
pub(crate) fn is_host(text: &[u8]) -> bool {
    let legal = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:[]".contains(byte);
    !text.is_empty() && text.iter().all(legal)
}

/// A value without what surrounds it; `None` if it holds what would end its line (RFC 9110, 5.5).
pub(crate) fn value(text: &[u8]) -> Option<&[u8]> {
    let bad = |byte: &u8| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f;
    (!text.iter().any(bad)).then(|| text.trim_ascii())
}

/// Checks a name that a script writes.
pub(crate) fn check_name(name: &[u8]) -> Result<FieldId, Wrong> {
    if !is_name(name) {
        return Err(Wrong::Name);
    }
    let id = FieldId::of(name);
    // Framing and what belongs to a connection (RFC 9110, 7.6.1) is not for others to say.
    let ours = id.is_hop_by_hop()
        || matches!(id, FieldId::ContentLength | FieldId::Trailer | FieldId::Expect);
    if ours { Err(Wrong::Ours) } else { Ok(id) }
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
    let id = check_name(name)?;
    if others == Others::Go {
        remove(fields, id, name);
    }
    if frame.kind(index) != Kind::Table {
        return push(fields, name, frame.bytes(index));
    }
    for element in 1..=i32::try_from(frame.elements(index)).unwrap_or(0) {
        frame.push_element(index, element);
        let pushed = push(fields, name, frame.bytes(-1));
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

fn push(fields: &mut Fields, name: &[u8], text: Option<&[u8]>) -> Result<(), Wrong> {
    let text = text.and_then(value).ok_or(Wrong::Value)?;
    fields.push(name, text).map_err(|_| Wrong::Full)
}

/// Takes all lines of a name away.
pub(crate) fn remove(fields: &mut Fields, id: FieldId, name: &[u8]) {
    match id {
        FieldId::Other => fields.remove_named(|known| is_same(known, name)),
        id => fields.remove(id),
    }
}

#[inline]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.eq_ignore_ascii_case(other)
}

/// Pushes the first value of a name, or nil.
#[inline]
pub(crate) fn push_first(frame: &Frame<'_>, fields: &Fields, name: &[u8]) {
    match fields.iter().find(|(known, _)| is_same(known, name)) {
        Some((_, value)) => frame.push_bytes(value),
        None => frame.push_nil(),
    }
}

/// Pushes a list of all values of a name.
pub(crate) fn push_list(frame: &Frame<'_>, fields: &Fields, name: &[u8]) {
    frame.push_table(1, 0);
    let named = fields.iter().filter(|(known, _)| is_same(known, name));
    for (index, (_, value)) in (1..).zip(named) {
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
    fn names_and_values_forge_nothing() {
        for (name, good) in [
            (&b"x-a"[..], true),
            (b"X_A!", true),
            (b"", false),
            (b"x a", false),
            (b"x:", false),
            (b"x\r\ny", false),
            (b"Content-Length", false),
            (b"transfer-encoding", false),
            (b"Connection", false),
        ] {
            assert_eq!(check_name(name).is_ok(), good, "{}", String::from_utf8_lossy(name));
        }
        for (text, expected) in [
            (&b" a b\t"[..], Some(&b"a b"[..])),
            (b"", Some(b"")),
            ("\u{fc}".as_bytes(), Some("\u{fc}".as_bytes())),
            (b"a\r\nb", None),
            (b"a\nb", None),
            (b"a\0", None),
            (b"\x7f", None),
        ] {
            assert_eq!(value(text), expected);
        }
    }
}
