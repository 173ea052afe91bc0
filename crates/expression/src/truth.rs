//! What holds or does not: the compiled form of a condition.

use memchr::memmem::Finder;
use regex::bytes::Regex;
use sluice_message::{AddressRanges, FieldName, Method};

use crate::operator::{Comparison, Relation};
use crate::subject::{Subject, Word};
use crate::value::{Address, Number, Text};

/// What holds or does not. What is asked most has forms of its own, which compare and do nothing else.
#[derive(Clone, Debug)]
pub(crate) enum Truth {
    Constant(bool),
    All(Box<[Truth]>),
    Any(Box<[Truth]>),
    Not(Box<Truth>),
    /// A method that has a value of its own.
    Method(Method),
    HasHeader(FieldName),
    Present(Text),
    Word(Word),
    Ruled(Text, Rule),
    Related(Text, Relation, Text),
    Compared(Number, Comparison, Number),
    OneOf(Number, Box<[u64]>),
    Within(Address, AddressRanges),
    SameAddress(Address, Address),
    Same(Box<[Truth; 2]>),
}

/// What a text is asked for that is known beforehand.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    Related(Relation, Box<[u8]>),
    Contains(Box<Finder<'static>>),
    Matches(Regex),
    /// Sorted.
    OneOf(Box<[Box<[u8]>]>),
}

impl Rule {
    fn holds(&self, text: &[u8]) -> bool {
        match self {
            Self::Related(relation, right) => relation.holds(text, right),
            Self::Contains(finder) => finder.find(text).is_some(),
            Self::Matches(regex) => regex.is_match(text),
            Self::OneOf(texts) => texts.binary_search_by(|known| (**known).cmp(text)).is_ok(),
        }
    }
}

impl Truth {
    /// Whether it holds for this subject.
    pub(crate) fn holds<S: Subject + ?Sized>(&self, subject: &S) -> bool {
        match self {
            Self::Constant(held) => *held,
            Self::All(truths) => truths.iter().all(|truth| truth.holds(subject)),
            Self::Any(truths) => truths.iter().any(|truth| truth.holds(subject)),
            Self::Not(truth) => !truth.holds(subject),
            Self::Method(method) => subject.request().method == *method,
            Self::HasHeader(name) => name.is_in(&subject.request().fields),
            Self::Present(text) => text.is_present(subject),
            Self::Word(word) => subject.word(*word).is_some_and(|text| *text == *b"true"),
            Self::Ruled(Text::Header(name), rule) => {
                name.any(&subject.request().fields, |value| rule.holds(value))
            }
            Self::Ruled(Text::Head(part), rule) => {
                part.read(subject.request()).is_some_and(|value| rule.holds(&value))
            }
            Self::Ruled(text, rule) => text.any(subject, &mut |value| rule.holds(value)),
            Self::Related(left, relation, right) => right
                .read(subject)
                .is_some_and(|right| left.any(subject, &mut |value| relation.holds(value, &right))),
            Self::Compared(left, comparison, right) => {
                let numbers = left.read(subject).zip(right.read(subject));
                numbers.is_some_and(|(left, right)| comparison.holds(left.cmp(&right)))
            }
            Self::OneOf(number, numbers) => {
                number.read(subject).is_some_and(|number| numbers.binary_search(&number).is_ok())
            }
            Self::Within(address, ranges) => {
                address.read(subject).is_some_and(|address| ranges.contain(address))
            }
            Self::SameAddress(left, right) => {
                let addresses = left.read(subject).zip(right.read(subject));
                addresses.is_some_and(|(left, right)| left == right)
            }
            Self::Same(truths) => {
                let [left, right] = &**truths;
                left.holds(subject) == right.holds(subject)
            }
        }
    }
}
