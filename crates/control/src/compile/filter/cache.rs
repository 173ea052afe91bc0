//! The cache, of its options.

use std::collections::BTreeMap;
use std::time::Duration;

use sluice_cache::{
    Cache, Choice, Cookies, DiskPlan, KeyPlan, Obedience, Order, Part, QueryPlan, Rules, SetCookie,
    Settings,
};
use sluice_expression::{Condition, Phase, Scope};
use sluice_model::{CacheCookies, CacheKeyPart, FilterKind};

use super::Tools;

pub(super) fn cache(options: &sluice_model::Cache, tools: &mut Tools<'_>) -> Result<Cache, String> {
    let bypass = options.bypass.as_ref().map(|text| {
        let compiled = Condition::compile(&text.0, &Scope::new(Phase::Request));
        compiled.map_err(|problem| problem.to_string())
    });
    let ttl = options.ttl.iter().map(|(range, duration)| (range.clone(), seconds(*duration)));
    let settings = Settings {
        key: key(options),
        rules: Rules {
            targeted: lower(&options.targeted),
            lifetimes: ttl.collect(),
            stale_while_revalidate: seconds(options.stale_while_revalidate),
            stale_if_error: seconds(options.stale_if_error),
            cookies: match options.cookies {
                CacheCookies::Careful => Cookies::Careful,
                CacheCookies::Ignore => Cookies::Ignore,
                CacheCookies::Bypass => Cookies::Bypass,
            },
            set_cookie: match options.strip_set_cookie {
                true => SetCookie::Strip,
                false => SetCookie::Refuse,
            },
        },
        memory: bytes(options.memory),
        entry_limit: bytes(options.entry_limit),
        wait: options.wait,
        bypass: bypass.transpose()?,
        wishes: if options.heed_clients { Obedience::Heed } else { Obedience::Ignore },
        purgers: options.purge_from.clone(),
        tags: lower(&options.tags),
        disk: options.disk.as_ref().map(|disk| DiskPlan {
            name: tools.name().to_owned(),
            path: disk.path.clone(),
            size: disk.size,
            entry_limit: disk.entry_limit,
            claim: tools.claim(),
            log: tools.log(),
        }),
    };
    let meter = tools.meter(Cache::OUTCOMES);
    Cache::new(settings, tools.workers(), meter)
}

/// What is wrong with the folders of caches together: the size of each is said once, or always the same.
pub(super) fn contradiction(
    filters: &[sluice_model::Filter],
) -> Option<(&sluice_model::Filter, String)> {
    let mut sizes = BTreeMap::new();
    filters.iter().find_map(|filter| {
        let FilterKind::Cache(options) = &filter.kind else { return None };
        let disk = options.disk.as_ref()?;
        let (other, size) = *sizes.entry(&disk.path).or_insert((&filter.name, disk.size));
        (size != disk.size).then(|| {
            let path = disk.path.display();
            let message = format!(
                "the folder {path} is shared with the filter \"{other}\", which says another \
                 `size` of it: say the same"
            );
            (filter, message)
        })
    })
}

fn key(options: &sluice_model::Cache) -> KeyPlan {
    let has = |part: &CacheKeyPart| options.key.contains(part);
    let part = |wanted| if has(&wanted) { Part::In } else { Part::Out };
    let chosen = |names: &[String], choice| QueryPlan::Chosen {
        order: if options.query_by_name { Order::ByName } else { Order::AsSent },
        names: names.iter().map(|name| name.as_bytes().into()).collect(),
        choice,
    };
    let query = match (options.query_only.as_slice(), options.query_ignore.as_slice()) {
        _ if !has(&CacheKeyPart::Query) => QueryPlan::Nothing,
        ([], []) if !options.query_by_name => QueryPlan::AsSent,
        ([], ignored) => chosen(ignored, Choice::Without),
        (only, _) => chosen(only, Choice::Only),
    };
    let (mut headers, mut cookies) = (Vec::new(), Vec::new());
    for part in &options.key {
        match part {
            CacheKeyPart::Header(name) => {
                headers.push(name.to_ascii_lowercase().into_bytes().into())
            }
            CacheKeyPart::Cookie(name) => cookies.push(name.as_bytes().into()),
            _ => {}
        }
    }
    let (scheme, host) = (part(CacheKeyPart::Scheme), part(CacheKeyPart::Host));
    KeyPlan { scheme, host, query, headers, cookies }
}

fn lower(names: &[String]) -> Vec<Box<[u8]>> {
    names.iter().map(|name| name.to_ascii_lowercase().into_bytes().into()).collect()
}

fn seconds(duration: Duration) -> u64 {
    duration.as_secs()
}

fn bytes(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}
