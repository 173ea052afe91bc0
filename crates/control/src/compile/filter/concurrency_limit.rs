//! The limit of concurrency, of its options.

use sluice_filters::{ConcurrencyLimit, ConcurrencyRule};

use super::Tools;
use super::key::{key_source, strictness, when_full};

pub(super) fn concurrency_limit(
    options: &sluice_model::KeyedConcurrency,
    tools: &mut Tools<'_>,
) -> Result<ConcurrencyLimit, String> {
    let rule = ConcurrencyRule {
        most: options.limit,
        key: key_source(&options.key, None)?,
        room: options.key.room,
        strictness: strictness(options.run, options.status),
        when_full: when_full(&options.key),
    };
    Ok(ConcurrencyLimit::new(rule, tools.meter(ConcurrencyLimit::OUTCOMES)))
}
