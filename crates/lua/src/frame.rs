//! A call from a script into the program: its arguments, its results, its errors.
#![expect(
    unsafe_code,
    reason = "the one place where functions of the program look at the stack of LuaJIT"
)]

use std::any::TypeId;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::rc::Rc;

use mlua_sys as ffi;
use mlua_sys::lua_State;

use crate::host::{Host, Id};

unsafe extern "C-unwind" {
    /// Of LuaJIT 2.1, as in Lua 5.3.
    fn lua_isyieldable(state: *mut lua_State) -> c_int;
}

/// How a function of the program leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// With so many results, which it pushed.
    Values(i32),
    /// With an error, whose message it pushed.
    Raise,
    /// It waits: what it is resumed with are its results.
    Wait,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No value, or nil.
    Nil,
    Boolean,
    Number,
    String,
    Table,
    Function,
    Thread,
    Other,
}

/// Makes a C function of a safe one. Whatever that owns is gone when the script goes on: errors are raised and
/// waits begin here, in a frame that owns nothing.
macro_rules! native {
    ($name:ident, $body:path) => {
        pub(crate) extern "C-unwind" fn $name(
            state: *mut ::mlua_sys::lua_State,
        ) -> ::std::ffi::c_int {
            $crate::frame::call(state, $body)
        }
    };
}
pub(crate) use native;

/// The body of every C function.
#[inline(always)]
pub(crate) fn call(state: *mut lua_State, body: impl Fn(&Frame<'_>) -> Reply) -> c_int {
    // SAFETY: the thread runs: it lives and waits for this call; the limit is relaxed below.
    answer(&unsafe { Frame::of(state) }, body)
}

/// An object that knows the surroundings of its state.
pub(crate) trait Housed {
    /// Those of the only state whose scripts can have it.
    fn host(&self) -> &Host;
}

/// The body of a C function of objects, whose first argument is one: LuaJIT is not asked for the surroundings. Without
/// an object an error is raised that says what is `expected`.
#[inline(always)]
pub(crate) fn call_of<T: Housed + 'static>(
    state: *mut lua_State,
    expected: &str,
    body: impl Fn(&Frame<'_>, &T) -> Reply,
) -> c_int {
    // SAFETY: an argument stays where it is until the function leaves.
    match unsafe { object::<T>(state, 1) } {
        // SAFETY: as in `call`; scripts cannot take an object from one state to another.
        Some(object) => answer(&unsafe { Frame::on(object.host(), state) }, |it| body(it, object)),
        None => raise_for_lack(state, expected),
    }
}

#[cold]
fn raise_for_lack(state: *mut lua_State, expected: &str) -> c_int {
    call(state, |frame| frame.raise(&format!("bad argument #1: {expected} is expected")))
}

#[inline(always)]
fn answer(frame: &Frame<'_>, body: impl Fn(&Frame<'_>) -> Reply) -> c_int {
    let (host, state) = (frame.host(), frame.state());
    let before = host.memory.relax();
    // A panic must not pass through frames of C.
    let reply = match catch_unwind(AssertUnwindSafe(|| body(frame))) {
        Ok(reply) => reply,
        Err(_) => frame.raise("internal fault, see standard error"),
    };
    if reply == Reply::Raise {
        frame.add_place();
    }
    host.memory.restore(before);
    match reply {
        Reply::Values(count) => count,
        // SAFETY: these leave this frame and those of the C function; none owns anything: `frame` and `host` are
        // references, and the panic's payload was dropped above.
        Reply::Wait => unsafe {
            host.waits.set(true);
            ffi::lua_yield(state, 0)
        },
        // SAFETY: as above. The message is on the stack.
        Reply::Raise => unsafe { ffi::lua_error(state) },
    }
}

/// One call. Indices are those of arguments, from 1 on.
pub(crate) struct Frame<'l> {
    state: *mut lua_State,
    host: &'l Host,
}

impl<'l> Frame<'l> {
    /// The stack of a thread, to push what it will be resumed with.
    ///
    /// # Safety
    /// The thread lives as long as the frame, and is not run meanwhile. The limit of memory is relaxed.
    #[inline]
    pub(crate) unsafe fn of(state: *mut lua_State) -> Self {
        let mut host: *mut c_void = null_mut();
        // SAFETY: every state of this crate is made with its host, which outlives it.
        let host = unsafe {
            ffi::lua_getallocf(state, &mut host);
            &*host.cast::<Host>()
        };
        Self { state, host }
    }

    /// The same where the surroundings of the state are at hand.
    ///
    /// # Safety
    /// As for [`Frame::of`]; the thread belongs to the state of this host.
    #[inline]
    pub(crate) const unsafe fn on(host: &'l Host, state: *mut lua_State) -> Self {
        Self { state, host }
    }

    pub(crate) fn state(&self) -> *mut lua_State {
        self.state
    }

    /// The surroundings of the state.
    #[inline]
    pub(crate) const fn host(&self) -> &'l Host {
        self.host
    }

    /// The task that calls, if it can wait here: not below a function of C, which nobody could go on with later.
    #[inline]
    pub(crate) fn task(&self) -> Option<Id> {
        let task = self.host.running(self.state)?;
        // SAFETY: looks at the frames of the thread.
        (unsafe { lua_isyieldable(self.state) } != 0).then_some(task)
    }

    /// Number of arguments.
    pub(crate) fn count(&self) -> i32 {
        // SAFETY: reads the stack.
        unsafe { ffi::lua_gettop(self.state) }
    }

    /// What an argument is.
    #[inline]
    pub(crate) fn kind(&self, index: i32) -> Kind {
        // SAFETY: an index beyond the top is allowed here.
        match unsafe { ffi::lua_type(self.state, index) } {
            ffi::LUA_TNIL | ffi::LUA_TNONE => Kind::Nil,
            ffi::LUA_TBOOLEAN => Kind::Boolean,
            ffi::LUA_TNUMBER => Kind::Number,
            ffi::LUA_TSTRING => Kind::String,
            ffi::LUA_TTABLE => Kind::Table,
            ffi::LUA_TFUNCTION => Kind::Function,
            ffi::LUA_TTHREAD => Kind::Thread,
            _ => Kind::Other,
        }
    }

    /// The word of a script for what an argument is.
    pub(crate) fn kind_name(&self, index: i32) -> String {
        // SAFETY: an index beyond the top is allowed here; names are constants.
        let name = unsafe {
            let kind = ffi::lua_type(self.state, index);
            std::ffi::CStr::from_ptr(ffi::lua_typename(self.state, kind))
        };
        name.to_string_lossy().into_owned()
    }

    /// A string, or a number in the spelling of a script.
    #[inline]
    pub(crate) fn bytes(&self, index: i32) -> Option<&[u8]> {
        let mut length = 0;
        // SAFETY: a string stays where it is as long as it is an argument, and no method takes arguments away.
        // A number becomes a string in its place; the limit of memory is relaxed.
        unsafe {
            let start = ffi::lua_tolstring(self.state, index, &mut length);
            let there = !start.is_null();
            there.then(|| std::slice::from_raw_parts(start.cast::<u8>(), length))
        }
    }

    /// The same as text; what is no UTF-8 is replaced.
    pub(crate) fn text(&self, index: i32) -> Option<String> {
        self.bytes(index).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// A number, or a string that spells one.
    pub(crate) fn number(&self, index: i32) -> Option<f64> {
        // SAFETY: reads the stack.
        let number = unsafe { ffi::lua_tonumber(self.state, index) };
        let is_zero = number == 0.0;
        // SAFETY: as above.
        (!is_zero || unsafe { ffi::lua_isnumber(self.state, index) } != 0).then_some(number)
    }

    /// A number without a fraction; what is out of range saturates.
    #[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "saturates")]
    pub(crate) fn integer(&self, index: i32) -> Option<i64> {
        self.number(index).map(|number| number as i64)
    }

    /// Neither nil nor false.
    pub(crate) fn truth(&self, index: i32) -> bool {
        // SAFETY: reads the stack.
        unsafe { ffi::lua_toboolean(self.state, index) != 0 }
    }

    /// The thread that an argument is.
    pub(crate) fn thread(&self, index: i32) -> Option<*mut lua_State> {
        // SAFETY: reads the stack.
        let thread = unsafe { ffi::lua_tothread(self.state, index) };
        (!thread.is_null()).then_some(thread)
    }

    /// The object that an argument is.
    #[inline]
    pub(crate) fn object<T: 'static>(&self, index: i32) -> Option<&T> {
        // SAFETY: no method takes arguments away.
        unsafe { object(self.state, index) }
    }

    /// Pushes nil.
    #[inline]
    pub(crate) fn push_nil(&self) {
        // SAFETY: there is room: functions push less than LUA_MINSTACK values, and check beyond that.
        unsafe { ffi::lua_pushnil(self.state) };
    }

    /// Pushes true or false.
    #[inline]
    pub(crate) fn push_truth(&self, value: bool) {
        // SAFETY: as above.
        unsafe { ffi::lua_pushboolean(self.state, c_int::from(value)) };
    }

    /// Pushes a number.
    pub(crate) fn push_number(&self, value: f64) {
        // SAFETY: as above.
        unsafe { ffi::lua_pushnumber(self.state, value) };
    }

    /// Pushes a number; beyond 2^53 it loses its last digits.
    #[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "as documented")]
    pub(crate) fn push_count(&self, value: u64) {
        self.push_number(value as f64);
    }

    /// Pushes a string.
    #[inline]
    pub(crate) fn push_bytes(&self, bytes: &[u8]) {
        // SAFETY: as above; the limit of memory is relaxed.
        unsafe { ffi::lua_pushlstring_(self.state, bytes.as_ptr().cast(), bytes.len()) };
    }

    /// Pushes a function of the program.
    pub(crate) fn push_native(&self, function: ffi::lua_CFunction) {
        // SAFETY: as above.
        unsafe { ffi::lua_pushcclosure(self.state, function, 0) };
    }

    /// Pushes an argument once more.
    pub(crate) fn push_copy(&self, index: i32) {
        // SAFETY: as above.
        unsafe { ffi::lua_pushvalue(self.state, index) };
    }

    /// Pushes an empty table with room for so many elements and fields.
    pub(crate) fn push_table(&self, elements: i32, fields: i32) {
        // SAFETY: as above; the limit of memory is relaxed.
        unsafe { ffi::lua_createtable(self.state, elements.max(0), fields.max(0)) };
    }

    /// Pushes an object; it is dropped when the script has no more use for it. Until then what it takes counts as
    /// memory of the script: itself and `more` bytes, as far as anybody knows.
    pub(crate) fn push_object<T: 'static>(&self, object: Rc<T>, more: usize) {
        self.push_object_of(object, self.host().object_meta.get(), more);
    }

    /// The same with a metatable that the registry keeps; its `__gc` is [`collect`].
    pub(crate) fn push_object_of<T: 'static>(&self, object: Rc<T>, meta: i32, more: usize) {
        let cost = size_of::<T>() + more;
        self.host.memory.charge(cost);
        // SAFETY: the block is written before anybody can look at it, and gets its metatable, which drops it. The
        // limit of memory is relaxed, so nothing is jumped over.
        unsafe {
            let block = ffi::lua_newuserdata(self.state, size_of::<Block>()).cast::<Block>();
            let value = Rc::into_raw(object).cast_mut().cast();
            block.write(Block { kind: TypeId::of::<T>(), value, drop: release::<T>, cost });
            ffi::lua_rawgeti_(self.state, ffi::LUA_REGISTRYINDEX, meta);
            ffi::lua_setmetatable(self.state, -2);
        }
    }

    /// Pushes what the registry keeps at this place.
    pub(crate) fn push_kept(&self, place: i32) {
        // SAFETY: reads a table.
        unsafe { ffi::lua_rawgeti_(self.state, ffi::LUA_REGISTRYINDEX, place) };
    }

    /// Keeps the topmost value, and takes it off the stack.
    pub(crate) fn keep(&self) -> i32 {
        // SAFETY: there is a value; the limit of memory is relaxed.
        unsafe { ffi::luaL_ref(self.state, ffi::LUA_REGISTRYINDEX) }
    }

    /// Forgets what was kept.
    pub(crate) fn forget(&self, place: i32) {
        // SAFETY: a place that is kept nowhere is ignored.
        unsafe { ffi::luaL_unref(self.state, ffi::LUA_REGISTRYINDEX, place) };
    }

    /// Takes the topmost value as a field of the table below it.
    pub(crate) fn set_field(&self, name: &[u8]) {
        self.push_bytes(name);
        // SAFETY: the table is below value and name, which change places; raw, so no script runs.
        unsafe {
            ffi::lua_insert(self.state, -2);
            ffi::lua_rawset(self.state, -3);
        }
    }

    /// Takes the two topmost values as a key and its value in the table below them.
    pub(crate) fn set_pair(&self) {
        // SAFETY: as above; the key is neither nil nor no number.
        unsafe { ffi::lua_rawset(self.state, -3) };
    }

    /// Takes a value from among the others.
    pub(crate) fn remove(&self, index: i32) {
        // SAFETY: the caller pushed it; it is none of the arguments.
        unsafe { ffi::lua_remove(self.state, index) };
    }

    /// Takes the topmost value as an element of the table below it.
    pub(crate) fn set_element(&self, index: i32) {
        // SAFETY: as above.
        unsafe { ffi::lua_rawseti_(self.state, -2, index) };
    }

    /// Takes the topmost value, a table, as the environment of the object below.
    pub(crate) fn set_environment(&self) {
        // SAFETY: as above; answers 0 for what can have none.
        unsafe { ffi::lua_setfenv(self.state, -2) };
    }

    /// Pushes an element of a table that is an argument or, counted from the top, negative.
    pub(crate) fn push_element(&self, table: i32, index: i32) {
        // SAFETY: raw, so no script runs; the caller knows that it is a table.
        unsafe { ffi::lua_rawgeti_(self.state, table, index) };
    }

    /// Pushes the table of global variables.
    pub(crate) fn push_globals(&self) {
        // SAFETY: as above.
        unsafe { ffi::lua_pushvalue(self.state, ffi::LUA_GLOBALSINDEX) };
    }

    /// Pushes a field of a table that is an argument.
    pub(crate) fn push_field(&self, table: i32, name: &[u8]) {
        self.push_bytes(name);
        // SAFETY: raw, so no script runs; the caller knows that it is a table.
        unsafe { ffi::lua_rawget(self.state, table) };
    }

    /// Replaces the topmost value, a key, by the one that comes after it in a table and pushes its value; false,
    /// without either, at the end.
    pub(crate) fn next(&self, table: i32) -> bool {
        // SAFETY: the key came from here or is nil, so it is one of the table.
        unsafe { ffi::lua_next(self.state, table) != 0 }
    }

    /// Pushes the metatable of a value; false, without it, if it has none.
    pub(crate) fn push_meta(&self, index: i32) -> bool {
        // SAFETY: reads the stack.
        unsafe { ffi::lua_getmetatable(self.state, index) != 0 }
    }

    /// Number of elements of a table.
    pub(crate) fn elements(&self, table: i32) -> usize {
        // SAFETY: reads the table.
        unsafe { ffi::lua_objlen(self.state, table) }
    }

    /// Takes the topmost value away, which is none of the arguments.
    pub(crate) fn pop(&self) {
        // SAFETY: the caller pushed it.
        unsafe { ffi::lua_settop(self.state, -2) };
    }

    /// Moves the topmost value to another thread of the state.
    pub(crate) fn move_to(&self, thread: *mut lua_State) {
        // SAFETY: both live, by a handle on the one and by this call on the other.
        unsafe { ffi::lua_xmove(self.state, thread, 1) };
    }

    /// Pushes another thread of the state.
    pub(crate) fn push_thread(&self, thread: *mut lua_State) {
        // SAFETY: it lives: a coroutine of the loop is kept in the registry.
        unsafe {
            ffi::lua_pushthread(thread);
            if !std::ptr::eq(thread, self.state) {
                ffi::lua_xmove(thread, self.state, 1);
            }
        }
    }

    /// Whether two values are the very same; false if there is no such argument.
    pub(crate) fn is_same(&self, index: i32, other: i32) -> bool {
        // SAFETY: raw, so no script runs; an index beyond the top is answered with 0.
        unsafe { ffi::lua_rawequal(self.state, index, other) != 0 }
    }

    /// The index of a value that stays the same when others are pushed.
    pub(crate) fn absolute(&self, index: i32) -> i32 {
        if index > 0 { index } else { self.count() + index + 1 }
    }

    /// Makes sure that so many values can be pushed.
    pub(crate) fn reserve(&self, values: i32) -> bool {
        // SAFETY: grows the stack; the limit of memory is relaxed, and what is too large is answered with 0.
        unsafe { ffi::lua_checkstack(self.state, values) != 0 }
    }

    /// Pushes a compiled chunk of source text, or says what is wrong with it. Compiled code is refused.
    pub(crate) fn push_chunk(&self, source: &[u8], name: &str) -> Result<(), String> {
        let Ok(name) = std::ffi::CString::new(name) else {
            return Err("a zero in a name".to_owned());
        };
        if source.first() == Some(&0x1b) {
            return Err("it is compiled code, which could break out of every bound".to_owned());
        }
        // SAFETY: reads the text; errors are answered, not raised.
        let status = unsafe {
            let start = source.as_ptr().cast();
            ffi::luaL_loadbuffer(self.state, start, source.len(), name.as_ptr())
        };
        if status == 0 {
            return Ok(());
        }
        let said = self.text(-1).unwrap_or_default();
        self.pop();
        Err(said)
    }

    /// Leaves with an error.
    #[cold]
    pub(crate) fn raise(&self, message: &str) -> Reply {
        self.push_bytes(message.as_bytes());
        Reply::Raise
    }

    /// Puts the place of the caller in front of the message on top.
    #[cold]
    fn add_place(&self) {
        // SAFETY: there is a string on top; nothing that can fail but memory, which is relaxed.
        unsafe {
            ffi::luaL_where(self.state, 1);
            ffi::lua_insert(self.state, -2);
            ffi::lua_concat(self.state, 2);
        }
    }

    /// Leaves with nil and a word about what is wrong.
    pub(crate) fn fail(&self, word: &[u8]) -> Reply {
        self.push_nil();
        self.push_bytes(word);
        Reply::Values(2)
    }

    /// Leaves with false and a word about what is wrong.
    pub(crate) fn refuse(&self, word: &[u8]) -> Reply {
        self.push_truth(false);
        self.push_bytes(word);
        Reply::Values(2)
    }
}

/// The object at this place of a stack.
///
/// # Safety
/// The place is not given up as long as the object is used: what refers to it keeps it alive.
#[inline(always)]
unsafe fn object<'o, T: 'static>(state: *mut lua_State, index: i32) -> Option<&'o T> {
    // SAFETY: there is no light userdata, so whatever is found has a content. What is none of ours is a file of `io`: a
    // pointer, a number and a gap, together as long as a type's name, which is something else.
    unsafe {
        let block = ffi::lua_touserdata(state, index).cast::<Block>();
        if block.is_null() || (*block).kind != TypeId::of::<T>() {
            return None;
        }
        (*block).value.cast::<T>().as_ref()
    }
}

/// What a userdata holds.
#[repr(C)]
struct Block {
    kind: TypeId,
    /// From `Rc::into_raw`; null once it was dropped.
    value: *mut c_void,
    drop: unsafe fn(*mut c_void),
    /// Bytes that count as memory of the script as long as there is a value.
    cost: usize,
}

/// # Safety
/// `value` comes from `Rc::into_raw` of an `Rc<T>`, and is not used again.
unsafe fn release<T>(value: *mut c_void) {
    // SAFETY: as promised.
    drop(unsafe { Rc::from_raw(value.cast::<T>().cast_const()) });
}

/// `__gc` of all objects.
pub(crate) extern "C-unwind" fn collect(state: *mut lua_State) -> c_int {
    // SAFETY: only the collector calls it, with an object of ours: scripts cannot get at the metatable.
    let block = unsafe { &mut *ffi::lua_touserdata(state, 1).cast::<Block>() };
    let value = std::mem::replace(&mut block.value, null_mut());
    if !value.is_null() {
        let drop = block.drop;
        // SAFETY: the state is there while it collects.
        unsafe { Frame::of(state) }.host().memory.release(block.cost);
        // A panic must not pass through frames of C; the message is on standard error.
        // SAFETY: taken out of the block, so this is the only time.
        let _ = catch_unwind(AssertUnwindSafe(|| unsafe { drop(value) }));
    }
    0
}

/// A function that calls the one it was made of, unless the stack of the program is nearly used up: what C calls in
/// order to call a script again would else overflow it.
pub(crate) extern "C-unwind" fn guarded(state: *mut lua_State) -> c_int {
    let here = 0_u8;
    let address = std::ptr::from_ref(&here).addr();
    // SAFETY: as in `call`; nothing is pushed through it.
    let frame = unsafe { Frame::of(state) };
    if address < frame.host().stack_floor.get() {
        return call(state, |frame| frame.raise("C stack overflow"));
    }
    // SAFETY: calls what the closure holds with all arguments; errors pass through a frame that owns nothing.
    unsafe {
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(1));
        ffi::lua_insert(state, 1);
        ffi::lua_call(state, ffi::lua_gettop(state) - 1, ffi::LUA_MULTRET);
        ffi::lua_gettop(state)
    }
}

/// Makes a guarded function of a function.
fn guard(frame: &Frame<'_>) -> Reply {
    if frame.kind(1) != Kind::Function {
        return frame.raise("a function is expected");
    }
    frame.push_copy(1);
    // SAFETY: takes the function on top as its upvalue.
    unsafe { ffi::lua_pushcclosure(frame.state, guarded, 1) };
    Reply::Values(1)
}

native!(native_guard, guard);
