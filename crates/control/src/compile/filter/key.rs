//! Whom limits count, of their options.

use sluice_expression::{Phase, Scope, Template};
use sluice_filters::key_source::KeySource;
use sluice_filters::{Strictness, WhenFull};
use sluice_model::{Expression, KeyOptions, Run};

/// The key of every client's address, which needs no text to be made.
const ADDRESS: &str = "{client.ip}";

pub(super) fn key_source(
    options: &KeyOptions,
    own: Option<&Expression>,
) -> Result<KeySource, String> {
    let text = &own.unwrap_or(&options.key).0;
    if text == ADDRESS {
        return Ok(KeySource::Client { ipv6_prefix: options.ipv6_prefix });
    }
    let template = Template::compile(text, &Scope::new(Phase::Request));
    template.map(KeySource::Values).map_err(|problem| problem.to_string())
}

pub(super) const fn when_full(options: &KeyOptions) -> WhenFull {
    match options.when_full {
        sluice_model::WhenFull::Pass => WhenFull::Pass,
        sluice_model::WhenFull::Refuse => WhenFull::Refuse,
    }
}

pub(super) const fn strictness(run: Run, status: u16) -> Strictness {
    match run {
        Run::InForce => Strictness::Refuse(status),
        Run::Dry => Strictness::CountOnly,
    }
}
