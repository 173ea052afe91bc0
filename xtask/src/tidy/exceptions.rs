//! The list of exceptions: each names its rule, its place and its reason, and must still be needed.

use std::cell::Cell;
use std::path::Path;

use super::Finding;

/// Where the list stands.
pub const LIST: &str = "xtask/exceptions.toml";

/// One exception.
#[derive(Debug, Default)]
struct Exception {
    rule: String,
    path: String,
    reason: String,
    line: usize,
    used: Cell<bool>,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Exceptions(Vec<Exception>);

impl Exceptions {
    /// Reads the list; a missing file is an empty list.
    pub fn read(root: &Path) -> Result<Self, String> {
        Self::parse(&std::fs::read_to_string(root.join(LIST)).unwrap_or_default())
    }

    /// The subset of TOML the list is written in: `[[exception]]` and `key = "value"`.
    fn parse(text: &str) -> Result<Self, String> {
        let mut list: Vec<Exception> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let (number, line) = (index + 1, line.trim());
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line == "[[exception]]" {
                list.push(Exception { line: number, ..Exception::default() });
                continue;
            }
            let pair = line.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
            let value = |text: &str| -> Option<String> {
                Some(text.strip_prefix('"')?.strip_suffix('"')?.to_owned())
            };
            let entry = pair.and_then(|(key, text)| Some((key, value(text)?))).zip(list.last_mut());
            match entry {
                Some((("rule", text), exception)) => exception.rule = text,
                Some((("path", text), exception)) => exception.path = text,
                Some((("reason", text), exception)) => exception.reason = text,
                _ => return Err(format!("{LIST}:{number}: rule, path or reason = \"...\"")),
            }
        }
        match list.iter().find(|e| e.rule.is_empty() || e.path.is_empty() || e.reason.len() < 10) {
            Some(e) => Err(format!("{LIST}:{}: wants a rule, a path and a reason", e.line)),
            None => Ok(Self(list)),
        }
    }

    /// Whether a finding is allowed. A path that ends in `/` stands for everything below it.
    pub fn allow(&self, finding: &Finding) -> bool {
        let fits = |e: &&Exception| {
            let below = e.path.ends_with('/') && finding.path.starts_with(&e.path);
            e.rule == finding.rule && (e.path == finding.path || below)
        };
        let found = self.0.iter().find(fits);
        if let Some(exception) = found {
            exception.used.set(true);
        }
        found.is_some()
    }

    /// Exceptions that nothing needs any more: the list only shrinks.
    pub fn unused(&self) -> Vec<Finding> {
        let idle = self.0.iter().filter(|e| !e.used.get());
        idle.map(|e| {
            let what = format!("nothing in {} breaks {} any more: take it out", e.path, e.rule);
            Finding::new("exceptions", LIST, e.line, what)
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Exceptions;
    use crate::tidy::Finding;

    #[test]
    fn allows_what_it_names_and_reports_what_nobody_needs() {
        let text = "# words\n[[exception]]\nrule = \"unsafe\"\npath = \"crates/net/src/\"\n\
            reason = \"system calls\"\n[[exception]]\nrule = \"size\"\npath = \"a.rs\"\n\
            reason = \"one big table\"\n";
        let list = Exceptions::parse(text).unwrap();
        assert!(list.allow(&Finding::new("unsafe", "crates/net/src/x.rs", 3, "")));
        assert!(!list.allow(&Finding::new("unsafe", "crates/wire/src/x.rs", 3, "")));
        assert!(!list.allow(&Finding::new("other", "a.rs", 3, "")));
        let unused = list.unused();
        assert_eq!((unused.len(), unused[0].line), (1, 6));
        assert!(Exceptions::parse("[[exception]]\nrule = \"a\"\npath = \"b\"\n").is_err());
        assert!(Exceptions::parse("rule = \"a\"").is_err());
    }
}
