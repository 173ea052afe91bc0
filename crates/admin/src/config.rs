//! The configuration in force, as it was typed.

use serde_json::{Value, json};
use sluice_control::{Shown, Status};
use sluice_engine::ReportAnswer;
use sluice_meter::http_date;
use sluice_model::redacted;

pub(crate) fn config(status: &Status) -> ReportAnswer {
    match status.shown() {
        Some(shown) => crate::json::answer(&document(&shown)),
        None => {
            ReportAnswer { status: 503, content_type: "application/json", body: b"{}\n".to_vec() }
        }
    }
}

fn document(shown: &Shown) -> Value {
    let mut date = [0; 29];
    http_date(shown.loaded_at.as_secs(), &mut date);
    let listeners = shown.listeners.iter().map(|it| json!({ "name": it.name, "url": it.url }));
    json!({
        "generation": shown.generation,
        "loaded_at": String::from_utf8_lossy(&date),
        "file": shown.file,
        "listeners": listeners.collect::<Value>(),
        // It was read when it came in force, so it can be read again.
        "config": redacted(&shown.document.source()).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_control::{Document, ShownListener};
    use std::time::Duration;

    #[test]
    fn secrets_are_hidden() {
        let text = "[[listener]]\naddress = \":80\"\n[[route]]\nrespond = { headers = { x-token = \"hush\" } }\n";
        let shown = Shown {
            generation: 3,
            loaded_at: Duration::from_secs(784_111_777),
            document: Document {
                name: "a.toml".to_owned(),
                text: text.to_owned(),
                format: sluice_model::Format::Toml,
            },
            file: Some("a.toml".to_owned()),
            listeners: vec![ShownListener {
                name: "web".to_owned(),
                url: "http://[::]:80".to_owned(),
            }],
            upstreams: Vec::new(),
        };
        let document = document(&shown);
        assert_eq!(document["generation"], 3);
        assert_eq!(document["loaded_at"], "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(document["file"], "a.toml");
        assert_eq!(document["listeners"], json!([{ "name": "web", "url": "http://[::]:80" }]));
        assert_eq!(document["config"]["listener"][0]["address"], ":80");
        assert!(!document.to_string().contains("hush"));
    }
}
