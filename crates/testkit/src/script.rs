//! A raw client: bytes out as written, responses in, and how the connection ended.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;

use crate::deadline::Deadline;
use crate::response::{Asked, End, Malformed, Parsed, Response, parse};
use crate::stream::{Stream, Waiting};

/// What has become of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Still open.
    Open,
    /// The peer has sent FIN.
    Closed,
    /// The peer has sent RST.
    Reset,
}

/// Why an awaited response did not come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing more came in time; what had come.
    Late(Vec<u8>),
    /// The connection ended first; how, and what had come.
    Ended(State, Vec<u8>),
    /// What came is no response; the bytes.
    Malformed(Malformed, Vec<u8>),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late(got) => write!(f, "no answer in time after {:?}", shown(got)),
            Self::Ended(state, got) => write!(f, "{state:?} after {:?}", shown(got)),
            Self::Malformed(why, got) => write!(f, "{why} in {:?}", shown(got)),
        }
    }
}

impl std::error::Error for Failure {}

fn shown(bytes: &[u8]) -> String {
    let cut = bytes.get(..600).unwrap_or(bytes);
    cut.escape_ascii().to_string()
}

/// One client connection.
#[derive(Debug)]
pub struct ByteScript {
    stream: Stream,
    buffer: Vec<u8>,
    ended: Option<State>,
}

impl ByteScript {
    /// Connects to `127.0.0.1:9000`, `http://127.0.0.1:9000` or `unix:/path`.
    ///
    /// # Panics
    /// When nobody listens there.
    #[must_use]
    #[track_caller]
    pub fn connect(address: &str) -> Self {
        match Stream::connect(address) {
            Ok(stream) => Self { stream, buffer: Vec::new(), ended: None },
            Err(error) => panic!("connecting to {address}: {error}"),
        }
    }

    /// Sends bytes. A peer that has closed meanwhile is no failure here: what it answered and how it
    /// closed is what a test looks at.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let _ = self.try_send(bytes.as_ref());
        self
    }

    /// Sends bytes and says how many went out before the peer closed or stopped reading for too long.
    ///
    /// # Errors
    /// The number of bytes that were taken.
    pub fn try_send(&mut self, bytes: &[u8]) -> Result<(), usize> {
        let deadline = Deadline::patient();
        let mut sent = 0;
        while sent < bytes.len() {
            let Some(left) = deadline.remaining() else { return Err(sent) };
            let _ = self.stream.set_timeout(left);
            match self.stream.write(&bytes[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(sent),
            }
        }
        Ok(())
    }

    /// Sends bytes in pieces of this size, each its own write, taking in between what has already been
    /// answered, so that a close after an early answer loses none of it.
    pub fn send_pieces(&mut self, bytes: &[u8], size: usize) -> &mut Self {
        for piece in bytes.chunks(size.max(1)) {
            self.receive_ready();
            if self.ended.is_some() || self.try_send(piece).is_err() {
                break;
            }
        }
        self
    }

    /// Sends FIN: no more bytes from this side.
    pub fn finish_sending(&mut self) -> &mut Self {
        let _ = self.stream.shutdown(Shutdown::Write);
        self
    }

    /// Sends RST and gives the connection up.
    pub fn reset(self) {
        self.stream.reset_on_close();
    }

    /// The next whole response, interim ones inside it.
    ///
    /// # Errors
    /// When it does not come whole and well-formed in time.
    pub fn read_response(&mut self, asked: Asked) -> Result<Response, Failure> {
        let deadline = Deadline::patient();
        loop {
            let end = if self.ended.is_some() { End::Eof } else { End::More };
            match parse(&self.buffer, asked, end) {
                Ok(Parsed::Whole(response, used)) => {
                    self.buffer.drain(..used);
                    return Ok(*response);
                }
                Ok(Parsed::Part) => self.receive_more(deadline)?,
                Err(why) => return Err(Failure::Malformed(why, self.buffer.clone())),
            }
        }
    }

    /// The next `count` responses to requests with a body in the answer.
    ///
    /// # Errors
    /// As [`Self::read_response`], at the first that fails.
    pub fn read_responses(&mut self, count: usize) -> Result<Vec<Response>, Failure> {
        (0..count).map(|_| self.read_response(Asked::Get)).collect()
    }

    /// Everything up to and with `mark`, as it came, for interim answers and tunnels.
    ///
    /// # Errors
    /// When `mark` does not come in time.
    pub fn read_until(&mut self, mark: &[u8]) -> Result<Vec<u8>, Failure> {
        let deadline = Deadline::patient();
        loop {
            let found = self.buffer.windows(mark.len()).position(|window| window == mark);
            if let Some(at) = found {
                return Ok(self.buffer.drain(..at + mark.len()).collect());
            }
            self.receive_more(deadline)?;
        }
    }

    /// Exactly `count` bytes, for tunnels.
    ///
    /// # Errors
    /// When they do not come in time.
    pub fn read_exactly(&mut self, count: usize) -> Result<Vec<u8>, Failure> {
        let deadline = Deadline::patient();
        while self.buffer.len() < count {
            self.receive_more(deadline)?;
        }
        Ok(self.buffer.drain(..count).collect())
    }

    /// Counts `count` bytes of a body away without keeping them, for bodies larger than memory. Each
    /// read may take [`crate::PATIENCE`].
    ///
    /// # Errors
    /// When the connection ends or stalls first.
    pub fn discard(&mut self, count: u64) -> Result<(), Failure> {
        let mut left = count;
        loop {
            let have = self.buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            self.buffer.drain(..have);
            left -= have as u64;
            if left == 0 {
                return Ok(());
            }
            self.receive_more(Deadline::patient())?;
        }
    }

    /// Everything until the connection ends, and how it ended; `Open` when it did not in time.
    pub fn read_to_end(&mut self) -> (Vec<u8>, State) {
        let deadline = Deadline::patient();
        while self.ended.is_none() && self.receive_more(deadline).is_ok() {}
        (std::mem::take(&mut self.buffer), self.ended.unwrap_or(State::Open))
    }

    /// Waits for the end of the connection: bytes that came after the last response, and how it ended.
    pub fn wait_for_end(&mut self) -> State {
        let (rest, state) = self.read_to_end();
        self.buffer = rest;
        state
    }

    /// Bytes that have come and belong to no response that was read.
    #[must_use]
    pub fn unread(&self) -> &[u8] {
        &self.buffer
    }

    /// The state this moment, without waiting.
    pub fn state(&mut self) -> State {
        self.receive_ready();
        self.ended.unwrap_or(State::Open)
    }

    /// The socket itself, for what this type has no word for.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    fn receive_ready(&mut self) {
        if self.stream.set_waiting(Waiting::Never).is_ok() {
            while self.ended.is_none() && self.receive().is_some_and(|count| count > 0) {}
            let _ = self.stream.set_waiting(Waiting::Bounded);
        }
    }

    fn receive_more(&mut self, deadline: Deadline) -> Result<(), Failure> {
        if let Some(state) = self.ended {
            return Err(Failure::Ended(state, self.buffer.clone()));
        }
        let Some(left) = deadline.remaining() else {
            return Err(Failure::Late(self.buffer.clone()));
        };
        let _ = self.stream.set_timeout(left);
        self.receive();
        Ok(())
    }

    /// One read into the buffer; `None` when there was nothing to read.
    fn receive(&mut self) -> Option<usize> {
        let mut piece = [0; 65_536];
        match self.stream.read(&mut piece) {
            Ok(0) => self.ended = Some(State::Closed),
            Ok(count) => {
                self.buffer.extend_from_slice(&piece[..count]);
                return Some(count);
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                _ => self.ended = Some(State::Reset),
            },
        }
        None
    }
}

/// One GET on a connection of its own.
///
/// # Panics
/// When no well-formed answer comes.
#[must_use]
#[track_caller]
pub fn get(address: &str, target: &str) -> Response {
    ask(address, &format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
}

/// One request, given as its bytes, on a connection of its own.
///
/// # Panics
/// When no well-formed answer comes.
#[must_use]
#[track_caller]
pub fn ask(address: &str, request: &str) -> Response {
    let asked = if request.starts_with("HEAD ") { Asked::Head } else { Asked::Get };
    let mut script = ByteScript::connect(address);
    match script.send(request).read_response(asked) {
        Ok(response) => response,
        Err(failure) => panic!("{request:?}: {failure}"),
    }
}
