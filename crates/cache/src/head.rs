//! The lines of an answer that are kept, and how a 304 changes them (RFC 9111, 3.1 and 3.2).

use sluice_message::{FieldId, Fields, SpaceExhausted, parse_http_date};
use sluice_meter::http_date;

use crate::policy::items;

/// Lines that are never kept, apart from those of the connection: made anew, or for one hop.
const UNKEPT: &[&[u8]] = &[b"age", b"proxy-authentication-info", b"proxy-status"];

/// Lines of a 304 that say nothing about what is kept (RFC 9111, 3.2): they belong to its content, or are for one hop.
const BOUND: &[&[u8]] = &[
    b"content-encoding",
    b"content-type",
    b"content-range",
    b"vary",
    b"set-cookie",
    b"proxy-authentication-info",
    b"proxy-status",
];

/// The lines that are kept of an answer: not those of one hop (RFC 9111, 3.1), none of `withheld`, which are in
/// lower case. Its date is noted if nobody has, or if what stands there is none (RFC 9110, 6.6.1).
pub(crate) fn kept(
    answer: &Fields,
    withheld: &[Box<[u8]>],
    now: u64,
) -> Result<Fields, SpaceExhausted> {
    let hop = hop_names(answer);
    let mut fields = Fields::new();
    let date = answer.value(FieldId::Date);
    let dated = date.is_some_and(|date| parse_http_date(date, now).is_some());
    for line in answer.lines() {
        let name = answer.slice(line.name);
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        let unkept = line.id.is_hop_by_hop()
            || matches!(line.id, FieldId::ContentLength | FieldId::Trailer)
            || line.id == FieldId::Date && !dated
            || UNKEPT.iter().any(|known| is(known))
            || withheld.iter().any(|known| is(known))
            || hop.iter().any(|known| is(known));
        if !unkept {
            fields.push(name, answer.slice(line.value))?;
        }
    }
    if !dated {
        let mut date = [0; 29];
        http_date(now, &mut date);
        fields.push(b"date", &date)?;
    }
    Ok(fields)
}

/// What an answer says after its origin confirmed it with these lines (RFC 9111, 3.2). `Age` among them counts.
pub(crate) fn confirmed(stored: &Fields, answer: &Fields) -> Result<Fields, SpaceExhausted> {
    let hop = hop_names(answer);
    let speaks = |(name, _): &(&[u8], &[u8])| {
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        let id = FieldId::of(name);
        !(id.is_hop_by_hop()
            || matches!(id, FieldId::ContentLength | FieldId::Trailer)
            || BOUND.iter().any(|known| is(known))
            || hop.iter().any(|known| is(known)))
    };
    let mut fields = Fields::new();
    for (name, value) in stored.iter() {
        let is_date = FieldId::of(name) == FieldId::Date;
        let said_anew = answer.iter().filter(speaks).any(|(new, _)| new.eq_ignore_ascii_case(name));
        // What was confirmed without a date was confirmed now.
        if !said_anew && !is_date {
            fields.push(name, value)?;
        }
    }
    for (name, value) in answer.iter().filter(speaks) {
        fields.push(name, value)?;
    }
    Ok(fields)
}

/// The names that `Connection` nominates (RFC 9110, 7.6.1).
fn hop_names(fields: &Fields) -> Vec<&[u8]> {
    fields.values(FieldId::Connection).flat_map(items).collect()
}

/// The tags of an answer: members of these fields, between spaces or commas.
pub(crate) fn tags(answer: &Fields, names: &[Box<[u8]>]) -> Vec<Box<[u8]>> {
    let mut tags = names
        .iter()
        .flat_map(|name| answer.values_of(name))
        .flat_map(|line| line.split(|byte| matches!(byte, b' ' | b'\t' | b',')))
        .filter(|tag| !tag.is_empty())
        .map(Box::from)
        .collect::<Vec<Box<[u8]>>>();
    tags.sort();
    tags.dedup();
    tags
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::fields;

    #[test]
    fn what_is_for_one_hop_is_not_kept() {
        let answer = fields(&[
            ("Connection", "x-hop, close"),
            ("X-Hop", "1"),
            ("Keep-Alive", "timeout=5"),
            ("Transfer-Encoding", "chunked"),
            ("Content-Length", "5"),
            ("Age", "7"),
            ("Proxy-Authenticate", "Basic"),
            ("Set-Cookie", "a=b"),
            ("Date", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("X-Kept", "2"),
            ("x-kept", "3"),
        ]);
        let kept = kept(&answer, &[(*b"set-cookie").into()], 0).unwrap();
        let expected =
            fields(&[("Date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("X-Kept", "2"), ("x-kept", "3")]);
        assert_eq!(kept, expected);
        let undated: [&[(&str, &str)]; 3] = [&[], &[("Date", "yesterday")], &[("Date", "0")]];
        for lines in undated {
            let undated = super::kept(&fields(lines), &[], 784_111_777).unwrap();
            assert_eq!(undated, fields(&[("date", "Sun, 06 Nov 1994 08:49:37 GMT")]), "{lines:?}");
        }
    }

    #[test]
    fn what_is_for_one_hop_comes_neither_at_first_nor_with_a_confirmation() {
        let date = ("Date", "Sun, 06 Nov 1994 08:49:37 GMT");
        let hop = [("Proxy-Authentication-Info", "nextnonce=\"a\""), ("Proxy-Status", "a"), date];
        assert_eq!(kept(&fields(&hop), &[], 0).unwrap(), fields(&[date]));
        assert_eq!(confirmed(&fields(&[date]), &fields(&hop)).unwrap(), fields(&[date]));
        // RFC 9111, 3.1: all others are kept, whatever they are for.
        let all = fields(&[("Clear-Site-Data", "\"cache\""), ("Authentication-Info", "a"), date]);
        assert_eq!(kept(&all, &[], 0).unwrap(), all);
        assert_eq!(confirmed(&fields(&[date]), &all).unwrap(), all);
    }

    #[test]
    fn a_confirmation_changes_what_it_speaks_of() {
        let stored = fields(&[
            ("ETag", "\"a\""),
            ("Content-Type", "text/plain"),
            ("Cache-Control", "max-age=1"),
            ("X-Two", "1"),
            ("X-Two", "2"),
            ("Date", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("Vary", "accept"),
        ]);
        let answer = fields(&[
            ("cache-control", "max-age=9"),
            ("x-two", "3"),
            ("content-type", "text/html"),
            ("Content-Length", "7"),
            ("Connection", "x-hop"),
            ("X-Hop", "1"),
            ("Set-Cookie", "a=b"),
            ("Vary", "x"),
            ("X-New", "4"),
        ]);
        let expected = fields(&[
            ("ETag", "\"a\""),
            ("Content-Type", "text/plain"),
            ("Vary", "accept"),
            ("cache-control", "max-age=9"),
            ("x-two", "3"),
            ("X-New", "4"),
        ]);
        assert_eq!(confirmed(&stored, &answer).unwrap(), expected);
    }

    #[test]
    fn tags_stand_between_spaces_or_commas() {
        let answer = fields(&[("Surrogate-Key", "b a  c"), ("Cache-Tag", "a,d, e")]);
        let names = [Box::from(&b"surrogate-key"[..]), Box::from(&b"cache-tag"[..])];
        let tags = tags(&answer, &names);
        assert_eq!(tags, [&b"a"[..], b"b", b"c", b"d", b"e"].map(Box::<[u8]>::from));
    }
}
