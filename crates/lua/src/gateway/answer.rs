//! `respond`: an answer that a script gives.

use sluice_message::Fields;

use super::fields::{self, Wrong};
use super::missing::nothing_there;
use crate::frame::{Frame, Kind, Reply, native};

native!(native_respond, respond);

/// `respond { status = ..., headers = ..., body = ... }`, `respond(status, body)` or `respond(body)`: what the client
/// gets once the function has returned. A second answer is an error.
fn respond(frame: &Frame<'_>) -> Reply {
    let host = frame.host();
    let reply = match made(frame) {
        Ok(reply) => reply,
        Err(raised) => return raised,
    };
    if host.exchange.with(|exchange| exchange.view().is_some()) != Some(true) {
        return nothing_there(frame);
    }
    let mut place = host.exchange.answer.borrow_mut();
    if place.is_some() {
        return frame.raise("respond: there is an answer already");
    }
    *place = Some(Box::new(reply));
    Reply::Values(0)
}

fn made(frame: &Frame<'_>) -> Result<sluice_filter::Reply, Reply> {
    // Room for what most answers say.
    let mut fields = Fields::with_capacity(128, 4);
    let mut status = 200;
    let body = match frame.kind(1) {
        Kind::Table => {
            frame.push_field(1, b"headers");
            let all = frame.absolute(-1);
            match frame.kind(all) {
                Kind::Nil => {}
                Kind::Table => fields::write_all(frame, &mut fields, (all, "respond"))?,
                _ => return Err(frame.raise("respond: headers are a table")),
            }
            frame.push_field(1, b"status");
            if frame.kind(-1) != Kind::Nil {
                status = status_at(frame, -1)?;
            }
            frame.push_field(1, b"body");
            frame.absolute(-1)
        }
        Kind::Number => {
            status = status_at(frame, 1)?;
            2
        }
        _ => 1,
    };
    let content = match frame.kind(body) {
        Kind::Nil => Vec::new(),
        Kind::String | Kind::Number => frame.bytes(body).unwrap_or_default().to_vec(),
        _ => return Err(frame.raise("respond: a text is expected as body")),
    };
    if !content.is_empty() && fields.value(sluice_message::FieldId::ContentType).is_none() {
        // There is room: nothing but what the script wrote is in front of it.
        let pushed = fields.push(b"content-type", b"text/plain; charset=utf-8");
        pushed.map_err(|_| Wrong::Full.raise(frame, b"content-type"))?;
    }
    Ok(sluice_filter::Reply { status, fields, body: content.into(), reason: None })
}

fn status_at(frame: &Frame<'_>, index: i32) -> Result<u16, Reply> {
    let status = frame.integer(index).and_then(|status| u16::try_from(status).ok());
    let status = status.filter(|status| (200..=599).contains(status));
    status.ok_or_else(|| frame.raise("respond: a status is a number from 200 to 599"))
}
