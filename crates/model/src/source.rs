//! The text a configuration is read from: its name, its characters, its format.

/// The notation of a configuration document. Both know the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// TOML 1.1.
    Toml,
    /// YAML 1.2 (core schema).
    Yaml,
}

impl Format {
    /// The format of a file by its extension: `.yaml`, `.yml` and `.json` are YAML, of which JSON is
    /// a part; everything else is TOML.
    pub fn of_path(path: &str) -> Self {
        let extension = path.rsplit(['/', '\\']).next().and_then(|name| name.rsplit_once('.'));
        let is = |end: &str, known: &[&str]| known.iter().any(|it| end.eq_ignore_ascii_case(it));
        match extension {
            Some((_, end)) if is(end, &["yaml", "yml", "json"]) => Self::Yaml,
            _ => Self::Toml,
        }
    }
}

/// One document: what it is called in messages, its text, and the notation it is written in.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The name shown in front of every problem, usually the path of the file.
    pub name: &'a str,
    /// The whole text.
    pub text: &'a str,
    /// The notation.
    pub format: Format,
}

impl<'a> Source<'a> {
    /// The text without a byte order mark, which some editors write and no parser of ours wants.
    pub(crate) fn body(&self) -> &'a str {
        self.text.strip_prefix('\u{feff}').unwrap_or(self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_names_the_format() {
        let rows = [
            ("sluice.toml", Format::Toml),
            ("sluice.yaml", Format::Yaml),
            ("/etc/sluice/a.YML", Format::Yaml),
            ("servers.json", Format::Yaml),
            ("/etc/x.yaml/sluice", Format::Toml),
            ("sluice", Format::Toml),
            ("-", Format::Toml),
        ];
        for (path, expected) in rows {
            assert_eq!(Format::of_path(path), expected, "{path}");
        }
    }
}
