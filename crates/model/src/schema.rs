//! The JSON schema of the document, made from the sections.

use serde_json::{Map, Value, json};

use crate::model::ROOT;
use crate::section::{Key, Kind, Preset, Section};

/// What a text with a reference to the environment looks like: it may stand for any scalar.
const REFERENCE: &str = r"\$\{";

/// The JSON schema (draft 2020-12) of a configuration document, for editors and forms.
pub fn schema() -> Value {
    let definitions: Map<String, Value> = ROOT
        .family()
        .into_iter()
        .skip(1)
        .map(|section| (section.name.to_owned(), object(section)))
        .collect();
    let mut root = object(&ROOT);
    if let Some(root) = root.as_object_mut() {
        root.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        root.insert("title".to_owned(), json!("Sluice configuration"));
        root.insert("description".to_owned(), json!("The configuration of the gateway Sluice."));
        root.insert("required".to_owned(), json!(["listener"]));
        root.insert("$defs".to_owned(), Value::Object(definitions));
    }
    root
}

fn object(section: &Section) -> Value {
    let properties: Map<String, Value> =
        section.keys.iter().map(|key| (key.name.to_owned(), property(key))).collect();
    let required: Vec<&str> = section
        .keys
        .iter()
        .filter(|key| matches!(key.preset, Preset::Required))
        .map(|key| key.name)
        .collect();
    let mut schema = json!({
        "type": "object",
        "description": section.doc,
        "properties": properties,
        "additionalProperties": false,
    });
    if let Some(schema) = schema.as_object_mut().filter(|_| !required.is_empty()) {
        schema.insert("required".to_owned(), json!(required));
    }
    schema
}

fn property(key: &Key) -> Value {
    let mut schema = Map::new();
    schema.insert("description".to_owned(), json!(key.doc));
    if let Preset::Value(text) = key.preset {
        let number = matches!(key.kind, Kind::Integer { .. }).then(|| text.parse::<u64>().ok());
        let default = number.flatten().map_or_else(|| json!(text), |number| json!(number));
        schema.insert("default".to_owned(), default);
    }
    if let Value::Object(kind) = kind(&key.kind) {
        schema.extend(kind);
    }
    Value::Object(schema)
}

fn kind(kind: &Kind) -> Value {
    let reference = json!({ "type": "string", "pattern": REFERENCE });
    match kind {
        Kind::Flag => json!({ "anyOf": [{ "type": "boolean" }, reference] }),
        Kind::Integer { min, max, word } => {
            let number = json!({ "type": "integer", "minimum": min, "maximum": max });
            any([Some(number), word.map(|word| json!({ "const": word })), Some(reference)])
        }
        Kind::Size { min, max, word } => {
            let number = json!({ "type": "integer", "minimum": min, "maximum": max });
            let pattern = format!(r"^[0-9]+ *([KMGT]i?B|kB|B)?$|{REFERENCE}");
            let text = json!({ "type": "string", "pattern": pattern });
            any([Some(number), Some(text), word.map(|word| json!({ "const": word }))])
        }
        Kind::Duration { .. } => {
            let pattern =
                format!("^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$|{REFERENCE}");
            json!({ "type": "string", "minLength": 2, "pattern": pattern })
        }
        Kind::Text(_) => json!({ "type": "string" }),
        Kind::Texts(_) => texts(),
        Kind::Word(words) => any([Some(json!({ "enum": words })), Some(reference), None]),
        Kind::Table(section) => link(section),
        Kind::Tables(section) => json!({ "type": "array", "items": link(section) }),
        Kind::Named(section) => {
            json!({ "type": "object", "additionalProperties": link(section) })
        }
        Kind::Pairs(_) => {
            json!({ "type": "object", "additionalProperties": { "type": "string" } })
        }
        Kind::PairLists(_) => json!({ "type": "object", "additionalProperties": texts() }),
        Kind::Short(_, section) => json!({ "anyOf": [{ "type": "string" }, link(section)] }),
        Kind::Shorts(_, section) => {
            let one = json!([{ "type": "string" }, link(section)]);
            json!({ "anyOf": [
                { "type": "array", "minItems": 1, "items": { "anyOf": one } },
                { "type": "string" },
                link(section),
            ] })
        }
    }
}

fn texts() -> Value {
    json!({ "anyOf": [
        { "type": "string" },
        { "type": "array", "items": { "type": "string" } },
    ] })
}

fn any(choices: [Option<Value>; 3]) -> Value {
    json!({ "anyOf": choices.into_iter().flatten().collect::<Vec<_>>() })
}

fn link(section: &Section) -> Value {
    json!({ "$ref": format!("#/$defs/{}", section.name) })
}
