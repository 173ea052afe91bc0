//! The page about the configuration, made from the sections.

use crate::duration::duration_text;
use crate::model::ROOT;
use crate::section::{Key, Kind, Preset, Section};
use crate::size::size_text;

/// The example the page opens with.
pub(crate) const EXAMPLE: &str = include_str!("example.toml");

const RULES: &str = r#"The same names are used in TOML and in YAML; a file that ends in `.yaml`, `.yml` or `.json` is read as
YAML, of which JSON is a part.

- A **duration** is a number and a unit: `"250ms"`, `"2s"`, `"5m"`, `"1h"`, `"1d"`, or several from the longest
  down: `"1m30s"`. A bare number is refused.
- A **size** is a number of bytes, `65536`, or one with a unit: `"64KiB"`, `"1MiB"`, `"1GiB"`, `"10KB"`, `"512B"`.
- `${NAME}` in a value is replaced by an environment variable, `${NAME:-default}` has a default for one that is
  not set or empty, and `$${` stands for the characters `${`. A variable may stand for a number, too.
- Where one text or a list is accepted, `"a"` and `["a"]` mean the same.
- An unknown key is an error. All problems are reported at once, each with its line."#;

/// The reference of the configuration as Markdown: a complete example, the rules, and a table for
/// each section.
pub fn reference() -> String {
    let mut out =
        format!("# Configuration\n\nA complete example:\n\n```toml\n{EXAMPLE}```\n\n{RULES}\n");
    for section in ROOT.family() {
        out.push_str(&format!("\n{}\n", heading(section)));
        out.push_str(&format!("\n{}\n\n", section.doc));
        out.push_str("| key | type | default | meaning |\n|---|---|---|---|\n");
        for key in section.keys {
            let row = [&format!("`{}`", key.name), &type_text(key), &default_text(key), key.doc];
            out.push_str(&format!("| {} |\n", row.map(escape).join(" | ")));
        }
    }
    out
}

fn heading(section: &Section) -> String {
    match section.name.starts_with('(') {
        true => "## Top level".to_owned(),
        false => format!("## `{}`", section.name),
    }
}

/// A bar would end the cell.
fn escape(text: &str) -> String {
    text.replace('|', "\\|")
}

fn default_text(key: &Key) -> String {
    match (&key.preset, &key.kind) {
        (Preset::Required, _) => "required".to_owned(),
        (Preset::Absent(meaning), _) => (*meaning).to_owned(),
        (Preset::Value(text), Kind::Integer { .. }) if text.parse::<u64>().is_ok() => {
            format!("`{text}`")
        }
        (Preset::Value(text), _) => format!("`\"{text}\"`"),
    }
}

fn type_text(key: &Key) -> String {
    match &key.kind {
        Kind::Flag => "`true` or `false`".to_owned(),
        Kind::Integer { min, max, word } => {
            with_word(range("whole number", (*min, *max), |number| number.to_string()), *word)
        }
        Kind::Size { min, max, word } => with_word(range("size", (*min, *max), size_text), *word),
        Kind::Duration { min, .. } if min.is_zero() => "duration".to_owned(),
        Kind::Duration { min, .. } => format!("duration, at least {}", duration_text(*min)),
        Kind::Text(noun) => (*noun).to_owned(),
        Kind::Texts(noun) => format!("{noun}, or a list of them"),
        Kind::Word(words) => {
            words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", ")
        }
        Kind::Table(section) => format!("table, see {}", link(section)),
        Kind::Tables(section) => format!("list of tables, see {}", link(section)),
        Kind::Named(section) => format!("tables by name, see {}", link(section)),
        Kind::Pairs(noun) => format!("table: name = {noun}"),
        Kind::PairLists(noun) => format!("table: name = {noun}, or a list of them"),
        Kind::Short(noun, section) => format!("{noun}, or table, see {}", link(section)),
        Kind::Shorts(noun, section) => format!("list of: {noun}, or table, see {}", link(section)),
    }
}

fn with_word(text: String, word: Option<&str>) -> String {
    match word {
        Some(word) => format!("{text}, or `\"{word}\"`"),
        None => text,
    }
}

fn range(noun: &str, (min, max): (u64, u64), text: impl Fn(u64) -> String) -> String {
    match (min, max) {
        (0, u64::MAX) => noun.to_owned(),
        (min, u64::MAX) => format!("{noun}, at least {}", text(min)),
        (min, max) => format!("{noun}, {} to {}", text(min), text(max)),
    }
}

/// Points to the heading of the section, as Markdown renderers name it: letters, digits, dashes.
fn link(section: &Section) -> String {
    let kept = section.name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    format!("[{}](#{})", section.name, kept.collect::<String>())
}
