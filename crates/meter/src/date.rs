//! Dates from seconds since 1970, in UTC, by arithmetic alone.

use crate::decimal::{low_digit, push_padded};

const WEEKDAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];
/// The last second of the year 9999, the last with a form in every format here.
const LAST_SECOND: u64 = 253_402_300_799;
const DAY: u64 = 86_400;

/// A moment of the Gregorian calendar in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    year: u64,
    /// 1 to 12.
    month: u64,
    /// 1 to 31.
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    weekday: &'static [u8; 3],
}

impl Civil {
    /// Later than the year 9999 reads as its last second.
    pub(crate) fn of(unix_seconds: u64) -> Self {
        let seconds = unix_seconds.min(LAST_SECOND);
        let (days, second) = (seconds / DAY, seconds % DAY);
        // Years run from March here, so that the leap day is the last of its year: days since
        // 0000-03-01, cut into eras of 400 years, which all have the same number of days.
        let since = days + 719_468;
        let (era, of_era) = (since / 146_097, since % 146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * of_year + 2) / 153;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        Self {
            year: year_of_era + era * 400 + u64::from(month <= 2),
            month,
            day: of_year - (153 * march_month + 2) / 5 + 1,
            hour: second / 3_600,
            minute: second / 60 % 60,
            second: second % 60,
            weekday: nth(&WEEKDAYS, days % 7),
        }
    }

    /// `2026-11-21T01:11:12.345Z` (RFC 3339).
    pub(crate) fn push_iso(&self, millis: u64, out: &mut Vec<u8>) {
        let parts = [
            (self.year, 4, b'-'),
            (self.month, 2, b'-'),
            (self.day, 2, b'T'),
            (self.hour, 2, b':'),
            (self.minute, 2, b':'),
            (self.second, 2, b'.'),
            (millis, 3, b'Z'),
        ];
        for (value, width, behind) in parts {
            push_padded(out, value, width);
            out.push(behind);
        }
    }

    /// `21/Nov/2026:01:11:12 +0000`, the form of the Common Log Format.
    pub(crate) fn push_clf(&self, out: &mut Vec<u8>) {
        push_padded(out, self.day, 2);
        out.push(b'/');
        out.extend_from_slice(nth(&MONTHS, self.month - 1));
        out.push(b'/');
        push_padded(out, self.year, 4);
        for value in [self.hour, self.minute, self.second] {
            out.push(b':');
            push_padded(out, value, 2);
        }
        out.extend_from_slice(b" +0000");
    }
}

fn nth<const N: usize>(names: &[&'static [u8; 3]; N], at: u64) -> &'static [u8; 3] {
    usize::try_from(at).ok().and_then(|at| names.get(at)).copied().unwrap_or(b"   ")
}

/// Writes a moment as `2026-11-21T01:11:12.345Z` (RFC 3339).
pub fn push_iso_date(unix_ms: u64, out: &mut Vec<u8>) {
    Civil::of(unix_ms / 1_000).push_iso(unix_ms % 1_000, out);
}

/// Writes the value of `Date` (IMF-fixdate, RFC 9110, 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`.
/// Seconds beyond the year 9999 are written as its last one.
pub fn http_date(unix_seconds: u64, out: &mut [u8; 29]) {
    let civil = Civil::of(unix_seconds);
    let two = |value: u64| [b'0' + low_digit(value / 10), b'0' + low_digit(value)];
    let month = nth(&MONTHS, civil.month - 1);
    let year = [two(civil.year / 100), two(civil.year % 100)];
    let clock = [two(civil.hour), two(civil.minute), two(civil.second)];
    let parts: [&[u8]; 15] = [
        civil.weekday,
        b", ",
        &two(civil.day),
        b" ",
        month,
        b" ",
        year.as_flattened(),
        b" ",
        &clock[0],
        b":",
        &clock[1],
        b":",
        &clock[2],
        b" ",
        b"GMT",
    ];
    for (to, from) in out.iter_mut().zip(parts.into_iter().flatten()) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(seconds: u64) -> (String, String, String) {
        let mut date = [0; 29];
        http_date(seconds, &mut date);
        let (mut iso, mut clf) = (Vec::new(), Vec::new());
        Civil::of(seconds).push_iso(7, &mut iso);
        Civil::of(seconds).push_clf(&mut clf);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(date.to_vec()), text(iso), text(clf))
    }

    #[test]
    fn known_moments() {
        // From `date -u -d @SECONDS`.
        let cases = [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT", "1970-01-01T00:00:00.007Z"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT", "1994-11-06T08:49:37.007Z"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT", "2000-02-28T23:59:59.007Z"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT", "2000-02-29T00:00:00.007Z"),
            (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT", "2000-03-01T00:00:00.007Z"),
            (1_709_164_800, "Thu, 29 Feb 2024 00:00:00 GMT", "2024-02-29T00:00:00.007Z"),
            (1_735_689_599, "Tue, 31 Dec 2024 23:59:59 GMT", "2024-12-31T23:59:59.007Z"),
            (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT", "2100-02-28T23:59:59.007Z"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT", "2100-03-01T00:00:00.007Z"),
            (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT", "9999-12-31T23:59:59.007Z"),
            (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT", "9999-12-31T23:59:59.007Z"),
        ];
        for (seconds, http, iso) in cases {
            let (got_http, got_iso, _) = texts(seconds);
            assert_eq!((got_http.as_str(), got_iso.as_str()), (http, iso), "{seconds}");
        }
        assert_eq!(texts(784_111_777).2, "06/Nov/1994:08:49:37 +0000");
    }

    #[test]
    fn every_day_of_400_years_follows_the_one_before() {
        let leap = |year: u64| {
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
        };
        let days_in = |year: u64, month: u64| match month {
            2 if leap(year) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..146_097 {
            let civil = Civil::of(days * DAY + 86_399);
            assert_eq!((civil.year, civil.month, civil.day), (year, month, day));
            assert_eq!((civil.hour, civil.minute, civil.second), (23, 59, 59));
            day += 1;
            if day > days_in(year, month) {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }
}
