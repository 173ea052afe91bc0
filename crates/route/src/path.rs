//! Paths of the configuration, in the form that paths of requests have.

use regex::bytes::{Regex, RegexBuilder};
use sluice_message::{ParameterAction, PathCase, PathProblem, PathRules, PathSpellings};

use crate::spec::PathSpec;
use crate::trie::Token;

/// More segments than this have no honest use; the search recurses once per parameter.
const MAX_PARAMETERS: usize = 64;

/// A path, ready to be put into a site.
pub(crate) enum PathKey {
    Exact(Vec<u8>),
    Prefix(Vec<u8>),
    Template(Vec<Token>),
    Regex(String),
}

impl PathKey {
    /// The key of a path that is compared by these rules.
    pub(crate) fn parse(spec: &PathSpec, rules: &PathRules) -> Result<Self, String> {
        match spec {
            PathSpec::Exact(text) => Ok(Self::Exact(normal(text, text, rules)?)),
            PathSpec::Prefix(text) => Ok(Self::Prefix(normal_prefix(text, rules)?)),
            PathSpec::Template(text) => template(text, rules),
            PathSpec::Regex(text) => {
                regex(text)?;
                Ok(Self::Regex(compared_regex(text, rules.case)))
            }
        }
    }
}

/// Compiles a regular expression over bytes; its classes mean ASCII.
pub(crate) fn regex(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(text).unicode(false).build().map_err(|error| error.to_string())
}

/// The expression for paths that are compared with case or without.
pub(crate) fn compared_regex(text: &str, case: PathCase) -> String {
    match case {
        PathCase::Sensitive => text.to_owned(),
        // Paths are in lower case there.
        PathCase::Insensitive => format!("(?i){text}"),
    }
}

/// `text` is what the user wrote, for messages.
fn normal(path: &str, text: &str, rules: &PathRules) -> Result<Vec<u8>, String> {
    // `*` is the path of OPTIONS for the whole server (RFC 9112, 3.2.4).
    if !path.starts_with('/') && path != "*" {
        return Err(format!("the path '{text}' does not start with '/'"));
    }
    if path == "*" {
        return Ok(path.into());
    }
    if path.contains(';') && rules.parameters != ParameterAction::Keep {
        return Err(format!(
            "the path '{text}' has a ';', and what follows it in a segment is not compared; to match it, \
             write path_rules = {{ parameters = \"keep\" }} at the listener"
        ));
    }
    let mut spellings = PathSpellings::default();
    let read = rules.read(&escaped(path), &mut spellings).and(match spellings.problem {
        Some(PathProblem::ControlCharacter) => Err(PathProblem::ControlCharacter),
        // A route may allow the others.
        _ => Ok(()),
    });
    match read {
        Ok(()) => Ok(spellings.compared),
        Err(PathProblem::BadEscape) => {
            Err(format!("the path '{text}' has a '%' that two hexadecimal digits do not follow"))
        }
        Err(problem) => Err(format!("the path '{text}' has {}", problem.text())),
    }
}

/// With a letter behind it, so that a prefix that ends in a dot (`/.` for hidden files) keeps it
/// instead of being taken for a dot segment.
fn normal_prefix(text: &str, rules: &PathRules) -> Result<Vec<u8>, String> {
    let mut out = normal(&format!("{text}x"), text, rules)?;
    out.pop();
    // The empty prefix is what matches everything, also the `*` of OPTIONS.
    if out == b"/" {
        out.clear();
    }
    Ok(out)
}

/// Escapes what no request target can hold (RFC 9112, 3.2), so that `/café` means what it says.
fn escaped(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    out
}

fn template(text: &str, rules: &PathRules) -> Result<PathKey, String> {
    let lower = text.to_ascii_lowercase();
    if lower.contains("%7b") || lower.contains("%7d") {
        return Err(format!("the path '{text}' has an escaped brace beside parameters"));
    }
    let path = normal(text, text, rules)?;
    let mut tokens = Vec::with_capacity(path.len());
    let mut names: Vec<&[u8]> = Vec::new();
    for (place, segment) in path.split(|&byte| byte == b'/').enumerate() {
        if place > 0 {
            tokens.push(Token::Byte(b'/'));
        }
        match segment {
            [b'{', name @ .., b'}'] if is_name(name) => {
                if names.contains(&name) {
                    let name = String::from_utf8_lossy(name);
                    return Err(format!("the path '{text}' names the parameter '{name}' twice"));
                }
                names.push(name);
                tokens.push(Token::Parameter);
            }
            literal if literal.contains(&b'{') || literal.contains(&b'}') => {
                return Err(format!(
                    "the path '{text}' has a brace that is no parameter: a parameter is a whole \
                     segment such as '{{id}}', of letters, digits, '_' and '-'"
                ));
            }
            literal => tokens.extend(literal.iter().copied().map(Token::Byte)),
        }
    }
    if names.len() > MAX_PARAMETERS {
        return Err(format!("the path '{text}' has more than {MAX_PARAMETERS} parameters"));
    }
    Ok(if names.is_empty() { PathKey::Exact(path) } else { PathKey::Template(tokens) })
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte))
}
