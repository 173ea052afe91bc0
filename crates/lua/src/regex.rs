//! Regular expressions for scripts: over bytes, with look-around and references, within bounds of time and memory.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use fancy_regex::{Captures, Input, MatchBytes, Regex, RegexInput};

use crate::frame::{Frame, Kind, Reply, native};
use crate::host::Host;
use crate::vm;

native!(native_match, search);
native!(native_find, find);

pub(crate) const FUNCTIONS: [(&str, mlua_sys::lua_CFunction); 2] =
    [("regex_match", native_match), ("regex_find", native_find)];

/// Why there is no result.
enum Failure {
    /// What is wrong with the pattern, or that it needs too many steps back.
    Said(String),
    /// The run has taken too long.
    Overrun,
}

/// What ends a search from within.
struct Overrun;

/// A text whose search ends with the budget of the run. A pattern with look-around may search the rest of the text at
/// every step, so a bound for steps is none for time; each of them asks for the text.
struct Haystack<'h> {
    bytes: &'h [u8],
    host: &'h Host,
}

impl Input for Haystack<'_> {
    type Match<'t>
        = MatchBytes<'t>
    where
        Self: 't;

    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn as_bytes(&self) -> &[u8] {
        if !vm::may_go_on(self.host) {
            // Past the hook for panics: this is no fault.
            resume_unwind(Box::new(Overrun));
        }
        self.bytes
    }

    fn is_char_boundary(&self, place: usize) -> bool {
        Input::is_char_boundary(self.bytes, place)
    }

    fn is_ascii(&self) -> bool {
        self.bytes.is_ascii()
    }

    fn prev_codepoint_ix(&self, place: usize) -> usize {
        Input::prev_codepoint_ix(self.bytes, place)
    }

    fn make_match<'t>(&'t self, start: usize, end: usize) -> MatchBytes<'t> {
        Input::make_match(self.bytes, start, end)
    }

    fn advance_position(&self, place: usize) -> usize {
        Input::advance_position(self.bytes, place)
    }
}

/// A search as its arguments say: text, pattern, options, start from 1 on.
fn run<R>(
    frame: &Frame<'_>,
    found: impl FnOnce(&Regex, &Captures<'_, Haystack<'_>>) -> R,
) -> Result<Option<R>, Failure> {
    let (Some(text), Some(pattern)) = (frame.bytes(1), frame.bytes(2)) else {
        return Err(Failure::Said("a text and a pattern are expected".to_owned()));
    };
    let options = frame.bytes(3).unwrap_or_default();
    let start = match frame.kind(4) {
        Kind::Nil => 0,
        _ => frame.integer(4).map_or(0, |start| usize::try_from(start - 1).unwrap_or(0)),
    };
    if start > text.len() {
        return Ok(None);
    }
    let regex = frame.host().patterns.borrow_mut().get(options, pattern).map_err(Failure::Said)?;
    let haystack = Haystack { bytes: text, host: frame.host() };
    // What ends a search from within has no message, and nothing of a search is used after it.
    let search = || regex.captures_input(RegexInput::new(&haystack).from_pos(start));
    let captures = match catch_unwind(AssertUnwindSafe(search)) {
        Ok(captures) => captures.map_err(|error| Failure::Said(error.to_string()))?,
        Err(panic) if panic.is::<Overrun>() => return Err(Failure::Overrun),
        Err(panic) => resume_unwind(panic),
    };
    let captures = captures.filter(|captures| {
        // The leftmost match is at the start if any is.
        let at = captures.get(0).map(|all| all.start());
        !options.contains(&b'a') || at == Some(start)
    });
    Ok(captures.map(|captures| found(&regex, &captures)))
}

#[cold]
fn fail(frame: &Frame<'_>, failure: &Failure) -> Reply {
    match failure {
        Failure::Said(said) => frame.fail(said.as_bytes()),
        Failure::Overrun => vm::raise_overrun(frame),
    }
}

fn push_place(frame: &Frame<'_>, place: usize) {
    frame.push_count(u64::try_from(place).unwrap_or(u64::MAX));
}

/// `match(text, pattern, options, start)`: a table of groups, from 0 on and by their names, and where the match begins
/// and ends; nil if there is none; nil and why.
fn search(frame: &Frame<'_>) -> Reply {
    let pushed = run(frame, |regex, captures| {
        frame.push_table(4, 4);
        let push = |index: usize| match captures.get(index) {
            Some(group) => frame.push_bytes(group.as_bytes()),
            None => frame.push_truth(false),
        };
        for index in 0..captures.len() {
            push(index);
            frame.set_element(i32::try_from(index).unwrap_or(0));
        }
        for (index, name) in regex.capture_names().enumerate() {
            if let Some(name) = name {
                push(index);
                frame.set_field(name.as_bytes());
            }
        }
        let (start, end) = captures.get(0).map_or((0, 0), |all| (all.start(), all.end()));
        push_place(frame, start + 1);
        push_place(frame, end);
    });
    match pushed {
        Ok(Some(())) => Reply::Values(3),
        Ok(None) => {
            frame.push_nil();
            Reply::Values(1)
        }
        Err(failure) => fail(frame, &failure),
    }
}

/// `find(text, pattern, options, start, group)`: where it begins and ends; nil if it is not there; nil and why.
fn find(frame: &Frame<'_>) -> Reply {
    let group = frame.integer(5).and_then(|group| usize::try_from(group).ok()).unwrap_or(0);
    let place =
        run(frame, |_, captures| captures.get(group).map(|group| (group.start(), group.end())));
    match place {
        Ok(Some(Some((start, end)))) => {
            push_place(frame, start + 1);
            push_place(frame, end);
            Reply::Values(2)
        }
        Ok(_) => {
            frame.push_nil();
            Reply::Values(1)
        }
        Err(failure) => fail(frame, &failure),
    }
}
