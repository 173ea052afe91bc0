//! What is said of content, once it is not what it was.

use sluice_message::{Fields, SpaceExhausted};

/// Digests of the content do not hold any more (RFC 9530; RFC 1864).
pub(crate) fn drop_digests(fields: &mut Fields) {
    const DIGESTS: [&[u8]; 4] = [b"digest", b"content-digest", b"repr-digest", b"content-md5"];
    for name in DIGESTS {
        fields.remove_read_as(name);
    }
}

/// Nothing that speaks of single bytes holds any more: digests, and that parts can be had.
pub(crate) fn forget_bytes(fields: &mut Fields) {
    drop_digests(fields);
    fields.remove_named(|name| name.eq_ignore_ascii_case(b"accept-ranges"));
}

/// Content that was changed is no longer byte for byte what a strong validator stands for (RFC 9110, 8.8.1).
pub(crate) fn weaken(fields: &mut Fields) {
    let strong = fields.values_of(b"etag").find(|tag| tag.starts_with(b"\""));
    let Some(weak) = strong.map(|tag| [b"W/", tag].concat()) else { return };
    fields.remove_named(|name| name.eq_ignore_ascii_case(b"etag"));
    // It is longer by two bytes: without room there is none.
    let _ = fields.push(b"etag", &weak);
}

/// The client has content whose tag was made weak on the way to it, and this answer says that it is still good:
/// it says so of that tag (RFC 9110, 15.4.5). Whether that is so.
pub(crate) fn weaken_known(asked: &Fields, fields: &mut Fields) -> bool {
    let Some(tag) = fields.values_of(b"etag").find(|tag| tag.starts_with(b"\"")) else {
        return false;
    };
    let weak = [b"W/", tag].concat();
    let known = asked.values_of(b"if-none-match").any(|list| holds(list, &weak));
    if known {
        weaken(fields);
    }
    known
}

/// Whether `part` is in `whole`. What a tag is ends with a quote and has none inside (RFC 9110, 8.8.3).
fn holds(whole: &[u8], part: &[u8]) -> bool {
    whole.windows(part.len()).any(|window| window == part)
}

/// The answer depends on `Accept-Encoding` too (RFC 9110, 12.5.5).
///
/// # Errors
/// [`SpaceExhausted`]
pub(crate) fn vary_by_encoding(fields: &mut Fields) -> Result<(), SpaceExhausted> {
    let holds = |value: &[u8]| {
        let mut names = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        names.any(|name| name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding"))
    };
    if fields.values_of(b"vary").any(holds) {
        return Ok(());
    }
    fields.push(b"vary", b"Accept-Encoding")
}

/// Whether `Cache-Control` holds the directive, which has no value.
pub(crate) fn has_directive(fields: &Fields, directive: &[u8]) -> bool {
    let members = fields.values_of(b"cache-control");
    let mut members = members.flat_map(|value| value.split(|&byte| byte == b','));
    members.any(|member| member.trim_ascii().eq_ignore_ascii_case(directive))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::lines;

    fn fields(of: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::new();
        for (name, value) in of {
            fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        fields
    }

    #[test]
    fn vary_is_said_once() {
        let rows: [(&[(&str, &str)], &str); 5] = [
            (&[], "vary: Accept-Encoding"),
            (&[("Vary", "Origin")], "Vary: Origin|vary: Accept-Encoding"),
            (&[("Vary", "Origin, accept-encoding")], "Vary: Origin, accept-encoding"),
            (&[("Vary", "a"), ("vary", "*")], "Vary: a|vary: *"),
            (&[("Vary", "accept-encodings")], "Vary: accept-encodings|vary: Accept-Encoding"),
        ];
        for (before, after) in rows {
            let mut fields = fields(before);
            vary_by_encoding(&mut fields).unwrap();
            assert_eq!(lines(&fields).join("|"), after);
        }
    }

    #[test]
    fn tags_become_weak_and_stay_the_same_otherwise() {
        let rows = [("\"x\"", "W/\"x\""), ("W/\"x\"", "W/\"x\""), ("x", "x"), ("\"\"", "W/\"\"")];
        for (before, after) in rows {
            let mut fields = fields(&[("ETag", before)]);
            weaken(&mut fields);
            assert_eq!(fields.values_of(b"etag").collect::<Vec<_>>(), [after.as_bytes()]);
        }
    }

    #[test]
    fn an_answer_without_content_speaks_of_the_tag_the_client_has() {
        let rows = [
            ("W/\"x\"", "W/\"x\""),
            ("\"a\", W/\"x\" , \"b\"", "W/\"x\""),
            ("\"x\"", "\"x\""),
            ("W/\"xx\", W/\"y\"", "\"x\""),
            ("*", "\"x\""),
        ];
        for (asked, expected) in rows {
            let mut answer = fields(&[("etag", "\"x\"")]);
            let known = weaken_known(&fields(&[("If-None-Match", asked)]), &mut answer);
            let told: Vec<_> = answer.values_of(b"etag").collect();
            assert_eq!((told, known), (vec![expected.as_bytes()], expected.starts_with('W')));
        }
        assert!(!weaken_known(&fields(&[]), &mut fields(&[])));
    }

    #[test]
    fn directives_are_found_in_lists() {
        let rows = [
            ("no-transform", true),
            ("max-age=60,No-Transform", true),
            ("no-transforms", false),
            ("", false),
        ];
        for (value, expected) in rows {
            let fields = fields(&[("cache-control", value)]);
            assert_eq!(has_directive(&fields, b"no-transform"), expected, "{value}");
        }
    }
}
