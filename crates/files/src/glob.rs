//! Patterns of paths.

/// A pattern: `*` stands for any characters. One without a slash is for the name of a file, wherever it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    /// What stands between the stars; one part is the whole.
    parts: Vec<Vec<u8>>,
    whole: bool,
}

impl Glob {
    /// This pattern.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        let parts = pattern.as_bytes().split(|byte| *byte == b'*').map(<[u8]>::to_vec).collect();
        Self { parts, whole: pattern.contains('/') }
    }

    /// Whether it is for the file at this path, which begins with a slash.
    #[must_use]
    pub fn matches(&self, path: &[u8]) -> bool {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let text = if self.whole { path } else { name };
        let Some((first, rest)) = self.parts.split_first() else { return false };
        let Some(mut text) = text.strip_prefix(first.as_slice()) else { return false };
        let Some((last, middle)) = rest.split_last() else { return text.is_empty() };
        for part in middle {
            if part.is_empty() {
                continue;
            }
            // The first place leaves the most for what follows.
            let Some(at) = text.windows(part.len()).position(|window| window == part) else {
                return false;
            };
            text = text.get(at + part.len()..).unwrap_or_default();
        }
        text.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything() {
        let rows = [
            ("*.html", "/a/b.html", true),
            ("*.html", "/a.html/b", false),
            ("/assets/*", "/assets/a/b.js", true),
            ("/assets/*", "/x/assets/a", false),
            ("/a/*/c*.js", "/a/b/cd.js", true),
            ("/a/*/c*.js", "/a/cd.js", false),
            ("*", "/anything", true),
            ("**", "/anything", true),
            ("a.txt", "/x/a.txt", true),
            ("a.txt", "/x/ba.txt", false),
            ("/a.txt", "/x/a.txt", false),
            ("a*a", "/a", false),
            ("a*a", "/aa", true),
            ("a*b*b", "/ab", false),
            ("*min*.js", "/x.min.js", true),
        ];
        for (pattern, path, expected) in rows {
            assert_eq!(Glob::new(pattern).matches(path.as_bytes()), expected, "{pattern} {path}");
        }
    }
}
