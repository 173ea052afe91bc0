//! Reads the `variables` of a script.

use std::path::{Path, PathBuf};

use super::clock::{Layout, Zone};
use super::fields::{Fields, text};
use super::problem::{Report, Span};
use super::variable::{
    Added, Array, Brackets, Kind, Missing, Replace, Sequence, Variable, Variables,
};
use super::yaml::Node;

/// The most values an array or a bitmap may have: more would be a slip, and memory for every request.
const LARGEST: u64 = 10_000_000;

/// Reads the contents of a file that a variable names.
pub(crate) type ReadFile<'f> = &'f dyn Fn(&Path) -> std::io::Result<Vec<u8>>;

/// The variables of a list of definitions.
pub(crate) fn read(list: &[Node], files: ReadFile<'_>, report: &mut Report<'_>) -> Variables {
    let mut variables = Variables::default();
    for node in list {
        let Some(mut fields) = Fields::of(node, "a variable", report) else { continue };
        let name = fields.required("name", report);
        let kind = fields.required("type", report);
        let (Some((name, place)), Some(kind)) = (name, kind) else { continue };
        let replace = replacements(&mut fields, report);
        let mut reader = Reader { fields, files, variables: &variables, missing: None, report };
        let kind = reader.kind(kind, &replace);
        let missing = reader.missing.take();
        reader.fields.finish(reader.report);
        if name.is_empty() || name.contains("]]") || name.starts_with("env.") {
            report.error(place, format!("a variable cannot be called `{name}`"));
        }
        // A variable that could not be read is still known, so that its uses are no second problem.
        let kind = kind.unwrap_or(Kind::Uuid);
        if variables.add(name, Variable { kind, replace }) == Added::Again {
            let what = format!("a second variable is called `{name}`: the first one has no effect");
            report.warning(place, what);
        }
        variables.missing.extend(missing.map(|it| it.of(variables.last())));
    }
    variables
}

fn replacements(fields: &mut Fields<'_>, report: &mut Report<'_>) -> Replace {
    let mut pairs = Vec::new();
    for entry in fields.pairs("replace", report) {
        if entry.key.is_empty() {
            report.error(entry.span, "nothing cannot be replaced");
            continue;
        }
        let new = match entry.node.is_null() {
            true => Some(""),
            false => text(&entry.node, "replace", report),
        };
        if let Some(new) = new {
            pairs.push((entry.key.as_bytes().into(), new.as_bytes().into()));
        }
    }
    Replace(pairs)
}

const KINDS: &str = "file, list, sequence, sequence64, range, random_array, uuid, now_local, now_utc, \
    now_utc_lite, now_unix, now_unix_in_ms, now_unix_in_micro, now_unix_in_nano, now_with_format, \
    int_array_bitmap";

struct Reader<'t, 'r, 'a> {
    fields: Fields<'t>,
    files: ReadFile<'r>,
    /// Those defined before.
    variables: &'r Variables,
    /// A file that the variable needs and that is not there.
    missing: Option<Missing>,
    report: &'r mut Report<'a>,
}

impl Reader<'_, '_, '_> {
    fn kind(&mut self, (name, place): (&str, Span), replace: &Replace) -> Option<Kind> {
        const SECOND: u64 = 1_000_000_000;
        const PLAIN: &str = "2006-01-02 15:04:05.999999999 -0700 MST";
        Some(match name {
            "file" => self.pick(Lines::File, replace)?,
            "list" => self.pick(Lines::List, replace)?,
            "sequence" => Kind::Sequence(self.sequence(u64::from(u32::MAX))?),
            "sequence64" => Kind::Sequence(self.sequence(u64::MAX)?),
            "range" => self.range()?,
            "random_array" => Kind::Array(self.array()?),
            "uuid" => Kind::Uuid,
            "now_local" => Kind::Time(Layout::new(PLAIN), Zone::local()),
            "now_utc" => Kind::Time(Layout::new(PLAIN), Zone::Utc),
            "now_utc_lite" => Kind::Time(Layout::new("2006-01-02T15:04:05.000"), Zone::Utc),
            "now_unix" => Kind::Unix(SECOND),
            "now_unix_in_ms" => Kind::Unix(1_000_000),
            "now_unix_in_micro" => Kind::Unix(1_000),
            "now_unix_in_nano" => Kind::Unix(1),
            "now_with_format" => {
                let (layout, _) = self.fields.required("format", self.report)?;
                Kind::Time(Layout::new(layout), Zone::local())
            }
            "int_array_bitmap" => self.bitmap()?,
            other => {
                let message = format!("no variable is of the type `{other}`; there are {KINDS}");
                self.report.error(place, message);
                // Which fields it may have is as unknown.
                for field in ["path", "data", "from", "to", "size", "format"] {
                    self.fields.take(field);
                }
                return None;
            }
        })
    }

    fn pick(&mut self, lines: Lines, replace: &Replace) -> Option<Kind> {
        let mut values = Vec::new();
        if lines == Lines::File {
            let (path, place) = self.fields.required("path", self.report)?;
            match (self.files)(&PathBuf::from(path)) {
                Ok(bytes) => {
                    let text = String::from_utf8_lossy(&bytes);
                    values.extend(text.lines().map(|line| replace.applied(line)));
                }
                // Published scripts come without the files of variables that they do not use.
                Err(error) => {
                    self.missing =
                        Some(Missing::new(place, format!("{path} cannot be read: {error}")));
                    self.fields.take("data");
                    return None;
                }
            }
        }
        for node in self.fields.list("data", self.report) {
            values.push(replace.applied(text(node, "data", self.report)?));
        }
        if values.is_empty() {
            self.report.error(self.fields.span, "this variable has no value to pick");
            return None;
        }
        Some(Kind::Pick(values))
    }

    fn sequence(&mut self, most: u64) -> Option<Sequence> {
        let place = self.fields.span;
        let from = self.fields.count("from", self.report).unwrap_or(0);
        // 0 is what a script without a limit says as well.
        let to = self.fields.count("to", self.report).filter(|to| *to > 0).unwrap_or(most);
        if to > most {
            self.report.error(place, format!("`to` is at most {most} here"));
            return None;
        }
        if from >= to {
            self.report.error(place, "`from` is less than `to`");
            return None;
        }
        Some(Sequence::new(from, to))
    }

    fn range(&mut self) -> Option<Kind> {
        let from = self.fields.integer("from", self.report).unwrap_or(0);
        let to = self.fields.integer("to", self.report).unwrap_or(0);
        if from > to {
            self.report.error(self.fields.span, "`from` is not more than `to`");
            return None;
        }
        Some(Kind::Range(from, to))
    }

    fn size(&mut self) -> Option<usize> {
        let size = self.fields.count("size", self.report).unwrap_or(0);
        if size > LARGEST {
            self.report.error(self.fields.span, format!("`size` is at most {LARGEST}"));
            return None;
        }
        usize::try_from(size).ok()
    }

    fn array(&mut self) -> Option<Array> {
        let key = self.fields.required("variable_key", self.report);
        let kind = self.fields.text("variable_type", self.report);
        let mark = self.fields.text("string_bracket", self.report).map_or("\"", |(mark, _)| mark);
        let square = self.fields.flag_or("square_bracket", true, self.report);
        let size = self.size()?;
        let quote = match kind {
            Some(("number", _)) => "",
            Some(("string", _)) | None => mark,
            Some((other, place)) => {
                let message = format!("`variable_type` is number or string, not `{other}`");
                self.report.error(place, message);
                return None;
            }
        };
        let (key, place) = key?;
        let Some(source) = self.variables.used(key, self.report) else {
            let message = format!("no variable before this one is called `{key}`");
            self.report.error(place, message);
            return None;
        };
        let brackets = if square { Brackets::Square } else { Brackets::None };
        Some(Array { source, size, quote: quote.into(), brackets })
    }

    fn bitmap(&mut self) -> Option<Kind> {
        let from = self.fields.count("from", self.report).unwrap_or(0);
        let to = self.fields.count("to", self.report).unwrap_or(0);
        let size = self.size()?;
        match (u32::try_from(from), u32::try_from(to)) {
            (Ok(from), Ok(to)) if from <= to => Some(Kind::Bitmap { size, from, to }),
            _ => {
                let message = "`from` is not more than `to`, and both fit in 32 bits";
                self.report.error(self.fields.span, message);
                None
            }
        }
    }
}

/// Where a variable's values are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lines {
    File,
    List,
}
