//! From fields to header blocks (RFC 7541, 6).
//!
//! A field that is in the table is found by a hash of its first and last bytes and one comparison. It
//! comes into the table at once if fields of its name repeat (`server`, `date`), else when it is seen
//! a second time. Huffman's code is paid for where it is paid once: on the way into the table.

use sluice_message::FieldId;

use super::huffman;
use super::integer::write;
use super::table::Table;
use super::{fixed, line::OVERHEAD};

/// The largest table used, whatever the peer allows: what repeats fits many times.
const TABLE: usize = 4096;

/// Places for entries, by hash. A power of two, and as many as a table has entries at most.
const PLACES: usize = 128;

/// Places for fields that were seen once.
const SIGHTS: usize = 64;

/// A field's name and what is known about it.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a> {
    /// What it means to the gateway.
    pub id: FieldId,
    /// The name in any case; it is sent in lower case.
    pub text: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
struct Key {
    hash: u32,
    id: FieldId,
}

/// Writes the header blocks of one direction of a connection.
#[derive(Debug)]
pub struct Encoder {
    table: Table<Key>,
    /// How many entries were ever added; wraps.
    added: u32,
    /// For a hash, `added` as it was behind its entry.
    places: [u32; PLACES],
    seen: [u32; SIGHTS],
    /// The smallest table size since the last block, if the size changed (RFC 7541, 4.2).
    resized: Option<usize>,
}

/// How a field is to be sent.
enum Policy {
    /// Fields of this name repeat.
    Index,
    /// Indexed when seen again.
    Watch,
    /// Secret: not even another hop may index it (RFC 7541, 7.1.3).
    Never,
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// An encoder for a peer with the table size every connection begins with.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            table: Table::new(TABLE),
            added: 0,
            places: [0; PLACES],
            seen: [0; SIGHTS],
            resized: None,
        }
    }

    /// The peer's `SETTINGS_HEADER_TABLE_SIZE`, in bytes.
    pub fn set_limit(&mut self, limit: u32) {
        let max = usize::try_from(limit).unwrap_or(TABLE).min(TABLE);
        if max != self.table.max() {
            self.table.set_max(max);
            self.resized = Some(self.resized.map_or(max, |least| least.min(max)));
        }
    }

    /// A number that changes with the table: equal fields make equal blocks while it stays.
    #[must_use]
    #[inline]
    pub const fn version(&self) -> u64 {
        self.table.version()
    }

    /// Begins a block. Every block has to begin so: a changed table size is said here.
    #[inline]
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if self.resized.is_some() {
            self.say_size(out);
        }
    }

    #[cold]
    fn say_size(&mut self, out: &mut Vec<u8>) {
        let max = self.table.max();
        if let Some(least) = self.resized.take()
            && least < max
        {
            write(out, 0x20, 0x1f, least);
        }
        write(out, 0x20, 0x1f, max);
    }

    /// Appends `:status`.
    #[inline]
    pub fn status(&mut self, out: &mut Vec<u8>, status: u16) {
        let index = match status {
            200 => 8,
            204 => 9,
            206 => 10,
            304 => 11,
            400 => 12,
            404 => 13,
            500 => 14,
            _ => return self.rare_status(out, status),
        };
        out.push(0x80 | index);
    }

    #[cold]
    #[inline(never)]
    fn rare_status(&mut self, out: &mut Vec<u8>, status: u16) {
        let digit = |value: u16| b'0' + u8::try_from(value % 10).unwrap_or(0);
        let text = [digit(status / 100), digit(status / 10), digit(status)];
        self.field(out, Name { id: FieldId::Other, text: b":status" }, &text);
    }

    /// Appends an entry of the static table, 1 to 61, as it stands.
    #[inline]
    pub fn fixed(&mut self, out: &mut Vec<u8>, index: u8) {
        out.push(0x80 | index);
    }

    /// Appends a field that hardly ever repeats, its name by its static `index` of at least 15.
    #[inline]
    pub fn unindexed(&mut self, out: &mut Vec<u8>, index: u8, value: &[u8]) {
        match u8::try_from(value.len()) {
            Ok(length) if length < 0x7f => {
                out.extend_from_slice(&[0x0f, index.wrapping_sub(0x0f), length])
            }
            _ => {
                out.extend_from_slice(&[0x0f, index.wrapping_sub(0x0f)]);
                write(out, 0, 0x7f, value.len());
            }
        }
        out.extend_from_slice(value);
    }

    /// Appends a field.
    #[inline]
    pub fn field(&mut self, out: &mut Vec<u8>, name: Name<'_>, value: &[u8]) {
        let hash = hash(name, value);
        match self.find(hash, name, value) {
            Some(index) => write(out, 0x80, 0x7f, index),
            None => self.literal(out, name, value, hash),
        }
    }

    #[inline(always)]
    fn find(&self, hash: u32, name: Name<'_>, value: &[u8]) -> Option<usize> {
        let place = *self.places.get(place(hash, PLACES))?;
        let back = usize::try_from(self.added.wrapping_sub(place)).ok()?;
        let found = self.table.get(back)?;
        let same = found.tag.hash == hash
            && found.line.get(found.name + 2..found.line.len().wrapping_sub(2)) == Some(value)
            && found.tag.id == name.id
            && (name.id != FieldId::Other || same_name(found.line.get(..found.name), name.text));
        same.then_some(back + fixed::COUNT + 1)
    }

    #[inline(never)]
    fn literal(&mut self, out: &mut Vec<u8>, name: Name<'_>, value: &[u8], hash: u32) {
        let mut space = [0; 64];
        let long;
        let text = match space.get_mut(..name.text.len()) {
            Some(text) => {
                text.copy_from_slice(name.text);
                text.make_ascii_lowercase();
                &*text
            }
            None => {
                long = name.text.to_ascii_lowercase();
                &*long
            }
        };
        let index = fixed::index_of(text);
        let fits = text.len() + value.len() + OVERHEAD <= self.table.max() / 4;
        let (first, mask, indexing) = match policy(name.id, text) {
            Policy::Index if fits => (0x40, 0x3f, true),
            Policy::Watch if fits && self.seen_before(hash) => (0x40, 0x3f, true),
            Policy::Never => (0x10, 0x0f, false),
            _ => (0, 0x0f, false),
        };
        write(out, first, mask, index);
        if index == 0 {
            string(out, text, indexing);
        }
        string(out, value, indexing);
        if indexing && self.table.insert(text, value, Key { hash, id: name.id }) {
            self.added = self.added.wrapping_add(1);
            if let Some(slot) = self.places.get_mut(place(hash, PLACES)) {
                *slot = self.added;
            }
        }
    }

    /// Whether a field of this hash was met lately; from now on it was.
    fn seen_before(&mut self, hash: u32) -> bool {
        let place = place(hash.rotate_right(7), SIGHTS);
        self.seen.get_mut(place).is_some_and(|slot| std::mem::replace(slot, hash) == hash)
    }
}

#[inline(always)]
fn place(hash: u32, places: usize) -> usize {
    usize::try_from(hash).unwrap_or(0) & (places - 1)
}

fn same_name(have: Option<&[u8]>, name: &[u8]) -> bool {
    have.is_some_and(|have| have == name || have.eq_ignore_ascii_case(name))
}

fn policy(id: FieldId, name: &[u8]) -> Policy {
    match id {
        FieldId::Server
        | FieldId::Date
        | FieldId::ContentType
        | FieldId::UserAgent
        | FieldId::Via => Policy::Index,
        FieldId::Cookie | FieldId::ProxyAuthorization => Policy::Never,
        FieldId::Other => match name {
            b":authority" => Policy::Index,
            b"authorization" | b"set-cookie" | b"x-api-key" | b"x-auth-token" => Policy::Never,
            _ => Policy::Watch,
        },
        _ => Policy::Watch,
    }
}

fn string(out: &mut Vec<u8>, text: &[u8], shorten: bool) {
    if shorten {
        let length = huffman::encoded_length(text);
        if length < text.len() {
            write(out, 0x80, 0x7f, length);
            huffman::encode(text, out);
            return;
        }
    }
    write(out, 0, 0x7f, text.len());
    out.extend_from_slice(text);
}

/// Of lengths and edges: constant work, however long the value is. Names hash without case.
#[inline(always)]
fn hash(name: Name<'_>, value: &[u8]) -> u32 {
    const CASE: u64 = 0x2020_2020_2020_2020;
    let (start, end) = edges(value);
    let name = match name.id {
        FieldId::Other => {
            let (start, end) = edges(name.text);
            (start | CASE).wrapping_add((end | CASE).rotate_left(29)) ^ length(name.text)
        }
        id => known(id),
    };
    let mixed = (start ^ name).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ end.rotate_left(32) ^ length(value)).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    let [a, b, c, d, ..] = (mixed ^ mixed >> 29).to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

#[inline(always)]
fn length(text: &[u8]) -> u64 {
    u64::try_from(text.len()).unwrap_or(0)
}

#[inline(always)]
#[expect(clippy::as_conversions, reason = "an enum without fields as its number")]
const fn known(id: FieldId) -> u64 {
    id as u64
}

/// The first and the last bytes of a text, eight of each if there are so many.
#[inline(always)]
fn edges(text: &[u8]) -> (u64, u64) {
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        return (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
    }
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        return (u64::from(u32::from_le_bytes(*first)), u64::from(u32::from_le_bytes(*last)));
    }
    (text.iter().fold(0, |bits, &byte| bits << 8 | u64::from(byte)), 0)
}

#[cfg(test)]
mod tests {
    use super::super::{Decoder, Invalid};
    use super::*;

    fn name(text: &str) -> Name<'_> {
        Name { id: FieldId::of(text.as_bytes()), text: text.as_bytes() }
    }

    fn block(encoder: &mut Encoder, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut out = Vec::new();
        encoder.begin(&mut out);
        for (field, value) in fields {
            encoder.field(&mut out, name(field), value.as_bytes());
        }
        out
    }

    fn lines(decoder: &mut Decoder, block: &[u8]) -> Result<String, Invalid> {
        let mut text = Vec::new();
        decoder.decode(block, |line| text.extend_from_slice(line.bytes()))?;
        Ok(String::from_utf8(text).unwrap())
    }

    #[test]
    fn what_repeats_becomes_one_byte() {
        let fields =
            [("Server", "sluice"), ("Date", "Sat, 21 Nov 2026 01:00:00 GMT"), ("X-One", "1")];
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
        let want = "server: sluice\r\ndate: Sat, 21 Nov 2026 01:00:00 GMT\r\nx-one: 1\r\n";
        let lengths: Vec<usize> = (0..4)
            .map(|_| {
                let block = block(&mut encoder, &fields);
                assert_eq!(lines(&mut decoder, &block).unwrap(), want);
                block.len()
            })
            .collect();
        // The unknown field comes into the table when it is seen again.
        assert!(lengths[0] > 30 && lengths[1] < 12, "{lengths:?}");
        assert_eq!(lengths[2..], [3, 3]);
    }

    #[test]
    fn secrets_are_never_indexed() {
        for secret in ["cookie", "Authorization", "set-cookie", "proxy-authorization"] {
            let mut encoder = Encoder::new();
            for _ in 0..3 {
                let out = block(&mut encoder, &[(secret, "a=b")]);
                assert_eq!(out[0] & 0xf0, 0x10, "{secret}");
                let want = format!("{}: a=b\r\n", secret.to_ascii_lowercase());
                assert_eq!(lines(&mut Decoder::new(0), &out).unwrap(), want);
            }
        }
    }

    #[test]
    fn names_of_one_value_and_values_of_one_name_are_kept_apart() {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
        for _ in 0..3 {
            for (field, value) in [
                ("x-a", "v"),
                ("x-b", "v"),
                ("X-A", "w"),
                ("x-a", ""),
                ("server", "v"),
                ("via", "v"),
            ] {
                let want = format!("{}: {value}\r\n", field.to_ascii_lowercase());
                let out = block(&mut encoder, &[(field, value)]);
                assert_eq!(lines(&mut decoder, &out).unwrap(), want);
            }
        }
    }

    #[test]
    fn the_peers_table_size_is_obeyed() {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
        let fields = [("server", "a"), ("content-type", "text/plain")];
        lines(&mut decoder, &block(&mut encoder, &fields)).unwrap();
        for limit in [0, 40, 100, 4096, 1 << 20] {
            // The least in between has to be said too (RFC 7541, 4.2).
            encoder.set_limit(0);
            encoder.set_limit(limit);
            decoder.set_limit(0);
            let out = block(&mut encoder, &fields);
            decoder.set_limit(usize::try_from(limit).unwrap());
            let want = "server: a\r\ncontent-type: text/plain\r\n";
            assert_eq!(lines(&mut decoder, &out).unwrap(), want, "{limit}");
            assert_eq!(lines(&mut decoder, &block(&mut encoder, &fields)).unwrap(), want);
        }
    }

    #[test]
    fn statuses() {
        for status in [200, 204, 206, 304, 400, 404, 500, 100, 201, 418, 999] {
            let mut out = Vec::new();
            Encoder::new().status(&mut out, status);
            let want = format!(":status: {status}\r\n");
            assert_eq!(lines(&mut Decoder::new(4096), &out).unwrap(), want);
        }
    }

    #[test]
    fn unindexed_values_of_any_length() {
        for length in [0, 1, 126, 127, 128, 300] {
            let (mut out, value) = (Vec::new(), "1".repeat(length));
            Encoder::new().unindexed(&mut out, 28, value.as_bytes());
            let want = format!("content-length: {value}\r\n");
            assert_eq!(lines(&mut Decoder::new(4096), &out).unwrap(), want);
        }
    }
}
