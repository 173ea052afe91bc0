//! The rate limit, of its options.

use std::time::Duration;

use sluice_filters::quota::{LocalStore, Quota};
use sluice_filters::{Rate, RateFields, RateLimit, RateManner};
use sluice_model::{KeyOptions, RateHeaders, RateRule};

use super::Tools;
use super::key::{key_source, strictness, when_full};

pub(super) fn rate_limit(
    options: &sluice_model::RateLimit,
    tools: &mut Tools<'_>,
) -> Result<RateLimit, String> {
    let rates = options.limits.iter().map(|rule| rate(rule, &options.key));
    let manner = RateManner {
        strictness: strictness(options.run, options.status),
        when_full: when_full(&options.key),
        fields: match options.headers {
            RateHeaders::Separate => RateFields::Separate,
            RateHeaders::Structured => RateFields::Structured,
            RateHeaders::None => RateFields::None,
        },
    };
    let store = Box::new(LocalStore::new(options.key.room));
    let meter = tools.meter(RateLimit::OUTCOMES);
    Ok(RateLimit::new(rates.collect::<Result<_, _>>()?, manner, store, meter))
}

fn rate(rule: &RateRule, key: &KeyOptions) -> Result<Rate, String> {
    Ok(Rate {
        name: rule.text.chars().filter(|letter| !letter.is_whitespace()).collect(),
        quota: Quota::new(rule.count, nanos(rule.period), rule.burst),
        key: key_source(key, rule.key.as_ref())?,
    })
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
