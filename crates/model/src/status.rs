//! Sets of statuses as they are written: "200", "200-299", "5xx".

use std::ops::RangeInclusive;

use crate::nearest::suggestion;
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

/// How gRPC statuses begin, so that nobody takes them for those of HTTP.
pub(crate) const CALL: &str = "grpc:";

/// How a gRPC call can fail, in lower case.
pub const CALL_FAILURES: [&str; 16] = [
    "cancelled",
    "unknown",
    "invalid_argument",
    "deadline_exceeded",
    "not_found",
    "already_exists",
    "permission_denied",
    "resource_exhausted",
    "failed_precondition",
    "aborted",
    "out_of_range",
    "unimplemented",
    "internal",
    "unavailable",
    "data_loss",
    "unauthenticated",
];

/// The failure, one of [`CALL_FAILURES`], that a text like "grpc:unavailable" means.
pub(crate) fn parse_call(text: &str) -> Result<&'static str, Flaw> {
    let name = text.strip_prefix(CALL).unwrap_or(text);
    CALL_FAILURES.into_iter().find(|known| *known == name).ok_or_else(|| {
        let mut flaw = Flaw::new(format!("\"{}\" is no failure of a call", text.escape_debug()));
        flaw.help = suggestion(name, CALL_FAILURES, "failures");
        flaw
    })
}

/// Statuses of one kind or the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Statuses {
    /// Of responses.
    Http(RangeInclusive<u16>),
    /// Of calls.
    Call(&'static str),
}

/// Statuses of responses, or the end of a call.
pub(crate) fn parse_any_statuses(text: &str) -> Result<Statuses, Flaw> {
    match text.starts_with(CALL) {
        true => parse_call(text).map(Statuses::Call),
        false => parse_statuses(text).map(Statuses::Http),
    }
}

fn number(text: &str, digits: usize) -> Option<u16> {
    let legal = text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_end_in_one_of_the_statuses_of_grpc() {
        let call = |text| parse_any_statuses(text);
        assert_eq!(call("grpc:unavailable"), Ok(Statuses::Call("unavailable")));
        assert_eq!(call("5xx"), Ok(Statuses::Http(500..=599)));
        for nonsense in ["grpc:ok", "grpc:", "grpc:14", "grpc:Unavailable"] {
            assert!(call(nonsense).is_err(), "{nonsense}");
        }
        let help = call("grpc:unavailabel").unwrap_err().help.unwrap();
        assert!(help.contains("unavailable"), "{help}");
    }

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
