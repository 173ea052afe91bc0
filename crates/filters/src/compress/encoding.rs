//! Content on its way into a coding.

use sluice_coding::{Coding, Encoder, Extent};
use sluice_filter::{Broken, Transform};
use sluice_message::{FaultKind, Fields};

/// Content that is put into a coding while it passes.
#[derive(Debug)]
pub(super) struct Encoding {
    encoder: Encoder,
    /// Whether the client is to get what there is whenever the origin pauses. What has a length is not made
    /// piece by piece: each pause would cost bytes.
    prompt: bool,
}

impl Encoding {
    pub(super) fn new(coding: Coding, level: u32, extent: Extent) -> Self {
        let prompt = !matches!(extent, Extent::Known(_));
        Self { encoder: Encoder::new(coding, level, extent), prompt }
    }
}

impl Transform for Encoding {
    fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        self.encoder.push(piece, out).map_err(|_| Broken)
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        if self.prompt {
            // What fails here fails with the next piece.
            let _ = self.encoder.flush(out);
        }
    }

    fn end(&mut self, _: &mut Option<Fields>, out: &mut Vec<u8>) -> Result<(), Broken> {
        self.encoder.finish(out).map_err(|_| Broken)
    }

    fn fault(&self) -> FaultKind {
        FaultKind::Exhausted
    }
}

/// Stands for a coding where no content comes.
#[derive(Debug)]
pub(super) struct Nothing;

impl Transform for Nothing {
    fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        out.extend_from_slice(piece);
        Ok(())
    }
}
