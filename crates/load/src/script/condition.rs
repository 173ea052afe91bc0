//! Conditions on an answer: what `assert` says must hold.

use regex::Regex;
use serde_json::Value as Json;

use super::answer::{Answer, Fact, Part};
use super::fields::{meaning, text};
use super::problem::{Report, Span};
use super::yaml::{Entry, Node, Value};

/// What must hold of an answer. A part that is missing makes a condition false.
#[derive(Debug)]
pub(crate) struct Condition {
    test: Test,
    /// As a person would say it.
    words: String,
}

#[derive(Debug)]
enum Test {
    /// All are equal.
    Equals(Vec<(Part, Json)>),
    Contains(Vec<(Part, String)>),
    Prefix(Vec<(Part, String)>),
    Suffix(Vec<(Part, String)>),
    Matches(Vec<(Part, Regex)>),
    In(Vec<(Part, Vec<Json>)>),
    Range(Vec<(Part, Bound, f64)>),
    Exists(Vec<Part>),
    Length(Vec<(Part, u64)>),
    And(Vec<Condition>),
    Or(Vec<Condition>),
    Not(Box<Condition>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    Above,
    AtLeast,
    Below,
    AtMost,
}

impl Bound {
    fn named(name: &str) -> Option<Self> {
        match name {
            "gt" => Some(Self::Above),
            "gte" => Some(Self::AtLeast),
            "lt" => Some(Self::Below),
            "lte" => Some(Self::AtMost),
            _ => None,
        }
    }

    fn holds(self, number: f64, bound: f64) -> bool {
        match self {
            Self::Above => number > bound,
            Self::AtLeast => number >= bound,
            Self::Below => number < bound,
            Self::AtMost => number <= bound,
        }
    }
}

const OPERATORS: &str =
    "equals, contains, prefix, suffix, regexp, in, range, exists, has_fields, length, and, or, not";

impl Condition {
    /// Reads a condition; what is wrong with it is reported.
    pub(crate) fn read(
        node: &Node,
        registered: &[String],
        report: &mut Report<'_>,
    ) -> Option<Self> {
        let Value::Table(entries) = &node.value else {
            report.error(node.span, format!("a condition is a table with one of {OPERATORS}"));
            return None;
        };
        let [entry] = entries.as_slice() else {
            report.error(node.span, "a condition has exactly one operator; combine with `and`");
            return None;
        };
        let mut reader = Reader { registered, report };
        let test = reader.test(entry)?;
        let typed =
            reader.report.text().get(entry.span.start..entry.node.span.end).unwrap_or_default();
        // In the DSL each line begins with a mark.
        let words = typed.split_whitespace().filter(|word| *word != "#");
        let words = words.collect::<Vec<_>>().join(" ");
        Some(Self { test, words })
    }

    /// Whether it holds.
    pub(crate) fn holds(&self, answer: &Answer<'_>) -> bool {
        match &self.test {
            Test::Equals(pairs) => all(answer, pairs, |fact, value| equals(&fact, value)),
            Test::Contains(pairs) => {
                all(answer, pairs, |fact, text| any_text(&fact, |whole| whole.contains(text)))
            }
            Test::Prefix(pairs) => all(answer, pairs, |fact, text| fact.text().starts_with(text)),
            Test::Suffix(pairs) => all(answer, pairs, |fact, text| fact.text().ends_with(text)),
            Test::Matches(pairs) => {
                all(answer, pairs, |fact, regex| any_text(&fact, |whole| regex.is_match(whole)))
            }
            Test::In(pairs) => {
                all(answer, pairs, |fact, values| values.iter().any(|value| equals(&fact, value)))
            }
            Test::Range(bounds) => bounds.iter().all(|(part, bound, limit)| {
                answer
                    .fact(part)
                    .and_then(|fact| fact.number())
                    .is_some_and(|number| bound.holds(number, *limit))
            }),
            Test::Exists(parts) => parts.iter().all(|part| answer.fact(part).is_some()),
            Test::Length(pairs) => {
                all(answer, pairs, |fact, expected| length(&fact) == Some(*expected))
            }
            Test::And(list) => list.iter().all(|condition| condition.holds(answer)),
            Test::Or(list) => list.iter().any(|condition| condition.holds(answer)),
            Test::Not(condition) => !condition.holds(answer),
        }
    }

    /// The condition in the words of the script.
    pub(crate) fn words(&self) -> &str {
        &self.words
    }

    /// Whether some part of the answer that `wanted` accepts is looked at.
    pub(crate) fn asks(&self, wanted: &dyn Fn(&Part) -> bool) -> bool {
        match &self.test {
            Test::Equals(pairs) => pairs.iter().any(|(part, _)| wanted(part)),
            Test::Contains(pairs) | Test::Prefix(pairs) | Test::Suffix(pairs) => {
                pairs.iter().any(|(part, _)| wanted(part))
            }
            Test::Matches(pairs) => pairs.iter().any(|(part, _)| wanted(part)),
            Test::In(pairs) => pairs.iter().any(|(part, _)| wanted(part)),
            Test::Range(bounds) => bounds.iter().any(|(part, ..)| wanted(part)),
            Test::Exists(parts) => parts.iter().any(wanted),
            Test::Length(pairs) => pairs.iter().any(|(part, _)| wanted(part)),
            Test::And(list) | Test::Or(list) => list.iter().any(|inner| inner.asks(wanted)),
            Test::Not(inner) => inner.asks(wanted),
        }
    }
}

fn all<T>(answer: &Answer<'_>, pairs: &[(Part, T)], holds: impl Fn(Fact<'_>, &T) -> bool) -> bool {
    pairs.iter().all(|(part, value)| answer.fact(part).is_some_and(|fact| holds(fact, value)))
}

/// Values of different types are equal if they read the same: a field's `5` is a text.
fn equals(fact: &Fact<'_>, value: &Json) -> bool {
    match value {
        Json::Number(_) => fact.number().is_some_and(|number| Some(number) == value.as_f64()),
        Json::String(text) => fact.text() == text.as_str(),
        Json::Bool(flag) => match fact {
            Fact::Json(Json::Bool(fact)) => fact == flag,
            _ => fact.text() == if *flag { "true" } else { "false" },
        },
        Json::Null => matches!(fact, Fact::Json(Json::Null)),
        _ => matches!(fact, Fact::Json(json) if *json == value),
    }
}

/// Whether a text, or any text in a list of them, is accepted.
fn any_text(fact: &Fact<'_>, accepted: impl Fn(&str) -> bool) -> bool {
    match fact {
        Fact::Json(Json::Array(list)) => list.iter().filter_map(Json::as_str).any(accepted),
        _ => accepted(&fact.text()),
    }
}

fn length(fact: &Fact<'_>) -> Option<u64> {
    let length = match fact {
        Fact::Json(Json::Array(list)) => list.len(),
        Fact::Json(Json::Object(map)) => map.len(),
        Fact::Json(Json::String(text)) => text.len(),
        Fact::Text(text) => text.len(),
        Fact::Number(_) | Fact::Json(_) => return None,
    };
    u64::try_from(length).ok()
}

struct Reader<'r, 'a> {
    registered: &'r [String],
    report: &'r mut Report<'a>,
}

impl Reader<'_, '_> {
    fn test(&mut self, entry: &Entry) -> Option<Test> {
        let node = &entry.node;
        Some(match entry.key.as_str() {
            "equals" => Test::Equals(self.pairs(node, Self::scalar)?),
            "contains" => Test::Contains(self.pairs(node, Self::text)?),
            "prefix" => Test::Prefix(self.pairs(node, Self::text)?),
            "suffix" => Test::Suffix(self.pairs(node, Self::text)?),
            "regexp" => Test::Matches(self.pairs(node, Self::regex)?),
            "in" => Test::In(self.pairs(node, Self::scalars)?),
            "range" => Test::Range(self.bounds(node)?),
            "exists" | "has_fields" => Test::Exists(self.parts(node)?),
            "length" => Test::Length(self.pairs(node, Self::length)?),
            "and" => Test::And(self.conditions(node)?),
            "or" => Test::Or(self.conditions(node)?),
            "not" => Test::Not(Box::new(Condition::read(node, self.registered, self.report)?)),
            other => {
                let message = format!("no condition is called `{other}`; there are {OPERATORS}");
                self.report.error(entry.span, message);
                return None;
            }
        })
    }

    fn pairs<T>(
        &mut self,
        node: &Node,
        read: impl Fn(&mut Self, &Node) -> Option<T>,
    ) -> Option<Vec<(Part, T)>> {
        let entries = self.entries(node)?;
        let mut pairs = Vec::new();
        for entry in entries {
            let part = self.part(&entry.key, entry.span);
            let value = read(self, &entry.node);
            pairs.push((part?, value?));
        }
        Some(pairs)
    }

    fn entries<'n>(&mut self, node: &'n Node) -> Option<&'n [Entry]> {
        match &node.value {
            Value::Table(entries) if !entries.is_empty() => Some(entries),
            _ => {
                self.report.error(node.span, "pairs `_ctx.response.…: value` were expected here");
                None
            }
        }
    }

    fn part(&mut self, name: &str, span: Span) -> Option<Part> {
        let part = Part::named(name, self.registered);
        if part.is_none() {
            self.report.error(span, unknown_part(name));
        }
        part
    }

    fn scalar(&mut self, node: &Node) -> Option<Json> {
        match &node.value {
            Value::Scalar(scalar) => Some(meaning(scalar)),
            _ => {
                self.report.error(node.span, "a single value was expected here");
                None
            }
        }
    }

    fn scalars(&mut self, node: &Node) -> Option<Vec<Json>> {
        match &node.value {
            Value::List(list) => list.iter().map(|node| self.scalar(node)).collect(),
            _ => {
                self.report.error(node.span, "a list of values was expected here");
                None
            }
        }
    }

    fn text(&mut self, node: &Node) -> Option<String> {
        text(node, "the value", self.report).map(str::to_owned)
    }

    fn regex(&mut self, node: &Node) -> Option<Regex> {
        let pattern = self.text(node)?;
        Regex::new(&pattern)
            .map_err(|error| {
                let reason = error.to_string();
                let last = reason.lines().last().unwrap_or_default().trim().to_owned();
                self.report.error(node.span, format!("not a regular expression: {last}"));
            })
            .ok()
    }

    fn length(&mut self, node: &Node) -> Option<u64> {
        let number = self.number(node)?;
        match number >= 0.0 && number.fract() == 0.0 {
            true => number.to_string().parse().ok(),
            false => {
                self.report.error(node.span, "a length is a whole number, 0 or more");
                None
            }
        }
    }

    fn number(&mut self, node: &Node) -> Option<f64> {
        let number = self.scalar(node)?.as_f64();
        if number.is_none() {
            self.report.error(node.span, "a number was expected here");
        }
        number
    }

    /// `field: {gte: 1}` or `field.gte: 1`.
    fn bounds(&mut self, node: &Node) -> Option<Vec<(Part, Bound, f64)>> {
        let mut bounds = Vec::new();
        for entry in self.entries(node)? {
            if let Value::Table(inner) = &entry.node.value {
                let part = self.part(&entry.key, entry.span)?;
                for bound in inner {
                    let kind = self.bound(&bound.key, bound.span)?;
                    bounds.push((part.clone(), kind, self.number(&bound.node)?));
                }
                continue;
            }
            let (name, bound) = entry.key.rsplit_once('.').unwrap_or((&entry.key, ""));
            let kind = self.bound(bound, entry.span)?;
            bounds.push((self.part(name, entry.span)?, kind, self.number(&entry.node)?));
        }
        Some(bounds)
    }

    fn bound(&mut self, name: &str, span: Span) -> Option<Bound> {
        let bound = Bound::named(name);
        if bound.is_none() {
            self.report.error(span, "a range is told by gt, gte, lt or lte");
        }
        bound
    }

    fn parts(&mut self, node: &Node) -> Option<Vec<Part>> {
        let Value::List(list) = &node.value else {
            self.report.error(node.span, "a list of names was expected here");
            return None;
        };
        let mut parts = Vec::new();
        for node in list {
            let name = self.text(node)?;
            parts.push(self.part(&name, node.span)?);
        }
        Some(parts)
    }

    /// A list of conditions, or a table in which each operator is one.
    fn conditions(&mut self, node: &Node) -> Option<Vec<Condition>> {
        let list = match &node.value {
            Value::List(list) => list.clone(),
            Value::Table(entries) => entries.iter().map(alone).collect(),
            Value::Scalar(_) => {
                self.report.error(node.span, "a list of conditions was expected here");
                return None;
            }
        };
        if list.is_empty() {
            self.report.error(node.span, "at least one condition was expected here");
            return None;
        }
        let read: Vec<_> =
            list.iter().map(|node| Condition::read(node, self.registered, self.report)).collect();
        read.into_iter().collect()
    }
}

/// A table with this entry only.
fn alone(entry: &Entry) -> Node {
    let span = Span::new(entry.span.start, entry.node.span.end);
    Node { span, value: Value::Table(vec![entry.clone()]) }
}

/// The message for a name that is no part of an answer.
pub(crate) fn unknown_part(name: &str) -> String {
    format!(
        "`{name}` is nothing that is known of an answer; there are _ctx.response.status, .header.NAME, \
         .body, .body_length, .body_json.PATH, _ctx.elapsed, and what requests register"
    )
}

#[cfg(test)]
mod tests;
