//! What one run is to do: everything decided before it starts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sluice_net::Endpoint;
use sluice_net::tls::{ClientSettings, Reuse, TlsClient, Trust};

use crate::h2::StreamRequest;
use crate::outcome::Mode;
use crate::request::{Keepalive, Prepared};
use crate::source::{Requests, Verdict};
use crate::target::{Security, Target};

/// One run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The target as a report shows it.
    pub shown: String,
    /// Where requests go; at least one.
    pub targets: Vec<Place>,
    /// What is sent.
    pub work: Work,
    /// How the load is made.
    pub mode: Mode,
    /// When it ends.
    pub extent: Extent,
    /// Connections of all threads; in [`Mode::Users`] one per user, whatever this says.
    pub connections: u32,
    /// Threads.
    pub threads: u32,
    /// Requests that may be on a connection at once: pipelined, or streams of HTTP/2.
    pub pipeline: u32,
    /// Whether connections serve more than one request.
    pub keepalive: Keepalive,
    /// How long a request, or the opening of a connection, may take.
    pub timeout: Duration,
    /// How long the load runs before anything is counted.
    pub warmup: Duration,
    /// What an answer should be.
    pub expected: Expected,
}

/// Where requests go.
#[derive(Clone, Debug)]
pub struct Place {
    /// The URL.
    pub target: Target,
    /// Its addresses, at least one.
    pub endpoints: Vec<Endpoint>,
    /// How connections to it are encrypted; absent if they are not.
    pub tls: Option<TlsClient>,
    /// Whether handshakes are shortened.
    pub resumption: Reuse,
}

impl Place {
    /// A place at these addresses.
    ///
    /// # Errors
    /// The URL asks for encryption, and the certificates to trust cannot be had, in words.
    pub fn new(target: Target, endpoints: Vec<Endpoint>, trust: &Trust) -> Result<Self, String> {
        Self::with(target, endpoints, &ClientSettings::new(trust.clone()))
    }

    /// A place at these addresses, encrypted like this if its URL asks for encryption.
    ///
    /// # Errors
    /// The certificates to trust cannot be had, in words.
    pub fn with(
        target: Target,
        endpoints: Vec<Endpoint>,
        settings: &ClientSettings,
    ) -> Result<Self, String> {
        let tls = match target.security {
            Security::Plain => None,
            Security::Tls => Some(TlsClient::new(&target.host, settings)?),
        };
        Ok(Self { target, endpoints, tls, resumption: settings.resumption })
    }

    /// How one of many clients encrypts, where each keeps what shortens its next handshake.
    pub(crate) fn tls_with_own_tickets(&self) -> Option<TlsClient> {
        let tls = self.tls.as_ref().filter(|_| self.resumption == Reuse::Tickets)?;
        Some(tls.with_own_tickets())
    }
}

/// What is sent.
#[derive(Clone)]
pub enum Work {
    /// One request, again and again.
    Fixed(Arc<Prepared>),
    /// One request, again and again, over HTTP/2.
    Streams(Arc<StreamRequest>),
    /// What a script says.
    Scripted(Arc<dyn Requests>),
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(prepared) => f.debug_tuple("Fixed").field(prepared).finish(),
            Self::Streams(request) => f.debug_tuple("Streams").field(request).finish(),
            Self::Scripted(_) => f.write_str("Scripted"),
        }
    }
}

/// When a run ends: at whichever comes first. If neither is given it ends when everybody has done
/// their work, which only [`Mode::Users`] and scripts do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Time from the end of the warm-up.
    pub duration: Option<Duration>,
    /// Requests of all connections.
    pub requests: Option<u64>,
}

/// What an answer should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Good status codes.
    pub statuses: Statuses,
    /// Text that a good body holds.
    pub body: Option<Vec<u8>>,
}

impl Expected {
    /// Whether a response of this status and this body, if bodies are looked into, is expected.
    #[must_use]
    #[inline]
    pub fn judge(&self, status: u16, body: &[u8]) -> Verdict {
        if !self.statuses.contains(status) {
            return Verdict::UnexpectedStatus;
        }
        match &self.body {
            Some(text) if !contains(body, text) => Verdict::UnexpectedContent,
            _ => Verdict::Expected,
        }
    }
}

/// Whether `text` stands somewhere in `body`.
fn contains(body: &[u8], text: &[u8]) -> bool {
    text.is_empty() || body.windows(text.len()).any(|window| window == text)
}

impl Default for Expected {
    fn default() -> Self {
        Self { statuses: Statuses::fine(), body: None }
    }
}

/// A set of status codes, a bit each: it is looked into for every response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statuses([u64; WORDS]);

/// Words of 64 bits that hold all codes of three digits.
const WORDS: usize = 16;

impl Statuses {
    /// 100 to 399: what a server that is well answers to a good request.
    #[must_use]
    pub fn fine() -> Self {
        Self::of(&[(100, 399)])
    }

    /// Every one.
    #[must_use]
    pub fn any() -> Self {
        Self([u64::MAX; WORDS])
    }

    fn of(ranges: &[(u16, u16)]) -> Self {
        let mut bits = [0; WORDS];
        for code in ranges.iter().flat_map(|(first, last)| *first..=*last) {
            if let Some(word) = bits.get_mut(usize::from(code >> 6)) {
                *word |= 1_u64 << (code & 63);
            }
        }
        Self(bits)
    }

    /// The codes a list like `200,204,3xx` or `any` names.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(list: &str) -> Result<Self, String> {
        if list == "any" {
            return Ok(Self::any());
        }
        let range = |item: &str| -> Option<(u16, u16)> {
            if let [class @ b'1'..=b'9', b'x' | b'X', b'x' | b'X'] = item.as_bytes() {
                let first = u16::from(*class - b'0') * 100;
                return Some((first, first + 99));
            }
            let code = item.parse().ok().filter(|code| (100..=999).contains(code))?;
            Some((code, code))
        };
        let ranges = list.split(',').map(|item| {
            range(item.trim()).ok_or_else(|| {
                format!("\"{item}\" is no status; write codes or classes, like 200,204,3xx, or any")
            })
        });
        ranges.collect::<Result<Vec<_>, _>>().map(|ranges| Self::of(&ranges))
    }

    /// Whether a code is in it.
    #[must_use]
    #[inline]
    pub fn contains(&self, status: u16) -> bool {
        let word = self.0.get(usize::from(status >> 6)).copied().unwrap_or(0);
        word >> (status & 63) & 1 == 1
    }
}

impl Plan {
    /// Connections or users: whoever sends.
    #[must_use]
    pub fn lanes(&self) -> u32 {
        match self.mode {
            Mode::Users { users, .. } => u32::try_from(users).unwrap_or(u32::MAX),
            Mode::Closed | Mode::Open { .. } => self.connections,
        }
    }

    /// What is spoken, as reports say it.
    #[must_use]
    pub const fn protocol(&self) -> &'static str {
        match self.work {
            Work::Streams(_) => "HTTP/2",
            Work::Fixed(_) | Work::Scripted(_) => "HTTP/1.1",
        }
    }

    /// Pipelined requests of one connection; 1 where there is no such thing.
    #[must_use]
    pub const fn pipelining(&self) -> u32 {
        match self.work {
            Work::Streams(_) => 1,
            Work::Fixed(_) | Work::Scripted(_) => self.pipeline,
        }
    }

    /// Streams of one connection; 1 where there is no such thing.
    #[must_use]
    pub const fn streams(&self) -> u32 {
        match self.work {
            Work::Streams(_) => self.pipeline,
            Work::Fixed(_) | Work::Scripted(_) => 1,
        }
    }

    /// The rate asked for, in an open loop.
    #[must_use]
    pub const fn offered(&self) -> Option<f64> {
        match self.mode {
            Mode::Open { rate_per_second } => Some(rate_per_second),
            Mode::Closed | Mode::Users { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_lists_are_read() {
        let rows: [(&str, &[u16], &[u16]); 4] = [
            ("200", &[200], &[199, 201]),
            ("200, 404,3xx", &[200, 300, 399, 404], &[201, 400, 403]),
            ("5XX", &[500, 599], &[499, 600]),
            ("any", &[100, 200, 999], &[]),
        ];
        for (list, inside, outside) in rows {
            let statuses = Statuses::parse(list).unwrap();
            assert!(inside.iter().all(|code| statuses.contains(*code)), "{list}");
            assert!(!outside.iter().any(|code| statuses.contains(*code)), "{list}");
        }
        for list in ["", "20", "2xxx", "ok", "200,", "1000", "0xx"] {
            assert!(Statuses::parse(list).unwrap_err().contains("is no status"), "{list}");
        }
        assert!(Statuses::fine().contains(304) && !Statuses::fine().contains(404));
    }
}
