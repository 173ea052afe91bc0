//! Requests by what they call their program.

use super::told::read_status;
use crate::fields::Fields;
use crate::problem::Flaw;
use crate::section::{Key, Kind, Preset, Section};
use crate::upstream::Roster;

/// Whose programs are let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserAgent {
    /// Only what one of these is found in, unless there is none.
    pub allow: Vec<String>,
    /// Not what one of these is found in.
    pub deny: Vec<String>,
    /// Whether requests are let through that say nothing.
    pub missing: Unsaid,
    /// The status others get.
    pub status: u16,
}

/// What becomes of requests that do not say what is asked of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsaid {
    /// They are let through.
    Allowed,
    /// They are refused.
    Refused,
}

/// The words of the keys that say what becomes of such requests.
pub(super) const UNSAID: &[&str] = &["allow", "refuse"];

pub(super) static SECTION: Section = Section {
    name: "filter.user_agent",
    doc: "Lets requests through by their `User-Agent`. Patterns are regular expressions, found anywhere in \
          it whatever the case of letters; however many there are and whatever they look like, it is read \
          once.",
    keys: &[
        Key {
            name: "allow",
            kind: Kind::Texts("regular expression"),
            preset: Preset::Absent("all"),
            doc: "Only what one of these is found in is let through.",
        },
        Key {
            name: "deny",
            kind: Kind::Texts("regular expression"),
            preset: Preset::Absent("none"),
            doc: "What one of these is found in is refused, even if it is allowed too.",
        },
        Key {
            name: "missing",
            kind: Kind::Word(UNSAID),
            preset: Preset::Value("allow"),
            doc: "What becomes of requests that name no program.",
        },
        Key {
            name: "status",
            kind: Kind::Integer { min: 400, max: 599, word: None },
            preset: Preset::Value("403"),
            doc: "The status of the answer to requests that are refused.",
        },
    ],
};

pub(super) fn read(fields: &Fields<'_, '_>, _: &mut Roster) -> Option<UserAgent> {
    Some(UserAgent {
        allow: fields.list("allow", parse_pattern),
        deny: fields.list("deny", parse_pattern),
        missing: read_unsaid(fields, "missing"),
        status: read_status(fields),
    })
}

pub(super) fn read_unsaid(fields: &Fields<'_, '_>, key: &str) -> Unsaid {
    match fields.word(key) {
        Some("refuse") => Unsaid::Refused,
        _ => Unsaid::Allowed,
    }
}

fn parse_pattern(text: &str) -> Result<String, Flaw> {
    if text.is_empty() {
        return Err(Flaw::new("an empty pattern is found everywhere"));
    }
    match regex::Regex::new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => {
            let whole = error.to_string();
            let last = whole.lines().last().unwrap_or_default();
            let why = last.trim_start_matches("error: ");
            Err(Flaw::new(format!("\"{text}\" is not a regular expression: {why}")))
        }
    }
}
