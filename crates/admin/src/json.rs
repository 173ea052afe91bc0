//! Answers in JSON.

use serde_json::Value;
use sluice_engine::ReportAnswer;

/// The document with line breaks, for eyes and programs alike.
pub(crate) fn answer(document: &Value) -> ReportAnswer {
    ReportAnswer {
        status: 200,
        content_type: "application/json",
        body: format!("{document:#}\n").into_bytes(),
    }
}
