//! Parts of a path that its route has names for.

use regex::bytes::Regex;

use sluice_message::PathCase;

use crate::PathSpec;
use crate::path::compared_regex;

/// The names that a route's path gives to parts of it.
#[derive(Clone, Debug)]
pub struct Captures(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// Names and the segments they stand for, counted from 0 behind the first slash.
    Segments(Vec<(String, usize)>),
    Groups(Regex),
}

impl Captures {
    /// Those of this path, which is compared with case or without; `None` if it has none. A path that no table
    /// could be built of has none either.
    #[must_use]
    pub fn of(path: &PathSpec, case: PathCase) -> Option<Self> {
        match path {
            PathSpec::Exact(_) | PathSpec::Prefix(_) => None,
            PathSpec::Template(path) => {
                let name = |text: &str| Some(text.strip_prefix('{')?.strip_suffix('}')?.to_owned());
                let segments = path.split('/').skip(1).enumerate();
                let names = segments.filter_map(|(place, text)| Some((name(text)?, place)));
                Some(Self(Kind::Segments(names.collect())))
            }
            PathSpec::Regex(expression) => {
                let regex = crate::path::regex(&compared_regex(expression, case)).ok()?;
                let named = regex.capture_names().flatten().next().is_some();
                named.then_some(Self(Kind::Groups(regex)))
            }
        }
    }

    /// All names.
    pub fn names(&self) -> Vec<&str> {
        match &self.0 {
            Kind::Segments(names) => names.iter().map(|(name, _)| name.as_str()).collect(),
            Kind::Groups(regex) => regex.capture_names().flatten().collect(),
        }
    }

    /// The part of this path, as routes see it, that has this name.
    #[must_use]
    pub fn get<'p>(&self, path: &'p [u8], name: &str) -> Option<&'p [u8]> {
        match &self.0 {
            Kind::Segments(names) => {
                let (_, place) = names.iter().find(|(known, _)| known == name)?;
                path.split(|byte| *byte == b'/').skip(1).nth(*place)
            }
            Kind::Groups(regex) => Some(regex.captures(path)?.name(name)?.as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_the_names_their_route_gives_them() {
        let template = PathSpec::Template("/users/{id}/posts/{post}".into());
        let regex = PathSpec::Regex("^/v(?<major>[0-9]+)/(?<rest>.*)$".into());
        type Row<'a> = (&'a PathSpec, &'a str, &'a str, Option<&'a str>);
        let rows: [Row<'_>; 6] = [
            (&template, "/users/7/posts/9", "id", Some("7")),
            (&template, "/users/7/posts/9", "post", Some("9")),
            (&template, "/users/7/posts/9", "other", None),
            (&regex, "/v2/a/b", "major", Some("2")),
            (&regex, "/v2/a/b", "rest", Some("a/b")),
            (&regex, "/x", "rest", None),
        ];
        for (spec, path, name, part) in rows {
            let captures = Captures::of(spec, PathCase::Sensitive).unwrap();
            let got = captures.get(path.as_bytes(), name);
            assert_eq!(got, part.map(str::as_bytes), "{path} {name}");
        }
        assert_eq!(Captures::of(&template, PathCase::Sensitive).unwrap().names(), ["id", "post"]);
        assert_eq!(Captures::of(&regex, PathCase::Sensitive).unwrap().names(), ["major", "rest"]);
        assert!(Captures::of(&PathSpec::Exact("/a".into()), PathCase::Sensitive).is_none());
        assert!(Captures::of(&PathSpec::Regex("^/a".into()), PathCase::Sensitive).is_none());
    }
}
