//! The redirect filter: sends clients to another scheme, host or path.

use std::sync::Arc;

use sluice_expression::Template;
use sluice_filter::{Filter, Phases, Reply, RequestContext, Verdict};
use sluice_message::{SpaceExhausted, TargetForm};
use sluice_meter::FilterMeter;

use crate::hosts::without_port;
use crate::reference::{is_authority, push_path_value, push_target};

/// Where to; what is not said stays as it is.
#[derive(Clone, Debug, Default)]
pub struct Destination {
    /// `http` or `https`.
    pub scheme: Option<Box<str>>,
    /// The host, without a port.
    pub host: Option<Template>,
    /// The port. Without it the one of the request stays, unless the scheme changes.
    pub port: Option<u16>,
    /// The path; a query may follow it.
    pub path: Option<Template>,
    /// What becomes of the client's query.
    pub query: Query,
}

/// What becomes of the client's query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Query {
    /// It follows the path.
    #[default]
    Kept,
    /// It is left out.
    Dropped,
}

/// See the module.
#[derive(Debug)]
pub struct RedirectFilter {
    status: u16,
    to: Destination,
    meter: Arc<FilterMeter>,
}

/// Places among [`RedirectFilter::OUTCOMES`].
const REDIRECTED: usize = 0;
const PASSED: usize = 1;
const REFUSED: usize = 2;

/// The destination cannot be told to anybody.
struct Nowhere;

impl RedirectFilter {
    /// What its meter tells apart.
    pub const OUTCOMES: &'static [&'static str] = &["redirected", "passed", "refused"];

    /// Answers with this status, 301, 302, 303, 307 or 308.
    #[must_use]
    pub fn new(status: u16, to: Destination, meter: Arc<FilterMeter>) -> Self {
        Self { status, to, meter }
    }

    /// The `Location`; `None` where the client is there already.
    fn location(&self, context: &RequestContext<'_>) -> Result<Option<Vec<u8>>, Nowhere> {
        let request = &context.request;
        let scheme = context.gateway.scheme();
        let wanted = self.to.scheme.as_deref().unwrap_or(scheme);
        let authority = self.authority(context, wanted != scheme)?;
        let target = self.target(context)?;
        let same = wanted == scheme
            && authority.eq_ignore_ascii_case(request.authority())
            && target == request.target();
        if same {
            return Ok(None);
        }
        let mut location = Vec::with_capacity(authority.len() + target.len() + 8);
        if !authority.is_empty() {
            location.extend_from_slice(wanted.as_bytes());
            location.extend_from_slice(b"://");
            location.extend_from_slice(&authority);
        }
        // Behind nothing two slashes would begin a host (RFC 3986, 4.2): an open redirect.
        let slashes = target.iter().take_while(|&&byte| matches!(byte, b'/' | b'\\')).count();
        let skipped = if authority.is_empty() { slashes.saturating_sub(1) } else { 0 };
        location.extend_from_slice(target.get(skipped..).unwrap_or_default());
        Ok(Some(location))
    }

    /// Host and port; empty where the client named none and the configuration neither.
    fn authority(&self, context: &RequestContext<'_>, moves: bool) -> Result<Vec<u8>, Nowhere> {
        let asked = context.request.authority();
        let mut authority = Vec::new();
        match &self.to.host {
            Some(host) => {
                host.render(&context.view(), &mut authority).map_err(|_| Nowhere)?;
                if !is_authority(&authority) {
                    return Err(Nowhere);
                }
            }
            None if asked.is_empty() => {
                // Another scheme of no host cannot be told.
                return if moves { Err(Nowhere) } else { Ok(authority) };
            }
            None if moves || self.to.port.is_some() => {
                authority.extend_from_slice(without_port(asked).ok_or(Nowhere)?);
            }
            None => authority.extend_from_slice(asked),
        }
        if let Some(port) = self.to.port {
            authority.push(b':');
            authority.extend_from_slice(port.to_string().as_bytes());
        }
        Ok(authority)
    }

    /// Path and query.
    fn target(&self, context: &RequestContext<'_>) -> Result<Vec<u8>, Nowhere> {
        let asked = context.request.target();
        let mut target = Vec::new();
        match &self.to.path {
            Some(path) => {
                let mut text = Vec::new();
                let rendered = path.render_escaped(&context.view(), push_path_value, &mut text);
                rendered.map_err(|_| Nowhere)?;
                if !text.starts_with(b"/") {
                    target.push(b'/');
                }
                push_target(&text, &mut target);
            }
            None => target.extend(asked.iter().take_while(|&&byte| byte != b'?')),
        }
        let query = context.request.query();
        if self.to.query == Query::Kept && !query.is_empty() {
            target.push(if target.contains(&b'?') { b'&' } else { b'?' });
            target.extend_from_slice(query);
        }
        Ok(target)
    }

    fn reply(&self, location: &[u8]) -> Result<Reply, SpaceExhausted> {
        let mut reply = Reply::new(self.status).with_field(b"location", location)?;
        reply = reply.with_field(b"content-type", b"text/plain; charset=utf-8")?;
        reply.body = [b"See ", location, b"\n"].concat().into();
        Ok(reply)
    }
}

impl Filter for RedirectFilter {
    fn phases(&self) -> Phases {
        Phases::REQUEST_HEAD
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        let worker = context.gateway.worker();
        if !matches!(context.request.form, TargetForm::Origin | TargetForm::Absolute) {
            self.meter.count(worker, PASSED);
            return Verdict::Continue;
        }
        let location = self.location(context);
        if matches!(location, Ok(None)) {
            self.meter.count(worker, PASSED);
            return Verdict::Continue;
        }
        let reply = location.ok().flatten().and_then(|location| self.reply(&location).ok());
        if let Some(reply) = reply {
            self.meter.count(worker, REDIRECTED);
            return Verdict::Respond(Box::new(reply));
        }
        self.meter.count(worker, REFUSED);
        Verdict::refuse(400, "nowhere to be redirected to")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::Scene;
    use sluice_expression::{Phase, Scope};

    fn template(text: &str) -> Option<Template> {
        Some(Template::compile(text, &Scope::new(Phase::Request)).unwrap())
    }

    /// Where a request for this is sent: nowhere, or refused with an error.
    fn location(to: Destination, (host, target): (&str, &str)) -> Result<Option<String>, u16> {
        let filter = RedirectFilter::new(308, to, meter());
        let lines = [("Host", host), ("x", "//evil.example?a")];
        let lines = if host.is_empty() { &lines[1..] } else { &lines[..] };
        let Some(reply) = Scene::new("GET", target, lines).ask(&filter) else { return Ok(None) };
        if reply.status != 308 {
            return Err(reply.status);
        }
        let location = reply.fields.values_of(b"location").next().unwrap();
        Ok(Some(String::from_utf8(location.to_vec()).unwrap()))
    }

    fn meter() -> Arc<FilterMeter> {
        Arc::new(FilterMeter::new(1, RedirectFilter::OUTCOMES))
    }

    #[test]
    fn clients_are_sent_where_they_belong() {
        let none = Destination::default;
        let https = || Destination { scheme: Some("https".into()), ..none() };
        let host = |text| Destination { host: template(text), ..none() };
        let path = |text| Destination { path: template(text), ..none() };
        let given = ("a.example:8080", "/x%20y?b=c");
        let rows = [
            (https(), given, Some("https://a.example/x%20y?b=c")),
            (
                Destination { port: Some(8443), ..https() },
                given,
                Some("https://a.example:8443/x%20y?b=c"),
            ),
            (https(), ("[::1]:80", "//evil/"), Some("https://[::1]/evil/")),
            (host("www.{request.host}"), given, Some("http://www.a.example/x%20y?b=c")),
            (host("A.example"), ("a.example", "/"), None),
            (host("a.example"), given, Some("http://a.example/x%20y?b=c")),
            (
                Destination { port: Some(81), ..none() },
                given,
                Some("http://a.example:81/x%20y?b=c"),
            ),
            (path("/new"), given, Some("http://a.example:8080/new?b=c")),
            (path("/new?x=y"), given, Some("http://a.example:8080/new?x=y&b=c")),
            (
                Destination { query: Query::Dropped, ..path("new") },
                given,
                Some("http://a.example:8080/new"),
            ),
            (path("{request.path}"), ("a", "/b"), None),
            (path("{request.path}/"), ("a", "/b"), Some("http://a/b/")),
            (path("{request.header.x}"), ("a", "/"), Some("http://a//evil.example%3Fa")),
            (path("{request.header.x}"), ("", "/"), Some("/evil.example%3Fa")),
            (path("/n"), ("", "/"), Some("/n")),
            (
                path("/{request.parameter.q}"),
                ("a", "/?q=%0d%0ax"),
                Some("http://a/%0D%0Ax?q=%0d%0ax"),
            ),
        ];
        for (to, asked, expected) in rows {
            let shown = format!("{to:?} {asked:?}");
            assert_eq!(location(to, asked), Ok(expected.map(str::to_owned)), "{shown}");
        }
    }

    #[test]
    fn what_is_no_place_is_refused() {
        let host = Destination { host: template("{request.header.x}"), ..Destination::default() };
        assert_eq!(location(host, ("a", "/")), Err(400));
        let https = Destination { scheme: Some("https".into()), ..Destination::default() };
        assert_eq!(location(https, ("", "/")), Err(400));
    }

    #[test]
    fn requests_without_a_path_pass() {
        let https = Destination { scheme: Some("https".into()), ..Destination::default() };
        let filter = RedirectFilter::new(308, https, meter());
        assert!(Scene::new("OPTIONS", "*", &[("Host", "a")]).ask(&filter).is_none());
    }
}
