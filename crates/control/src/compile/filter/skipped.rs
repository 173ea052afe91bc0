//! Filters that say who gets something, behind a cache whose hits would not pass them.

use std::collections::BTreeSet;

use sluice_expression::Need;
use sluice_model::{AccessControl, Filter, FilterKind, Model, Route};

use super::{Made, element};
use crate::flaw::Flaw;

/// Refuses routes whose cache would give to everybody what filters behind it let some have, unless the cache says
/// that this is meant.
pub(super) fn refuse(model: &Model, made: &[Made], flaws: &mut Vec<Flaw>) {
    // What is wrong with the filters of all routes is said once.
    let mut said = BTreeSet::new();
    for route in &model.routes {
        for (cache, behind) in pairs(route) {
            let filters = model.filters.get(cache).zip(model.filters.get(behind));
            let (Some((cache, filter)), Some(made)) = (filters, made.get(behind)) else { continue };
            if may_pass(cache, filter, made) {
                continue;
            }
            if said.insert((&cache.name, &filter.name)) {
                flaws.push(flaw(route, (cache, filter), behind));
            }
        }
    }
}

/// The positions of all filters of a route with those behind them, in the order of the route.
fn pairs(route: &Route) -> impl Iterator<Item = (usize, usize)> {
    let places = route.filters.iter().enumerate();
    places.flat_map(|(place, &first)| {
        route.filters.iter().skip(place + 1).map(move |&behind| (first, behind))
    })
}

/// Whether a response that is given without asking this filter is no harm.
fn may_pass(cache: &Filter, filter: &Filter, made: &Made) -> bool {
    let FilterKind::Cache(options) = &cache.kind else { return true };
    let decides = match filter.kind.access() {
        AccessControl::Always => true,
        AccessControl::IfConditional => {
            made.when.as_ref().is_some_and(|when| when.needs().has(Need::Client))
        }
        AccessControl::IfScripted => made.filter.phases().act_on_requests(),
        AccessControl::Never => false,
    };
    !decides || options.hits_skip.iter().any(|kind| kind == filter.kind.key())
}

fn flaw(route: &Route, (cache, filter): (&Filter, &Filter), behind: usize) -> Flaw {
    let kind = filter.kind.key();
    let message = format!(
        "the filter \"{}\" ({kind}) stands behind the cache \"{}\", whose hits do not pass it: everybody would \
         get what it lets through",
        filter.name, cache.name
    );
    let help = format!(
        "name it before the cache (filters of all routes come before those of a route), or write \
         `hits_skip = [\"{kind}\"]` into the cache if everybody may have what is stored"
    );
    let at = route.filters.iter().rposition(|&at| at == behind);
    match at.and_then(|at| route.filters_written.get(at)) {
        Some(written) => Flaw::of_document(element(filter), written.error(&message, &help)),
        None => Flaw::new(element(filter), message).with_help(help),
    }
}
