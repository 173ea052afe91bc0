//! The answer to a request from what is kept: whole, a part, or that nothing has changed.

use sluice_filter::Reply;
use sluice_message::{
    ByteRange, Fields, Method, Precondition, Ranges, SpaceExhausted, judge_novelty, parse_ranges,
    range_applies,
};

use crate::asked::{Asked, NOVELTY, RANGE};
use crate::content::Parts;
use crate::entry::{About, Entry};
use crate::told::{Told, tell, tell_age};

/// Lines that say in a 304 what the client's own copy says (RFC 9110, 15.4.5), and what the cache adds.
const CONFIRMED: &[&[u8]] = &[
    b"cache-control",
    b"content-location",
    b"date",
    b"etag",
    b"expires",
    b"vary",
    b"cache-status",
    b"cdn-cache-control",
];

/// Who asks, and what became of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    pub(crate) method: Method,
    /// The fields as the client sent them.
    pub(crate) fields: &'a Fields,
    pub(crate) asked: Asked,
    /// Nanoseconds of the clock that never goes back.
    pub(crate) now: u64,
    pub(crate) told: Told,
}

/// The answer from an entry.
#[inline]
pub(crate) fn answer(entry: &Entry, question: &Question<'_>) -> Result<Reply, SpaceExhausted> {
    if question.asked.has(NOVELTY) || question.asked.has(RANGE) {
        return choose(entry, question);
    }
    whole(entry, question)
}

#[inline]
fn whole(entry: &Entry, question: &Question<'_>) -> Result<Reply, SpaceExhausted> {
    let about = &entry.about;
    let mut reply = Reply::new(about.status);
    reply.fields = about.fields.with_room(128);
    finish(&mut reply.fields, about, question)?;
    reply.body = entry.body.body();
    Ok(reply)
}

fn finish(
    fields: &mut Fields,
    about: &About,
    question: &Question<'_>,
) -> Result<(), SpaceExhausted> {
    tell_age(fields, about.age(question.now))?;
    tell(fields, question.told)
}

/// Conditions first, then ranges (RFC 9110, 13.2.2).
#[cold]
fn choose(entry: &Entry, question: &Question<'_>) -> Result<Reply, SpaceExhausted> {
    let about = &entry.about;
    // They are about representations, which other statuses are not.
    if about.status != 200 {
        return whole(entry, question);
    }
    if is_known(about, question.fields) {
        let mut reply = Reply::new(304);
        reply.fields = confirmation(&about.fields)?;
        finish(&mut reply.fields, about, question)?;
        return Ok(reply);
    }
    // RFC 9110, 14.2: no other method knows ranges.
    if question.method != Method::Get || !question.asked.has(RANGE) {
        return whole(entry, question);
    }
    let mut values = question.fields.values_of(b"range");
    let value = values.next().unwrap_or_default();
    if values.next().is_some() || !range_applies(question.fields, &about.validators()) {
        return whole(entry, question);
    }
    // RFC 9110, 14.2: it may be left out of account, as it is where nobody knows yet how much there will be.
    let Some(length) = entry.body.length() else { return whole(entry, question) };
    match parse_ranges(value, length) {
        Ranges::Whole => whole(entry, question),
        Ranges::Unsatisfiable => {
            let mut reply = Reply::new(416);
            let range = format!("bytes */{length}");
            reply.fields.push(b"content-range", range.as_bytes())?;
            finish(&mut reply.fields, about, question)?;
            Ok(reply)
        }
        Ranges::Parts(parts) => partial(entry, question, (&parts, length)),
    }
}

/// Whether the client has this already.
pub(crate) fn is_known(about: &About, conditions: &Fields) -> bool {
    judge_novelty(conditions, &about.validators()) == Precondition::NotModified
}

/// The lines of a 304 to an answer with these lines.
pub(crate) fn confirmation(answer: &Fields) -> Result<Fields, SpaceExhausted> {
    let mut fields = Fields::new();
    for (name, value) in answer.iter() {
        if CONFIRMED.iter().any(|known| name.eq_ignore_ascii_case(known)) {
            fields.push(name, value)?;
        }
    }
    Ok(fields)
}

fn partial(
    entry: &Entry,
    question: &Question<'_>,
    (parts, length): (&[ByteRange], u64),
) -> Result<Reply, SpaceExhausted> {
    let about = &entry.about;
    let content =
        |part: &ByteRange| entry.body.part(part.first, (part.last - part.first).saturating_add(1));
    let mut reply = Reply::new(206);
    if let [part] = parts {
        reply.fields = about.fields.with_room(160);
        let range = format!("bytes {}-{}/{length}", part.first, part.last);
        reply.fields.push(b"content-range", range.as_bytes())?;
        reply.body = content(part).body();
    } else {
        // A line that no content is likely to hold: it depends on what nobody outside knows.
        let boundary = format!("{:016x}{:016x}", question.now, about.born);
        let kind = about.fields.values_of(b"content-type").next();
        let (mut body, mut between) = (Parts::default(), Vec::new());
        for part in parts {
            let range = format!("content-range: bytes {}-{}/{length}\r\n", part.first, part.last);
            between.extend_from_slice(format!("\r\n--{boundary}\r\n").as_bytes());
            if let Some(kind) = kind {
                between.extend_from_slice(b"content-type: ");
                between.extend_from_slice(kind);
                between.extend_from_slice(b"\r\n");
            }
            between.extend_from_slice(range.as_bytes());
            between.extend_from_slice(b"\r\n");
            body = body.with_bytes(std::mem::take(&mut between)).with(content(part));
        }
        body = body.with_bytes(format!("\r\n--{boundary}--\r\n").into_bytes());
        for (name, value) in about.fields.iter() {
            // RFC 9110, 15.3.7.2: the type of each part stands with it.
            if !name.eq_ignore_ascii_case(b"content-type") {
                reply.fields.push(name, value)?;
            }
        }
        let kind = format!("multipart/byteranges; boundary={boundary}");
        reply.fields.push(b"content-type", kind.as_bytes())?;
        reply.body = body.into_body();
    }
    finish(&mut reply.fields, about, question)?;
    Ok(reply)
}
