//! A check that is a call: `grpc.health.v1.Health/Check`, whose messages have one field each.

use std::future::poll_fn;

use sluice_conn::{Content, Upstream};
use sluice_message::{Fields, GrpcStatus, ResponseHead};

use super::Reason;

/// What a server says of itself, if not that it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serving {
    /// It does not know.
    Unknown,
    /// It does not.
    No,
    /// It knows nothing of the service.
    NoSuchService,
}

impl Serving {
    pub(super) const fn phrase(self) -> &'static str {
        match self {
            Self::Unknown => "serving status unknown",
            Self::No => "not serving",
            Self::NoSuchService => "service unknown",
        }
    }
}

/// An answer has one message of a few bytes; a server that sends more is broken.
const MOST: usize = 1024;

/// What precedes a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// Fields of the request for this service.
pub(super) fn fields(service: &str) -> String {
    let length = message(service).len();
    format!("content-type: application/grpc\r\nte: trailers\r\ncontent-length: {length}\r\n")
}

/// `HealthCheckRequest { string service = 1; }` with its prefix.
pub(super) fn message(service: &str) -> Vec<u8> {
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(0x0a);
        write_varint(&mut message, service.len());
        message.extend_from_slice(service.as_bytes());
    }
    // Names are configuration: far from 4 GiB.
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0][..], &length.to_be_bytes(), &message].concat()
}

fn write_varint(out: &mut Vec<u8>, mut value: usize) {
    while let Ok(low) = u8::try_from(value & 0x7f) {
        value >>= 7;
        if value == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

/// Whether the answer that begins with this head says that the service is served.
pub(super) async fn serves(head: &ResponseHead, upstream: &mut Upstream<'_>) -> Result<(), Reason> {
    let mut content = Vec::new();
    loop {
        let next =
            poll_fn(|cx| upstream.receiver.poll_content(upstream.channel.lend(), cx)).await?;
        if next == Content::End {
            break;
        }
        let piece = upstream.receiver.piece();
        content.extend_from_slice(piece);
        let taken = piece.len();
        upstream.receiver.advance(taken);
        if content.len() > MOST {
            return Err(Reason::Malformed);
        }
    }
    let said = |fields: &Fields| fields.values_of(b"grpc-status").next().map(GrpcStatus::of_value);
    let status = upstream.receiver.trailers().and_then(said).or_else(|| said(&head.fields));
    match status {
        Some(GrpcStatus::OK) => judge(&content),
        Some(status) => Err(Reason::Call(status)),
        None => Err(Reason::Malformed),
    }
}

/// `HealthCheckResponse { ServingStatus status = 1; }` with its prefix. A field that is not there is 0,
/// one that is there twice is what it is last, and others are for whoever knows them.
fn judge(content: &[u8]) -> Result<(), Reason> {
    let (prefix, message) = content.split_at_checked(PREFIX).ok_or(Reason::Malformed)?;
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
    // Nobody has been asked to compress.
    if prefix.first() != Some(&0) || prefix.get(1..) != Some(&length) {
        return Err(Reason::Malformed);
    }
    match last_status(message).ok_or(Reason::Malformed)? {
        1 => Ok(()),
        2 => Err(Reason::Serving(Serving::No)),
        3 => Err(Reason::Serving(Serving::NoSuchService)),
        _ => Err(Reason::Serving(Serving::Unknown)),
    }
}

fn last_status(mut message: &[u8]) -> Option<u64> {
    let mut status = 0;
    while !message.is_empty() {
        let tag = read_varint(&mut message)?;
        let skipped = match tag & 7 {
            0 => {
                let value = read_varint(&mut message)?;
                if tag >> 3 == 1 {
                    status = value;
                }
                0
            }
            1 => 8,
            2 => usize::try_from(read_varint(&mut message)?).ok()?,
            5 => 4,
            _ => return None,
        };
        message = message.get(skipped..)?;
    }
    Some(status)
}

fn read_varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_its_service() {
        assert_eq!(message(""), b"\0\0\0\0\0");
        assert_eq!(message("a.B"), b"\0\0\0\0\x05\x0a\x03a.B");
        let long = "x".repeat(300);
        let expected = [b"\0\0\0\x01\x2f\x0a\xac\x02", long.as_bytes()].concat();
        assert_eq!(message(&long), expected);
        assert!(fields("a.B").contains("content-length: 10\r\n"));
    }

    #[test]
    fn an_answer_has_to_say_that_the_service_is_served() {
        let unknown = Err(Reason::Serving(Serving::Unknown));
        let rows: [(&[u8], Result<(), Reason>); 14] = [
            (b"\0\0\0\0\x02\x08\x01", Ok(())),
            (b"\0\0\0\0\x02\x08\x02", Err(Reason::Serving(Serving::No))),
            (b"\0\0\0\0\x02\x08\x03", Err(Reason::Serving(Serving::NoSuchService))),
            (b"\0\0\0\0\x02\x08\x00", unknown),
            (b"\0\0\0\0\0", unknown),
            (b"\0\0\0\0\x04\x08\x02\x08\x01", Ok(())),
            (b"\0\0\0\0\x07\x12\x03abc\x08\x01", Ok(())),
            (b"\0\0\0\0\x07\x1d\0\0\0\0\x08\x01", Ok(())),
            (b"\0\0\0\0\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f", unknown),
            (b"\x01\0\0\0\x02\x08\x01", Err(Reason::Malformed)),
            (b"\0\0\0\0\x03\x08\x01", Err(Reason::Malformed)),
            (b"\0\0\0\0\x02\x12\x09", Err(Reason::Malformed)),
            (b"\0\0\0\0\x02\x0b\x01", Err(Reason::Malformed)),
            (b"\0\0", Err(Reason::Malformed)),
        ];
        for (content, expected) in rows {
            assert_eq!(judge(content), expected, "{content:02x?}");
        }
    }

    #[test]
    fn no_bytes_surprise() {
        for first in 0..=u8::MAX {
            for second in 0..=u8::MAX {
                for length in 0..4_u8 {
                    let message = [first, second, 0x80, 0x80];
                    let message = &message[..usize::from(length)];
                    let _ = judge(&[&[0, 0, 0, 0, length][..], message].concat());
                }
            }
        }
    }
}
