//! `request`: what scripts see and change of the request that is under way.

use std::borrow::Cow;

use sluice_filter::{Notes, REQUEST_ID, RequestContext};
use sluice_message::TargetProblem;

use super::fields::{self, Others};
use super::missing::nothing_there;
use super::query;
use crate::frame::{Frame, Kind, Reply, native};
use crate::known::is_name;
use crate::lease::{Exchange, Wish};
use crate::tcp::no_task;

native!(native_get, get);
native!(native_set, set);
native!(native_header, header);
native!(native_values, values);
native!(native_headers, headers);
native!(native_set_header, set_header);
native!(native_add_header, add_header);
native!(native_remove_header, remove_header);
native!(native_cookie, cookie);
native!(native_cookies, cookies);
native!(native_argument, argument);
native!(native_arguments, arguments);
native!(native_capture, capture);
native!(native_variable, variable);
native!(native_set_variable, set_variable);
native!(native_body, body);
native!(native_reroute, reroute);

/// The functions of the object.
pub(crate) const FUNCTIONS: [(&str, mlua_sys::lua_CFunction); 15] = [
    ("header", native_header),
    ("values", native_values),
    ("headers", native_headers),
    ("set_header", native_set_header),
    ("add_header", native_add_header),
    ("remove_header", native_remove_header),
    ("cookie", native_cookie),
    ("cookies", native_cookies),
    ("argument", native_argument),
    ("arguments", native_arguments),
    ("capture", native_capture),
    ("variable", native_variable),
    ("set_variable", native_set_variable),
    ("body", native_body),
    ("reroute", native_reroute),
];

/// Longest content that a script gets if it names no length.
pub(crate) const BODY: usize = 1 << 20;

#[cold]
fn sent_already(frame: &Frame<'_>) -> Reply {
    frame.raise("the request cannot be changed any more: its answer is there")
}

/// The name that a method of ours is called with; it says so if the object was left out.
#[inline]
pub(crate) fn name<'f>(frame: &'f Frame<'_>, index: i32) -> Option<&'f [u8]> {
    // What it is a method of is looked at when something is wrong: without it there is an argument too few.
    frame.bytes(index)
}

#[cold]
pub(crate) fn no_name(frame: &Frame<'_>) -> Reply {
    match frame.kind(1) {
        Kind::Table => frame.raise("bad argument: a name is expected"),
        _ => frame.raise("call it with a colon, as in request:header(name)"),
    }
}

/// Why a line was not written.
#[cold]
pub(crate) fn not_written(frame: &Frame<'_>, name: &[u8], wrong: &fields::Wrong) -> Reply {
    if frame.kind(1) == Kind::Table { wrong.raise(frame, name) } else { no_name(frame) }
}

/// Pushes something of the request.
fn read(frame: &Frame<'_>, push: impl FnOnce(&Exchange<'_, '_>) -> Option<()>) -> Reply {
    let pushed = frame.host().exchange.with(|exchange| push(&exchange));
    match pushed {
        Some(Some(())) => Reply::Values(1),
        _ => nothing_there(frame),
    }
}

/// Changes the request.
fn change(
    frame: &Frame<'_>,
    work: impl FnOnce(&mut RequestContext<'_>) -> Result<(), Reply>,
) -> Reply {
    let done = frame.host().exchange.with(|exchange| match exchange {
        Exchange::Request(context) => work(context),
        Exchange::Response(_) | Exchange::Done(_) => Err(sent_already(frame)),
    });
    match done {
        Some(Ok(())) => Reply::Values(0),
        Some(Err(reply)) => reply,
        None => nothing_there(frame),
    }
}

/// `request.NAME`, where no method has the name.
fn get(frame: &Frame<'_>) -> Reply {
    let Some(name) = name(frame, 2) else { return no_name(frame) };
    if name == b"ctx" {
        return super::ctx::push(frame);
    }
    read(frame, |exchange| {
        let view = exchange.view()?;
        let (request, gateway) = (view.request, view.gateway);
        let value: Cow<'_, [u8]> = match name {
            b"method" => request.fields.slice(request.method_text).into(),
            b"path" => request.path().into(),
            b"target" => request.target().into(),
            b"raw_target" => request.raw_target().into(),
            b"query" => request.query().into(),
            b"host" => request.fields.slice(request.authority).into(),
            b"scheme" => gateway.scheme().as_bytes().into(),
            b"client" => view.client.to_string().into_bytes().into(),
            b"peer" => gateway.peer().to_string().into_bytes().into(),
            b"route" => gateway.route().as_bytes().into(),
            b"listener" => gateway.listener().as_bytes().into(),
            b"version" => version(request.version).as_bytes().into(),
            b"user" | b"id" => {
                let noted = match name {
                    b"user" => view.notes.user(),
                    _ => view.notes.get(REQUEST_ID),
                };
                match noted {
                    Some(noted) => noted.into(),
                    None => {
                        frame.push_nil();
                        return Some(());
                    }
                }
            }
            b"port" => {
                frame.push_count(gateway.port().into());
                return Some(());
            }
            b"has_body" => {
                frame.push_truth(request.has_content());
                return Some(());
            }
            _ => {
                frame.push_nil();
                return Some(());
            }
        };
        frame.push_bytes(&value);
        Some(())
    })
}

const fn version(version: sluice_message::Version) -> &'static str {
    match version {
        sluice_message::Version::Http10 => "1.0",
        sluice_message::Version::Http11 => "1.1",
        sluice_message::Version::Http2 => "2",
    }
}

/// `request.NAME = value`.
fn set(frame: &Frame<'_>) -> Reply {
    let Some(name) = name(frame, 2) else { return no_name(frame) };
    if name == b"ctx" {
        return frame.raise("request.ctx is a table: set fields of it");
    }
    let value = frame.bytes(3);
    change(frame, |context| {
        let Some(value) = value else {
            return Err(frame.raise("a text is expected"));
        };
        let rules = context.gateway.path_rules();
        let request = &mut *context.request;
        let problem = match name {
            b"method" if is_name(value) => request.set_method(value).err().map(|_| SPACE),
            b"method" => Some("this is no method"),
            b"path" => {
                let mut target = value.to_vec();
                if !request.query().is_empty() {
                    target.push(b'?');
                    target.extend_from_slice(request.query());
                }
                match value.contains(&b'?') {
                    true => Some("a path has no query: set request.target, or request.query"),
                    false => request.set_target(&target, &rules).err().map(explain),
                }
            }
            b"query" => {
                let target = request.target();
                let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
                let mut target = path.to_vec();
                if !value.is_empty() {
                    target.push(b'?');
                    target.extend_from_slice(value);
                }
                request.set_target(&target, &rules).err().map(explain)
            }
            b"target" => request.set_target(value, &rules).err().map(explain),
            b"host" if fields::is_host(value) => request.set_authority(value).err().map(|_| SPACE),
            b"host" => Some("this is no host"),
            b"user" => {
                context.notes.set_user(value);
                None
            }
            _ => Some("the request has no such field that could be set"),
        };
        match problem {
            None => Ok(()),
            Some(word) => {
                let name = String::from_utf8_lossy(name);
                Err(frame.raise(&format!("request.{name}: {word}")))
            }
        }
    })
}

const SPACE: &str = "no room for it";

const fn explain(problem: TargetProblem) -> &'static str {
    match problem {
        TargetProblem::Form => "it has to begin with a slash and to be free of white space and '#'",
        TargetProblem::Path(problem) => problem.text(),
        TargetProblem::Space => SPACE,
    }
}

#[inline]
fn is_host_name(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"host")
}

/// `header(name)`: its first value, or nil.
fn header(frame: &Frame<'_>) -> Reply {
    let Some(name) = name(frame, 2) else { return no_name(frame) };
    read(frame, |exchange| {
        fields::push_first(frame, &exchange.request()?.fields, name);
        Some(())
    })
}

/// `values(name)`: a list of its values.
fn values(frame: &Frame<'_>) -> Reply {
    let Some(name) = name(frame, 2) else { return no_name(frame) };
    read(frame, |exchange| {
        fields::push_list(frame, &exchange.request()?.fields, name);
        Some(())
    })
}

/// `headers()`: a table of all.
fn headers(frame: &Frame<'_>) -> Reply {
    read(frame, |exchange| {
        fields::push_all(frame, &exchange.request()?.fields);
        Some(())
    })
}

fn write(frame: &Frame<'_>, others: Others) -> Reply {
    let Some(name) = name(frame, 2) else { return no_name(frame) };
    change(frame, |context| {
        if is_host_name(name) {
            let host = frame.bytes(3).filter(|host| fields::is_host(host));
            let set = host.map(|host| context.request.set_authority(host));
            return match set {
                Some(Ok(())) => Ok(()),
                _ => Err(frame.raise("this is no host")),
            };
        }
        let written = fields::write(frame, &mut context.request.fields, name, 3, others);
        written.map_err(|wrong| not_written(frame, name, &wrong))
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
    change(frame, |context| match fields::check_name(name, frame.host()) {
        Ok(_) if is_host_name(name) => Err(fields::Wrong::Ours.raise(frame, name)),
        Ok(known) => {
            context.request.fields.remove_name(&known.name);
            Ok(())
        }
        Err(wrong) => Err(wrong.raise(frame, name)),
    })
}

/// `cookie(name)`: its value, or nil.
fn cookie(frame: &Frame<'_>) -> Reply {
    let Some(name) = name(frame, 2) else { return no_name(frame) };
    read(frame, |exchange| {
        let mut all = query::cookies(&exchange.request()?.fields);
        match all.find(|(known, _)| *known == name) {
            Some((_, value)) => frame.push_bytes(value),
            None => frame.push_nil(),
        }
        Some(())
    })
}

/// `cookies()`: a table of all.
fn cookies(frame: &Frame<'_>) -> Reply {
    read(frame, |exchange| {
        frame.push_table(0, 4);
        for (name, value) in query::cookies(&exchange.request()?.fields) {
            frame.push_bytes(value);
            frame.set_field(name);
        }
        Some(())
    })
}

/// `argument(name)`: the first value that the query has for it, decoded, or nil.
fn argument(frame: &Frame<'_>) -> Reply {
    let Some(name) = name(frame, 2) else { return no_name(frame) };
    read(frame, |exchange| {
        let found = query::pairs(exchange.request()?.query()).find(|(known, _)| **known == *name);
        match found {
            Some((_, value)) => frame.push_bytes(&value),
            None => frame.push_nil(),
        }
        Some(())
    })
}

/// `arguments()`: a table of all; of those that come twice the last.
fn arguments(frame: &Frame<'_>) -> Reply {
    read(frame, |exchange| {
        frame.push_table(0, 4);
        for (name, value) in query::pairs(exchange.request()?.query()) {
            frame.push_bytes(&value);
            frame.set_field(&name);
        }
        Some(())
    })
}

/// `capture(name)`: what the path of the route calls so, or nil.
fn capture(frame: &Frame<'_>) -> Reply {
    let Some(name) = name(frame, 2) else { return no_name(frame) };
    let name = String::from_utf8_lossy(name);
    read(frame, |exchange| {
        match exchange.view()?.gateway.capture(&name) {
            Some(value) => frame.push_bytes(&value),
            None => frame.push_nil(),
        }
        Some(())
    })
}

/// `variable(name)`: what filters noted by that name, or nil.
fn variable(frame: &Frame<'_>) -> Reply {
    let Some(name) = name(frame, 2) else { return no_name(frame) };
    let name = String::from_utf8_lossy(name);
    read(frame, |exchange| {
        let notes: &Notes = match exchange {
            Exchange::Request(context) => context.notes,
            Exchange::Response(context) => context.notes,
            Exchange::Done(context) => context.notes,
        };
        match notes.get(&name) {
            Some(value) => frame.push_bytes(value),
            None => frame.push_nil(),
        }
        Some(())
    })
}

/// `set_variable(name, value)`: `note.NAME` of templates, conditions and the log.
fn set_variable(frame: &Frame<'_>) -> Reply {
    let (Some(name), Some(value)) = (name(frame, 2), frame.bytes(3)) else {
        return no_name(frame);
    };
    let host = frame.host();
    let name = host.exchange.name(&String::from_utf8_lossy(name));
    let set = host.exchange.with(|exchange| match exchange {
        Exchange::Request(context) => {
            context.notes.set(&name, value);
            true
        }
        Exchange::Response(context) => {
            context.notes.set(&name, value);
            true
        }
        Exchange::Done(_) => false,
    });
    match set {
        Some(true) => Reply::Values(0),
        _ => nothing_there(frame),
    }
}

/// `body(most)`: all content, or nil and a word if it has more bytes than that. Waits for it.
fn body(frame: &Frame<'_>) -> Reply {
    let most = match frame.kind(2) {
        Kind::Nil => BODY,
        _ => match frame.integer(2).and_then(|most| usize::try_from(most).ok()) {
            Some(most) => most,
            None => return frame.raise("bad argument to 'body': a number of bytes is expected"),
        },
    };
    let host = frame.host();
    // One byte more tells whether that is all.
    let wanted = most.saturating_add(1);
    let there = host.exchange.with(|exchange| match exchange {
        Exchange::Request(context) => {
            let content = context.content;
            let enough = !context.request.has_content()
                || content.bytes.len() >= wanted
                || (!content.more && !content.bytes.is_empty());
            Some(enough.then(|| push_body(frame, content.bytes, most)))
        }
        Exchange::Response(_) | Exchange::Done(_) => None,
    });
    match there {
        Some(Some(Some(values))) => return Reply::Values(values),
        Some(Some(None)) => {}
        Some(None) => return sent_already(frame),
        None => return nothing_there(frame),
    }
    if frame.task().is_none() {
        return no_task(frame);
    }
    host.exchange.wish.set(Wish::Content(wanted));
    Reply::Wait
}

/// Pushes content, or nil and a word if it is too large; how many values that is.
pub(crate) fn push_body(frame: &Frame<'_>, bytes: &[u8], most: usize) -> i32 {
    if bytes.len() <= most {
        frame.push_bytes(bytes);
        return 1;
    }
    frame.push_nil();
    frame.push_bytes(format!("the content has more than {most} bytes").as_bytes());
    2
}

/// `reroute()`: once the function has returned, a route is looked for anew.
fn reroute(frame: &Frame<'_>) -> Reply {
    let host = frame.host();
    let request = host.exchange.with(|exchange| matches!(exchange, Exchange::Request(_)));
    match request {
        Some(true) => {
            host.exchange.wish.set(Wish::Reroute);
            Reply::Values(0)
        }
        Some(false) => sent_already(frame),
        None => nothing_there(frame),
    }
}
