//! Moments in field values.

const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

const DAYS: [&[u8]; 7] =
    [b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday", b"Saturday", b"Sunday"];

/// Reads a date in any of the three forms (RFC 9110, 5.6.7), as seconds since 1970. Years of two digits are
/// taken for the one that is not more than 50 years after `now`, in seconds since 1970. Case and every space
/// count: what nearly looks like a date is none, and fields of caches are judged by that.
#[must_use]
pub fn parse_http_date(value: &[u8], now: u64) -> Option<u64> {
    let mut words = value.split(|&byte| byte == b' ');
    let first = words.next()?;
    match first.split_last() {
        // Sun, 06 Nov 1994 08:49:37 GMT
        Some((b',', name)) if name.len() == 3 => {
            let _ = weekday(name)?;
            let (day, month, year) = (words.next()?, words.next()?, words.next()?);
            let clock = words.next()?;
            let moment = seconds((number(year, 4)?, month_of(month)?, number(day, 2)?), clock)?;
            ended_by_gmt(words).then_some(moment)
        }
        // Sunday, 06-Nov-94 08:49:37 GMT
        Some((b',', name)) => {
            let _ = weekday(name)?;
            let mut parts = words.next()?.split(|&byte| byte == b'-');
            let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
            let year = full_year(number(year, 2)?, now);
            let clock = words.next()?;
            let moment = seconds((year, month_of(month)?, number(day, 2)?), clock)?;
            (parts.next().is_none() && ended_by_gmt(words)).then_some(moment)
        }
        // Sun Nov  6 08:49:37 1994
        _ => {
            let _ = weekday(first).filter(|_| first.len() == 3)?;
            let month = words.next()?;
            // A day of one digit stands behind two spaces.
            let day = match words.next()? {
                b"" => number(words.next()?, 1)?,
                day => number(day, 2)?,
            };
            let (clock, year) = (words.next()?, words.next()?);
            let moment = seconds((number(year, 4)?, month_of(month)?, day), clock)?;
            words.next().is_none().then_some(moment)
        }
    }
}

fn ended_by_gmt<'w>(mut words: impl Iterator<Item = &'w [u8]>) -> bool {
    words.next() == Some(b"GMT") && words.next().is_none()
}

/// The name of a day, whole or by its first three letters.
fn weekday(name: &[u8]) -> Option<usize> {
    DAYS.iter().position(|day| *day == name || day.get(..3) == Some(name))
}

fn month_of(name: &[u8]) -> Option<u64> {
    let place = MONTHS.iter().position(|month| *month == name)?;
    u64::try_from(place).ok()
}

/// A number of so many digits.
fn number(digits: &[u8], length: usize) -> Option<u64> {
    let whole = !digits.is_empty() && digits.len() == length;
    let mut value = 0_u64;
    for byte in digits {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    whole.then_some(value)
}

/// The year these two digits stand for.
fn full_year(digits: u64, now: u64) -> u64 {
    let this_year = 1970 + now / 31_556_952;
    let year = this_year - this_year % 100 + digits;
    if year > this_year + 50 { year - 100 } else { year }
}

/// Seconds since 1970 of a day and a time such as `08:49:37`.
fn seconds((year, month, day): (u64, u64, u64), clock: &[u8]) -> Option<u64> {
    let mut parts = clock.split(|&byte| byte == b':');
    let mut next = || number(parts.next()?, 2);
    let (hour, minute, second) = (next()?, next()?, next()?);
    let leap = (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    let last = match month {
        1 if leap => 29,
        1 => 28,
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    };
    let fits = (1970..=9999).contains(&year)
        && (1..=last).contains(&day)
        && hour < 24
        && minute < 60
        // A leap second.
        && second <= 60
        && parts.next().is_none();
    let days = days_before(year, month, leap).checked_add(day)?.checked_sub(1)?;
    fits.then_some(days * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// Days from 1970 to the first of a month, counted from zero.
fn days_before(year: u64, month: u64, leap: bool) -> u64 {
    const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let last = year.saturating_sub(1);
    let leaps = last / 4 - last / 100 + last / 400;
    let until_1970 = 1969 / 4 - 1969 / 100 + 1969 / 400;
    let before = usize::try_from(month).ok().and_then(|month| BEFORE.get(month)).copied();
    year.saturating_sub(1970) * 365
        + leaps.saturating_sub(until_1970)
        + before.unwrap_or_default()
        + u64::from(leap && month > 1)
}

#[cfg(test)]
mod tests {
    use super::parse_http_date;

    #[test]
    fn reads_all_three_forms_and_nothing_else() {
        let now = 1_795_000_000;
        let table: &[(&str, Option<u64>)] = &[
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777)),
            ("Sun Nov  6 08:49:37 1994", Some(784_111_777)),
            ("Wednesday, 06-Nov-30 08:49:37 GMT", Some(1_920_185_377)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Thu, 29 Feb 2024 12:00:00 GMT", Some(1_709_208_000)),
            ("Fri, 01 Mar 2024 00:00:00 GMT", Some(1_709_251_200)),
            ("Sat, 31 Dec 2016 23:59:60 GMT", Some(1_483_228_800)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(253_402_300_799)),
            ("", None),
            ("0", None),
            ("-1", None),
            ("Thu, 29 Feb 2023 12:00:00 GMT", None),
            ("Thu, 31 Apr 2024 12:00:00 GMT", None),
            ("Sun, 06 Nov 1994 08:49:37 UTC", None),
            ("Sun, 06 Nov 1994 08:49:37", None),
            ("Sun, 06 Nov 1994 08:49:37 GMT GMT", None),
            ("Sun, 06 Nov 1994 24:00:00 GMT", None),
            ("Sun, 06 Nov 1994 08:49 GMT", None),
            ("Sun, 00 Nov 1994 08:49:37 GMT", None),
            ("Sun, 6 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06 nov 1994 08:49:37 GMT", None),
            ("Foo, 06 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 0000 08:49:37 GMT", None),
            ("Sun Nov 123 08:49:37 1994", None),
            ("Sun, +6 Nov 1994 08:49:37 GMT", None),
            ("Sun Nov 06 08:49:37 1994", Some(784_111_777)),
            ("Sun Nov 16 08:49:37 1994", Some(784_975_777)),
            // One space, and no other.
            ("Sun,  06 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06  Nov  1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08:49:37  GMT", None),
            ("Sun, 06 Nov 1994\t08:49:37 GMT", None),
            (" Sun, 06 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08:49:37 GMT ", None),
            ("Sun Nov 6 08:49:37 1994", None),
            ("Sun Nov   6 08:49:37 1994", None),
            ("Sun  Nov 16 08:49:37 1994", None),
            ("Sunday, 06-Nov-94  08:49:37 GMT", None),
            // Case counts (RFC 9110, 5.6.7).
            ("SUN, 06 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06 NOV 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08:49:37 gmt", None),
            ("Sun 06 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06-Nov-1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 94 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 8:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08.49.37 GMT", None),
            ("Sun, 06 Nov 1994 08:49:37 +0000", None),
            ("1994-11-06T08:49:37Z", None),
            ("784111777", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse_http_date(text.as_bytes(), now), *expected, "{text}");
        }
    }
}
