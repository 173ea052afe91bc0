//! Requests of HTTP/2, made once and sent many times.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sluice_message::{BodyLength, Expectation, Method, RequestHead, TargetForm};
use sluice_wire::h2::{End, RequestOptions, Scheme, Tunnel};

use crate::request::{Asked, Wish, asked};
use crate::target::{Security, Target};

/// A request of HTTP/2.
#[derive(Clone, Debug)]
pub struct StreamRequest {
    pub(super) head: RequestHead,
    pub(super) options: RequestOptions,
    pub(super) body: Vec<u8>,
}

/// Fields that belong to one connection of HTTP/1.1 (RFC 9113, 8.2.2).
const FOREIGN: [&str; 4] = ["connection", "keep-alive", "proxy-connection", "upgrade"];

/// Makes a request of HTTP/2 to `target`.
///
/// # Errors
/// A method or header that cannot be sent, in words for whoever typed it.
pub fn prepare_stream(target: &Target, wish: &Wish) -> Result<StreamRequest, String> {
    let asked = asked(wish)?;
    for (name, value) in &asked.headers {
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted);
        if FOREIGN.iter().any(|foreign| is(foreign)) {
            return Err(format!("{name} has no meaning in HTTP/2; leave it or --http2 out"));
        }
        if is("te") && !value.eq_ignore_ascii_case("trailers") {
            return Err("TE says nothing but \"trailers\" in HTTP/2".to_owned());
        }
    }
    let head = head(target, &asked)
        .map_err(|_| "the request's head is too large to be sent".to_owned())?;
    let length = asked.length.map(|length| u64::try_from(length).unwrap_or(u64::MAX));
    let body = wish.body.clone().unwrap_or_default();
    let options = RequestOptions {
        scheme: match target.security {
            Security::Plain => Scheme::Http,
            Security::Tls => Scheme::Https,
        },
        body: length.map_or(BodyLength::Empty, BodyLength::Known),
        expectation: if asked.has("expect") { Expectation::Continue } else { Expectation::None },
        end: if body.is_empty() { End::Stream } else { End::More },
        tunnel: Tunnel::AsInHead,
    };
    Ok(StreamRequest { head, options, body })
}

fn head(target: &Target, asked: &Asked<'_>) -> Result<RequestHead, sluice_message::SpaceExhausted> {
    let mut head = RequestHead::new();
    head.method = Method::of(asked.method.as_bytes());
    head.form = TargetForm::Origin;
    let host = asked.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
    let authority = host.map_or(target.authority.as_str(), |(_, value)| value);
    head.method_text = head.fields.append(asked.method.as_bytes())?;
    head.target = head.fields.append(target.path.as_bytes())?;
    head.authority = head.fields.append(authority.as_bytes())?;
    if let Some(credentials) = target.credentials.as_ref().filter(|_| !asked.has("authorization")) {
        let value = format!("Basic {}", STANDARD.encode(credentials));
        head.fields.push(b"authorization", value.as_bytes())?;
    }
    for (name, value) in &asked.headers {
        head.fields.push(name.as_bytes(), value.as_bytes())?;
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Keepalive;

    fn wish(method: &str, headers: &[&str], body: Option<&[u8]>) -> Wish {
        Wish {
            method: method.to_owned(),
            headers: headers.iter().map(|&line| line.to_owned()).collect(),
            body: body.map(<[u8]>::to_vec),
            keepalive: Keepalive::On,
        }
    }

    #[test]
    fn heads_are_what_was_wished_for() {
        type Row<'r> = (&'r str, Wish, [&'r str; 3], &'r [&'r str], BodyLength);
        let rows: [Row<'_>; 4] = [
            (
                "http://h:81/p?q",
                wish("", &[], None),
                ["GET", "/p?q", "h:81"],
                &[],
                BodyLength::Empty,
            ),
            (
                "https://u:p@h/",
                wish("PUT", &["X-A:  b"], None),
                ["PUT", "/", "h"],
                &["authorization: Basic dTpw", "X-A: b"],
                BodyLength::Known(0),
            ),
            (
                "http://h/",
                wish("", &["hoST: other"], Some(b"abc")),
                ["POST", "/", "other"],
                &["hoST: other"],
                BodyLength::Known(3),
            ),
            (
                "http://h/",
                wish("", &["TE: trailers", "Expect: 100-continue"], Some(b"")),
                ["POST", "/", "h"],
                &["TE: trailers", "Expect: 100-continue"],
                BodyLength::Known(0),
            ),
        ];
        for (url, wish, expected, fields, length) in rows {
            let target = Target::parse(url).unwrap();
            let request = prepare_stream(&target, &wish).unwrap();
            let head = &request.head;
            let found = [head.method_text(), head.target(), head.authority()];
            assert_eq!(found.map(String::from_utf8_lossy), expected, "{url}");
            let line = |(name, value): (&[u8], &[u8])| {
                format!("{}: {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
            };
            assert_eq!(head.fields.iter().map(line).collect::<Vec<_>>(), fields, "{url}");
            assert_eq!(request.options.body, length, "{url}");
            let empty = request.body.is_empty();
            assert_eq!(request.options.end == End::Stream, empty, "{url}");
            let secure = target.security == Security::Tls;
            assert_eq!(request.options.scheme == Scheme::Https, secure, "{url}");
        }
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        let rows: [(Wish, &str); 5] = [
            (wish("CONNECT", &[], None), "tunnels"),
            (wish("", &["Connection: close"], None), "no meaning in HTTP/2"),
            (wish("", &["UPGRADE: x"], None), "no meaning in HTTP/2"),
            (wish("", &["TE: deflate"], None), "trailers"),
            (wish("", &["content-length: 7"], None), "follows from the body"),
        ];
        for (wish, part) in rows {
            let said = prepare_stream(&Target::parse("http://h/").unwrap(), &wish).unwrap_err();
            assert!(said.contains(part), "{said}");
        }
    }
}
