//! Media types that a filter is for.

use crate::problem::Flaw;

/// `text/html`, `text/*` or `*+json`, in small letters.
pub(super) fn media_range(text: &str) -> Result<String, Flaw> {
    let word = |part: &str| crate::header::is_token(part);
    let fine = match text.split_once('/') {
        Some((kind, "*")) => word(kind) && kind != "*",
        Some((kind, subtype)) => word(kind) && word(subtype) && !text.contains('*'),
        None => text.strip_prefix("*+").is_some_and(word),
    };
    if fine {
        return Ok(text.to_ascii_lowercase());
    }
    Err(Flaw::new(format!("\"{}\" is no media type", text.escape_debug()))
        .with_help("\"text/html\", \"text/*\" or \"*+json\""))
}
