//! Finds where replies end (RESP2), however they are cut into reads, without keeping them.

/// The longest simple string, error or length line.
const LINE: usize = 64 * 1024;
/// The longest bulk string, 512 MiB: Redis' own limit.
const BULK: u64 = 512 * 1024 * 1024;
/// The most elements of one array.
const ELEMENTS: u64 = 1024 * 1024;
/// How deep arrays may nest.
const DEPTH: usize = 8;

/// What a whole reply is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Anything but an error.
    Fine,
    /// An error; its first word.
    Error(String),
}

/// What was found at the beginning of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Bytes that are done with.
    pub(crate) consumed: usize,
    /// The reply they complete; without one, more input is needed.
    pub(crate) reply: Option<Reply>,
}

/// Why the input is no RESP2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A reply begins with a byte that means nothing.
    Type(u8),
    /// A length or number that is none.
    Number,
    /// A line without its end, or with half of it.
    Line,
    /// A bulk string that does not end where it said.
    Bulk,
    /// A length beyond the limits, or arrays within arrays within arrays.
    TooLarge,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Type(byte) => write!(f, "a reply begins with {:?}", char::from(*byte)),
            Self::Number => f.write_str("a reply holds a number that is none"),
            Self::Line => f.write_str("a line of a reply does not end with CR LF"),
            Self::Bulk => f.write_str("a bulk string does not end where it said"),
            Self::TooLarge => f.write_str("a reply is too large"),
        }
    }
}

/// Where in a reply the input stands.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    /// Bytes of a bulk string that are still to come, its CR LF included.
    bulk: u64,
    /// Elements still to come in each array around.
    arrays: [u64; DEPTH],
    depth: usize,
}

/// One element at the beginning of the input.
enum Element {
    Line(Reply),
    Bulk(u64),
    Array(u64),
}

impl Scanner {
    /// Takes in what it can. Call it again with what is left behind `consumed` and what came since.
    ///
    /// # Errors
    /// [`Fault`]: whatever follows has no meaning.
    pub(crate) fn scan(&mut self, input: &[u8]) -> Result<Found, Fault> {
        let mut consumed = 0;
        loop {
            let rest = input.get(consumed..).unwrap_or_default();
            if self.bulk > 0 {
                let taken = self.skip(rest)?;
                consumed += taken;
                if self.bulk > 0 {
                    return Ok(Found { consumed, reply: None });
                }
                if self.ends_element() {
                    return Ok(Found { consumed, reply: Some(Reply::Fine) });
                }
                continue;
            }
            let Some((element, length)) = element(rest)? else {
                return Ok(Found { consumed, reply: None });
            };
            consumed += length;
            match element {
                Element::Line(reply) => {
                    let outermost = self.depth == 0;
                    if self.ends_element() {
                        let reply = if outermost { reply } else { Reply::Fine };
                        return Ok(Found { consumed, reply: Some(reply) });
                    }
                }
                Element::Bulk(length) => self.bulk = length.saturating_add(2),
                Element::Array(count) => self.begin_array(count)?,
            }
        }
    }

    fn begin_array(&mut self, count: u64) -> Result<(), Fault> {
        let slot = self.arrays.get_mut(self.depth).ok_or(Fault::TooLarge)?;
        *slot = count;
        self.depth += 1;
        Ok(())
    }

    /// Counts an element in the array around it; true if that was the end of the whole reply.
    fn ends_element(&mut self) -> bool {
        while let Some(above) = self.depth.checked_sub(1) {
            let Some(left) = self.arrays.get_mut(above) else { return true };
            *left = left.saturating_sub(1);
            if *left > 0 {
                return false;
            }
            self.depth = above;
        }
        true
    }

    /// Passes over what is there of a bulk string, and checks that CR LF ends it.
    fn skip(&mut self, rest: &[u8]) -> Result<usize, Fault> {
        let here = u64::try_from(rest.len()).unwrap_or(u64::MAX).min(self.bulk);
        let taken = usize::try_from(here).unwrap_or(rest.len());
        for (offset, expected) in [(2, b'\r'), (1, b'\n')] {
            // Where the end's byte stands in `rest`, if it is there already.
            let at = self.bulk.checked_sub(offset).and_then(|at| usize::try_from(at).ok());
            if let Some(byte) = at.filter(|at| *at < taken).and_then(|at| rest.get(at))
                && *byte != expected
            {
                return Err(Fault::Bulk);
            }
        }
        self.bulk -= here;
        Ok(taken)
    }
}

/// The element the input begins with and the length of its line; nothing if the line has no end yet.
fn element(input: &[u8]) -> Result<Option<(Element, usize)>, Fault> {
    let Some(kind) = input.first() else { return Ok(None) };
    if !b"+-:$*".contains(kind) {
        return Err(Fault::Type(*kind));
    }
    let Some(end) = input.iter().take(LINE).position(|byte| matches!(byte, b'\r' | b'\n')) else {
        return if input.len() >= LINE { Err(Fault::TooLarge) } else { Ok(None) };
    };
    match (input.get(end), input.get(end + 1)) {
        (Some(b'\r'), None) => return Ok(None),
        (Some(b'\r'), Some(b'\n')) => {}
        _ => return Err(Fault::Line),
    }
    let text = input.get(1..end).unwrap_or_default();
    let fine = Element::Line(Reply::Fine);
    let element = match kind {
        b'+' => fine,
        b'-' => Element::Line(Reply::Error(first_word(text))),
        b':' => number(text).map(|_| fine)?,
        b'$' => length(text, BULK)?.map_or(fine, Element::Bulk),
        // An array without elements is as whole as a line.
        _ => length(text, ELEMENTS)?.filter(|count| *count > 0).map_or(fine, Element::Array),
    };
    Ok(Some((element, end + 2)))
}

fn number(text: &[u8]) -> Result<i64, Fault> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Fault::Number);
    }
    let text = std::str::from_utf8(text).map_err(|_| Fault::Number)?;
    text.parse().map_err(|_| Fault::Number)
}

/// A length; nothing for -1, which stands for a value that is not there.
fn length(text: &[u8], most: u64) -> Result<Option<u64>, Fault> {
    match number(text)? {
        -1 => Ok(None),
        length => match u64::try_from(length) {
            Ok(length) if length <= most => Ok(Some(length)),
            Ok(_) => Err(Fault::TooLarge),
            Err(_) => Err(Fault::Number),
        },
    }
}

fn first_word(text: &[u8]) -> String {
    let word = text.split(|byte| *byte == b' ').next().unwrap_or_default();
    // A word that is no word would fill the report.
    let word = word.get(..32).unwrap_or(word);
    word.iter().map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The replies in `input`, read in pieces of `size` bytes.
    fn replies(input: &[u8], size: usize) -> Result<(Vec<Reply>, usize), Fault> {
        let (mut scanner, mut replies, mut kept) = (Scanner::default(), Vec::new(), Vec::new());
        for piece in input.chunks(size) {
            kept.extend_from_slice(piece);
            loop {
                let found = scanner.scan(&kept)?;
                kept.drain(..found.consumed);
                match found.reply {
                    Some(reply) => replies.push(reply),
                    None => break,
                }
            }
        }
        Ok((replies, kept.len()))
    }

    #[test]
    fn replies_end_where_they_end() {
        let error = |word: &str| Reply::Error(word.to_owned());
        let rows: [(&[u8], Vec<Reply>); 13] = [
            (b"+PONG\r\n", vec![Reply::Fine]),
            (b"+PONG\r\n+PONG\r\n+", vec![Reply::Fine, Reply::Fine]),
            (b"-ERR unknown\r\n-LOADING\r\n", vec![error("ERR"), error("LOADING")]),
            (b":12\r\n:-5\r\n", vec![Reply::Fine, Reply::Fine]),
            (b"$3\r\nabc\r\n$0\r\n\r\n$-1\r\n", vec![Reply::Fine; 3]),
            (b"$4\r\n\r\n\r\n\r\n", vec![Reply::Fine]),
            (b"*2\r\n$1\r\na\r\n:1\r\n+x\r\n", vec![Reply::Fine; 2]),
            (b"*0\r\n*-1\r\n", vec![Reply::Fine; 2]),
            (b"*2\r\n*1\r\n*0\r\n*2\r\n-ERR x\r\n$-1\r\n-E\r\n", vec![Reply::Fine, error("E")]),
            (b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n+x\r\n", vec![Reply::Fine]),
            (b"*3\r\n+a\r\n+b\r\n", vec![]),
            (b"$5\r\nabc", vec![]),
            (b"", vec![]),
        ];
        for (input, expected) in rows {
            for size in 1..=input.len().max(1) {
                let (found, _) = replies(input, size).unwrap();
                assert_eq!(found, expected, "{} by {size}", input.escape_ascii());
            }
        }
    }

    #[test]
    fn bulk_strings_are_not_kept() {
        let mut scanner = Scanner::default();
        assert_eq!(scanner.scan(b"$100000\r\nabc"), Ok(Found { consumed: 12, reply: None }));
        assert_eq!(scanner.scan(&[b'x'; 9999]), Ok(Found { consumed: 9999, reply: None }));
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        let long = [b"+".as_slice(), &vec![b'x'; LINE]].concat();
        let rows: [(&[u8], Fault); 17] = [
            (b"HTTP/1.1 200 OK\r\n", Fault::Type(b'H')),
            (b"\r\n", Fault::Type(b'\r')),
            (b"+a\n", Fault::Line),
            (b"+a\rb\r\n", Fault::Line),
            (b":\r\n", Fault::Number),
            (b":+1\r\n", Fault::Number),
            (b":1 \r\n", Fault::Number),
            (b":99999999999999999999\r\n", Fault::Number),
            (b"$-2\r\n", Fault::Number),
            (b"$x\r\n", Fault::Number),
            (b"$536870913\r\n", Fault::TooLarge),
            (b"$1\r\nabc", Fault::Bulk),
            (b"$1\r\na\rb", Fault::Bulk),
            (b"*1048577\r\n", Fault::TooLarge),
            (b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", Fault::TooLarge),
            (b"*1\r\nx", Fault::Type(b'x')),
            (&long, Fault::TooLarge),
        ];
        for (input, expected) in rows {
            for size in [1, 2, 3, input.len()] {
                let error = replies(input, size).unwrap_err();
                assert_eq!(error, expected, "{} by {size}", input.escape_ascii());
            }
        }
    }
}
