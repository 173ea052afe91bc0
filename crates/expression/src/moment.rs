//! What the clock shows, in UTC, by arithmetic alone.

use crate::decimal::push_decimal;

const DAY: u64 = 86_400;
/// The last second of the year 9999, the last that has a date of ten characters.
const LAST_SECOND: u64 = 253_402_300_799;

/// A number that the clock shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hand {
    /// Seconds since 1970.
    Unix,
    /// 0 to 23.
    Hour,
    /// 0 to 59.
    Minute,
    /// 1 for Monday to 7 for Sunday (ISO 8601).
    Weekday,
}

impl Hand {
    pub(crate) const fn at(self, unix_ms: u64) -> u64 {
        let seconds = unix_ms / 1000;
        match self {
            Self::Unix => seconds,
            Self::Hour => seconds % DAY / 3_600,
            Self::Minute => seconds / 60 % 60,
            // The first of January 1970 was a Thursday.
            Self::Weekday => (seconds / DAY + 3) % 7 + 1,
        }
    }
}

/// `2026-11-22` (ISO 8601); later than the year 9999 reads as its last day.
pub(crate) fn date(unix_ms: u64) -> Vec<u8> {
    // Years run from March here, so that the leap day is the last of its year: days since 0000-03-01, cut
    // into eras of 400 years, which all have the same number of days.
    let since = (unix_ms / 1000).min(LAST_SECOND) / DAY + 719_468;
    let (era, of_era) = (since / 146_097, since % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let mut out = Vec::with_capacity(10);
    push_decimal(&mut out, year_of_era + era * 400 + u64::from(month <= 2), 4);
    out.push(b'-');
    push_decimal(&mut out, month, 2);
    out.push(b'-');
    push_decimal(&mut out, of_year - (153 * march_month + 2) / 5 + 1, 2);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_read() {
        // date -u -d @SECONDS '+%F %H %M %u'
        let rows = [
            (0, "1970-01-01 0 0 4"),
            (951_782_399, "2000-02-28 23 59 1"),
            (951_782_400, "2000-02-29 0 0 2"),
            (951_868_800, "2000-03-01 0 0 3"),
            (1_795_322_096, "2026-11-22 4 34 7"),
            (4_107_542_399, "2100-02-28 23 59 7"),
            (4_107_542_400, "2100-03-01 0 0 1"),
            (253_402_300_799, "9999-12-31 23 59 5"),
        ];
        for (seconds, shown) in rows {
            let ms = seconds * 1000 + 999;
            let date = String::from_utf8(date(ms)).unwrap();
            let hands = [Hand::Hour, Hand::Minute, Hand::Weekday].map(|hand| hand.at(ms));
            assert_eq!(format!("{date} {} {} {}", hands[0], hands[1], hands[2]), shown);
            assert_eq!(Hand::Unix.at(ms), seconds);
        }
        assert_eq!(date(u64::MAX), b"9999-12-31");
    }
}
