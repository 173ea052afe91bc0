//! The YAML that a script takes `env`, `runner` and `variables` from, as Loadgen does for its DSL.

use std::path::Path;

use super::fields::Fields;
use super::problem::{Problems, Report, Span};
use super::yaml::{self, Entry, Node, Value};
use super::{definitions, environment, plain};
use crate::script::runner::Runner;

/// The sections that are taken; all others are about requests.
const SECTIONS: [&str; 3] = ["env", "runner", "variables"];

/// Reads a base and finds out whether it is right by itself.
///
/// # Errors
/// Everything that is wrong with it, each with its place in it.
pub(super) fn read(
    (name, text): (&str, &str),
    environment: &dyn Fn(&str) -> Option<String>,
    files: &dyn Fn(&Path) -> std::io::Result<Vec<u8>>,
) -> Result<Vec<Entry>, Problems> {
    let mut report = Report::new(name, plain(text));
    let entries = yaml::read(&mut report).unwrap_or_default();
    let mut taken: Vec<Entry> =
        entries.into_iter().filter(|entry| SECTIONS.contains(&entry.key.as_str())).collect();
    let mut checked = taken.clone();
    environment::expand(&mut checked, environment, &mut report);
    let whole = Node { span: Span::default(), value: Value::Table(checked) };
    if let Some(mut fields) = Fields::of(&whole, "a script", &mut report) {
        fields.take("env");
        if let Some(node) = fields.take("runner") {
            Runner::read(node, &mut report);
        }
        definitions::read(fields.list("variables", &mut report), files, &mut report);
    }
    report.finish()?;
    // Whatever is said of them from now on is said about the script.
    taken.iter_mut().for_each(displace_entry);
    Ok(taken)
}

fn displace_entry(entry: &mut Entry) {
    entry.span = Span::default();
    displace(&mut entry.node);
}

fn displace(node: &mut Node) {
    node.span = Span::default();
    match &mut node.value {
        Value::Scalar(_) => {}
        Value::List(list) => list.iter_mut().for_each(displace),
        Value::Table(entries) => entries.iter_mut().for_each(displace_entry),
    }
}

/// A script with what its base says beside it; where both say something, the script counts.
pub(super) fn merged(base: Vec<Entry>, mut script: Vec<Entry>) -> Vec<Entry> {
    for entry in base {
        match script.iter_mut().find(|own| own.key == entry.key) {
            None => script.push(entry),
            Some(own) => match (&mut own.node.value, entry.node.value) {
                (Value::Table(own), Value::Table(theirs)) => {
                    let missing =
                        theirs.into_iter().filter(|it| own.iter().all(|own| own.key != it.key));
                    let missing: Vec<Entry> = missing.collect();
                    own.extend(missing);
                }
                // Later variables of a name count.
                (Value::List(own), Value::List(theirs)) => {
                    own.splice(0..0, theirs);
                }
                _ => {}
            },
        }
    }
    script
}
