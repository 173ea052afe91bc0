//! Requests that are sent again as they are.
//!
//! A client that asks for the same thing again and again (a remote procedure, a poll, a load generator)
//! sends the same few bytes each time, all of them references into a table that has not changed. The
//! third such request is a copy of the second.

use sluice_message::RequestHead;

use super::request::{Connect, Parser};
use super::{End, Refusal};
use crate::h1::Limits;
use crate::h2::hpack::{Decoder, Invalid};

/// The longest block looked at: references alone are short.
const LONGEST: usize = 48;

/// Reads the requests of a connection.
#[derive(Debug, Default)]
pub(in crate::h2) struct RequestReader {
    parser: Parser,
    /// The last block that was short, well-formed, and left the table as it was.
    block: Vec<u8>,
    end: Option<End>,
    /// The table it was read with.
    version: u64,
    /// What it means, kept once it has come twice.
    head: Option<Box<RequestHead>>,
}

impl RequestReader {
    /// Reads a whole header block. Even if the request is refused the whole block is read, since it
    /// may change the table.
    ///
    /// # Errors
    /// What is wrong with the block itself, which ends the connection.
    #[inline]
    pub(in crate::h2) fn read(
        &mut self,
        decoder: &mut Decoder,
        (block, end): (&[u8], End),
        rules: (&Limits, Connect),
        head: &mut RequestHead,
    ) -> Result<Result<(), Refusal>, Invalid> {
        let again =
            self.block == block && self.end == Some(end) && self.version == decoder.version();
        if again && let Some(known) = &self.head {
            head.copy_from(known);
            return Ok(Ok(()));
        }
        let before = decoder.version();
        let outcome = self.parser.read(decoder, (block, end), rules, head)?;
        if outcome.is_ok() && before == decoder.version() && block.len() <= LONGEST {
            self.keep(block, end, before);
            self.head = again.then(|| Box::new(head.clone()));
        }
        Ok(outcome)
    }

    fn keep(&mut self, block: &[u8], end: End, version: u64) {
        self.block.clear();
        self.block.extend_from_slice(block);
        self.end = Some(end);
        self.version = version;
    }
}
