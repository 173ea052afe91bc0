//! The static table of RFC 7541, appendix A, in the form of HTTP/1.1 lines.

use sluice_message::FieldId;

use super::line::{Class, Line, Mark};

/// Number of entries; dynamic ones count on from here (RFC 7541, 2.3.3).
pub(super) const COUNT: usize = 61;

struct Entry {
    line: &'static str,
    name: usize,
    mark: Mark,
}

macro_rules! entries {
    ($($class:ident $id:ident $name:literal $value:literal)+) => {
        static ENTRIES: [Entry; COUNT] = [$(Entry {
            line: concat!($name, ": ", $value, "\r\n"),
            name: $name.len(),
            mark: Mark { class: Class::$class, id: FieldId::$id },
        }),+];
    };
}

entries! {
    Authority Other ":authority" ""
    Method Other ":method" "GET"
    Method Other ":method" "POST"
    Path Other ":path" "/"
    Path Other ":path" "/index.html"
    Scheme Other ":scheme" "http"
    Scheme Other ":scheme" "https"
    Status Other ":status" "200"
    Status Other ":status" "204"
    Status Other ":status" "206"
    Status Other ":status" "304"
    Status Other ":status" "400"
    Status Other ":status" "404"
    Status Other ":status" "500"
    Field Other "accept-charset" ""
    Field Other "accept-encoding" "gzip, deflate"
    Field Other "accept-language" ""
    Field Other "accept-ranges" ""
    Field Other "accept" ""
    Field Other "access-control-allow-origin" ""
    Field Other "age" ""
    Field Other "allow" ""
    Field Other "authorization" ""
    Field Other "cache-control" ""
    Field Other "content-disposition" ""
    Field Other "content-encoding" ""
    Field Other "content-language" ""
    Field ContentLength "content-length" ""
    Field Other "content-location" ""
    Field Other "content-range" ""
    Field ContentType "content-type" ""
    Field Cookie "cookie" ""
    Field Date "date" ""
    Field Other "etag" ""
    Field Expect "expect" ""
    Field Other "expires" ""
    Field Other "from" ""
    Field Host "host" ""
    Field Other "if-match" ""
    Field Other "if-modified-since" ""
    Field Other "if-none-match" ""
    Field Other "if-range" ""
    Field Other "if-unmodified-since" ""
    Field Other "last-modified" ""
    Field Other "link" ""
    Field Other "location" ""
    Field Other "max-forwards" ""
    Field ProxyAuthenticate "proxy-authenticate" ""
    Field ProxyAuthorization "proxy-authorization" ""
    Field Other "range" ""
    Field Referer "referer" ""
    Field Other "refresh" ""
    Field Other "retry-after" ""
    Field Server "server" ""
    Field Other "set-cookie" ""
    Field Other "strict-transport-security" ""
    Field TransferEncoding "transfer-encoding" ""
    Field UserAgent "user-agent" ""
    Field Other "vary" ""
    Field Via "via" ""
    Field Other "www-authenticate" ""
}

/// The entry of this index, which counts from 1.
#[inline(always)]
pub(super) fn entry(index: usize) -> Option<Line<'static>> {
    let entry = ENTRIES.get(index.wrapping_sub(1))?;
    Some(Line::new(entry.line.as_bytes(), entry.name, entry.mark))
}

/// The first index with this name, in lower case; 0 if there is none.
pub(super) fn index_of(name: &[u8]) -> usize {
    let found = ENTRIES.iter().position(|entry| {
        entry.name == name.len() && entry.line.as_bytes().get(..entry.name) == Some(name)
    });
    found.map_or(0, |place| place + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_the_meaning_of_their_names() {
        for index in 1..=COUNT {
            let line = entry(index).unwrap();
            let name = line.name();
            assert_eq!(line.mark().id, FieldId::of(name), "{index}");
            assert_eq!(line.mark(), Mark::of(name, line.value()), "{index}");
            assert_eq!(entry(index_of(name)).unwrap().name(), name);
            assert!(index_of(name) <= index);
        }
        assert!(entry(0).is_none() && entry(62).is_none());
        assert_eq!(index_of(b"x-none"), 0);
        assert_eq!(entry(2).unwrap().bytes(), b":method: GET\r\n");
        assert_eq!(entry(61).unwrap().name(), b"www-authenticate");
    }
}
