//! Moments in fields: the form of HTTP, or seconds.

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Reads `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7) or Unix time in seconds, as the latter.
#[must_use]
pub fn parse_date(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    if !text.is_empty() && text.len() <= 12 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    if text.len() != 29 || !text.ends_with(" GMT") {
        return None;
    }
    let separators = [(3, ", "), (7, " "), (11, " "), (16, " "), (19, ":"), (22, ":")];
    if separators
        .iter()
        .any(|(at, separator)| text.get(*at..at + separator.len()) != Some(separator))
    {
        return None;
    }
    DAYS.iter().find(|day| text.get(..3) == Some(day))?;
    let month = MONTHS.iter().position(|month| text.get(8..11) == Some(month))?;
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        let whole = digits.bytes().all(|byte| byte.is_ascii_digit());
        whole.then(|| digits.parse::<u64>().ok()).flatten()
    };
    let (day, year) = (number(5, 7)?, number(12, 16)?);
    let (hour, minute, second) = (number(17, 19)?, number(20, 22)?, number(23, 25)?);
    let fits = (1..=31).contains(&day) && year >= 1970 && hour < 24 && minute < 60 && second <= 60;
    if !fits {
        return None;
    }
    let days = days_before(year, u64::try_from(month).ok()?).checked_add(day)?.checked_sub(1)?;
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// Days from 1970 to the first of a month, counted from zero.
fn days_before(year: u64, month: u64) -> u64 {
    const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let years = year.saturating_sub(1970);
    let last = year.saturating_sub(1);
    let leaps = last / 4 - last / 100 + last / 400 - (1969 / 4 - 1969 / 100 + 1969 / 400);
    let leap = (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    let before = usize::try_from(month).ok().and_then(|month| BEFORE.get(month)).copied();
    years * 365 + leaps + before.unwrap_or_default() + u64::from(leap && month > 1)
}

#[cfg(test)]
mod tests {
    use super::parse_date;

    #[test]
    fn reads_moments() {
        let table = [
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Thu, 29 Feb 2024 12:00:00 GMT", Some(1_709_208_000)),
            ("Fri, 01 Mar 2024 00:00:00 GMT", Some(1_709_251_200)),
            ("Mon, 01 Jan 2001 00:00:00 GMT", Some(978_307_200)),
            ("Fri, 31 Dec 2100 23:59:59 GMT", Some(4_133_980_799)),
            ("784111777", Some(784_111_777)),
            ("0", Some(0)),
            ("", None),
            ("-1", None),
            ("1e9", None),
            ("7841117770000", None),
            ("Sunday, 06-Nov-94 08:49:37 GMT", None),
            ("Sun Nov  6 08:49:37 1994", None),
            ("Sun, 06 Nov 1994 08:49:37 UTC", None),
            ("Sun, 06 Nov 1994 24:49:37 GMT", None),
            ("Sun, 00 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06 Foo 1994 08:49:37 GMT", None),
            ("Sun, +6 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 0000 08:49:37 GMT", None),
            ("Sün, 6 Nov 1994 08:49:37 GMT", None),
        ];
        for (text, wanted) in table {
            assert_eq!(parse_date(text.as_bytes()), wanted, "{text}");
        }
    }
}
