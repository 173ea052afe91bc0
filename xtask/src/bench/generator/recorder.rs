//! A server that writes down when each request came and when its answer left, and delays answers on purpose.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fd::OwnedFd;

/// Nanoseconds since the server began.
pub type Nanos = u64;

/// What it knows of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// When it was read.
    pub came: Nanos,
    /// When its answer was written.
    pub left: Nanos,
}

/// When an answer is written: from the request's number and the moment it was read.
pub type Delay = fn(u64, Nanos) -> Nanos;

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!";
const END: &[u8] = b"\r\n\r\n";
/// How long it waits at most before it looks whether it should end.
const LOOK: Nanos = 50_000_000;
const LISTENER: u64 = u64::MAX;

/// A running recorder on a thread of its own; it ends when it is dropped or asked for its record.
#[derive(Debug)]
pub struct Recorder {
    /// Its port on 127.0.0.1.
    pub port: u16,
    /// The number the system knows its thread by.
    pub thread_id: i32,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<Vec<Entry>>>>,
}

impl Recorder {
    /// Starts one.
    pub fn start(delay: Delay) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let (name, named) = mpsc::channel();
        let thread = std::thread::Builder::new().name("recorder".to_owned()).spawn(move || {
            let _ = name.send(rustix::thread::gettid().as_raw_nonzero().get());
            let mut server = Serving::new(listener, delay)?;
            while !told.load(Ordering::Relaxed) {
                server.turn()?;
            }
            Ok(server.record)
        })?;
        let thread_id = named.recv().unwrap_or_default();
        Ok(Self { port, thread_id, stop, thread: Some(thread) })
    }

    /// Ends it. What it wrote down, in the order in which the requests were read.
    pub fn record(mut self) -> Result<Vec<Entry>, String> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().ok_or("the recorder has ended")?;
        let record = thread.join().map_err(|_| "the recorder broke".to_owned())?;
        record.map_err(|error| format!("the recorder: {error}"))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Connection {
    stream: TcpStream,
    /// The beginning of a request that is not whole.
    input: Vec<u8>,
}

struct Serving {
    epoll: OwnedFd,
    listener: TcpListener,
    delay: Delay,
    start: Instant,
    /// Never reused: a run opens each once.
    connections: Vec<Option<Connection>>,
    /// Answers to be written: when, to which request, on which connection.
    due: BinaryHeap<Reverse<(Nanos, usize, usize)>>,
    record: Vec<Entry>,
    scratch: Vec<u8>,
}

impl Serving {
    fn new(listener: TcpListener, delay: Delay) -> io::Result<Self> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::add(&set, &listener, data, epoll::EventFlags::IN)?;
        Ok(Self {
            epoll: set,
            listener,
            delay,
            start: Instant::now(),
            connections: Vec::new(),
            due: BinaryHeap::new(),
            // Room for a long run, so that it never stops to move what it wrote.
            record: Vec::with_capacity(1 << 20),
            scratch: vec![0; 64 * 1024],
        })
    }

    fn now(&self) -> Nanos {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Waits for the next request or the next answer that is due, and deals with all there are.
    fn turn(&mut self) -> io::Result<()> {
        let next = self.due.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
        let wait = Duration::from_nanos(next.saturating_sub(self.now()).min(LOOK));
        let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
        // In nanoseconds, which waiting for the events themselves is not.
        let _ = poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&wait));
        let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&none))?;
        for event in &events {
            match event.data.u64() {
                LISTENER => self.accept()?,
                number => self.read(number as usize),
            }
        }
        self.answer();
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let data = epoll::EventData::new_u64(self.connections.len() as u64);
            epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN)?;
            self.connections.push(Some(Connection { stream, input: Vec::new() }));
        }
    }

    fn read(&mut self, number: usize) {
        let Some(Some(connection)) = self.connections.get_mut(number) else { return };
        let length = match connection.stream.read(&mut self.scratch) {
            Ok(length @ 1..) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Ok(_) | Err(_) => {
                self.connections[number] = None;
                return;
            }
        };
        connection.input.extend_from_slice(&self.scratch[..length]);
        let mut whole = 0;
        while let Some(at) = connection.input.windows(END.len()).position(|it| it == END) {
            connection.input.drain(..at + END.len());
            whole += 1;
        }
        let came = self.now();
        for _ in 0..whole {
            let request = self.record.len();
            self.record.push(Entry { came, left: 0 });
            let at = (self.delay)(request as u64, came);
            self.due.push(Reverse((at, request, number)));
        }
    }

    /// Writes the answers that are due.
    fn answer(&mut self) {
        while let Some(&Reverse((at, request, number))) = self.due.peek() {
            if at > self.now() {
                return;
            }
            self.due.pop();
            if let Some(Some(Connection { stream, .. })) = self.connections.get_mut(number) {
                // An answer this short fits, or the client has gone, and its own report tells.
                let _ = stream.write_all(ANSWER);
            }
            self.record[request].left = self.now();
        }
    }
}

/// At once.
pub fn at_once(_: u64, came: Nanos) -> Nanos {
    came
}

const MILLISECOND: Nanos = 1_000_000;

/// After 10 to 40 ms, and not at all in 200 ms of each second: what is due then is written at their end.
pub fn slowly(request: u64, came: Nanos) -> Nanos {
    let due = came + 10 * MILLISECOND + scattered(request) % (30 * MILLISECOND);
    let within = due % (1000 * MILLISECOND);
    if within < 200 * MILLISECOND { due - within + 200 * MILLISECOND } else { due }
}

/// A number that looks like chance and is the same each time (splitmix64).
fn scattered(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_are_written_down() {
        let recorder = Recorder::start(|_, came| came + MILLISECOND).unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", recorder.port)).unwrap();
        let mut answer = vec![0; ANSWER.len()];
        for part in ["GET / HTTP/1.1\r\nHost", ": a\r\n\r\n"] {
            stream.write_all(part.as_bytes()).unwrap();
        }
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, ANSWER);
        // Two at once, and the end right behind.
        stream.write_all(b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n").unwrap();
        stream.read_exact(&mut answer).unwrap();
        stream.read_exact(&mut answer).unwrap();
        drop(stream);
        let record = recorder.record().unwrap();
        assert_eq!(record.len(), 3);
        assert!(record.iter().all(|entry| entry.left >= entry.came + MILLISECOND), "{record:?}");
        assert!(record[1].came >= record[0].left);
    }

    #[test]
    fn delays_are_spread_and_hold_back_what_falls_into_the_pause() {
        let second = 1000 * MILLISECOND;
        let calm: Vec<u64> = (0..1000)
            .map(|n| slowly(n, second + 500 * MILLISECOND))
            .map(|at| at % second)
            .collect();
        assert!(calm.iter().all(|at| (510 * MILLISECOND..540 * MILLISECOND).contains(at)));
        let mean = calm.iter().sum::<u64>() / 1000 / MILLISECOND;
        assert!((524..=526).contains(&mean), "{mean}");
        assert_eq!(slowly(7, 3 * second), 3 * second + 200 * MILLISECOND);
        assert!(slowly(7, 3 * second - 5 * MILLISECOND) >= 3 * second);
    }
}
