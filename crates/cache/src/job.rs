//! What is kept of a request from its head to the end of its answer.

use std::sync::Arc;
use std::task::Waker;

use sluice_filter::{Broken, Transform};
use sluice_message::Fields;

use crate::entry::Entry;
use crate::store::Lead;
use crate::told::Forward;

/// A request that went on to the origin.
#[derive(Debug)]
pub(crate) struct Job {
    /// Why.
    pub(crate) forward: Forward,
    /// The duty to bring the answer for others, too.
    pub(crate) lead: Option<Lead>,
    /// What is kept, and has to be confirmed.
    pub(crate) stale: Option<Arc<Entry>>,
    /// The fields as the client sent them.
    pub(crate) fields: Fields,
    /// Whether the client asks for all from the first byte on, and wants it told so.
    pub(crate) from_start: bool,
    /// When the origin was asked, in nanoseconds.
    pub(crate) asked_at: u64,
    /// Whether the client gets the content.
    pub(crate) audience: Audience,
}

/// Who wants the content of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// The client, too.
    Client,
    /// The cache alone: the client has it already.
    Cache,
}

/// A request that changes what is kept, if it succeeds (RFC 9111, 4.4).
#[derive(Debug)]
pub(crate) struct Change {
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
    pub(crate) authority: Box<[u8]>,
    pub(crate) target: Box<[u8]>,
}

/// Keeps content while it passes.
#[derive(Debug)]
pub(crate) struct Tee {
    lead: Option<Lead>,
    audience: Audience,
}

impl Tee {
    pub(crate) const fn new(lead: Lead, audience: Audience) -> Self {
        Self { lead: Some(lead), audience }
    }
}

impl Transform for Tee {
    fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        if let Some(lead) = &mut self.lead
            && lead.push(piece).is_err()
            && let Some(lead) = self.lead.take()
        {
            // It is larger than may be kept: each asks for itself.
            lead.withdraw();
        }
        if self.audience == Audience::Client {
            out.extend_from_slice(piece);
        }
        Ok(())
    }

    fn keeps_content(&self) -> bool {
        self.audience == Audience::Client
    }

    fn is_awaited(&self, waker: &Waker) -> bool {
        let awaited = |lead: &Lead| self.audience == Audience::Cache || lead.is_awaited(waker);
        self.lead.as_ref().is_some_and(awaited)
    }

    fn is_full(&mut self, waker: &Waker) -> bool {
        self.lead.as_ref().is_some_and(|lead| lead.is_full(waker))
    }

    fn end(&mut self, trailers: &mut Option<Fields>, _: &mut Vec<u8>) -> Result<(), Broken> {
        if let Some(lead) = self.lead.take() {
            match trailers {
                // What they say of the content would be lost (RFC 9110, 6.5.1). Those who have begun have the
                // content at least, which is all that anybody may rely on.
                Some(_) => lead.finish_unkept(),
                None => lead.finish(),
            }
        }
        Ok(())
    }
}
