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
}

impl FieldName {
    pub(crate) fn new(name: &str) -> Self {
        Self { id: FieldId::of(name.as_bytes()), name: name.as_bytes().into() }
    }

    /// Names that mean something were recognised when the head was decoded; of others the lengths are
    /// compared first.
    #[inline]
    fn is_of(&self, fields: &Fields, line: &Field) -> bool {
        line.id == self.id
            && (self.id != FieldId::Other || {
                let name = fields.slice(line.name);
                name.len() == self.name.len() && name.eq_ignore_ascii_case(&self.name)
            })
    }

    /// The values of all lines of this name.
    #[inline]
    pub(crate) fn values<'f>(&'f self, fields: &'f Fields) -> impl Iterator<Item = &'f [u8]> {
        fields
            .lines()
            .iter()
            .filter(move |line| self.is_of(fields, line))
            .map(|line| fields.slice(line.value))
    }

    #[inline]
    pub(crate) fn is_in(&self, fields: &Fields) -> bool {
        fields.lines().iter().any(|line| self.is_of(fields, line))
    }
}
