//! The tables of the language: every key with its kind, default and meaning, written down once.
//! The readers, the schema and the reference all follow these tables.

use std::time::Duration;

/// One table of the document.
pub(crate) struct Section {
    /// Its name in the reference: the path to it, like "listener.limits".
    pub(crate) name: &'static str,
    /// What it is for, written for users.
    pub(crate) doc: &'static str,
    /// Its keys, in the order of the reference.
    pub(crate) keys: &'static [Key],
}

/// One key of a section.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) preset: Preset,
    /// What it means, written for users.
    pub(crate) doc: &'static str,
}

/// What may be written as the value of a key.
pub(crate) enum Kind {
    /// true or false.
    Flag,
    /// A whole number, or the word.
    Integer { min: u64, max: u64, word: Option<&'static str> },
    /// A number of bytes, or the word.
    Size { min: u64, max: u64, word: Option<&'static str> },
    /// A length of time.
    Duration { min: Duration, max: Duration },
    /// A text; the noun says what kind.
    Text(&'static str),
    /// One text or a list of them.
    Texts(&'static str),
    /// One of a few words.
    Word(&'static [&'static str]),
    /// A table.
    Table(&'static Section),
    /// A list of tables, `[[name]]` in TOML.
    Tables(&'static Section),
    /// A table of tables by name, `[key.name]` in TOML.
    Named(&'static Section),
    /// A table of texts under names the user chooses.
    Pairs(&'static str),
    /// The same, where a list gives a name several values.
    PairLists(&'static str),
    /// The short text, or the whole table.
    Short(&'static str, &'static Section),
    /// A list of short texts and tables.
    Shorts(&'static str, &'static Section),
}

impl Kind {
    /// The section below the key, if there is one.
    pub(crate) fn section(&self) -> Option<&'static Section> {
        match self {
            Self::Table(section)
            | Self::Tables(section)
            | Self::Named(section)
            | Self::Short(_, section)
            | Self::Shorts(_, section) => Some(section),
            _ => None,
        }
    }
}

/// What holds when the key is not written.
pub(crate) enum Preset {
    /// It must be written.
    Required,
    /// Nothing; the text says what that means.
    Absent(&'static str),
    /// This value, in the words of the language. The reader reads it as if the user had typed it.
    Value(&'static str),
}

impl Section {
    pub(crate) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        let keys: &'static [Key] = self.keys;
        keys.iter().map(|key| key.name)
    }

    /// This section and all below it, each followed by its own; one that several keys lead to stands
    /// after the first.
    pub(crate) fn family(&'static self) -> Vec<&'static Section> {
        let mut all = vec![self];
        for section in self.keys.iter().filter_map(|key| key.kind.section()) {
            for member in section.family() {
                if !all.iter().any(|known| known.name == member.name) {
                    all.push(member);
                }
            }
        }
        all
    }
}

/// The shortest time anything may be given: zero would refuse everybody.
pub(crate) const MOMENT: Duration = Duration::from_millis(1);
/// No time in the language is longer.
pub(crate) const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
