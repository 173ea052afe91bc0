//! One process takes the place of another: the new one is started, gets the sockets, and both talk.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::cmsg_space;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};
use rustix::process::{Pid, Signal, kill_process};

/// Tells a process that its standard input is a [`Channel`] to the process of this number.
const PREDECESSOR: &str = "SLUICE_PREDECESSOR";

/// What a service manager told the old process and would mislead the new one.
const NOT_FOR_HEIRS: [&str; 4] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID"];

/// Descriptors in one message at most; the kernel takes 253.
pub const SOCKETS_AT_ONCE: usize = 128;

/// Longest message, in bytes.
const LONGEST: usize = 64 * 1024;

/// The line between two processes: messages with sockets.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// A message and the sockets that came with it.
pub type Message = (Vec<u8>, Vec<OwnedFd>);

impl Channel {
    fn pair() -> io::Result<(Self, OwnedFd)> {
        let (flags, kind) = (SocketFlags::CLOEXEC, SocketType::SEQPACKET);
        let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
        Ok((Self(ours), theirs))
    }

    /// Sends a message with at most [`SOCKETS_AT_ONCE`] sockets.
    ///
    /// # Errors
    /// If the other side is gone, or does not read for `limit`.
    pub fn send(&self, text: &[u8], sockets: &[Arc<OwnedFd>], limit: Duration) -> io::Result<()> {
        set_socket_timeout(&self.0, Timeout::Send, Some(limit))?;
        let sockets: Vec<BorrowedFd<'_>> = sockets.iter().map(|it| it.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(SOCKETS_AT_ONCE))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !sockets.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&sockets)) {
            return Err(Errno::TOOBIG.into());
        }
        loop {
            match sendmsg(&self.0, &[IoSlice::new(text)], &mut control, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for a message; `None` if the other side is gone.
    ///
    /// # Errors
    /// `WouldBlock` if none comes within `limit`; a message that is too long.
    pub fn receive(&self, limit: Duration) -> io::Result<Option<Message>> {
        set_socket_timeout(&self.0, Timeout::Recv, Some(limit))?;
        let mut text = vec![0; LONGEST];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(SOCKETS_AT_ONCE))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let into = &mut [IoSliceMut::new(&mut text)];
            match recvmsg(&self.0, into, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Ok(None),
                other => break other?,
            }
        };
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(Errno::MSGSIZE.into());
        }
        let mut sockets = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(passed) = message {
                sockets.extend(passed);
            }
        }
        text.truncate(received.bytes);
        // Nobody sends empty messages: this is the end.
        Ok((received.bytes > 0).then_some((text, sockets)))
    }
}

/// The process before this one, if this one was started to take its place. To be called once, before
/// anything reads standard input, which becomes empty.
///
/// # Errors
/// If the descriptor cannot be moved.
pub fn predecessor() -> io::Result<Option<Channel>> {
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().to_string());
    // The variable is inherited by whatever else is started from here.
    if std::env::var(PREDECESSOR).ok().filter(|named| Some(named) == parent.as_ref()).is_none() {
        return Ok(None);
    }
    let channel = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let nothing = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    Ok(Some(Channel(channel)))
}

/// How this process was started, to be started again.
#[derive(Clone, Debug)]
pub struct Program {
    /// As it was called: a link or a file that is replaced leads to the new program.
    called: PathBuf,
    /// Where it was, for who was called by a name that leads nowhere.
    found: Option<PathBuf>,
    arguments: Vec<OsString>,
}

impl Program {
    /// This process.
    #[must_use]
    pub fn this() -> Self {
        let mut words = std::env::args_os();
        let called = words.next().map(PathBuf::from).unwrap_or_default();
        Self { called, found: std::env::current_exe().ok(), arguments: words.collect() }
    }

    /// Starts it anew, with a channel to it. What it says goes where our own words go.
    ///
    /// # Errors
    /// If it cannot be started: not there, not executable.
    pub fn start(&self) -> io::Result<(Channel, Successor)> {
        let (channel, theirs) = Channel::pair()?;
        let child = match self.spawn(self.called.as_os_str(), &theirs) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => match &self.found {
                Some(found) => self.spawn(found.as_os_str(), &theirs),
                None => Err(error),
            },
            other => other,
        }?;
        Ok((channel, Successor(child)))
    }

    fn spawn(&self, program: &OsStr, channel: &OwnedFd) -> io::Result<Child> {
        let mut command = Command::new(program);
        NOT_FOR_HEIRS.iter().for_each(|name| _ = command.env_remove(name));
        command
            .args(&self.arguments)
            .env(PREDECESSOR, std::process::id().to_string())
            .stdin(Stdio::from(channel.try_clone()?))
            .spawn()
    }

    /// Its path, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.called
    }
}

/// A process that was started to take our place.
pub struct Successor(Child);

impl fmt::Debug for Successor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Successor").field(&self.0.id()).finish()
    }
}

impl Successor {
    /// Its number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Ends it at once; how it ended, in words.
    pub fn kill(&mut self) -> String {
        // It has ended already: then what it ended with is told.
        let _ = self.0.kill();
        match self.0.wait() {
            Ok(status) => words(status),
            Err(error) => format!("it is lost: {error}"),
        }
    }

    /// Waits for its end, which it has announced; how it ended, in words.
    pub fn end(&mut self, limit: Duration) -> String {
        let since = crate::process::uptime();
        while crate::process::uptime().saturating_sub(since) < limit {
            match self.0.try_wait() {
                Ok(Some(status)) => return words(status),
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
                Err(_) => break,
            }
        }
        self.kill()
    }
}

fn words(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("it ended with exit code {code}"),
        None => format!("it was ended by {status}"),
    }
}

/// Sends a signal to a process of ours: SIGTERM to end it, SIGHUP to have it reload, SIGUSR1 to have
/// it open its logs again, SIGUSR2 to have it take the next program.
///
/// # Errors
/// If there is no such process, or it is not ours.
pub fn signal(pid: u32, what: crate::signals::Signal) -> io::Result<()> {
    let what = match what {
        crate::signals::Signal::Reload => Signal::HUP,
        crate::signals::Signal::Stop => Signal::TERM,
        crate::signals::Signal::ReopenLogs => Signal::USR1,
        crate::signals::Signal::Upgrade => Signal::USR2,
    };
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    Ok(kill_process(pid, what)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    const SOON: Duration = Duration::from_secs(10);

    #[test]
    fn sockets_come_with_their_message() {
        let (ours, theirs) = Channel::pair().unwrap();
        let theirs = Channel(theirs);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let sockets = [Arc::new(OwnedFd::from(listener))];
        ours.send(b"one", &sockets, SOON).unwrap();
        ours.send(b"two", &[], SOON).unwrap();
        drop(sockets);
        let (text, mut passed) = theirs.receive(SOON).unwrap().unwrap();
        assert_eq!((text.as_slice(), passed.len()), (b"one".as_slice(), 1));
        let passed = TcpListener::from(passed.remove(0));
        let _client = TcpStream::connect(address).unwrap();
        passed.accept().unwrap();
        assert_eq!(theirs.receive(SOON).unwrap().unwrap().0, b"two");
        drop(ours);
        assert!(theirs.receive(SOON).unwrap().is_none());
    }

    #[test]
    fn nobody_waits_for_ever() {
        let (ours, _theirs) = Channel::pair().unwrap();
        let error = ours.receive(Duration::from_millis(1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_program_that_ends_says_how() {
        let rows = [("exit 3", "exit code 3"), ("kill -9 $$", "signal: 9")];
        for (script, expected) in rows {
            let program = Program {
                called: PathBuf::from("sh"),
                found: None,
                arguments: vec!["-c".into(), script.into()],
            };
            let (channel, mut successor) = program.start().unwrap();
            assert!(channel.receive(SOON).unwrap().is_none());
            let said = successor.end(SOON);
            assert!(said.contains(expected), "{said}");
        }
        let nowhere =
            Program { called: PathBuf::from("/nowhere"), found: None, arguments: Vec::new() };
        assert_eq!(nowhere.start().unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
