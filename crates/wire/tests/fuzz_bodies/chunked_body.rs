//! What holds for every chunked body, whatever the bytes.

use sluice_message::{BodyLength, FaultKind, FieldId, Fields};
use sluice_wire::h1::{BodyDecoder, CHUNK_END, Piece, encode_chunk_start, encode_last_chunk};

/// What a body came to: data, trailers, bytes behind it, whether it was complete.
type Outcome = (Vec<u8>, Option<Fields>, usize, bool);

/// Panics if a promise of the decoder or the encoder is broken.
pub(crate) fn run(data: &[u8]) {
    let whole = feed(data, data.len().max(1));
    for part in [1, 2, 5] {
        assert_eq!(feed(data, part), whole, "in parts of {part} bytes");
    }
    let Ok((content, trailers, rest, true)) = whole else { return };
    for field in trailers.iter().flat_map(Fields::lines) {
        let framing = [FieldId::ContentLength, FieldId::TransferEncoding, FieldId::Host];
        assert!(!framing.contains(&field.id) && !field.id.is_hop_by_hop());
    }
    // Nothing was taken of what follows.
    let shorter = &data[..data.len() - rest];
    assert_eq!(feed(shorter, shorter.len()).map(|outcome| outcome.3), Ok(true));
    let mut sent = Vec::new();
    encode_chunk_start(&mut sent, content.len());
    if !content.is_empty() {
        sent.extend_from_slice(&content);
        sent.extend_from_slice(CHUNK_END);
    }
    encode_last_chunk(&mut sent, trailers.as_ref());
    let again = feed(&sent, sent.len());
    assert_eq!(again, Ok((content, trailers, 0, true)), "{}", sent.escape_ascii());
}

fn feed(data: &[u8], part: usize) -> Result<Outcome, FaultKind> {
    let mut decoder = BodyDecoder::new(BodyLength::Framed);
    let mut content = Vec::new();
    let mut pending = Vec::new();
    for part in data.chunks(part) {
        pending.extend_from_slice(part);
        while !decoder.is_done() {
            let Piece { consumed, data: run, .. } = decoder.decode(&pending)?;
            assert!(run.end <= consumed && consumed <= pending.len());
            content.extend_from_slice(&pending[run.clone()]);
            pending.drain(..consumed);
            if run.is_empty() {
                break;
            }
        }
        assert!(decoder.is_done() || pending.is_empty());
    }
    let done = decoder.is_done();
    Ok((content, decoder.trailers().cloned(), pending.len(), done))
}
