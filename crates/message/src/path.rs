//! The path as it is matched: one spelling for all spellings of the same resource.

/// Why a path has no normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathProblem {
    /// A percent sign that two hexadecimal digits do not follow (RFC 3986, 2.1).
    BadEscape,
    /// An escaped NUL, which no honest client sends and C programs behind us would stop at.
    EncodedNul,
}

/// Appends the normal form of `path` to `out` unless `path` is already in it; says which it was.
///
/// Normal form: escapes of unreserved characters decoded (RFC 3986, 6.2.2.2), other escapes in upper
/// case, dot segments removed (5.2.4, never above the root), repeated slashes merged. Routes match on
/// this form, so that no other spelling of a path passes by a route that was meant for it. Escaped
/// slashes stay escaped: whether they separate is the origin's decision.
///
/// # Errors
/// [`PathProblem`] for a path that is to be refused with 400.
pub fn normalize_path(path: &[u8], out: &mut Vec<u8>) -> Result<PathForm, PathProblem> {
    if is_normal(path) {
        return Ok(PathForm::Normal);
    }
    let start = out.len();
    decode_unreserved(path, out)?;
    remove_dots_and_merge_slashes(out, start);
    Ok(PathForm::Rewritten)
}

/// Whether [`normalize_path`] had to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathForm {
    /// The path stands as it is; nothing was appended.
    Normal,
    /// The normal form was appended.
    Rewritten,
}

/// One pass without branches on the common case: no escape, no empty and no dot segment.
#[inline]
fn is_normal(path: &[u8]) -> bool {
    let mut previous = 0_u8;
    for &byte in path {
        if byte == b'%' || (previous == b'/' && (byte == b'/' || byte == b'.')) {
            return false;
        }
        previous = byte;
    }
    true
}

fn decode_unreserved(path: &[u8], out: &mut Vec<u8>) -> Result<(), PathProblem> {
    let mut rest = path.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let high = rest.next().and_then(hex_value).ok_or(PathProblem::BadEscape)?;
        let low = rest.next().and_then(hex_value).ok_or(PathProblem::BadEscape)?;
        match high * 16 + low {
            0 => return Err(PathProblem::EncodedNul),
            plain if plain.is_ascii_alphanumeric() || b"-._~".contains(&plain) => out.push(plain),
            _ => out.extend_from_slice(&[b'%', hex_digit(high), hex_digit(low)]),
        }
    }
    Ok(())
}

fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

const fn hex_digit(value: u8) -> u8 {
    if value < 10 { b'0' + value } else { b'A' + value - 10 }
}

/// Works in place: what is kept is never longer than what was read.
fn remove_dots_and_merge_slashes(out: &mut Vec<u8>, start: usize) {
    let decoded = out.split_off(start);
    let mut segments = decoded.split(|&byte| byte == b'/').peekable();
    // A path starts with a slash: the first segment is the empty one before it.
    segments.next();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            b"" | b"." if last => out.push(b'/'),
            b"" | b"." => {}
            b".." => {
                let parent =
                    out.get(start..).and_then(|kept| kept.iter().rposition(|&b| b == b'/'));
                out.truncate(start + parent.unwrap_or(0));
                if last {
                    out.push(b'/');
                }
            }
            _ => {
                out.push(b'/');
                out.extend_from_slice(segment);
            }
        }
    }
    if out.len() == start {
        out.push(b'/');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_for_all_spellings() {
        let cases = [
            ("/", "/"),
            ("/a/b.c", "/a/b.c"),
            ("/a/./b", "/a/b"),
            ("/a/../b", "/b"),
            ("/../../etc/passwd", "/etc/passwd"),
            ("/a/%2e%2E/b", "/b"),
            ("/a/..", "/"),
            ("/a/b/..", "/a/"),
            ("/a/.", "/a/"),
            ("/..", "/"),
            ("//admin", "/admin"),
            ("/a//b/", "/a/b/"),
            ("/%61dmin", "/admin"),
            ("/a%2fb", "/a%2Fb"),
            ("/a%20b", "/a%20b"),
            ("/.well-known/x", "/.well-known/x"),
            ("/...", "/..."),
            ("/a/..b", "/a/..b"),
        ];
        for (path, normal) in cases {
            let mut out = b"before".to_vec();
            let form = normalize_path(path.as_bytes(), &mut out).unwrap();
            let got = if form == PathForm::Normal { path.as_bytes() } else { &out[6..] };
            assert_eq!(String::from_utf8_lossy(got), normal, "{path}");
            assert!(out.starts_with(b"before"));
        }
    }

    #[test]
    fn hopeless_paths_are_refused() {
        for (path, problem) in [
            ("/%", PathProblem::BadEscape),
            ("/%4", PathProblem::BadEscape),
            ("/%zz", PathProblem::BadEscape),
            ("/a%00b", PathProblem::EncodedNul),
        ] {
            assert_eq!(normalize_path(path.as_bytes(), &mut Vec::new()), Err(problem), "{path}");
        }
    }
}
