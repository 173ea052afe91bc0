//! Brotli compression with hash tables that fit the body.

use brotli::enc::StandardAlloc;
use brotli::enc::backward_references::{BrotliEncoderMode, BrotliEncoderParams};
use brotli::enc::encode::{
    BrotliEncoderDestroyInstance, BrotliEncoderOperation, BrotliEncoderStateStruct,
};

use super::tables::{self, TableSize};
use super::{Extent, Unencodable};

/// Compressor of one body. Returns its hash table to the thread and frees the rest when dropped.
pub(super) struct Brotli {
    state: BrotliEncoderStateStruct<StandardAlloc>,
    /// `None` where the library chooses the table by itself.
    table: Option<TableSize>,
}

impl Brotli {
    pub(super) fn new(level: u32, extent: Extent) -> Self {
        let mut state = BrotliEncoderStateStruct::new(StandardAlloc::default());
        state.params = BrotliEncoderParams {
            quality: i32::try_from(level).unwrap_or(5),
            lgwin: i32::try_from(extent.window(10, 22)).unwrap_or(19),
            size_hint: match extent {
                Extent::Known(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX),
                _ => 0,
            },
            mode: BrotliEncoderMode::BROTLI_MODE_GENERIC,
            ..BrotliEncoderParams::default()
        };
        let table = TableSize::of(level, extent);
        if let Some(size) = table {
            (state.hasher_, state.params.hasher) = tables::take(size);
        }
        Self { state, table }
    }

    pub(super) fn advance(
        &mut self,
        piece: &[u8],
        operation: BrotliEncoderOperation,
        out: &mut Vec<u8>,
    ) -> Result<(), Unencodable> {
        let (mut left, mut taken) = (piece.len(), 0);
        loop {
            let done = self.state.compress_stream(
                operation,
                &mut left,
                piece,
                &mut taken,
                &mut 0,
                &mut [],
                &mut 0,
                &mut None,
                &mut |_, _, _, _| (),
            );
            if !done {
                return Err(Unencodable);
            }
            // Zero asks for all there is, and becomes how much that is.
            let mut all = 0;
            let storage = self.state.take_output(&mut all);
            out.extend_from_slice(storage.get(..all).unwrap_or(storage));
            let finishing = operation == BrotliEncoderOperation::BROTLI_OPERATION_FINISH;
            let finished = !finishing || self.state.is_finished();
            if left == 0 && !self.state.has_more_output() && finished {
                return Ok(());
            }
        }
    }
}

impl Drop for Brotli {
    fn drop(&mut self) {
        if let Some(size) = self.table {
            tables::put(size, &mut self.state.hasher_);
        }
        BrotliEncoderDestroyInstance(&mut self.state);
    }
}
