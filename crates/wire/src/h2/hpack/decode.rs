//! From header blocks to lines (RFC 7541, 3 and 6).

use super::Invalid;
use super::fixed;
use super::huffman;
use super::integer::read;
use super::line::{Class, Line, Mark};
use super::table::Table;

/// Reads the header blocks of one direction of a connection.
///
/// After an error the table no longer equals the peer's: the connection has to end with
/// `COMPRESSION_ERROR` (RFC 9113, 4.3).
#[derive(Debug)]
pub struct Decoder {
    table: Table<Mark>,
    /// The largest table size the peer may choose: our setting.
    limit: usize,
    /// The peer has to shrink its table before it sends anything else (RFC 7541, 4.2).
    shrink: bool,
    /// The literal being read, name first.
    text: Vec<u8>,
}

/// Literals longer than this give their memory back.
const KEPT: usize = 4096;

impl Decoder {
    /// A decoder whose table holds at most `limit` bytes, as `SETTINGS_HEADER_TABLE_SIZE` counts.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self { table: Table::new(limit), limit, shrink: false, text: Vec::new() }
    }

    /// The peer has acknowledged another `SETTINGS_HEADER_TABLE_SIZE`, in bytes.
    pub const fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.shrink = self.table.max() > limit;
        self.table.change();
    }

    /// A number that changes with the table: equal blocks mean the same while it stays.
    #[must_use]
    #[inline]
    pub const fn version(&self) -> u64 {
        self.table.version()
    }

    /// Reads a whole header block and hands over each of its lines.
    ///
    /// # Errors
    /// What is wrong with the block; lines before it have been handed over.
    #[inline]
    pub fn decode(&mut self, block: &[u8], mut take: impl FnMut(&Line<'_>)) -> Result<(), Invalid> {
        let mut rest = block;
        if self.shrink || rest.first().is_some_and(|first| first & 0xe0 == 0x20) {
            self.resize(&mut rest)?;
        }
        while let Some((&first, after)) = rest.split_first() {
            rest = after;
            if first & 0x80 != 0 {
                take(&self.line(read(first, 0x7f, &mut rest)?)?);
            } else {
                self.literal(first, &mut rest, &mut take)?;
            }
        }
        Ok(())
    }

    /// The entry of either table (RFC 7541, 2.3.3).
    #[inline(always)]
    fn line(&self, index: usize) -> Result<Line<'_>, Invalid> {
        if index <= fixed::COUNT {
            return fixed::entry(index).ok_or(Invalid::Index);
        }
        let found = self.table.get(index - fixed::COUNT - 1).ok_or(Invalid::Index)?;
        Ok(Line::new(found.line, found.name, found.tag))
    }

    /// Size updates stand at the start of a block and nowhere else, two at most: the smallest size and
    /// the last (RFC 7541, 4.2).
    #[cold]
    fn resize(&mut self, rest: &mut &[u8]) -> Result<(), Invalid> {
        for _ in 0..2 {
            let Some((&first, after)) =
                rest.split_first().filter(|(first, _)| *first & 0xe0 == 0x20)
            else {
                break;
            };
            *rest = after;
            let max = read(first, 0x1f, rest)?;
            if max > self.limit {
                return Err(Invalid::TableSize);
            }
            self.table.set_max(max);
            self.shrink = false;
        }
        if self.shrink { Err(Invalid::TableSize) } else { Ok(()) }
    }

    #[inline(never)]
    fn literal(
        &mut self,
        first: u8,
        rest: &mut &[u8],
        take: &mut impl FnMut(&Line<'_>),
    ) -> Result<(), Invalid> {
        let (mask, indexing) = match first & 0xf0 {
            0x40..=0x70 => (0x3f, true),
            // Without indexing, and never indexed.
            0x00 | 0x10 => (0x0f, false),
            _ => return Err(Invalid::TableSize),
        };
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        let outcome = self.read_literal(read(first, mask, rest)?, rest, &mut text);
        let (name, mark) = outcome?;
        let (field, value) = text.split_at_checked(name).unwrap_or_default();
        let value = value.get(2..).unwrap_or_default();
        if indexing {
            self.table.insert(field, value, mark);
        }
        text.extend_from_slice(b"\r\n");
        take(&Line::new(&text, name, mark));
        if text.capacity() > KEPT {
            text = Vec::new();
        }
        self.text = text;
        Ok(())
    }

    /// Reads `name: value` into `text`; says how long the name is and what the line is.
    #[inline(always)]
    fn read_literal(
        &self,
        index: usize,
        rest: &mut &[u8],
        text: &mut Vec<u8>,
    ) -> Result<(usize, Mark), Invalid> {
        let mark = if index == 0 {
            string(rest, text)?;
            Mark::of_name(text)
        } else {
            let line = self.line(index)?;
            text.extend_from_slice(line.name());
            match line.mark() {
                // The other line's value was wrong, or its name is: judged again.
                Mark { class: Class::BadName | Class::BadValue, .. } => Mark::of_name(line.name()),
                mark => mark,
            }
        };
        let name = text.len();
        text.extend_from_slice(b": ");
        string(rest, text)?;
        Ok((name, mark.with_value(text.get(name + 2..).unwrap_or_default())))
    }
}

/// Appends a string (RFC 7541, 5.2).
#[inline(always)]
fn string(rest: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    let (&first, after) = rest.split_first().ok_or(Invalid::Truncated)?;
    *rest = after;
    let length = read(first, 0x7f, rest)?;
    let (text, after) = rest.split_at_checked(length).ok_or(Invalid::Truncated)?;
    *rest = after;
    if first & 0x80 != 0 {
        return huffman::decode(text, out);
    }
    out.extend_from_slice(text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(decoder: &mut Decoder, block: &[u8]) -> Result<String, Invalid> {
        let mut text = Vec::new();
        decoder.decode(block, |line| text.extend_from_slice(line.bytes()))?;
        Ok(String::from_utf8(text).unwrap())
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pair = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(pair).collect()
    }

    /// Blocks, lines and size of the table afterwards: RFC 7541, C.3 to C.6.
    type Example = (usize, &'static [(&'static str, &'static str, usize)]);
    const REQUESTS: [&str; 3] = [
        ":method: GET\r\n:scheme: http\r\n:path: /\r\n:authority: www.example.com\r\n",
        ":method: GET\r\n:scheme: http\r\n:path: /\r\n:authority: www.example.com\r\ncache-control: no-cache\r\n",
        ":method: GET\r\n:scheme: https\r\n:path: /index.html\r\n:authority: www.example.com\r\ncustom-key: custom-value\r\n",
    ];
    const RESPONSES: [&str; 3] = [
        ":status: 302\r\ncache-control: private\r\ndate: Mon, 21 Oct 2013 20:13:21 GMT\r\nlocation: https://www.example.com\r\n",
        ":status: 307\r\ncache-control: private\r\ndate: Mon, 21 Oct 2013 20:13:21 GMT\r\nlocation: https://www.example.com\r\n",
        ":status: 200\r\ncache-control: private\r\ndate: Mon, 21 Oct 2013 20:13:22 GMT\r\nlocation: https://www.example.com\r\ncontent-encoding: gzip\r\nset-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1\r\n",
    ];
    const EXAMPLES: [Example; 4] = [
        (
            4096,
            &[
                ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", REQUESTS[0], 57),
                ("8286 84be 5808 6e6f 2d63 6163 6865", REQUESTS[1], 110),
                (
                    "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
                    REQUESTS[2],
                    164,
                ),
            ],
        ),
        (
            4096,
            &[
                ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", REQUESTS[0], 57),
                ("8286 84be 5886 a8eb 1064 9cbf", REQUESTS[1], 110),
                ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", REQUESTS[2], 164),
            ],
        ),
        (
            256,
            &[
                (
                    "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                    RESPONSES[0],
                    222,
                ),
                ("4803 3330 37c1 c0bf", RESPONSES[1], 222),
                (
                    "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
                    RESPONSES[2],
                    215,
                ),
            ],
        ),
        (
            256,
            &[
                (
                    "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                    RESPONSES[0],
                    222,
                ),
                ("4883 640e ffc1 c0bf", RESPONSES[1], 222),
                (
                    "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
                    RESPONSES[2],
                    215,
                ),
            ],
        ),
    ];

    #[test]
    fn examples_of_the_appendix() {
        for (limit, blocks) in EXAMPLES {
            let mut decoder = Decoder::new(limit);
            for (block, want, size) in blocks {
                assert_eq!(lines(&mut decoder, &bytes(block)).unwrap(), *want);
                assert_eq!(decoder.table.size(), *size);
            }
        }
    }

    /// RFC 7541, C.2.
    #[test]
    fn each_representation() {
        let cases = [
            (
                "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
                "custom-key: custom-header\r\n",
                55,
            ),
            ("040c 2f73 616d 706c 652f 7061 7468", ":path: /sample/path\r\n", 0),
            ("1008 7061 7373 776f 7264 0673 6563 7265 74", "password: secret\r\n", 0),
            ("82", ":method: GET\r\n", 0),
        ];
        for (block, want, size) in cases {
            let mut decoder = Decoder::new(4096);
            assert_eq!(lines(&mut decoder, &bytes(block)).unwrap(), want);
            assert_eq!(decoder.table.size(), size);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("80", Invalid::Index),
            ("be", Invalid::Index),
            ("ff 00", Invalid::Index),
            ("7f 00 00", Invalid::Index),
            ("ff", Invalid::Truncated),
            ("ff 80 80 80 80 01", Invalid::Integer),
            ("40", Invalid::Truncated),
            ("00 05 61", Invalid::Truncated),
            ("00 01 61", Invalid::Truncated),
            ("00 01 61 81 00", Invalid::Huffman),
            ("00 81 ff 00", Invalid::Huffman),
            // A size update behind a field; a third one; one above the limit.
            ("82 20", Invalid::TableSize),
            ("20 20 20", Invalid::TableSize),
            ("3f e2 1f", Invalid::TableSize),
        ];
        for (block, want) in cases {
            assert_eq!(lines(&mut Decoder::new(4096), &bytes(block)), Err(want), "{block}");
        }
        assert_eq!(
            lines(&mut Decoder::new(4096), &bytes("20 3f e1 1f 82")).unwrap(),
            ":method: GET\r\n"
        );
    }

    #[test]
    fn a_smaller_limit_has_to_be_obeyed() {
        let mut decoder = Decoder::new(4096);
        lines(&mut decoder, &bytes("400161 0162")).unwrap();
        decoder.set_limit(100);
        assert_eq!(lines(&mut decoder, &bytes("82")), Err(Invalid::TableSize));
        let mut decoder = Decoder::new(4096);
        decoder.set_limit(100);
        assert_eq!(lines(&mut decoder, &bytes("3f4582")).unwrap(), ":method: GET\r\n");
        assert_eq!(lines(&mut decoder, &bytes("3f4682")), Err(Invalid::TableSize));
        decoder.set_limit(4096);
        assert_eq!(lines(&mut decoder, &bytes("82")).unwrap(), ":method: GET\r\n");
    }

    #[test]
    fn a_name_is_used_again_though_its_value_was_bad() {
        let mut decoder = Decoder::new(4096);
        let mut classes = Vec::new();
        // `a: NUL` is added, then its name taken for `a: b`.
        decoder
            .decode(&bytes("4001610100 7e0162"), |line| classes.push(line.mark().class))
            .unwrap();
        assert_eq!(classes, [Class::BadValue, Class::Field]);
    }
}
