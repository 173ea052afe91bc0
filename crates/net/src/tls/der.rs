//! What is read of a certificate itself: its subject and the end of its time.

use std::time::Duration;

/// Tags of DER (X.690, 8.1.2).
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// An element of DER.
pub(super) struct Element<'d> {
    pub(super) tag: u8,
    pub(super) content: &'d [u8],
    /// What is behind it.
    pub(super) rest: &'d [u8],
}

pub(super) fn element(input: &[u8]) -> Option<Element<'_>> {
    let (&tag, rest) = input.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // The number of bytes that hold the length (X.690, 8.1.3.5).
        0x81..=0x83 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (bytes.iter().fold(0, |length, &byte| length << 8 | usize::from(byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some(Element { tag, content, rest })
}

/// Content and rest of an element of this tag.
pub(super) fn tagged(input: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let element = element(input)?;
    (element.tag == wanted).then_some((element.content, element.rest))
}

/// What stands behind version and serial number, algorithm and issuer (RFC 5280, 4.1).
fn validity_and_subject(der: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = tagged(der, SEQUENCE)?;
    let (mut rest, _) = tagged(certificate, SEQUENCE)?;
    if let Some((_, behind)) = tagged(rest, VERSION) {
        rest = behind;
    }
    for _ in 0..3 {
        rest = element(rest)?.rest;
    }
    Some(rest)
}

/// The subject of a certificate (RFC 5280, 4.1.2.6).
pub(super) fn subject(der: &[u8]) -> Option<&[u8]> {
    let (_, rest) = tagged(validity_and_subject(der)?, SEQUENCE)?;
    Some(tagged(rest, SEQUENCE)?.0)
}

/// The last moment of a certificate, since 1970; one before 1970 reads as 1970 (RFC 5280, 4.1.2.5).
#[must_use]
pub fn not_after(der: &[u8]) -> Option<Duration> {
    let (validity, _) = tagged(validity_and_subject(der)?, SEQUENCE)?;
    let not_before = element(validity)?;
    let Element { tag, content, .. } = element(not_before.rest)?;
    let text = std::str::from_utf8(content).ok()?.strip_suffix('Z')?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year = number(year)?;
            // RFC 5280, 4.1.2.5.1.
            (if year >= 50 { 1900 + year } else { 2000 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (number(year)?, rest)
        }
        _ => return None,
    };
    moment(year, rest)
}

fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The moment of a year at `MMDDhhmmss`.
fn moment(year: u64, rest: &str) -> Option<Duration> {
    if rest.len() != 10 {
        return None;
    }
    let two = |at: usize| number(rest.get(at..at + 2)?);
    let (month, day) = (two(0)?, two(2)?);
    let (hour, minute, second) = (two(4)?, two(6)?, two(8)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    // Days since 0000-03-01, with years from March on, so that the leap day is the last of its year.
    let (year, month) =
        if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let since = days.saturating_sub(719_468);
    Some(Duration::from_secs(((since * 24 + hour) * 60 + minute) * 60 + second))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    #[test]
    fn the_end_of_a_certificate_is_read_from_both_forms_of_time() {
        let rows = [
            ((2026, 11, 22), 1_795_305_600),
            ((2000, 2, 29), 951_782_400),
            ((2049, 12, 31), 2_524_521_600),
            // From 2050 on the year has four digits.
            ((2050, 1, 1), 2_524_608_000),
            ((2100, 3, 1), 4_107_542_400),
            ((1970, 1, 1), 0),
            ((1960, 1, 1), 0),
        ];
        let key = KeyPair::generate().unwrap();
        for ((year, month, day), seconds) in rows {
            let mut params = CertificateParams::new(["a.test".to_owned()]).unwrap();
            params.not_after = date_time_ymd(year, month, day);
            let made = params.self_signed(&key).unwrap();
            let end = not_after(made.der()).unwrap();
            assert_eq!(end, Duration::from_secs(seconds), "{year}-{month}-{day}");
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in
            ["", "1122000000", "0022000000", "1332000000", "1132240000", "11220000", "+1+2+3+4+5"]
        {
            assert_eq!(moment(2026, text).is_some(), text == "1122000000", "{text}");
        }
    }
}
