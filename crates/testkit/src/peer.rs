//! Servers of other programs on free ports.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::deadline::{Deadline, PATIENCE};
use crate::ports::unclaimed_port;
use crate::scratch::Scratch;

/// How often another free port is tried: somebody may take it before the server does.
const ATTEMPTS: usize = 5;

/// How often the tables of the system are read while a server starts.
const PACE: Duration = Duration::from_millis(5);

/// A server of another program that listens, killed on drop.
///
/// Every test that starts such a server does it by this type: it is the one place that knows when a server is ready.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    scratch: Scratch,
    /// `127.0.0.1:38000`.
    pub address: String,
}

impl Peer {
    /// Starts what `command` makes for a directory and an address, and waits until it listens there.
    ///
    /// # Panics
    /// When the program is not installed or does not begin to listen.
    #[must_use]
    pub fn start(command: impl Fn(&Scratch, &str) -> Command) -> Self {
        Self::start_within(PATIENCE, command)
    }

    /// The same for a server that takes its time, such as one that is compiled first.
    ///
    /// # Panics
    /// When the program is not installed or does not begin to listen.
    #[must_use]
    pub fn start_within(patience: Duration, command: impl Fn(&Scratch, &str) -> Command) -> Self {
        for _ in 0..ATTEMPTS {
            let (scratch, address) = (Scratch::new(), format!("127.0.0.1:{}", unclaimed_port()));
            let mut command = command(&scratch, &address);
            command.current_dir(scratch.path());
            let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let child = quiet.spawn().expect("the peer is installed: `make test` does that");
            let mut peer = Self { child, scratch, address };
            if peer.begins_to_listen(patience) {
                return peer;
            }
        }
        panic!("the peer did not start in {ATTEMPTS} attempts");
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The directory it runs in.
    #[must_use]
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap_or_default()
    }

    fn begins_to_listen(&mut self, patience: Duration) -> bool {
        let deadline = Deadline::after(patience);
        while deadline.remaining().is_some() {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return false;
            }
            if listens(self.child.id(), &self.address) {
                return true;
            }
            std::thread::sleep(PACE);
        }
        false
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether this very process listens at a port. To be connected would not say so: what looked for a free port may still
/// have a listener there, in a process that another test has forked and that has not become its program yet.
fn listens(process: u32, address: &str) -> bool {
    let port = address.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
    let suffix = format!(":{:04X}", port.unwrap_or_default());
    // A server that listens at all addresses of both families is in the second one.
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"]
        .map(|table| std::fs::read_to_string(table).unwrap_or_default());
    let sockets: Vec<PathBuf> = tables
        .iter()
        .flat_map(|table| table.lines())
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (local, state, inode) = (words.get(1)?, words.get(3)?, words.get(9)?);
            let found = local.ends_with(&suffix) && *state == LISTEN;
            found.then(|| PathBuf::from(format!("socket:[{inode}]")))
        })
        .collect();
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten();
    open.flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .any(|file| sockets.contains(&file))
}

/// The state of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn only_the_process_that_listens_is_said_to() {
        let id = std::process::id();
        for address in ["127.0.0.1:0", "[::]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let port = listener.local_addr().unwrap().port();
            let address = format!("127.0.0.1:{port}");
            assert!(listens(id, &address), "{address}");
            assert!(!listens(1, &address), "another process");
            drop(listener);
            assert!(!listens(id, &address), "no longer");
        }
    }

    #[test]
    fn a_peer_that_listens_late_is_waited_for() {
        // At all addresses of both families, as programs in Go do.
        let script = "import socket, sys, time\n\
                      time.sleep(0.3)\n\
                      s = socket.socket(socket.AF_INET6)\n\
                      s.bind(('::', int(sys.argv[1])))\n\
                      s.listen()\n\
                      time.sleep(600)\n";
        let peer = Peer::start(|_, address| {
            let mut command = Command::new("python3");
            command.args(["-c", script, address.rsplit(':').next().unwrap()]);
            command
        });
        assert!(std::net::TcpStream::connect(&peer.address).is_ok());
    }
}
