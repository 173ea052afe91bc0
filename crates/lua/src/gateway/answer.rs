//! `respond`: an answer that a script gives.

use std::sync::Arc;

use sluice_filter::Ready;
use sluice_message::{FieldId, Fields};

use super::fields::{self, Wrong};
use super::missing::nothing_there;
use crate::frame::{Frame, Kind, Reply, native};
use crate::lease::{Answer, PLAIN};

native!(native_respond, respond);

/// `respond { status = ..., headers = ..., body = ... }`, `respond(status, body)` or `respond(body)`: what the client
/// gets once the function has returned. A second answer is an error.
fn respond(frame: &Frame<'_>) -> Reply {
    let host = frame.host();
    let answer = match made(frame) {
        Ok(answer) => answer,
        Err(raised) => return raised,
    };
    if !host.exchange.is_answerable() {
        return nothing_there(frame);
    }
    let mut place = host.exchange.answer.borrow_mut();
    if place.is_some() {
        return frame.raise("respond: there is an answer already");
    }
    *place = Some(answer);
    Reply::Values(0)
}

fn made(frame: &Frame<'_>) -> Result<Answer, Reply> {
    let (status, body) = match frame.kind(1) {
        Kind::Table => return described(frame),
        Kind::Number => (status_at(frame, 1)?, 2),
        _ => (200, 1),
    };
    with_fields(frame, status, Fields::new(), content_at(frame, body)?)
}

/// The answer that a table describes.
fn described(frame: &Frame<'_>) -> Result<Answer, Reply> {
    let mut fields = Fields::new();
    frame.push_field(1, b"headers");
    let all = frame.absolute(-1);
    match frame.kind(all) {
        Kind::Nil => {}
        Kind::Table => {
            // Room for what most answers say.
            fields = Fields::with_capacity(128, 4);
            fields::write_all(frame, &mut fields, (all, "respond"))?;
        }
        _ => return Err(frame.raise("respond: headers are a table")),
    }
    frame.push_field(1, b"status");
    let status = match frame.kind(-1) {
        Kind::Nil => 200,
        _ => status_at(frame, -1)?,
    };
    frame.push_field(1, b"body");
    with_fields(frame, status, fields, content_at(frame, frame.absolute(-1))?)
}

fn content_at<'f>(frame: &'f Frame<'_>, index: i32) -> Result<&'f [u8], Reply> {
    match frame.bytes(index) {
        Some(content) => Ok(content),
        None if frame.kind(index) == Kind::Nil => Ok(b""),
        None => Err(frame.raise("respond: a text is expected as body")),
    }
}

/// What has content is text unless the script says something else.
fn with_fields(
    frame: &Frame<'_>,
    status: u16,
    mut fields: Fields,
    content: &[u8],
) -> Result<Answer, Reply> {
    if !content.is_empty() && fields.lines().is_empty() {
        let head = frame.host().exchange.plain_head(status);
        return Ok(Answer::Ready(Ready { head, body: Arc::<[u8]>::from(content).into() }));
    }
    if !content.is_empty() && fields.value(FieldId::ContentType).is_none() {
        // There is room: nothing but what the script wrote is in front of it.
        let pushed = fields.push(b"content-type", PLAIN);
        pushed.map_err(|_| Wrong::Full.raise(frame, b"content-type"))?;
    }
    let body = content.to_vec().into();
    Ok(Answer::Made(Box::new(sluice_filter::Reply { status, fields, body, reason: None })))
}

fn status_at(frame: &Frame<'_>, index: i32) -> Result<u16, Reply> {
    let status = frame.integer(index).and_then(|status| u16::try_from(status).ok());
    let status = status.filter(|status| (200..=599).contains(status));
    status.ok_or_else(|| frame.raise("respond: a status is a number from 200 to 599"))
}
