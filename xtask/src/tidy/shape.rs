//! The shape of a file: its length, its opening line, its name, its functions.

use super::Finding;
use super::source::{Kind, Source, closing, is_word, places};

const FILE_LINES: usize = 800;
const FUNCTION_LINES: usize = 100;
const PARAMETERS: usize = 5;
/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["common", "util", "utils", "helper", "helpers", "misc", "manager"];

/// Every rule about the shape of one file.
pub fn check(source: &Source) -> Vec<Finding> {
    let path = source.path.display().to_string();
    let mut findings = Vec::new();
    let mut find = |rule, line, what: String| findings.push(Finding::new(rule, &path, line, what));
    if !source.text.starts_with("//! ") {
        find("opening", 1, "opens without a `//!` sentence".to_owned());
    }
    let lines = source.text.lines().count();
    if lines > FILE_LINES {
        find("file-length", 1, format!("{lines} lines; the limit is {FILE_LINES}"));
    }
    for (line, name) in module_names(source) {
        find("module-name", line, format!("`{name}` says nothing about what is inside"));
    }
    // A test's function is a list of steps and has no callers to protect.
    if source.kind == Kind::Test {
        return findings;
    }
    for function in functions(source) {
        let Function { name, line, lines, parameters, public } = &function;
        if *lines > FUNCTION_LINES {
            find(
                "function-length",
                *line,
                format!("{name}: {lines} lines; limit {FUNCTION_LINES}"),
            );
        }
        if parameters.len() > PARAMETERS {
            let count = parameters.len();
            find("parameters", *line, format!("{name}: {count} parameters; limit {PARAMETERS}"));
        }
        if *public && parameters.iter().any(|parameter| takes_bool(parameter)) {
            find("bool", *line, format!("{name}: a bool in a public signature; use an enum"));
        }
    }
    findings
}

fn module_names(source: &Source) -> Vec<(usize, String)> {
    let path = source.path.with_extension("");
    let mut found: Vec<(usize, String)> = path
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .filter(|part| EMPTY_NAMES.contains(&part.as_str()))
        .map(|name| (1, name))
        .collect();
    for at in places(&source.code, "mod") {
        let rest = source.code[at + 3..].trim_start();
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        // `mod x;` is reported once, as the file it names.
        let inline = rest[name.len()..].trim_start().starts_with('{');
        if inline && EMPTY_NAMES.contains(&name.as_str()) {
            found.push((source.line_at(at), name));
        }
    }
    found
}

/// `bool` as a type of what comes in; a predicate that is passed may return one.
fn takes_bool(parameter: &str) -> bool {
    places(parameter, "bool").any(|at| !parameter[..at].trim_end().ends_with("->"))
}

/// A function with a body or without.
#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    line: usize,
    /// From the line of its name to its closing brace.
    lines: usize,
    /// As written, without the receiver.
    parameters: Vec<String>,
    /// `pub` without restriction.
    public: bool,
}

fn functions(source: &Source) -> Vec<Function> {
    places(&source.code, "fn").filter_map(|at| function(source, at)).collect()
}

fn function(source: &Source, at: usize) -> Option<Function> {
    let code = source.code.as_str();
    let rest = code[at + 2..].trim_start();
    let start = code.len() - rest.len();
    let length = rest.bytes().position(|byte| !is_word(byte))?;
    // `fn(u8)` is a type.
    let name = (length > 0).then(|| rest[..length].to_owned())?;
    let open = open_parenthesis(code, start + length)?;
    let close = closing(code, open)?;
    let parameters = split(&code[open + 1..close - 1])
        .into_iter()
        .filter(|parameter| !is_receiver(parameter))
        .collect();
    let end = body_end(code, close);
    let (line, last) = (source.line_at(at), source.line_at(end));
    let before = code[..at].rsplit(['\n', ';', '}', '{']).next().unwrap_or_default();
    let public = places(before, "pub").any(|at| !before[at + 3..].starts_with('('));
    Some(Function { name, line, lines: last - line + 1, parameters, public })
}

/// The parenthesis behind the generics, which may hold parentheses of their own.
fn open_parenthesis(code: &str, from: usize) -> Option<usize> {
    let bytes = code.as_bytes();
    let mut depth = 0_i32;
    for at in from..bytes.len() {
        match bytes[at] {
            b'<' => depth += 1,
            // Not the end of an arrow.
            b'>' if bytes[at - 1] != b'-' => depth -= 1,
            b'(' if depth == 0 => return Some(at),
            b'{' | b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Behind the body, or behind the semicolon when there is none.
fn body_end(code: &str, from: usize) -> usize {
    let mut at = from;
    let bytes = code.as_bytes();
    while at < bytes.len() {
        match bytes[at] {
            b'{' => return closing(code, at).map_or(code.len(), |end| end - 1),
            b';' => return at,
            // `-> [u8; 4]` has a semicolon that ends nothing.
            b'[' | b'(' => at = closing(code, at).unwrap_or(bytes.len()),
            _ => at += 1,
        }
    }
    code.len()
}

fn is_receiver(parameter: &str) -> bool {
    let name = parameter.split(':').next().unwrap_or_default();
    places(name, "self").next().is_some()
}

/// Splits parameters at the commas outside of every bracket.
fn split(parameters: &str) -> Vec<String> {
    let (mut parts, mut depth, mut part) = (Vec::new(), 0_i32, String::new());
    let mut previous = ' ';
    for c in parameters.chars() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '>' if previous != '-' => depth -= 1,
            _ => {}
        }
        previous = c;
        if c == ',' && depth == 0 {
            parts.push(std::mem::take(&mut part));
        } else {
            part.push(c);
        }
    }
    parts.push(part);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::{check, functions};
    use crate::tidy::source::Source;
    use std::path::Path;

    fn source(path: &str, text: &str) -> Source {
        Source::new(Path::new(path), text)
    }

    #[test]
    fn measures_functions() {
        let text = "//! x\npub fn a<F: Fn(u8) -> bool>(&self, x: [u8; 2], f: F) -> [u8; 3] {\n\n}\n\
            trait T { fn b(self: Box<Self>, m: Map<u8, bool>); }\nstruct S(fn(u8));\n\
            pub(crate) const fn c(x: bool) {}\n";
        let found = functions(&source("crates/x/src/a.rs", text));
        let shown: Vec<_> = found
            .iter()
            .map(|f| (f.name.as_str(), f.line, f.lines, f.parameters.len(), f.public))
            .collect();
        assert_eq!(shown, [("a", 2, 3, 2, true), ("b", 5, 1, 1, false), ("c", 7, 1, 1, false)]);
    }

    #[test]
    fn reports_each_rule() {
        let long = format!("//! x\nfn f() {{\n{}}}\n", "\n".repeat(100));
        let table = [
            ("crates/x/src/a.rs", "fn a() {}", vec!["opening"]),
            ("crates/x/src/util.rs", "//! x", vec!["module-name"]),
            ("crates/x/src/misc/a.rs", "//! x", vec!["module-name"]),
            ("crates/x/src/a.rs", "//! x\nmod helpers { }", vec!["module-name"]),
            ("crates/x/src/a.rs", long.as_str(), vec!["function-length"]),
            ("crates/x/tests/a.rs", long.as_str(), vec![]),
            ("crates/x/src/a.rs", "//! x\nfn f(a:A,b:B,c:C,d:D,e:E,g:G) {}", vec!["parameters"]),
            ("crates/x/src/a.rs", "//! x\nfn f(&self,a:A,b:B,c:C,d:D,e:E) {}", vec![]),
            ("crates/x/src/a.rs", "//! x\npub fn f(a: Option<bool>) {}", vec!["bool"]),
            ("crates/x/src/a.rs", "//! x\npub fn f(a: u8) -> bool {}", vec![]),
            ("crates/x/src/a.rs", "//! x\npub fn f(a: impl Fn() -> bool) {}", vec![]),
        ];
        for (path, text, rules) in table {
            let found: Vec<&str> = check(&source(path, text)).iter().map(|f| f.rule).collect();
            assert_eq!(found, rules, "{path}: {text}");
        }
        let lines = format!("//! x\n{}", "\n".repeat(800));
        assert_eq!(check(&source("crates/x/src/a.rs", &lines))[0].rule, "file-length");
    }
}
