//! `silly.compress`: gzip, snappy and lz4.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use lz4_flex::frame::{FrameDecoder, FrameEncoder};

use crate::frame::{Frame, Kind, Reply, native};

native!(native_gzip, gzip);
native!(native_gunzip, gunzip);
native!(native_snappy, snappy);
native!(native_unsnappy, unsnappy);
native!(native_lz4, lz4);
native!(native_unlz4, unlz4);

pub(crate) const FUNCTIONS: [(&str, mlua_sys::lua_CFunction); 6] = [
    ("gzip", native_gzip),
    ("gunzip", native_gunzip),
    ("snappy", native_snappy),
    ("unsnappy", native_unsnappy),
    ("lz4", native_lz4),
    ("unlz4", native_unlz4),
];

type Outcome = Result<Vec<u8>, String>;

fn transform(frame: &Frame<'_>, work: impl FnOnce(&[u8]) -> Outcome) -> Reply {
    let Some(bytes) = frame.bytes(1) else { return frame.raise("a string is expected") };
    match work(bytes) {
        Ok(result) => frame.push_bytes(&result),
        Err(said) => return frame.fail(said.as_bytes()),
    }
    Reply::Values(1)
}

/// What is left of the memory of the state: little bytes can become very many.
fn room(frame: &Frame<'_>) -> usize {
    frame.host().memory.room()
}

fn too_large(room: usize) -> String {
    format!("it is larger than the {room} bytes of memory that are left")
}

fn read_all(reader: impl Read, room: usize) -> Outcome {
    let mut result = Vec::new();
    let most = u64::try_from(room).unwrap_or(u64::MAX);
    let mut reader = reader.take(most.saturating_add(1));
    reader.read_to_end(&mut result).map_err(|error| error.to_string())?;
    if result.len() > room { Err(too_large(room)) } else { Ok(result) }
}

/// `gzip(text, level | nil)`.
fn gzip(frame: &Frame<'_>) -> Reply {
    let level = match frame.kind(2) {
        Kind::Nil => Compression::default(),
        _ => match frame.integer(2).and_then(|level| u32::try_from(level).ok()) {
            Some(level @ 0..=9) => Compression::new(level),
            _ => {
                return frame
                    .raise("bad argument #2 to 'compress': a level from 0 to 9 is expected");
            }
        },
    };
    transform(frame, |bytes| {
        let mut encoder = GzEncoder::new(Vec::new(), level);
        let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
        written.map_err(|error| error.to_string())
    })
}

fn gunzip(frame: &Frame<'_>) -> Reply {
    let room = room(frame);
    transform(frame, |bytes| {
        if bytes.is_empty() {
            return Err("it is empty".to_owned());
        }
        read_all(MultiGzDecoder::new(bytes), room)
    })
}

fn snappy(frame: &Frame<'_>) -> Reply {
    transform(frame, |bytes| {
        snap::raw::Encoder::new().compress_vec(bytes).map_err(|error| error.to_string())
    })
}

fn unsnappy(frame: &Frame<'_>) -> Reply {
    let room = room(frame);
    transform(frame, |bytes| {
        let length = snap::raw::decompress_len(bytes).map_err(|error| error.to_string())?;
        // A byte of it becomes 64 at most: what promises more lies, and gets no memory for that.
        if length > room || length > bytes.len().saturating_mul(64) {
            return Err(too_large(room));
        }
        snap::raw::Decoder::new().decompress_vec(bytes).map_err(|error| error.to_string())
    })
}

fn lz4(frame: &Frame<'_>) -> Reply {
    transform(frame, |bytes| {
        let mut encoder = FrameEncoder::new(Vec::new());
        encoder.write_all(bytes).map_err(|error| error.to_string())?;
        encoder.finish().map_err(|error| error.to_string())
    })
}

fn unlz4(frame: &Frame<'_>) -> Reply {
    let room = room(frame);
    transform(frame, |bytes| {
        if bytes.is_empty() {
            return Err("it is empty".to_owned());
        }
        read_all(FrameDecoder::new(bytes), room)
    })
}
