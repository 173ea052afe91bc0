//! The answer with a file, or with what a client lacks of it.

use sluice_filter::{Body, Reply, RequestContext};
use sluice_message::{
    Fields, Method, Precondition, Ranges, RequestHead, SpaceExhausted, Validators,
    judge_preconditions, parse_ranges, range_applies,
};

use crate::open::Content;
use crate::parts::{body, content_range, multipart};

/// Fields that an answer has which says that the client has it all (RFC 9110, 15.4.5).
const KEPT: [&[u8]; 5] = [b"etag", b"last-modified", b"cache-control", b"vary", b"expires"];

/// The answer to a GET or HEAD request for this file.
pub(crate) fn answer(
    content: &Content,
    context: &RequestContext<'_>,
) -> Result<Reply, SpaceExhausted> {
    let request = &*context.request;
    let have = Validators {
        etag: Some(&content.etag),
        last_modified: Some(content.looks.modified.as_secs()),
        date: context.gateway.unix_ms() / 1000,
    };
    match judge_preconditions(&request.fields, &have) {
        Precondition::NotModified => return not_modified(content),
        Precondition::Failed => return Ok(Reply::refusal(412, "the file is another one")),
        Precondition::Holds => {}
    }
    let size = content.looks.size;
    let mut fields = content.fields.clone();
    match wanted(request, &have, size) {
        Ranges::Whole => Ok(Reply { fields, body: body(content, None), ..Reply::new(200) }),
        Ranges::Unsatisfiable => {
            let range = format!("bytes */{size}");
            let mut reply = Reply::refusal(416, "there are no such bytes");
            // Not a refusal for the log to explain: clients find out where a file ends.
            reply.reason = None;
            reply.with_field(b"content-range", range.as_bytes())
        }
        Ranges::Parts(parts) => match parts.as_slice() {
            [part] => {
                fields.push(b"content-range", content_range(*part, size).as_bytes())?;
                Ok(Reply { fields, body: body(content, Some(*part)), ..Reply::new(206) })
            }
            parts => {
                let gateway = context.gateway;
                let boundary = format!("{:016x}{:016x}", gateway.random(), gateway.random());
                fields.remove_named(|name| name.eq_ignore_ascii_case(b"content-type"));
                let media = format!("multipart/byteranges; boundary={boundary}");
                fields.push(b"content-type", media.as_bytes())?;
                let body = multipart(content, parts, &boundary);
                Ok(Reply { fields, body, ..Reply::new(206) })
            }
        },
    }
}

/// The parts that are asked for. Ranges are for GET alone (RFC 9110, 14.2).
fn wanted(request: &RequestHead, have: &Validators<'_>, size: u64) -> Ranges {
    if request.method != Method::Get {
        return Ranges::Whole;
    }
    let mut values = request.fields.values_of(b"range");
    match (values.next(), values.next()) {
        (Some(value), None) if range_applies(&request.fields, have) => parse_ranges(value, size),
        _ => Ranges::Whole,
    }
}

fn not_modified(content: &Content) -> Result<Reply, SpaceExhausted> {
    let mut fields = Fields::new();
    for line in content.fields.lines() {
        let (name, value) = (content.fields.slice(line.name), content.fields.slice(line.value));
        if KEPT.contains(&name) {
            fields.push(name, value)?;
        }
    }
    Ok(Reply { fields, body: Body::EMPTY, ..Reply::new(304) })
}
