//! What the configuration asks for.

use std::ops::RangeInclusive;
use std::time::Duration;

use sluice_message::GrpcStatuses;

/// All of a whole, in millionths.
pub(crate) const WHOLE: u32 = 1_000_000;

/// How a cluster finds out which servers are well, and what follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthSettings {
    /// How servers are asked; `None` = they are not.
    pub check: Option<CheckRule>,
    /// When servers are out because of what became of requests; `None` = never.
    pub ejection: Option<EjectionRule>,
    /// When servers that are out are asked all the same.
    pub panic: Panic,
}

/// When servers that are out are asked all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Panic {
    /// Never: if none is available, requests are refused.
    Never,
    /// If less than this share of the servers, in millionths, is available, or none.
    Below(u32),
}

impl Default for Panic {
    fn default() -> Self {
        Self::Below(0)
    }
}

impl HealthSettings {
    /// Whether anything has to be watched.
    #[must_use]
    pub const fn is_used(&self) -> bool {
        self.check.is_some() || self.ejection.is_some()
    }
}

/// How servers are asked whether they are well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckRule {
    /// What is asked.
    pub probe: Probe,
    /// The port it is asked at; that of the server if absent. Of no meaning for Unix sockets.
    pub port: Option<u16>,
    /// From the beginning of a check to that of the next.
    pub interval: Duration,
    /// How much an interval may be longer or shorter, in millionths of it.
    pub jitter: u32,
    /// How long a check may take.
    pub timeout: Duration,
    /// Checks in a row that have to succeed before an unhealthy server is used again.
    pub healthy: u32,
    /// Checks in a row that have to fail before a server is no longer used.
    pub unhealthy: u32,
    /// What a server counts as before its first check.
    pub initial: Initial,
}

/// What a server counts as before its first check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initial {
    /// It gets requests.
    Healthy,
    /// It gets none until a check has succeeded.
    Unhealthy,
}

/// What a check consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// A connection is opened.
    Tcp,
    /// A request is sent over it.
    Http(HttpProbe),
}

/// A request that checks, and the answer it expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpProbe {
    /// The method.
    pub method: Box<str>,
    /// Path and query.
    pub target: Box<str>,
    /// The Host field; the server's own address if absent.
    pub host: Option<Box<str>>,
    /// Statuses of a server that is well.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// Bytes that have to be somewhere in the first part of the content.
    pub body: Option<Box<[u8]>>,
    /// The service that is asked about, empty for all of the server, if the request is a call of
    /// `grpc.health.v1.Health/Check`.
    pub service: Option<Box<str>>,
}

/// When servers are out because of what became of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EjectionRule {
    /// Failures in a row that eject a server; 0 = no number does.
    pub failures: u32,
    /// Share of failures among the requests of a window that ejects a server, in millionths.
    pub share: Option<u32>,
    /// Requests there have to be in a window before the share says anything.
    pub requests: u64,
    /// How long requests are counted for the share.
    pub window: Duration,
    /// Statuses that are failures of the server.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// Ends of calls that are failures of the server.
    pub calls: GrpcStatuses,
    /// How long the first ejection lasts; each that follows lasts twice as long.
    pub time: Duration,
    /// How long an ejection may last.
    pub max_time: Duration,
    /// Share of the servers that may be out at a time, in millionths.
    pub limit: u32,
}

impl EjectionRule {
    /// Whether an answer of this status is a failure of the server.
    #[inline]
    pub(crate) fn covers(&self, status: u16) -> bool {
        self.statuses.iter().any(|range| range.contains(&status))
    }
}
