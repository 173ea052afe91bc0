//! The body_replace filter, of its options.

use sluice_filters::replace::{Case, Occurrences, Replacement};
use sluice_filters::{BodyReplace, Direction, MediaRange};
use sluice_model::{BodyPattern, BodyRule, Letters};

use super::Tools;

pub(super) fn body_replace(
    options: &sluice_model::BodyReplace,
    tools: &mut Tools<'_>,
) -> Result<BodyReplace, String> {
    let direction = if options.requests { Direction::Request } else { Direction::Response };
    let longest = usize::try_from(options.longest).unwrap_or(usize::MAX);
    let rules = options.rules.iter().map(|rule| replacement(rule, longest));
    let types = options.types.iter().map(|text| media_range(text)).collect();
    let meter = tools.meter(BodyReplace::OUTCOMES);
    Ok(BodyReplace::new(direction, rules.collect::<Result<_, _>>()?, types, meter))
}

fn replacement(rule: &BodyRule, longest: usize) -> Result<Replacement, String> {
    let occurrences = if rule.once { Occurrences::First } else { Occurrences::All };
    match &rule.find {
        BodyPattern::Text(text, letters) => {
            let case = match letters {
                Letters::Differ => Case::Matters,
                Letters::Same => Case::Ignored,
            };
            Replacement::of_text(text, &rule.with, case, occurrences)
        }
        BodyPattern::Regex(regex) => {
            let made = Replacement::of_expression(regex, &rule.with, longest, occurrences);
            made.map_err(|reason| format!("regex \"{regex}\": {reason}"))
        }
    }
}

pub(super) fn media_range(text: &str) -> MediaRange {
    match (text.strip_suffix('*'), text.strip_prefix('*')) {
        (Some(start), _) => MediaRange::Prefix(start.into()),
        (_, Some(end)) => MediaRange::Suffix(end.into()),
        _ => MediaRange::Exact(text.into()),
    }
}
