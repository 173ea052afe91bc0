//! Which answers are made smaller.

use sluice_coding::{Coding, Extent, Wish, codings_of};
use sluice_message::{BodyLength, FieldId, Fields, ResponseHead};

use super::{CompressOptions, Memo};
use crate::altered::has_directive;
use crate::media_range::{is_call, media_type};

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// Its content is put into this coding.
    Coded(Coding),
    /// The client wants it as it is; another client may not.
    Unwanted,
    /// Another site might learn something by its length.
    Guarded,
    /// It says that what the client has is good: it has to agree with what was said of that.
    Unchanged,
    /// It is in a coding already.
    Encoded,
    /// It is of another type.
    OtherType,
    /// It is too small to gain anything.
    Small,
    /// It must not be changed.
    NoTransform,
    /// It is a part of something that all clients get alike.
    Partial,
    /// It is a part of something that other clients may get in a coding.
    PartialOfVarying,
    /// It has no content.
    Empty,
}

/// What the meter tells apart, in the order of [`Judgement::outcome`].
pub(super) const OUTCOMES: &[&str] = &[
    "compressed",
    "unwanted",
    "cross_site",
    "unchanged",
    "encoded",
    "other_type",
    "small",
    "no_transform",
    "partial",
    "empty",
    "reused",
];

/// The place of what was compressed before.
pub(super) const REUSED: usize = 10;

impl Judgement {
    /// Its place among [`OUTCOMES`].
    pub(super) const fn outcome(self) -> usize {
        match self {
            Self::Coded(_) => 0,
            Self::Unwanted => 1,
            Self::Guarded => 2,
            Self::Unchanged => 3,
            Self::Encoded => 4,
            Self::OtherType => 5,
            Self::Small => 6,
            Self::NoTransform => 7,
            Self::Partial | Self::PartialOfVarying => 8,
            Self::Empty => 9,
        }
    }

    /// Whether a client that accepts other codings may get something else.
    pub(super) const fn may_differ(self) -> bool {
        matches!(self, Self::Coded(_) | Self::Unwanted | Self::Guarded | Self::PartialOfVarying)
    }
}

/// What becomes of an answer with this head.
pub(super) fn judge(options: &CompressOptions, memo: &Memo, head: &ResponseHead) -> Judgement {
    let fields = &head.fields;
    match head.status {
        304 => return Judgement::Unchanged,
        100..=199 | 204 | 205 => return Judgement::Empty,
        206 => return judge_part(options, memo, fields),
        _ => {}
    }
    if fields.values_of(b"content-range").next().is_some() {
        return judge_part(options, memo, fields);
    }
    if is_coded(fields) {
        return Judgement::Encoded;
    }
    let media = media_type(fields);
    // Messages of calls are compressed one by one, if at all: a whole of them would be none.
    if is_call(media) {
        return Judgement::OtherType;
    }
    if memo.untouched || has_directive(fields, b"no-transform") {
        return Judgement::NoTransform;
    }
    let length = length(head);
    if length == Some(0) {
        return Judgement::Empty;
    }
    // A client that has refused plain content gets none, whatever is gained.
    if let Wish::CodedOnly(coding) = memo.wish {
        return if memo.guarded { Judgement::Guarded } else { Judgement::Coded(coding) };
    }
    if !options.types.iter().any(|range| range.holds(media)) {
        return Judgement::OtherType;
    }
    if length.is_some_and(|length| length < options.minimum) {
        return Judgement::Small;
    }
    match memo.wish {
        Wish::Plain => Judgement::Unwanted,
        _ if memo.guarded => Judgement::Guarded,
        Wish::Coded(coding) | Wish::CodedOnly(coding) => Judgement::Coded(coding),
    }
}

/// A part says by `Vary` what the whole would (RFC 9110, 15.3.7).
fn judge_part(options: &CompressOptions, memo: &Memo, fields: &Fields) -> Judgement {
    let media = media_type(fields);
    let untouched = memo.untouched || has_directive(fields, b"no-transform");
    if is_coded(fields) || is_call(media) || untouched {
        return Judgement::Partial;
    }
    let small = whole_length(fields).is_some_and(|length| length < options.minimum);
    let named = !small && options.types.iter().any(|range| range.holds(media));
    // Of what type several parts are, only their content says.
    let several = media.eq_ignore_ascii_case(b"multipart/byteranges");
    if named || several { Judgement::PartialOfVarying } else { Judgement::Partial }
}

/// Whether the content is in a coding, or it cannot be told in which.
fn is_coded(fields: &Fields) -> bool {
    let codings = codings_of(fields.values_of(b"content-encoding"));
    codings.is_none_or(|codings| !codings.is_empty())
}

/// Bytes of the whole that something is a part of, if that is stated (RFC 9110, 14.4).
fn whole_length(fields: &Fields) -> Option<u64> {
    let range = std::str::from_utf8(fields.values_of(b"content-range").next()?).ok()?;
    range.rsplit_once('/')?.1.parse().ok()
}

/// Bytes of the content, if that is stated. Where no content comes, the field alone says so (RFC 9110, 8.6).
fn length(head: &ResponseHead) -> Option<u64> {
    let stated = head.fields.value(FieldId::ContentLength);
    match (stated.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok()), head.body) {
        (Some(length), _) | (None, BodyLength::Known(length)) => Some(length),
        _ => None,
    }
}

/// How much content there is going to be.
pub(super) fn extent(head: &ResponseHead) -> Extent {
    match head.body {
        BodyLength::Known(length) => Extent::Known(length),
        _ if media_type(&head.fields).eq_ignore_ascii_case(b"text/event-stream") => Extent::Endless,
        _ => Extent::Unknown,
    }
}
