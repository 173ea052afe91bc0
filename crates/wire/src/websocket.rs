//! The agreement to speak WebSocket over HTTP/1.1 (RFC 6455, 1.3 and 4).

/// What a key is joined with before it is hashed (RFC 6455, 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The value of `Sec-WebSocket-Key` for a nonce (RFC 6455, 4.1).
#[must_use]
pub fn key(nonce: [u8; 16]) -> Vec<u8> {
    base64(&nonce)
}

/// The value of `Sec-WebSocket-Accept` that agrees to a key (RFC 6455, 4.2.2).
#[must_use]
pub fn accept(key: &[u8]) -> Vec<u8> {
    base64(&sha1(&[key, GUID].concat()))
}

/// RFC 4648, 4.
fn base64(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for piece in bytes.chunks(3) {
        let three = piece.iter().chain(&[0, 0]).take(3);
        let bits = three.fold(0_u32, |bits, byte| (bits << 8) | u32::from(*byte));
        for place in 0..4 {
            let digit = usize::try_from((bits >> (18 - 6 * place)) & 63).unwrap_or(0);
            let digit = DIGITS.get(digit).copied().unwrap_or(b'=');
            text.push(if place <= piece.len() { digit } else { b'=' });
        }
    }
    text
}

/// SHA-1 (RFC 3174), which protects nothing here: it shows that the other end knows the protocol.
fn sha1(message: &[u8]) -> [u8; 20] {
    let mut padded = message.to_vec();
    padded.push(0x80);
    let zeros = (120 - padded.len() % 64) % 64;
    padded.resize(padded.len() + zeros, 0);
    let bits = u64::try_from(message.len()).unwrap_or(u64::MAX).wrapping_mul(8);
    padded.extend_from_slice(&bits.to_be_bytes());
    let mut state = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0_u32];
    let (words, _) = padded.as_chunks::<4>();
    let (blocks, _) = words.as_chunks::<16>();
    for block in blocks {
        let mut window = block.map(u32::from_be_bytes);
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for round in 0..80 {
            let (mixed, constant) = match round / 20 {
                0 => ((b & c) | (!b & d), 0x5A82_7999),
                1 => (b ^ c ^ d, 0x6ED9_EBA1),
                2 => ((b & c) | (b & d) | (c & d), 0x8F1B_BCDC),
                _ => (b ^ c ^ d, 0xCA62_C1D6_u32),
            };
            let sum = [a.rotate_left(5), mixed, e, constant, window[0]];
            let sum = sum.into_iter().fold(0_u32, u32::wrapping_add);
            (a, b, c, d, e) = (sum, a, b.rotate_left(30), c, d);
            // The word sixteen rounds later takes this one's place.
            let next = (window[13] ^ window[8] ^ window[2] ^ window[0]).rotate_left(1);
            window.rotate_left(1);
            window[15] = next;
        }
        for (word, add) in state.iter_mut().zip([a, b, c, d, e]) {
            *word = word.wrapping_add(add);
        }
    }
    let mut digest = [0; 20];
    for (place, byte) in digest.iter_mut().zip(state.iter().flat_map(|word| word.to_be_bytes())) {
        *place = byte;
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standard() {
        let cases: [(&[u8], [u8; 4]); 5] = [
            (b"", [0xDA, 0x39, 0xA3, 0xEE]),
            (b"abc", [0xA9, 0x99, 0x3E, 0x36]),
            (b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", [0x84, 0x98, 0x3E, 0x44]),
            (&[b'a'; 64], [0x00, 0x98, 0xBA, 0x82]),
            (&[b'a'; 1_000_000], [0x34, 0xAA, 0x97, 0x3C]),
        ];
        for (message, begin) in cases {
            assert_eq!(sha1(message)[..4], begin, "{} bytes", message.len());
        }
    }

    #[test]
    fn the_example_of_the_standard_agrees() {
        // RFC 6455, 1.3.
        assert_eq!(key(*b"the sample nonce"), b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accept(b"dGhlIHNhbXBsZSBub25jZQ=="), b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn texts_are_filled_up() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v")] {
            assert_eq!(base64(bytes.as_bytes()), text.as_bytes());
        }
        assert_eq!(base64(&[0xFB, 0xFF]), b"+/8=");
    }
}
