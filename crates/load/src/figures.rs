//! How figures are written in reports: grouped counts, latencies with their unit, differences, dates.

/// A count as a floating-point number. Above 2^53 the last digits are lost, which no report shows.
#[expect(clippy::as_conversions, reason = "there is no lossless u64 -> f64; see above")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

/// A length as a floating-point number.
pub(crate) fn length(count: usize) -> f64 {
    float(u64::try_from(count).unwrap_or(u64::MAX))
}

/// The nearest whole number; nothing below zero, and not-a-number is zero.
#[expect(clippy::as_conversions, reason = "a float cast saturates, and that is what is meant")]
pub(crate) fn whole(value: f64) -> u64 {
    value.round().max(0.0) as u64
}

/// A count with its thousands apart: `560 958`.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len().saturating_mul(2));
    for (index, digit) in digits.chars().enumerate() {
        let left = digits.len().saturating_sub(index);
        if index > 0 && left % 3 == 0 {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// A rate, whole where it is large: `560 958`, `12.5`.
pub(crate) fn rate(value: f64) -> String {
    let short = value < 100.0 && value.fract() != 0.0;
    if short { format!("{value:.1}") } else { count(whole(value)) }
}

/// A time given in microseconds, with three digits and the fitting unit: `53 µs`, `6.80 ms`.
pub(crate) fn time(micros: f64) -> String {
    let (value, unit) = match micros {
        m if m < 1000.0 => (m, "µs"),
        m if m < 1_000_000.0 => (m / 1000.0, "ms"),
        m => (m / 1_000_000.0, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// Three digits that say something: `1.23`, `12.3`, `123`, `53`.
pub(crate) fn three_digits(value: f64) -> String {
    let text = match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    };
    match text.strip_suffix(".0").or_else(|| text.strip_suffix(".00")) {
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// How far a ratio is from 1, in percent and with its sign: `+12.3 %`.
pub(crate) fn difference(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

/// A share as percent: `1.2 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// An amount of bytes: `320 MB`, in thousands as networks and disks count.
pub(crate) fn bytes(value: f64) -> String {
    let (scaled, unit) = match value {
        v if v < 1e3 => (v, "B"),
        v if v < 1e6 => (v / 1e3, "KB"),
        v if v < 1e9 => (v / 1e6, "MB"),
        v => (v / 1e9, "GB"),
    };
    format!("{} {unit}", three_digits(scaled))
}

/// A percentile's name: `p50`, `p99.9`, and `max` for the last.
pub(crate) fn percentile(percentile: f64) -> String {
    if percentile >= 100.0 { "max".to_owned() } else { format!("p{percentile}") }
}

/// A moment given in milliseconds since 1970: `2026-11-21 02:15:37 UTC`.
pub(crate) fn date(unix_ms: u64) -> String {
    let seconds = unix_ms / 1000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02} UTC", second % 60)
}

/// Year, month and day of a day counted from 1970-01-01, by 400-year eras that start in March.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days.saturating_add(719_468);
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era + of_era / 36_524 - of_era / 1460 - of_era / 146_096) / 365;
    let of_year = of_era + year_of_era / 100 - year_of_era / 4 - year_of_era * 365;
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped() {
        let rows = [(0, "0"), (999, "999"), (1000, "1 000"), (560_958, "560 958")];
        for (value, expected) in rows {
            assert_eq!(count(value), expected);
        }
        assert_eq!(count(u64::MAX), "18 446 744 073 709 551 615");
    }

    #[test]
    fn times_have_the_fitting_unit() {
        let rows = [
            (0.5, "0.50 µs"),
            (53.0, "53 µs"),
            (476.4, "476 µs"),
            (6800.0, "6.80 ms"),
            (12_345.0, "12.3 ms"),
            (277_000.0, "277 ms"),
            (1_450_000.0, "1.45 s"),
            (2_000_000.0, "2 s"),
        ];
        for (micros, expected) in rows {
            assert_eq!(time(micros), expected, "{micros}");
        }
    }

    #[test]
    fn other_figures() {
        assert_eq!(rate(12.54), "12.5");
        assert_eq!(rate(199_733.4), "199 733");
        assert_eq!(difference(1.123), "+12.3 %");
        assert_eq!(difference(0.9), "-10.0 %");
        assert_eq!(bytes(320_000_000.0), "320 MB");
        assert_eq!(percentile(99.9), "p99.9");
        assert_eq!(percentile(100.0), "max");
        assert_eq!(whole(-3.0), 0);
        assert_eq!(whole(f64::NAN), 0);
    }

    #[test]
    fn dates() {
        let rows = [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400_000, "2000-02-29 00:00:00 UTC"),
            (951_868_799_999, "2000-02-29 23:59:59 UTC"),
            (1_735_689_599_000, "2024-12-31 23:59:59 UTC"),
            (4_107_542_400_000, "2100-03-01 00:00:00 UTC"),
        ];
        for (unix_ms, expected) in rows {
            assert_eq!(date(unix_ms), expected);
        }
    }
}
