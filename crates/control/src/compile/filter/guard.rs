//! The guard, of its options.

use sluice_filters::{Guard, GuardLimits, Length};

use super::Tools;

pub(super) fn guard(options: &sluice_model::Guard, tools: &mut Tools<'_>) -> Guard {
    let limits = GuardLimits {
        methods: options.methods.clone(),
        target: options.target.unwrap_or(u64::MAX),
        header: options.header.unwrap_or(u64::MAX),
        fields: options.fields.unwrap_or(u64::MAX),
        body: options.body,
        length: match options.length {
            sluice_model::Length::Optional => Length::Optional,
            sluice_model::Length::Required => Length::Required,
        },
    };
    Guard::new(limits, tools.meter(Guard::OUTCOMES))
}
