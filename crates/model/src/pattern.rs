//! Patterns of a route: hosts, paths, and values of headers, queries and cookies.

use crate::address::parse_host;
use crate::problem::Flaw;

/// The hosts a route is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// This host alone, lowercased; an IPv6 address in brackets.
    Exact(String),
    /// Every host that ends so, lowercased with its dot: ".example.com" for "*.example.com".
    Wildcard(String),
}

/// The paths a route is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PathPattern {
    /// This path alone.
    Exact(String),
    /// Every path that begins so, with its closing slash: "/api/" for "/api/*". The path without
    /// the slash ("/api") matches too.
    Prefix(String),
    /// A path with named segments: "/users/{id}". A segment in braces is one segment, not empty.
    Template(String),
    /// A regular expression searched in the path; `^` and `$` anchor it.
    Regex(String),
}

/// What the value of a header, query or cookie has to be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ValueMatch {
    /// Exactly this.
    Exact(String),
    /// A regular expression searched in the value; `^` and `$` anchor it.
    Regex(String),
    /// Anything, as long as it is there.
    Present,
}

/// "example.com", "*.example.com"; nothing for "*", which is every host.
pub(crate) fn parse_host_pattern(text: &str) -> Result<Option<HostPattern>, Flaw> {
    if text == "*" {
        return Ok(None);
    }
    if let Some(name) = text.strip_prefix("*.") {
        return Ok(Some(HostPattern::Wildcard(format!(".{}", parse_host(name)?))));
    }
    if text.contains('*') {
        return Err(Flaw::new(format!("\"{text}\" is not a host"))
            .with_help("a wildcard stands for whole labels in front: \"*.example.com\""));
    }
    let brackets = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if let Some(Ok(ip)) = brackets.map(str::parse::<std::net::Ipv6Addr>) {
        return Ok(Some(HostPattern::Exact(format!("[{ip}]"))));
    }
    if text.parse::<std::net::Ipv4Addr>().is_ok() {
        return Ok(Some(HostPattern::Exact(text.to_owned())));
    }
    if let Some((host, port)) = text.rsplit_once(':').filter(|(host, _)| !host.contains(':')) {
        let flaw = Flaw::new(format!("the host \"{text}\" has a port"));
        return Err(match port.parse::<u16>() {
            Ok(_) => flaw.with_help(format!("write \"{host}\": a route is for every port of it")),
            Err(_) => flaw.with_help("write the host name alone"),
        });
    }
    parse_host(text).map(|name| Some(HostPattern::Exact(name)))
}

/// "/exact", "/prefix/*", "/users/{id}", "~ ^/regex".
pub(crate) fn parse_path_pattern(text: &str) -> Result<PathPattern, Flaw> {
    if let Some(expression) = text.strip_prefix('~') {
        return parse_regex(expression.trim_start()).map(PathPattern::Regex);
    }
    let refused = |why: &str| Flaw::new(format!("the path \"{}\" {why}", text.escape_debug()));
    if !text.starts_with('/') {
        let flaw = refused("does not begin with /");
        return Err(match text {
            "*" => flaw.with_help("write \"/*\" for every path"),
            "" => flaw.with_help("write \"/\" for the root, \"/*\" for every path"),
            _ => flaw.with_help(format!("write \"/{text}\"; a regular expression begins with ~")),
        });
    }
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(refused("holds a blank or control character"));
    }
    if let Some(mark) = text.chars().find(|c| matches!(c, '?' | '#')) {
        return Err(refused(&format!("holds a {mark}")).with_help("match the query with `query`"));
    }
    let (stem, prefix) = match text.strip_suffix("/*") {
        Some(stem) => (stem, true),
        None => (text, false),
    };
    if stem.contains('*') {
        return Err(refused("has a * that is no whole last segment")
            .with_help("write a prefix as \"/api/*\", or a regular expression: \"~ ^/a.*b\""));
    }
    if stem.contains(['{', '}']) {
        check_template(stem, prefix, &refused)?;
        return Ok(PathPattern::Template(text.to_owned()));
    }
    Ok(match prefix {
        true => PathPattern::Prefix(format!("{stem}/")),
        false => PathPattern::Exact(text.to_owned()),
    })
}

fn check_template(stem: &str, prefix: bool, refused: &dyn Fn(&str) -> Flaw) -> Result<(), Flaw> {
    if prefix {
        return Err(refused("mixes {name} and *")
            .with_help("use one of them, or a regular expression: \"~ ^/users/[^/]+/\""));
    }
    let mut names: Vec<&str> = Vec::new();
    for segment in stem.split('/').filter(|segment| segment.contains(['{', '}'])) {
        let inner = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let name = inner.filter(|name| {
            let letters = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            letters && !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit())
        });
        let Some(name) = name else {
            return Err(refused("has braces that are no {name}")
                .with_help("a named segment is a whole one: \"/users/{id}\""));
        };
        if names.contains(&name) {
            return Err(refused(&format!("has {{{name}}} twice")));
        }
        names.push(name);
    }
    Ok(())
}

/// "exact", "~ regex", "*".
pub(crate) fn parse_value_match(text: &str) -> Result<ValueMatch, Flaw> {
    if text == "*" {
        return Ok(ValueMatch::Present);
    }
    match text.strip_prefix('~') {
        Some(expression) => parse_regex(expression.trim_start()).map(ValueMatch::Regex),
        None => Ok(ValueMatch::Exact(text.to_owned())),
    }
}

/// A regular expression as it is compiled.
pub(crate) fn parse_regex(expression: &str) -> Result<String, Flaw> {
    if expression.is_empty() {
        return Err(Flaw::new("the regular expression after ~ is empty"));
    }
    match regex::Regex::new(expression) {
        Ok(_) => Ok(expression.to_owned()),
        Err(error) => {
            // The first lines of the message draw the expression; its place is shown already.
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default();
            let reason = reason.strip_prefix("error: ").unwrap_or(reason);
            Err(Flaw::new(format!("this is not a regular expression: {reason}")))
        }
    }
}

#[cfg(test)]
mod tests;
