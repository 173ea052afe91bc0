//! Names the user gives to things.

use crate::problem::Flaw;

/// A name: it goes into logs and metric labels, so blanks and control characters stay out.
pub(crate) fn parse_name(text: &str) -> Result<String, Flaw> {
    let allowed = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '"' | '\\' | ',');
    if text.is_empty() || text.chars().count() > 128 || !text.chars().all(allowed) {
        return Err(Flaw::new(format!("\"{}\" is not a name", text.escape_debug()))
            .with_help("a name has 1 to 128 characters and no blank, quote, comma or backslash"));
    }
    Ok(text.to_owned())
}
