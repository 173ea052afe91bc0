//! The filters that refuse requests by where they come from, of their options.

use std::path::PathBuf;
use std::sync::Arc;

use sluice_filters::restrict::{
    Admit, Geo, GeoFields, GeoRules, Ip, OUTCOMES, Referer, RefererRules, Refusing, Region,
    SameHost, Unknown, UserAgent,
};
use sluice_filters::{Hosts, Patterns, Places, addresses, read_networks};
use sluice_message::AddressRanges;
use sluice_model::Unsaid;

use super::Tools;

fn refusing(status: u16, tools: &mut Tools<'_>) -> Refusing {
    Refusing { status, meter: tools.meter(OUTCOMES) }
}

const fn admit(unsaid: Unsaid) -> Admit {
    match unsaid {
        Unsaid::Allowed => Admit::Yes,
        Unsaid::Refused => Admit::No,
    }
}

pub(super) fn ip(options: &sluice_model::Ip, tools: &mut Tools<'_>) -> Result<Ip, String> {
    let sluice_model::Ip { allow, allow_files, deny, deny_files, status } = options;
    let some = !allow.is_empty() || !allow_files.is_empty();
    Ok(Ip {
        allow: some.then(|| networks(allow, allow_files, tools)).transpose()?,
        deny: networks(deny, deny_files, tools)?,
        refusing: refusing(*status, tools),
    })
}

fn networks(
    written: &[ipnet::IpNet],
    files: &[PathBuf],
    tools: &mut Tools<'_>,
) -> Result<AddressRanges, String> {
    let mut all = written.to_vec();
    for path in files {
        let listed = read_networks(&tools.files.text(path)?)
            .map_err(|flaw| format!("the file {}, {flaw}", path.display()))?;
        all.extend(listed);
    }
    Ok(addresses(&all))
}

pub(super) fn user_agent(
    options: &sluice_model::UserAgent,
    tools: &mut Tools<'_>,
) -> Result<UserAgent, String> {
    Ok(UserAgent {
        allow: patterns(&options.allow)?,
        deny: patterns(&options.deny)?,
        missing: admit(options.missing),
        refusing: refusing(options.status, tools),
    })
}

fn patterns(written: &[String]) -> Result<Patterns, String> {
    Patterns::new(written).map_err(|(at, why)| {
        let pattern = written.get(at).map(String::as_str).unwrap_or_default();
        format!("the pattern \"{pattern}\" cannot be used: {why}")
    })
}

pub(super) fn referer(
    options: &sluice_model::Referer,
    tools: &mut Tools<'_>,
) -> Result<Referer, String> {
    let rules = RefererRules {
        allow: hosts(&options.allow)?,
        deny: hosts(&options.deny)?,
        same_host: if options.same_host { SameHost::Allowed } else { SameHost::Unknown },
        missing: admit(options.missing),
    };
    Ok(Referer { rules, refusing: refusing(options.status, tools) })
}

pub(super) fn hosts(written: &[String]) -> Result<Hosts, String> {
    Hosts::new(written.iter().map(String::as_str)).map_err(|at| {
        format!("\"{}\" is not a host", written.get(at).map(String::as_str).unwrap_or_default())
    })
}

pub(super) fn geo(options: &sluice_model::Geo, tools: &mut Tools<'_>) -> Result<Geo, String> {
    let mut places = Vec::new();
    for path in &options.files {
        let database = Places::parse(tools.files.read(path)?).map_err(|why| {
            format!("the file {} is no database of MaxMind's format: {why}", path.display())
        })?;
        places.push(database);
    }
    let field = |name: &Option<String>| name.as_ref().map(|name| name.as_bytes().into());
    Ok(Geo {
        places,
        rules: GeoRules { allow: region(&options.allow), deny: region(&options.deny) },
        unknown: match options.unknown {
            Unsaid::Allowed => Unknown::Allowed,
            Unsaid::Refused => Unknown::Refused,
        },
        fields: GeoFields {
            country: field(&options.country_header),
            continent: field(&options.continent_header),
            asn: field(&options.asn_header),
        },
        refusing: refusing(options.status, tools),
        notes: ["geo.country", "geo.continent", "geo.asn"].map(Arc::from),
    })
}

fn region(places: &sluice_model::Places) -> Region {
    Region {
        countries: places.countries.iter().cloned().collect(),
        continents: places.continents.iter().cloned().collect(),
        asns: places.asns.iter().copied().collect(),
    }
}
