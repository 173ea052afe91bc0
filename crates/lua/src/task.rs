//! `silly.task` and `silly.time`: coroutines that start each other, wait for each other, and wait for time to pass.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use sluice_net::{Deadline, Nanos, now, precise_now, unix_ms};

use crate::connection::nanos;
use crate::frame::{Frame, Kind, Reply, native};
use crate::host::{Host, Status};
use crate::tcp::{milliseconds, no_task};
use crate::vm;

/// Bytes that the program keeps for a timer.
const TIMER: usize = 256;

native!(native_fork, fork);
native!(native_running, running);
native!(native_wait, wait);
native!(native_wakeup, wakeup);
native!(native_status, status);
native!(native_ready, ready);
native!(native_all, all);
native!(native_sleep, sleep);
native!(native_after, after);
native!(native_cancel, cancel);
native!(native_now, wall_clock);
native!(native_monotonic, monotonic);
native!(native_elapsed, elapsed);

/// `fork(function, ...)`: the new coroutine, which runs once this one waits.
fn fork(frame: &Frame<'_>) -> Reply {
    if frame.kind(1) != Kind::Function {
        return frame.raise("bad argument #1 to 'fork': a function is expected");
    }
    if let Err(word) = vm::admit_task(frame) {
        return frame.raise(&word);
    }
    let host = frame.host();
    let values = frame.count();
    let (id, thread) = vm::create(host, None);
    let room = vm::with_stack(host, thread, |other| other.reserve(values));
    if !room || !frame.reserve(1) {
        return frame.raise("too many arguments to 'fork'");
    }
    for index in 1..=values {
        frame.push_copy(index);
        frame.move_to(thread);
    }
    host.expose(id);
    host.make_ready(id, values - 1);
    frame.push_thread(thread);
    Reply::Values(1)
}

/// `running()`: the coroutine that runs.
fn running(frame: &Frame<'_>) -> Reply {
    let host = frame.host();
    match host.current.get() {
        Some((id, thread)) => {
            host.expose(id);
            frame.push_thread(thread);
        }
        None => frame.push_nil(),
    }
    Reply::Values(1)
}

/// `wait()`: what `wakeup` is given.
fn wait(frame: &Frame<'_>) -> Reply {
    let host = frame.host();
    let Some(id) = frame.task() else { return no_task(frame) };
    host.set_status(id, Status::Wait);
    Reply::Wait
}

/// `wakeup(task, value)`.
fn wakeup(frame: &Frame<'_>) -> Reply {
    let host = frame.host();
    let Some(thread) = frame.thread(1) else {
        return frame.raise("bad argument #1 to 'wakeup': a task is expected");
    };
    let found = host.find(thread).and_then(|id| Some((id, host.status(id)?)));
    match found {
        Some((id, Status::Wait)) => {
            frame.push_copy(2);
            frame.move_to(thread);
            host.make_ready(id, 1);
            Reply::Values(0)
        }
        Some((_, other)) => {
            frame.raise(&format!("wakeup of a task that does not wait: it is {}", word(other)))
        }
        None => frame.raise("wakeup of a task that has ended"),
    }
}

const fn word(status: Status) -> &'static str {
    match status {
        Status::Run => "RUN",
        Status::Ready => "READY",
        Status::Wait | Status::Io => "WAIT",
        Status::Sleep => "SLEEP",
    }
}

/// `status(task)`: nil if it has ended.
fn status(frame: &Frame<'_>) -> Reply {
    let host = frame.host();
    let found = frame.thread(1).and_then(|thread| host.status(host.find(thread)?));
    match found {
        Some(status) => frame.push_bytes(word(status).as_bytes()),
        None => frame.push_nil(),
    }
    Reply::Values(1)
}

/// `readycount()`.
fn ready(frame: &Frame<'_>) -> Reply {
    let count = frame.host().ready.borrow().len();
    frame.push_count(u64::try_from(count).unwrap_or(u64::MAX));
    Reply::Values(1)
}

/// All coroutines, as keys of a table with what they are at.
fn all(frame: &Frame<'_>) -> Reply {
    let host = frame.host();
    let running = host.current.get().map(|(_, thread)| thread);
    let list: Vec<_> = {
        let mut coroutines = host.coroutines.borrow_mut();
        let all = coroutines.iter_mut();
        all.map(|(_, it)| {
            it.exposed = true;
            (it.thread, if running == Some(it.thread) { Status::Run } else { it.status })
        })
        .collect()
    };
    frame.push_table(0, i32::try_from(list.len()).unwrap_or(0));
    for (thread, status) in list {
        frame.push_thread(thread);
        frame.push_bytes(word(status).as_bytes());
        frame.set_pair();
    }
    Reply::Values(1)
}

/// `sleep(ms)`.
fn sleep(frame: &Frame<'_>) -> Reply {
    let Some(number) = frame.number(1) else {
        return frame.raise("bad argument #1 to 'sleep': milliseconds are expected");
    };
    let host = frame.host();
    let Some(id) = frame.task() else { return no_task(frame) };
    host.set_status(id, Status::Sleep);
    host.timers.borrow_mut().wake(due(number), id.generation, id);
    host.wake_pump();
    Reply::Wait
}

/// When so many milliseconds are over.
fn due(number: f64) -> Nanos {
    now().saturating_add(nanos(milliseconds(number)))
}

/// `after(ms, {function, argument})`: a number to cancel it by.
fn after(frame: &Frame<'_>) -> Reply {
    let (Some(number), Kind::Table) = (frame.number(1), frame.kind(2)) else {
        return frame.raise("bad argument #1 to 'after': milliseconds are expected");
    };
    if let Err(word) = vm::admit_timer(frame) {
        return frame.raise(&word);
    }
    let host = frame.host();
    let session = host.next_number();
    frame.push_copy(2);
    let call = frame.keep();
    host.memory.charge(TIMER);
    host.timers.borrow_mut().call(due(number), session, call);
    host.wake_pump();
    frame.push_count(session);
    Reply::Values(1)
}

/// Runs who is ready when nobody else does, and whatever is due, until the state is closed.
pub(crate) async fn pump(host: Rc<Host>) {
    let deadline = Deadline::new();
    poll_fn(|cx| {
        if host.main.get().is_null() {
            return Poll::Ready(());
        }
        {
            let mut pump = host.pump.borrow_mut();
            if pump.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
                *pump = Some(cx.waker().clone());
            }
        }
        ring(&host);
        vm::run_slice(&host);
        let next = host.timers.borrow().next(host.crowded.get());
        if next.is_some_and(|at| deadline.poll_at(at, cx).is_ready()) {
            host.wake_pump();
        }
        Poll::Pending
    })
    .await;
}

/// Makes ready whoever has slept long enough, and tasks for what is to be called now; the slices run them.
fn ring(host: &Host) {
    let now = now();
    while let Some(id) = host.timers.borrow_mut().pop_wake(now) {
        host.make_ready(id, 0);
    }
    loop {
        if !host.has_room_for_a_task() {
            host.crowded.set(host.timers.borrow().is_call_due(now));
            return;
        }
        let Some(call) = host.timers.borrow_mut().pop_call(now) else { return };
        host.memory.release(TIMER);
        let (id, thread) = vm::create(host, None);
        vm::with_stack(host, thread, |frame| {
            frame.push_kept(call);
            frame.push_element(1, 1);
            frame.push_element(1, 2);
            frame.forget(call);
            frame.remove(1);
        });
        host.make_ready(id, 1);
    }
}

/// `cancel(session)`: the argument it had been given, if it was still to come.
fn cancel(frame: &Frame<'_>) -> Reply {
    let host = frame.host();
    let session = frame.integer(1).and_then(|number| u64::try_from(number).ok());
    let Some(call) = session.and_then(|session| host.timers.borrow_mut().cancel(session)) else {
        frame.push_nil();
        return Reply::Values(1);
    };
    host.memory.release(TIMER);
    frame.push_kept(call);
    frame.push_element(-1, 2);
    frame.forget(call);
    Reply::Values(1)
}

/// `now()`: milliseconds since 1970.
fn wall_clock(frame: &Frame<'_>) -> Reply {
    frame.push_count(unix_ms());
    Reply::Values(1)
}

/// `monotonic()`: milliseconds of a clock that is never set.
fn monotonic(frame: &Frame<'_>) -> Reply {
    frame.push_count(now() / 1_000_000);
    Reply::Values(1)
}

/// Nanoseconds at this very moment, for measuring.
fn elapsed(frame: &Frame<'_>) -> Reply {
    frame.push_count(precise_now());
    Reply::Values(1)
}
