//! What the supervisor hears of.

use std::path::PathBuf;

use sluice_engine::Drained;
use sluice_net::process::End;
use sluice_net::resolve::Resolution;
use sluice_net::signals::Signal;

use crate::heritage::Candidate;

/// Something happened that the supervisor has to act on.
#[derive(Debug)]
pub(crate) enum Event {
    /// Somebody outside asked for something.
    Signal(Signal),
    /// The file of the configuration is another one.
    FileChanged,
    /// A list of servers is another one.
    ListChanged(PathBuf),
    /// Files of certificates are others.
    CertificatesChanged,
    /// A file that filters are made of is another one; which one, if that is known.
    FilterFileChanged(Option<PathBuf>),
    /// A file that a script of a route or a listener is made of may be another one.
    ScriptChanged,
    /// A name server answered, or did not.
    Resolved(Resolution),
    /// The process that is to take over serves, or does not, for this reason.
    Upgraded(Result<Candidate, String>),
    /// A thread that should run as long as the program ended.
    Ended(Thread, End<std::io::Result<Drained>>),
}

/// A thread that serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thread {
    /// The worker of this number.
    Worker(usize),
    /// The one of the admin listener.
    Admin,
    /// The one that watches over servers.
    Health,
}

impl Thread {
    /// What the system calls it.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Worker(index) => format!("sluice-{index}"),
            Self::Admin => "sluice-admin".to_owned(),
            Self::Health => "sluice-health".to_owned(),
        }
    }
}
