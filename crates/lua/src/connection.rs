//! A connection of a script: what it reads lies ready here, what it writes is gathered here, and a task of its own
//! moves both.

use std::cell::{Cell, OnceCell, RefCell, RefMut};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mlua_sys::lua_State;
use sluice_conn::linger;
use sluice_net::{Deadline, Nanos, PeerAddress, Stream, now, spawn};

use crate::buffer::{Came, Input, Output};
use crate::cause::Cause;
use crate::frame::Housed;
use crate::held::Held;
use crate::host::{Ending, Host, Id, Owner};
use crate::intake::Hold;
use crate::settings::{Level, WriteFull};
use crate::unsent::Sender;
use crate::vm;

/// How long the peers of connections that scripts forgot may have been gone before somebody looks for them.
const FORSAKEN: Duration = Duration::from_secs(1);

/// More than so many bytes do not wait for anything: they are worth a system call.
const SOON: usize = 4096;

/// A coroutine that waits for bytes; which ones, the input knows.
#[derive(Clone, Copy)]
pub(crate) struct Reader {
    pub(crate) id: Id,
    pub(crate) thread: *mut lua_State,
    /// Until when; `Nanos::MAX` if it has the time.
    pub(crate) until: Nanos,
}

/// Whether the handler of a connection still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handler {
    /// It may read and write.
    Runs,
    /// It has returned; what it gave the connection to may.
    Returned,
}

/// A connection as scripts see it.
pub(crate) struct Connection {
    host: Rc<Host>,
    pub(crate) number: u64,
    pub(crate) peer: PeerAddress,
    pub(crate) input: RefCell<Input>,
    pub(crate) output: RefCell<Output>,
    reader: Cell<Option<Reader>>,
    /// Those whose writes are too much at the moment.
    held: Held,
    /// That of the task, once it has run.
    waker: OnceCell<Waker>,
    /// Absent when the task has ended: what scripts hold keeps no socket open.
    stream: RefCell<Option<Rc<Stream>>>,
    /// It is open, nobody waits until something is written, and little waits for that: there is nothing to look at but
    /// whether somebody reads.
    calm: Cell<bool>,
    /// So many bytes may wait until others have been read.
    soon: usize,
    /// The task of the connection is at work and will look at everything before it waits.
    driving: Cell<bool>,
    closed: Cell<bool>,
    /// The peer is not to take what it got for the whole.
    broken: Cell<bool>,
    ended: Cell<Option<Cause>>,
    /// The script has been told of the end.
    told: Cell<bool>,
    handler: Cell<Handler>,
    /// Most bytes taken from the kernel before the script has read them.
    pub(crate) room: Cell<usize>,
    /// Most bytes that may wait for the present reader.
    pub(crate) bound: Cell<usize>,
}

impl Connection {
    /// A connection that is driven from now on; what it holds, it holds until its stream is closed.
    pub(crate) fn start(
        host: &Rc<Host>,
        (stream, peer): (Stream, PeerAddress),
        hold: Option<Hold>,
    ) -> Rc<Self> {
        let stream = Rc::new(stream);
        let connection = Rc::new(Self {
            host: Rc::clone(host),
            number: host.next_number(),
            peer,
            input: RefCell::default(),
            output: RefCell::default(),
            reader: Cell::default(),
            held: Held::default(),
            waker: OnceCell::new(),
            stream: RefCell::new(Some(Rc::clone(&stream))),
            calm: Cell::new(true),
            soon: SOON.min(host.settings.write_limit),
            driving: Cell::default(),
            closed: Cell::default(),
            broken: Cell::default(),
            ended: Cell::default(),
            told: Cell::default(),
            handler: Cell::new(Handler::Runs),
            room: Cell::new(usize::MAX),
            bound: Cell::new(host.settings.read_limit),
        });
        let driver = Driver { stream, deadline: None, linger: None, forsaken: false };
        let driving = drive(Rc::clone(&connection), driver);
        match hold {
            None => spawn(driving),
            Some(hold) => spawn(async move {
                driving.await;
                drop(hold);
            }),
        }
        connection
    }

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Why nothing more comes from the peer; absent as long as something may.
    #[inline]
    pub(crate) fn ended(&self) -> Option<Cause> {
        self.ended.get()
    }

    /// The script is told of the end now.
    pub(crate) fn tell_end(&self) {
        self.told.set(true);
    }

    #[inline]
    pub(crate) fn has_reader(&self) -> bool {
        self.reader.get().is_some()
    }

    /// A coroutine waits from now on.
    #[inline]
    pub(crate) fn set_reader(&self, reader: Reader) {
        self.reader.set(Some(reader));
        self.wake();
    }

    /// Has the task of the connection look at everything.
    #[inline]
    pub(crate) fn wake(&self) {
        if self.driving.get() {
            return;
        }
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }

    /// Takes bytes for the peer.
    // In line: once for each line of a service.
    #[inline(always)]
    pub(crate) fn write(&self, bytes: &[u8]) -> Taken {
        let waiting = self.output.borrow_mut().append(bytes);
        self.wake();
        if waiting <= self.soon { Taken::Now } else { self.take_more(waiting) }
    }

    /// Has taken so much that it does not wait for anything, and perhaps too much.
    #[inline(never)]
    fn take_more(&self, waiting: usize) -> Taken {
        self.calm.set(false);
        let limit = self.host.settings.write_limit;
        if waiting <= limit {
            return Taken::Now;
        }
        if self.host.settings.write_full == WriteFull::Wait {
            return Taken::Later;
        }
        let line =
            format!("{self}: closed, since more than {limit} bytes wait for the peer to read");
        self.host.say(Level::Error, &line);
        self.end(Cause::NO_BUFFERS);
        self.abort();
        Taken::Never
    }

    /// A coroutine waits until the peer has taken what it wrote.
    pub(crate) fn hold(&self, id: Id, thread: *mut lua_State) {
        self.held.add(id, thread);
        self.calm.set(false);
        self.wake();
    }

    /// Lets writers go on if there is room again, or never will be.
    #[cold]
    fn let_go(&self) {
        let waiting = self.output.borrow().len();
        match self.ended.get().filter(|cause| *cause != Cause::End) {
            Some(cause) => self.held.release(&self.host, Err(cause)),
            None if waiting <= self.host.settings.write_limit / 2 => {
                self.held.release(&self.host, Ok(()));
            }
            None => {}
        }
    }

    /// Nothing more is read or written by the script. What was written still goes out.
    pub(crate) fn close(&self) {
        self.shut();
        self.input.borrow_mut().release();
        if let Some(reader) = self.reader.take() {
            self.answer_later(reader, Cause::Closed);
        }
        self.held.release(&self.host, Err(Cause::Closed));
        self.wake();
    }

    /// The end, now, and so that the peer sees that something is missing.
    pub(crate) fn abort(&self) {
        self.broken.set(true);
        self.output.borrow_mut().release();
        self.close();
    }

    /// Nothing more is read or written by the script.
    fn shut(&self) {
        self.closed.set(true);
        self.calm.set(false);
    }

    /// Nothing more comes from the peer.
    #[cold]
    fn end(&self, cause: Cause) {
        self.ended.set(Some(cause));
        self.calm.set(false);
        // Whoever reads is to hear of it.
        self.wake();
    }

    /// Looks whether it is [calm](Self::calm) again.
    fn calm_down(&self) {
        let open = !self.closed.get() && self.ended.get().is_none();
        self.calm.set(open && self.held.is_empty() && self.output.borrow().len() <= self.soon);
    }

    /// Whether somebody waits for bytes who has the time, and nothing else is to be looked at.
    #[inline]
    fn rests(&self) -> bool {
        let patient = |reader: Reader| reader.until == Nanos::MAX;
        self.calm.get() && self.bound.get() > 0 && self.reader.get().is_some_and(patient)
    }

    /// Writes what the kernel takes.
    #[inline(always)]
    fn send(&self, stream: &Stream, cx: &Context<'_>) {
        let mut output = self.output.borrow_mut();
        while !output.is_empty() {
            match stream.poll_write(cx, output.content()) {
                Poll::Ready(Ok(written)) => output.consume(written),
                Poll::Ready(Err(error)) => {
                    output.release();
                    self.end(Cause::of(&error));
                }
                Poll::Pending => return,
            }
        }
    }

    /// Has what was written go out before the turn ends.
    #[inline(always)]
    fn send_soon(self: &Rc<Self>) {
        if !self.output.borrow().is_empty() {
            let sender = Rc::clone(self);
            self.host.unsent.add(sender);
        }
    }

    /// A reader that is told by the queue, since somebody else runs.
    fn answer_later(&self, reader: Reader, cause: Cause) {
        vm::with_stack(&self.host, reader.thread, |frame| frame.fail(cause.text().as_bytes()));
        self.host.make_ready(reader.id, 2);
    }
}

impl std::fmt::Display for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.peer {
            PeerAddress::Tcp(address) => write!(f, "connection of {address}"),
            PeerAddress::Unix => f.write_str("connection of a Unix-domain socket"),
        }
    }
}

impl Owner for Connection {
    fn ended(&self, ending: Ending) {
        self.handler.set(Handler::Returned);
        if ending == Ending::Failed {
            self.close();
        }
        self.wake();
    }
}

/// Whether bytes for a peer were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Now,
    /// They were, and whoever wrote them waits until enough are gone.
    Later,
    /// Too many wait, which is the end of the connection.
    Never,
}

impl Sender for Connection {
    #[inline]
    fn send_late(&self) {
        if let (Some(stream), Some(waker)) = (&*self.stream.borrow(), self.waker.get()) {
            self.send(stream, &Context::from_waker(waker));
        }
    }
}

/// What a script holds of a connection: when it is collected, nobody will read or write any more.
pub(crate) struct Handle(pub(crate) Rc<Connection>);

impl Housed for Handle {
    #[inline]
    fn host(&self) -> &Host {
        &self.0.host
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let connection = &self.0;
        // No reader or writer can be left: a coroutine that waits holds its arguments.
        connection.shut();
        connection.wake();
    }
}

/// Whether the task has something to look at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Again,
    Wait,
}

/// What the task of a connection owns.
struct Driver {
    stream: Rc<Stream>,
    /// Made when somebody first waits with a timeout.
    deadline: Option<Deadline>,
    /// When what is left of a closed connection is given up.
    linger: Option<Nanos>,
    /// Told once that nobody may be interested in it any more.
    forsaken: bool,
}

/// The task of a connection.
async fn drive(connection: Rc<Connection>, mut driver: Driver) {
    let parting = poll_fn(|cx| {
        connection.waker.get_or_init(|| cx.waker().clone());
        connection.driving.set(true);
        let polled = driver.drive(&connection, cx);
        connection.driving.set(false);
        polled
    });
    let parting = parting.await;
    connection.stream.take();
    // Whoever still sends would get a reset instead of the last answer.
    if parting == Parting::InPeace && connection.ended.get().is_none() {
        linger(&driver.stream, &Deadline::new()).await;
    }
}

/// How a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parting {
    /// The peer has got everything.
    InPeace,
    /// It is to see that something is missing.
    Abrupt,
}

impl Driver {
    // In line: once for each line of a service.
    #[inline(always)]
    fn drive(&mut self, connection: &Rc<Connection>, cx: &Context<'_>) -> Poll<Parting> {
        loop {
            let reader = connection.reader.get();
            if !(reader.is_some() && connection.calm.get())
                && let Some(parting) = self.settle(connection, cx)
            {
                return parting;
            }
            let next = match reader {
                Some(reader) => self.feed(connection, reader, cx),
                None => self.watch(connection, cx),
            };
            if next == Next::Wait {
                connection.send_soon();
                return Poll::Pending;
            }
        }
    }

    /// What comes before everything else if it cannot wait: writing, writers, the end.
    #[inline(never)]
    fn settle(&mut self, connection: &Connection, cx: &Context<'_>) -> Option<Poll<Parting>> {
        connection.send(&self.stream, cx);
        if !connection.held.is_empty() {
            connection.let_go();
        }
        connection.calm_down();
        connection.closed.get().then(|| self.part(connection, cx))
    }

    /// Somebody waits for bytes: more than there are, by what was looked at before.
    #[inline(always)]
    fn feed(&mut self, connection: &Connection, reader: Reader, cx: &Context<'_>) -> Next {
        let mut input = connection.input.borrow_mut();
        loop {
            if let Some(cause) = hopeless(connection, reader, input.len()) {
                drop(input);
                disappoint(connection, reader, cause);
                return Next::Again;
            }
            let read = if input.is_at_rest() {
                let host = &*connection.host;
                let before = host.memory.relax();
                let (read, came) = input.read_at_rest(
                    |bytes| self.stream.poll_read(cx, bytes),
                    // What every line of a service goes through: pushed by hand.
                    |line| vm::push_bytes(host, reader.thread, line),
                );
                host.memory.restore(before);
                match came {
                    Came::Whole => {
                        connection.reader.set(None);
                        drop(input);
                        vm::run_in_line(host, reader.id, 1);
                        // Nearly always the same waits again, for what is not there.
                        let waits =
                            connection.rests() && self.stream.poll_readable(cx).is_pending();
                        return if waits { Next::Wait } else { Next::Again };
                    }
                    Came::Other(Some(length)) => {
                        hand_over(connection, reader, input, length);
                        return Next::Again;
                    }
                    // Not enough: more may lie in the socket.
                    Came::Other(None) => continue,
                    Came::Nothing => read,
                }
            } else if self.stream.poll_readable(cx).is_ready() {
                self.stream.poll_read(cx, input.tail(connection.room.get()))
            } else {
                Poll::Pending
            };
            match read {
                Poll::Ready(Ok(0)) => connection.end(Cause::End),
                Poll::Ready(Ok(_)) => {
                    if let Some(length) = input.find() {
                        hand_over(connection, reader, input, length);
                        return Next::Again;
                    }
                }
                Poll::Ready(Err(error)) => connection.end(Cause::of(&error)),
                Poll::Pending => {
                    input.rest();
                    return self.wait(reader.until, cx);
                }
            }
        }
    }

    /// Nothing to read, for a while or for as long as it takes.
    #[inline]
    fn wait(&mut self, until: Nanos, cx: &Context<'_>) -> Next {
        if until == Nanos::MAX {
            return Next::Wait;
        }
        let deadline = self.deadline.get_or_insert_with(Deadline::new);
        if deadline.poll_at(until, cx).is_ready() { Next::Again } else { Next::Wait }
    }

    /// Nobody waits for bytes: is anybody going to?
    fn watch(&mut self, connection: &Connection, cx: &Context<'_>) -> Next {
        connection.input.borrow_mut().rest();
        if connection.handler.get() == Handler::Runs {
            return Next::Wait;
        }
        if connection.told.get() && connection.output.borrow().is_empty() {
            connection.shut();
            return Next::Again;
        }
        if !self.forsaken && self.stream.poll_closed(cx).is_ready() {
            self.forsaken = true;
            forsake(&connection.host);
        }
        Next::Wait
    }

    /// Closed by the script: what is left goes out, for a while.
    fn part(&mut self, connection: &Connection, cx: &Context<'_>) -> Poll<Parting> {
        if !connection.broken.get() {
            if connection.output.borrow().is_empty() {
                return Poll::Ready(Parting::InPeace);
            }
            let linger = now().saturating_add(nanos(connection.host.settings.linger));
            let until = *self.linger.get_or_insert(linger);
            let deadline = self.deadline.get_or_insert_with(Deadline::new);
            if deadline.poll_at(until, cx).is_pending() {
                return Poll::Pending;
            }
        }
        self.stream.abort_on_close();
        Poll::Ready(Parting::Abrupt)
    }
}

/// Why a reader will never get what it waits for; absent if it still may.
#[inline]
fn hopeless(connection: &Connection, reader: Reader, waiting: usize) -> Option<Cause> {
    if let Some(cause) = connection.ended.get() {
        return Some(cause);
    }
    if waiting >= connection.bound.get() {
        return Some(Cause::NO_BUFFERS);
    }
    (reader.until != Nanos::MAX && reader.until <= now()).then_some(Cause::TIMED_OUT)
}

/// Resumes a reader with what it wants: the first bytes.
#[inline]
fn hand_over(connection: &Connection, reader: Reader, mut input: RefMut<'_, Input>, length: usize) {
    let host = &*connection.host;
    connection.reader.set(None);
    // What every line of a service goes through: pushed by hand.
    let before = host.memory.relax();
    vm::push_bytes(host, reader.thread, input.take(length));
    host.memory.restore(before);
    drop(input);
    vm::run_in_line(host, reader.id, 1);
}

/// Resumes a reader with what went wrong.
#[cold]
fn disappoint(connection: &Connection, reader: Reader, cause: Cause) {
    connection.reader.set(None);
    if connection.ended.get().is_some() {
        connection.told.set(true);
    }
    let host = &connection.host;
    vm::with_stack(host, reader.thread, |frame| frame.fail(cause.text().as_bytes()));
    vm::run(host, reader.id, 2);
}

/// The handler of a connection has returned and its peer has left: if the script has forgotten it, only the collector
/// can tell. It is asked once for all that come together.
fn forsake(host: &Rc<Host>) {
    host.forsaken.set(host.forsaken.get() + 1);
    if host.forsaken.get() > 1 {
        return;
    }
    let host = Rc::clone(host);
    spawn(async move {
        Deadline::new().sleep(FORSAKEN).await;
        host.forsaken.set(0);
        vm::collect_all(&host);
    });
}

/// What saturates is 584 years.
pub(crate) fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
