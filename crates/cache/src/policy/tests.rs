//! The rules, row by row; each row names the section it comes from.

use super::*;
use crate::lines::fields;

const NOW: u64 = 784_111_777;
const DATE: (&str, &str) = ("Date", "Sun, 06 Nov 1994 08:49:37 GMT");
const LATER: (&str, &str) = ("Expires", "Sun, 06 Nov 1994 08:50:37 GMT");
const CLEAR: (&str, &str) = ("Clear-Site-Data", "\"cache\"");
const ETAG: (&str, &str) = ("ETag", "\"a\"");

fn rules() -> Rules {
    Rules {
        targeted: vec![(*b"cdn-cache-control").into()],
        lifetimes: Vec::new(),
        stale_while_revalidate: 0,
        stale_if_error: 0,
        cookies: Cookies::Careful,
        set_cookie: SetCookie::Refuse,
    }
}

/// What the request had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Had {
    Nothing,
    Authorization,
    Cookie,
}

fn judge(rules: &Rules, had: Had, status: u16, lines: &[(&str, &str)]) -> Result<Terms, Refusal> {
    rules.judge(&Answer {
        status,
        fields: &fields(lines),
        authorized: had == Had::Authorization,
        cookies: had == Had::Cookie,
        now: NOW,
        delay: 0,
    })
}

/// Status, fields of the answer, what the request had, seconds it is fresh or why it is not kept, section.
type Row<'a> = (u16, &'a [(&'a str, &'a str)], Had, Result<u64, Refusal>, &'a str);

#[test]
fn answers_are_kept_as_a_shared_cache_may() {
    use Had::{Authorization, Cookie, Nothing};
    use Refusal as R;
    let cc = |value| ("Cache-Control", value);
    let table: &[Row<'_>] = &[
        (200, &[cc("max-age=60")], Nothing, Ok(60), "9111 3, 5.2.2.1"),
        (200, &[], Nothing, Err(R::NoLifetime), "9111 4.2.2: no heuristics"),
        (200, &[cc("no-store, max-age=60")], Nothing, Err(R::NoStore), "9111 5.2.2.5"),
        (200, &[cc("private, max-age=60")], Nothing, Err(R::Private), "9111 5.2.2.7"),
        (200, &[cc("private=\"x-a\", max-age=60")], Nothing, Ok(60), "9111 5.2.2.7, qualified"),
        (200, &[cc("no-cache, max-age=60"), ETAG], Nothing, Ok(0), "9111 5.2.2.4"),
        (200, &[cc("no-cache, max-age=60")], Nothing, Err(R::NoLifetime), "9111 5.2.2.4, useless"),
        (200, &[cc("max-age=60, s-maxage=5")], Nothing, Ok(5), "9111 5.2.2.10"),
        (
            200,
            &[cc("max-age=60"), DATE, LATER],
            Nothing,
            Ok(60),
            "9111 4.2.1: max-age over Expires",
        ),
        (200, &[DATE, LATER], Nothing, Ok(60), "9111 5.3"),
        (200, &[LATER], Nothing, Ok(60), "9111 5.3: received now"),
        (200, &[DATE, ("Expires", "0"), ETAG], Nothing, Ok(0), "9111 5.3: no date is the past"),
        (200, &[DATE, ("Expires", "0")], Nothing, Err(R::NoLifetime), "9111 5.3"),
        (200, &[DATE, LATER, LATER, ETAG], Nothing, Ok(0), "9111 4.2.1: said twice"),
        (200, &[cc("max-age=0"), ETAG], Nothing, Ok(0), "9111 4.3"),
        (200, &[cc("max-age=0")], Nothing, Err(R::NoLifetime), "9111 4.2"),
        (200, &[cc("public"), ETAG], Nothing, Ok(0), "9111 3: public"),
        (
            200,
            &[cc("max-age=60"), ("Age", "60")],
            Nothing,
            Err(R::NoLifetime),
            "9111 4.2.3: old already",
        ),
        (200, &[cc("max-age=60"), ("Age", "59")], Nothing, Ok(60), "9111 4.2.3"),
        (206, &[cc("max-age=60")], Nothing, Err(R::Status), "9111 3.3"),
        (304, &[cc("max-age=60")], Nothing, Err(R::Status), "9111 3"),
        (404, &[cc("max-age=60")], Nothing, Ok(60), "9111 3"),
        (404, &[], Nothing, Err(R::NoLifetime), "9111 3"),
        (599, &[cc("max-age=60")], Nothing, Ok(60), "9111 3: explicit"),
        (599, &[cc("max-age=60, must-understand")], Nothing, Err(R::Status), "9111 5.2.2.3"),
        (200, &[cc("max-age=60, must-understand, no-store")], Nothing, Ok(60), "9111 5.2.2.3"),
        (200, &[cc("max-age=60")], Authorization, Err(R::Authorization), "9111 3.5"),
        (200, &[cc("max-age=60, public")], Authorization, Ok(60), "9111 3.5"),
        (200, &[cc("s-maxage=60")], Authorization, Ok(60), "9111 3.5"),
        (200, &[cc("max-age=60, must-revalidate")], Authorization, Ok(60), "9111 3.5"),
        (
            200,
            &[cc("max-age=60, proxy-revalidate")],
            Authorization,
            Err(R::Authorization),
            "9111 3.5",
        ),
        (200, &[cc("max-age=60")], Cookie, Err(R::Cookie), "careful"),
        (200, &[cc("max-age=60, public")], Cookie, Ok(60), "careful"),
        (200, &[cc("max-age=60"), ("Set-Cookie", "a=b")], Nothing, Err(R::SetCookie), "9111 7.3"),
        (
            200,
            &[cc("max-age=60, no-cache=\"set-cookie\""), ("Set-Cookie", "a=b")],
            Nothing,
            Ok(60),
            "9111 5.2.2.4",
        ),
        (200, &[cc("max-age=60"), ("Vary", "*")], Nothing, Err(R::Vary), "9111 4.1"),
        (200, &[cc("max-age=60"), ("Vary", "a, *")], Nothing, Err(R::Vary), "9111 4.1"),
        (200, &[cc("no-store"), ("CDN-Cache-Control", "max-age=9")], Nothing, Ok(9), "9213 2.2"),
        (
            200,
            &[cc("max-age=60"), ("CDN-Cache-Control", "no-store")],
            Nothing,
            Err(R::NoStore),
            "9213 2.2",
        ),
        (200, &[cc("max-age=60"), ("CDN-Cache-Control", "no store")], Nothing, Ok(60), "9213 2.1"),
        (
            200,
            &[DATE, LATER, ("CDN-Cache-Control", "other")],
            Nothing,
            Err(R::NoLifetime),
            "9213 2.2: no Expires",
        ),
    ];
    for (status, lines, had, expected, section) in table {
        let judged = judge(&rules(), *had, *status, lines).map(|terms| terms.lifetime);
        assert_eq!(judged, *expected, "{section}: {status} {lines:?} {had:?}");
    }
}

#[test]
fn numbers_and_dates_are_read_as_the_standards_write_them() {
    use Had::Nothing;
    use Refusal as R;
    let cc = |value| ("Cache-Control", value);
    let table: &[Row<'_>] = &[
        (
            200,
            &[cc("no-store"), ("CDN-Cache-Control", "max-age=\"10000\"")],
            Nothing,
            Err(R::NoStore),
            "9213 2.1: a text is no number",
        ),
        (200, &[cc("max-age=\"10000\"")], Nothing, Ok(10_000), "9111 5.2: quoted or not"),
        (
            200,
            &[DATE, ("Expires", "Sun, 06  Nov 1994 08:50:37 GMT"), ETAG],
            Nothing,
            Ok(0),
            "9110 5.6.7: nearly a date is none",
        ),
        (200, &[("Date", "yesterday"), LATER], Nothing, Ok(60), "9110 6.6.1: when it came"),
        (
            200,
            &[cc("max-age=0"), ("Last-Modified", "yesterday")],
            Nothing,
            Err(R::NoLifetime),
            "9110 8.8.2: nothing to ask with",
        ),
    ];
    for (status, lines, had, expected, section) in table {
        let judged = judge(&rules(), *had, *status, lines).map(|terms| terms.lifetime);
        assert_eq!(judged, *expected, "{section}: {status} {lines:?}");
    }
}

#[test]
fn silent_origins_are_spoken_for_by_the_configuration_alone() {
    let rules =
        Rules { lifetimes: vec![(404..=404, 5), (200..=299, 10), (500..=599, 1)], ..rules() };
    let cc = |value| ("Cache-Control", value);
    let table: &[Row<'_>] = &[
        (200, &[], Had::Nothing, Ok(10), "where the origin is silent"),
        (404, &[], Had::Nothing, Ok(5), "negative"),
        (503, &[], Had::Nothing, Ok(1), "negative"),
        (302, &[], Had::Nothing, Err(Refusal::NoLifetime), "not named"),
        (200, &[cc("max-age=60")], Had::Nothing, Ok(60), "the origin's word counts"),
        (200, &[cc("no-store")], Had::Nothing, Err(Refusal::NoStore), "the origin's word counts"),
        (200, &[cc("private")], Had::Nothing, Err(Refusal::Private), "the origin's word counts"),
        (200, &[], Had::Authorization, Err(Refusal::Authorization), "9111 3.5"),
        (200, &[("Set-Cookie", "a=b")], Had::Nothing, Err(Refusal::SetCookie), "9111 7.3"),
        (
            200,
            &[CLEAR],
            Had::Nothing,
            Err(Refusal::ClearSiteData),
            "for one client, as far as we know",
        ),
        (200, &[CLEAR, cc("public")], Had::Nothing, Ok(10), "the origin's word counts"),
        (200, &[CLEAR, cc("max-age=5")], Had::Nothing, Ok(5), "9111 3.1: kept with its header"),
        (206, &[], Had::Nothing, Err(Refusal::Status), "9111 3.3"),
    ];
    for (status, lines, had, expected, why) in table {
        let judged = judge(&rules, *had, *status, lines).map(|terms| terms.lifetime);
        assert_eq!(judged, *expected, "{why}: {status} {lines:?}");
    }
    let strip = Rules { set_cookie: SetCookie::Strip, cookies: Cookies::Ignore, ..rules };
    let terms = judge(&strip, Had::Cookie, 200, &[("Set-Cookie", "a=b")]).unwrap();
    assert_eq!(terms.withheld, [(*b"set-cookie").into()]);
}

#[test]
fn ages_are_counted_from_where_the_answer_was_made() {
    // RFC 9111, 4.2.3: date, Age, seconds on the way, expected.
    let date = "Sun, 06 Nov 1994 08:49:27 GMT";
    let table = [
        (None, None, 0, 0),
        (None, None, 3, 3),
        (Some(date), None, 0, 10),
        (Some(date), Some("4"), 0, 10),
        (Some(date), Some("40"), 2, 42),
        (None, Some("7, 9"), 0, 7),
        (None, Some("-7"), 0, 0),
        (None, Some("many"), 0, 0),
        // A clock that is ahead of ours (4.2.3: never negative).
        (Some("Sun, 06 Nov 1994 09:49:37 GMT"), None, 0, 0),
    ];
    for (date, told, delay, expected) in table {
        let mut fields = fields(&[("Cache-Control", "max-age=600")]);
        for (name, value) in [("Date", date), ("Age", told)] {
            if let Some(value) = value {
                fields.push(name.as_bytes(), value.as_bytes()).unwrap();
            }
        }
        let answer = Answer {
            status: 200,
            fields: &fields,
            authorized: false,
            cookies: false,
            now: NOW,
            delay,
        };
        assert_eq!(rules().judge(&answer).unwrap().age, expected, "{date:?} {told:?} {delay}");
    }
}

#[test]
fn stale_answers_are_given_where_nobody_forbids_it() {
    let rules = Rules { stale_while_revalidate: 7, stale_if_error: 8, ..rules() };
    let table = [
        ("max-age=1", Staleness::Allowed, (7, 8), "the configuration"),
        (
            "max-age=1, stale-while-revalidate=2, stale-if-error=3",
            Staleness::Allowed,
            (2, 3),
            "5861 3, 4",
        ),
        ("max-age=1, stale-while-revalidate=0", Staleness::Allowed, (0, 8), "5861 3"),
        (
            "max-age=1, must-revalidate, stale-if-error=3",
            Staleness::Forbidden,
            (0, 0),
            "9111 5.2.2.2",
        ),
        ("max-age=1, proxy-revalidate", Staleness::Forbidden, (0, 0), "9111 5.2.2.8"),
        ("s-maxage=1", Staleness::AsSaid, (0, 0), "9111 5.2.2.10"),
        ("s-maxage=1, stale-while-revalidate=2", Staleness::AsSaid, (2, 0), "5861 3"),
        ("no-cache, stale-if-error=3", Staleness::AlwaysAsk, (0, 0), "9111 5.2.2.4"),
    ];
    for (value, staleness, patience, section) in table {
        let terms = judge(&rules, Had::Nothing, 200, &[("Cache-Control", value), ETAG]).unwrap();
        let got = (terms.stale_while_revalidate, terms.stale_if_error);
        assert_eq!((terms.staleness, got), (staleness, patience), "{section}: {value}");
    }
    let immutable = judge(&rules, Had::Nothing, 200, &[("Cache-Control", "max-age=1, immutable")]);
    assert!(immutable.unwrap().immutable, "8246 2");
}
