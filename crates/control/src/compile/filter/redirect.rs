//! The redirect filter, of its options.

use sluice_expression::Phase;
use sluice_filters::{Destination, Query, RedirectFilter};
use sluice_model::Expression;

use super::{Tools, template};

pub(super) fn redirect(
    options: &sluice_model::RedirectFilter,
    tools: &mut Tools<'_>,
) -> Result<RedirectFilter, String> {
    let some = |text: &Option<Expression>| {
        text.as_ref().map(|text| template(text, Phase::Request)).transpose()
    };
    let to = Destination {
        scheme: options.scheme.map(Into::into),
        host: some(&options.host)?,
        port: options.port,
        path: some(&options.path)?,
        query: if options.keep_query { Query::Kept } else { Query::Dropped },
    };
    Ok(RedirectFilter::new(options.status, to, tools.meter(RedirectFilter::OUTCOMES)))
}
