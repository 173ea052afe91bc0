//! Operators, and what they say of two values.

use std::cmp::Ordering;

use memchr::memmem;

/// Operators that are words, as users write them.
pub const WORDS: &[&str] =
    &["and", "or", "not", "in", "matches", "starts_with", "ends_with", "contains"];

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    pub(crate) const fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::Unequal => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }

    /// What holds of right and left if this holds of left and right.
    pub(crate) const fn turned(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            same => same,
        }
    }
}

/// What may hold of two texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Compared(Comparison),
    StartsWith,
    EndsWith,
    Contains,
}

impl Relation {
    #[inline]
    pub(crate) fn holds(self, left: &[u8], right: &[u8]) -> bool {
        match self {
            Self::Compared(Comparison::Equal) => left == right,
            Self::Compared(comparison) => comparison.holds(left.cmp(right)),
            Self::StartsWith => left.starts_with(right),
            Self::EndsWith => left.ends_with(right),
            Self::Contains => memmem::find(left, right).is_some(),
        }
    }
}

/// What stands between two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Related(Relation),
    In,
    Matches,
}

impl Operator {
    /// The operator that a word is.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        Some(match word {
            "in" => Self::In,
            "matches" => Self::Matches,
            "starts_with" => Self::Related(Relation::StartsWith),
            "ends_with" => Self::Related(Relation::EndsWith),
            "contains" => Self::Related(Relation::Contains),
            _ => return None,
        })
    }
}
