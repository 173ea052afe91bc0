//! Settings (RFC 9113, 6.5; RFC 8441, 3).

use super::error::{Error, ErrorCode, Reason};
use super::frame::{self, ACK, Kind, LOW_31};

const HEADER_TABLE_SIZE: u16 = 0x1;
const ENABLE_PUSH: u16 = 0x2;
const MAX_CONCURRENT_STREAMS: u16 = 0x3;
const INITIAL_WINDOW_SIZE: u16 = 0x4;
const MAX_FRAME_SIZE: u16 = 0x5;
const MAX_HEADER_LIST_SIZE: u16 = 0x6;
const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;

/// The window every stream and connection begins with, in bytes.
pub(super) const DEFAULT_WINDOW: u32 = 65_535;

/// What the peer has set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// Bytes of its dynamic table.
    pub header_table: u32,
    /// Streams it lets be opened at once.
    pub streams: u32,
    /// Bytes of data it takes on a new stream.
    pub window: u32,
    /// Bytes of the largest frame it takes.
    pub frame: u32,
    /// Bytes of the largest head it takes; advice.
    pub header_list: u32,
    /// Whether it takes extended CONNECT (RFC 8441): 1 if so.
    pub connect_protocol: u32,
}

impl PeerSettings {
    /// What holds before the first SETTINGS frame. No limit is set on streams then; a hundred is what
    /// RFC 9113, 6.5.2 wants everybody to allow.
    pub(super) const INITIAL: Self = Self {
        header_table: 4096,
        streams: 100,
        window: DEFAULT_WINDOW,
        frame: 16_384,
        header_list: u32::MAX,
        connect_protocol: 0,
    };

    /// Takes a payload of whole settings into account.
    ///
    /// # Errors
    /// A value out of its range.
    pub(super) fn apply(&mut self, payload: &[u8], from_server: FromServer) -> Result<(), Error> {
        const BAD: Error = Error::protocol(Reason::Settings);
        let (settings, _) = payload.as_chunks::<6>();
        for &[a, b, v0, v1, v2, v3] in settings {
            let value = u32::from_be_bytes([v0, v1, v2, v3]);
            match u16::from_be_bytes([a, b]) {
                HEADER_TABLE_SIZE => self.header_table = value,
                // A server has nothing to be pushed to (RFC 9113, 6.5.2).
                ENABLE_PUSH if value > 1 || (value == 1 && from_server == FromServer::Yes) => {
                    return Err(BAD);
                }
                MAX_CONCURRENT_STREAMS => self.streams = value,
                INITIAL_WINDOW_SIZE if value > LOW_31 => {
                    return Err(Error::new(ErrorCode::FLOW_CONTROL_ERROR, Reason::Settings));
                }
                INITIAL_WINDOW_SIZE => self.window = value,
                MAX_FRAME_SIZE if !(16_384..=0xff_ffff).contains(&value) => return Err(BAD),
                MAX_FRAME_SIZE => self.frame = value,
                MAX_HEADER_LIST_SIZE => self.header_list = value,
                // RFC 8441, 3: not taken back.
                ENABLE_CONNECT_PROTOCOL if value > 1 || value < self.connect_protocol => {
                    return Err(BAD);
                }
                ENABLE_CONNECT_PROTOCOL => self.connect_protocol = value,
                // RFC 9113, 6.5.2: unknown ones are ignored.
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether settings come from a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FromServer {
    Yes,
    No,
}

/// What this side sets; everything else keeps its default.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnSettings {
    pub(super) header_table: u32,
    pub(super) window: u32,
    /// A server's limit.
    pub(super) streams: Option<u32>,
    pub(super) header_list: u32,
    pub(super) connect_protocol: bool,
    /// A client wants no pushes.
    pub(super) no_push: bool,
}

impl OwnSettings {
    /// Appends the SETTINGS frame.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let settings = [
            (HEADER_TABLE_SIZE, Some(self.header_table).filter(|size| *size != 4096)),
            (ENABLE_PUSH, self.no_push.then_some(0)),
            (MAX_CONCURRENT_STREAMS, self.streams),
            (INITIAL_WINDOW_SIZE, Some(self.window).filter(|size| *size != DEFAULT_WINDOW)),
            (MAX_HEADER_LIST_SIZE, Some(self.header_list)),
            (ENABLE_CONNECT_PROTOCOL, self.connect_protocol.then_some(1)),
        ];
        let mut payload = Vec::with_capacity(36);
        for (id, value) in settings {
            if let Some(value) = value {
                payload.extend_from_slice(&id.to_be_bytes());
                payload.extend_from_slice(&value.to_be_bytes());
            }
        }
        frame::write(out, (Kind::Settings, 0), 0, &payload);
    }
}

/// Appends the acknowledgement.
pub(super) fn write_ack(out: &mut Vec<u8>) {
    frame::write(out, (Kind::Settings, ACK), 0, &[]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(id: u16, value: u32, from: FromServer) -> Result<PeerSettings, Error> {
        let mut settings = PeerSettings::INITIAL;
        let payload = [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
        settings.apply(&payload, from).map(|()| settings)
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let no = FromServer::No;
        let protocol = Err(Error::protocol(Reason::Settings));
        assert_eq!(apply(2, 2, no), protocol);
        assert!(apply(2, 1, no).is_ok() && apply(2, 0, FromServer::Yes).is_ok());
        assert_eq!(apply(2, 1, FromServer::Yes), protocol);
        assert_eq!(apply(4, 1 << 31, no).unwrap_err().code, ErrorCode::FLOW_CONTROL_ERROR);
        assert_eq!(apply(4, LOW_31, no).unwrap().window, LOW_31);
        assert_eq!(apply(5, 16_383, no), protocol);
        assert_eq!(apply(5, 1 << 24, no), protocol);
        assert_eq!(apply(5, (1 << 24) - 1, no).unwrap().frame, (1 << 24) - 1);
        assert_eq!(apply(8, 2, no), protocol);
        assert_eq!(apply(8, 1, no).unwrap().connect_protocol, 1);
        assert_eq!(apply(1, 0, no).unwrap().header_table, 0);
        assert_eq!(apply(3, 7, no).unwrap().streams, 7);
        assert_eq!(apply(0xff, 7, no).unwrap(), PeerSettings::INITIAL);
        let mut on = apply(8, 1, no).unwrap();
        assert_eq!(on.apply(b"\0\x08\0\0\0\0", no), Err(Error::protocol(Reason::Settings)));
    }

    #[test]
    fn what_is_written_is_read() {
        let own = OwnSettings {
            header_table: 0,
            window: 1 << 20,
            streams: Some(128),
            header_list: 32_768,
            connect_protocol: true,
            no_push: true,
        };
        let mut out = Vec::new();
        own.write(&mut out);
        let mut peer = PeerSettings::INITIAL;
        peer.apply(&out[9..], FromServer::Yes).unwrap();
        let want = PeerSettings {
            header_table: 0,
            streams: 128,
            window: 1 << 20,
            header_list: 32_768,
            connect_protocol: 1,
            ..PeerSettings::INITIAL
        };
        assert_eq!(peer, want);
    }
}
