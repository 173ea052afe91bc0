//! Fills `${NAME}` and `${NAME:-default}` in text values from the environment.

use crate::place::Span;
use crate::problem::Flaw;
use crate::report::Report;
use crate::tree::{Node, Value};

/// Looks a variable up.
pub(crate) type Environment<'e> = &'e dyn Fn(&str) -> Option<String>;

/// Expands every text value below the node. Keys are names and stay as they are.
pub(crate) fn expand(node: &mut Node, environment: Environment<'_>, report: &Report<'_>) {
    match &mut node.value {
        Value::Text(text) if text.value.contains("${") => {
            match fill(&text.value, environment) {
                Ok(filled) => {
                    text.expanded = true;
                    text.value = filled;
                }
                Err((name, flaw)) => {
                    report.error(locate(node.span, &name, report), flaw);
                    node.value = Value::Faulty;
                }
            };
        }
        Value::List(list) => list.iter_mut().for_each(|item| expand(item, environment, report)),
        Value::Table(entries) => {
            entries.iter_mut().for_each(|entry| expand(&mut entry.node, environment, report));
        }
        _ => {}
    }
}

/// The place of the variable inside the value, or the value where it cannot be told (escapes).
fn locate(span: Span, reference: &str, report: &Report<'_>) -> Span {
    match report.lines().slice(span).find(reference) {
        Some(offset) => {
            let start = span.start.saturating_add(offset);
            Span::new(start, start.saturating_add(reference.len()))
        }
        None => span,
    }
}

/// The filled text, or the reference at fault and what is wrong with it.
fn fill(text: &str, environment: Environment<'_>) -> Result<String, (String, Flaw)> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at_checked(at).unwrap_or((rest, ""));
        if let Some(literal) = before.strip_suffix('$') {
            out.push_str(literal);
            out.push_str("${");
            rest = from.strip_prefix("${").unwrap_or_default();
            continue;
        }
        out.push_str(before);
        let inner = from.strip_prefix("${").unwrap_or_default();
        let Some((reference, after)) = inner.split_once('}') else {
            let flaw = Flaw::new("`${` is not closed by `}`")
                .with_help("write `$${` for the characters `${` themselves");
            return Err(("${".to_owned(), flaw));
        };
        out.push_str(&value(reference, environment)?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn value(reference: &str, environment: Environment<'_>) -> Result<String, (String, Flaw)> {
    let (name, default) = match reference.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (reference, None),
    };
    let typed = || format!("${{{reference}}}");
    let mut letters = name.bytes();
    let starts = letters.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    if !starts || !letters.all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        let flaw = Flaw::new(format!("\"{name}\" is not the name of an environment variable"))
            .with_help("write ${NAME} or ${NAME:-default}, and $${ for the characters ${");
        return Err((typed(), flaw));
    }
    // As in a shell, `:-` also stands in for a variable that is set but empty.
    match (environment(name), default) {
        (Some(found), None) => Ok(found),
        (Some(found), Some(_)) if !found.is_empty() => Ok(found),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => {
            let flaw = Flaw::new(format!("the environment variable {name} is not set"))
                .with_help(format!("set it, or give a default: ${{{name}:-default}}"));
            Err((typed(), flaw))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_filled() {
        let environment = |name: &str| match name {
            "HOST" => Some("example.com".to_owned()),
            "EMPTY" => Some(String::new()),
            "NEST" => Some("${HOST}".to_owned()),
            _ => None,
        };
        let rows = [
            ("plain", Ok("plain")),
            ("${HOST}", Ok("example.com")),
            ("a${HOST}b${HOST}", Ok("aexample.combexample.com")),
            ("${PORT:-80}", Ok("80")),
            ("${PORT:-}", Ok("")),
            ("${HOST:-x}", Ok("example.com")),
            ("${EMPTY:-x}", Ok("x")),
            ("${EMPTY}", Ok("")),
            ("${URL:-http://x:80}", Ok("http://x:80")),
            // What a variable holds is a value, never a reference again.
            ("${NEST}", Ok("${HOST}")),
            ("$${HOST}", Ok("${HOST}")),
            ("a$${b}${HOST}", Ok("a${b}example.com")),
            ("cost $5 {x}", Ok("cost $5 {x}")),
            ("ä${HOST}ö", Ok("äexample.comö")),
            ("${PORT}", Err("${PORT}")),
            ("${", Err("${")),
            ("${}", Err("${}")),
            ("${A B}", Err("${A B}")),
            ("${1A}", Err("${1A}")),
        ];
        for (text, expected) in rows {
            let got = fill(text, &environment).map_err(|(reference, _)| reference);
            assert_eq!(got.as_deref().map_err(String::as_str), expected, "{text}");
        }
    }
}
