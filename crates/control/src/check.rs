//! Whether a configuration could be used, without using it.

use sluice_cache::Claim;
use sluice_model::Model;

use crate::compile::{Shelf, prepare};
use crate::document::{ConfigError, Document};
use crate::lists;

/// Whether a configuration could be used: its text, and the files it names. No socket is opened and
/// nothing is written. The warnings are in the model.
///
/// # Errors
/// Everything that is wrong with it. A list of servers that cannot be used is wrong here, though
/// the program would start without it.
pub fn check(document: &Document) -> Result<Model, ConfigError> {
    let model = document.parse()?;
    prepare(&model, &Shelf::new(1, Claim::Look)).map_err(ConfigError::Unusable)?;
    for path in lists::paths(&model) {
        lists::read(&path)?;
    }
    Ok(model)
}
