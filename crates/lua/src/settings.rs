//! What whoever starts a script decides about it.

use std::path::PathBuf;
use std::time::Duration;

/// How a script is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The script.
    pub script: PathBuf,
    /// Where `require` looks beside the directory of the script.
    pub path: Vec<PathBuf>,
    /// What `silly.env.get` finds.
    pub variables: Vec<(String, String)>,
    /// Most bytes of memory that a state may use.
    pub memory: usize,
    /// Most CPU time that a coroutine may take without waiting for anything.
    pub budget: Duration,
    /// Most tasks that a state may have, and most timers that may be to come.
    pub tasks: usize,
    /// Variables of the environment that `os.getenv` finds.
    pub env: Vec<String>,
    /// Most bytes that may wait to be read by the script: a read that wants more fails.
    pub read_limit: usize,
    /// Most bytes that may wait to be taken by a peer.
    pub write_limit: usize,
    /// What becomes of a connection for whose peer more wait.
    pub write_full: WriteFull,
    /// How long a closed connection may take to get rid of what was written to it.
    pub linger: Duration,
    /// Which lines the script's logger writes.
    pub log_level: Level,
    /// Most lines that a state writes to the log in a second.
    pub log_rate: u32,
    /// What scripts may do beside what every script may.
    pub access: Vec<Access>,
    /// What the script is to the program.
    pub role: Role,
    /// How many workers the gateway has; a service is told when it is launched.
    pub workers: usize,
    /// Stores that the script may use, and the bytes that they may have; empty for a service.
    pub stores: Vec<(String, usize)>,
}

/// What a script is to the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// A program of its own, with addresses of its own.
    Service,
    /// Part of a gateway.
    Part,
    /// What speaks with the clients of a listener of the gateway.
    Listener(ListenerRole),
}

/// The listener whose connections a script gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerRole {
    /// Its name; each listener has states of its own.
    pub name: String,
    /// Where it listens, as it is written.
    pub address: String,
    /// Who encrypts its connections.
    pub encryption: Encryption,
}

/// Who encrypts the connections of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// Nobody, unless the script does.
    Script,
    /// The gateway, before the script sees them.
    Gateway,
}

impl Settings {
    /// The usual settings for a script.
    #[must_use]
    pub fn new(script: PathBuf) -> Self {
        Self {
            script,
            path: Vec::new(),
            variables: Vec::new(),
            memory: 256 << 20,
            budget: Duration::from_millis(500),
            tasks: 100_000,
            env: Vec::new(),
            read_limit: 16 << 20,
            write_limit: 16 << 20,
            write_full: WriteFull::Close,
            linger: Duration::from_secs(30),
            log_level: Level::Info,
            log_rate: 1000,
            access: Vec::new(),
            role: Role::Service,
            workers: 1,
            stores: Vec::new(),
        }
    }

    /// Whether scripts may do this.
    pub(crate) fn allows(&self, access: Access) -> bool {
        self.access.contains(&access)
    }
}

/// What becomes of a connection whose peer does not take what is written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFull {
    /// It is closed, and the peer sees that something is missing: no write ever waits, as in Silly.
    Close,
    /// Who writes waits until the peer has taken half of it.
    Wait,
}

/// What scripts may be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read and write files: `io`, `os.remove` and others.
    Files,
    /// Start processes: `os.execute`, `io.popen`.
    Processes,
}

/// How important a line is; numbered as in `silly.logger`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For whoever looks for a mistake.
    Debug,
    /// As expected.
    Info,
    /// Somebody may want to look.
    Warn,
    /// Something failed.
    Error,
}

impl Level {
    /// The level with this number.
    #[must_use]
    pub fn of(number: i64) -> Option<Self> {
        match number {
            0 => Some(Self::Debug),
            1 => Some(Self::Info),
            2 => Some(Self::Warn),
            3 => Some(Self::Error),
            _ => None,
        }
    }

    pub(crate) const fn number(self) -> i32 {
        match self {
            Self::Debug => 0,
            Self::Info => 1,
            Self::Warn => 2,
            Self::Error => 3,
        }
    }

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warning",
            Self::Error => "error",
        }
    }
}
