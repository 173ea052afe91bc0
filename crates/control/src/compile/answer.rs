//! Answers written in the configuration.

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
        BodySource::File(path) => {
            let bytes = files::read(path).map_err(|error| {
                format!("cannot read the file {}: {}", path.display(), plain(&error))
            })?;
            if bytes.len() > LARGEST {
                let most = LARGEST >> 20;
                return Err(format!(
                    "the file {} is larger than {most} MiB, too large to be kept in memory",
                    path.display()
                ));
            }
            bytes
        }
    };
    let fields = respond.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    Answer::new(respond.status, fields, body)
        .map_err(|_| "its headers take more than 256 KiB".to_owned())
}
