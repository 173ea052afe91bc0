//! Durations as they are written: "250ms", "2s", "1m30s".

use std::time::Duration;

use crate::problem::Flaw;

/// The units, longest first, in milliseconds.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// The duration a text means. The parts of a combination stand from the longest unit down.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, Flaw> {
    let mut rest = text.trim();
    let mut total: u64 = 0;
    let mut longest = u64::MAX;
    if rest.is_empty() {
        return Err(malformed(text));
    }
    while !rest.is_empty() {
        let (digits, after) = split(rest, |c| c.is_ascii_digit());
        let (unit, after) = split(after, |c| c.is_ascii_alphabetic());
        if unit.is_empty() && after.is_empty() && longest == u64::MAX && !digits.is_empty() {
            return Err(Flaw::new(format!("the duration \"{text}\" has no unit")).with_help(
                format!("write \"{digits}s\" for seconds, \"{digits}ms\" for milliseconds"),
            ));
        }
        let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
        let (Some(factor), Ok(number)) = (factor, digits.parse::<u64>()) else {
            return Err(malformed(text));
        };
        if factor >= longest {
            return Err(malformed(text));
        }
        longest = factor;
        total = number
            .checked_mul(factor)
            .and_then(|part| total.checked_add(part))
            .ok_or_else(|| Flaw::new(format!("the duration \"{text}\" is too long")))?;
        rest = after;
    }
    Ok(Duration::from_millis(total))
}

/// A duration as it would be written.
pub(crate) fn duration_text(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut out = String::new();
    for (unit, factor) in UNITS {
        let count = rest.checked_div(factor).unwrap_or_default();
        if count > 0 {
            out.push_str(&format!("{count}{unit}"));
            rest = rest.checked_rem(factor).unwrap_or_default();
        }
    }
    if out.is_empty() { "0s".to_owned() } else { out }
}

fn malformed(text: &str) -> Flaw {
    Flaw::new(format!("\"{text}\" is not a duration")).with_help(
        "write a number and a unit: \"250ms\", \"2s\", \"5m\", \"1h\", \"1d\" or \"1m30s\"",
    )
}

fn split(text: &str, keep: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !keep(c)).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        let rows = [
            ("250ms", Some(250)),
            ("2s", Some(2_000)),
            ("5m", Some(300_000)),
            ("1h", Some(3_600_000)),
            ("1d", Some(86_400_000)),
            ("1m30s", Some(90_000)),
            ("1h30m15s250ms", Some(5_415_250)),
            ("0s", Some(0)),
            (" 2s ", Some(2_000)),
            ("", None),
            ("2", None),
            ("s", None),
            ("2 s", None),
            ("1.5s", None),
            ("-1s", None),
            ("30s1m", None),
            ("1s1s", None),
            ("2S", None),
            ("2weeks", None),
            ("99999999999999999999s", None),
            ("18446744073709551615d", None),
        ];
        for (text, expected) in rows {
            let got = parse_duration(text).ok();
            assert_eq!(got, expected.map(Duration::from_millis), "{text:?}");
            if let Some(duration) = got {
                assert_eq!(parse_duration(&duration_text(duration)), Ok(duration));
            }
        }
    }
}
