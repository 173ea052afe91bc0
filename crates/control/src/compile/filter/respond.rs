//! The respond filter, of its options.

use std::sync::Arc;

use sluice_expression::{Phase, Template};
use sluice_filters::{Mock, MockBody, Respond};

use super::{Tools, template};

/// The largest file that is an answer of a filter: it is copied for every request.
const LARGEST: usize = 1 << 20;

pub(super) fn respond(
    options: &sluice_model::RespondFilter,
    tools: &mut Tools<'_>,
) -> Result<Respond, String> {
    let mut fields: Vec<(Box<str>, Template)> = Vec::new();
    for (name, values) in &options.headers {
        for value in values {
            fields.push((name.as_str().into(), template(value, Phase::Request)?));
        }
    }
    let body = match &options.body {
        sluice_model::MockBody::File(path) => {
            MockBody::Bytes(Arc::from(tools.files.small(path, LARGEST)?))
        }
        sluice_model::MockBody::Template(text) => {
            let template = template(text, Phase::Request)?;
            match template.as_constant() {
                Some(bytes) => MockBody::Bytes(Arc::from(bytes)),
                None => MockBody::Template(template),
            }
        }
    };
    let mock = Mock { status: options.status, fields, body, delay: options.delay };
    Ok(Respond::new(mock, tools.meter(Respond::OUTCOMES)))
}
