//! Lets requests through by the address of their client.

use sluice_filter::{Filter, Phases, RequestContext, Verdict};
use sluice_message::AddressRanges;

use super::{Admit, Refusing};

/// Whose requests are let through.
#[derive(Debug)]
pub struct Ip {
    /// Only these, unless there is no set.
    pub allow: Option<AddressRanges>,
    /// Not these, even if they are among the others.
    pub deny: AddressRanges,
    /// How others are refused.
    pub refusing: Refusing,
}

impl Filter for Ip {
    fn phases(&self) -> Phases {
        Phases::REQUEST_HEAD
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        let client = context.client;
        let allowed = self.allow.as_ref().is_none_or(|allow| allow.contain(client));
        let admit = if allowed && !self.deny.contain(client) { Admit::Yes } else { Admit::No };
        self.refusing.verdict(context, admit, "address not allowed")
    }
}
