//! An origin that fails in every way there is, and changes its mind while it runs.

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::exchange::{After, Exchange};
use crate::origin::{Gate, Origin};
use crate::response::Fields;

/// What a [`FaultOrigin`] does with requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// 200, with the origin's name as content.
    Good,
    /// The same, so much later.
    Slow(Duration),
    /// This status.
    Status(u16),
    /// Nothing, for as long as the mode lasts.
    Hang,
    /// Takes the request and closes.
    CloseBeforeHead,
    /// Takes the request and resets.
    ResetBeforeHead,
    /// Sends a head that promises content, and resets.
    ResetAfterHead,
    /// Sends half of the content it promised, and closes.
    HalfBody,
    /// Sends more content than it promised, and closes.
    ExcessBody,
    /// Reads the request's content a little at a time, with this pause between the pieces.
    SlowReads(Duration),
    /// Every other request fails with 500.
    Flapping,
    /// Nobody listens: connections are refused, open ones are closed.
    Gone,
}

/// An origin whose mode can be changed, at an address that stays its own while it is gone.
#[derive(Debug)]
pub struct FaultOrigin {
    name: String,
    address: String,
    shared: Arc<Shared>,
    origin: Mutex<Option<Origin>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    mode: Mode,
    /// Opens when the mode ends, for those who hang.
    over: Gate,
    flaps: u64,
    /// Requests for which it was decided what becomes of them.
    decided: u64,
}

/// The next loopback address. Clients' own ports are on 127.0.0.1, so nobody takes a port here while
/// its origin is gone.
static NEXT: AtomicU16 = AtomicU16::new(0);

impl FaultOrigin {
    /// A good origin of this name at a loopback address of its own.
    ///
    /// # Panics
    /// When it cannot listen there.
    #[must_use]
    pub fn start(name: &str) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let [process, _] = std::process::id().to_be_bytes()[2..] else { unreachable!("two bytes") };
        let place = format!("127.{}.{}.{}:0", 64 + process / 2, number / 250, 1 + number % 250);
        let state = State { mode: Mode::Good, over: Gate::new(), flaps: 0, decided: 0 };
        let shared = Arc::new(Shared { state: Mutex::new(state) });
        let origin = listen(&place, name, &shared);
        let address = origin.address().to_owned();
        Self { name: name.to_owned(), address, shared, origin: Mutex::new(Some(origin)) }
    }

    /// Where it listens, or will again.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What it sends as content when it is good.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// From now on it does this.
    ///
    /// # Panics
    /// When it cannot listen again at its address.
    pub fn set(&self, mode: Mode) {
        let before = self.shared.change(mode);
        let mut origin = self.origin.lock().unwrap_or_else(PoisonError::into_inner);
        if mode == Mode::Gone {
            *origin = None;
        } else if origin.is_none() {
            *origin = Some(listen(&self.address, &self.name, &self.shared));
        }
        before.open();
    }

    /// How many connections are open.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        let origin = self.origin.lock().unwrap_or_else(PoisonError::into_inner);
        origin.as_ref().map_or(0, Origin::open_connections)
    }

    /// How many requests have come since it listens, or since this was asked last. What is known of
    /// them is forgotten, so that long loads do not fill memory.
    #[must_use]
    pub fn take_requests(&self) -> usize {
        let origin = self.origin.lock().unwrap_or_else(PoisonError::into_inner);
        origin.as_ref().map_or(0, Origin::take_requests)
    }
}

impl Drop for FaultOrigin {
    fn drop(&mut self) {
        // Those who hang go first: the origin waits for nobody, but its threads should end.
        self.shared.change(Mode::Gone).open();
    }
}

impl Shared {
    /// Sets the mode; the gate of the one before.
    fn change(&self, mode: Mode) -> Gate {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.mode = mode;
        std::mem::take(&mut state.over)
    }

    fn mode(&self) -> (Mode, Gate) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.decided += 1;
        let mode = match state.mode {
            Mode::Flapping => {
                state.flaps += 1;
                if state.flaps.is_multiple_of(2) { Mode::Good } else { Mode::Status(500) }
            }
            mode => mode,
        };
        (mode, state.over.clone())
    }
}

fn listen(place: &str, name: &str, shared: &Arc<Shared>) -> Origin {
    let (name, shared) = (name.to_owned(), Arc::clone(shared));
    Origin::start_at(place, move |exchange| behave(exchange, &name, &shared))
}

fn behave(exchange: &mut Exchange, name: &str, shared: &Shared) -> io::Result<()> {
    let (mode, over) = shared.mode();
    if let Mode::SlowReads(pause) = mode {
        while exchange.read_some(&mut Fields::default())?.is_some() {
            exchange.pause(pause);
        }
    }
    exchange.sink_body()?;
    let length = name.len();
    match mode {
        Mode::Good | Mode::SlowReads(_) | Mode::Flapping => exchange.answer(200, &[], name),
        Mode::Slow(wait) => {
            exchange.pause(wait);
            exchange.answer(200, &[], name)
        }
        Mode::Status(status) => exchange.answer(status, &[], name),
        Mode::Hang => {
            over.pass();
            exchange.then(After::Close);
            Ok(())
        }
        Mode::CloseBeforeHead | Mode::Gone => {
            exchange.then(After::Close);
            Ok(())
        }
        Mode::ResetBeforeHead => {
            exchange.then(After::Reset);
            Ok(())
        }
        Mode::ResetAfterHead => {
            exchange.then(After::Reset);
            exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
        }
        Mode::HalfBody => {
            exchange.then(After::Close);
            let promised = length * 2;
            exchange.write(format!("HTTP/1.1 200 OK\r\nContent-Length: {promised}\r\n\r\n{name}"))
        }
        Mode::ExcessBody => {
            exchange.then(After::Close);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            exchange.write(format!("{head}{name}and more than that"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn ask(origin: &FaultOrigin) -> Option<String> {
        let mut stream = TcpStream::connect(origin.address()).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        let mut piece = [0; 1024];
        while !answer.ends_with(origin.name().as_bytes()) {
            match stream.read(&mut piece) {
                Ok(0) | Err(_) => break,
                Ok(count) => answer.extend_from_slice(&piece[..count]),
            }
        }
        Some(String::from_utf8(answer).unwrap())
    }

    #[test]
    fn does_what_its_mode_says_and_comes_back_at_its_address() {
        let origin = FaultOrigin::start("one");
        let status = |answer: Option<String>| answer.unwrap().get(9..12).map(str::to_owned);
        assert_eq!(status(ask(&origin)).as_deref(), Some("200"));
        origin.set(Mode::Status(503));
        assert_eq!(status(ask(&origin)).as_deref(), Some("503"));
        for silent in [Mode::CloseBeforeHead, Mode::ResetBeforeHead] {
            origin.set(silent);
            assert_eq!(ask(&origin).as_deref(), Some(""), "{silent:?}");
        }
        origin.set(Mode::Gone);
        assert_eq!(ask(&origin), None);
        origin.set(Mode::Flapping);
        let two = [status(ask(&origin)), status(ask(&origin))];
        assert_eq!(two.map(Option::unwrap), ["500", "200"]);
        assert_eq!(origin.take_requests(), 2, "since it came back");
        assert_eq!(origin.take_requests(), 0);
    }

    #[test]
    fn whoever_hangs_is_let_go_when_the_mode_ends() {
        let origin = FaultOrigin::start("one");
        origin.set(Mode::Hang);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| ask(&origin));
            // One that has only come in may still be answered as the next mode says.
            while origin.shared.state.lock().unwrap().decided == 0 {
                std::thread::yield_now();
            }
            origin.set(Mode::Good);
            assert_eq!(waiting.join().unwrap().as_deref(), Some(""));
        });
        assert!(ask(&origin).unwrap().ends_with("one"));
    }
}
