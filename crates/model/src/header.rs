//! Checks of what goes into a message head: field names, field values, methods, authorities.

use crate::nearest::nearest;
use crate::problem::Flaw;

/// Fields we write ourselves: a second one would let two readers see two different messages
/// (RFC 9112 sections 6.1 and 6.3).
const FRAMING: [&str; 4] = ["connection", "content-length", "transfer-encoding", "upgrade"];

/// The methods everybody knows (RFC 9110 section 9, RFC 5789).
const METHODS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// A token (RFC 9110 section 5.6.2).
pub(crate) fn is_token(text: &str) -> bool {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(token)
}

/// A field name, lowercased (RFC 9110 section 5.1).
pub(crate) fn parse_field_name(text: &str) -> Result<String, Flaw> {
    if is_token(text) {
        return Ok(text.to_ascii_lowercase());
    }
    Err(Flaw::new(format!("\"{}\" is not the name of a header", text.escape_debug()))
        .with_help("a header name has letters, digits and - only"))
}

/// A field name we may write into a response; as typed.
pub(crate) fn parse_response_field(text: &str) -> Result<String, Flaw> {
    let name = parse_field_name(text)?;
    if FRAMING.contains(&name.as_str()) {
        return Err(Flaw::new(format!("the header \"{name}\" is written by the server itself"))
            .with_help("remove it"));
    }
    Ok(text.to_owned())
}

/// A field value (RFC 9110 section 5.5): a line break or NUL in it would forge other fields.
/// The value itself may be a secret, so it is not repeated.
pub(crate) fn parse_field_value(text: &str) -> Result<String, Flaw> {
    if text.chars().any(|c| c.is_control() && c != '\t') {
        return Err(Flaw::new("a header value must not hold line breaks or control characters"));
    }
    Ok(text.trim_matches([' ', '\t']).to_owned())
}

/// A request method. They are case-sensitive (RFC 9110 section 9.1), so "get" would never match.
pub(crate) fn parse_method(text: &str) -> Result<String, Flaw> {
    let known = METHODS.iter().find(|method| method.eq_ignore_ascii_case(text));
    match known {
        Some(method) if *method != text => {
            Err(Flaw::new(format!("methods are written in capitals, this is \"{text}\""))
                .with_help(format!("did you mean \"{method}\"?")))
        }
        _ if is_token(text) && !text.bytes().any(|b| b.is_ascii_lowercase()) => Ok(text.to_owned()),
        _ => {
            let flaw = Flaw::new(format!("\"{}\" is not a method", text.escape_debug()));
            Err(match nearest(text, METHODS) {
                Some(method) => flaw.with_help(format!("did you mean \"{method}\"?")),
                None => flaw.with_help("write a method like \"GET\""),
            })
        }
    }
}

/// What may stand in a Host field (RFC 9110 section 7.2): a host, and a port if one is given.
pub(crate) fn parse_authority(text: &str) -> Result<String, Flaw> {
    let refused = || Flaw::new(format!("\"{}\" is not a host", text.escape_debug()));
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"-._~:[]".contains(&b);
    if text.is_empty() || text.len() > 255 || !text.bytes().all(legal) {
        return Err(
            refused().with_help("write a host name, with a port if needed: \"example.com\"")
        );
    }
    match text.rsplit_once(':') {
        Some((_, port)) if !text.ends_with(']') && port.parse::<u16>().is_err() => Err(refused()),
        _ => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_checked() {
        let rows = [
            ("GET", true),
            ("PURGE", true),
            ("M-SEARCH", true),
            ("get", false),
            ("Get", false),
            ("", false),
            ("G ET", false),
            ("purge", false),
        ];
        for (text, fine) in rows {
            assert_eq!(parse_method(text).is_ok(), fine, "{text}");
        }
    }

    #[test]
    fn authorities_are_checked() {
        let rows = [
            ("example.com", true),
            ("example.com:8080", true),
            ("[::1]:80", true),
            ("[::1]", true),
            ("", false),
            ("a b", false),
            ("a\r\nx: y", false),
            ("user@host", false),
            ("host/path", false),
            ("host:port", false),
        ];
        for (text, fine) in rows {
            assert_eq!(parse_authority(text).is_ok(), fine, "{text}");
        }
    }

    #[test]
    fn values_cannot_forge_fields() {
        for text in ["a\r\nb: c", "a\nb", "a\rb", "a\0b", "a\u{7f}"] {
            assert!(parse_field_value(text).is_err(), "{text:?}");
        }
        assert_eq!(parse_field_value(" a\tb ").as_deref(), Ok("a\tb"));
    }
}
