//! A text or an expression that is replaced in content: the same comes out wherever the content is cut.

use sluice_filters::replace::{Case, Occurrences, Replacement};

/// What takes the place of a match. A dollar means something in that of an expression alone.
const WITH: &str = "<$0>";
/// Bytes that are kept back to find a match of an expression; less than what there is.
const LONGEST: usize = 12;

/// Feeds `data` to a replacement: two bytes that say how, the text that is looked for, and content.
pub(crate) fn run(data: &[u8]) {
    let [how, length, rest @ ..] = data else { return };
    let Some((text, content)) = rest.split_at_checked(usize::from(length % 32)) else { return };
    let (Ok(text), kind) = (std::str::from_utf8(text), how >> 1 & 3) else { return };
    let occurrences = if how & 1 == 0 { Occurrences::All } else { Occurrences::First };
    let replacement = match kind {
        0 => Replacement::of_text(text, WITH, Case::Matters, occurrences),
        1 => Replacement::of_text(text, WITH, Case::Ignored, occurrences),
        _ => Replacement::of_expression(text, WITH, LONGEST, occurrences),
    };
    let Ok(replacement) = replacement else { return };
    let whole = through(&replacement, [content]);
    for size in [1, 2, 3, 5, 8, 13] {
        assert_eq!(through(&replacement, content.chunks(size)), whole, "pieces of {size}");
    }
    for at in 0..content.len().min(48) {
        let (head, tail) = content.split_at(at);
        assert_eq!(through(&replacement, [head, b"", tail]), whole, "cut at {at}");
    }
    if kind == 0 {
        assert_eq!(whole, plainly(content, text.as_bytes(), occurrences));
    }
}

fn through<'c>(replacement: &Replacement, pieces: impl IntoIterator<Item = &'c [u8]>) -> Vec<u8> {
    let (mut stream, mut out) = (replacement.stream(), Vec::new());
    for piece in pieces {
        stream.push(piece, &mut out);
    }
    stream.end(&mut out);
    out
}

/// A text replaced in content that is at hand.
fn plainly(content: &[u8], text: &[u8], occurrences: Occurrences) -> Vec<u8> {
    let (mut out, mut rest, mut found) = (Vec::new(), content, false);
    while let [first, others @ ..] = rest {
        match rest.strip_prefix(text) {
            Some(behind) if !found || occurrences == Occurrences::All => {
                out.extend_from_slice(WITH.as_bytes());
                (rest, found) = (behind, true);
            }
            _ => {
                out.push(*first);
                rest = others;
            }
        }
    }
    out
}
