//! Redirects whose place depends on the request.

use sluice_message::RequestHead;

/// Where to, with the request's own parts filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    pub(crate) status: u16,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Scheme,
    Host,
    Path,
    Query,
}

/// A template that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectProblem(pub String);

impl Redirect {
    /// From a template with `{scheme}`, `{host}`, `{path}` and `{query}`. `{query}` brings its
    /// question mark along, so that nothing dangles where there is none.
    ///
    /// # Errors
    /// An unknown name or a brace without partner.
    pub fn parse(status: u16, template: &str) -> Result<Self, RedirectProblem> {
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some((text, after)) = rest.split_once('{') {
            let (name, after) = after
                .split_once('}')
                .ok_or_else(|| RedirectProblem(format!("`{{{after}` has no closing brace")))?;
            parts.push(Part::Text(text.to_owned()));
            parts.push(match name {
                "scheme" => Part::Scheme,
                "host" => Part::Host,
                "path" => Part::Path,
                "query" => Part::Query,
                _ => {
                    let names = "scheme, host, path or query";
                    return Err(RedirectProblem(format!("`{{{name}}}` is not one of {names}")));
                }
            });
            rest = after;
        }
        parts.push(Part::Text(rest.to_owned()));
        parts.retain(|part| *part != Part::Text(String::new()));
        Ok(Self { status, parts })
    }

    /// The `Location` for this request. The parts were let through by a decoder, so they hold neither
    /// control characters nor white space.
    pub(crate) fn location(&self, request: &RequestHead, scheme: &str) -> Vec<u8> {
        let mut location = Vec::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => location.extend_from_slice(text.as_bytes()),
                Part::Scheme => location.extend_from_slice(scheme.as_bytes()),
                Part::Host => location.extend_from_slice(request.authority()),
                // The path as the client wrote it: decoding is not ours to repeat.
                Part::Path => location.extend_from_slice(raw_path(request)),
                Part::Query if request.query().is_empty() => {}
                Part::Query => {
                    location.push(b'?');
                    location.extend_from_slice(request.query());
                }
            }
        }
        // "//host" at the start would name another host (RFC 3986, 4.2): an open redirect.
        if self.parts.first() == Some(&Part::Path) {
            let slashes = location.iter().take_while(|&&byte| byte == b'/').count();
            location.drain(..slashes.saturating_sub(1));
        }
        location
    }
}

fn raw_path(request: &RequestHead) -> &[u8] {
    let target = request.target();
    target.split(|&byte| byte == b'?').next().unwrap_or(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(target: &str, query: &str) -> RequestHead {
        let mut head = RequestHead::new();
        head.target = head.fields.append(target.as_bytes()).unwrap();
        head.query = head.fields.append(query.as_bytes()).unwrap();
        head.authority = head.fields.append(b"a.example:8080").unwrap();
        head
    }

    #[test]
    fn parts_of_the_request_are_filled_in() {
        let cases = [
            ("https://{host}{path}{query}", "/a?b=c", "b=c", "https://a.example:8080/a?b=c"),
            ("https://{host}{path}{query}", "/a", "", "https://a.example:8080/a"),
            ("{scheme}://b.example/", "/a", "", "http://b.example/"),
            ("{path}/", "/a", "", "/a/"),
            ("{path}/", "//evil.example", "", "/evil.example/"),
            ("/plain", "/a", "", "/plain"),
        ];
        for (template, target, query, location) in cases {
            let redirect = Redirect::parse(302, template).unwrap();
            let got = redirect.location(&request(target, query), "http");
            assert_eq!(String::from_utf8_lossy(&got), location, "{template}");
        }
    }

    #[test]
    fn unknown_names_are_told() {
        for template in ["{hots}", "/{path", "{}"] {
            assert!(Redirect::parse(302, template).is_err(), "{template}");
        }
    }
}
