//! Tests of the whole way from text to model.

mod filters;
mod hostile;
mod meaning;
mod problems;
mod tables;
mod tls;

use crate::{Format, Model, Problems, Source, parse};

/// The variables the tests know.
fn environment(name: &str) -> Option<String> {
    let value = match name {
        "PORT" => "8080",
        "HOST" => "example.com",
        "FLAG" => "true",
        "COUNT" => "7",
        "EMPTY" => "",
        "EVIL" => "a\r\nx-forged: yes",
        _ => return None,
    };
    Some(value.to_owned())
}

fn toml(text: &str) -> Result<Model, Problems> {
    parse(&Source { name: "sluice.toml", text, format: Format::Toml }, &environment)
}

fn yaml(text: &str) -> Result<Model, Problems> {
    parse(&Source { name: "sluice.yaml", text, format: Format::Yaml }, &environment)
}

/// A listener and one route, to which the text is added: what it says is in line 4 and later.
fn with_rest(text: &str) -> String {
    format!("listener = [{{ address = \":80\" }}]\n\n\n{text}")
}
