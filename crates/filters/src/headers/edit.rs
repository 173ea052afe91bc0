//! Edits of header fields, one after the other.

use std::cell::RefCell;

use regex::bytes::{Regex, RegexBuilder};
use sluice_expression::{Template, clean_field_value};
use sluice_filter::{RequestContext, ResponseContext, View};
use sluice_message::{FieldId, Fields, SpaceExhausted};

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
    Remove(HeaderNames),
    Rename(Box<[u8]>, Box<[u8]>),
    Write(Change, Box<[u8]>, Box<[Value]>),
}

#[derive(Debug)]
enum Value {
    Constant(Box<[u8]>),
    Template(Template),
}

impl Edits {
    pub(super) fn new(edits: Vec<HeaderEdit>) -> Self {
        let made = |edit| match edit {
            HeaderEdit::Remove(names) => Edit::Remove(names),
            HeaderEdit::Rename(old, new) => {
                Edit::Rename(old.into_boxed_bytes(), new.into_boxed_bytes())
            }
            HeaderEdit::Write(change, name, templates) => {
                let values = templates.into_iter().map(value).collect();
                Edit::Write(change, name.into_boxed_bytes(), values)
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
                Edit::Remove(names) => remove(head.fields(), names),
                Edit::Rename(old, new) => rename(head.fields(), old, new)?,
                Edit::Write(change, name, values) => write(head, *change, name, values)?,
            }
        }
        Ok(())
    }

    /// The edits for fields that are not there yet: values are those of now.
    pub(super) fn settled(&self, view: &View<'_>) -> Vec<Settled> {
        let settle = |edit: &Edit| match edit {
            Edit::Remove(names) => Settled::Remove(names.clone()),
            Edit::Rename(old, new) => Settled::Rename(old.clone(), new.clone()),
            Edit::Write(change, name, values) => {
                let mut made = Values::default();
                values.iter().for_each(|value| made.push(value, view));
                let texts = made.iter().map(<[u8]>::to_vec).collect();
                Settled::Write(*change, name.clone(), texts)
            }
        };
        self.0.iter().map(settle).collect()
    }
}

/// An edit whose values are known.
#[derive(Debug)]
pub(super) enum Settled {
    Remove(HeaderNames),
    Rename(Box<[u8]>, Box<[u8]>),
    Write(Change, Box<[u8]>, Vec<Vec<u8>>),
}

impl Settled {
    pub(super) fn apply(&self, fields: &mut Fields) -> Result<(), Fault> {
        match self {
            Self::Remove(names) => remove(fields, names),
            Self::Rename(old, new) => rename(fields, old, new)?,
            Self::Write(change, name, values) => {
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
    /// A value that is too long is none.
    fn push(&mut self, value: &Value, view: &View<'_>) {
        match value {
            Value::Constant(text) => self.bytes.extend_from_slice(text),
            Value::Template(template) => {
                let _ = template.render_field_value(view, &mut self.bytes);
            }
        }
        self.ends.push(self.bytes.len());
    }

    /// Empty ones are not there.
    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let values = starts.zip(&self.ends).filter_map(|(start, &end)| self.bytes.get(start..end));
        values.filter(|value| !value.is_empty())
    }
}

impl Change {
    fn is_wanted(self, fields: &Fields, name: &[u8]) -> bool {
        match self {
            Self::Set | Self::Add => true,
            Self::AddIfAbsent => !is_present(fields, name),
            Self::ReplaceIfPresent => is_present(fields, name),
        }
    }
}

fn is_present(fields: &Fields, name: &[u8]) -> bool {
    fields.iter().any(|(have, _)| is_name(have, name))
}

/// Lengths differ for most.
fn is_name(have: &[u8], name: &[u8]) -> bool {
    have.len() == name.len() && have.eq_ignore_ascii_case(name)
}

fn write(
    head: &mut impl Edited,
    change: Change,
    name: &[u8],
    values: &[Value],
) -> Result<(), Fault> {
    if !change.is_wanted(head.fields(), name) {
        return Ok(());
    }
    if let [Value::Constant(text)] = values {
        let text = (!text.is_empty()).then_some(&**text);
        return replace(head.fields(), change, name, text.into_iter());
    }
    VALUES.with_borrow_mut(|made| {
        made.bytes.clear();
        made.ends.clear();
        let view = head.view();
        values.iter().for_each(|value| made.push(value, &view));
        replace(head.fields(), change, name, made.iter())
    })
}

fn replace<'v>(
    fields: &mut Fields,
    change: Change,
    name: &[u8],
    values: impl Iterator<Item = &'v [u8]>,
) -> Result<(), Fault> {
    if matches!(change, Change::Set | Change::ReplaceIfPresent) {
        fields.remove_named(|have| is_name(have, name));
    }
    for value in values {
        fields.push(name, value)?;
    }
    Ok(())
}

fn rename(fields: &mut Fields, old: &[u8], new: &[u8]) -> Result<(), Fault> {
    let values: Vec<Vec<u8>> = fields.values_of(old).map(<[u8]>::to_vec).collect();
    if values.is_empty() {
        return Ok(());
    }
    fields.remove_named(|have| is_name(have, old) || is_name(have, new));
    for value in values {
        fields.push(new, &value)?;
    }
    Ok(())
}

fn remove(fields: &mut Fields, names: &HeaderNames) {
    match names {
        HeaderNames::Exact(name) => {
            fields.remove_named(|have| is_name(have, name.as_bytes()));
        }
        HeaderNames::Prefix(prefix) => fields.remove_named(|have| {
            let start = have.get(..prefix.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
                && !is_kept(have)
        }),
        HeaderNames::Regex(regex) => {
            fields.remove_named(|have| !is_kept(have) && regex.is_match(&have.to_ascii_lowercase()))
        }
    }
}

/// What says how a message is read, or where it goes, no pattern takes out.
fn is_kept(name: &[u8]) -> bool {
    let id = FieldId::of(name);
    id.is_hop_by_hop()
        || matches!(id, FieldId::Host | FieldId::ContentLength | FieldId::Trailer | FieldId::Date)
}
