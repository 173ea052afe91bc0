//! What holds for Base64 in pieces, whatever the bytes.

use sluice_wire::grpc_web::{TextDecoder, TextEncoder};

/// The first byte says how the others are cut. They are text to be decoded, and bytes to be encoded.
/// Panics if a promise of the decoder or the encoder is broken.
pub(crate) fn run(data: &[u8]) {
    let Some((&size, data)) = data.split_first() else { return };
    let size = usize::from(size).max(1);
    let whole = decode(data, data.len().max(1));
    assert_eq!(decode(data, size), whole, "where it is cut makes no difference");
    if let Some(bytes) = whole {
        assert!(bytes.len() <= data.len() / 4 * 3);
        assert_eq!(decode(&encode(&bytes, size), size), Some(bytes));
    }
    assert_eq!(decode(&encode(data, size), size).as_deref(), Some(data));
}

fn decode(text: &[u8], size: usize) -> Option<Vec<u8>> {
    let (mut decoder, mut out) = (TextDecoder::default(), Vec::new());
    text.chunks(size).try_for_each(|piece| decoder.decode(piece, &mut out)).ok()?;
    decoder.finish().ok().map(|()| out)
}

/// With a pause behind every third piece.
fn encode(bytes: &[u8], size: usize) -> Vec<u8> {
    let (mut encoder, mut out) = (TextEncoder::default(), Vec::new());
    for (number, piece) in bytes.chunks(size).enumerate() {
        encoder.encode(piece, &mut out);
        if number % 3 == 2 {
            encoder.pad(&mut out);
        }
    }
    encoder.pad(&mut out);
    out
}
