//! Values as they are compiled: where a text, a number or an address comes from.

use sluice_message::FieldName;

use crate::function::Mapping;
use crate::moment::Hand;
use crate::share::Salt;
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
    RawTarget,
    Query,
    Host,
    Authority,
    RawPath,
    Search,
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
    Share(Box<Text>, Salt),
    Parsed(Box<Text>),
}

/// Where an address comes from.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    Client,
    Peer,
    Parsed(Box<Text>),
}
