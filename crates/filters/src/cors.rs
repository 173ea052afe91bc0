//! The cors filter: says which pages of other origins may use this one, and answers when browsers ask.

use std::sync::Arc;
use std::time::Duration;

use regex::bytes::{Regex, RegexBuilder};
use sluice_filter::{
    Filter, Phases, Reply, RequestContext, ResponseContext, ResponseVerdict, Verdict,
};
use sluice_message::{Fields, Method, RequestHead, SpaceExhausted};
use sluice_meter::FilterMeter;

/// Whose pages may read answers.
#[derive(Clone, Debug)]
pub enum AllowedOrigin {
    /// Everybody's.
    Any,
    /// Those of this origin, in lower case: `https://shop.example`.
    Exact(Box<str>),
    /// Those of every host below: what stands before the host's own part, and that: `https://` and
    /// `.shop.example`.
    Below(Box<str>, Box<str>),
    /// Those this matches as a whole.
    Regex(Regex),
}

impl AllowedOrigin {
    /// Origins that this expression matches as a whole, in lower case.
    ///
    /// # Errors
    /// Why it is none.
    pub fn of_expression(expression: &str) -> Result<Self, String> {
        // An expression that is found somewhere in it would let `https://a.example.evil.example` in.
        let whole = format!("^(?:{expression})$");
        RegexBuilder::new(expression).unicode(false).build().map_err(|error| error.to_string())?;
        let regex = RegexBuilder::new(&whole).unicode(false).build();
        regex.map(Self::Regex).map_err(|error| error.to_string())
    }

    fn holds(&self, origin: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(known) => origin == known.as_bytes(),
            Self::Below(scheme, domain) => origin
                .strip_prefix(scheme.as_bytes())
                .and_then(|rest| rest.strip_suffix(domain.as_bytes()))
                .is_some_and(|name| !name.is_empty() && !name.iter().any(|it| b"/:@".contains(it))),
            Self::Regex(regex) => regex.is_match(origin),
        }
    }
}

/// Which names are allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedNames {
    /// Whatever is asked for.
    Any,
    /// These.
    Some(Vec<String>),
}

/// Whether cookies and the like go along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// They do not.
    Omitted,
    /// They may.
    Included,
}

/// What is allowed.
#[derive(Clone, Debug)]
pub struct CorsRules {
    /// Whose pages may read answers.
    pub origins: Vec<AllowedOrigin>,
    /// Methods they may use.
    pub methods: AllowedNames,
    /// Header fields they may send, beyond those that every page may.
    pub headers: AllowedNames,
    /// Header fields of answers they may read, beyond those that every page may.
    pub expose: Vec<String>,
    /// Whether cookies and the like go along.
    pub credentials: Credentials,
    /// How long browsers may remember it.
    pub max_age: Duration,
}

/// See the module.
#[derive(Debug)]
pub struct Cors {
    origins: Box<[AllowedOrigin]>,
    methods: AllowedNames,
    headers: AllowedNames,
    /// Values of fields, ready to be written.
    method_list: Box<[u8]>,
    header_list: Box<[u8]>,
    expose: Box<[u8]>,
    max_age: Box<[u8]>,
    credentials: Credentials,
    /// Answers are the same for every origin.
    public: bool,
    meter: Arc<FilterMeter>,
}

/// Places among [`Cors::OUTCOMES`].
const PREFLIGHT: usize = 0;
const REFUSED: usize = 1;
const ALLOWED: usize = 2;
const OTHER: usize = 3;

impl Cors {
    /// What its meter tells apart.
    pub const OUTCOMES: &'static [&'static str] = &["preflight", "refused", "allowed", "other"];

    /// A filter with these rules.
    #[must_use]
    pub fn new(rules: CorsRules, meter: Arc<FilterMeter>) -> Self {
        let list = |names: &AllowedNames| match names {
            AllowedNames::Any => Box::default(),
            AllowedNames::Some(names) => names.join(", ").into_bytes().into(),
        };
        let any = rules.origins.iter().any(|origin| matches!(origin, AllowedOrigin::Any));
        Self {
            method_list: list(&rules.methods),
            header_list: list(&rules.headers),
            expose: rules.expose.join(", ").into_bytes().into(),
            max_age: rules.max_age.as_secs().to_string().into_bytes().into(),
            public: any && rules.credentials == Credentials::Omitted,
            origins: rules.origins.into(),
            methods: rules.methods,
            headers: rules.headers,
            credentials: rules.credentials,
            meter,
        }
    }

    /// Whether pages of this origin may read answers. Browsers write it in lower case.
    fn allows(&self, origin: &[u8]) -> bool {
        self.origins.iter().any(|allowed| allowed.holds(origin))
    }

    /// The answer to a browser that asks before it sends the request (Fetch, 3.3.7).
    fn preflight(&self, request: &RequestHead, origin: &[u8], method: &[u8]) -> Option<Reply> {
        let asked = request.fields.values_of(b"access-control-request-headers").next();
        let asked = asked.unwrap_or_default();
        if !self.allows(origin) || !allows_method(&self.methods, method) || !is_list(asked) {
            return None;
        }
        self.allowed(origin, method, asked).ok()
    }

    fn allowed(&self, origin: &[u8], method: &[u8], asked: &[u8]) -> Result<Reply, SpaceExhausted> {
        let mut reply = Reply::new(204);
        let fields = &mut reply.fields;
        self.write_origin(fields, origin)?;
        let methods = match self.methods {
            AllowedNames::Any => method,
            AllowedNames::Some(_) => &self.method_list,
        };
        fields.push(b"access-control-allow-methods", methods)?;
        let headers = match self.headers {
            AllowedNames::Any => asked,
            AllowedNames::Some(_) => &self.header_list,
        };
        if !headers.is_empty() {
            fields.push(b"access-control-allow-headers", headers)?;
        }
        fields.push(b"access-control-max-age", &self.max_age)?;
        fields.push(
            b"vary",
            b"origin, access-control-request-method, access-control-request-headers",
        )?;
        Ok(reply)
    }

    fn write_origin(&self, fields: &mut Fields, origin: &[u8]) -> Result<(), SpaceExhausted> {
        let allowed = if self.public { b"*" } else { origin };
        fields.push(b"access-control-allow-origin", allowed)?;
        if self.credentials == Credentials::Included {
            fields.push(b"access-control-allow-credentials", b"true")?;
        }
        Ok(())
    }

    /// Says in an answer who may read it.
    fn mark(&self, context: &mut ResponseContext<'_>) -> Result<usize, SpaceExhausted> {
        let origin = context.request.fields.values_of(b"origin").next();
        let fields = &mut context.response.fields;
        // What the origin says of it does not count beside what the configuration says.
        fields.remove_named(|name| {
            let start = name.get(..15);
            start.is_some_and(|start| start.eq_ignore_ascii_case(b"access-control-"))
        });
        if !self.public {
            // A cache must not give one page what was allowed to another (RFC 9110, 12.5.5).
            fields.push(b"vary", b"origin")?;
        }
        // What is for everybody says so to everybody: caches keep one answer for all.
        let origin = if self.public { origin.or(Some(b"*")) } else { origin };
        let Some(origin) = origin.filter(|origin| self.allows(origin)) else { return Ok(OTHER) };
        self.write_origin(fields, origin)?;
        if !self.expose.is_empty() {
            fields.push(b"access-control-expose-headers", &self.expose)?;
        }
        Ok(ALLOWED)
    }
}

impl Filter for Cors {
    fn phases(&self) -> Phases {
        Phases::REQUEST_HEAD | Phases::RESPONSE_HEAD
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        let request = &context.request;
        if request.method != Method::Options {
            return Verdict::Continue;
        }
        let value = |name: &'static [u8]| request.fields.values_of(name).next();
        let (origin, method) = (value(b"origin"), value(b"access-control-request-method"));
        let Some((origin, method)) = origin.zip(method) else { return Verdict::Continue };
        let reply = self.preflight(request, origin, method);
        let outcome = if reply.is_some() { PREFLIGHT } else { REFUSED };
        self.meter.count(context.gateway.worker(), outcome);
        match reply {
            Some(reply) => Verdict::Respond(Box::new(reply)),
            None => Verdict::refuse(403, "not allowed for pages of this origin"),
        }
    }

    fn on_response_head(&self, context: &mut ResponseContext<'_>) -> ResponseVerdict {
        let fields = &context.request.fields;
        let preflight = context.request.method == Method::Options
            && fields.values_of(b"access-control-request-method").next().is_some()
            && fields.values_of(b"origin").next().is_some();
        if !preflight {
            // Without room the browser refuses its page, which is the safe side.
            let outcome = self.mark(context).unwrap_or(OTHER);
            self.meter.count(context.gateway.worker(), outcome);
        }
        ResponseVerdict::Continue
    }
}

/// Methods that every page may use need no permission (Fetch, 2.2.1).
fn allows_method(methods: &AllowedNames, method: &[u8]) -> bool {
    match methods {
        AllowedNames::Any => is_token(method),
        AllowedNames::Some(names) => {
            matches!(method, b"GET" | b"HEAD" | b"POST")
                || names.iter().any(|name| name.as_bytes() == method)
        }
    }
}

/// Names with commas between, or nothing: it is written into an answer.
fn is_list(text: &[u8]) -> bool {
    text.is_empty() || text.split(|&byte| byte == b',').all(|name| is_token(name.trim_ascii()))
}

fn is_token(text: &[u8]) -> bool {
    let legal = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, lines};

    fn rules(origins: Vec<AllowedOrigin>) -> CorsRules {
        CorsRules {
            origins,
            methods: AllowedNames::Some(vec!["GET".to_owned(), "PUT".to_owned()]),
            headers: AllowedNames::Some(vec!["x-a".to_owned()]),
            expose: Vec::new(),
            credentials: Credentials::Omitted,
            max_age: Duration::from_secs(60),
        }
    }

    fn cors(rules: CorsRules) -> Cors {
        Cors::new(rules, Arc::new(FilterMeter::new(1, Cors::OUTCOMES)))
    }

    fn exact(origin: &str) -> AllowedOrigin {
        AllowedOrigin::Exact(origin.into())
    }

    #[test]
    fn origins_are_whole_ones() {
        let below = AllowedOrigin::Below("https://".into(), ".a.example".into());
        let regex = AllowedOrigin::of_expression("https://[a-z]+[.]b[.]example|null").unwrap();
        let filter = cors(rules(vec![exact("https://c.example:8443"), below, regex]));
        for origin in [
            "https://c.example:8443",
            "https://x.a.example",
            "https://x.y.a.example",
            "https://x.b.example",
            "null",
        ] {
            assert!(filter.allows(origin.as_bytes()), "{origin}");
        }
        for origin in [
            "",
            "https://c.example",
            "http://c.example:8443",
            "https://a.example",
            "https://.a.example",
            "http://x.a.example",
            "https://x.a.example:1",
            "https://evil.example/x.a.example",
            "https://evil.example:1.a.example",
            "https://x.b.example.evil.example",
            "nullx",
            "https://x@y.a.example",
        ] {
            assert!(!filter.allows(origin.as_bytes()), "{origin}");
        }
        assert!(AllowedOrigin::of_expression("a)(b").is_err());
    }

    fn preflight(filter: &Cors, fields: &[(&str, &str)]) -> (u16, Vec<String>) {
        let reply = Scene::new("OPTIONS", "/", fields).ask(filter).unwrap();
        (reply.status, lines(&reply.fields))
    }

    #[test]
    fn browsers_that_ask_are_answered() {
        let filter = cors(rules(vec![exact("https://a")]));
        let ask = |origin, method| [("Origin", origin), ("Access-Control-Request-Method", method)];
        let vary = "vary: origin, access-control-request-method, access-control-request-headers";
        let (status, fields) = preflight(&filter, &ask("https://a", "PUT"));
        assert_eq!(status, 204);
        assert_eq!(
            fields,
            [
                "access-control-allow-origin: https://a",
                "access-control-allow-methods: GET, PUT",
                "access-control-allow-headers: x-a",
                "access-control-max-age: 60",
                vary,
            ]
        );
        assert_eq!(preflight(&filter, &ask("https://a", "POST")).0, 204);
        for (origin, method) in
            [("https://b", "PUT"), ("https://a", "DELETE"), ("https://a", "put")]
        {
            assert_eq!(preflight(&filter, &ask(origin, method)).0, 403, "{origin} {method}");
        }
        let any = CorsRules {
            methods: AllowedNames::Any,
            headers: AllowedNames::Any,
            credentials: Credentials::Included,
            ..rules(vec![exact("https://a")])
        };
        let any = cors(any);
        let asked = |headers| {
            let asked = ("Access-Control-Request-Headers", headers);
            preflight(&any, &[&ask("https://a", "DELETE")[..], &[asked]].concat())
        };
        let (status, fields) = asked("x-b, x-c");
        assert_eq!((status, fields[1].as_str()), (204, "access-control-allow-credentials: true"));
        assert_eq!(fields[2], "access-control-allow-methods: DELETE");
        assert_eq!(fields[3], "access-control-allow-headers: x-b, x-c");
        assert_eq!(asked("x b").0, 403);
        assert_eq!(asked("x-b,,").0, 403);
    }

    #[test]
    fn what_is_no_such_question_passes() {
        let filter = cors(rules(vec![AllowedOrigin::Any]));
        for (method, fields) in [
            ("OPTIONS", &[("Origin", "a")][..]),
            ("OPTIONS", &[("Access-Control-Request-Method", "GET")]),
            ("GET", &[("Origin", "a"), ("Access-Control-Request-Method", "GET")]),
        ] {
            assert!(Scene::new(method, "/", fields).ask(&filter).is_none(), "{method} {fields:?}");
        }
    }

    #[test]
    fn answers_say_who_may_read_them() {
        let given = [("Access-Control-Allow-Origin", "https://evil"), ("a", "b")];
        let marked = |filter: &Cors, fields: &[(&str, &str)]| {
            let mut scene = Scene::new("GET", "/", fields).answered(200, &given);
            scene.answer(filter);
            scene.response_lines()
        };
        let one =
            cors(CorsRules { expose: vec!["x-e".to_owned()], ..rules(vec![exact("https://a")]) });
        let allowed = [
            "a: b",
            "vary: origin",
            "access-control-allow-origin: https://a",
            "access-control-expose-headers: x-e",
        ];
        assert_eq!(marked(&one, &[("Origin", "https://a")]), allowed);
        assert_eq!(marked(&one, &[("Origin", "https://b")]), ["a: b", "vary: origin"]);
        assert_eq!(marked(&one, &[]), ["a: b", "vary: origin"]);
        let any = cors(rules(vec![AllowedOrigin::Any]));
        let public = ["a: b", "access-control-allow-origin: *"];
        assert_eq!(marked(&any, &[("Origin", "https://b")]), public);
        assert_eq!(marked(&any, &[]), public);
    }
}
