//! Patterns for a text that clients send, several asked at once.

use regex::bytes::{RegexSet, RegexSetBuilder};

/// More compiled patterns than this fill the memory, in bytes.
const MAX_COMPILED: usize = 16 * 1024 * 1024;

/// Regular expressions that a text may match, whatever the case of its letters.
///
/// All of them together read the text once, and take time in proportion to its length, whatever they are.
#[derive(Clone, Debug)]
pub struct Patterns(RegexSet);

impl Patterns {
    /// Compiles the patterns.
    ///
    /// # Errors
    /// The first pattern that is wrong, counted from zero, and why.
    pub fn new(patterns: &[String]) -> Result<Self, (usize, String)> {
        for (index, pattern) in patterns.iter().enumerate() {
            compile(std::slice::from_ref(pattern)).map_err(|why| (index, why))?;
        }
        // Only all of them together may be too large.
        let last = patterns.len().saturating_sub(1);
        compile(patterns).map(Self).map_err(|why| (last, why))
    }

    /// Whether any pattern is found in `text`.
    #[must_use]
    #[inline]
    pub fn matches(&self, text: &[u8]) -> bool {
        self.0.is_match(text)
    }

    /// Whether there is no pattern.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn compile(patterns: &[String]) -> Result<RegexSet, String> {
    RegexSetBuilder::new(patterns)
        .case_insensitive(true)
        .size_limit(MAX_COMPILED)
        .build()
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::Patterns;

    fn patterns(patterns: &[&str]) -> Result<Patterns, (usize, String)> {
        let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        Patterns::new(&patterns)
    }

    #[test]
    fn finds_any_of_them() {
        let bots = patterns(&["bot", "^curl/", r"sqlmap\b"]).unwrap();
        for text in ["Googlebot/2.1", "GoogleBOT", "curl/8.1", "x sqlmap/1"] {
            assert!(bots.matches(text.as_bytes()), "{text}");
        }
        for text in ["", "Mozilla/5.0", "libcurl/8", "sqlmapper"] {
            assert!(!bots.matches(text.as_bytes()), "{text}");
        }
        assert!(bots.matches(b"\xff\xfebot\xff"), "bytes that are no text");
        let none = patterns(&[]).unwrap();
        assert!(none.is_empty() && !none.matches(b"bot"));
    }

    #[test]
    fn says_which_pattern_is_wrong() {
        assert_eq!(patterns(&["a", "(", "b"]).unwrap_err().0, 1);
        assert!(patterns(&[r"(a)\1"]).is_err(), "what needs backtracking does not exist");
        assert_eq!(patterns(&["a", r"(\w{1000}){1000}"]).unwrap_err().0, 1);
    }

    #[test]
    fn patterns_that_blow_up_elsewhere_take_linear_time() {
        let evil = patterns(&["^(a+)+$", "(x+x+)+y", "(.*)*!"]).unwrap();
        let text = format!("{}b", "a".repeat(50_000));
        assert!(!evil.matches(text.as_bytes()));
        assert!(!evil.matches("x".repeat(50_000).as_bytes()));
    }
}
