//! `{port}` and the like in commands, URLs and configurations.

use std::collections::BTreeMap;
use std::path::Path;

/// What the placeholders of one server stand for.
#[derive(Clone, Debug)]
pub(crate) struct Places<'a> {
    pub(crate) program: &'a Path,
    pub(crate) dir: &'a Path,
    pub(crate) config: Option<&'a Path>,
    pub(crate) workers: usize,
    pub(crate) server: &'a str,
    /// Port by server.
    pub(crate) ports: &'a BTreeMap<String, u16>,
}

impl Places<'_> {
    /// What a name in braces stands for; nothing if it is no placeholder.
    fn value(&self, name: &str) -> Option<String> {
        match name {
            "sluice" => Some(self.program.display().to_string()),
            "dir" => Some(self.dir.display().to_string()),
            "config" => Some(self.config?.display().to_string()),
            "workers" => Some(self.workers.to_string()),
            "port" => self.ports.get(self.server).map(u16::to_string),
            other => self.ports.get(other.strip_prefix("port:")?).map(u16::to_string),
        }
    }

    /// The text with all placeholders filled in. Other braces stay: configurations have their own.
    pub(crate) fn fill(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            out.push_str(before);
            let value =
                after.split_once('}').and_then(|(name, behind)| Some((self.value(name)?, behind)));
            match value {
                Some((value, behind)) => {
                    out.push_str(&value);
                    rest = behind;
                }
                None => {
                    out.push('{');
                    rest = after;
                }
            }
        }
        out.push_str(rest);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_and_other_braces_stay() {
        let ports = BTreeMap::from([("web".to_owned(), 81), ("origin".to_owned(), 82)]);
        let places = Places {
            program: Path::new("/bin/sluice"),
            dir: Path::new("/tmp/x"),
            config: None,
            workers: 2,
            server: "web",
            ports: &ports,
        };
        let rows = [
            ("{sluice} run -c {dir}/a", "/bin/sluice run -c /tmp/x/a"),
            ("listen {port}; proxy {port:origin};", "listen 81; proxy 82;"),
            ("{config} {port:none} {workers}", "{config} {port:none} 2"),
            ("http { server { listen {port}; } }", "http { server { listen 81; } }"),
            ("https://{host}{path}", "https://{host}{path}"),
            ("{", "{"),
        ];
        for (text, expected) in rows {
            assert_eq!(places.fill(text), expected);
        }
    }
}
