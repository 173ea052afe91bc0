//! Edits of what comes behind the content.

use sluice_filter::{Broken, ResponseContext, Transform};
use sluice_message::Fields;

use super::edit::{Edits, Settled};

/// Content that stays as it is, with other fields behind it.
#[derive(Debug)]
pub(super) struct Trailers(Vec<Settled>);

impl Trailers {
    pub(super) fn new(edits: &Edits, context: &ResponseContext<'_>) -> Self {
        Self(edits.settled(&context.view()))
    }
}

impl Transform for Trailers {
    fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        out.extend_from_slice(piece);
        Ok(())
    }

    fn end(&mut self, trailers: &mut Option<Fields>, _: &mut Vec<u8>) -> Result<(), Broken> {
        let mut fields = trailers.take().unwrap_or_default();
        for edit in &self.0 {
            // Where there is no room the content is not to blame: what was written stays.
            if edit.apply(&mut fields).is_err() {
                break;
            }
        }
        let some = fields.iter().next().is_some();
        *trailers = some.then_some(fields);
        Ok(())
    }
}
