//! Values as they are compiled: where a text, a number or an address comes from.

use sluice_message::{Field, FieldId, Fields};

use crate::function::Mapping;
use crate::moment::Hand;
use crate::subject::Word;

/// Where a text comes from.
#[derive(Clone, Debug)]
pub(crate) enum Text {
    Literal(Box<[u8]>),
    Head(HeadPart),
    Header(FieldName),
    ResponseHeader(FieldName),
    /// A name of the query, decoded.
    Parameter(Box<[u8]>),
    Cookie(Box<[u8]>),
    Capture(Box<str>),
    Claim(Box<[Box<str>]>),
    Note(Box<str>),
    Word(Word),
    Date,
    Number(Box<Number>),
    Address(Box<Address>),
    Mapped(Mapping, Box<Text>),
    /// The second where the first is absent.
    Default(Box<[Text; 2]>),
}

/// A text of the request's head that is no field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadPart {
    Method,
    Path,
    Target,
    Query,
    Host,
    Authority,
    Version,
}

/// Where a number comes from.
#[derive(Clone, Debug)]
pub(crate) enum Number {
    Literal(u64),
    Size,
    Port,
    Status,
    Time(Hand),
    Length(Box<Text>),
    Share(Box<Text>, Box<[u8]>),
    Parsed(Box<Text>),
}

/// Where an address comes from.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    Client,
    Peer,
    Parsed(Box<Text>),
}

/// The name of a field, made ready to be found.
#[derive(Clone, Debug)]
pub(crate) struct FieldName {
    id: FieldId,
    name: Box<[u8]>,
    /// Of the name, as lines have it.
    length: u32,
}

impl FieldName {
    pub(crate) fn new(name: &str) -> Self {
        let length = u32::try_from(name.len()).unwrap_or(u32::MAX);
        Self { id: FieldId::of(name.as_bytes()), name: name.as_bytes().into(), length }
    }

    /// Names that mean something were recognised when the head was decoded; of others the lengths are
    /// compared before any byte is looked at. A field of many lines costs a few instructions for each.
    #[inline(always)]
    fn is_of(&self, fields: &Fields, line: &Field) -> bool {
        line.id == self.id
            && (self.id != FieldId::Other
                || (line.name.len() == self.length && self.is(fields.slice(line.name))))
    }

    /// Called for few lines: kept apart, so that the loop over all of them stays small.
    #[inline(never)]
    fn is(&self, name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(&self.name)
    }

    /// The values of all lines of this name.
    #[inline]
    pub(crate) fn values<'f>(&'f self, fields: &'f Fields) -> impl Iterator<Item = &'f [u8]> {
        let lines = fields.lines().iter().filter(move |line| self.is_of(fields, line));
        lines.map(|line| fields.slice(line.value))
    }

    /// Whether there is a line of this name.
    pub(crate) fn is_in(&self, fields: &Fields) -> bool {
        fields.lines().iter().any(|line| self.is_of(fields, line))
    }

    /// Whether `holds` holds for the value of a line of this name.
    #[inline]
    pub(crate) fn any(&self, fields: &Fields, mut holds: impl FnMut(&[u8]) -> bool) -> bool {
        let mut lines = fields.lines().iter();
        lines.any(|line| self.is_of(fields, line) && holds(fields.slice(line.value)))
    }
}
