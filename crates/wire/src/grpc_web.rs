//! gRPC-Web: what makes a gRPC message one that browsers can read, and back.
//!
//! Trailers are the last part of the content, as a frame of their own kind, and in the text form all content
//! is Base64 (RFC 4648, 4), whose padding may stand wherever a sender paused.

use sluice_message::{FieldId, Fields};

/// What is no Base64: another character, padding at the wrong place, or an end within a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotBase64;

/// The mark of a frame that holds trailers.
const TRAILERS: u8 = 0x80;

/// Base64 as it comes in, cut anywhere.
#[derive(Clone, Debug, Default)]
pub struct TextDecoder {
    /// The bits of the group so far.
    group: u32,
    /// Characters of the group so far, padding included.
    length: u8,
    /// How many of them are padding.
    padding: u8,
}

impl TextDecoder {
    /// Decodes the next piece, whose bytes are appended: three at most for four characters.
    ///
    /// # Errors
    /// [`NotBase64`]; nothing of the rest can be decoded then.
    pub fn decode(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), NotBase64> {
        out.reserve(text.len() / 4 * 3 + 3);
        for &character in text {
            let value = match character {
                b'A'..=b'Z' => character - b'A',
                b'a'..=b'z' => character - b'a' + 26,
                b'0'..=b'9' => character - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                b'=' if self.length >= 2 => {
                    self.padding += 1;
                    0
                }
                _ => return Err(NotBase64),
            };
            if self.padding > 0 && character != b'=' {
                return Err(NotBase64);
            }
            self.group = self.group << 6 | u32::from(value);
            self.length += 1;
            if self.length == 4 {
                let [_, bytes @ ..] = self.group.to_be_bytes();
                let held = bytes.len().saturating_sub(usize::from(self.padding));
                out.extend_from_slice(bytes.get(..held).unwrap_or_default());
                *self = Self::default();
            }
        }
        Ok(())
    }

    /// The content has ended.
    ///
    /// # Errors
    /// [`NotBase64`] if that was within a group.
    pub const fn finish(&self) -> Result<(), NotBase64> {
        if self.length == 0 { Ok(()) } else { Err(NotBase64) }
    }
}

/// Bytes on their way out as Base64.
#[derive(Clone, Debug, Default)]
pub struct TextEncoder {
    /// Bytes that are no whole group yet; two at most.
    rest: [u8; 2],
    length: usize,
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

impl TextEncoder {
    /// Encodes the next bytes; up to two wait for those that follow.
    pub fn encode(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        out.reserve(bytes.len() / 3 * 4 + 4);
        let mut bytes = bytes;
        while self.length > 0 {
            let Some((&first, others)) = bytes.split_first() else { return };
            bytes = others;
            let [one, two] = self.rest;
            if self.length == 2 {
                push_group(out, [one, two, first]);
                self.length = 0;
            } else {
                self.rest = [one, first];
                self.length = 2;
            }
        }
        let (groups, rest) = bytes.as_chunks::<3>();
        groups.iter().for_each(|group| push_group(out, *group));
        for (slot, byte) in self.rest.iter_mut().zip(rest) {
            *slot = *byte;
        }
        self.length = rest.len();
    }

    /// Ends the group that was begun, so that whoever reads can read all so far.
    pub fn pad(&mut self, out: &mut Vec<u8>) {
        let [one, two] = self.rest;
        match std::mem::take(&mut self.length) {
            0 => {}
            1 => {
                push_group(out, [one, 0, 0]);
                out.truncate(out.len().saturating_sub(2));
                out.extend_from_slice(b"==");
            }
            _ => {
                push_group(out, [one, two, 0]);
                out.truncate(out.len().saturating_sub(1));
                out.push(b'=');
            }
        }
    }
}

fn push_group(out: &mut Vec<u8>, [one, two, three]: [u8; 3]) {
    let group = u32::from_be_bytes([0, one, two, three]);
    let character = |shift: u32| {
        let index = usize::try_from(group >> shift & 63).unwrap_or(0);
        ALPHABET.get(index).copied().unwrap_or(b'A')
    };
    out.extend_from_slice(&[character(18), character(12), character(6), character(0)]);
}

/// Appends the frame that holds the trailers: lines as in HTTP/1.1, names in lower case.
pub fn push_trailers(fields: &Fields, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[TRAILERS, 0, 0, 0, 0]);
    for line in fields.lines() {
        let framing = matches!(line.id, FieldId::ContentLength | FieldId::Host | FieldId::Trailer);
        if line.id.is_hop_by_hop() || framing {
            continue;
        }
        out.extend(fields.slice(line.name).iter().map(u8::to_ascii_lowercase));
        out.extend_from_slice(b": ");
        out.extend_from_slice(fields.slice(line.value));
        out.extend_from_slice(b"\r\n");
    }
    // Trailers are far from 4 GiB: `Fields` does not grow beyond 256 KiB.
    let length = u32::try_from(out.len().saturating_sub(start + 5)).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(start + 1..start + 5) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Result<Vec<u8>, NotBase64> {
        let (mut decoder, mut out) = (TextDecoder::default(), Vec::new());
        decoder.decode(text.as_bytes(), &mut out)?;
        decoder.finish().map(|()| out)
    }

    #[test]
    fn texts_of_the_standard_decode() {
        // RFC 4648, 10, and groups behind padding.
        let rows = [
            ("", Ok("")),
            ("Zg==", Ok("f")),
            ("Zm8=", Ok("fo")),
            ("Zm9v", Ok("foo")),
            ("Zm9vYmFy", Ok("foobar")),
            ("Zg==Zm8=Zm9v", Ok("ffofoo")),
            ("Zm9", Err(NotBase64)),
            ("Z", Err(NotBase64)),
            ("Z===", Err(NotBase64)),
            ("=", Err(NotBase64)),
            ("Zg=a", Err(NotBase64)),
            ("Zg=", Err(NotBase64)),
            ("Zm9v====", Err(NotBase64)),
            ("Zm 9v", Err(NotBase64)),
            ("Zm-_", Err(NotBase64)),
            ("Zm9v\n", Err(NotBase64)),
        ];
        for (text, expected) in rows {
            assert_eq!(decoded(text), expected.map(|it| it.as_bytes().to_vec()), "{text}");
        }
    }

    #[test]
    fn bytes_come_back_however_they_are_cut() {
        let bytes: Vec<u8> = (0..=255).chain((0..100).map(|it: u8| it.wrapping_mul(37))).collect();
        for size in 1..=7 {
            for pause in 1..=5 {
                let (mut encoder, mut text) = (TextEncoder::default(), Vec::new());
                for (number, piece) in bytes.chunks(size).enumerate() {
                    encoder.encode(piece, &mut text);
                    if number % pause == 0 {
                        encoder.pad(&mut text);
                        assert!(text.len().is_multiple_of(4), "all so far can be read");
                    }
                }
                encoder.pad(&mut text);
                let (mut decoder, mut back) = (TextDecoder::default(), Vec::new());
                for piece in text.chunks(pause) {
                    decoder.decode(piece, &mut back).unwrap();
                }
                assert_eq!((decoder.finish(), &back), (Ok(()), &bytes), "{size} {pause}");
            }
        }
    }

    #[test]
    fn text_without_pauses_is_that_of_the_standard() {
        let (mut encoder, mut text) = (TextEncoder::default(), Vec::new());
        for byte in b"foobarb" {
            encoder.encode(&[*byte], &mut text);
        }
        encoder.pad(&mut text);
        encoder.pad(&mut text);
        assert_eq!(text, b"Zm9vYmFyYg==");
    }

    #[test]
    fn trailers_are_a_frame_of_lines() {
        let mut fields = Fields::new();
        fields.push(b"Grpc-Status", b"14").unwrap();
        fields.push(b"Connection", b"close").unwrap();
        fields.push(b"x-a", b"b").unwrap();
        let mut out = b"before".to_vec();
        push_trailers(&fields, &mut out);
        assert_eq!(out, b"before\x80\0\0\0\x19grpc-status: 14\r\nx-a: b\r\n");
        out.clear();
        push_trailers(&Fields::new(), &mut out);
        assert_eq!(out, b"\x80\0\0\0\0");
    }
}
