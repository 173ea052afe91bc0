//! Regular expressions for scripts: over bytes, with look-around and references, within bounds of time and memory.

use fancy_regex::{Captures, Regex};

use crate::frame::{Frame, Kind, Reply, native};

native!(native_match, search);
native!(native_find, find);

pub(crate) const FUNCTIONS: [(&str, mlua_sys::lua_CFunction); 2] =
    [("regex_match", native_match), ("regex_find", native_find)];

/// A search as its arguments say: text, pattern, options, start from 1 on.
fn run<R>(
    frame: &Frame<'_>,
    found: impl FnOnce(&Regex, &Captures<'_, [u8]>) -> R,
) -> Result<Option<R>, String> {
    let (Some(text), Some(pattern)) = (frame.bytes(1), frame.bytes(2)) else {
        return Err("a text and a pattern are expected".to_owned());
    };
    let options = frame.bytes(3).unwrap_or_default();
    let start = match frame.kind(4) {
        Kind::Nil => 0,
        _ => frame.integer(4).map_or(0, |start| usize::try_from(start - 1).unwrap_or(0)),
    };
    if start > text.len() {
        return Ok(None);
    }
    let regex = frame.host().patterns.borrow_mut().get(options, pattern)?;
    let captures = regex.captures_from_pos(text, start).map_err(|error| error.to_string())?;
    let captures = captures.filter(|captures| {
        // The leftmost match is at the start if any is.
        let at = captures.get(0).map(|all| all.start());
        !options.contains(&b'a') || at == Some(start)
    });
    Ok(captures.map(|captures| found(&regex, &captures)))
}

fn fail(frame: &Frame<'_>, said: &str) -> Reply {
    frame.push_nil();
    frame.push_bytes(said.as_bytes());
    Reply::Values(2)
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
        Err(said) => fail(frame, &said),
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
        Err(said) => fail(frame, &said),
    }
}
