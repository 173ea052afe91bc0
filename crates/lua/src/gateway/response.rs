//! `response`: what scripts see and change of the answer that is under way.

use sluice_filter::{ResponseContext, Source};
use sluice_message::Span;

use super::fields::{self, Others};
use super::missing::nothing_there;
use super::request::{name, no_name, not_written};
use crate::frame::{Frame, Reply, native};
use crate::lease::Exchange;

native!(native_get, get);
native!(native_set, set);
native!(native_header, header);
native!(native_values, values);
native!(native_headers, headers);
native!(native_set_header, set_header);
native!(native_add_header, add_header);
native!(native_remove_header, remove_header);

/// The functions of the object.
pub(crate) const FUNCTIONS: [(&str, mlua_sys::lua_CFunction); 6] = [
    ("header", native_header),
    ("values", native_values),
    ("headers", native_headers),
    ("set_header", native_set_header),
    ("add_header", native_add_header),
    ("remove_header", native_remove_header),
];

#[cold]
fn not_yet(frame: &Frame<'_>) -> Reply {
    frame.raise("there is no answer yet: give one with respond")
}

/// Works with the answer.
fn with(
    frame: &Frame<'_>,
    work: impl FnOnce(&mut ResponseContext<'_>) -> Result<i32, Reply>,
) -> Reply {
    let done = frame.host().exchange.with(|exchange| match exchange {
        Exchange::Response(context) => work(context),
        Exchange::Request(_) => Err(not_yet(frame)),
        Exchange::Done(_) => Err(nothing_there(frame)),
    });
    match done {
        Some(Ok(values)) => Reply::Values(values),
        Some(Err(reply)) => reply,
        None => nothing_there(frame),
    }
}

/// `response.NAME`, where no method has the name.
fn get(frame: &Frame<'_>) -> Reply {
    let Some(name) = name(frame, 2) else { return no_name(frame) };
    with(frame, |context| {
        match name {
            b"status" => frame.push_count(context.response.status.into()),
            b"source" => frame.push_bytes(match context.source {
                Source::Origin => b"origin",
                Source::Gateway => b"gateway",
                Source::Fault => b"fault",
            }),
            _ => frame.push_nil(),
        }
        Ok(1)
    })
}

/// `response.status = number`.
fn set(frame: &Frame<'_>) -> Reply {
    let Some(name) = name(frame, 2) else { return no_name(frame) };
    with(frame, |context| match (name, frame.integer(3)) {
        (b"status", Some(status)) => {
            // What has no content, or begins something else, is another message (RFC 9110, 15.2 and 15.3.5).
            let free = |status: u16| (200..=599).contains(&status) && !matches!(status, 204 | 304);
            let status = u16::try_from(status).ok().filter(|&it| free(it));
            let Some(status) = status.filter(|_| free(context.response.status)) else {
                return Err(frame.raise(
                    "response.status: from 200 to 599 but not to or from 204 and 304, which have no content",
                ));
            };
            context.response.status = status;
            context.response.reason = Span::default();
            Ok(0)
        }
        _ => Err(frame.raise("the answer has no such field that could be set")),
    })
}

/// `header(name)`: its first value, or nil.
fn header(frame: &Frame<'_>) -> Reply {
    let Some(name) = name(frame, 2) else { return no_name(frame) };
    with(frame, |context| {
        fields::push_first(frame, &context.response.fields, name);
        Ok(1)
    })
}

/// `values(name)`: a list of its values.
fn values(frame: &Frame<'_>) -> Reply {
    let Some(name) = name(frame, 2) else { return no_name(frame) };
    with(frame, |context| {
        fields::push_list(frame, &context.response.fields, name);
        Ok(1)
    })
}

/// `headers()`: a table of all.
fn headers(frame: &Frame<'_>) -> Reply {
    with(frame, |context| {
        fields::push_all(frame, &context.response.fields);
        Ok(1)
    })
}

fn write(frame: &Frame<'_>, others: Others) -> Reply {
    let Some(name) = name(frame, 2) else { return no_name(frame) };
    with(frame, |context| {
        let written = fields::write(frame, &mut context.response.fields, name, 3, others);
        written.map(|()| 0).map_err(|wrong| not_written(frame, name, &wrong))
    })
}

/// `set_header(name, value | list)`: instead of those of the name.
fn set_header(frame: &Frame<'_>) -> Reply {
    write(frame, Others::Go)
}

/// `add_header(name, value | list)`: beside them.
fn add_header(frame: &Frame<'_>) -> Reply {
    write(frame, Others::Stay)
}

/// `remove_header(name)`.
fn remove_header(frame: &Frame<'_>) -> Reply {
    let Some(name) = name(frame, 2) else { return no_name(frame) };
    with(frame, |context| {
        let checked = fields::check_name(name, frame.host());
        let known = checked.map_err(|wrong| wrong.raise(frame, name))?;
        context.response.fields.remove_name(&known.name);
        Ok(0)
    })
}
