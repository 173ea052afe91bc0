//! The reader, the schema and the reference know exactly the same keys: those of the tables.

use std::collections::BTreeSet;

use serde_json::Value;

use super::filters::FILTERS;
use super::{environment, toml, yaml};
use crate::duration::parse_duration;
use crate::model::{ROOT, read_model};
use crate::report::Report;
use crate::section::{Kind, Preset};
use crate::size::parse_size;
use crate::{Format, Source, reference, schema};

type Keys = BTreeSet<(String, String)>;

fn table_keys() -> Keys {
    let sections = ROOT.family().into_iter();
    sections
        .flat_map(|section| {
            section.keys.iter().map(|key| (section.name.to_owned(), key.name.to_owned()))
        })
        .collect()
}

/// Opens every section once, with every action.
fn everything() -> String {
    let filters = FILTERS.iter().enumerate();
    let filters = filters.map(|(at, row)| format!("filter.f{at} = {{ {} }}\n", row.example));
    filters.chain([EVERYTHING.to_owned()]).collect()
}

/// The same for all but filters.
const EVERYTHING: &str = "
    listener = [{ address = ':1', tls = { certificates = [{ cert = 'c' }], client = { ca = 'c', headers = {} } },
                  proxy_protocol = { from = '::1' } },
                { address = ':2', lua = { script = 'x = 1' } }]
    upstream.a = { servers = [{ address = 'h:1' }], health = { path = '/' }, ejection = {}, tls = {}, protocol = 'negotiate' }
    route = [{ respond = {}, path_rules = {} }, { path = '/a', redirect = { to = '/' } },
             { path = '/b', proxy = 'a', filters = [], concurrency = { adaptive = {} } }, { path = '/c', health = true },
             { path = '/d', files = { root = 'r', cache = {} } }, \
             { path = '/e', lua = { script = 'x = 1' } }]";

#[test]
fn the_reader_asks_for_every_key() {
    let text = everything();
    let source = Source { name: "x", text: &text, format: Format::Toml };
    let report = Report::new(source.name, source.text);
    let document = crate::read_tree(&source, &report).unwrap();
    read_model(&document, &report);
    let asked: Keys = report
        .asked
        .borrow()
        .iter()
        .map(|(section, key)| ((*section).to_owned(), (*key).to_owned()))
        .collect();
    assert!(!report.has_errors(), "{}", report.into_problems());
    assert_eq!(asked, table_keys());
}

#[test]
fn the_schema_has_every_key() {
    let schema = schema();
    let mut found = Keys::new();
    let mut add = |name: &str, object: &Value| {
        assert_eq!(object["additionalProperties"], Value::Bool(false), "{name}");
        for (key, property) in object["properties"].as_object().unwrap() {
            assert!(property["description"].as_str().is_some_and(|it| !it.is_empty()), "{key}");
            found.insert((name.to_owned(), key.clone()));
        }
    };
    add(ROOT.name, &schema);
    for (name, object) in schema["$defs"].as_object().unwrap() {
        add(name, object);
    }
    assert_eq!(found, table_keys());
}

#[test]
fn every_link_in_the_schema_leads_somewhere() {
    fn links(value: &Value, list: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                list.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|value| links(value, list));
            }
            Value::Array(items) => items.iter().for_each(|item| links(item, list)),
            _ => {}
        }
    }
    let schema = schema();
    let mut list = Vec::new();
    links(&schema, &mut list);
    assert!(!list.is_empty());
    for link in list {
        let name = link.strip_prefix("#/$defs/").unwrap();
        assert!(schema["$defs"].get(name).is_some(), "{link}");
    }
}

#[test]
fn the_reference_has_every_key() {
    let text = reference();
    let mut found = Keys::new();
    let mut section = String::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading.trim_matches('`').replace("Top level", ROOT.name);
        }
        if let Some((key, rest)) = line.strip_prefix("| `").and_then(|row| row.split_once("` | ")) {
            assert_eq!(rest.matches(" | ").count(), 2, "{line}");
            found.insert((section.clone(), key.to_owned()));
        }
    }
    assert_eq!(found, table_keys());
}

#[test]
fn the_example_of_the_reference_is_good() {
    let text = reference();
    let (_, rest) = text.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let model = toml(example).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(model.warnings, []);
    assert_eq!((model.listeners.len(), model.upstreams.len(), model.routes.len()), (2, 1, 4));
}

#[test]
fn every_default_is_a_value_of_its_key() {
    for section in ROOT.family() {
        for key in section.keys {
            let Preset::Value(text) = key.preset else { continue };
            let place = format!("{} {}", section.name, key.name);
            match &key.kind {
                Kind::Integer { min, max, word } => {
                    let number = text.parse().ok().filter(|it| (*min..=*max).contains(it));
                    assert!(number.is_some() || *word == Some(text), "{place}");
                }
                Kind::Size { min, max, word } => {
                    let size = parse_size(text).ok().filter(|it| (*min..=*max).contains(it));
                    assert!(size.is_some() || *word == Some(text), "{place}");
                }
                Kind::Duration { min, max } => {
                    assert!((*min..=*max).contains(&parse_duration(text).unwrap()), "{place}");
                }
                Kind::Word(words) => assert!(words.contains(&text), "{place}"),
                _ => {}
            }
        }
    }
}

/// What the schema promises to editors, checked by the parts of it we use.
#[test]
fn the_schema_accepts_the_example() {
    let source = Source { name: "x", text: crate::reference::EXAMPLE, format: Format::Toml };
    let document = crate::redacted(&source).unwrap();
    let schema = schema();
    assert_eq!(faults(&document, &schema, &schema), Vec::<String>::new());
    let wrong = serde_json::json!({ "listener": [{ "adress": ":1" }], "workers": "x" });
    assert_eq!(faults(&wrong, &schema, &schema).len(), 3);
}

/// The faults of a value under the keywords our schema has.
fn faults(value: &Value, schema: &Value, root: &Value) -> Vec<String> {
    let mut list = Vec::new();
    if let Some(link) = schema["$ref"].as_str() {
        let name = link.strip_prefix("#/$defs/").unwrap();
        list.extend(faults(value, &root["$defs"][name], root));
    }
    if let Some(choices) = schema["anyOf"].as_array()
        && !choices.iter().any(|choice| faults(value, choice, root).is_empty())
    {
        list.push(format!("{value} is none of {choices:?}"));
    }
    let kind = match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "boolean",
        _ => "integer",
    };
    if schema["type"].as_str().is_some_and(|expected| expected != kind) {
        list.push(format!("{value} is no {}", schema["type"]));
    }
    if let (Some(pattern), Some(text)) = (schema["pattern"].as_str(), value.as_str())
        && !regex::Regex::new(pattern).unwrap().is_match(text)
    {
        list.push(format!("{text} does not match {pattern}"));
    }
    if let Some(words) = schema["enum"].as_array().filter(|words| !words.contains(value)) {
        list.push(format!("{value} is not in {words:?}"));
    }
    for item in value.as_array().into_iter().flatten().filter(|_| schema["items"].is_object()) {
        list.extend(faults(item, &schema["items"], root));
    }
    let required = schema["required"].as_array().into_iter().flatten();
    for name in required.filter_map(Value::as_str).filter(|_| value.is_object()) {
        if value.get(name).is_none() {
            list.push(format!("{name} is missing"));
        }
    }
    for (key, item) in value.as_object().into_iter().flatten() {
        match (schema["properties"].get(key), &schema["additionalProperties"]) {
            (Some(property), _) => list.extend(faults(item, property, root)),
            (None, Value::Bool(false)) => list.push(format!("{key} is unknown")),
            (None, Value::Object(_)) => {
                list.extend(faults(item, &schema["additionalProperties"], root));
            }
            _ => {}
        }
    }
    list
}

#[test]
fn every_unknown_key_is_refused_everywhere() {
    let rows = [
        "zzzzzzz = 1",
        "admin.zzzzzzz = 1",
        "metrics.zzzzzzz = 1",
        "log.zzzzzzz = 1",
        "resolver.zzzzzzz = 1",
        "overload.zzzzzzz = 1",
        "overload.concurrency = { limit = 1, zzzzzzz = 1 }",
        "overload.concurrency.adaptive.zzzzzzz = 1",
        "listener = [{ address = ':1', zzzzzzz = 1 }]",
        "listener = [{ address = ':1', limits.zzzzzzz = 1 }]",
        "listener = [{ address = ':1', timeout.zzzzzzz = 1 }]",
        "listener = [{ address = ':1', path_rules.zzzzzzz = 1 }]",
        "route = [{ health = true, path_rules.zzzzzzz = 1 }]",
        "listener = [{ address = ':1', http2.zzzzzzz = 1 }]",
        "listener = [{ address = ':1', tls = { folder = 'd', zzzzzzz = 1 } }]",
        "listener = [{ address = ':1', tls.certificates = [{ cert = 'c', zzzzzzz = 1 }] }]",
        "listener = [{ address = ':1', tls = { folder = 'd', client = { ca = 'c', zzzzzzz = 1 } } }]",
        "listener = [{ address = ':1', tls = { folder = 'd', client = { ca = 'c', headers.zzzzzzz = 1 } } }]",
        "upstream.a = { servers = 'h:1', zzzzzzz = 1 }",
        "upstream.a = { servers = [{ address = 'h:1', zzzzzzz = 1 }] }",
        "upstream.a = { servers = 'h:1', hash.zzzzzzz = 1 }",
        "upstream.a = { servers = 'h:1', sticky.zzzzzzz = 1 }",
        "upstream.a = { servers = 'h:1', limit.zzzzzzz = 1 }",
        "upstream.a = { servers = 'h:1', keepalive.zzzzzzz = 1 }",
        "upstream.a = { servers = 'h:1', timeout.zzzzzzz = 1 }",
        "upstream.a = { servers = 'h:1', retry.zzzzzzz = 1 }",
        "upstream.a = { servers = 'h:1', retry.budget.zzzzzzz = 1 }",
        "upstream.a = { servers = 'h:1', health = { path = '/', zzzzzzz = 1 } }",
        "upstream.a = { servers = 'h:1', ejection.zzzzzzz = 1 }",
        "upstream.a = { servers = 'h:1', breaker.zzzzzzz = 1 }",
        "upstream.a = { servers = 'h:1', tls.zzzzzzz = 1 }",
        "upstream.a = { servers = 'h:1', protocol = 'http2', http2.zzzzzzz = 1 }",
        "upstream.a = { servers = 'h:1', retry.hedge.zzzzzzz = 1 }",
        "listener = [{ address = ':1', proxy_protocol = { from = '::1', zzzzzzz = 1 } }]",
        "listener = [{ address = ':1', lua = { script = 'x = 1', zzzzzzz = 1 } }]",
        "store.a = { zzzzzzz = 1 }",
        "route = [{ proxy = 'h:1', mirror.zzzzzzz = 1 }]",
        "route = [{ proxy = 'h:1', grpc.zzzzzzz = 1 }]",
        "route = [{ health = true, zzzzzzz = 1 }]",
        "route = [{ respond.zzzzzzz = 1 }]",
        "route = [{ files = { root = 'r', zzzzzzz = 1 } }]",
        "route = [{ lua = { script = 'x = 1', zzzzzzz = 1 } }]",
        "route = [{ files = { root = 'r', cache.zzzzzzz = 1 } }]",
        "route = [{ redirect = { to = '/', zzzzzzz = 1 } }]",
        "filter.a = { guard = {}, zzzzzzz = 1 }",
    ];
    let filters = FILTERS.iter().flat_map(|row| row.wrong);
    let filters = filters.map(|options| format!("filter.a = {{ {options} }}"));
    let rows: Vec<String> = rows.into_iter().map(str::to_owned).chain(filters).collect();
    assert_eq!(rows.len(), ROOT.family().len());
    for text in &rows {
        let problems = toml(text).unwrap_err();
        let found = |it: &&crate::Problem| it.message == "unknown key `zzzzzzz`";
        let problem = problems.list.iter().find(found).unwrap_or_else(|| panic!("{problems}"));
        assert!(problem.help.as_deref().unwrap().contains("known keys: "), "{problem}");
    }
    assert!(yaml("zzzzzzz: 1").is_err());
    assert_eq!(environment("NOPE"), None);
}
