//! What holds for every header block, whatever the bytes.

use sluice_message::FieldId;
use sluice_wire::h2::hpack::{Class, Decoder, Encoder, Line, Name};

const TABLE: usize = 512;

/// Each block of the data follows a byte with its length; they go through one decoder. Panics if a
/// promise of the decoder or the encoder is broken.
pub(crate) fn run(data: &[u8]) {
    let mut decoder = Decoder::new(TABLE);
    let (mut encoder, mut second) = (Encoder::new(), Decoder::new(4096));
    let mut rest = data;
    while let Some((&length, after)) = rest.split_first() {
        let (block, after) = after.split_at(after.len().min(usize::from(length)));
        rest = after;
        let mut lines: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let outcome = decoder.decode(block, |line| {
            whole(line);
            if !matches!(line.mark().class, Class::BadName | Class::BadValue) {
                lines.push((line.name().to_vec(), line.value().to_vec()));
            }
        });
        goes_round(&lines, &mut encoder, &mut second);
        if outcome.is_err() {
            return;
        }
    }
}

fn whole(line: &Line<'_>) {
    let (name, value) = (line.name(), line.value());
    assert_eq!(line.bytes(), [name, b": ", value, b"\r\n"].concat());
    assert_eq!(line.size(), name.len() + value.len() + 32);
    let mark = line.mark();
    if mark.class == Class::Field {
        assert_eq!(mark.id, FieldId::of(name));
        assert!(name.iter().all(|byte| byte.is_ascii_graphic() && !byte.is_ascii_uppercase()));
        assert!(!value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t'));
        assert_eq!(value, value.trim_ascii());
    }
}

/// What is encoded, twice to meet the table, decodes to the same.
fn goes_round(lines: &[(Vec<u8>, Vec<u8>)], encoder: &mut Encoder, decoder: &mut Decoder) {
    for _ in 0..2 {
        let mut out = Vec::new();
        encoder.begin(&mut out);
        for (name, value) in lines {
            encoder.field(&mut out, Name { id: FieldId::of(name), text: name }, value);
        }
        let mut again = Vec::new();
        let outcome = decoder.decode(&out, |line| {
            again.push((line.name().to_vec(), line.value().to_vec()));
        });
        assert_eq!(outcome, Ok(()));
        assert_eq!(again, lines);
    }
}
