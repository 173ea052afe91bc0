//! Sizes as they are written: "64KiB", "10MB", 512.

use crate::problem::Flaw;

/// The units, largest first, in bytes.
const UNITS: [(&str, u64); 10] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("kB", 1_000),
    ("B", 1),
];

/// The number of bytes a text means; digits alone are bytes.
pub(crate) fn parse_size(text: &str) -> Result<u64, Flaw> {
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
    let (digits, unit) = trimmed.split_at_checked(end).unwrap_or((trimmed, ""));
    let factor = match unit.trim_start() {
        "" => Some(1),
        unit => UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor),
    };
    let Some(factor) = factor.filter(|_| !digits.is_empty()) else {
        return Err(malformed(text, unit));
    };
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .ok_or_else(|| Flaw::new(format!("the size \"{text}\" is too large")))
}

/// A size as it would be written.
pub(crate) fn size_text(size: u64) -> String {
    let binary = UNITS.iter().filter(|(name, _)| name.ends_with("iB"));
    for (unit, factor) in binary {
        if size > 0 && size.is_multiple_of(*factor) {
            return format!("{}{unit}", size.checked_div(*factor).unwrap_or_default());
        }
    }
    format!("{size}B")
}

fn malformed(text: &str, unit: &str) -> Flaw {
    let near = UNITS.iter().find(|(name, _)| {
        name.eq_ignore_ascii_case(unit)
            || name.replace('i', "").trim_end_matches('B').eq_ignore_ascii_case(unit)
    });
    let flaw = Flaw::new(format!("\"{text}\" is not a size"));
    match near {
        Some((name, _)) if !unit.is_empty() => flaw.with_help(format!("did you mean \"{name}\"?")),
        _ => flaw.with_help(
            "write a number of bytes, or one with a unit: \"64KiB\", \"1MiB\", \"1GiB\", \"10KB\"",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        let rows = [
            ("512", Some(512)),
            ("512B", Some(512)),
            ("64KiB", Some(65_536)),
            ("64 KiB", Some(65_536)),
            ("1MiB", Some(1_048_576)),
            ("1GiB", Some(1_073_741_824)),
            ("10KB", Some(10_000)),
            ("10kB", Some(10_000)),
            ("0", Some(0)),
            ("1TiB", Some(1 << 40)),
            ("", None),
            ("KiB", None),
            ("64k", None),
            ("64kib", None),
            ("1.5MiB", None),
            ("-1", None),
            ("99999999999999999999", None),
            ("99999999999TiB", None),
        ];
        for (text, expected) in rows {
            let got = parse_size(text).ok();
            assert_eq!(got, expected, "{text:?}");
            if let Some(size) = got {
                assert_eq!(parse_size(&size_text(size)), Ok(size));
            }
        }
    }

    #[test]
    fn the_unit_meant_is_named() {
        let rows = [("64kib", "KiB"), ("64k", "KiB"), ("1m", "MiB"), ("1gb", "GB")];
        for (text, unit) in rows {
            let help = parse_size(text).unwrap_err().help.unwrap();
            assert!(help.contains(unit), "{text}: {help}");
        }
    }
}
