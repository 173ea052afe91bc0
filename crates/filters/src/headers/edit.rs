//! Edits of header fields, one after the other.

use std::cell::RefCell;

use regex::bytes::{Regex, RegexBuilder};
use sluice_expression::{Template, clean_field_value};
use sluice_filter::{RequestContext, ResponseContext, View};
use sluice_message::{
    FieldId, FieldLine, FieldName, Fields, SpaceExhausted, is_plain_name, may_begin_with,
};

/// Something that happens to fields. Names are in lower case and valid, and none of them is about framing.
#[derive(Clone, Debug)]
pub enum HeaderEdit {
    /// Fields of these names are taken out.
    Remove(HeaderNames),
    /// Fields of the first name get the second.
    Rename(Box<str>, Box<str>),
    /// Values are written.
    Write(Change, Box<str>, Vec<Template>),
}

/// Names of fields.
#[derive(Clone, Debug)]
pub enum HeaderNames {
    /// This one.
    Exact(Box<str>),
    /// Those that begin so.
    Prefix(Box<str>),
    /// Those in which this is found, in lower case.
    Regex(Regex),
}

impl HeaderNames {
    /// Those in which this expression is found, in lower case.
    ///
    /// # Errors
    /// Why it is none.
    pub fn of_expression(expression: &str) -> Result<Self, String> {
        let regex = RegexBuilder::new(expression).unicode(false).build();
        regex.map(Self::Regex).map_err(|error| error.to_string())
    }
}

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Instead of those that are there.
    Set,
    /// Beside those that are there.
    Add,
    /// If there are none.
    AddIfAbsent,
    /// Instead of those that are there, if there are any.
    ReplaceIfPresent,
}

/// There is no room for what is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault;

impl From<SpaceExhausted> for Fault {
    fn from(_: SpaceExhausted) -> Self {
        Self
    }
}

/// A head that is edited while templates read it.
pub(super) trait Edited {
    fn view(&self) -> View<'_>;
    fn fields(&mut self) -> &mut Fields;
}

impl Edited for RequestContext<'_> {
    fn view(&self) -> View<'_> {
        self.view()
    }
    fn fields(&mut self) -> &mut Fields {
        &mut self.request.fields
    }
}

impl Edited for ResponseContext<'_> {
    fn view(&self) -> View<'_> {
        self.view()
    }
    fn fields(&mut self) -> &mut Fields {
        &mut self.response.fields
    }
}

/// Values that are about to be written, in one piece.
#[derive(Debug, Default)]
struct Values {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

thread_local! {
    /// A request needs no memory of its own for values.
    static VALUES: RefCell<Values> = RefCell::default();
}

/// Edits in their order.
#[derive(Debug, Default)]
pub(super) struct Edits(Box<[Edit]>);

/// An edit, made ready.
#[derive(Debug)]
enum Edit {
    Remove(Names),
    Rename(FieldName, FieldName),
    /// One value that is always the same.
    WriteLine(Change, FieldName, FieldLine),
    Write(Change, FieldName, Box<[Value]>),
}

/// [`HeaderNames`], made ready.
#[derive(Clone, Debug)]
enum Names {
    Exact(FieldName),
    Prefix(Box<str>),
    Regex(Regex),
}

impl From<HeaderNames> for Names {
    fn from(names: HeaderNames) -> Self {
        match names {
            HeaderNames::Exact(name) => Self::Exact(FieldName::new(name.as_bytes())),
            HeaderNames::Prefix(prefix) => Self::Prefix(prefix),
            HeaderNames::Regex(regex) => Self::Regex(regex),
        }
    }
}

#[derive(Debug)]
enum Value {
    Constant(Box<[u8]>),
    Template(Template),
}

impl Edits {
    pub(super) fn new(edits: Vec<HeaderEdit>) -> Self {
        let made = |edit| match edit {
            HeaderEdit::Remove(names) => Edit::Remove(names.into()),
            HeaderEdit::Rename(old, new) => {
                Edit::Rename(FieldName::new(old.as_bytes()), FieldName::new(new.as_bytes()))
            }
            HeaderEdit::Write(change, name, templates) => {
                let name = FieldName::new(name.as_bytes());
                let values: Box<[Value]> = templates.into_iter().map(value).collect();
                match &*values {
                    [Value::Constant(text)] if !text.is_empty() => {
                        let line = FieldLine::new(&name, text);
                        Edit::WriteLine(change, name, line)
                    }
                    _ => Edit::Write(change, name, values),
                }
            }
        };
        Self(edits.into_iter().map(made).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Changes a head.
    pub(super) fn apply(&self, head: &mut impl Edited) -> Result<(), Fault> {
        for edit in &self.0 {
            match edit {
                // What is done most is done in line, and nothing else: it needs no room for the rest.
                Edit::Remove(Names::Exact(name)) => head.fields().remove_name(name),
                Edit::WriteLine(Change::Set, name, line) => {
                    let fields = head.fields();
                    fields.remove_name(name);
                    fields.push_ready(line)?;
                }
                other => other.apply(head)?,
            }
        }
        Ok(())
    }

    /// The edits for fields that are not there yet: values are those of now.
    pub(super) fn settled(&self, view: &View<'_>) -> Vec<Settled> {
        let settle = |edit: &Edit| match edit {
            Edit::Remove(names) => SettledEdit::Remove(names.clone()),
            Edit::Rename(old, new) => SettledEdit::Rename(old.clone(), new.clone()),
            Edit::WriteLine(change, name, line) => {
                SettledEdit::WriteLine(*change, name.clone(), line.clone())
            }
            Edit::Write(change, name, values) => {
                let mut made = Values::default();
                values.iter().for_each(|value| made.push(value, view));
                let texts = made.iter().map(<[u8]>::to_vec).collect();
                SettledEdit::Write(*change, name.clone(), texts)
            }
        };
        self.0.iter().map(settle).map(Settled).collect()
    }
}

impl Edit {
    #[inline(never)]
    fn apply(&self, head: &mut impl Edited) -> Result<(), Fault> {
        match self {
            Self::Remove(names) => remove(head.fields(), names),
            Self::Rename(old, new) => rename(head.fields(), old, new)?,
            Self::WriteLine(change, name, line) => {
                let fields = head.fields();
                if change.is_wanted(fields, name) {
                    change.make_room(fields, name);
                    fields.push_ready(line)?;
                }
            }
            Self::Write(change, name, values) => write(head, *change, name, values)?,
        }
        Ok(())
    }
}

/// An edit whose values are known.
#[derive(Debug)]
pub(super) struct Settled(SettledEdit);

#[derive(Debug)]
enum SettledEdit {
    Remove(Names),
    Rename(FieldName, FieldName),
    WriteLine(Change, FieldName, FieldLine),
    Write(Change, FieldName, Vec<Vec<u8>>),
}

impl Settled {
    pub(super) fn apply(&self, fields: &mut Fields) -> Result<(), Fault> {
        match &self.0 {
            SettledEdit::Remove(names) => remove(fields, names),
            SettledEdit::Rename(old, new) => rename(fields, old, new)?,
            SettledEdit::WriteLine(change, name, line) => {
                if change.is_wanted(fields, name) {
                    change.make_room(fields, name);
                    fields.push_ready(line)?;
                }
            }
            SettledEdit::Write(change, name, values) => {
                if change.is_wanted(fields, name) {
                    replace(fields, *change, name, values.iter().map(Vec::as_slice))?;
                }
            }
        }
        Ok(())
    }
}

fn value(template: Template) -> Value {
    match template.as_constant() {
        Some(text) => {
            let mut text = text.to_vec();
            clean_field_value(&mut text, 0);
            Value::Constant(text.into())
        }
        None => Value::Template(template),
    }
}

impl Values {
    fn push(&mut self, value: &Value, view: &View<'_>) {
        self.push_bytes(value, view);
        self.ends.push(self.bytes.len());
    }

    /// A value that is too long is none.
    #[inline]
    fn push_bytes(&mut self, value: &Value, view: &View<'_>) {
        match value {
            Value::Constant(text) => self.bytes.extend_from_slice(text),
            Value::Template(template) => {
                let _ = template.render_field_value(view, &mut self.bytes);
            }
        }
    }

    /// Empty ones are not there.
    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let values = starts.zip(&self.ends).filter_map(|(start, &end)| self.bytes.get(start..end));
        values.filter(|value| !value.is_empty())
    }
}

impl Change {
    // In line: nearly all are set or added, whatever is there.
    #[inline(always)]
    fn is_wanted(self, fields: &Fields, name: &FieldName) -> bool {
        match self {
            Self::Set | Self::Add => true,
            Self::AddIfAbsent => !name.is_read_in(fields),
            Self::ReplaceIfPresent => name.is_read_in(fields),
        }
    }

    /// Takes out what is written anew.
    #[inline]
    fn make_room(self, fields: &mut Fields, name: &FieldName) {
        if matches!(self, Self::Set | Self::ReplaceIfPresent) {
            fields.remove_name(name);
        }
    }
}

fn write(
    head: &mut impl Edited,
    change: Change,
    name: &FieldName,
    values: &[Value],
) -> Result<(), Fault> {
    if !change.is_wanted(head.fields(), name) {
        return Ok(());
    }
    VALUES.with_borrow_mut(|made| {
        made.bytes.clear();
        if let [value] = values {
            made.push_bytes(value, &head.view());
            let fields = head.fields();
            change.make_room(fields, name);
            if !made.bytes.is_empty() {
                fields.push_as(name, &made.bytes)?;
            }
            return Ok(());
        }
        made.ends.clear();
        let view = head.view();
        values.iter().for_each(|value| made.push(value, &view));
        replace(head.fields(), change, name, made.iter())
    })
}

fn replace<'v>(
    fields: &mut Fields,
    change: Change,
    name: &FieldName,
    values: impl Iterator<Item = &'v [u8]>,
) -> Result<(), Fault> {
    change.make_room(fields, name);
    for value in values {
        fields.push_as(name, value)?;
    }
    Ok(())
}

fn rename(fields: &mut Fields, old: &FieldName, new: &FieldName) -> Result<(), Fault> {
    let values: Vec<Vec<u8>> = old.values(fields).map(<[u8]>::to_vec).collect();
    if values.is_empty() {
        return Ok(());
    }
    fields.remove_name(old);
    fields.remove_name(new);
    for value in values {
        fields.push_as(new, &value)?;
    }
    Ok(())
}

fn remove(fields: &mut Fields, names: &Names) {
    match names {
        Names::Exact(name) => fields.remove_name(name),
        Names::Prefix(prefix) => {
            fields.remove_named(|have| may_begin_with(have, prefix.as_bytes()) && !is_kept(have))
        }
        Names::Regex(regex) => fields.remove_named(|have| !is_kept(have) && is_found(regex, have)),
    }
}

/// Whether the expression is found in a name, or in one that an origin may take it for.
fn is_found(regex: &Regex, name: &[u8]) -> bool {
    let lower = name.to_ascii_lowercase();
    let found = |stands_for: u8| {
        let letter = |byte: &u8| if byte.is_ascii_alphanumeric() { *byte } else { stands_for };
        regex.is_match(&lower.iter().map(letter).collect::<Vec<u8>>())
    };
    regex.is_match(&lower) || (!is_plain_name(name) && (found(b'-') || found(b'_')))
}

/// What says how a message is read, or where it goes, no pattern takes out.
fn is_kept(name: &[u8]) -> bool {
    let id = FieldId::of(name);
    id.is_hop_by_hop()
        || matches!(id, FieldId::Host | FieldId::ContentLength | FieldId::Trailer | FieldId::Date)
}
