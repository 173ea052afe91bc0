//! The security filter, of its options.

use sluice_filters::{Connections, Precedence, SecurityField, SecurityHeaders};

use super::Tools;

pub(super) fn security(
    options: &sluice_model::SecurityHeaders,
    tools: &mut Tools<'_>,
) -> SecurityHeaders {
    let written = [
        ("strict-transport-security", &options.hsts, Connections::Encrypted),
        ("x-content-type-options", &options.content_type_options, Connections::All),
        ("x-frame-options", &options.frame_options, Connections::All),
        ("referrer-policy", &options.referrer_policy, Connections::All),
        ("content-security-policy", &options.content_security_policy, Connections::All),
        ("permissions-policy", &options.permissions_policy, Connections::All),
        ("cross-origin-opener-policy", &options.opener_policy, Connections::All),
        ("cross-origin-resource-policy", &options.resource_policy, Connections::All),
    ];
    let fields = written.into_iter().filter_map(|(name, value, on)| {
        Some(SecurityField { name, value: value.as_deref()?.into(), on })
    });
    let precedence = if options.replace { Precedence::Gateway } else { Precedence::Origin };
    let meter = tools.meter(SecurityHeaders::OUTCOMES);
    SecurityHeaders::new(fields.collect(), precedence, meter)
}
