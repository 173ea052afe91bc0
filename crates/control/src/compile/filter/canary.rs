//! The canary, of its options.

use std::time::Duration;

use sluice_expression::{Condition, Phase, Scope, Template};
use sluice_filters::canary::{
    Canary, CanaryRule, CanarySettings, OwnCookie, Ramp, Rollback, Security, ShareCourse, Sticky,
    Variant, VariantShare, WithoutServer,
};
use sluice_filters::key_source::KeySource;
use sluice_filters::{CookieForm, Readers, SameSite};
use sluice_model::{CanaryCookie, CanaryRamp, CanaryRollback, CanaryShare, Expression, Fallback};

use super::Tools;

pub(super) fn canary(
    options: &sluice_model::Canary,
    tools: &mut Tools<'_>,
) -> Result<Canary, String> {
    let others: Vec<&str> = options.variants.iter().map(|it| it.name.as_str()).collect();
    let meter = tools.meter(&Canary::outcomes(others.iter().copied()));
    let names: Vec<&str> = std::iter::once(sluice_filters::canary::STABLE).chain(others).collect();
    let variants = meter.variants(&names);
    let settings = CanarySettings {
        variants: options.variants.iter().map(variant).collect(),
        rules: options.rules.iter().map(rule).collect::<Result<_, _>>()?,
        sticky: sticky(options)?,
        salt: options.salt.clone(),
        override_header: options.override_header.clone(),
        tag_header: options.tag_header.clone(),
        stable_keys: options.stable_keys.clone(),
        without_server: match options.fallback {
            Fallback::Stable => WithoutServer::Stable,
            Fallback::None => WithoutServer::Fail,
        },
        rollback: options.rollback.map(rollback),
    };
    Ok(Canary::new(settings, meter, variants))
}

fn variant(variant: &sluice_model::CanaryVariant) -> Variant {
    Variant {
        name: variant.name.as_str().into(),
        target: variant.upstream.position,
        keys: variant.keys.clone(),
    }
}

fn rule(rule: &sluice_model::CanaryRule) -> Result<CanaryRule, String> {
    let compile = |when: &Expression| {
        let compiled = Condition::compile(&when.0, &Scope::new(Phase::Request));
        compiled.map_err(|problem| problem.to_string())
    };
    Ok(CanaryRule {
        when: rule.when.as_ref().map(compile).transpose()?,
        shares: rule.to.iter().map(share).collect(),
    })
}

fn share(share: &CanaryShare) -> VariantShare {
    let ramp = |ramp: CanaryRamp| {
        let CanaryRamp { from, step, every } = ramp;
        ShareCourse::Ramp(Ramp { from, to: share.share, step, every: nanos(every) })
    };
    let course = share.ramp.map_or(ShareCourse::Fixed(share.share), ramp);
    VariantShare { variant: share.variant + 1, course }
}

fn sticky(options: &sluice_model::Canary) -> Result<Sticky, String> {
    let compile = |text: &str| {
        let template = Template::compile(text, &Scope::new(Phase::Request));
        template.map(KeySource::Text).map_err(|problem| problem.to_string())
    };
    match (&options.cookie, &options.key) {
        (Some(cookie), _) => {
            let source = compile(&format!("{{request.cookie['{}']}}", cookie.name))?;
            Ok(Sticky::Cookie(source, own_cookie(cookie)))
        }
        (None, Some(key)) => Ok(Sticky::Key(compile(&key.0)?)),
        (None, None) => Ok(Sticky::Key(compile("{client.ip}")?)),
    }
}

fn own_cookie(cookie: &CanaryCookie) -> OwnCookie {
    let same_site = match cookie.same_site {
        "strict" => SameSite::Strict,
        "none" => SameSite::None,
        _ => SameSite::Lax,
    };
    let security = match cookie.secure {
        "always" => Security::Always,
        "never" => Security::Never,
        _ => Security::AsConnection,
    };
    let path = cookie.path.clone();
    let form = CookieForm { path, domain: None, same_site, readers: Readers::Servers };
    OwnCookie::new(&cookie.name, form, cookie.ttl.map(|ttl| ttl.as_secs()), security)
}

fn rollback(rollback: CanaryRollback) -> Rollback {
    let CanaryRollback { errors, latency, window, minimum } = rollback;
    Rollback { errors, latency, window: nanos(window), minimum }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
