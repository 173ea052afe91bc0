//! The cors filter, of its options.

use sluice_filters::{AllowedNames, AllowedOrigin, Cors, CorsRules, Credentials};
use sluice_model::PageOrigin;

use super::Tools;

pub(super) fn cors(options: &sluice_model::Cors, tools: &mut Tools<'_>) -> Result<Cors, String> {
    let names = |names: &Option<Vec<String>>| match names {
        Some(names) => AllowedNames::Some(names.clone()),
        None => AllowedNames::Any,
    };
    let rules = CorsRules {
        origins: options.origins.iter().map(origin).collect::<Result<_, _>>()?,
        methods: names(&options.methods),
        headers: names(&options.headers),
        expose: options.expose.clone(),
        credentials: match options.credentials {
            true => Credentials::Included,
            false => Credentials::Omitted,
        },
        max_age: options.max_age,
    };
    Ok(Cors::new(rules, tools.meter(Cors::OUTCOMES)))
}

fn origin(origin: &PageOrigin) -> Result<AllowedOrigin, String> {
    Ok(match origin {
        PageOrigin::Any => AllowedOrigin::Any,
        PageOrigin::Exact(text) => AllowedOrigin::Exact(text.as_str().into()),
        PageOrigin::Below(scheme, domain) => {
            AllowedOrigin::Below(scheme.as_str().into(), domain.as_str().into())
        }
        PageOrigin::Regex(text) => AllowedOrigin::of_expression(text)?,
    })
}
