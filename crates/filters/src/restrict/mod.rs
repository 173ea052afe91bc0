//! Filters that refuse requests by where they come from and who says they come.

mod geo;
mod ip;
mod referer;
mod user_agent;

pub use geo::{Geo, GeoFields, GeoRules, Region, Unknown};
pub use ip::Ip;
pub use referer::{Referer, RefererRules, SameHost};
pub use user_agent::UserAgent;

use std::sync::Arc;

use sluice_filter::{RequestContext, Verdict};
use sluice_meter::FilterMeter;

/// What the meters of these filters tell apart.
pub const OUTCOMES: &[&str] = &["passed", "refused"];

const PASSED: usize = 0;
const REFUSED: usize = 1;

/// How a request is refused.
#[derive(Clone, Debug)]
pub struct Refusing {
    /// The status of the answer.
    pub status: u16,
    /// Counts.
    pub meter: Arc<FilterMeter>,
}

/// Whether something is let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admit {
    /// It is.
    Yes,
    /// It is not.
    No,
}

impl Refusing {
    #[inline]
    fn verdict(&self, context: &RequestContext<'_>, admit: Admit, reason: &'static str) -> Verdict {
        let worker = context.gateway.worker();
        match admit {
            Admit::Yes => {
                self.meter.count(worker, PASSED);
                Verdict::Continue
            }
            Admit::No => {
                self.meter.count(worker, REFUSED);
                Verdict::refuse(self.status, reason)
            }
        }
    }
}
