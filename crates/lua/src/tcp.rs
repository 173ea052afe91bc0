//! `silly.net.tcp`: what scripts do with connections.

use std::rc::Rc;
use std::time::Duration;

use sluice_net::{Nanos, PeerAddress, Stream, now};

use crate::address;
use crate::cause::Cause;
use crate::connection::{Connection, Handle, Reader, Taken, nanos};
use crate::delimiter::Wanted;
use crate::frame::{Frame, Kind, Reply, call_of};
use crate::host::Host;
use crate::intake::Hold;

/// Makes a C function of a safe one that gets the connection its first argument is.
macro_rules! method {
    ($name:ident, $body:path) => {
        pub(crate) extern "C-unwind" fn $name(
            state: *mut ::mlua_sys::lua_State,
        ) -> ::std::ffi::c_int {
            call_of::<Handle>(state, "a connection", |frame, handle| $body(frame, &handle.0))
        }
    };
}

method!(native_read, read);
method!(native_readline, readline);
method!(native_write, write);
method!(native_close, close);
method!(native_limit, limit);
method!(native_isalive, isalive);
method!(native_unread, unread);
method!(native_unsent, unsent);

/// The functions of a connection, for the module and for its methods.
pub(crate) const FUNCTIONS: [(&str, mlua_sys::lua_CFunction); 10] = [
    ("read", native_read),
    ("readline", native_readline),
    ("write", native_write),
    ("close", native_close),
    ("limit", native_limit),
    ("isalive", native_isalive),
    ("unreadbytes", native_unread),
    ("recvsize", native_unread),
    ("unsentbytes", native_unsent),
    ("sendsize", native_unsent),
];

/// Starts to drive a connection and pushes what a script gets for it: an object, to which it may add fields.
pub(crate) fn push_connection(
    frame: &Frame<'_>,
    host: &Rc<Host>,
    wire: (Stream, PeerAddress),
    hold: Option<Hold>,
) -> Rc<Connection> {
    let connection = Connection::start(host, wire, hold);
    let handle = Rc::new(Handle(Rc::clone(&connection)));
    frame.push_object_of(handle, host.connection_meta.get(), 1024);
    // Its fields are made when a script first asks for one.
    frame.push_kept(host.no_fields.get());
    frame.set_environment();
    connection
}

/// `read(conn, count | delimiter, timeout_ms, most)`.
fn read(frame: &Frame<'_>, connection: &Connection) -> Reply {
    let want = match frame.kind(2) {
        Kind::Number => {
            let count = frame.integer(2).unwrap_or(0);
            Wanted::Exactly(usize::try_from(count).unwrap_or(0))
        }
        Kind::String => match frame.bytes(2).filter(|bytes| !bytes.is_empty()) {
            Some(delimiter) => Wanted::Until(delimiter),
            None => return frame.raise("bad argument #2 to 'read': the delimiter is empty"),
        },
        _ => return frame.raise("bad argument #2 to 'read': a number or a delimiter is expected"),
    };
    read_for(frame, connection, want)
}

/// `readline(conn, delimiter or "\n", timeout_ms)`.
fn readline(frame: &Frame<'_>, connection: &Connection) -> Reply {
    match frame.bytes(2) {
        Some(bytes) if !bytes.is_empty() => read_for(frame, connection, Wanted::Until(bytes)),
        None if frame.kind(2) == Kind::Nil => read_for(frame, connection, Wanted::Until(b"\n")),
        _ => frame.raise("bad argument #2 to 'readline': a delimiter is expected"),
    }
}

// In line: the two that call it are what services call most.
#[inline(always)]
fn read_for(frame: &Frame<'_>, connection: &Connection, wanted: Wanted<'_>) -> Reply {
    if connection.is_closed() {
        return frame.fail(Cause::Closed.text().as_bytes());
    }
    if connection.has_reader() {
        return frame.raise("another task is reading from this connection");
    }
    {
        let mut input = connection.input.borrow_mut();
        if let Some(length) = input.expect(wanted) {
            frame.push_bytes(input.take(length));
            return Reply::Values(1);
        }
    }
    wait_for(frame, connection, wanted)
}

/// Waits for what is not there, if that may still come.
#[inline(always)]
fn wait_for(frame: &Frame<'_>, connection: &Connection, wanted: Wanted<'_>) -> Reply {
    let host = frame.host();
    if let Some(cause) = connection.ended() {
        connection.tell_end();
        return frame.fail(cause.text().as_bytes());
    }
    if matches!(wanted, Wanted::Exactly(count) if count > host.settings.read_limit) {
        return frame.fail(Cause::NO_BUFFERS.text().as_bytes());
    }
    let Some(id) = frame.task() else { return no_task(frame) };
    let count = frame.count();
    let until = match count {
        0..=2 => Nanos::MAX,
        _ if frame.kind(3) == Kind::Nil => Nanos::MAX,
        _ => match frame.number(3) {
            Some(wait) => now().saturating_add(nanos(milliseconds(wait))),
            None => return frame.raise("bad argument #3: milliseconds are expected"),
        },
    };
    // Further than that nothing is looked for, also where more would fit.
    let most = if count < 4 { None } else { frame.integer(4) };
    let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    connection.bound.set(most.min(host.settings.read_limit));
    connection.set_reader(Reader { id, thread: frame.state(), until });
    Reply::Wait
}

/// A coroutine that a script made itself gives way to whoever resumed it, not to the loop.
#[cold]
pub(crate) fn no_task(frame: &Frame<'_>) -> Reply {
    match frame.host().running(frame.state()) {
        Some(_) => frame
            .raise("attempt to wait within a function that is called by format, load or the like"),
        None => frame.raise(
            "attempt to wait outside a task: use task.fork instead of coroutine.create or wrap",
        ),
    }
}

/// Milliseconds of a script; what is negative or no number is nothing.
pub(crate) fn milliseconds(number: f64) -> Duration {
    Duration::try_from_secs_f64((number / 1000.0).max(0.0)).unwrap_or(Duration::MAX)
}

/// `write(conn, string | {string...})`.
fn write(frame: &Frame<'_>, connection: &Connection) -> Reply {
    if connection.is_closed() {
        return frame.refuse(Cause::Closed.text().as_bytes());
    }
    if let Some(cause) = connection.ended().filter(|cause| *cause != Cause::End) {
        return frame.refuse(cause.text().as_bytes());
    }
    let taken = match frame.bytes(2) {
        Some(bytes) => connection.write(bytes),
        None if frame.kind(2) != Kind::Table => {
            return frame.raise("bad argument #2 to 'write': a string is expected");
        }
        None => match write_all(frame, connection) {
            Some(taken) => taken,
            None => {
                return frame.raise("bad argument #2 to 'write': a table of strings is expected");
            }
        },
    };
    match taken {
        Taken::Now => {
            frame.push_truth(true);
            Reply::Values(1)
        }
        Taken::Later => match frame.task() {
            Some(id) => {
                connection.hold(id, frame.state());
                Reply::Wait
            }
            None => no_task(frame),
        },
        Taken::Never => frame.refuse(Cause::NO_BUFFERS.text().as_bytes()),
    }
}

/// All elements of a table; `None`, with nothing written, if one is no string.
fn write_all(frame: &Frame<'_>, connection: &Connection) -> Option<Taken> {
    let mut joined = Vec::new();
    for index in 1..=i32::try_from(frame.elements(2)).ok()? {
        frame.push_element(2, index);
        let bytes = frame.bytes(-1).map(|bytes| joined.extend_from_slice(bytes));
        frame.pop();
        bytes?;
    }
    Some(connection.write(&joined))
}

/// `close(conn)`.
fn close(frame: &Frame<'_>, connection: &Connection) -> Reply {
    if connection.is_closed() {
        return frame.refuse(Cause::Closed.text().as_bytes());
    }
    connection.close();
    frame.push_truth(true);
    Reply::Values(1)
}

method!(native_abort, abort);

/// `abort(conn)`: closed at once, and so that the peer sees that something is missing.
fn abort(_: &Frame<'_>, connection: &Connection) -> Reply {
    if !connection.is_closed() {
        connection.abort();
    }
    Reply::Values(0)
}

/// `limit(conn, bytes | nil)`.
fn limit(frame: &Frame<'_>, connection: &Connection) -> Reply {
    let most = match frame.kind(2) {
        Kind::Nil => usize::MAX,
        _ => match frame.integer(2).and_then(|most| usize::try_from(most).ok()) {
            Some(most) => most,
            None => {
                return frame.raise("bad argument #2 to 'limit': a number of bytes is expected");
            }
        },
    };
    connection.room.set(most);
    frame.push_truth(true);
    Reply::Values(1)
}

/// `isalive(conn)`.
fn isalive(frame: &Frame<'_>, connection: &Connection) -> Reply {
    frame.push_truth(!connection.is_closed() && connection.ended().is_none());
    Reply::Values(1)
}

fn count(frame: &Frame<'_>, bytes: usize) -> Reply {
    frame.push_count(u64::try_from(bytes).unwrap_or(u64::MAX));
    Reply::Values(1)
}

/// `unreadbytes(conn)`.
fn unread(frame: &Frame<'_>, connection: &Connection) -> Reply {
    count(frame, connection.input.borrow().len())
}

/// `unsentbytes(conn)`.
fn unsent(frame: &Frame<'_>, connection: &Connection) -> Reply {
    count(frame, connection.output.borrow().len())
}

method!(native_about, about);

/// `about(conn)`: its number and the address of its peer.
fn about(frame: &Frame<'_>, connection: &Connection) -> Reply {
    frame.push_count(connection.number);
    frame.push_bytes(address::show(connection.peer).as_bytes());
    Reply::Values(2)
}

method!(native_show, show);

/// `tostring(conn)`.
fn show(frame: &Frame<'_>, connection: &Connection) -> Reply {
    frame.push_bytes(connection.to_string().as_bytes());
    Reply::Values(1)
}
