//! Requests made once and sent many times.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sluice_message::Method;

use crate::target::Target;

/// Whether connections serve more than one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keepalive {
    /// They do.
    On,
    /// Each request has a connection of its own, and says so.
    Off,
}

/// What a request is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The method's name; empty: GET, or POST if there is a body.
    pub method: String,
    /// `Name: value` lines as they were typed.
    pub headers: Vec<String>,
    /// The body, if there is one.
    pub body: Option<Vec<u8>>,
    /// Whether the connection stays.
    pub keepalive: Keepalive,
}

/// A request as it goes over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Its method, which decides how answers end.
    pub method: Method,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Lines that decide where a message ends: ours to write, since two of them mean two things.
const FRAMING: [&str; 2] = ["content-length", "transfer-encoding"];

/// What was wished for, checked.
pub(crate) struct Asked<'w> {
    pub(crate) method: &'w str,
    /// Names and values.
    pub(crate) headers: Vec<(&'w str, &'w str)>,
    /// The body's length in bytes, where it is to be said.
    pub(crate) length: Option<usize>,
}

impl Asked<'_> {
    /// Whether there is a header of this name.
    pub(crate) fn has(&self, wanted: &str) -> bool {
        self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted))
    }
}

/// Checks a wish.
///
/// # Errors
/// A method or header that cannot be sent, in words for whoever typed it.
pub(crate) fn asked(wish: &Wish) -> Result<Asked<'_>, String> {
    let method = match (wish.method.as_str(), &wish.body) {
        ("", None) => "GET",
        ("", Some(_)) => "POST",
        (method, _) => method,
    };
    if !is_token(method) {
        return Err(format!("\"{method}\" is no method"));
    }
    if method == "CONNECT" {
        return Err("CONNECT opens tunnels; it cannot be measured".to_owned());
    }
    let headers = wish.headers.iter().map(|line| header(line)).collect::<Result<Vec<_>, _>>()?;
    // RFC 9110, 8.6: methods that mean a body say its length even if there is none.
    let means_body = matches!(method, "POST" | "PUT" | "PATCH");
    let length = wish.body.as_ref().map(Vec::len).or(means_body.then_some(0));
    Ok(Asked { method, headers, length })
}

/// Makes a request to `target`.
///
/// # Errors
/// A method or header that cannot be sent, in words for whoever typed it.
pub fn prepare(target: &Target, wish: &Wish) -> Result<Prepared, String> {
    let asked = asked(wish)?;
    let mut text = format!("{} {} HTTP/1.1\r\n", asked.method, target.path);
    if !asked.has("host") {
        text.push_str(&format!("Host: {}\r\n", target.authority));
    }
    if let Some(credentials) = target.credentials.as_ref().filter(|_| !asked.has("authorization")) {
        text.push_str(&format!("Authorization: Basic {}\r\n", STANDARD.encode(credentials)));
    }
    for (name, value) in &asked.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(length) = asked.length {
        text.push_str(&format!("Content-Length: {length}\r\n"));
    }
    if wish.keepalive == Keepalive::Off && !asked.has("connection") {
        text.push_str("Connection: close\r\n");
    }
    text.push_str("\r\n");
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(wish.body.as_deref().unwrap_or_default());
    Ok(Prepared { method: Method::of(asked.method.as_bytes()), bytes })
}

/// Name and value of a typed header line.
fn header(line: &str) -> Result<(&str, &str), String> {
    let Some((name, value)) = line.split_once(':') else {
        return Err(format!("the header \"{line}\" has no colon; write \"Name: value\""));
    };
    let (name, value) = (name.trim(), value.trim());
    if !is_token(name) {
        return Err(format!("\"{name}\" is no header name"));
    }
    if FRAMING.iter().any(|framing| name.eq_ignore_ascii_case(framing)) {
        return Err(format!("{name} follows from the body; leave it out"));
    }
    // RFC 9110, 5.5.
    if value.chars().any(|c| c.is_control() && c != '\t') {
        return Err(format!("the value of {name} holds a control character"));
    }
    Ok((name, value))
}

/// RFC 9110, 5.6.2.
fn is_token(text: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(method: &str, headers: &[&str], body: Option<&[u8]>) -> Wish {
        Wish {
            method: method.to_owned(),
            headers: headers.iter().map(|&line| line.to_owned()).collect(),
            body: body.map(<[u8]>::to_vec),
            keepalive: Keepalive::On,
        }
    }

    #[test]
    fn requests_look_as_wished() {
        let rows: [(&str, Wish, &str); 8] = [
            ("http://h:81/p", wish("", &[], None), "GET /p HTTP/1.1\r\nHost: h:81\r\n\r\n"),
            ("http://h", wish("HEAD", &[], None), "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n"),
            (
                "http://h/",
                wish("", &[], Some(b"abc")),
                "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
            ),
            (
                "http://h/",
                wish("PUT", &[], None),
                "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
            ),
            (
                "http://h/",
                wish("GET", &[], Some(b"q")),
                "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nq",
            ),
            (
                "http://h/",
                wish("", &["hoST:other", "X-A:  b: c "], None),
                "GET / HTTP/1.1\r\nhoST: other\r\nX-A: b: c\r\n\r\n",
            ),
            (
                "http://u:p@h/",
                wish("", &[], None),
                "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Basic dTpw\r\n\r\n",
            ),
            (
                "http://h/",
                Wish { keepalive: Keepalive::Off, ..wish("", &[], None) },
                "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
            ),
        ];
        for (url, wish, expected) in rows {
            let prepared = prepare(&Target::parse(url).unwrap(), &wish).unwrap();
            assert_eq!(String::from_utf8_lossy(&prepared.bytes), expected);
        }
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        let rows: [(Wish, &str); 7] = [
            (wish("G T", &[], None), "no method"),
            (wish("CONNECT", &[], None), "tunnels"),
            (wish("", &["nonsense"], None), "no colon"),
            (wish("", &["a b: c"], None), "no header name"),
            (wish("", &["content-LENGTH: 7"], None), "follows from the body"),
            (wish("", &["Transfer-Encoding: chunked"], None), "follows from the body"),
            (wish("", &["a: b\r\nc: d"], None), "control character"),
        ];
        for (wish, part) in rows {
            let said = prepare(&Target::parse("http://h/").unwrap(), &wish).unwrap_err();
            assert!(said.contains(part), "{said}");
        }
    }
}
