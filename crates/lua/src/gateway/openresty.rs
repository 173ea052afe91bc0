//! Scripts for OpenResty: chunks for its phases, made functions for those of an exchange.

use std::rc::Rc;

use mlua_sys::lua_CFunction;
use sluice_filter::phrase;
use sluice_message::Fields;

use super::missing::nothing_there;
use super::script::Chunk;
use super::{codec, ctx, shared};
use crate::frame::{Frame, Reply, native};
use crate::host::Host;
use crate::lease::{After, Exchange, Wish};
use crate::modules::{self, add_functions, push_functions};
use crate::vm;

native!(native_peek, peek);
native!(native_leave, leave);
native!(native_request_lines, request_lines);
native!(native_response_lines, response_lines);
native!(native_phrase, phrase_of);

/// What makes functions of the chunks, with the parts that it takes in this order.
const LAYER: &str = include_str!("../script/ngx.lua");
const PARTS: [(&str, &str); 8] = [
    ("ngx_output", include_str!("../script/ngx_output.lua")),
    ("ngx_request", include_str!("../script/ngx_request.lua")),
    ("ngx_variables", include_str!("../script/ngx_variables.lua")),
    ("ngx_codec", include_str!("../script/ngx_codec.lua")),
    ("ngx_time", include_str!("../script/ngx_time.lua")),
    ("ngx_json", include_str!("../script/ngx_json.lua")),
    ("ngx_shared", include_str!("../script/ngx_shared.lua")),
    ("ngx_regex", include_str!("../script/ngx_regex.lua")),
];

const FUNCTIONS: [(&str, lua_CFunction); 5] = [
    ("peek", native_peek),
    ("leave", native_leave),
    ("request_lines", native_request_lines),
    ("response_lines", native_response_lines),
    ("phrase", native_phrase),
];

/// Makes functions of the chunks, and leaves a table of them on the main stack. `natives` are functions that other scripts
/// have, too.
///
/// # Errors
/// What a chunk says, with its place.
pub(crate) fn load(
    host: &Host,
    chunks: &[Chunk],
    natives: &[(&str, lua_CFunction)],
) -> Result<(), String> {
    vm::with_stack(host, host.main.get(), |frame| {
        frame.push_chunk(LAYER.as_bytes(), "=ngx")?;
        push_functions(frame, modules::FUNCTIONS);
        for more in [&FUNCTIONS[..], &codec::FUNCTIONS, natives] {
            add_functions(frame, more);
        }
        push_functions(frame, &shared::FUNCTIONS);
        frame.set_field(b"store");
        frame.push_object(Rc::new(Null), 0);
        frame.set_field(b"null");
        frame.push_table(0, 0);
        for (index, (name, text)) in (1..).zip(PARTS) {
            frame.push_chunk(text.as_bytes(), &format!("={name}"))?;
            frame.set_element(index);
        }
        frame.set_field(b"parts");
        frame.push_table(0, 8);
        for chunk in chunks {
            frame.push_chunk(&chunk.text, &chunk.name)?;
            frame.set_field(chunk.phase.map_or("init", |phase| phase.name()).as_bytes());
        }
        Ok::<(), String>(())
    })?;
    vm::call_main(host, 2, 1)
}

/// `ngx.null`: something that is no other value.
struct Null;

/// `peek()`: the table that belongs to the exchange, or nil where there is none.
fn peek(frame: &Frame<'_>) -> Reply {
    if ctx::try_push(frame).is_none() {
        frame.push_nil();
    }
    Reply::Values(1)
}

/// `leave(after)`: the end of the run, in the middle of whatever it is at. `after` is 1 if its function has more to do,
/// 2 if another route is looked for.
fn leave(frame: &Frame<'_>) -> Reply {
    let host = frame.host();
    let after = match frame.integer(1) {
        Some(1) => After::Again,
        Some(2) => After::Reroute,
        _ => After::Others,
    };
    if host.exchange.with(|_| ()).is_none() {
        return nothing_there(frame);
    }
    host.exchange.wish.set(Wish::Leave(after));
    // A coroutine of the script could only give way to whoever resumed it, and nobody can below a function of C.
    match frame.task() {
        Some(_) => Reply::Wait,
        None => frame.raise("the run has asked for its end"),
    }
}

/// Pushes a list of names and values, and how many lines there are in all.
fn push_lines(frame: &Frame<'_>, fields: &Fields, most: usize) {
    let count = fields.iter().count();
    frame.push_table(i32::try_from(count.min(most) * 2).unwrap_or(0), 0);
    for (index, (name, value)) in (1..).step_by(2).zip(fields.iter().take(most)) {
        frame.push_bytes(name);
        frame.set_element(index);
        frame.push_bytes(value);
        frame.set_element(index + 1);
    }
    frame.push_count(u64::try_from(count).unwrap_or(u64::MAX));
}

fn most(frame: &Frame<'_>) -> usize {
    let most = frame.integer(1).and_then(|most| usize::try_from(most).ok());
    most.filter(|most| *most > 0).unwrap_or(usize::MAX)
}

/// `request_lines(most)`: names and values of its fields as they came, and how many there are.
fn request_lines(frame: &Frame<'_>) -> Reply {
    let most = most(frame);
    let pushed = frame.host().exchange.with(|exchange| {
        let request = exchange.request()?;
        push_lines(frame, &request.fields, most);
        Some(())
    });
    match pushed.flatten() {
        Some(()) => Reply::Values(2),
        None => nothing_there(frame),
    }
}

/// `response_lines(most)`.
fn response_lines(frame: &Frame<'_>) -> Reply {
    let most = most(frame);
    let pushed = frame.host().exchange.with(|exchange| match exchange {
        Exchange::Response(context) => {
            push_lines(frame, &context.response.fields, most);
            Some(())
        }
        Exchange::Request(_) | Exchange::Done(_) => None,
    });
    match pushed.flatten() {
        Some(()) => Reply::Values(2),
        None => nothing_there(frame),
    }
}

/// `phrase(status)`: the words that stand for it.
fn phrase_of(frame: &Frame<'_>) -> Reply {
    let status = frame.integer(1).and_then(|status| u16::try_from(status).ok());
    frame.push_bytes(phrase(status.unwrap_or(0)).as_bytes());
    Reply::Values(1)
}
