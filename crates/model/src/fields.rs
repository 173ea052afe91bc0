//! Reads one table of the document by its section: known keys, kinds, bounds, defaults.

use std::time::Duration;

use crate::duration::{duration_text, parse_duration};
use crate::nearest::{nearest, suggestion};
use crate::place::Span;
use crate::problem::Flaw;
use crate::report::Report;
use crate::section::{Key, Kind, Preset, Section};
use crate::size::{parse_size, size_text};
use crate::tree::{Entry, Node, Value};

/// A text of the document with its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phrase<'d> {
    pub(crate) text: &'d str,
    pub(crate) span: Span,
}

/// The entries of one table, read under the rules of its section.
pub(crate) struct Fields<'d, 'r> {
    section: &'static Section,
    entries: &'d [Entry],
    pub(crate) span: Span,
    pub(crate) report: &'r Report<'r>,
}

impl<'d, 'r> Fields<'d, 'r> {
    /// Opens a table: unknown and missing keys, and a value that is no table, become problems.
    /// `span` is shown for what is missing. Nothing written reads as a table without entries.
    pub(crate) fn open(
        node: Option<&'d Node>,
        span: Span,
        section: &'static Section,
        report: &'r Report<'r>,
    ) -> Self {
        let entries: &[Entry] = match node.map(|node| &node.value) {
            Some(Value::Table(entries)) => entries,
            None => &[],
            Some(Value::Faulty) => return Self { section, entries: &[], span, report },
            Some(_) => {
                refuse_kind(node, span, &format!("`{}` is a table", section.name), report);
                // What is missing in a table that is none would be said twice.
                return Self { section, entries: &[], span, report };
            }
        };
        for entry in entries.iter().filter(|entry| section.key(&entry.key).is_none()) {
            if report.is_full() {
                break;
            }
            let mut flaw = Flaw::new(format!("unknown key `{}`", entry.key.escape_debug()));
            flaw.help = suggestion(&entry.key, section.names(), "keys");
            report.error(entry.span, flaw);
        }
        let fields = Self { section, entries, span, report };
        if node.is_some() {
            fields.require();
        }
        fields
    }

    fn require(&self) {
        let required = self.section.keys.iter().filter(|key| {
            matches!(key.preset, Preset::Required)
                && !self.entries.iter().any(|entry| entry.key == key.name)
        });
        for key in required {
            let meant = |entry: &Entry| nearest(&entry.key, self.section.names()) == Some(key.name);
            if self.report.is_full() || self.entries.iter().any(meant) {
                // The mistyped key is reported as such already.
                continue;
            }
            let flaw = Flaw::new(format!("`{}` is missing", key.name))
                .with_help(format!("{}: {}", key.name, key.doc));
            self.report.error(self.span, flaw);
        }
    }

    /// The entry as typed, whatever stands behind the key.
    pub(crate) fn written(&self, name: &str) -> Option<&'d Entry> {
        self.key(name)?;
        self.entries.iter().find(|entry| entry.key == name)
    }

    /// The entry with a usable value. A key with nothing behind it is a problem and reads as not
    /// written.
    pub(crate) fn entry(&self, name: &str) -> Option<&'d Entry> {
        let entry = self.written(name)?;
        match entry.node.value {
            Value::Faulty => None,
            Value::Null => {
                let flaw = Flaw::new(format!("`{name}` has no value"))
                    .with_help("give it one, or remove the key");
                self.report.error(entry.span, flaw);
                None
            }
            _ => Some(entry),
        }
    }

    fn key(&self, name: &str) -> Option<&'static Key> {
        let key = self.section.key(name);
        debug_assert!(key.is_some(), "`{name}` is not in the section `{}`", self.section.name);
        #[cfg(test)]
        if let Some(key) = key {
            self.report.asked.borrow_mut().insert((self.section.name, key.name));
        }
        key
    }

    /// Whether the section has this key.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.section.key(name).is_some()
    }

    /// The table below a key.
    pub(crate) fn table(&self, name: &str) -> Fields<'d, 'r> {
        let entry = self.entry(name);
        let section = self.key(name).and_then(|key| key.kind.section()).unwrap_or(self.section);
        let span = entry.map_or(self.span, |entry| entry.span);
        Fields::open(entry.map(|entry| &entry.node), span, section, self.report)
    }

    /// The tables of a list.
    pub(crate) fn tables(&self, name: &str) -> Vec<Fields<'d, 'r>> {
        let Some((entry, section)) = self.entry(name).zip(self.section_of(name)) else {
            return Vec::new();
        };
        let Value::List(list) = &entry.node.value else {
            let message = format!("`{name}` is a list of tables, this is {}", entry.node.kind());
            let help = format!("write `[[{name}]]` in TOML, `- ` in front of each in YAML");
            self.report.error(entry.span, Flaw::new(message).with_help(help));
            return Vec::new();
        };
        let open = |node: &'d Node| Fields::open(Some(node), head(node), section, self.report);
        list.iter().map(open).collect()
    }

    /// The tables under names the user chose.
    pub(crate) fn named(&self, name: &str) -> Vec<(Phrase<'d>, Fields<'d, 'r>)> {
        let Some((entry, section)) = self.entry(name).zip(self.section_of(name)) else {
            return Vec::new();
        };
        let Value::Table(entries) = &entry.node.value else {
            let message = format!("`{name}` holds tables by name, this is {}", entry.node.kind());
            let help = format!("write `[{name}.some_name]` in TOML, a name and `:` in YAML");
            self.report.error(entry.span, Flaw::new(message).with_help(help));
            return Vec::new();
        };
        let open = |entry: &'d Entry| {
            let fields = Fields::open(Some(&entry.node), entry.span, section, self.report);
            (Phrase { text: &entry.key, span: entry.span }, fields)
        };
        entries.iter().map(open).collect()
    }

    fn section_of(&self, name: &str) -> Option<&'static Section> {
        self.key(name).and_then(|key| key.kind.section())
    }

    /// A text, as written.
    pub(crate) fn text(&self, name: &str) -> Option<Phrase<'d>> {
        phrase(&self.entry(name)?.node, name, self.report)
    }

    /// A text read by a parser of its own; the default where nothing usable is written.
    pub(crate) fn parsed<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, Flaw>,
    ) -> Option<T> {
        let written = self.text(name).and_then(|it| self.report.accept(it.span, parse(it.text)));
        written.or_else(|| parse(self.preset(name)?).ok())
    }

    /// One text or a list of them, each read by a parser of its own.
    pub(crate) fn list<T>(&self, name: &str, parse: impl Fn(&str) -> Result<T, Flaw>) -> Vec<T> {
        let read = |it: Phrase<'_>| self.report.accept(it.span, parse(it.text));
        self.phrases(name).into_iter().filter_map(read).collect()
    }

    /// One text or a list of them, with their places.
    pub(crate) fn phrases(&self, name: &str) -> Vec<Phrase<'d>> {
        self.entry(name).map(|entry| phrases(&entry.node, name, self.report)).unwrap_or_default()
    }

    /// Names with one text or several, in the order of the text.
    pub(crate) fn pairs(&self, name: &str) -> Vec<(Phrase<'d>, Vec<Phrase<'d>>)> {
        let Some(entry) = self.entry(name) else { return Vec::new() };
        let Value::Table(entries) = &entry.node.value else {
            let expected = format!("`{name}` is a table of names and values");
            refuse_kind(Some(&entry.node), entry.span, &expected, self.report);
            return Vec::new();
        };
        let one = matches!(self.key(name), Some(Key { kind: Kind::Pairs(_), .. }));
        let read = |entry: &'d Entry| {
            let name = Phrase { text: &entry.key, span: entry.span };
            if one && matches!(entry.node.value, Value::List(_)) {
                let flaw = Flaw::new(format!("`{}` has one value, this is a list", entry.key))
                    .with_help("a regular expression stands for several: \"~ ^(a|b)$\"");
                self.report.error(entry.node.span, flaw);
                return (name, Vec::new());
            }
            (name, phrases(&entry.node, &entry.key, self.report))
        };
        entries.iter().map(read).collect()
    }

    /// true or false.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        let node = &self.entry(name)?.node;
        match &node.value {
            Value::Bool(flag) => Some(*flag),
            Value::Text(text) if text.expanded && text.value == "true" => Some(true),
            Value::Text(text) if text.expanded && text.value == "false" => Some(false),
            _ => {
                refuse_kind(
                    Some(node),
                    node.span,
                    &format!("`{name}` is true or false"),
                    self.report,
                );
                None
            }
        }
    }

    /// A whole number; nothing for the word of the key ("unlimited"), or when it has no default.
    pub(crate) fn integer(&self, name: &str) -> Option<u64> {
        let Kind::Integer { min, max, word } = &self.key(name)?.kind else { return None };
        let preset = || self.preset(name).and_then(|text| text.parse().ok());
        let Some(entry) = self.entry(name) else { return preset() };
        if self.is_word(entry, *word) {
            return None;
        }
        let bounds = Bounds { min: *min, max: *max, text: |number| number.to_string() };
        let number = match &entry.node.value {
            Value::Integer(number) => {
                self.bounded(name, entry, u64::try_from(*number).ok(), &bounds)
            }
            Value::Text(text) if text.expanded && text.value.parse::<i128>().is_ok() => {
                self.bounded(name, entry, text.value.parse().ok(), &bounds)
            }
            _ => {
                let expected = match word {
                    Some(word) => format!("`{name}` is a whole number or \"{word}\""),
                    None => format!("`{name}` is a whole number"),
                };
                refuse_kind(Some(&entry.node), entry.node.span, &expected, self.report);
                None
            }
        };
        number.or_else(preset)
    }

    /// A number of bytes; nothing for the word of the key ("off"), or when it has no default.
    pub(crate) fn size(&self, name: &str) -> Option<u64> {
        let Kind::Size { min, max, word } = &self.key(name)?.kind else { return None };
        let preset = || self.preset(name).and_then(|text| parse_size(text).ok());
        let Some(entry) = self.entry(name) else { return preset() };
        let bounds = Bounds { min: *min, max: *max, text: size_text };
        if self.is_word(entry, *word) {
            return None;
        }
        let size = match &entry.node.value {
            Value::Integer(number) => {
                self.bounded(name, entry, u64::try_from(*number).ok(), &bounds)
            }
            Value::Text(text) => {
                let size = self.report.accept(entry.node.span, parse_size(&text.value));
                size.and_then(|size| self.bounded(name, entry, Some(size), &bounds))
            }
            _ => {
                let expected = format!("`{name}` is a size like \"64KiB\"");
                refuse_kind(Some(&entry.node), entry.node.span, &expected, self.report);
                None
            }
        };
        size.or_else(preset)
    }

    /// A length of time; the default where nothing usable is written.
    pub(crate) fn duration(&self, name: &str) -> Duration {
        let Some(Key { kind: Kind::Duration { min, max }, .. }) = self.key(name) else {
            return Duration::ZERO;
        };
        let preset = || self.preset(name).and_then(|text| parse_duration(text).ok());
        let written = self.entry(name).and_then(|entry| self.written_duration(name, entry));
        let Some((duration, span)) = written else { return preset().unwrap_or_default() };
        if (*min..=*max).contains(&duration) {
            return duration;
        }
        let message = format!(
            "`{name}` must be from {} to {}, not {}",
            duration_text(*min),
            duration_text(*max),
            duration_text(duration)
        );
        self.report.error(span, Flaw::new(message));
        preset().unwrap_or_default()
    }

    fn written_duration(&self, name: &str, entry: &Entry) -> Option<(Duration, Span)> {
        let span = entry.node.span;
        match &entry.node.value {
            Value::Text(text) => {
                Some((self.report.accept(span, parse_duration(&text.value))?, span))
            }
            Value::Integer(number) => {
                let flaw = Flaw::new(format!("the duration `{name}` has no unit")).with_help(
                    format!("write \"{number}s\" for seconds, \"{number}ms\" for milliseconds"),
                );
                self.report.error(span, flaw);
                None
            }
            _ => {
                let expected = format!("`{name}` is a duration like \"30s\"");
                refuse_kind(Some(&entry.node), span, &expected, self.report);
                None
            }
        }
    }

    /// One of the words of the key, with its position among them.
    pub(crate) fn word(&self, name: &str) -> Option<&'static str> {
        let Kind::Word(words) = self.key(name)?.kind else { return None };
        let find = |text: &str| words.iter().copied().find(|word| *word == text);
        let written = self.text(name).and_then(|it| {
            let mut flaw = Flaw::new(format!("`{name}` cannot be \"{}\"", it.text));
            flaw.help = suggestion(it.text, words.iter().copied(), "words");
            self.report.accept(it.span, find(it.text).ok_or(flaw))
        });
        written.or_else(|| find(self.preset(name)?))
    }

    fn is_word(&self, entry: &Entry, word: Option<&str>) -> bool {
        matches!((&entry.node.value, word), (Value::Text(text), Some(word)) if text.value == word)
    }

    fn preset(&self, name: &str) -> Option<&'static str> {
        match self.key(name)?.preset {
            Preset::Value(text) => Some(text),
            Preset::Required | Preset::Absent(_) => None,
        }
    }

    fn bounded(
        &self,
        name: &str,
        entry: &Entry,
        number: Option<u64>,
        bounds: &Bounds,
    ) -> Option<u64> {
        let fits = number.filter(|number| (bounds.min..=bounds.max).contains(number));
        if fits.is_none() {
            let range =
                format!("from {} to {}", (bounds.text)(bounds.min), (bounds.text)(bounds.max));
            self.report.error(entry.node.span, Flaw::new(format!("`{name}` must be {range}")));
        }
        fits
    }
}

/// The bounds of a number, and how such a number is written.
struct Bounds {
    min: u64,
    max: u64,
    text: fn(u64) -> String,
}

/// Where a list item starts: its first line says enough, a caret under a whole table does not.
fn head(node: &Node) -> Span {
    match &node.value {
        Value::Table(entries)
            if entries.first().is_some_and(|it| it.span.start > node.span.end) =>
        {
            node.span
        }
        Value::Table(entries) => entries.first().map_or(node.span, |entry| entry.span),
        _ => node.span,
    }
}

fn refuse_kind(node: Option<&Node>, span: Span, expected: &str, report: &Report<'_>) {
    let kind = node.map_or("nothing", Node::kind);
    report.error(span, Flaw::new(format!("{expected}, this is {kind}")));
}

fn phrase<'d>(node: &'d Node, name: &str, report: &Report<'_>) -> Option<Phrase<'d>> {
    match &node.value {
        Value::Text(text) => Some(Phrase { text: &text.value, span: node.span }),
        Value::Bool(_) | Value::Integer(_) | Value::Float(_) => {
            let typed = report.lines().slice(node.span);
            let flaw = Flaw::new(format!("`{name}` is a text, this is {}", node.kind()))
                .with_help(format!("write it in quotes: \"{typed}\""));
            report.error(node.span, flaw);
            None
        }
        Value::Faulty => None,
        _ => {
            refuse_kind(Some(node), node.span, &format!("`{name}` is a text"), report);
            None
        }
    }
}

fn phrases<'d>(node: &'d Node, name: &str, report: &Report<'_>) -> Vec<Phrase<'d>> {
    match &node.value {
        Value::List(list) => list.iter().filter_map(|item| phrase(item, name, report)).collect(),
        _ => phrase(node, name, report).into_iter().collect(),
    }
}
