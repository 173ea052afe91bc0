//! The rewrite filter, of its options.

use sluice_expression::{Phase, Template};
use sluice_filters::{Afterwards, PathReplacement, QueryEdit, QueryNames, Rewrite, Rewriting};
use sluice_model::{Expression, NamePattern, QueryEdits};

use super::{Tools, template};

pub(super) fn rewrite(
    options: &sluice_model::Rewrite,
    tools: &mut Tools<'_>,
) -> Result<Rewrite, String> {
    let some = |text: &Option<Expression>| {
        text.as_ref().map(|text| template(text, Phase::Request)).transpose()
    };
    let replace = options.replace.iter();
    let rewriting = Rewriting {
        strip_prefix: options.strip_prefix.as_deref().map(Into::into),
        replace: replace
            .map(|(regex, with)| PathReplacement::new(regex, with))
            .collect::<Result<_, _>>()?,
        path: some(&options.path)?,
        add_prefix: options.add_prefix.as_deref().map(Into::into),
        query: query(&options.query)?,
        host: some(&options.host)?,
    };
    let afterwards = if options.reroute { Afterwards::Reroute } else { Afterwards::SameRoute };
    Ok(Rewrite::new(rewriting, afterwards, tools.meter(Rewrite::OUTCOMES)))
}

fn query(options: &QueryEdits) -> Result<Vec<QueryEdit>, String> {
    let mut edits = Vec::new();
    for pattern in &options.remove {
        edits.push(QueryEdit::Remove(match pattern {
            NamePattern::Exact(name) => QueryNames::Exact(name.as_str().into()),
            NamePattern::Prefix(prefix) => QueryNames::Prefix(prefix.as_str().into()),
            NamePattern::Regex(text) => QueryNames::of_expression(text)?,
        }));
    }
    for (old, new) in &options.rename {
        edits.push(QueryEdit::Rename(old.as_str().into(), new.as_str().into()));
    }
    for (name, values) in &options.set {
        edits.push(QueryEdit::Set(name.as_str().into(), templates(values)?));
    }
    for (name, values) in &options.add {
        edits.push(QueryEdit::Add(name.as_str().into(), templates(values)?));
    }
    Ok(edits)
}

fn templates(values: &[Expression]) -> Result<Vec<Template>, String> {
    values.iter().map(|value| template(value, Phase::Request)).collect()
}
