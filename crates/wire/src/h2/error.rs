//! Error codes, and what ends a connection.

use super::flood::Flood;

/// An error code (RFC 9113, 7); codes nobody defined are kept as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// Not an error.
    pub const NO_ERROR: Self = Self(0x0);
    /// A rule was broken, and no other code says which.
    pub const PROTOCOL_ERROR: Self = Self(0x1);
    /// The sender is at fault itself.
    pub const INTERNAL_ERROR: Self = Self(0x2);
    /// A window was overrun or overflowed.
    pub const FLOW_CONTROL_ERROR: Self = Self(0x3);
    /// Settings were not acknowledged in time.
    pub const SETTINGS_TIMEOUT: Self = Self(0x4);
    /// A frame for a stream that is closed.
    pub const STREAM_CLOSED: Self = Self(0x5);
    /// A frame of a wrong size.
    pub const FRAME_SIZE_ERROR: Self = Self(0x6);
    /// Nothing was done for this stream: the request may be sent again.
    pub const REFUSED_STREAM: Self = Self(0x7);
    /// The stream is not wanted any more.
    pub const CANCEL: Self = Self(0x8);
    /// Header compression broke.
    pub const COMPRESSION_ERROR: Self = Self(0x9);
    /// The connection of a CONNECT request was reset.
    pub const CONNECT_ERROR: Self = Self(0xa);
    /// The peer makes too much work.
    pub const ENHANCE_YOUR_CALM: Self = Self(0xb);
    /// The transport is not safe enough.
    pub const INADEQUATE_SECURITY: Self = Self(0xc);
    /// HTTP/1.1 is asked for.
    pub const HTTP_1_1_REQUIRED: Self = Self(0xd);

    /// As it stands in logs and metrics; one word, stable.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            0x0 => "no_error",
            0x1 => "protocol_error",
            0x2 => "internal_error",
            0x3 => "flow_control_error",
            0x4 => "settings_timeout",
            0x5 => "stream_closed",
            0x6 => "frame_size_error",
            0x7 => "refused_stream",
            0x8 => "cancel",
            0x9 => "compression_error",
            0xa => "connect_error",
            0xb => "enhance_your_calm",
            0xc => "inadequate_security",
            0xd => "http_1_1_required",
            _ => "unknown",
        }
    }
}

/// Why a connection or a stream was ended from this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The connection does not begin with the preface and SETTINGS (RFC 9113, 3.4).
    Preface,
    /// A frame of a size its type or the settings forbid (4.2).
    FrameSize,
    /// A frame on a stream its type or the role of its sender forbids (5.1.1, 6).
    StreamId,
    /// More padding than the frame is long (6.1).
    Padding,
    /// A header block that is not followed by its continuation, or a continuation of nothing (6.10).
    Continuation,
    /// A header block that cannot be read (4.3).
    Compression,
    /// A message that breaks a rule (8.1.1).
    Malformed,
    /// A setting with a value it must not have (6.5.2).
    Settings,
    /// A window beyond 2^31-1 bytes, or an increment of 0 (6.9).
    Window,
    /// More data than the window allows (6.9.1).
    WindowOverrun,
    /// A frame its stream is in no state for (5.1).
    StreamState,
    /// More streams at once than the settings allow (5.1.2).
    TooManyStreams,
    /// A push, which was never allowed (8.4).
    Push,
    /// A stream that depends on itself (RFC 7540, 5.3.1).
    Dependency,
    /// Too much of something that costs its sender little.
    Flood(Flood),
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 24] = [
        Self::Preface,
        Self::FrameSize,
        Self::StreamId,
        Self::Padding,
        Self::Continuation,
        Self::Compression,
        Self::Malformed,
        Self::Settings,
        Self::Window,
        Self::WindowOverrun,
        Self::StreamState,
        Self::TooManyStreams,
        Self::Push,
        Self::Dependency,
        Self::Flood(Flood::Resets),
        Self::Flood(Flood::ProvokedResets),
        Self::Flood(Flood::Settings),
        Self::Flood(Flood::Pings),
        Self::Flood(Flood::Empty),
        Self::Flood(Flood::Windows),
        Self::Flood(Flood::Priorities),
        Self::Flood(Flood::Stray),
        Self::Flood(Flood::Continuations),
        Self::Flood(Flood::Backlog),
    ];

    /// Its place in [`Reason::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        Self::ALL.iter().position(|reason| *reason == self).unwrap_or_default()
    }

    /// As it stands in logs and metrics; one word, stable.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Preface => "preface",
            Self::FrameSize => "frame_size",
            Self::StreamId => "stream_id",
            Self::Padding => "padding",
            Self::Continuation => "continuation",
            Self::Compression => "compression",
            Self::Malformed => "malformed",
            Self::Settings => "settings",
            Self::Window => "window",
            Self::WindowOverrun => "window_overrun",
            Self::StreamState => "stream_state",
            Self::TooManyStreams => "too_many_streams",
            Self::Push => "push",
            Self::Dependency => "dependency",
            Self::Flood(flood) => flood.name(),
        }
    }
}

/// What ends a connection (RFC 9113, 5.4.1), or a stream (5.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Error {
    /// The code the peer is told.
    pub code: ErrorCode,
    /// The rule behind it.
    pub reason: Reason,
}

impl Error {
    pub(super) const fn new(code: ErrorCode, reason: Reason) -> Self {
        Self { code, reason }
    }

    pub(super) const fn protocol(reason: Reason) -> Self {
        Self::new(ErrorCode::PROTOCOL_ERROR, reason)
    }

    pub(super) const fn size() -> Self {
        Self::new(ErrorCode::FRAME_SIZE_ERROR, Reason::FrameSize)
    }
}

impl From<Flood> for Error {
    fn from(flood: Flood) -> Self {
        Self::new(ErrorCode::ENHANCE_YOUR_CALM, Reason::Flood(flood))
    }
}
