//! Values of a peer made harmless: no byte of them ends a line, a quoted text or a JSON string.

const HEX: &[u8; 16] = b"0123456789ABCDEF";

fn push_hex(out: &mut Vec<u8>, byte: u8) {
    let digit = |value: u8| HEX.get(usize::from(value)).copied().unwrap_or(b'0');
    out.extend_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
}

/// Appends `value` for a line of text: control characters, quotes, backslashes and what is not
/// ASCII become `\xHH`, as in nginx.
pub(super) fn push_text(out: &mut Vec<u8>, value: &[u8]) {
    push_in_runs(
        out,
        value,
        |byte| matches!(byte, 0..0x20 | 0x7f.. | b'"' | b'\\'),
        |out, byte| {
            out.extend_from_slice(b"\\x");
            push_hex(out, byte);
        },
    );
}

/// Appends `value` for the inside of a JSON string (RFC 8259, section 7). What is not UTF-8 becomes
/// U+FFFD; control characters beyond ASCII are escaped too, for terminals obey them.
pub(super) fn push_json(out: &mut Vec<u8>, value: &[u8]) {
    for chunk in value.utf8_chunks() {
        let plain = chunk.valid();
        if plain.chars().any(|character| matches!(character, '\u{80}'..'\u{a0}')) {
            push_json_characters(out, plain);
        } else {
            push_json_bytes(out, plain.as_bytes());
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

fn push_json_bytes(out: &mut Vec<u8>, value: &[u8]) {
    push_in_runs(
        out,
        value,
        |byte| matches!(byte, 0..0x20 | 0x7f | b'"' | b'\\'),
        |out, byte| match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                out.extend_from_slice(b"\\u00");
                push_hex(out, byte);
            }
        },
    );
}

fn push_json_characters(out: &mut Vec<u8>, value: &str) {
    let mut buffer = [0; 4];
    for character in value.chars() {
        match u8::try_from(character) {
            Ok(control @ 0x80..0xa0) => {
                out.extend_from_slice(b"\\u00");
                push_hex(out, control);
            }
            _ => push_json_bytes(out, character.encode_utf8(&mut buffer).as_bytes()),
        }
    }
}

/// Copies runs of harmless bytes at once; most values are one run.
fn push_in_runs(
    out: &mut Vec<u8>,
    value: &[u8],
    is_special: impl Fn(u8) -> bool,
    mut push_special: impl FnMut(&mut Vec<u8>, u8),
) {
    let mut rest = value;
    while let Some(at) = rest.iter().position(|&byte| is_special(byte)) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((&byte, after)) = special.split_first() else { return };
        push_special(out, byte);
        rest = after;
    }
    out.extend_from_slice(rest);
}
