//! What one look at the head of a request tells: enough to see that most conditions do not hold.

use sluice_message::{Field, FieldId, FieldName, Method, RequestHead};

use crate::truth::Truth;
use crate::value::{Address, Number, Text};

/// A bit for each method, and for each name of a field one that it may share with others.
///
/// A condition knows the marks that every request has for which it holds. Where one of them is missing it does
/// not hold, and nothing of it has to be worked out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks(u64);

/// Bits of names; those of methods follow.
const NAMES: u32 = 54;

impl Marks {
    /// Of a request as it is now.
    #[must_use]
    #[inline]
    pub fn of(request: &RequestHead) -> Self {
        let names = request.fields.lines().iter().map(Self::of_line);
        names.fold(Self::of_method(request.method), Self::with)
    }

    /// Whether all of these are among them.
    #[must_use]
    #[inline]
    pub const fn has(self, wanted: Self) -> bool {
        wanted.0 & !self.0 == 0
    }

    /// Whether there are none: every request has these.
    #[must_use]
    #[inline]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    #[inline]
    const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn shared_with(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    #[inline]
    #[expect(clippy::as_conversions, reason = "the number of a variant")]
    const fn of_method(method: Method) -> Self {
        Self(1 << (NAMES + method as u32))
    }

    #[inline]
    const fn of_line(line: &Field) -> Self {
        Self::of_name(line.id, line.name.len())
    }

    /// The bytes of a name are not looked at: its meaning and its length are at hand.
    #[inline]
    #[expect(clippy::as_conversions, reason = "the number of a variant")]
    const fn of_name(id: FieldId, length: u32) -> Self {
        let mixed = (id as u32 * 29 + length * 7) & 0xff;
        Self(1 << ((mixed * NAMES) >> 8))
    }

    /// Those of every request for which this holds.
    pub(crate) fn wanted_by(truth: &Truth) -> Self {
        match truth {
            Truth::All(truths) => truths.iter().map(Self::wanted_by).fold(Self(0), Self::with),
            Truth::Any(truths) => {
                truths.iter().map(Self::wanted_by).reduce(Self::shared_with).unwrap_or_default()
            }
            Truth::Method(method) => Self::of_method(*method),
            Truth::HasHeader(name) => Self::for_name(name),
            Truth::Present(text) | Truth::Ruled(text, _) => Self::for_text(text),
            Truth::Related(left, _, right) => Self::for_text(left).with(Self::for_text(right)),
            Truth::Compared(left, _, right) => Self::for_number(left).with(Self::for_number(right)),
            Truth::OneOf(number, _) => Self::for_number(number),
            Truth::Within(address, _) => Self::for_address(address),
            Truth::SameAddress(left, right) => {
                Self::for_address(left).with(Self::for_address(right))
            }
            Truth::Constant(_) | Truth::Not(_) | Truth::Word(_) | Truth::Same(_) => Self(0),
        }
    }

    const fn for_name(name: &FieldName) -> Self {
        Self::of_name(name.id(), name.length())
    }

    fn for_text(text: &Text) -> Self {
        match text {
            Text::Header(name) => Self::for_name(name),
            Text::Cookie(_) => Self::of_name(FieldId::Cookie, COOKIE),
            Text::Number(number) => Self::for_number(number),
            Text::Address(address) => Self::for_address(address),
            Text::Mapped(_, text) => Self::for_text(text),
            Text::Default(texts) => {
                let [text, instead] = &**texts;
                Self::for_text(text).shared_with(Self::for_text(instead))
            }
            _ => Self(0),
        }
    }

    fn for_number(number: &Number) -> Self {
        match number {
            Number::Length(text) | Number::Share(text, _) | Number::Parsed(text) => {
                Self::for_text(text)
            }
            _ => Self(0),
        }
    }

    fn for_address(address: &Address) -> Self {
        match address {
            Address::Parsed(text) => Self::for_text(text),
            Address::Client | Address::Peer => Self(0),
        }
    }
}

/// The length of `cookie`.
const COOKIE: u32 = 6;
