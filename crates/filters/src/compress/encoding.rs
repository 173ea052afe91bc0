//! Content on its way into a coding.

use sluice_coding::{Coding, Encoder, Extent, Unencodable};
use sluice_filter::{Broken, Elsewhere, SharedBytes, Transform};
use sluice_message::{FaultKind, Fields};

use super::store::Filling;

/// Content that is put into a coding while it passes.
#[derive(Debug)]
pub(super) struct Encoding {
    encoder: Encoder,
    /// Whether the client is to get what there is whenever the origin pauses. What has a length is not made
    /// piece by piece: each pause would cost bytes.
    prompt: bool,
    keeping: Option<Keeping>,
}

/// What is kept of content while it passes, for whoever asks for it again.
#[derive(Debug)]
pub(super) struct Keeping {
    filling: Filling,
    what: What,
    bytes: Vec<u8>,
    /// More is not kept.
    most: usize,
}

#[derive(Debug)]
enum What {
    /// What comes out, beside what it is made of if it is to be found by that.
    Coded(Option<SharedBytes>),
    /// What goes in: it is compressed better elsewhere.
    Plain((Coding, u32), Elsewhere),
}

impl Keeping {
    /// Keeps what comes out.
    pub(super) const fn coded(filling: Filling, plain: Option<SharedBytes>, most: usize) -> Self {
        Self { filling, what: What::Coded(plain), bytes: Vec::new(), most }
    }

    /// Keeps what goes in, and has it compressed in the end.
    pub(super) const fn plain(
        filling: Filling,
        how: (Coding, u32),
        most: usize,
        elsewhere: Elsewhere,
    ) -> Self {
        Self { filling, what: What::Plain(how, elsewhere), bytes: Vec::new(), most }
    }

    /// Whether there is still room.
    fn note(&mut self, plain: &[u8], coded: &[u8]) -> bool {
        self.bytes.extend_from_slice(match self.what {
            What::Coded(_) => coded,
            What::Plain(..) => plain,
        });
        self.bytes.len() <= self.most
    }

    fn finish(self) {
        let Self { filling, what, bytes, .. } = self;
        match what {
            What::Coded(plain) => filling.put(plain, bytes.into()),
            // Where too much waits to be done already, the next one tries.
            What::Plain(how, elsewhere) => drop(elsewhere(Box::new(move || {
                if let Some(coded) = compress(how, &bytes) {
                    filling.put(None, coded.into());
                }
            }))),
        }
    }
}

/// All of some content in a coding, on this level.
pub(super) fn compress((coding, level): (Coding, u32), plain: &[u8]) -> Option<Vec<u8>> {
    let extent = Extent::Known(u64::try_from(plain.len()).unwrap_or(u64::MAX));
    let mut encoder = Encoder::new(coding, level, extent);
    let mut coded = Vec::new();
    encoder.push(plain, &mut coded).ok()?;
    encoder.finish(&mut coded).ok()?;
    Some(coded)
}

impl Encoding {
    pub(super) fn new(coding: Coding, level: u32, extent: Extent) -> Self {
        let prompt = !matches!(extent, Extent::Known(_));
        Self { encoder: Encoder::new(coding, level, extent), prompt, keeping: None }
    }

    pub(super) fn keeping(mut self, keeping: Keeping) -> Self {
        self.keeping = Some(keeping);
        self
    }

    /// Does a step and notes what came of it.
    fn step(
        &mut self,
        plain: &[u8],
        out: &mut Vec<u8>,
        step: impl FnOnce(&mut Encoder, &mut Vec<u8>) -> Result<(), Unencodable>,
    ) -> Result<(), Broken> {
        let before = out.len();
        let stepped = step(&mut self.encoder, out);
        if let Some(keeping) = &mut self.keeping
            && (stepped.is_err() || !keeping.note(plain, out.get(before..).unwrap_or_default()))
        {
            self.keeping = None;
        }
        stepped.map_err(|Unencodable| Broken)
    }
}

impl Transform for Encoding {
    fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        self.step(piece, out, |encoder, out| encoder.push(piece, out))
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        if self.prompt {
            // What fails here fails with the next piece.
            let _ = self.step(b"", out, Encoder::flush);
        }
    }

    fn end(&mut self, _: &mut Option<Fields>, out: &mut Vec<u8>) -> Result<(), Broken> {
        self.step(b"", out, Encoder::finish)?;
        if let Some(keeping) = self.keeping.take() {
            keeping.finish();
        }
        Ok(())
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
