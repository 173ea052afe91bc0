//! Texts of others in lines of the log: nobody but the program ends a line, or speaks to a terminal.

/// Appends a text as a part of one line: control characters and bytes that are no UTF-8 become escapes such as `\n` and
/// `\x1b`. Tabs stay.
pub fn push_log_line(out: &mut Vec<u8>, text: &[u8]) {
    push(out, text, |_| false);
}

/// Appends a text of several lines, such as a traceback: lines that are indented, and the one above a traceback, stay
/// lines; whatever else would begin a line becomes part of the one before, with `\n` between.
pub fn push_log_report(out: &mut Vec<u8>, text: &[u8]) {
    push(out, text, |rest| rest.starts_with(b"\t") || rest.starts_with(b"stack traceback:\n"));
}

fn push(out: &mut Vec<u8>, text: &[u8], continues: impl Fn(&[u8]) -> bool) {
    // What is behind a place of the text says whether it may begin a line.
    let mut behind = text;
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            behind = behind.get(character.len_utf8()..).unwrap_or_default();
            match character {
                '\t' => out.push(b'\t'),
                '\n' if continues(behind) => out.push(b'\n'),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                // Terminals obey those beyond ASCII, too; the last two are line breaks of Unicode.
                _ if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') => {
                    push_bytes(out, character.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        push_bytes(out, chunk.invalid());
        behind = behind.get(chunk.invalid().len()..).unwrap_or_default();
    }
}

fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or(b'0');
        out.extend_from_slice(&[b'\\', b'x', digit(byte >> 4), digit(byte & 15)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &[u8]) -> String {
        let mut out = Vec::new();
        push_log_line(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_text_stays_in_its_line() {
        for (text, expected) in [
            (&b"plain \xc3\xbc\t\\"[..], "plain \u{fc}\t\\"),
            (b"a\nerror: b\r\n", "a\\nerror: b\\r\\n"),
            (b"\x1b[2J\x07\x7f\0", "\\x1b[2J\\x07\\x7f\\x00"),
            ("\u{9b}2J\u{2028}".as_bytes(), "\\xc2\\x9b2J\\xe2\\x80\\xa8"),
            (b"\x9b2J\xff", "\\x9b2J\\xff"),
        ] {
            assert_eq!(line(text), expected);
        }
    }

    #[test]
    fn a_traceback_keeps_its_lines_and_no_others() {
        let mut out = Vec::new();
        push_log_report(&mut out, b"no\nerror: forged\nstack traceback:\n\ta:1\n\tb:2\x1b\n");
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "no\\nerror: forged\nstack traceback:\n\ta:1\n\tb:2\\x1b\\n"
        );
    }
}
