//! Times as values: the reference time layouts of Go, compiled once and written without allocating.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use sluice_net::process::wall_clock;

use crate::script::text::{push_number, push_padded};

/// Which zone a time is told in.
#[derive(Clone, Debug)]
pub(crate) enum Zone {
    /// The zone of the machine.
    Local(TimeZone),
    Utc,
}

impl Zone {
    pub(crate) fn local() -> Self {
        Self::Local(TimeZone::system())
    }
}

/// A layout in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout(Box<[Piece]>);

/// How many characters a fraction of a second has, and whether trailing zeros are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Digits {
    All(u8),
    Trimmed(u8),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Box<str>),
    Year,
    ShortYear,
    MonthName,
    ShortMonthName,
    Month,
    PaddedMonth,
    WeekdayName,
    ShortWeekdayName,
    Day,
    SpacedDay,
    PaddedDay,
    DayOfYear,
    Hour,
    Hour12,
    PaddedHour12,
    Minute,
    PaddedMinute,
    Second,
    PaddedSecond,
    Noon(Noon),
    Fraction(char, Digits),
    Offset(Offset),
    ZoneName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Noon {
    Upper,
    Lower,
}

/// The ways to write the distance to UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offset {
    /// `Z` for UTC itself.
    z: bool,
    colons: bool,
    parts: u8,
}

const fn offset(z: bool, colons: bool, parts: u8) -> Piece {
    Piece::Offset(Offset { z, colons, parts })
}

/// The elements of a layout; where one begins with another, the longer one comes first.
static ELEMENTS: [(&str, Piece); 33] = [
    ("January", Piece::MonthName),
    ("Monday", Piece::WeekdayName),
    ("2006", Piece::Year),
    ("Z07:00:00", offset(true, true, 3)),
    ("-07:00:00", offset(false, true, 3)),
    ("Z070000", offset(true, false, 3)),
    ("-070000", offset(false, false, 3)),
    ("Z07:00", offset(true, true, 2)),
    ("-07:00", offset(false, true, 2)),
    ("Z0700", offset(true, false, 2)),
    ("-0700", offset(false, false, 2)),
    ("Z07", offset(true, false, 1)),
    ("-07", offset(false, false, 1)),
    ("MST", Piece::ZoneName),
    ("Jan", Piece::ShortMonthName),
    ("Mon", Piece::ShortWeekdayName),
    ("002", Piece::DayOfYear),
    ("01", Piece::PaddedMonth),
    ("02", Piece::PaddedDay),
    ("03", Piece::PaddedHour12),
    ("04", Piece::PaddedMinute),
    ("05", Piece::PaddedSecond),
    ("06", Piece::ShortYear),
    ("15", Piece::Hour),
    ("PM", Piece::Noon(Noon::Upper)),
    ("pm", Piece::Noon(Noon::Lower)),
    ("_2006", Piece::Year),
    ("_2", Piece::SpacedDay),
    ("1", Piece::Month),
    ("2", Piece::Day),
    ("3", Piece::Hour12),
    ("4", Piece::Minute),
    ("5", Piece::Second),
];

impl Layout {
    /// The layout a text describes by writing Go's reference time, Mon Jan 2 15:04:05 MST 2006.
    pub(crate) fn new(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let (piece, length) = element(rest, first);
            match piece {
                Some(piece) => {
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain).into()));
                    }
                    // `_2006` is a blank in front of a year.
                    if rest.starts_with("_2006") {
                        pieces.push(Piece::Text("_".into()));
                    }
                    pieces.push(piece);
                }
                None => plain.push(first),
            }
            rest = rest.get(length..).unwrap_or_default();
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain.into()));
        }
        Self(pieces.into())
    }

    /// Appends the present time.
    pub(crate) fn write(&self, zone: &Zone, out: &mut Vec<u8>) {
        let since = wall_clock();
        let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        let nanos = i32::try_from(since.subsec_nanos()).unwrap_or(0);
        self.write_at(Timestamp::new(seconds, nanos).unwrap_or_default(), zone, out);
    }

    fn write_at(&self, at: Timestamp, zone: &Zone, out: &mut Vec<u8>) {
        match zone {
            Zone::Utc => {
                let time = jiff::tz::Offset::UTC.to_datetime(at);
                self.pieces(Moment { time, offset: 0, zone: "UTC" }, out);
            }
            Zone::Local(zone) => {
                let info = zone.to_offset_info(at);
                let time = info.offset().to_datetime(at);
                let offset = info.offset().seconds();
                self.pieces(Moment { time, offset, zone: info.abbreviation() }, out);
            }
        }
    }

    fn pieces(&self, moment: Moment<'_>, out: &mut Vec<u8>) {
        for piece in &self.0 {
            moment.write(piece, out);
        }
    }
}

/// The element a text begins with, and how long it is; without one, the length of its first
/// character.
fn element(rest: &str, first: char) -> (Option<Piece>, usize) {
    if matches!(first, '.' | ',') {
        return fraction(rest, first);
    }
    // "Jan" in "Janet" is a name, not a month.
    let found = ELEMENTS.iter().find(|(name, _)| {
        rest.strip_prefix(name).is_some_and(|after| match *name {
            "Jan" | "Mon" => !after.starts_with(|c: char| c.is_ascii_lowercase()),
            _ => true,
        })
    });
    found.map_or((None, first.len_utf8()), |(name, piece)| (Some(piece.clone()), name.len()))
}

/// `.000` and `.999`: a fraction of a second, if no digit follows.
fn fraction(rest: &str, sign: char) -> (Option<Piece>, usize) {
    let digits = rest.get(1..).unwrap_or_default();
    let Some(kind) = digits.chars().next().filter(|c| matches!(c, '0' | '9')) else {
        return (None, 1);
    };
    let count = digits.chars().take_while(|c| *c == kind).count();
    let after = digits.get(count..).unwrap_or_default();
    if count > 9 || after.starts_with(|c: char| c.is_ascii_digit()) {
        return (None, 1);
    }
    let length = u8::try_from(count).unwrap_or(9);
    let digits = if kind == '0' { Digits::All(length) } else { Digits::Trimmed(length) };
    (Some(Piece::Fraction(sign, digits)), count.saturating_add(1))
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// A point in time as a zone tells it.
struct Moment<'z> {
    time: DateTime,
    /// Seconds east of UTC.
    offset: i32,
    zone: &'z str,
}

/// A part of a time; none is ever negative.
fn part(number: impl TryInto<u64>) -> u64 {
    number.try_into().unwrap_or(0)
}

fn name<'n>(names: &[&'n str], number: i8) -> &'n str {
    usize::try_from(number)
        .ok()
        .and_then(|number| names.get(number.saturating_sub(1)))
        .copied()
        .unwrap_or_default()
}

fn short(name: &str) -> &str {
    name.get(..3).unwrap_or(name)
}

impl Moment<'_> {
    fn write(&self, piece: &Piece, out: &mut Vec<u8>) {
        let time = &self.time;
        let half_day = match part(time.hour()) % 12 {
            0 => 12,
            hour => hour,
        };
        match piece {
            Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
            Piece::Year => push_padded(out, part(time.year()), 4),
            Piece::ShortYear => push_padded(out, part(time.year()) % 100, 2),
            Piece::MonthName => out.extend_from_slice(name(&MONTHS, time.month()).as_bytes()),
            Piece::ShortMonthName => {
                out.extend_from_slice(short(name(&MONTHS, time.month())).as_bytes());
            }
            Piece::Month => push_number(out, part(time.month())),
            Piece::PaddedMonth => push_padded(out, part(time.month()), 2),
            Piece::WeekdayName => out.extend_from_slice(self.weekday().as_bytes()),
            Piece::ShortWeekdayName => out.extend_from_slice(short(self.weekday()).as_bytes()),
            Piece::Day => push_number(out, part(time.day())),
            Piece::SpacedDay => {
                if time.day() < 10 {
                    out.push(b' ');
                }
                push_number(out, part(time.day()));
            }
            Piece::PaddedDay => push_padded(out, part(time.day()), 2),
            Piece::DayOfYear => push_padded(out, part(time.date().day_of_year()), 3),
            Piece::Hour => push_padded(out, part(time.hour()), 2),
            Piece::Hour12 => push_number(out, half_day),
            Piece::PaddedHour12 => push_padded(out, half_day, 2),
            Piece::Minute => push_number(out, part(time.minute())),
            Piece::PaddedMinute => push_padded(out, part(time.minute()), 2),
            Piece::Second => push_number(out, part(time.second())),
            Piece::PaddedSecond => push_padded(out, part(time.second()), 2),
            Piece::Noon(case) => self.noon(*case, out),
            Piece::Fraction(sign, digits) => self.fraction(*sign, *digits, out),
            Piece::Offset(offset) => self.distance(*offset, out),
            Piece::ZoneName => out.extend_from_slice(self.zone.as_bytes()),
        }
    }

    fn weekday(&self) -> &'static str {
        name(&WEEKDAYS, self.time.weekday().to_monday_one_offset())
    }

    fn noon(&self, case: Noon, out: &mut Vec<u8>) {
        let afternoon = self.time.hour() >= 12;
        out.extend_from_slice(match (case, afternoon) {
            (Noon::Upper, false) => b"AM",
            (Noon::Upper, true) => b"PM",
            (Noon::Lower, false) => b"am",
            (Noon::Lower, true) => b"pm",
        });
    }

    fn fraction(&self, sign: char, digits: Digits, out: &mut Vec<u8>) {
        let (Digits::All(length) | Digits::Trimmed(length)) = digits;
        let start = out.len();
        out.extend_from_slice(if sign == ',' { b"," } else { b"." });
        let scale = 10_u64.pow(9_u32.saturating_sub(u32::from(length)));
        push_padded(out, part(self.time.subsec_nanosecond()) / scale, usize::from(length));
        if matches!(digits, Digits::Trimmed(_)) {
            while out.last() == Some(&b'0') {
                out.pop();
            }
            if out.len() == start.saturating_add(1) {
                out.pop();
            }
        }
    }

    fn distance(&self, form: Offset, out: &mut Vec<u8>) {
        if form.z && self.offset == 0 {
            out.push(b'Z');
            return;
        }
        out.push(if self.offset < 0 { b'-' } else { b'+' });
        let seconds = u64::from(self.offset.unsigned_abs());
        let parts = [seconds / 3600, seconds / 60 % 60, seconds % 60];
        for (number, part) in parts.iter().take(usize::from(form.parts)).enumerate() {
            if number > 0 && form.colons {
                out.push(b':');
            }
            push_padded(out, *part, 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_of_go() {
        let at: Timestamp = "2026-03-07T04:05:09.120034Z".parse().unwrap();
        let zone = TimeZone::posix("CET-1").unwrap();
        let local = Zone::Local(zone);
        let rows = [
            ("2006-01-02T15:04:05-0700", &Zone::Utc, "2026-03-07T04:05:09+0000"),
            ("2006-01-02T15:04:05Z07:00", &Zone::Utc, "2026-03-07T04:05:09Z"),
            ("2006-01-02T15:04:05.000", &Zone::Utc, "2026-03-07T04:05:09.120"),
            ("15:04:05.999999999", &Zone::Utc, "04:05:09.120034"),
            ("15:04:05,000000", &Zone::Utc, "04:05:09,120034"),
            ("Mon Jan _2 15:04:05 2006", &Zone::Utc, "Sat Mar  7 04:05:09 2026"),
            ("Monday, January 2, 3:4:5 pm", &Zone::Utc, "Saturday, March 7, 4:5:9 am"),
            ("02.01.06 03PM 002", &Zone::Utc, "07.03.26 04AM 066"),
            ("Janet 1/2", &Zone::Utc, "Janet 3/7"),
            ("0002", &Zone::Utc, "0066"),
            ("", &Zone::Utc, ""),
            ("15:04 MST -07:00 Z07:00 -07", &local, "05:05 CET +01:00 +01:00 +01"),
        ];
        for (layout, zone, expected) in rows {
            let mut out = Vec::new();
            Layout::new(layout).write_at(at, zone, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected, "{layout}");
        }
    }
}
