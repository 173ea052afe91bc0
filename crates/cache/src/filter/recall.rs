//! A request that nothing in memory is for may have its answer on the disk.

use std::sync::Arc;

use sluice_filter::{RequestContext, Resume, Verdict};

use super::ask::MOST_WAITS;
use super::{Inner, Seeking};
use crate::disk::{Recalled, Slip, Tier};
use crate::store::{Course, Lead};

impl Inner {
    /// Looks on the disk for what is not in memory, and goes on with what was found.
    pub(super) fn look_further(
        self: &Arc<Self>,
        context: &mut RequestContext<'_>,
        mut seeking: Seeking,
    ) -> Verdict {
        let Some(tier) = self.tier.as_ref() else { return self.consider(context, seeking) };
        tier.disk.tend(context.gateway.now());
        if seeking.entry.is_some() || seeking.waits >= MOST_WAITS {
            return self.consider(context, seeking);
        }
        let Some(slip) = tier.find(&seeking.identity, &context.request.fields) else {
            return self.consider(context, seeking);
        };
        let seen = (None, context.gateway.now());
        match self.store.course(seeking.identity.clone(), &context.request.fields, seen) {
            Some(Course::Found(entry)) => {
                seeking.entry = Some(entry);
                self.consider(context, seeking)
            }
            Some(Course::Join(filling)) => self.wait(context, seeking, filling),
            Some(Course::Lead(lead)) => self.recall(tier, seeking, (slip, lead)),
            None => self.consider(context, seeking),
        }
    }

    /// Has the answer read that a slip stands for, for all who ask for it.
    fn recall(
        self: &Arc<Self>,
        tier: &Tier,
        seeking: Seeking,
        (slip, lead): (Arc<Slip>, Lead),
    ) -> Verdict {
        let (inner, reading) = (Arc::clone(self), tier.recall(slip, self.settings.entry_limit));
        Verdict::Wait(Box::pin(async move {
            let recalled = reading.await;
            let resume: Resume =
                Box::new(move |context| inner.go_on_with(context, seeking, (recalled, lead)));
            resume
        }))
    }

    fn go_on_with(
        self: &Arc<Self>,
        context: &mut RequestContext<'_>,
        mut seeking: Seeking,
        (recalled, lead): (Option<Recalled>, Lead),
    ) -> Verdict {
        match recalled {
            Some(recalled) => {
                let clocks = (context.gateway.now(), context.gateway.unix_ms());
                let entry = recalled.entry(seeking.identity.hash, clocks);
                seeking.entry = Some(lead.recall(entry));
            }
            // It is gone; those who wait look for themselves.
            None => {
                lead.withdraw();
                seeking.waits += 1;
            }
        }
        self.consider(context, seeking)
    }
}
