//! The action redirect: answers the requests of a route with another place.

use sluice_expression::Template;
use sluice_filter::{Filter, Phases, Reply, RequestContext, Verdict};

use crate::reference::push_reference_value;

/// See the module.
#[derive(Debug)]
pub struct RedirectAction {
    status: u16,
    to: Template,
    /// The place begins with a value, not with a text of the configuration.
    starts_with_value: bool,
}

impl RedirectAction {
    /// Answers with this status, 301, 302, 303, 307 or 308.
    #[must_use]
    pub fn new(status: u16, to: Template) -> Self {
        let starts_with_value = to.starts_with_value();
        Self { status, to, starts_with_value }
    }

    /// `None` if it is longer than a header may be.
    fn reply(&self, context: &RequestContext<'_>) -> Option<Reply> {
        let mut location = Vec::new();
        self.to.render_escaped(&context.view(), push_reference_value, &mut location).ok()?;
        if self.starts_with_value {
            // Two slashes would begin a host (RFC 3986, 4.2): an open redirect.
            let slashes = location.iter().take_while(|&&byte| byte == b'/').count();
            location.drain(..slashes.saturating_sub(1));
        }
        let mut reply = Reply::new(self.status).with_field(b"location", &location).ok()?;
        reply = reply.with_field(b"content-type", b"text/plain; charset=utf-8").ok()?;
        location.push(b'\n');
        reply.body = location.into();
        Some(reply)
    }
}

impl Filter for RedirectAction {
    fn phases(&self) -> Phases {
        Phases::REQUEST_HEAD
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        match self.reply(context) {
            Some(reply) => Verdict::Respond(Box::new(reply)),
            None => Verdict::refuse(414, "the place of the redirect is too long"),
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_expression::Scope;

    use super::*;
    use crate::scene::Scene;

    fn location(to: &str, target: &str) -> String {
        let action =
            RedirectAction::new(302, Template::compile(to, &Scope::of_redirects()).unwrap());
        let lines = [("Host", "A.example:8080"), ("x", "a b\r\n%2f%\"")];
        let reply = Scene::new("GET", target, &lines).ask(&action).unwrap();
        let location = reply.fields.values_of(b"location").next().unwrap();
        String::from_utf8(location.to_vec()).unwrap()
    }

    #[test]
    fn places_are_made_of_expressions() {
        for (to, target, expected) in [
            ("https://{request.host}{request.target}", "/a?b=c", "https://a.example/a?b=c"),
            ("https://{request.authority}/", "/a", "https://A.example:8080/"),
            ("/x?y={url_encode(request.path)}", "/a", "/x?y=%2Fa"),
            ("/{{{request.header.x}}}", "/a", "/{a%20b%0D%0A%2f%25%22}"),
            ("/{default(request.parameter.q, 'none')}", "/", "/none"),
            ("{request.parameter.to}", "/?to=//evil.example", "/evil.example"),
            ("{request.parameter.to}", "/?to=/%5cevil.example", "/%5Cevil.example"),
            ("/plain", "/a", "/plain"),
        ] {
            assert_eq!(location(to, target), expected, "{to}");
        }
    }

    #[test]
    fn old_spellings_mean_what_they_meant() {
        for (old, new) in [
            ("https://{host}/", "https://{request.host}/"),
            ("{scheme}://b/", "{request.scheme}://b/"),
            ("https://b{path}", "https://b{request.raw_path}"),
            ("https://b/{query}", "https://b/{request.search}"),
            ("{path}/", "{request.raw_path}/"),
            (
                "https://{host}{path}{query}",
                "https://{request.host}{request.raw_path}{request.search}",
            ),
        ] {
            for target in ["/%41/../b?c=d", "/", "//evil.example", "/?", "/%2b?a=%2f"] {
                assert_eq!(location(old, target), location(new, target), "{old} {target}");
            }
        }
        for (old, target, expected) in [
            ("https://{host}{path}{query}", "/a?b=c", "https://a.example/a?b=c"),
            ("https://{host}{path}{query}", "/%41/./b", "https://a.example/A/b"),
            ("{path}/", "//evil.example", "/evil.example/"),
            ("{scheme}://b{query}", "/a?b", "http://b?b"),
        ] {
            assert_eq!(location(old, target), expected, "{old}");
        }
    }
}
