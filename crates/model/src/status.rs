//! Sets of statuses as they are written: "200", "200-299", "5xx".

use std::ops::RangeInclusive;

use crate::problem::Flaw;

/// The statuses a text means. They are those of final responses (RFC 9110 section 15).
pub(crate) fn parse_statuses(text: &str) -> Result<RangeInclusive<u16>, Flaw> {
    let written = text.trim();
    let range = match (written.strip_suffix("xx"), written.split_once('-')) {
        (Some(class), _) => number(class, 1).map(|class| class * 100..=class * 100 + 99),
        (None, Some((first, last))) => {
            let ends = number(first.trim_end(), 3).zip(number(last.trim_start(), 3));
            ends.map(|(first, last)| first..=last)
        }
        (None, None) => number(written, 3).map(|status| status..=status),
    };
    let legal = |it: &RangeInclusive<u16>| !it.is_empty() && *it.start() >= 200 && *it.end() <= 599;
    range.filter(legal).ok_or_else(|| {
        Flaw::new(format!("\"{}\" is no status of a response", text.escape_debug()))
            .with_help("write one like \"204\", a range like \"200-299\", or a class like \"5xx\"")
    })
}

fn number(text: &str, digits: usize) -> Option<u16> {
    let legal = text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_single_ranges_or_classes() {
        let rows = [
            ("200", Some(200..=200)),
            ("200-299", Some(200..=299)),
            ("200 - 204", Some(200..=204)),
            ("5xx", Some(500..=599)),
            ("599", Some(599..=599)),
            ("100", None),
            ("1xx", None),
            ("6xx", None),
            ("600", None),
            ("299-200", None),
            ("200-", None),
            ("-200", None),
            ("2x", None),
            ("20", None),
            ("+20", None),
            ("2000", None),
            ("ok", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_statuses(text).ok(), expected, "{text:?}");
        }
    }
}
