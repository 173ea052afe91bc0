//! Listening sockets that were open before this process: of the process before it, or of a service
//! manager. And the words the two processes of an upgrade exchange.
//!
//! Processes of different versions talk in these words, so none may change its meaning.

use std::time::Duration;

use sluice_net::succession::{Channel, SOCKETS_AT_ONCE, Successor};
use sluice_net::{Endpoint, Inherited, Sockets};

/// How long one message may take to be sent, and the next one to come, while both sides are busy with
/// nothing else.
const PROMPT: Duration = Duration::from_secs(10);

/// The label of sockets that a service manager keeps.
const LASTING: &str = "lasting";

/// Who opened sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Giver {
    /// The process before this one.
    Predecessor,
    /// The service manager, which keeps them open too, and whose files are not ours.
    ServiceManager,
}

#[derive(Clone, Debug)]
struct Heirloom {
    label: String,
    giver: Giver,
    sockets: Inherited,
}

/// Sockets to be used instead of being bound.
#[derive(Debug, Default)]
pub(crate) struct Heritage(Vec<Heirloom>);

/// Upgrades so far, over all processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Upgrades {
    pub(crate) ok: u64,
    pub(crate) failed: u64,
}

impl Heritage {
    pub(crate) fn of_service_manager(sockets: Vec<Inherited>) -> Self {
        let lasting =
            |sockets| Heirloom { label: LASTING.to_owned(), giver: Giver::ServiceManager, sockets };
        Self(sockets.into_iter().map(lasting).collect())
    }

    /// Takes over what the process before offers.
    pub(crate) fn receive(line: &Channel) -> Result<(Self, Upgrades), String> {
        let mut heritage = Self::default();
        loop {
            let message = line.receive(PROMPT).map_err(|error| error.to_string())?;
            let (text, sockets) = message.ok_or("the process before this one is gone")?;
            let text = String::from_utf8_lossy(&text).into_owned();
            let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
            match word {
                "socket" => heritage.add(rest, Inherited::new(sockets)?),
                "end" => {
                    let mut counts = rest.split(' ').map(|it| it.parse().unwrap_or(0));
                    let mut next = || counts.next().unwrap_or(0);
                    return Ok((heritage, Upgrades { ok: next(), failed: next() }));
                }
                // Of a later version, which can do without.
                _ => {}
            }
        }
    }

    fn add(&mut self, label: &str, sockets: Inherited) {
        let same =
            |it: &&mut Heirloom| it.label == label && it.sockets.endpoint() == sockets.endpoint();
        if let Some(known) = self.0.iter_mut().find(same) {
            return known.sockets.join(sockets);
        }
        let giver = if label == LASTING { Giver::ServiceManager } else { Giver::Predecessor };
        self.0.push(Heirloom { label: label.to_owned(), giver, sockets });
    }

    /// The sockets for a place: those that were opened for it, or else some at its address.
    pub(crate) fn find(&self, label: &str, wanted: &Endpoint) -> Option<(&Inherited, Giver)> {
        let own = self.0.iter().find(|it| it.label == label);
        let exact = || self.0.iter().find(|it| it.sockets.endpoint() == wanted);
        let near = || self.0.iter().find(|it| it.sockets.serves(wanted));
        own.or_else(exact).or_else(near).map(|it| (&it.sockets, it.giver))
    }

    /// Whether one of the sockets has this port, at whatever address.
    pub(crate) fn has_port(&self, port: u16) -> bool {
        self.0.iter().any(
            |it| matches!(it.sockets.endpoint(), Endpoint::Tcp(address) if address.port() == port),
        )
    }

    /// Closes what the process before had and nobody here took; what a service manager keeps open may
    /// be wanted by a later configuration.
    pub(crate) fn settle(&mut self) {
        self.0.retain(|it| it.giver == Giver::ServiceManager);
    }

    /// What a service manager keeps open.
    pub(crate) fn lasting(&self) -> impl Iterator<Item = &Inherited> {
        self.0.iter().filter(|it| it.giver == Giver::ServiceManager).map(|it| &it.sockets)
    }
}

/// All the sockets of this process, for the next one.
#[derive(Debug, Default)]
pub(crate) struct Bequest(Vec<(String, Sockets)>);

impl Bequest {
    pub(crate) fn add(&mut self, label: &str, sockets: &[sluice_net::Socket]) {
        self.0.push((label.to_owned(), sockets.to_vec()));
    }

    pub(crate) fn add_lasting(&mut self, sockets: &Inherited) {
        self.add(LASTING, sockets.sockets());
    }

    /// Offers everything to the next process.
    pub(crate) fn send(&self, line: &Channel, upgrades: Upgrades) -> std::io::Result<()> {
        for (label, sockets) in &self.0 {
            for some in sockets.chunks(SOCKETS_AT_ONCE) {
                line.send(format!("socket {label}").as_bytes(), some, PROMPT)?;
            }
        }
        let Upgrades { ok, failed } = upgrades;
        line.send(format!("end {ok} {failed}").as_bytes(), &[], PROMPT)
    }
}

/// A new process that serves already.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) line: Channel,
    pub(crate) successor: Successor,
    /// Addresses of the sockets it goes on with.
    pub(crate) taken: Vec<String>,
}

/// What the new process says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It serves, with the sockets at these addresses.
    Ready(Vec<String>),
    /// It will not.
    Failed(String),
}

impl Answer {
    pub(crate) fn send(&self, line: &Channel) -> std::io::Result<()> {
        let text = match self {
            Self::Ready(taken) => format!("ready\n{}", taken.join("\n")),
            // A message has a largest size.
            Self::Failed(reason) => {
                format!("failed\n{}", reason.chars().take(8192).collect::<String>())
            }
        };
        line.send(text.as_bytes(), &[], PROMPT)
    }

    /// Waits for the answer; `None` if the new process is gone.
    pub(crate) fn receive(line: &Channel, limit: Duration) -> std::io::Result<Option<Self>> {
        let Some((text, _)) = line.receive(limit)? else { return Ok(None) };
        let text = String::from_utf8_lossy(&text).into_owned();
        let (word, rest) = text.split_once('\n').unwrap_or((&text, ""));
        Ok(Some(match word {
            "ready" => Self::Ready(rest.lines().map(str::to_owned).collect()),
            _ => Self::Failed(rest.to_owned()),
        }))
    }
}

/// Tells the new process that all is its own now.
pub(crate) fn give(line: &Channel) -> std::io::Result<()> {
    line.send(b"yours", &[], PROMPT)
}

/// Waits for that word. Whether it came or the process before is gone without it makes no difference:
/// somebody has to go on.
pub(crate) fn await_gift(line: &Channel) {
    let _ = line.receive(PROMPT);
}
