//! Frames (RFC 9113, 4 and 6): their headers, the rules of each type, and how they are written.

use super::error::{Error, ErrorCode, Reason};

/// Bytes of a frame header.
pub(super) const HEADER: usize = 9;

/// The largest frame taken: the least a peer may ask for (RFC 9113, 6.5.2), and what nearly all send.
pub(super) const MAX_PAYLOAD: usize = 16_384;

pub(super) const END_STREAM: u8 = 0x1;
pub(super) const ACK: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
pub(super) const PADDED: u8 = 0x8;
pub(super) const PRIORITY: u8 = 0x20;

/// Windows and stream identifiers have 31 bits; the one above is ignored (RFC 9113, 4.1 and 6.9).
pub(super) const LOW_31: u32 = 0x7fff_ffff;

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Data = 0,
    Headers = 1,
    Priority = 2,
    Reset = 3,
    Settings = 4,
    Push = 5,
    Ping = 6,
    GoAway = 7,
    WindowUpdate = 8,
    Continuation = 9,
    /// Ignored (RFC 9113, 4.1).
    Unknown,
}

impl Kind {
    #[inline(always)]
    const fn of(byte: u8) -> Self {
        match byte {
            0 => Self::Data,
            1 => Self::Headers,
            2 => Self::Priority,
            3 => Self::Reset,
            4 => Self::Settings,
            5 => Self::Push,
            6 => Self::Ping,
            7 => Self::GoAway,
            8 => Self::WindowUpdate,
            9 => Self::Continuation,
            _ => Self::Unknown,
        }
    }
}

/// What a frame begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) length: usize,
    pub(super) kind: Kind,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl Header {
    #[inline(always)]
    pub(super) fn read(bytes: &[u8; HEADER]) -> Self {
        let &[a, b, c, kind, flags, s0, s1, s2, s3] = bytes;
        Self {
            length: usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c),
            kind: Kind::of(kind),
            flags,
            stream: u32::from_be_bytes([s0, s1, s2, s3]) & LOW_31,
        }
    }

    #[inline(always)]
    pub(super) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The rules about length and stream that a header alone can break.
    #[inline(always)]
    pub(super) fn check(&self) -> Result<(), Error> {
        // RFC 9113, 4.2: which streams are hit by a frame too large cannot always be known.
        if self.length > MAX_PAYLOAD {
            return Err(Error::size());
        }
        let stream = self.stream != 0;
        let (on_stream, length) = match self.kind {
            Kind::Data | Kind::Headers | Kind::Continuation | Kind::Priority => (stream, true),
            Kind::Push => return Err(Error::protocol(Reason::Push)),
            Kind::Reset => (stream, self.length == 4),
            Kind::Settings if self.has(ACK) => (!stream, self.length == 0),
            Kind::Settings => (!stream, self.length.is_multiple_of(6)),
            Kind::Ping => (!stream, self.length == 8),
            Kind::GoAway => (!stream, self.length >= 8),
            Kind::WindowUpdate => (true, self.length == 4),
            Kind::Unknown => (true, true),
        };
        if !on_stream {
            return Err(Error::protocol(Reason::StreamId));
        }
        if !length {
            return Err(Error::size());
        }
        Ok(())
    }
}

/// The payload of HEADERS without padding and priority, and the stream it depends on if it says so.
///
/// # Errors
/// `PROTOCOL_ERROR` for too much padding, `FRAME_SIZE_ERROR` if the priority is cut off.
#[inline(always)]
pub(super) fn header_fragment<'a>(
    header: &Header,
    payload: &'a [u8],
) -> Result<(&'a [u8], Option<u32>), Error> {
    if !header.has(PADDED | PRIORITY) {
        return Ok((payload, None));
    }
    let mut rest = payload;
    let mut padding = 0;
    if header.has(PADDED) {
        let (&length, after) = rest.split_first().ok_or(Error::size())?;
        padding = usize::from(length);
        rest = after;
    }
    let mut depends = None;
    if header.has(PRIORITY) {
        let (fields, after) = rest.split_first_chunk::<5>().ok_or(Error::size())?;
        depends = Some(dependency(fields));
        rest = after;
    }
    // RFC 9113, 6.2.
    let length = rest.len().checked_sub(padding).ok_or(Error::protocol(Reason::Padding))?;
    Ok((rest.get(..length).unwrap_or_default(), depends))
}

/// The stream that the five bytes of a priority name (RFC 7540, 5.3).
pub(super) fn dependency(&[a, b, c, d, _]: &[u8; 5]) -> u32 {
    u32::from_be_bytes([a, b, c, d]) & LOW_31
}

/// The number a payload starts with; 0 if it is too short, which [`Header::check`] excludes.
#[inline]
pub(super) fn number(payload: &[u8]) -> u32 {
    payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// A frame header as bytes.
#[inline(always)]
pub(super) fn header(kind: Kind, flags: u8, stream: u32, length: usize) -> [u8; HEADER] {
    // Payloads are cut to the peer's limit, which has 24 bits.
    let [_, a, b, c] = u32::try_from(length).unwrap_or(0).to_be_bytes();
    let [s0, s1, s2, s3] = stream.to_be_bytes();
    [a, b, c, code(kind), flags, s0, s1, s2, s3]
}

#[expect(clippy::as_conversions, reason = "an enum of bytes as its byte")]
const fn code(kind: Kind) -> u8 {
    kind as u8
}

/// Appends a frame whose payload is at hand.
pub(super) fn write(out: &mut Vec<u8>, (kind, flags): (Kind, u8), stream: u32, payload: &[u8]) {
    out.reserve(HEADER + payload.len());
    out.extend_from_slice(&header(kind, flags, stream, payload.len()));
    out.extend_from_slice(payload);
}

/// Appends RST_STREAM.
pub(super) fn write_reset(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    write(out, (Kind::Reset, 0), stream, &code.0.to_be_bytes());
}

/// Appends WINDOW_UPDATE.
pub(super) fn write_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    write(out, (Kind::WindowUpdate, 0), stream, &increment.to_be_bytes());
}

/// Appends GOAWAY without debug data.
pub(super) fn write_go_away(out: &mut Vec<u8>, last: u32, code: ErrorCode) {
    let [a, b, c, d] = last.to_be_bytes();
    let [e, f, g, h] = code.0.to_be_bytes();
    write(out, (Kind::GoAway, 0), 0, &[a, b, c, d, e, f, g, h]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: Kind, flags: u8, stream: u32, length: usize) -> Option<ErrorCode> {
        let header = Header::read(&header(kind, flags, stream, length));
        assert_eq!((header.kind, header.flags, header.stream), (kind, flags, stream));
        header.check().err().map(|error| error.code)
    }

    #[test]
    fn lengths_and_streams() {
        const SIZE: Option<ErrorCode> = Some(ErrorCode::FRAME_SIZE_ERROR);
        const PROTOCOL: Option<ErrorCode> = Some(ErrorCode::PROTOCOL_ERROR);
        let cases = [
            (Kind::Data, 0, 1, 16_384, None),
            (Kind::Data, 0, 1, 16_385, SIZE),
            (Kind::Data, 0, 0, 1, PROTOCOL),
            (Kind::Headers, 0, 0, 1, PROTOCOL),
            (Kind::Continuation, 0, 0, 1, PROTOCOL),
            (Kind::Priority, 0, 0, 5, PROTOCOL),
            (Kind::Reset, 0, 1, 4, None),
            (Kind::Reset, 0, 0, 4, PROTOCOL),
            (Kind::Reset, 0, 1, 3, SIZE),
            (Kind::Settings, 0, 0, 0, None),
            (Kind::Settings, 0, 0, 12, None),
            (Kind::Settings, 0, 0, 7, SIZE),
            (Kind::Settings, 0, 1, 0, PROTOCOL),
            (Kind::Settings, ACK, 0, 0, None),
            (Kind::Settings, ACK, 0, 6, SIZE),
            (Kind::Push, END_HEADERS, 1, 4, PROTOCOL),
            (Kind::Ping, 0, 0, 8, None),
            (Kind::Ping, 0, 0, 7, SIZE),
            (Kind::Ping, 0, 1, 8, PROTOCOL),
            (Kind::GoAway, 0, 0, 8, None),
            (Kind::GoAway, 0, 0, 7, SIZE),
            (Kind::GoAway, 0, 1, 8, PROTOCOL),
            (Kind::WindowUpdate, 0, 0, 4, None),
            (Kind::WindowUpdate, 0, 1, 4, None),
            (Kind::WindowUpdate, 0, 1, 5, SIZE),
        ];
        for (kind, flags, stream, length, want) in cases {
            assert_eq!(check(kind, flags, stream, length), want, "{kind:?} {stream} {length}");
        }
        assert_eq!(Header::read(&[0, 0, 1, 77, 9, 0x80, 0, 0, 3]).kind, Kind::Unknown);
        assert_eq!(Header::read(&[0, 0, 1, 77, 9, 0x80, 0, 0, 3]).stream, 3);
    }

    #[test]
    fn padding_and_priority_are_cut_off() {
        let fragment = |flags, payload: &[u8]| {
            let header = Header::read(&header(Kind::Headers, flags, 1, payload.len()));
            header_fragment(&header, payload).map(|(f, d)| (f.to_vec(), d)).map_err(|e| e.code)
        };
        assert_eq!(fragment(0, b"abc"), Ok((b"abc".to_vec(), None)));
        assert_eq!(fragment(PADDED, b"\x02abcd"), Ok((b"ab".to_vec(), None)));
        assert_eq!(fragment(PADDED, b"\x04abcd"), Ok((vec![], None)));
        assert_eq!(fragment(PADDED, b"\x05abcd"), Err(ErrorCode::PROTOCOL_ERROR));
        assert_eq!(fragment(PADDED, b""), Err(ErrorCode::FRAME_SIZE_ERROR));
        assert_eq!(fragment(PRIORITY, b"\x80\0\0\x07\x10ab"), Ok((b"ab".to_vec(), Some(7))));
        assert_eq!(fragment(PRIORITY, b"\0\0\0\x07"), Err(ErrorCode::FRAME_SIZE_ERROR));
        let both = fragment(PADDED | PRIORITY, b"\x01\0\0\0\x03\0ab");
        assert_eq!(both, Ok((b"a".to_vec(), Some(3))));
        let much = fragment(PADDED | PRIORITY, b"\x03\0\0\0\x03\0ab");
        assert_eq!(much, Err(ErrorCode::PROTOCOL_ERROR));
    }
}
