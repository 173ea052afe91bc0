//! A Lua state: made, filled, run one coroutine after the other, closed.
#![expect(
    unsafe_code,
    reason = "the one place where LuaJIT is started and its coroutines are resumed"
)]

use std::cell::RefCell;
use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::rc::{Rc, Weak};

use mlua_sys as ffi;
use mlua_sys::lua_State;
use sluice_meter::push_log_line;
use sluice_net::interrupt::{self, Limit, Rung};

use crate::frame::{Frame, Reply, collect};
use crate::host::{Coroutine, Ending, Host, Id, Idle, Owner, Status, TASK};
use crate::memory::allocate;
use crate::settings::Level;
use crate::timers::Timers;

/// Stack of the program that a state may use; threads have two megabytes.
const STACK: usize = 1 << 20;

/// Coroutines that are run before the loop turns.
const SLICE: usize = 64;

/// Bytes that have to be left for a new task: its thread, and what the program keeps.
const ROOM: usize = 4096;

/// Threads that are kept for the next coroutines.
const IDLE: usize = 256;

/// Compiled loops look at hooks only if LuaJIT was built to (`.cargo/config.toml`); else nothing is compiled, so that
/// every loop can be stopped.
const COMPILES: bool = match option_env!("TARGET_FLAGS") {
    Some(flags) => contains(flags.as_bytes(), b"LUAJIT_ENABLE_CHECKHOOK"),
    None => false,
};

#[expect(
    clippy::indexing_slicing,
    reason = "within bounds by the conditions; constant functions have no `get`"
)]
const fn contains(text: &[u8], word: &[u8]) -> bool {
    let mut at = 0;
    while at + word.len() <= text.len() {
        let mut same = 0;
        while same < word.len() && text[at + same] == word[same] {
            same += 1;
        }
        if same == word.len() {
            return true;
        }
        at += 1;
    }
    false
}

/// A state with its surroundings. Closed when this is dropped.
pub(crate) struct Vm {
    host: Rc<Host>,
}

impl Vm {
    /// A state with the libraries of the language and nothing else. Not all of them are for scripts: what they see is
    /// settled by the first chunk that runs.
    ///
    /// # Errors
    /// If there is not enough memory for it, or the kernel refuses the watch over its budget.
    pub(crate) fn new(host: Rc<Host>) -> io::Result<Self> {
        let before = host.memory.relax();
        let ground = Rc::as_ptr(&host).cast_mut().cast::<c_void>();
        // SAFETY: the host outlives the state, which is closed by `drop`, and begins with its memory.
        let main = unsafe { ffi::lua_newstate(allocate, ground) };
        if main.is_null() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        host.main.set(main);
        let vm = Self { host };
        // SAFETY: the state is new; the functions come from LuaJIT, and are called in protected mode by `pcall`.
        unsafe {
            let frame = Frame::of(main);
            for open in [
                ffi::luaopen_base,
                ffi::luaopen_table,
                ffi::luaopen_string,
                ffi::luaopen_math,
                ffi::luaopen_os,
                ffi::luaopen_io,
                ffi::luaopen_debug,
                ffi::luaopen_bit,
                ffi::luaopen_jit,
            ] {
                frame.push_native(open);
                if ffi::lua_pcall(main, 0, 0, 0) != 0 {
                    return Err(io::Error::other(frame.text(-1).unwrap_or_default()));
                }
            }
            if !COMPILES {
                luaJIT_setmode(main, 0, MODE_OFF);
            }
            frame.push_table(0, 2);
            frame.push_native(collect);
            frame.set_field(b"__gc");
            frame.push_bytes(b"object");
            frame.set_field(b"__metatable");
            vm.host.object_meta.set(frame.keep());
            let _ = vm.host.limit.set(limit_of_thread(&vm.host)?);
        }
        vm.host.memory.restore(before);
        Ok(vm)
    }
}

thread_local! {
    /// The watch over this thread, which all its states share.
    static LIMIT: RefCell<Weak<Limit>> = const { RefCell::new(Weak::new()) };
}

fn limit_of_thread(host: &Host) -> io::Result<Rc<Limit>> {
    LIMIT.with_borrow_mut(|known| {
        if let Some(limit) = known.upgrade() {
            return Ok(limit);
        }
        // SAFETY: promised where it is aimed, before each run.
        let limit = unsafe { Limit::new(host.settings.budget, ring, host.main.get().cast()) }?;
        let limit = Rc::new(limit);
        *known = Rc::downgrade(&limit);
        Ok(limit)
    })
}

impl Drop for Vm {
    fn drop(&mut self) {
        if let Some(limit) = self.host.limit.get() {
            // SAFETY: nothing runs until somebody aims again.
            unsafe { limit.aim(self.host.settings.budget, std::ptr::null_mut()) };
        }
        // Destructors of objects may still ask the host, which therefore forgets the state after it is closed.
        self.host.memory.relax();
        // SAFETY: nobody runs in it: runs end before they return.
        unsafe { ffi::lua_close(self.host.main.get()) };
        self.host.main.set(std::ptr::null_mut());
        self.host.coroutines.borrow_mut().clear();
        self.host.idle.borrow_mut().clear();
        self.host.threads.borrow_mut().clear();
        *self.host.timers.borrow_mut() = Timers::default();
        self.host.ready.borrow_mut().clear();
        if let Some(pump) = self.host.pump.borrow_mut().take() {
            pump.wake();
        }
    }
}

/// Runs something that pushes values onto the stack of the main thread, or of another one.
pub(crate) fn with_stack<R>(
    host: &Host,
    thread: *mut lua_State,
    work: impl FnOnce(&Frame<'_>) -> R,
) -> R {
    let before = host.memory.relax();
    // SAFETY: threads that the host knows live as long as the state, and none runs: runs end before anybody else is
    // called.
    let result = work(&unsafe { Frame::on(host, thread) });
    host.memory.restore(before);
    result
}

/// Pushes a string onto the stack of a thread that waits. The limit of memory has to be relaxed.
#[inline]
pub(crate) fn push_bytes(host: &Host, thread: *mut lua_State, bytes: &[u8]) {
    // SAFETY: as for `with_stack`.
    unsafe { Frame::on(host, thread) }.push_bytes(bytes);
}

/// Calls a function that lies on the main stack below so many arguments, before any coroutine runs; its results
/// are dropped. What goes wrong is answered.
pub(crate) fn call_main(host: &Host, arguments: i32, results: i32) -> Result<(), String> {
    let main = host.main.get();
    mark_stack(host);
    // SAFETY: the function and its arguments are on the stack.
    let status = within_budget(host, || unsafe { ffi::lua_pcall(main, arguments, results, 0) });
    if status == 0 {
        return Ok(());
    }
    Err(with_stack(host, main, |frame| {
        let said = message(frame);
        frame.pop();
        said
    }))
}

/// A new coroutine; what it will run and with which values is for the caller to push onto its stack, before it is
/// made ready or resumed.
pub(crate) fn create(host: &Host, owner: Option<Rc<dyn Owner>>) -> (Id, *mut lua_State) {
    let idle = host.idle.borrow_mut().pop();
    let Idle { thread, anchor } = idle.unwrap_or_else(|| {
        with_stack(host, host.main.get(), |frame| {
            // SAFETY: the limit of memory is relaxed; the registry keeps the thread.
            let thread = unsafe { ffi::lua_newthread(frame.state()) };
            Idle { thread, anchor: frame.keep() }
        })
    });
    let generation = host.next_number();
    let coroutine = Coroutine {
        thread,
        anchor,
        generation,
        status: Status::Ready,
        values: 0,
        owner,
        desk: None,
        bereft: false,
        exposed: false,
    };
    host.memory.charge(TASK);
    let id = Id { index: host.coroutines.borrow_mut().insert(coroutine), generation };
    host.threads.borrow_mut().insert(thread.addr(), id);
    (id, thread)
}

/// Whether a script may have one more task, or why not.
pub(crate) fn admit_task(frame: &Frame<'_>) -> Result<(), String> {
    let host = frame.host();
    if !host.has_room_for_a_task() {
        return Err(format!("there are {} tasks already (tasks)", host.settings.tasks));
    }
    admit(frame)
}

/// Whether a script may have one more timer, or why not.
pub(crate) fn admit_timer(frame: &Frame<'_>) -> Result<(), String> {
    let host = frame.host();
    if host.timers.borrow().calls() >= host.settings.tasks {
        return Err(format!("there are {} timers already (tasks)", host.settings.tasks));
    }
    admit(frame)
}

/// What the program makes for a script that takes none of its blocks must not exceed its memory either.
fn admit(frame: &Frame<'_>) -> Result<(), String> {
    let host = frame.host();
    if host.memory.room() >= ROOM {
        return Ok(());
    }
    let step = host.memory.limit() / 16;
    if host.memory.used() >= host.collected.get().saturating_add(step) {
        // SAFETY: a function of the program may collect; finalisers are ours.
        unsafe { ffi::lua_gc(frame.state(), ffi::LUA_GCCOLLECT, 0) };
        host.collected.set(host.memory.used());
    }
    if host.memory.room() >= ROOM { Ok(()) } else { Err("not enough memory".to_owned()) }
}

/// Runs a coroutine until it waits or ends, with so many values from its stack, and then those whom it made ready.
pub(crate) fn run(host: &Host, id: Id, values: i32) {
    run_in_line(host, id, values);
}

/// The same, for the one place that every line of a service goes through.
#[inline(always)]
pub(crate) fn run_in_line(host: &Host, id: Id, values: i32) {
    resume(host, id, values);
    run_ready(host);
}

/// Those who are ready at this moment; who becomes ready by them waits for the next turn of the loop. If they are many,
/// all of them wait: the loop sees to sockets, timers and signals between slices.
#[inline]
fn run_ready(host: &Host) {
    let turn = host.ready.borrow().len();
    match turn {
        0 => {}
        1..=SLICE => run_so_many(host, turn),
        _ => host.wake_pump(),
    }
}

/// The first of those who are ready.
pub(crate) fn run_slice(host: &Host) {
    let turn = host.ready.borrow().len();
    if turn > 0 {
        run_so_many(host, turn.min(SLICE));
    }
}

fn run_so_many(host: &Host, turn: usize) {
    let began = interrupt::tick();
    for _ in 0..turn {
        let Some(id) = host.ready.borrow_mut().pop_front() else { break };
        let found = host.coroutines.borrow().get(id.index).map(|it| (it.generation, it.values));
        let Some((_, values)) = found.filter(|(generation, _)| *generation == id.generation) else {
            continue;
        };
        resume(host, id, values);
        // One of them may have taken all of its budget.
        if interrupt::tick() != began {
            break;
        }
    }
    if !host.ready.borrow().is_empty() {
        host.wake_pump();
    }
}

#[inline(always)]
fn resume(host: &Host, id: Id, values: i32) {
    let thread = {
        let mut coroutines = host.coroutines.borrow_mut();
        let found = coroutines.get_mut(id.index).filter(|it| it.generation == id.generation);
        let Some(it) = found else { return };
        if let Some(desk) = &it.desk {
            desk.hand_over(values);
            return;
        }
        it.status = Status::Io;
        it.thread
    };
    match step(host, Some(id), thread, values) {
        ffi::LUA_YIELD if host.waits.take() => {}
        ffi::LUA_YIELD => fail(host, id, thread, Some(STRAY)),
        0 => finish(host, id),
        _ => fail(host, id, thread, None),
    }
    collect_if_near_the_limit(host);
}

/// What became of a coroutine that was run for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Started {
    /// It has returned.
    Over,
    /// It waits; the loop goes on with it.
    Waits,
}

/// Runs a coroutine for the first time.
///
/// # Errors
/// What it failed with; nobody else is told.
pub(crate) fn start(host: &Host, id: Id, thread: *mut lua_State) -> Result<Started, String> {
    host.set_status(id, Status::Io);
    let word = match step(host, Some(id), thread, 0) {
        ffi::LUA_YIELD if host.waits.take() => return Ok(Started::Waits),
        0 => {
            finish(host, id);
            return Ok(Started::Over);
        }
        ffi::LUA_YIELD => Some(STRAY),
        _ => None,
    };
    let said = word.map_or_else(|| with_stack(host, thread, message), str::to_owned);
    retire(host, id);
    Err(said)
}

/// What is wrong with a coroutine that gives way to nobody.
pub(crate) const STRAY: &str =
    "attempt to yield from a task: use task.wait, time.sleep or channels";

/// Runs a coroutine until it waits or ends, within its budget; the status of LuaJIT. Without an `id` it cannot wait.
// In line: once for each line of a service.
#[inline(always)]
pub(crate) fn step(host: &Host, id: Option<Id>, thread: *mut lua_State, values: i32) -> c_int {
    mark_stack(host);
    host.waits.set(false);
    host.current.set(id.map(|id| (id, thread)));
    // SAFETY: the thread is kept, is not running, and has the values on its stack.
    let status = within_budget(host, || unsafe { ffi::lua_resume_(thread, values) });
    host.current.set(None);
    status
}

/// Runs something of a state until it is through or has taken too long.
#[inline(always)]
fn within_budget(host: &Host, run: impl FnOnce() -> c_int) -> c_int {
    let limit = host.limit.get();
    if let Some(limit) = limit {
        // SAFETY: `ring` sets a hook, as LuaJIT allows in a handler; the state lives while it runs, and whoever runs
        // another one on this thread aims first.
        unsafe { limit.aim(host.settings.budget, host.main.get().cast()) };
        limit.begin();
    }
    let status = run();
    if let Some(limit) = limit
        && limit.end() == Rung::Yes
    {
        // SAFETY: the handler of the budget is silent after `end`; the state is not running.
        unsafe { ffi::lua_sethook(host.main.get(), None, 0, 0) };
        host.overrun.set(false);
    }
    status
}

/// What a coroutine waited for is there: its values are pushed onto its stack, and it runs. Nothing happens if it has
/// gone meanwhile, with its state or alone.
pub(crate) fn answer(host: &Host, id: Id, values: impl FnOnce(&Frame<'_>) -> i32) {
    let thread = {
        let coroutines = host.coroutines.borrow();
        let found = coroutines.get(id.index).filter(|it| it.generation == id.generation);
        let Some(it) = found else { return };
        it.thread
    };
    let count = with_stack(host, thread, values);
    run(host, id, count);
}

/// Whether nothing lies on the stack of a coroutine that ended: it returned nothing.
#[inline]
pub(crate) fn is_empty(thread: *mut lua_State) -> bool {
    // SAFETY: the caller keeps the thread, which has ended.
    unsafe { ffi::lua_gettop(thread) == 0 }
}

/// A coroutine that ended is ready for something else.
pub(crate) fn clear(thread: *mut lua_State) {
    // SAFETY: the caller keeps the thread, which has ended.
    unsafe { ffi::lua_settop(thread, 0) };
}

/// A coroutine is no more: nothing resumes it.
pub(crate) fn retire(host: &Host, id: Id) {
    let Some(Coroutine { anchor, .. }) = host.remove(id) else { return };
    give_up(host, anchor);
}

/// Lets go of a coroutine that has ended in the middle.
fn give_up(host: &Host, anchor: i32) {
    with_stack(host, host.main.get(), |frame| frame.forget(anchor));
    // It may have held all the memory there is, which the last collection has seen in use.
    host.collected.set(0);
}

/// What a coroutine failed with, and where: its message is on top of its stack, unless there is a word about it.
pub(crate) fn problem(host: &Host, thread: *mut lua_State, word: Option<&str>) -> String {
    with_stack(host, thread, |frame| {
        let said = word.map_or_else(|| message(frame), str::to_owned);
        traceback(frame, &said)
    })
}

/// Its function returned.
fn finish(host: &Host, id: Id) {
    let Some(Coroutine { thread, anchor, owner, exposed, .. }) = host.remove(id) else { return };
    // SAFETY: the thread is kept, and has ended.
    unsafe { ffi::lua_settop(thread, 0) };
    let mut idle = host.idle.borrow_mut();
    if !exposed && idle.len() < IDLE {
        idle.push(Idle { thread, anchor });
    } else {
        drop(idle);
        with_stack(host, host.main.get(), |frame| frame.forget(anchor));
    }
    if let Some(owner) = owner {
        owner.ended(Ending::Returned);
    }
}

/// It failed, with its message on top of its stack unless there is a word about it.
fn fail(host: &Host, id: Id, thread: *mut lua_State, word: Option<&str>) {
    let said = problem(host, thread, word);
    let removed = host.remove(id);
    let bereft = removed.as_ref().is_some_and(|it| it.bereft);
    let level = if bereft { Level::Debug } else { Level::Error };
    if level >= host.level.get() {
        host.say(level, &said);
    }
    let Some(Coroutine { anchor, owner, .. }) = removed else { return };
    give_up(host, anchor);
    if let Some(owner) = owner {
        owner.ended(Ending::Failed);
    }
}

/// The topmost value in words.
fn message(frame: &Frame<'_>) -> String {
    match frame.text(-1) {
        Some(text) => text,
        None => "(the error is no string)".to_owned(),
    }
}

/// A message with the functions that were running on the thread of the frame.
fn traceback(frame: &Frame<'_>, said: &str) -> String {
    // Whatever it holds: below it stand lines that nobody can forge.
    let mut line = Vec::new();
    push_log_line(&mut line, said.as_bytes());
    let Ok(text) = std::ffi::CString::new(line) else {
        return said.to_owned();
    };
    // SAFETY: pushes a string onto the same stack; if that is full, there is room for errors.
    unsafe {
        if !frame.reserve(20) {
            return said.to_owned();
        }
        luaL_traceback(frame.state(), frame.state(), text.as_ptr(), 0);
    }
    let text = frame.text(-1);
    frame.pop();
    text.unwrap_or_default()
}

/// LuaJIT does not collect when an allocation fails: garbage must not count as use for long.
#[inline]
pub(crate) fn collect_if_near_the_limit(host: &Host) {
    if host.memory.is_near_the_limit() {
        collect_soon(host);
    }
}

#[cold]
fn collect_soon(host: &Host) {
    let (used, limit) = (host.memory.used(), host.memory.limit());
    // What is in use after a collection cannot be collected again at once.
    if used < host.collected.get().saturating_add(limit / 16) {
        return;
    }
    collect_all(host);
    host.collected.set(host.memory.used());
}

/// Collects whatever the script has no more use for.
pub(crate) fn collect_all(host: &Host) {
    if host.main.get().is_null() {
        return;
    }
    with_stack(host, host.main.get(), |frame| {
        if let Some(place) = host.size_of.get() {
            // LuaJIT keeps the coroutine that used its library for C last, even if that has failed with all the memory
            // there is. Now it is the main thread.
            frame.push_kept(place);
            frame.push_bytes(b"int");
            // SAFETY: the function and its argument are on the stack; it calls nobody else.
            unsafe { ffi::lua_pcall(frame.state(), 1, 0, 0) };
        }
        // SAFETY: nothing runs; finalisers are ours.
        unsafe { ffi::lua_gc(frame.state(), ffi::LUA_GCCOLLECT, 0) };
    });
}

/// Says how much of the stack of the program may be used from here on.
#[inline]
fn mark_stack(host: &Host) {
    let here = 0_u8;
    host.stack_floor.set(std::ptr::from_ref(&here).addr().saturating_sub(STACK));
}

/// Runs in a signal handler, when a coroutine has run for too long.
unsafe fn ring(main: *mut ()) {
    // SAFETY: LuaJIT allows to set a hook from a handler; the state lives as long as its limit. Taken away first, so
    // that it takes effect if the state changed its ways just now.
    unsafe {
        ffi::lua_sethook(main.cast(), None, 0, 0);
        ffi::lua_sethook(main.cast(), Some(stop), ffi::LUA_MASKCOUNT, 1);
    }
}

/// What a run fails with that takes too long.
const OVERRUN: &CStr = c"it ran for too long without waiting for anything (budget)";

/// Whether the run that is under way has not used up its budget. Work that may take long asks now and then: the hook
/// ends scripts, not functions of the program.
#[inline]
pub(crate) fn may_go_on(host: &Host) -> bool {
    host.limit.get().is_none_or(|limit| limit.seen() == Rung::No)
}

/// Leaves with the error of a run that has taken too long.
#[cold]
pub(crate) fn raise_overrun(frame: &Frame<'_>) -> Reply {
    frame.host().overrun.set(true);
    frame.raise(&OVERRUN.to_string_lossy())
}

/// The hook: an error at every instruction, so that nothing a script catches it with goes on either.
unsafe extern "C-unwind" fn stop(state: *mut lua_State, _: *mut ffi::lua_Debug) {
    // SAFETY: leaves a frame that owns nothing; the limit of memory counts, which is an error just as well.
    unsafe {
        Frame::of(state).host().overrun.set(true);
        ffi::luaL_error(state, OVERRUN.as_ptr());
    }
}

/// `LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF` of luajit.h.
const MODE_OFF: c_int = 0;

unsafe extern "C-unwind" {
    fn luaJIT_setmode(state: *mut lua_State, index: c_int, mode: c_int) -> c_int;
    fn luaL_traceback(
        state: *mut lua_State,
        of: *mut lua_State,
        message: *const std::ffi::c_char,
        level: c_int,
    );
}
