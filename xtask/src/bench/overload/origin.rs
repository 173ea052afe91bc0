//! A server with a fixed capacity that does not notice when clients leave, as many application servers do.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Requests that are worked on at a time.
pub(super) const SLOTS: u64 = 8;
/// How long each takes.
pub(super) const WORK: Duration = Duration::from_millis(10);
/// Stack of the thread of a connection: there are thousands.
const STACK: usize = 64 * 1024;

/// The server; its threads end with the program.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) port: u16,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    slots: Mutex<Slots>,
}

/// Who is worked on, and who waits for that.
#[derive(Debug, Default)]
struct Slots {
    taken: u64,
    /// In the order of arrival; each is told by a channel of its own, so that no other thread wakes up.
    waiting: VecDeque<Sender<()>>,
}

impl Origin {
    pub(super) fn start() -> Result<Self, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
        let port = listener.local_addr().map_err(|e| e.to_string())?.port();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                let thread = std::thread::Builder::new().stack_size(STACK);
                let _ = thread.spawn(move || state.serve(stream));
            }
        });
        Ok(Self { port, state })
    }

    /// Requests that wait or are worked on, those included whose client is gone.
    pub(super) fn backlog(&self) -> u64 {
        let slots = self.state.slots();
        slots.taken + slots.waiting.len() as u64
    }
}

impl State {
    fn serve(&self, mut stream: TcpStream) {
        let (mut seen, mut piece) = (Vec::new(), [0; 2048]);
        while let Ok(count @ 1..) = stream.read(&mut piece) {
            seen.extend_from_slice(&piece[..count]);
            if !seen.ends_with(b"\r\n\r\n") {
                continue;
            }
            seen.clear();
            self.work();
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                return;
            }
        }
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a slot and holds it while the work is done.
    fn work(&self) {
        let turn = {
            let mut slots = self.slots();
            if slots.taken < SLOTS {
                slots.taken += 1;
                None
            } else {
                let (sender, turn) = channel();
                slots.waiting.push_back(sender);
                Some(turn)
            }
        };
        // Who was told has the slot of the one who told it.
        turn.map(|turn| turn.recv());
        std::thread::sleep(WORK);
        let mut slots = self.slots();
        match slots.waiting.pop_front() {
            Some(next) => drop(next.send(())),
            None => slots.taken -= 1,
        }
    }
}
