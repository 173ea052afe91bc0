//! What filters that find out who a client is have in common in their options.

use std::path::PathBuf;

use crate::fields::{Fields, Phrase};
use crate::header::parse_field_name;
use crate::problem::Flaw;
use crate::secret::Secret;

/// What becomes of requests without credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutCredentials {
    /// They are refused.
    Refused,
    /// They go on as nobody's.
    Passed,
}

/// Names with their secrets, from the configuration and from a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedSecrets {
    /// Those in the configuration.
    pub written: Vec<(String, Secret)>,
    /// The file with more of them.
    pub file: Option<PathBuf>,
}

/// Fields that carry the message itself: what is told under these names would change it.
const MESSAGE: [&str; 12] = [
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// The words of `missing`.
pub(super) const MISSING: &[&str] = &["refuse", "pass"];

/// The name of a field that tells origins something.
pub(super) fn parse_told_field(text: &str) -> Result<String, Flaw> {
    let name = parse_field_name(text)?;
    if MESSAGE.contains(&name.as_str()) {
        return Err(Flaw::new(format!("the header \"{name}\" belongs to the message itself"))
            .with_help("choose a name of your own, like \"x-user\""));
    }
    Ok(name)
}

pub(super) fn read_missing(fields: &Fields<'_, '_>) -> WithoutCredentials {
    match fields.word("missing") {
        Some("pass") => WithoutCredentials::Passed,
        _ => WithoutCredentials::Refused,
    }
}

pub(super) fn read_status(fields: &Fields<'_, '_>) -> u16 {
    fields.integer("status").and_then(|status| u16::try_from(status).ok()).unwrap_or(403)
}

pub(super) fn read_path(fields: &Fields<'_, '_>, key: &str) -> Option<PathBuf> {
    fields.text(key).map(|path| PathBuf::from(path.text))
}

pub(super) fn read_paths(fields: &Fields<'_, '_>, key: &str) -> Vec<PathBuf> {
    fields.phrases(key).iter().map(|path| PathBuf::from(path.text)).collect()
}

/// Names with one text each, and the file with more; one of them has to be there.
pub(super) fn read_secrets(
    fields: &Fields<'_, '_>,
    key: &str,
    file_key: &str,
) -> Option<NamedSecrets> {
    let first = |values: Vec<Phrase<'_>>| Some(Secret::new(values.first()?.text));
    let written: Vec<(String, Secret)> = fields
        .pairs(key)
        .into_iter()
        .filter_map(|(name, values)| Some((name.text.to_owned(), first(values)?)))
        .collect();
    let file = read_path(fields, file_key);
    if written.is_empty() && file.is_none() {
        let flaw = Flaw::new("nobody could ever come in")
            .with_help(format!("give it `{key}` or `{file_key}`"));
        fields.report.error(fields.span, flaw);
        return None;
    }
    Some(NamedSecrets { written, file })
}

/// What a realm is called; it stands inside quotes in a field.
pub(super) fn parse_realm(text: &str) -> Result<String, Flaw> {
    if text.is_empty() || !text.chars().all(|c| matches!(c, ' '..='~')) {
        return Err(Flaw::new("a realm has letters, digits and blanks of ASCII, at least one"));
    }
    Ok(text.to_owned())
}

/// One text or a list of them that must not show.
pub(super) fn read_secret_texts(fields: &Fields<'_, '_>, key: &str) -> Vec<Secret> {
    fields.phrases(key).iter().map(|text| Secret::new(text.text)).collect()
}
