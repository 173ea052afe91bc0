//! Refuses requests that another site has a browser make.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use sluice_filter::{Filter, Phases, RequestContext, ResponseContext, ResponseVerdict, Verdict};
use sluice_message::pair::{cookies, decoded, query_pairs};
use sluice_message::{FieldId, Method, RequestHead, may_be_read_as};
use sluice_meter::FilterMeter;

use crate::identity::only_value;
use crate::{CookieForm, Hosts, Sealer, authority_of, without_port};

/// What is asked of requests that change something.
#[derive(Debug)]
pub struct Csrf {
    /// Other sites whose pages may make requests, by their hosts.
    pub trusted: Hosts,
    /// What pages have to show besides.
    pub token: Option<CsrfToken>,
    /// Counts.
    pub meter: Arc<FilterMeter>,
}

/// A token that a cookie holds and that scripts of our own pages, and no others, can repeat in a field.
#[derive(Debug)]
pub struct CsrfToken {
    /// Makes tokens.
    pub sealer: Sealer,
    /// The name of the cookie.
    pub cookie: String,
    /// How it is written.
    pub form: CookieForm,
    /// The field that repeats it.
    pub field: Box<[u8]>,
    /// The cookie of the session that a token is good for; a token of somebody else is worth nothing.
    pub session: Option<Box<[u8]>>,
    /// How long a token is good, in seconds.
    pub life: u64,
}

const PASSED: usize = 0;
const FOREIGN: usize = 1;
const MISSING: usize = 2;
const WRONG: usize = 3;

impl Csrf {
    /// What its meter tells apart.
    pub const OUTCOMES: &'static [&'static str] = &["passed", "foreign", "missing", "wrong"];

    fn judge(&self, request: &RequestHead, now: u64) -> Result<(), (usize, &'static str)> {
        let change = changes(request);
        if change == Change::None {
            return Ok(());
        }
        if !self.comes_from_here(request) {
            return Err((FOREIGN, "request made by another site"));
        }
        // Scripts cannot add headers to the request that opens a WebSocket: its `Origin` has to do.
        if change == Change::Upgrade {
            return Ok(());
        }
        let Some(token) = &self.token else { return Ok(()) };
        let Some(shown) = only_value(&request.fields, &token.field).ok().flatten() else {
            return Err((MISSING, "no token against forged requests"));
        };
        // Whoever can write cookies for us from a neighbouring site cannot make a token that opens.
        let kept = cookies(request, token.cookie.as_bytes()).any(|kept| kept == shown);
        let good = kept
            && token.sealer.open(&token.cookie, shown, now).is_some_and(|opened| {
                opened.plain.get(RANDOM..) == Some(&*token.session_of(request))
            });
        if good { Ok(()) } else { Err((WRONG, "wrong token against forged requests")) }
    }

    /// Browsers say where a request comes from, and scripts cannot change it. What says nothing is no browser,
    /// which nobody can trick into making requests.
    fn comes_from_here(&self, request: &RequestHead) -> bool {
        let fields = &request.fields;
        let (Ok(site), Ok(origin)) =
            (only_value(fields, b"sec-fetch-site"), only_value(fields, b"origin"))
        else {
            return false;
        };
        if let Some(origin) = origin {
            // `null` is the origin of nobody.
            let Some(authority) = authority_of(origin) else { return false };
            if without_port(authority).is_some_and(|host| self.trusted.matches(host)) {
                return true;
            }
            let own = authority.eq_ignore_ascii_case(request.authority());
            return own && !matches!(site, Some(b"cross-site" | b"same-site"));
        }
        !matches!(site, Some(b"cross-site" | b"same-site"))
    }
}

/// Bytes that make each token another one.
const RANDOM: usize = 16;

impl CsrfToken {
    fn session_of(&self, request: &RequestHead) -> Vec<u8> {
        let Some(name) = &self.session else { return Vec::new() };
        let value = cookies(request, name).next().unwrap_or_default();
        digest(&SHA256, value).as_ref().to_vec()
    }

    fn issue(&self, request: &RequestHead, now: u64) -> Option<String> {
        let mut plain = vec![0; RANDOM];
        rand::fill(&mut plain).ok()?;
        plain.extend(self.session_of(request));
        self.sealer.seal(&self.cookie, &plain, now.saturating_add(self.life))
    }

    /// Whether the client has a token that will do for a while.
    fn is_fresh(&self, request: &RequestHead, now: u64) -> bool {
        let session = self.session_of(request);
        cookies(request, self.cookie.as_bytes()).any(|kept| {
            let opened = self.sealer.open(&self.cookie, kept, now);
            opened.is_some_and(|opened| {
                opened.until > now.saturating_add(self.life / 2)
                    && opened.plain.get(RANDOM..) == Some(&*session)
            })
        })
    }
}

/// Methods that change nothing (RFC 9110, 9.2.1).
const fn is_safe(method: Method) -> bool {
    matches!(method, Method::Get | Method::Head | Method::Options | Method::Trace)
}

/// What a request may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// Nothing.
    None,
    /// The protocol: whoever opens a tunnel says in it whatever he likes, with the visitor's cookies.
    Upgrade,
    /// What its method says.
    Something,
}

/// Headers by which frameworks take another method for that of the request.
const OVERRIDES: [&[u8]; 3] = [b"x-http-method-override", b"x-http-method", b"x-method-override"];
/// The parameter that means the same.
const OVERRIDE_PARAMETER: &[u8] = b"_method";

fn changes(request: &RequestHead) -> Change {
    let of_header = request.fields.iter().any(|(name, value)| {
        OVERRIDES.iter().any(|known| may_be_read_as(name, known))
            && !is_safe_name(value.iter().copied())
    });
    let of_parameter = query_pairs(request.query()).any(|(name, value)| {
        decoded(name).eq(OVERRIDE_PARAMETER.iter().copied()) && !is_safe_name(decoded(value))
    });
    if !is_safe(request.method) || of_header || of_parameter {
        return Change::Something;
    }
    // By HTTP/2 an extended CONNECT (RFC 8441) says by its protocol what `Upgrade` says.
    let upgrades =
        request.fields.value(FieldId::Upgrade).is_some() || !request.protocol().is_empty();
    if upgrades { Change::Upgrade } else { Change::None }
}

/// Whether this is the name of a method that changes nothing, as frameworks read it.
fn is_safe_name(name: impl Iterator<Item = u8>) -> bool {
    let name: Vec<u8> = name.map(|byte| byte.to_ascii_uppercase()).collect();
    is_safe(Method::of(name.trim_ascii()))
}

impl Filter for Csrf {
    fn phases(&self) -> Phases {
        match self.token {
            Some(_) => Phases::REQUEST_HEAD | Phases::RESPONSE_HEAD,
            None => Phases::REQUEST_HEAD,
        }
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        let judged = self.judge(context.request, context.gateway.unix_ms() / 1000);
        let outcome = judged.map_or_else(|(outcome, _)| outcome, |()| PASSED);
        self.meter.count(context.gateway.worker(), outcome);
        judged.map_or_else(|(_, reason)| Verdict::refuse(403, reason), |()| Verdict::Continue)
    }

    fn on_response_head(&self, context: &mut ResponseContext<'_>) -> ResponseVerdict {
        let now = context.gateway.unix_ms() / 1000;
        if let Some(token) = &self.token
            && is_safe(context.request.method)
            && !token.is_fresh(context.request, now)
            && let Some(value) = token.issue(context.request, now)
        {
            let scheme = context.gateway.scheme();
            let line = token.form.set(&token.cookie, &value, scheme, Some(token.life));
            // Without room the client gets its token with another answer.
            let _ = context.response.fields.push(b"set-cookie", line.as_bytes());
        }
        ResponseVerdict::Continue
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sluice_message::{Method, RequestHead};
    use sluice_meter::FilterMeter;

    use super::{Csrf, CsrfToken, FOREIGN, MISSING, WRONG};
    use crate::{CookieForm, Hosts, Readers, SameSite, Sealer, Secret};

    /// Method, field lines, and whether the request passes.
    type Row = (&'static str, &'static [(&'static str, &'static str)], bool);

    fn csrf(token: Option<CsrfToken>) -> Csrf {
        let meter = Arc::new(FilterMeter::new(1, Csrf::OUTCOMES));
        Csrf { trusted: Hosts::new(["partner.example"]).unwrap(), token, meter }
    }

    fn head(method: &str, lines: &[(&str, &str)]) -> RequestHead {
        let mut head = RequestHead::new();
        head.method = Method::of(method.as_bytes());
        head.authority = head.fields.append(b"shop.example:8443").unwrap();
        for (name, value) in lines {
            head.fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        head
    }

    #[test]
    fn browsers_say_where_requests_come_from() {
        const OWN: (&str, &str) = ("origin", "https://shop.example:8443");
        let table: [Row; 14] = [
            ("GET", &[("origin", "https://evil.example")], true),
            ("POST", &[], true),
            ("POST", &[OWN], true),
            ("POST", &[OWN, ("sec-fetch-site", "same-origin")], true),
            ("POST", &[("sec-fetch-site", "same-origin")], true),
            ("POST", &[("sec-fetch-site", "none")], true),
            ("POST", &[("sec-fetch-site", "cross-site")], false),
            ("POST", &[("sec-fetch-site", "same-site")], false),
            ("POST", &[("origin", "https://shop.example")], false),
            ("POST", &[("origin", "https://shop.example:8443@evil.example")], false),
            ("POST", &[("origin", "null")], false),
            (
                "DELETE",
                &[("origin", "https://partner.example"), ("sec-fetch-site", "cross-site")],
                true,
            ),
            ("PATCH", &[OWN, OWN], false),
            ("PURGE", &[("origin", "https://evil.example")], false),
        ];
        for (method, lines, passes) in table {
            let outcome = csrf(None).judge(&head(method, lines), 1).map_err(|(outcome, _)| outcome);
            assert_eq!(outcome, if passes { Ok(()) } else { Err(FOREIGN) }, "{method} {lines:?}");
        }
    }

    #[test]
    fn upgrades_and_overridden_methods_change_something() {
        const FROM_EVIL: (&str, &str) = ("origin", "https://evil.example");
        const FROM_HERE: (&str, &str) = ("origin", "https://shop.example:8443");
        const SOCKET: (&str, &str) = ("upgrade", "websocket");
        // Method, query, field lines, and whether the request passes.
        type Row = (&'static str, &'static str, &'static [(&'static str, &'static str)], bool);
        let table: [Row; 21] = [
            ("GET", "", &[SOCKET, FROM_EVIL], false),
            ("GET", "", &[SOCKET, ("sec-fetch-site", "cross-site")], false),
            ("GET", "", &[SOCKET, ("origin", "null")], false),
            ("GET", "", &[SOCKET, FROM_HERE], true),
            ("GET", "", &[SOCKET, ("origin", "https://partner.example")], true),
            ("GET", "", &[SOCKET], true),
            ("GET", "", &[("upgrade", "anything"), FROM_EVIL], false),
            ("GET", "", &[("x-http-method-override", "DELETE"), FROM_EVIL], false),
            ("GET", "", &[("X-HTTP-Method", "PUT"), FROM_EVIL], false),
            ("HEAD", "", &[("x-method-override", "patch"), FROM_EVIL], false),
            ("GET", "", &[("x_http_method_override", "DELETE"), FROM_EVIL], false),
            ("GET", "", &[("x-http-method-override", "DELETE"), FROM_HERE], true),
            ("GET", "", &[("x-http-method-override", "GET"), FROM_EVIL], true),
            ("GET", "", &[("x-http-method-override", ""), FROM_EVIL], false),
            ("GET", "_method=DELETE", &[("sec-fetch-site", "cross-site")], false),
            ("GET", "a=b&%5fmethod=d%65lete", &[("sec-fetch-site", "cross-site")], false),
            ("GET", "_method=get", &[("sec-fetch-site", "cross-site")], true),
            ("GET", "_method=get&_method=put", &[("sec-fetch-site", "cross-site")], false),
            ("GET", "method=DELETE", &[("sec-fetch-site", "cross-site")], true),
            ("GET", "_method=DELETE", &[("sec-fetch-site", "same-origin")], true),
            ("POST", "_method=GET", &[FROM_EVIL], false),
        ];
        for (method, query, lines, passes) in table {
            let mut head = head(method, lines);
            head.query = head.fields.append(query.as_bytes()).unwrap();
            let outcome = csrf(None).judge(&head, 1).map_err(|(outcome, _)| outcome);
            let expected = if passes { Ok(()) } else { Err(FOREIGN) };
            assert_eq!(outcome, expected, "{method} {query} {lines:?}");
        }
        // RFC 8441: routed as a GET, by whose protocol it is known.
        let mut extended = head("GET", &[FROM_EVIL]);
        extended.protocol = extended.fields.append(b"websocket").unwrap();
        assert!(csrf(None).judge(&extended, 1).is_err());
    }

    #[test]
    fn a_token_is_good_for_its_session_alone() {
        let sealer = Sealer::new(&[Secret::new("a secret of some length")], "csrf", &[]).unwrap();
        let form = CookieForm {
            path: "/".to_owned(),
            domain: None,
            same_site: SameSite::Lax,
            readers: Readers::Scripts,
        };
        let csrf = csrf(Some(CsrfToken {
            sealer,
            cookie: "csrf".to_owned(),
            form,
            field: b"x-csrf-token".as_slice().into(),
            session: Some(b"sid".as_slice().into()),
            life: 100,
        }));
        let token = csrf.token.as_ref().unwrap();
        let session = head("GET", &[("cookie", "sid=eva")]);
        let good = token.issue(&session, 1000).unwrap();
        let other = token.issue(&head("GET", &[("cookie", "sid=bob")]), 1000).unwrap();
        let post = |cookie: String, shown: &str| {
            let head = head("POST", &[("cookie", &cookie), ("x-csrf-token", shown)]);
            csrf.judge(&head, 1050).map_err(|(outcome, _)| outcome)
        };
        assert_eq!(post(format!("sid=eva; csrf={good}"), &good), Ok(()));
        assert_eq!(post(format!("sid=eva; csrf={other}"), &other), Err(WRONG));
        assert_eq!(post(format!("sid=eva; csrf={good}"), &other), Err(WRONG));
        assert_eq!(post("sid=eva".to_owned(), &good), Err(WRONG), "the cookie is missing");
        assert_eq!(post("sid=eva; csrf=x".to_owned(), "x"), Err(WRONG), "one of an attacker's own");
        let bare = head("POST", &[("cookie", &format!("sid=eva; csrf={good}"))]);
        assert_eq!(csrf.judge(&bare, 1050).map_err(|(outcome, _)| outcome), Err(MISSING));
        let late =
            head("POST", &[("cookie", &format!("sid=eva; csrf={good}")), ("x-csrf-token", &good)]);
        assert_eq!(csrf.judge(&late, 1100).map_err(|(outcome, _)| outcome), Err(WRONG));
        // A cookie is written anew in the second half of its life.
        let kept = head("GET", &[("cookie", &format!("sid=eva; csrf={good}"))]);
        assert!(token.is_fresh(&kept, 1049) && !token.is_fresh(&kept, 1050));
    }
}
