//! What tells stored answers apart before `Vary` does: the key, as text that people can read and purge by.

use sluice_message::pair::split_unquoted;
use sluice_message::{FieldId, Fields};

use crate::steering::{Steering, may_steer};

/// What a key is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPlan {
    /// Whether how the client's connection was opened is part of it.
    pub scheme: Part,
    /// Whether host and port are.
    pub host: Part,
    /// What of the query is.
    pub query: QueryPlan,
    /// Names of header fields that are, in lower case.
    pub headers: Vec<Box<[u8]>>,
    /// Names of cookies that are.
    pub cookies: Vec<Box<[u8]>>,
}

/// Whether something is part of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// It is.
    #[default]
    In,
    /// It is not.
    Out,
}

/// What of a query is part of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum QueryPlan {
    /// All, as it was written.
    #[default]
    AsSent,
    /// Nothing.
    Nothing,
    /// These parameters.
    Chosen {
        /// Whether they are put in the order of their names.
        order: Order,
        /// Names; a star at the end stands for any rest.
        names: Vec<Box<[u8]>>,
        /// Whether these alone are part of it, or all others.
        choice: Choice,
    },
}

/// The order of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As they were written.
    AsSent,
    /// By name; those of one name as they were written.
    ByName,
}

/// What a list of names means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// These alone.
    Only,
    /// All but these.
    Without,
}

impl KeyPlan {
    /// Appends what a URL stands for in keys: purges and invalidations know nothing else of a request.
    pub(crate) fn write_url(
        &self,
        (scheme, authority, target): (&str, &[u8], &[u8]),
        key: &mut Vec<u8>,
    ) {
        if self.scheme == Part::In {
            key.extend_from_slice(scheme.as_bytes());
            key.push(b':');
        }
        key.extend_from_slice(b"//");
        if self.host == Part::In {
            let start = key.len();
            key.extend_from_slice(authority);
            key.get_mut(start..).unwrap_or_default().make_ascii_lowercase();
            // The port that a scheme has anyway is the same place (RFC 9110, 4.2.3).
            let port: &[u8] = if scheme == "https" { b":443" } else { b":80" };
            if key.ends_with(port) {
                key.truncate(key.len() - port.len());
            }
        }
        self.write_target(target, key);
    }

    /// Appends the target as it is kept apart from others, and as the origin is asked for it.
    pub(crate) fn write_target(&self, target: &[u8], out: &mut Vec<u8>) {
        if self.query == QueryPlan::AsSent {
            return out.extend_from_slice(target);
        }
        let cut = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
        let (path, query) = target.split_at(cut);
        out.extend_from_slice(path);
        let QueryPlan::Chosen { order, names, choice } = &self.query else { return };
        let pairs = query.get(1..).unwrap_or_default().split(|&byte| byte == b'&');
        let wanted = |pair: &&[u8]| {
            let named = names.iter().any(|pattern| matches(pattern, name_of(pair)));
            !pair.is_empty() && named == (*choice == Choice::Only)
        };
        let mut pairs = pairs.filter(wanted).collect::<Vec<_>>();
        if *order == Order::ByName {
            pairs.sort_by_key(name_of);
        }
        let mut mark = b'?';
        for pair in pairs {
            out.push(mark);
            out.extend_from_slice(pair);
            mark = b'&';
        }
    }

    /// Whether the origin is asked for a target that is not the client's.
    pub(crate) fn changes_targets(&self) -> bool {
        self.query != QueryPlan::AsSent
    }

    /// Appends what of the head is part of the key apart from the URL.
    #[inline]
    pub(crate) fn write_extra(&self, fields: &Fields, key: &mut Vec<u8>) {
        if !self.headers.is_empty() || !self.cookies.is_empty() {
            self.write_fields(fields, key);
        }
    }

    fn write_fields(&self, fields: &Fields, key: &mut Vec<u8>) {
        for name in &self.headers {
            write_values(fields.values_of(name), key);
        }
        for name in &self.cookies {
            let cookies = fields
                .values_of(b"cookie")
                .flat_map(|line| line.split(|&byte| byte == b';').map(<[u8]>::trim_ascii));
            let value = |cookie: &'_ [u8]| -> Option<usize> {
                let rest = cookie.strip_prefix(&**name)?;
                rest.starts_with(b"=").then_some(cookie.len() - rest.len() + 1)
            };
            let values = cookies.filter_map(|cookie| cookie.get(value(cookie)?..));
            write_values(values, key);
        }
    }
}

/// Appends the lines of a field, each with what no line can hold before it: absent, empty, one line and two lines
/// are four different things.
pub(crate) fn write_values<'v>(values: impl Iterator<Item = &'v [u8]>, key: &mut Vec<u8>) {
    for value in values {
        key.push(b'\n');
        key.extend_from_slice(value);
    }
    key.push(0);
}

/// Appends what trusted proxies say of how a request came, each with its name. Who the client is does not matter: of
/// `Forwarded` (RFC 7239, 4) the other parameters count.
pub(crate) fn write_forwarded(fields: &Fields, key: &mut Vec<u8>) {
    for line in fields.lines() {
        let (name, value) = (fields.slice(line.name), fields.slice(line.value));
        match line.id {
            FieldId::Forwarded => write_parameters(value, key),
            FieldId::XForwardedHost | FieldId::XForwardedProto => write_line(name, value, key),
            FieldId::Other if may_steer(name) && Steering::of(name) == Steering::Origin => {
                write_line(name, value, key);
            }
            _ => {}
        }
    }
    key.push(0);
}

fn write_line(name: &[u8], value: &[u8], key: &mut Vec<u8>) {
    key.push(b'\n');
    key.extend(name.iter().map(u8::to_ascii_lowercase));
    key.push(b':');
    key.extend_from_slice(value);
}

fn write_parameters(forwarded: &[u8], key: &mut Vec<u8>) {
    let elements = split_unquoted(forwarded, b',');
    for pair in elements.flat_map(|element| split_unquoted(element, b';')) {
        let pair = pair.trim_ascii();
        let about_ends = |name: &[u8]| {
            pair.split_at_checked(name.len()).is_some_and(|(start, rest)| {
                start.eq_ignore_ascii_case(name) && rest.trim_ascii_start().starts_with(b"=")
            })
        };
        if !pair.is_empty() && !about_ends(b"for") && !about_ends(b"by") {
            write_line(b"forwarded", pair, key);
        }
    }
}

fn name_of<'p>(pair: &&'p [u8]) -> &'p [u8] {
    let end = pair.iter().position(|&byte| byte == b'=').unwrap_or(pair.len());
    pair.get(..end).unwrap_or_default()
}

fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.strip_suffix(b"*") {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<Box<[u8]>> {
        names.iter().map(|name| name.as_bytes().into()).collect()
    }

    fn url(plan: &KeyPlan, scheme: &str, authority: &str, target: &str) -> String {
        let mut key = Vec::new();
        plan.write_url((scheme, authority.as_bytes(), target.as_bytes()), &mut key);
        String::from_utf8(key).unwrap()
    }

    #[test]
    fn keys_have_the_parts_of_the_plan() {
        let all = KeyPlan::default();
        let chosen = |order, choice, list: &[&str]| KeyPlan {
            query: QueryPlan::Chosen { order, choice, names: names(list) },
            ..KeyPlan::default()
        };
        let sorted = chosen(Order::ByName, Choice::Without, &["utm_*", "gclid"]);
        let only = chosen(Order::AsSent, Choice::Only, &["page"]);
        let bare = KeyPlan { query: QueryPlan::Nothing, ..KeyPlan::default() };
        let no_scheme = KeyPlan { scheme: Part::Out, ..KeyPlan::default() };
        let no_host = KeyPlan { host: Part::Out, ..KeyPlan::default() };
        let table = [
            (&all, "http", "A.example:8080", "/p?q=1", "http://a.example:8080/p?q=1"),
            (&all, "http", "a.example:80", "/", "http://a.example/"),
            (&all, "https", "a.example:443", "/", "https://a.example/"),
            (&all, "https", "a.example:80", "/", "https://a.example:80/"),
            (&all, "http", "[::1]", "/", "http://[::1]/"),
            // What an origin may take for two paths is kept apart.
            (&all, "http", "a", "/%61/..//b?", "http://a/%61/..//b?"),
            (
                &sorted,
                "http",
                "a",
                "/p?b=2&utm_x=1&a=3&a=1&gclid=&utm",
                "http://a/p?a=3&a=1&b=2&utm",
            ),
            (&sorted, "http", "a", "/p?utm_source=x", "http://a/p"),
            (&sorted, "http", "a", "/p", "http://a/p"),
            (&only, "http", "a", "/p?x=1&page=2&&page", "http://a/p?page=2&page"),
            (&bare, "http", "a", "/p?x=1", "http://a/p"),
            (&no_scheme, "https", "a", "/p", "//a/p"),
            (&no_host, "http", "a", "/p", "http:///p"),
        ];
        for (plan, scheme, authority, target, expected) in table {
            assert_eq!(url(plan, scheme, authority, target), expected, "{plan:?}");
        }
    }

    #[test]
    fn what_proxies_say_is_kept_apart() {
        let key = |lines: &[(&str, &str)]| {
            let mut key = Vec::new();
            write_forwarded(&crate::lines::fields(lines), &mut key);
            key
        };
        let same = key(&[("forwarded", "for=1.1.1.1;host=a;proto=https")]);
        assert_eq!(same, key(&[("Forwarded", "host=a;FOR=\"[::1]:5\"; proto=https;by=2.2.2.2")]));
        for other in [
            &[("forwarded", "for=1.1.1.1;host=b;proto=https")][..],
            &[("forwarded", "for=1.1.1.1;host=a, for=2.2.2.2;proto=https;host=b")],
            &[("forwarded", "host=a;proto=https"), ("x-forwarded-port", "81")],
            &[("x-forwarded-host", "a"), ("x-forwarded-proto", "https")],
            &[],
        ] {
            assert_ne!(key(other), same, "{other:?}");
        }
        let ignored =
            key(&[("x-forwarded-for", "1.1.1.1"), ("x-real-ip", "1.1.1.1"), ("accept", "a")]);
        assert_eq!(ignored, key(&[]));
        assert_ne!(key(&[("cf-visitor", "a")]), key(&[("x-scheme", "a")]));
    }

    #[test]
    fn chosen_fields_and_cookies_are_kept_apart() {
        let plan = KeyPlan {
            headers: names(&["x-a", "x-b"]),
            cookies: names(&["c"]),
            ..KeyPlan::default()
        };
        let extra = |lines: &[(&str, &str)]| {
            let mut fields = Fields::new();
            for (name, value) in lines {
                fields.push(name.as_bytes(), value.as_bytes()).unwrap();
            }
            let mut key = Vec::new();
            plan.write_extra(&fields, &mut key);
            key
        };
        let all = [
            extra(&[]),
            extra(&[("x-a", "")]),
            extra(&[("x-a", "1")]),
            extra(&[("X-B", "1")]),
            extra(&[("x-a", "1"), ("x-a", "2")]),
            extra(&[("x-a", "1"), ("x-b", "2")]),
            extra(&[("cookie", "c=1")]),
            extra(&[("cookie", "c=")]),
        ];
        for (at, one) in all.iter().enumerate() {
            for other in all.iter().skip(at + 1) {
                assert_ne!(one, other);
            }
        }
        assert_eq!(extra(&[("cookie", "a=1; c=2;cc=3")]), extra(&[("Cookie", "c=2")]));
        assert_eq!(extra(&[("x-other", "1"), ("cookie", "d=1")]), extra(&[]));
    }
}
