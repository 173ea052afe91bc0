//! The four forms of a request target (RFC 9112, 3.2).

use sluice_message::{
    FaultKind, Method, PathForm, RequestHead, SpaceExhausted, Span, Syntax, TargetForm,
};

use super::authority::{has_port, is_authority};
use super::head::{Stop, span};
use super::scan::{Lanes, Mask, WIDTH, first, read_block};

/// Where a target ends and what it holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// The first `?`; `end` if there is none.
    question: usize,
    /// Whether something in it may make its path unlike its normal form.
    form: PathForm,
}

/// Finds the end of the target at `start`: the first byte that is not visible ASCII
/// (RFC 9112, 3.2: a recipient should refuse what is no valid URI).
///
/// # Errors
/// [`Syntax::Target`] for `#`: a fragment is never sent (RFC 9110, 7.1).
#[inline(always)]
pub(crate) fn extent(bytes: &[u8], start: usize) -> Result<Extent, Stop> {
    let mut scan = Scan { question: usize::MAX, irregular: 0, slash_before: 0 };
    let end = match scan.take(bytes, start)? {
        Some(end) => end,
        None => long_extent(bytes, start + WIDTH, &mut scan)?,
    };
    let question = scan.question.min(end);
    let form = if scan.irregular == 0 { PathForm::Normal } else { PathForm::Unread };
    Ok(Extent { start, end, question, form })
}

/// Goes on with a target that does not end in its first block.
#[inline(never)]
fn long_extent(bytes: &[u8], mut at: usize, scan: &mut Scan) -> Result<usize, Stop> {
    loop {
        if let Some(end) = scan.take(bytes, at)? {
            return Ok(end);
        }
        at += WIDTH;
    }
}

/// What the blocks of a target seen so far hold.
struct Scan {
    question: usize,
    irregular: Mask,
    /// 1 if the block before ended in a slash.
    slash_before: Mask,
}

impl Scan {
    /// Takes the block at `at` into account; says where the target ends if it does so there.
    #[inline(always)]
    fn take(&mut self, bytes: &[u8], at: usize) -> Result<Option<usize>, Stop> {
        read_block!(block, bytes.get(at..).ok_or(Stop::Partial)?);
        let lanes = Lanes::new(block);
        let stop = lanes.invisible();
        // The bits below the first stop.
        let inside = stop.wrapping_sub(1) & !stop;
        if lanes.special() & inside != 0 {
            if lanes.equal(b'#') & inside != 0 {
                return Err(Syntax::Target.into());
            }
            let asked = lanes.equal(b'?') & inside;
            if asked != 0 {
                self.question = self.question.min(at + first(asked));
            }
            self.irregular |= (lanes.either(b'%', b';') | lanes.equal(b'\\')) & inside;
        }
        let slashes = lanes.equal(b'/');
        let pairs = (slashes << 1 | self.slash_before) & lanes.either(b'/', b'.');
        self.irregular |= pairs & inside;
        self.slash_before = slashes >> 15;
        Ok((stop != 0).then(|| at + first(stop)))
    }
}

/// What has to be appended to a head for its target, once the head is complete.
#[derive(Debug, Default)]
pub(crate) enum Made {
    #[default]
    Nothing,
    /// A slash before the query, for an absolute form with an empty path.
    Slash,
    /// `*`, for OPTIONS of an absolute form with an empty path.
    Asterisk,
}

/// Judges the target that `extent` found and writes it into `head`, whose bytes follow later; its
/// authority is empty unless the target itself names one.
#[inline(always)]
pub(crate) fn judge(
    bytes: &[u8],
    extent: Extent,
    made: &mut Made,
    head: &mut RequestHead,
) -> Result<(), Stop> {
    let origin = bytes.get(extent.start) == Some(&b'/') && head.method != Method::Connect;
    head.form = TargetForm::Origin;
    head.authority = Span::default();
    head.protocol = Span::default();
    head.raw_target = Span::default();
    write_origin(extent, head);
    if origin && extent.form == PathForm::Normal {
        return Ok(());
    }
    if origin {
        look_again(bytes, head);
        return Ok(());
    }
    judge_rare(bytes, extent, made, head)
}

/// The scan may have seen something in the query.
#[cold]
#[inline(never)]
fn look_again(bytes: &[u8], head: &mut RequestHead) {
    head.path_form = PathForm::of(head.path.of(bytes));
}

#[inline(always)]
fn write_origin(extent: Extent, head: &mut RequestHead) {
    let Extent { start, end, question, form } = extent;
    head.path_form = form;
    head.target = span(start, end);
    head.path = span(start, question);
    head.query = span(end.min(question + 1), end);
}

#[cold]
#[inline(never)]
fn judge_rare(
    bytes: &[u8],
    extent: Extent,
    made: &mut Made,
    head: &mut RequestHead,
) -> Result<(), Stop> {
    let whole = head.target;
    let none = span(extent.end, extent.end);
    match (whole.of(bytes), head.method) {
        // RFC 9112, 3.2.3: authority form is CONNECT's alone, and its only one.
        (text, Method::Connect) => {
            if !has_port(text) || !is_authority(text, text.len()) {
                return Err(Syntax::Target.into());
            }
            head.form = TargetForm::Authority;
            head.path_form = PathForm::Normal;
            head.authority = whole;
            head.path = none;
            head.query = none;
            Ok(())
        }
        // RFC 9112, 3.2.4: asterisk form is OPTIONS' alone.
        (b"*", Method::Options) => {
            head.form = TargetForm::Asterisk;
            head.path_form = PathForm::Normal;
            Ok(())
        }
        _ => judge_absolute(bytes, extent, made, head),
    }
}

/// RFC 9112, 3.2.2.
fn judge_absolute(
    bytes: &[u8],
    extent: Extent,
    made: &mut Made,
    head: &mut RequestHead,
) -> Result<(), Stop> {
    let text = head.target.of(bytes);
    // Schemes compare without case (RFC 9110, 4.2.3).
    let scheme = [&b"http://"[..], b"https://"]
        .into_iter()
        .find(|scheme| text.get(..scheme.len()).is_some_and(|s| s.eq_ignore_ascii_case(scheme)))
        .ok_or(Syntax::Target)?;
    let start = extent.start + scheme.len();
    let rest = bytes.get(start..extent.end).unwrap_or_default();
    let length = rest.iter().position(|byte| b"/?".contains(byte)).unwrap_or(rest.len());
    let path_start = start + length;
    if !is_authority(rest, length) {
        return Err(Syntax::Target.into());
    }
    head.form = TargetForm::Absolute;
    head.authority = span(start, path_start);
    write_origin(Extent { start: path_start, ..extent }, head);
    if rest.get(length) == Some(&b'/') {
        // The scan saw the slashes of the scheme, too.
        look_again(bytes, head);
        return Ok(());
    }
    head.path_form = PathForm::Normal;
    if head.method == Method::Options && path_start == extent.end {
        // RFC 9112, 3.2.4: the last proxy sends OPTIONS of an empty path on as `*`.
        head.form = TargetForm::Asterisk;
        *made = Made::Asterisk;
    } else {
        *made = Made::Slash;
    }
    Ok(())
}

impl Made {
    /// Appends to a head whose bytes are set what the client did not write.
    #[inline(always)]
    pub(crate) fn append_to(self, head: &mut RequestHead) -> Result<(), FaultKind> {
        match self {
            Self::Nothing => Ok(()),
            made => made.append(head).map_err(|_| FaultKind::HeadTooLarge),
        }
    }

    #[cold]
    #[inline(never)]
    fn append(self, head: &mut RequestHead) -> Result<(), SpaceExhausted> {
        match self {
            Self::Nothing => {}
            Self::Asterisk => {
                head.target = head.fields.append(b"*")?;
                head.path = head.target;
            }
            Self::Slash => {
                // Copied, because the borrow of what is appended to would last too long.
                let query = head.target().to_vec();
                head.path = head.fields.append(b"/")?;
                let query = head.fields.append(&query)?;
                head.target = Span::new(head.path.start, query.end);
            }
        }
        Ok(())
    }
}
