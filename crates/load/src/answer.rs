//! Answers in what was read: where each ends, and what it was.

use sluice_message::{BodyLength, FaultKind, Method, Persistence, ResponseHead};
use sluice_wire::h1::{BodyDecoder, BodyState, Decoded, Limits, decode_response};

/// Answers of any server that can be measured have smaller heads.
const LIMITS: Limits = Limits { head: 128 * 1024, fields: 1024, target: 0 };

/// Content of one answer that is kept for looking into; the rest is only counted.
const GATHERED: usize = 64 * 1024 * 1024;

/// What happens to the connection behind an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// It can be used again.
    Keep,
    /// The server said that it closes it (RFC 9112, 9.6), or the answer ended with it.
    Close,
}

/// A whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Bytes of head and framed content.
    pub(crate) size: u64,
    /// Bytes of content.
    pub(crate) content: u64,
    pub(crate) after: After,
}

/// Judges heads. It remembers the last one: bytes that are the same again mean the same again, which
/// spares nearly every judgement under load.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    head: ResponseHead,
    /// The method the head was judged for.
    method: Method,
}

impl Judge {
    /// The head judged last.
    pub(crate) const fn head(&self) -> &ResponseHead {
        &self.head
    }

    /// The length of the head at the start of `bytes`; `None` if it is not whole.
    #[inline]
    fn judge(&mut self, bytes: &[u8], method: Method) -> Result<Option<usize>, FaultKind> {
        let known = self.head.fields.bytes();
        if !known.is_empty() && bytes.starts_with(known) && self.method == method {
            return Ok(Some(known.len()));
        }
        self.judge_anew(bytes, method)
    }

    #[inline(never)]
    fn judge_anew(&mut self, bytes: &[u8], method: Method) -> Result<Option<usize>, FaultKind> {
        self.method = method;
        match decode_response(bytes, &LIMITS, method, &mut self.head)? {
            Decoded::Complete { consumed } => Ok(Some(consumed)),
            Decoded::Partial => Ok(None),
        }
    }
}

/// Reads the answers of one connection, one after the other.
#[derive(Debug, Default)]
pub(crate) struct AnswerReader {
    /// The content being read; absent before a head.
    body: Option<BodyDecoder>,
    answer: Option<Answer>,
}

/// What a look at the input found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Bytes that are done with.
    pub(crate) consumed: usize,
    /// An answer that is whole; without one, more input is needed.
    pub(crate) answer: Option<Answer>,
}

impl AnswerReader {
    /// Looks for the end of the answer in `input`. Content is put into `gathered` if it is wanted.
    ///
    /// # Errors
    /// The input is no answer. The connection is of no use any more.
    #[inline]
    pub(crate) fn read(
        &mut self,
        input: &[u8],
        method: Method,
        judge: &mut Judge,
        mut gathered: Option<&mut Vec<u8>>,
    ) -> Result<Found, FaultKind> {
        let mut consumed = 0;
        loop {
            let rest = input.get(consumed..).unwrap_or_default();
            if let Some(body) = &mut self.body {
                let (length, state) = take(body, &mut self.answer, rest, &mut gathered)?;
                consumed += length;
                let answer = match state {
                    BodyState::Done => self.finish(),
                    BodyState::More => None,
                };
                return Ok(Found { consumed, answer });
            }
            if rest.is_empty() {
                return Ok(Found { consumed, answer: None });
            }
            let Some(length) = judge.judge(rest, method)? else {
                return Ok(Found { consumed, answer: None });
            };
            consumed += length;
            let head = judge.head();
            let size = wide(length);
            if head.is_interim() {
                continue;
            }
            let after = match head.persistence {
                // 101 ends HTTP on this connection (RFC 9110, 15.2.2).
                Persistence::KeepAlive if head.status != 101 => After::Keep,
                _ => After::Close,
            };
            let status = head.status;
            if let BodyLength::Known(length) = head.body
                && gathered.is_none()
                && let Ok(whole) = usize::try_from(length)
                && input.len() - consumed >= whole
            {
                let answer = Answer { status, size: size + length, content: length, after };
                return Ok(Found { consumed: consumed + whole, answer: Some(answer) });
            }
            self.answer = Some(Answer { status, size, content: 0, after });
            self.body = Some(BodyDecoder::new(head.body));
        }
    }

    /// Whether the head of an answer was read and its content is not whole.
    pub(crate) const fn has_begun(&self) -> bool {
        self.body.is_some()
    }

    /// The server has closed its side: the end of an answer that lasts until then.
    ///
    /// # Errors
    /// In the middle of an answer, or before it.
    pub(crate) fn on_end(&mut self) -> Result<Answer, FaultKind> {
        let body = self.body.as_mut().ok_or(FaultKind::Closed)?;
        body.on_eof()?;
        self.finish().ok_or(FaultKind::Closed)
    }

    fn finish(&mut self) -> Option<Answer> {
        self.body = None;
        self.answer.take()
    }
}

/// Takes content until it ends or the input does.
fn take(
    body: &mut BodyDecoder,
    answer: &mut Option<Answer>,
    input: &[u8],
    gathered: &mut Option<&mut Vec<u8>>,
) -> Result<(usize, BodyState), FaultKind> {
    let mut at = 0;
    loop {
        let rest = input.get(at..).unwrap_or_default();
        let piece = body.decode(rest)?;
        at += piece.consumed;
        if let Some(answer) = answer {
            answer.size += wide(piece.consumed);
            answer.content += wide(piece.data.len());
        }
        if let Some(gathered) = gathered
            && gathered.len() < GATHERED
        {
            gathered.extend_from_slice(rest.get(piece.data).unwrap_or_default());
        }
        if piece.state == BodyState::Done || piece.consumed == 0 || at == input.len() {
            return Ok((at, piece.state));
        }
    }
}

#[inline]
fn wide(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `input` in pieces of `step` bytes.
    fn answers(input: &[u8], step: usize, method: Method) -> (Vec<Answer>, Result<(), FaultKind>) {
        let (mut reader, mut judge) = (AnswerReader::default(), Judge::default());
        let (mut found, mut carry) = (Vec::new(), Vec::new());
        for piece in input.chunks(step) {
            carry.extend_from_slice(piece);
            loop {
                match reader.read(&carry, method, &mut judge, None) {
                    Ok(Found { consumed, answer }) => {
                        carry.drain(..consumed);
                        match answer {
                            Some(answer) => found.push(answer),
                            None => break,
                        }
                    }
                    Err(kind) => return (found, Err(kind)),
                }
            }
        }
        (found, Ok(()))
    }

    fn answer(status: u16, size: u64, content: u64, after: After) -> Answer {
        Answer { status, size, content, after }
    }

    const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    const CHUNKED: &[u8] =
        b"HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    const EMPTY: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";
    const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

    #[test]
    fn answers_are_found_however_they_arrive() {
        let input = [HELLO, HELLO, CHUNKED, EMPTY, INTERIM, HELLO, LAST].concat();
        let hello = answer(200, wide(HELLO.len()), 5, After::Keep);
        let expected = [
            hello,
            hello,
            answer(404, wide(CHUNKED.len()), 5, After::Keep),
            answer(204, wide(EMPTY.len()), 0, After::Keep),
            hello,
            answer(200, wide(LAST.len()), 0, After::Close),
        ];
        for step in [1, 2, 7, 40, 64, 1000] {
            let (found, end) = answers(&input, step, Method::Get);
            assert_eq!((found.as_slice(), end), (expected.as_slice(), Ok(())), "step {step}");
        }
    }

    #[test]
    fn the_method_decides_and_is_not_mixed_up() {
        let (mut reader, mut judge) = (AnswerReader::default(), Judge::default());
        let head = &HELLO[..HELLO.len() - 5];
        let found = reader.read(HELLO, Method::Get, &mut judge, None).unwrap();
        assert_eq!(found.consumed, HELLO.len());
        let found = reader.read(head, Method::Head, &mut judge, None).unwrap();
        assert_eq!((found.consumed, found.answer.unwrap().content), (head.len(), 0));
        let found = reader.read(HELLO, Method::Get, &mut judge, None).unwrap();
        assert_eq!(found.consumed, HELLO.len());
    }

    #[test]
    fn content_is_gathered_without_its_framing() {
        for input in [HELLO, CHUNKED] {
            let (mut reader, mut judge) = (AnswerReader::default(), Judge::default());
            let mut body = Vec::new();
            let found = reader.read(input, Method::Get, &mut judge, Some(&mut body)).unwrap();
            assert_eq!((found.consumed, body.len()), (input.len(), 5));
        }
    }

    #[test]
    fn the_end_of_the_connection_ends_an_answer_or_breaks_it() {
        let open = b"HTTP/1.1 200 OK\r\n\r\nuntil the end";
        let (mut reader, mut judge) = (AnswerReader::default(), Judge::default());
        let found = reader.read(open, Method::Get, &mut judge, None).unwrap();
        assert_eq!((found.consumed, found.answer), (open.len(), None));
        let whole = reader.on_end().unwrap();
        assert_eq!((whole.content, whole.after), (13, After::Close));
        assert_eq!(reader.on_end(), Err(FaultKind::Closed));
        reader.read(&HELLO[..HELLO.len() - 1], Method::Get, &mut judge, None).unwrap();
        assert_eq!(reader.on_end(), Err(FaultKind::Closed));
    }

    #[test]
    fn rubbish_is_refused() {
        for rubbish in [
            &b"SSH-2.0-OpenSSH\r\n"[..],
            b"HTTP/1.1 2x0 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"\0\0\0\0",
        ] {
            for step in [1, 1000] {
                let (found, end) = answers(rubbish, step, Method::Get);
                assert!(found.is_empty() && end.is_err(), "{}", rubbish.escape_ascii());
            }
        }
    }
}
