//! Documents: every path they name exists, and none names a line.

use std::path::{Path, PathBuf};

use super::Finding;

/// Checks one Markdown file; `root` is the repository, `crates` the names of its crates.
pub fn check(root: &Path, document: &Path, crates: &[String]) -> Vec<Finding> {
    let Ok(text) = std::fs::read_to_string(root.join(document)) else { return Vec::new() };
    let shown = document.display().to_string();
    let mut findings = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        let mut find = |rule, what| findings.push(Finding::new(rule, &shown, index + 1, what));
        if let Some(place) = line_reference(line) {
            find("line-number", format!("`{place}` names a line; lines move"));
        }
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        // Code in a fence names files of the reader's, or is a picture of the crates.
        if fenced {
            continue;
        }
        for name in code_spans(line).into_iter().filter(|name| !exists(root, name, crates)) {
            find("path", format!("`{name}` does not exist"));
        }
        for link in links(line).into_iter().filter(|link| !linked(root, document, link)) {
            find("path", format!("the link to `{link}` leads nowhere"));
        }
    }
    findings
}

/// Something like `decode.rs:12`.
fn line_reference(line: &str) -> Option<&str> {
    let (at, _) = line
        .match_indices(".rs:")
        .find(|(at, mark)| line.as_bytes().get(at + mark.len()).is_some_and(u8::is_ascii_digit))?;
    let start = line[..at].rfind([' ', '`', '(']).map_or(0, |before| before + 1);
    let digits = line[at + 4..].bytes().take_while(u8::is_ascii_digit).count();
    Some(&line[start..at + 4 + digits])
}

fn code_spans(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

fn links(line: &str) -> Vec<&str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect()
}

fn linked(root: &Path, document: &Path, link: &str) -> bool {
    let file = link.split('#').next().unwrap_or_default();
    if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
        return true;
    }
    root.join(document.parent().unwrap_or(Path::new(""))).join(file).exists()
}

/// Whether a piece of code in a document is no path of ours, or one that exists.
fn exists(root: &Path, name: &str, crates: &[String]) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let name = name.strip_prefix("./").unwrap_or(name).trim_end_matches('/');
    if !name.chars().all(plain) || name.starts_with('/') || name.is_empty() {
        return true;
    }
    let first = name.split('/').next().unwrap_or_default();
    if first == "target" || first.is_empty() {
        return true;
    }
    let below = name.contains('/');
    if below && crates.iter().any(|known| known == first) {
        return in_crate(root, name, first);
    }
    // Text with a slash whose first part is nothing of ours is a media type or somebody's file.
    let ours = if below { root.join(first).exists() } else { looks_like_document(name) };
    !ours || root.join(name).exists()
}

fn looks_like_document(name: &str) -> bool {
    name.ends_with(".md") && name.chars().next().is_some_and(|c| c.is_ascii_uppercase())
}

/// `wire/h1/decode` is short for `crates/wire/src/h1/decode.rs`.
fn in_crate(root: &Path, name: &str, first: &str) -> bool {
    let rest = name[first.len() + 1..].trim_end_matches(".rs");
    let folder = root.join("crates").join(first);
    let inside: PathBuf = folder.join("src").join(rest);
    inside.with_extension("rs").exists() || inside.is_dir() || folder.join(rest).exists()
}

#[cfg(test)]
mod tests {
    use super::{check, code_spans, line_reference, links};
    use std::path::Path;

    #[test]
    fn finds_references() {
        assert_eq!(line_reference("see wire/decode.rs:12, there"), Some("wire/decode.rs:12"));
        assert_eq!(line_reference("see `decode.rs`: it"), None);
        assert_eq!(code_spans("a `b` c `d/e`"), ["b", "d/e"]);
        assert_eq!(links("[a](b.md) and [c](d#e)"), ["b.md", "d#e"]);
    }

    #[test]
    fn paths_that_do_not_exist_are_found() {
        let root = std::env::temp_dir().join(format!("sluice-documents-{}", std::process::id()));
        std::fs::create_dir_all(root.join("crates/wire/src/h1")).unwrap();
        std::fs::write(root.join("crates/wire/src/h1/decode.rs"), "").unwrap();
        let text = "`crates/wire` `wire/h1/decode` `wire/h9/decode` `text/plain` `crates/none`\n\
            `target/release/sluice` [x](README.md) [y](NONE.md) `MISSING.md` `/etc/passwd` `a b/c`\n\
            ```\n`crates/fenced`\n```\n";
        std::fs::write(root.join("README.md"), text).unwrap();
        let found = check(&root, Path::new("README.md"), &["wire".to_owned()]);
        let shown: Vec<&str> = found.iter().map(|finding| finding.what.as_str()).collect();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(
            shown,
            [
                "`wire/h9/decode` does not exist",
                "`crates/none` does not exist",
                "`MISSING.md` does not exist",
                "the link to `NONE.md` leads nowhere",
            ]
        );
    }
}
