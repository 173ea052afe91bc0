//! The paths a source names: `use` trees spread out, and paths written in place.

use super::source::{closing, is_word};

/// A path like `std::fs::File`, and the byte where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its segments joined by `::`.
    pub path: String,
    /// Where it stands.
    pub at: usize,
}

/// Every path with at least two segments.
pub fn named(code: &str) -> Vec<Named> {
    let mut found = Vec::new();
    let bytes = code.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !is_word(bytes[at]) {
            at += 1;
            continue;
        }
        let end = end_of_path(bytes, at);
        let path = squeeze(&code[at..end]);
        if path == "use" {
            let stop = code[end..].find(';').map_or(code.len(), |length| end + length);
            spread("", &code[end..stop], at, &mut found);
            at = stop;
            continue;
        }
        if path.contains("::") {
            found.push(Named { path, at });
        }
        at = end;
    }
    found
}

/// Words joined by `::`, whatever space stands between.
fn end_of_path(bytes: &[u8], start: usize) -> usize {
    let word = |from: usize| {
        bytes[from..].iter().position(|b| !is_word(*b)).map_or(bytes.len(), |length| from + length)
    };
    let mut end = word(start);
    while bytes[end..].starts_with(b"::") && bytes.get(end + 2).is_some_and(|b| is_word(*b)) {
        end = word(end + 2);
    }
    end
}

fn squeeze(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// `a::{b, c::{d, e as f}}` to `a::b`, `a::c::d`, `a::c::e`.
fn spread(prefix: &str, tree: &str, at: usize, found: &mut Vec<Named>) {
    for branch in split(tree) {
        let branch = branch.trim();
        if branch.is_empty() {
            continue;
        }
        let join = |rest: &str| match (prefix.is_empty(), rest) {
            (_, "self") => prefix.to_owned(),
            (true, _) => rest.to_owned(),
            (false, _) => format!("{prefix}::{rest}"),
        };
        match branch.find('{') {
            Some(open) => {
                let head = squeeze(branch[..open].trim().trim_end_matches("::"));
                let close = closing(branch, open).map_or(branch.len(), |end| end - 1);
                let outer = if head.is_empty() { prefix.to_owned() } else { join(&head) };
                spread(&outer, &branch[open + 1..close], at, found);
            }
            None => {
                let name = branch.split(" as ").next().unwrap_or(branch);
                let path = join(&squeeze(name));
                if !path.is_empty() {
                    found.push(Named { path: path.trim_start_matches("::").to_owned(), at });
                }
            }
        }
    }
}

/// Splits at the commas outside of braces.
fn split(tree: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    for (at, byte) in tree.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&tree[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tree[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn spreads_use_trees_and_finds_paths_in_place() {
        let table: [(&str, &[&str]); 6] = [
            ("use std::fs;", &["std::fs"]),
            ("use std::{fs, io::{self, Read}};", &["std::fs", "std::io", "std::io::Read"]),
            (
                "use std::net::{\n    IpAddr,\n    TcpStream as T,\n};",
                &["std::net::IpAddr", "std::net::TcpStream"],
            ),
            ("pub use crate::a::B;", &["crate::a::B"]),
            ("let t = Instant::now();", &["Instant::now"]),
            ("fn f(x: std::net::TcpStream) -> a {}", &["std::net::TcpStream"]),
        ];
        for (code, expected) in table {
            let paths: Vec<String> = named(code).into_iter().map(|named| named.path).collect();
            assert_eq!(paths, expected, "{code}");
        }
    }
}
