//! Shares as they are written: "20%", "0.5%".

use crate::problem::Flaw;

/// A share of a whole, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(pub u32);

/// One per cent, in millionths.
const PERCENT: u32 = 10_000;

/// The share a text means: up to 100 %, with up to four digits behind the point.
pub(crate) fn parse_share(text: &str) -> Result<Share, Flaw> {
    let malformed = || {
        Flaw::new(format!("\"{}\" is not a share", text.escape_debug()))
            .with_help("write it in per cent: \"20%\", \"0.5%\"")
    };
    let number = text.trim().strip_suffix('%').ok_or_else(malformed)?.trim_end();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 4 {
        return Err(malformed());
    }
    let parts = format!("{fraction:0<4}").parse::<u32>().ok();
    let whole = whole.parse::<u32>().ok().and_then(|whole| whole.checked_mul(PERCENT));
    match whole.zip(parts).and_then(|(whole, parts)| whole.checked_add(parts)) {
        Some(millionths) if millionths <= 100 * PERCENT => Ok(Share(millionths)),
        _ => Err(Flaw::new(format!("the share \"{text}\" is more than the whole"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_mean_what_they_say() {
        let rows = [
            ("20%", Some(200_000)),
            ("0.5 %", Some(5_000)),
            (" 100%", Some(1_000_000)),
            ("0%", Some(0)),
            ("0.0001%", Some(1)),
            ("12.25%", Some(122_500)),
            ("100.0001%", None),
            ("5000000000%", None),
            ("0.00001%", None),
            ("20", None),
            ("0.2", None),
            ("-1%", None),
            ("%", None),
            (".5%", None),
            ("5.%", None),
            ("1e1%", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_share(text).ok(), expected.map(Share), "{text}");
        }
    }
}
