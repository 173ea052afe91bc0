//! Requests that are sent again as they are, and the answers to them.
//!
//! A client that asks for the same thing again and again (a remote procedure, a poll, a load generator)
//! sends the same few bytes each time, all of them references into a table that has not changed. The
//! third such request is a copy of the second. So it is with answers whose heads are the same.

use sluice_message::{BodyLength, Fields, Method, RequestHead, ResponseHead};

use super::encode::{ResponseOptions, write_response};
use super::request::{Connect, Parser};
use super::{End, Refusal};
use crate::h1::Limits;
use crate::h2::hpack::{Decoder, Encoder, Invalid};

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

/// Writes the responses of a connection.
#[derive(Debug, Default)]
pub(in crate::h2) struct ResponseWriter {
    /// The last block that was short and left the table as it was.
    block: Vec<u8>,
    /// The table it was written with.
    version: u64,
    /// What it stands for, kept once it has been written twice.
    known: Option<Box<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    status: u16,
    request: Method,
    body: BodyLength,
    date: Option<Vec<u8>>,
    strict_transport: Option<&'static str>,
    fields: Fields,
}

impl Known {
    #[inline(always)]
    fn is(&self, head: &ResponseHead, options: &ResponseOptions<'_>) -> bool {
        self.status == head.status
            && self.body == options.body
            && self.request == options.request
            && self.date.as_deref() == options.date
            && self.strict_transport == options.strict_transport
            && self.fields == head.fields
    }
}

impl ResponseWriter {
    /// Appends the header block of a response.
    #[inline]
    pub(in crate::h2) fn write(
        &mut self,
        encoder: &mut Encoder,
        out: &mut Vec<u8>,
        head: &ResponseHead,
        options: &ResponseOptions<'_>,
    ) {
        if self.version == encoder.version()
            && let Some(known) = &self.known
            && known.is(head, options)
        {
            out.extend_from_slice(&self.block);
            return;
        }
        let (start, before) = (out.len(), encoder.version());
        write_response(encoder, out, head, options);
        let block = out.get(start..).unwrap_or_default();
        if before == encoder.version() && block.len() <= LONGEST {
            self.learn(block, before, head, options);
        }
    }

    fn learn(
        &mut self,
        block: &[u8],
        version: u64,
        head: &ResponseHead,
        options: &ResponseOptions<'_>,
    ) {
        let again = self.block == block && self.version == version;
        self.block.clear();
        self.block.extend_from_slice(block);
        self.version = version;
        if !again {
            self.known = None;
            return;
        }
        let known = self.known.get_or_insert_default();
        known.status = head.status;
        known.request = options.request;
        known.body = options.body;
        known.date = options.date.map(<[u8]>::to_vec);
        known.strict_transport = options.strict_transport;
        known.fields.copy_from(&head.fields);
    }
}
