//! The headers filter, of its options.

use sluice_expression::{Phase, Template};
use sluice_filters::{Answers, Change, HeaderEdit, HeaderNames, Headers};
use sluice_model::{Expression, HeaderEdits, NamePattern};

use super::{Tools, template};

pub(super) fn headers(
    options: &sluice_model::Headers,
    tools: &mut Tools<'_>,
) -> Result<Headers, String> {
    let answers = if options.always { Answers::All } else { Answers::Given };
    Ok(Headers::new(answers, tools.meter(Headers::OUTCOMES))
        .with_request(edits(&options.request, Phase::Request)?)
        .with_response(edits(&options.response, Phase::Response)?)
        .with_trailers(edits(&options.trailers, Phase::Response)?))
}

fn edits(options: &HeaderEdits, phase: Phase) -> Result<Vec<HeaderEdit>, String> {
    let mut edits = Vec::new();
    for pattern in &options.remove {
        edits.push(HeaderEdit::Remove(names(pattern)?));
    }
    for (old, new) in &options.rename {
        edits.push(HeaderEdit::Rename(old.as_str().into(), new.as_str().into()));
    }
    let written = [
        (Change::ReplaceIfPresent, &options.replace_if_present),
        (Change::Set, &options.set),
        (Change::AddIfAbsent, &options.add_if_absent),
        (Change::Add, &options.add),
    ];
    for (change, fields) in written {
        for (name, values) in fields {
            let values = values.iter().map(|value: &Expression| template(value, phase));
            let values: Vec<Template> = values.collect::<Result<_, _>>()?;
            edits.push(HeaderEdit::Write(change, name.as_str().into(), values));
        }
    }
    Ok(edits)
}

fn names(pattern: &NamePattern) -> Result<HeaderNames, String> {
    Ok(match pattern {
        NamePattern::Exact(name) => HeaderNames::Exact(name.as_str().into()),
        NamePattern::Prefix(prefix) => HeaderNames::Prefix(prefix.as_str().into()),
        NamePattern::Regex(text) => HeaderNames::of_expression(text)?,
    })
}
