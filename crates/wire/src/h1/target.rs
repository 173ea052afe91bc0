//! The four forms of a request target (RFC 9112, 3.2).

use sluice_message::normalize_path;
use sluice_message::{FaultKind, Fields, Method, PathForm, RequestHead, Span, Syntax, TargetForm};

use super::authority::{has_port, is_authority};
use super::head::{Stop, span};
use super::scan::{Lanes, WIDTH, Word, first};

/// Where a target ends and what it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) start: usize,
    pub(super) end: usize,
    /// The first `?`; `end` if there is none.
    question: usize,
    /// Whether something in it may make its path unlike its normal form.
    irregular: bool,
}

/// Finds the end of the target at `start`: the first byte that is not visible ASCII
/// (RFC 9112, 3.2: a recipient should refuse what is no valid URI).
///
/// # Errors
/// [`Syntax::Target`] for `#`: a fragment is never sent (RFC 9110, 7.1).
#[inline(always)]
pub(super) fn extent(bytes: &[u8], start: usize) -> Result<Extent, Stop> {
    let mut at = start;
    let mut question = usize::MAX;
    let mut irregular = false;
    // 1 if the block before ended in a slash.
    let mut slash_before = 0;
    loop {
        let lanes = Lanes::new(Word::at(bytes, at));
        let stop = lanes.invisible();
        // The bits below the first stop.
        let inside = stop.wrapping_sub(1) & !stop & 0xffff;
        if lanes.equal(b'#') & inside != 0 {
            return Err(Syntax::Target.into());
        }
        let asked = lanes.equal(b'?') & inside;
        if asked != 0 {
            question = question.min(at + first(asked));
        }
        let slashes = lanes.equal(b'/');
        let after_slash = slashes << 1 | slash_before;
        let pairs = after_slash & lanes.either(b'/', b'.');
        irregular |= (pairs | lanes.equal(b'%')) & inside != 0;
        if stop != 0 {
            let end = at + first(stop);
            return Ok(Extent { start, end, question: question.min(end), irregular });
        }
        slash_before = slashes >> 15 & 1;
        at += WIDTH;
    }
}

/// A target, judged; the spans are those of the [`RequestHead`].
#[derive(Debug)]
pub(super) struct Target {
    pub(super) form: TargetForm,
    pub(super) target: Span,
    pub(super) path: Span,
    pub(super) query: Span,
    /// Empty unless the target itself names one.
    pub(super) authority: Span,
    /// Bytes of the head that the client did not write, appended when it is complete.
    made: Made,
}

/// What has to be appended to a head for its target.
#[derive(Debug, PartialEq, Eq)]
enum Made {
    Nothing,
    /// The normal form of the path; an allocation that only odd paths cost.
    Path(Vec<u8>),
    /// A slash before the query, for an absolute form with an empty path.
    Slash,
    /// `*`, for OPTIONS of an absolute form with an empty path.
    Asterisk,
}

/// Judges the target that `extent` found.
#[inline(always)]
pub(super) fn judge(bytes: &[u8], extent: Extent, method: Method) -> Result<Target, Stop> {
    if bytes.get(extent.start) == Some(&b'/') && method != Method::Connect {
        return origin(bytes, extent);
    }
    rare(bytes, extent, method)
}

#[inline(always)]
fn origin(bytes: &[u8], extent: Extent) -> Result<Target, Stop> {
    let Extent { start, end, question, irregular } = extent;
    let path = span(start, question);
    let made = if irregular { normal_path(path.of(bytes))? } else { Made::Nothing };
    Ok(Target {
        form: TargetForm::Origin,
        target: span(start, end),
        path,
        query: if question < end { span(question + 1, end) } else { span(end, end) },
        authority: Span::default(),
        made,
    })
}

#[cold]
#[inline(never)]
fn normal_path(path: &[u8]) -> Result<Made, Stop> {
    let mut normal = Vec::new();
    match normalize_path(path, &mut normal) {
        Ok(PathForm::Normal) => Ok(Made::Nothing),
        Ok(PathForm::Rewritten) => Ok(Made::Path(normal)),
        Err(_) => Err(Syntax::Path.into()),
    }
}

#[cold]
#[inline(never)]
fn rare(bytes: &[u8], extent: Extent, method: Method) -> Result<Target, Stop> {
    let whole = span(extent.start, extent.end);
    let text = whole.of(bytes);
    match (text, method) {
        // RFC 9112, 3.2.3: authority form is CONNECT's alone, and its only one.
        (_, Method::Connect) => {
            if !has_port(text) || !is_authority(bytes, extent.start, extent.end) {
                return Err(Syntax::Target.into());
            }
            let none = span(extent.end, extent.end);
            Ok(Target {
                form: TargetForm::Authority,
                target: whole,
                path: none,
                query: none,
                authority: whole,
                made: Made::Nothing,
            })
        }
        // RFC 9112, 3.2.4: asterisk form is OPTIONS' alone.
        (b"*", Method::Options) => Ok(Target {
            form: TargetForm::Asterisk,
            target: whole,
            path: whole,
            query: span(extent.end, extent.end),
            authority: Span::default(),
            made: Made::Nothing,
        }),
        _ => absolute(bytes, extent, method),
    }
}

/// RFC 9112, 3.2.2.
fn absolute(bytes: &[u8], extent: Extent, method: Method) -> Result<Target, Stop> {
    let text = span(extent.start, extent.end).of(bytes);
    // Schemes compare without case (RFC 9110, 4.2.3).
    let scheme = [&b"http://"[..], b"https://"]
        .into_iter()
        .find(|scheme| text.get(..scheme.len()).is_some_and(|s| s.eq_ignore_ascii_case(scheme)))
        .ok_or(Syntax::Target)?;
    let start = extent.start + scheme.len();
    let rest = bytes.get(start..extent.end).unwrap_or_default();
    let length = rest.iter().position(|byte| b"/?".contains(byte)).unwrap_or(rest.len());
    let path_start = start + length;
    if !is_authority(bytes, start, path_start) {
        return Err(Syntax::Target.into());
    }
    let authority = span(start, path_start);
    if bytes.get(path_start) == Some(&b'/') && path_start < extent.end {
        // Bytes before the path (`http://`) look irregular; the path itself is looked at again.
        let target = origin(bytes, Extent { start: path_start, irregular: true, ..extent })?;
        return Ok(Target { form: TargetForm::Absolute, authority, ..target });
    }
    let query_start = path_start + usize::from(path_start < extent.end);
    let asterisk = method == Method::Options && path_start == extent.end;
    Ok(Target {
        // RFC 9112, 3.2.4: the last proxy sends OPTIONS of an empty path on as `*`.
        form: if asterisk { TargetForm::Asterisk } else { TargetForm::Absolute },
        target: span(path_start, extent.end),
        path: span(path_start, path_start),
        query: span(query_start, extent.end),
        authority,
        made: if asterisk { Made::Asterisk } else { Made::Slash },
    })
}

impl Target {
    /// Writes the target into a head whose bytes are set.
    #[inline(always)]
    pub(super) fn fill(self, head: &mut RequestHead) -> Result<(), FaultKind> {
        head.form = self.form;
        head.target = self.target;
        head.path = self.path;
        head.query = self.query;
        if self.made == Made::Nothing {
            return Ok(());
        }
        self.append(head).map_err(|_| FaultKind::HeadTooLarge)
    }

    #[cold]
    #[inline(never)]
    fn append(self, head: &mut RequestHead) -> Result<(), sluice_message::SpaceExhausted> {
        match self.made {
            Made::Nothing => {}
            Made::Path(path) => head.path = head.fields.append(&path)?,
            Made::Asterisk => {
                head.target = head.fields.append(b"*")?;
                head.path = head.target;
            }
            Made::Slash => {
                let query = copied(&head.fields, self.target);
                let slash = head.fields.append(b"/")?;
                let query = head.fields.append(&query)?;
                head.path = slash;
                head.target = Span::new(slash.start, query.end);
            }
        }
        Ok(())
    }
}

/// The borrow of what is appended to would last too long.
fn copied(fields: &Fields, part: Span) -> Vec<u8> {
    fields.slice(part).to_vec()
}
