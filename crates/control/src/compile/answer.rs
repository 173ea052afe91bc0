//! Answers written in the configuration.

use std::path::Path;

use sluice_engine::Answer;
use sluice_model::{BodySource, Respond};
use sluice_net::files;

use crate::flaw::plain;

/// The largest file that is held in memory as an answer.
const LARGEST: usize = 64 << 20;

/// Reads the file if the body is one; says what is wrong in plain words.
pub(super) fn answer(respond: &Respond) -> Result<Answer, String> {
    let body = match &respond.body {
        BodySource::Text(text) => text.as_bytes().to_vec(),
        BodySource::File(path) => file_content(path, LARGEST)?,
    };
    let fields = respond.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    Answer::new(respond.status, fields, body)
        .map_err(|_| "its headers take more than 256 KiB".to_owned())
}

/// A file of at most so many bytes that is to be held in memory.
fn file_content(path: &Path, most: usize) -> Result<Vec<u8>, String> {
    let bytes = files::read(path)
        .map_err(|error| format!("cannot read the file {}: {}", path.display(), plain(&error)))?;
    if bytes.len() > most {
        return Err(format!(
            "the file {} is larger than {} MiB, too large to be kept in memory",
            path.display(),
            most >> 20
        ));
    }
    Ok(bytes)
}
