//! Functions that compiled code of scripts calls by their address, without the detour over the stack of LuaJIT.
#![expect(unsafe_code, reason = "addresses go to LuaJIT, and pointers come back from there")]

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use mlua_sys::lua_CFunction;
use sluice_message::{FieldId, Fields};

use super::{fields, request, response};
use crate::frame::{Frame, Kind, Reply, native};
use crate::host::Host;
use crate::known::{Known, LONGEST, NUMBERS};
use crate::lease::Exchange;
use crate::modules::push_functions;
use crate::vm;

native!(native_number, number);

/// What makes the methods of an object that use the functions below.
const HEADERS: &str = include_str!("../script/headers.lua");

/// Bytes of a message, lent until the next call.
#[repr(C)]
pub(crate) struct Lent {
    start: *const u8,
    length: usize,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    /// It was done.
    Yes,
    /// There is nothing of that name.
    Nothing,
    /// Not this way: whoever asks over the stack gets an answer or an error.
    No,
}

impl Done {
    /// In the words of `headers.lua`.
    const fn code(self) -> c_int {
        match self {
            Self::Nothing => 0,
            Self::Yes => 1,
            Self::No => 2,
        }
    }
}

/// Reads the first value of the field with this number.
type Find = extern "C" fn(*const Host, u32, *mut Lent) -> c_int;

/// Writes a value instead of those of the field with this number.
type Replace = extern "C" fn(*const Host, u32, *const u8, usize) -> c_int;

/// An object that scripts have, and how its fields are read and written.
struct Object {
    functions: &'static [(&'static str, lua_CFunction)],
    find: Find,
    replace: Replace,
}

const OBJECTS: [Object; 2] = [
    Object { functions: &request::FUNCTIONS, find: find_in_request, replace: replace_in_request },
    Object {
        functions: &response::FUNCTIONS,
        find: find_in_response,
        replace: replace_in_response,
    },
];

/// Keeps the objects `request` and `response` in the registry; where.
///
/// The library of LuaJIT for functions of C is lent to the chunk that makes their methods. Nothing that scripts get
/// leads to it: it could reach any memory.
pub(super) fn make_objects(host: &Host) -> Result<[i32; 2], String> {
    let main = host.main.get();
    vm::with_stack(host, main, |frame| frame.push_native(mlua_sys::luaopen_ffi));
    vm::call_main(host, 0, 1)?;
    let library = vm::with_stack(host, main, |frame| {
        frame.push_field(frame.absolute(-1), b"sizeof");
        host.size_of.set(Some(frame.keep()));
        frame.keep()
    });
    let mut kept = [0; 2];
    for (object, place) in OBJECTS.iter().zip(&mut kept) {
        *place = vm::with_stack(host, main, |frame| {
            push_functions(frame, object.functions);
            let place = frame.keep();
            frame.push_chunk(HEADERS.as_bytes(), "=headers")?;
            frame.push_kept(place);
            push_means(frame, object);
            frame.push_kept(library);
            frame.set_field(b"ffi");
            Ok::<_, String>(place)
        })?;
        vm::call_main(host, 2, 0)?;
    }
    vm::with_stack(host, main, |frame| frame.forget(library));
    Ok(kept)
}

/// Pushes a table of what the chunk needs.
#[expect(clippy::as_conversions, reason = "nothing else leads to the address of a function")]
fn push_means(frame: &Frame<'_>, object: &Object) {
    frame.push_table(0, 8);
    frame.push_native(native_number);
    frame.set_field(b"number");
    for (name, count) in [("longest", LONGEST), ("most", NUMBERS / OBJECTS.len())] {
        frame.push_count(u64::try_from(count).unwrap_or(0));
        frame.set_field(name.as_bytes());
    }
    // Addresses of programs have at most 47 bits, which numbers of scripts hold without loss.
    for (name, address) in [
        ("host", std::ptr::from_ref(frame.host()).addr()),
        ("find", (object.find as *const ()).addr()),
        ("replace", (object.replace as *const ()).addr()),
    ] {
        frame.push_count(u64::try_from(address).unwrap_or(0));
        frame.set_field(name.as_bytes());
    }
}

/// `number(name)`: what the functions below know the name of a field by; nil if it gets none.
fn number(frame: &Frame<'_>) -> Reply {
    let name = frame.bytes(1).filter(|_| frame.kind(1) == Kind::String);
    match name.and_then(|name| frame.host().exchange.fields.number(name)) {
        Some(number) => frame.push_count(number.into()),
        None => frame.push_nil(),
    }
    Reply::Values(1)
}

/// Works with the exchange that is under way and the name of a field.
#[inline(always)]
fn with(
    host: *const Host,
    number: u32,
    work: impl FnOnce(Exchange<'_, '_>, &Known) -> Done,
) -> c_int {
    // SAFETY: the address was given to the chunk by `make_objects`, and the state in which that runs goes before its
    // host.
    let lease = unsafe { &(*host).exchange };
    let work = |known: &Known| lease.with(|exchange| work(exchange, known)).unwrap_or(Done::No);
    // A panic must not pass through compiled code. Its message is on standard error, and the same on the other way
    // tells the script.
    let done = catch_unwind(AssertUnwindSafe(|| {
        lease.fields.with(number, work).unwrap_or(Done::No).code()
    }));
    done.unwrap_or(Done::No.code())
}

/// Lends the first value of a name.
#[inline(always)]
fn lend(fields: &Fields, known: &Known, lent: *mut Lent) -> Done {
    let Some(value) = known.name.values(fields).next() else { return Done::Nothing };
    // SAFETY: the chunk has made it for this.
    unsafe { lent.write(Lent { start: value.as_ptr(), length: value.len() }) };
    Done::Yes
}

/// Writes a text as the only value of a name.
#[inline(always)]
fn replace(all: &mut Fields, known: &Known, (start, length): (*const u8, usize)) -> Done {
    // SAFETY: a string of the script, which lives as long as the call.
    let text = unsafe { std::slice::from_raw_parts(start, length) };
    let written = fields::check_writer(known).and_then(|()| fields::replace(all, known, text));
    if written.is_ok() { Done::Yes } else { Done::No }
}

extern "C" fn find_in_request(host: *const Host, number: u32, lent: *mut Lent) -> c_int {
    with(host, number, |exchange, known| match exchange.request() {
        Some(request) => lend(&request.fields, known, lent),
        None => Done::No,
    })
}

extern "C" fn find_in_response(host: *const Host, number: u32, lent: *mut Lent) -> c_int {
    with(host, number, |exchange, known| match exchange {
        Exchange::Response(context) => lend(&context.response.fields, known, lent),
        Exchange::Request(_) | Exchange::Done(_) => Done::No,
    })
}

extern "C" fn replace_in_request(
    host: *const Host,
    number: u32,
    start: *const u8,
    length: usize,
) -> c_int {
    with(host, number, |exchange, known| match exchange {
        // A host is more than a field.
        Exchange::Request(context) if known.name.id() != FieldId::Host => {
            replace(&mut context.request.fields, known, (start, length))
        }
        Exchange::Request(_) | Exchange::Response(_) | Exchange::Done(_) => Done::No,
    })
}

extern "C" fn replace_in_response(
    host: *const Host,
    number: u32,
    start: *const u8,
    length: usize,
) -> c_int {
    with(host, number, |exchange, known| match exchange {
        Exchange::Response(context) => {
            replace(&mut context.response.fields, known, (start, length))
        }
        Exchange::Request(_) | Exchange::Done(_) => Done::No,
    })
}
