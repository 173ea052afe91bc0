//! `string.find`, `match`, `gmatch` and `gsub`: those of LuaJIT, within the budget and the memory of a script.

use std::ops::Range;

use memchr::{memchr, memmem};

use crate::frame::{Frame, Kind, Reply, native};
use crate::matcher::{Capture, MatchError, Matcher, has_specials};
use crate::vm;

native!(native_find, find);
native!(native_match, find_captures);
native!(native_next, next);
native!(native_replace, replace);

pub(crate) const FUNCTIONS: [(&str, mlua_sys::lua_CFunction); 4] = [
    ("string_find", native_find),
    ("string_match", native_match),
    ("pattern_next", native_next),
    ("pattern_replace", native_replace),
];

/// Values that may be pushed at once: all captures of a pattern and two places.
const VALUES: i32 = 40;

/// What is searched, for what, and from where.
struct Search<'f> {
    text: &'f [u8],
    pattern: &'f [u8],
    start: usize,
}

/// The arguments of `find` and `match`, or a reply that says what is wrong with them.
fn arguments<'f>(frame: &'f Frame<'_>, name: &str) -> Result<Search<'f>, Reply> {
    let string = |index| frame.bytes(index).ok_or_else(|| bad(frame, index, name, "string"));
    let (text, pattern) = (string(1)?, string(2)?);
    let start = match frame.kind(3) {
        Kind::Nil => 1,
        _ => frame.integer(3).ok_or_else(|| bad(frame, 3, name, "number"))?,
    };
    Ok(Search { text, pattern, start: place(start, text.len()) })
}

/// Where a search begins, from 0 on; negative places count from the end.
fn place(start: i64, length: usize) -> usize {
    let from_end = usize::try_from(start.unsigned_abs()).unwrap_or(usize::MAX);
    match start {
        ..0 => length.saturating_sub(from_end),
        0 => 0,
        _ => (from_end - 1).min(length),
    }
}

#[cold]
fn bad(frame: &Frame<'_>, index: i32, name: &str, expected: &str) -> Reply {
    let got = frame.kind_name(index);
    frame.raise(&format!("bad argument #{index} to '{name}' ({expected} expected, got {got})"))
}

/// `find(text, pattern, start, plain)`.
fn find(frame: &Frame<'_>) -> Reply {
    let search = match arguments(frame, "find") {
        Ok(search) => search,
        Err(reply) => return reply,
    };
    if frame.truth(4) || !has_specials(search.pattern) {
        let rest = search.text.get(search.start..).unwrap_or_default();
        return match position(rest, search.pattern) {
            Some(at) => {
                let from = search.start + at;
                push_span(frame, &(from..from + search.pattern.len()));
                Reply::Values(2)
            }
            None => nothing(frame),
        };
    }
    found(frame, &search, |all| push_span(frame, all), 2)
}

/// The first place of a text, in time that grows with the lengths alone.
fn position(text: &[u8], what: &[u8]) -> Option<usize> {
    match what {
        [byte] => memchr(*byte, text),
        _ => memmem::find(text, what),
    }
}

/// `match(text, pattern, start)`.
fn find_captures(frame: &Frame<'_>) -> Reply {
    match arguments(frame, "match") {
        Ok(search) => found(frame, &search, |_| {}, 0),
        Err(reply) => reply,
    }
}

/// Pushes what `place` says of the first match, and then its captures: all there are, or the whole match where
/// nothing else was pushed.
fn found(
    frame: &Frame<'_>,
    search: &Search<'_>,
    place: impl FnOnce(&Range<usize>),
    pushed: i32,
) -> Reply {
    let may_go_on = || vm::may_go_on(frame.host());
    let (pattern, anchored) = match search.pattern {
        [b'^', rest @ ..] => (rest, true),
        all => (all, false),
    };
    let mut matcher = Matcher::new(search.text, pattern, &may_go_on);
    let all = if anchored {
        matcher.at(search.start).map(|end| end.map(|end| search.start..end))
    } else {
        matcher.find(search.start)
    };
    let captures = match all {
        Ok(None) => return nothing(frame),
        Ok(Some(all)) if frame.reserve(VALUES) => {
            place(&all);
            let of = Captured { text: search.text, all: &all, most: usize::MAX };
            let has_own = matcher.count() > 0 || pushed == 0;
            if has_own { push_captures(frame, &matcher, &of) } else { Ok(0) }
        }
        Ok(Some(_)) => return frame.raise("too many captures"),
        Err(failure) => Err(failure),
    };
    match captures {
        Ok(count) => Reply::Values(count + pushed),
        Err(failure) => raise(frame, failure),
    }
}

/// `next(text, pattern, start, anchored, most)`: where the first match from there on begins and ends, and so many of its
/// captures, or the whole match if there are none; nothing if there is no match; false and a word about the pattern.
fn next(frame: &Frame<'_>) -> Reply {
    let (Some(text), Some(pattern), Some(start)) =
        (frame.bytes(1), frame.bytes(2), frame.integer(3))
    else {
        return frame.raise("a text, a pattern and a place are expected");
    };
    let Some(start) = usize::try_from(start - 1).ok().filter(|start| *start <= text.len()) else {
        return Reply::Values(0);
    };
    // Before anything is pushed into the places of arguments that are not there.
    let most = frame.integer(5).and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    let may_go_on = || vm::may_go_on(frame.host());
    let mut matcher = Matcher::new(text, pattern, &may_go_on);
    let all = if frame.truth(4) {
        matcher.at(start).map(|end| end.map(|end| start..end))
    } else {
        matcher.find(start)
    };
    let captures = match all {
        Ok(None) => return Reply::Values(0),
        Ok(Some(all)) if frame.reserve(VALUES) => {
            push_span(frame, &all);
            let of = Captured { text, all: &all, most };
            push_captures(frame, &matcher, &of)
        }
        Ok(Some(_)) => return frame.raise("too many captures"),
        Err(failure) => Err(failure),
    };
    match captures {
        Ok(count) => Reply::Values(count + 2),
        Err(MatchError::Pattern(word)) => frame.refuse(word.as_bytes()),
        Err(failure) => raise(frame, failure),
    }
}

/// `replace(text, pattern, template, most)`: the text with the template in the place of matches, and how many those
/// were.
fn replace(frame: &Frame<'_>) -> Reply {
    let string = |index| frame.bytes(index).ok_or_else(|| bad(frame, index, "gsub", "string"));
    let (text, pattern) = match (string(1), string(2)) {
        (Ok(text), Ok(pattern)) => (text, pattern),
        (Err(reply), _) | (_, Err(reply)) => return reply,
    };
    let Some(template) = frame.bytes(3) else {
        return bad(frame, 3, "gsub", "string/function/table");
    };
    let most = match (frame.kind(4), frame.integer(4)) {
        (Kind::Nil, _) => u64::MAX,
        (_, Some(most)) => u64::try_from(most).unwrap_or(0),
        (_, None) => return bad(frame, 4, "gsub", "number"),
    };
    match replaced(frame, (text, pattern, template), most) {
        Ok((_, 0)) => {
            frame.push_copy(1);
            frame.push_count(0);
            Reply::Values(2)
        }
        Ok((made, count)) => {
            frame.push_bytes(&made);
            frame.push_count(count);
            Reply::Values(2)
        }
        Err(failure) => raise(frame, failure),
    }
}

fn replaced(
    frame: &Frame<'_>,
    (text, pattern, template): (&[u8], &[u8], &[u8]),
    most: u64,
) -> Result<(Vec<u8>, u64), MatchError> {
    let may_go_on = || vm::may_go_on(frame.host());
    let (pattern, anchored) = match pattern {
        [b'^', rest @ ..] => (rest, true),
        all => (all, false),
    };
    let mut matcher = Matcher::new(text, pattern, &may_go_on);
    // The program may exceed the limit of memory while it is at work; what a script can make so large may not.
    let room = frame.host().memory.room();
    let (mut made, mut count, mut at, mut copied) = (Vec::new(), 0, 0, 0);
    while count < most && at <= text.len() {
        let found = if anchored { matcher.at(at)?.map(|end| at..end) } else { matcher.find(at)? };
        let Some(all) = found else { break };
        count += 1;
        made.extend_from_slice(text.get(copied..all.start).unwrap_or_default());
        fill(&mut made, template, |index| matcher.capture(index, &all), (text, &all))?;
        if made.len() > room {
            return Err(MatchError::Pattern("not enough memory"));
        }
        copied = all.end;
        at = if all.is_empty() { all.end + 1 } else { all.end };
        if anchored {
            break;
        }
    }
    made.extend_from_slice(text.get(copied..).unwrap_or_default());
    Ok((made, count))
}

/// Adds what a template stands for: `%0` is the whole match, `%1` its first capture, and a byte behind another `%`
/// itself.
fn fill(
    made: &mut Vec<u8>,
    template: &[u8],
    capture: impl Fn(usize) -> Result<Capture, MatchError>,
    (text, all): (&[u8], &Range<usize>),
) -> Result<(), MatchError> {
    let mut rest = template;
    while let Some(at) = memchr(b'%', rest) {
        made.extend_from_slice(rest.get(..at).unwrap_or_default());
        let (letter, after) = match rest.get(at + 1..) {
            Some([letter, after @ ..]) => (*letter, after),
            // As in LuaJIT, which sees the zero behind the template.
            _ => (0, [].as_slice()),
        };
        match letter {
            b'0' => made.extend_from_slice(text.get(all.clone()).unwrap_or_default()),
            b'1'..=b'9' => match capture(usize::from(letter - b'1'))? {
                Capture::Part(part) => {
                    made.extend_from_slice(text.get(part).unwrap_or_default());
                }
                Capture::Place(place) => {
                    made.extend_from_slice((place + 1).to_string().as_bytes());
                }
            },
            other => made.push(other),
        }
        rest = after;
    }
    made.extend_from_slice(rest);
    Ok(())
}

/// What captures are of, and how many of them are wanted.
struct Captured<'c> {
    text: &'c [u8],
    all: &'c Range<usize>,
    most: usize,
}

/// Pushes captures, or the whole match if there are none.
fn push_captures(
    frame: &Frame<'_>,
    matcher: &Matcher<'_>,
    of: &Captured<'_>,
) -> Result<i32, MatchError> {
    let count = matcher.count().max(1).min(of.most);
    for index in 0..count {
        match matcher.capture(index, of.all)? {
            Capture::Part(part) => frame.push_bytes(of.text.get(part).unwrap_or_default()),
            Capture::Place(place) => push_place(frame, place + 1),
        }
    }
    Ok(i32::try_from(count).unwrap_or(0))
}

/// The first and the last place of a part, from 1 on.
fn push_span(frame: &Frame<'_>, part: &Range<usize>) {
    push_place(frame, part.start + 1);
    push_place(frame, part.end);
}

fn push_place(frame: &Frame<'_>, place: usize) {
    frame.push_count(u64::try_from(place).unwrap_or(u64::MAX));
}

fn nothing(frame: &Frame<'_>) -> Reply {
    frame.push_nil();
    Reply::Values(1)
}

#[cold]
fn raise(frame: &Frame<'_>, failure: MatchError) -> Reply {
    match failure {
        MatchError::Pattern(word) => frame.raise(word),
        MatchError::Interrupted => vm::raise_overrun(frame),
    }
}
