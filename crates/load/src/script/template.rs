//! Texts with `$[[name]]` in them, taken apart once and put together for every request.

use super::environment::{CLOSE, OPEN, place};
use super::problem::{Report, Span};
use super::text::{escape_target, tame_field};
use super::variable::{Maker, VariableId, Variables};

/// What a name in a template stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// A new value each time.
    Variable(VariableId),
    /// The value of this copy of the body.
    Line(usize),
    /// The value of this request.
    Once(usize),
    /// What was registered from an answer; before that, the variable of the same name.
    Registered(usize, Option<VariableId>),
}

/// The names a template may use.
#[derive(Debug)]
pub(crate) struct Scope<'s> {
    /// Variables of this copy of the body.
    pub(crate) line: &'s [String],
    /// Variables of this request.
    pub(crate) once: &'s [String],
    /// Names registered by any request.
    pub(crate) registered: &'s [String],
    pub(crate) variables: &'s Variables,
}

impl Scope<'_> {
    fn find(&self, name: &str, report: &mut Report<'_>) -> Option<Name> {
        let position = |list: &[String]| list.iter().position(|known| known == name);
        let variable = self.variables.used(name, report);
        position(self.line)
            .map(Name::Line)
            .or_else(|| position(self.once).map(Name::Once))
            .or_else(|| position(self.registered).map(|slot| Name::Registered(slot, variable)))
            .or_else(|| variable.map(Name::Variable))
    }

    fn known(&self) -> String {
        let lists = self.line.iter().chain(self.once).chain(self.registered);
        let mut names: Vec<&str> =
            lists.map(String::as_str).chain(self.variables.names()).collect();
        names.sort_unstable();
        names.dedup();
        match names.is_empty() {
            true => "this script has no variables".to_owned(),
            false => format!("known are {}", names.join(", ")),
        }
    }
}

/// Where a text goes, which decides what may not stand in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Target,
    Field,
    Body,
}

/// A text in pieces.
#[derive(Debug)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
}

#[derive(Debug)]
enum Piece {
    Text(Vec<u8>),
    Name(Name, Place),
}

/// The values of one worker that templates read.
#[derive(Debug)]
pub(crate) struct Values {
    pub(crate) line: Vec<Vec<u8>>,
    pub(crate) once: Vec<Vec<u8>>,
    /// `None` until an answer was registered under the name.
    pub(crate) registered: Vec<Option<Vec<u8>>>,
    pub(crate) maker: Maker,
    /// How often a registered value was wanted that was not there.
    pub(crate) missed: u64,
}

/// What stands for a value that is not there.
const MISSING: &[u8] = b"not_found";

impl Template {
    /// Takes a text apart. Unknown names and templates that do not end are reported at their place.
    pub(crate) fn new(
        (text, span): (&str, Span),
        place_of: Place,
        scope: &Scope<'_>,
        report: &mut Report<'_>,
    ) -> Self {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPEN) {
            push_text(&mut pieces, before, place_of);
            let Some((name, behind)) = after.split_once(CLOSE) else {
                let at = place(report.text(), span, OPEN);
                report.error(at, format!("this `{OPEN}` has no `{CLOSE}`"));
                rest = "";
                break;
            };
            match scope.find(name, report) {
                Some(name) => pieces.push(Piece::Name(name, place_of)),
                None => {
                    let at = place(report.text(), span, &format!("{OPEN}{name}{CLOSE}"));
                    let known = scope.known();
                    report.error(at, format!("no variable is called `{name}`; {known}"));
                }
            }
            rest = behind;
        }
        push_text(&mut pieces, rest, place_of);
        Self { pieces }
    }

    /// A text without names.
    pub(crate) fn literal(text: &str, place: Place) -> Self {
        let mut pieces = Vec::new();
        push_text(&mut pieces, text, place);
        Self { pieces }
    }

    /// Puts another text behind this one.
    pub(crate) fn append(&mut self, other: Self) {
        for piece in other.pieces {
            match (self.pieces.last_mut(), piece) {
                (Some(Piece::Text(last)), Piece::Text(text)) => last.extend_from_slice(&text),
                (_, piece) => self.pieces.push(piece),
            }
        }
    }

    /// Whether it is the same each time.
    pub(crate) fn is_constant(&self) -> bool {
        self.pieces.iter().all(|piece| matches!(piece, Piece::Text(_)))
    }

    /// Appends the text with the present values.
    pub(crate) fn write(&self, variables: &Variables, values: &mut Values, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            let start = out.len();
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Name(name, place) => {
                    values.write(*name, variables, out);
                    match place {
                        Place::Target => escape_target(out, start, &mut values.maker.scratch),
                        Place::Field => tame_field(out, start),
                        Place::Body => {}
                    }
                }
            }
        }
    }
}

impl Values {
    /// No values yet, and room for so many registered ones.
    pub(crate) fn new(registered: usize) -> Self {
        Self {
            line: Vec::new(),
            once: Vec::new(),
            registered: vec![None; registered],
            maker: Maker::new(),
            missed: 0,
        }
    }

    fn write(&mut self, name: Name, variables: &Variables, out: &mut Vec<u8>) {
        let found = match name {
            Name::Variable(id) => return variables.write(id, &mut self.maker, out),
            Name::Line(slot) => self.line.get(slot),
            Name::Once(slot) => self.once.get(slot),
            Name::Registered(slot, variable) => {
                match (self.registered.get(slot).and_then(Option::as_ref), variable) {
                    (None, Some(id)) => return variables.write(id, &mut self.maker, out),
                    (None, None) => {
                        self.missed = self.missed.saturating_add(1);
                        None
                    }
                    (found, _) => found,
                }
            }
        };
        out.extend_from_slice(found.map_or(MISSING, Vec::as_slice));
    }
}

fn push_text(pieces: &mut Vec<Piece>, text: &str, place: Place) {
    if text.is_empty() {
        return;
    }
    let mut bytes = text.as_bytes().to_vec();
    match place {
        Place::Target => escape_target(&mut bytes, 0, &mut Vec::new()),
        Place::Field => tame_field(&mut bytes, 0),
        Place::Body => {}
    }
    pieces.push(Piece::Text(bytes));
}
