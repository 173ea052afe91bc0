//! Templates: texts with values of the exchange in braces.

use std::cell::RefCell;

use crate::field_value::clean_field_value;
use crate::needs::Needs;
use crate::operand::Value;
use crate::parser::{Parser, check_length};
use crate::problem::ExpressionProblem;
use crate::scope::Scope;
use crate::subject::Subject;
use crate::truth::Truth;
use crate::value::Text;

/// Bytes that a template may become.
const MAX_RENDERED: usize = 16 * 1024;

/// A compiled template such as `{client.ip} via {lower(request.host)}`.
#[derive(Clone, Debug)]
pub struct Template {
    parts: Box<[Part]>,
    needs: Needs,
}

thread_local! {
    /// Where texts are written that are lent: once per thread, not once per request.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

#[derive(Clone, Debug)]
enum Part {
    Literal(Box<[u8]>),
    Text(Text),
    /// Written as `true` or `false`.
    Truth(Truth),
}

/// Whether all that a template names was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rendered {
    /// All of it.
    Complete,
    /// Something was absent; nothing stands in its place.
    WithGaps,
}

/// A template became longer than 16 KiB; what was written of it was taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl Template {
    /// Compiles a text; `{{` and `}}` stand for braces.
    ///
    /// # Errors
    /// What is wrong with the text, and where: a brace without its other half, and whatever may be wrong with
    /// what stands in braces (see [`crate::Condition::compile`]).
    pub fn compile(text: &str, scope: &Scope) -> Result<Self, ExpressionProblem> {
        check_length(text)?;
        let mut parts = Vec::new();
        let mut needs = Needs::default();
        let mut literal = String::new();
        let mut at = 0;
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            let plain = rest.find(['{', '}']).unwrap_or(rest.len());
            literal.push_str(rest.get(..plain).unwrap_or_default());
            at += plain;
            match rest.as_bytes().get(plain..) {
                None | Some([]) => break,
                Some([b'{', b'{', ..]) => literal.push('{'),
                Some([b'}', b'}', ..]) => literal.push('}'),
                Some([b'{', ..]) => {
                    let (written, start, end) = spelled(text, at + 1, scope);
                    let mut parser = Parser::new(written, start, scope)?;
                    let (operand, behind) = parser.placeholder()?;
                    let behind = end.unwrap_or(behind);
                    needs = needs.and(parser.needs());
                    let part = match operand.value {
                        Value::Truth(truth) => Part::Truth(truth),
                        _ => Part::Text(operand.into_text()?),
                    };
                    push_literal(&mut parts, &mut literal);
                    parts.push(part);
                    at = behind;
                    continue;
                }
                Some(_) => {
                    return Err(ExpressionProblem::new("this } closes nothing", at..at + 1)
                        .with_help("write }} for a brace"));
                }
            }
            at += 2;
        }
        push_literal(&mut parts, &mut literal);
        Ok(Self { parts: parts.into(), needs })
    }

    /// Whether what it becomes begins with a value and not with a text that stands in it.
    #[must_use]
    pub fn starts_with_value(&self) -> bool {
        matches!(&*self.parts, [Part::Text(_) | Part::Truth(_), ..])
    }

    /// The texts between braces.
    pub fn literals(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().filter_map(|part| match part {
            Part::Literal(text) => Some(&**text),
            Part::Text(_) | Part::Truth(_) => None,
        })
    }

    /// What it reads.
    #[must_use]
    pub const fn needs(&self) -> Needs {
        self.needs
    }

    /// The text, if it is the same for every subject.
    #[must_use]
    pub fn as_constant(&self) -> Option<&[u8]> {
        match &*self.parts {
            [] => Some(b""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Lends what it becomes for this subject, byte for byte, to `read`; what is absent is empty.
    ///
    /// What is a single value, as most of them are, is lent from where it lies. Others are written into memory
    /// that is used again.
    #[inline]
    pub fn lend<S: Subject + ?Sized, R>(
        &self,
        subject: &S,
        read: impl FnOnce(Result<&[u8], TooLong>) -> R,
    ) -> R {
        match &*self.parts {
            [Part::Text(text)] => {
                text.lend(subject, |value| read(bounded(value.unwrap_or_default())))
            }
            _ => self.lend_written(subject, read),
        }
    }

    fn lend_written<S: Subject + ?Sized, R>(
        &self,
        subject: &S,
        read: impl FnOnce(Result<&[u8], TooLong>) -> R,
    ) -> R {
        with_scratch(|text| {
            let rendered = self.render(subject, text);
            read(rendered.map(|_| text.as_slice()))
        })
    }

    /// Lends the key that it makes of this subject to `read`: two subjects have the same key if every value of
    /// the template is the same for both, and no other way. A text alone does not say so: with `{a}{b}` a client
    /// could move bytes from one value to the other and be taken for somebody else.
    ///
    /// The key of a template with a single value is that value. Where there are more, each is followed by its
    /// length ([`push_framed`]).
    #[inline]
    pub fn lend_key<S: Subject + ?Sized, R>(
        &self,
        subject: &S,
        read: impl FnOnce(Result<&[u8], TooLong>) -> R,
    ) -> R {
        let is_value = |part: &&Part| !matches!(part, Part::Literal(_));
        match &*self.parts {
            // Nearly all: one comparison.
            [_] => self.lend(subject, read),
            parts if parts.iter().filter(is_value).count() > 1 => self.lend_framed(subject, read),
            _ => self.lend(subject, read),
        }
    }

    fn lend_framed<S: Subject + ?Sized, R>(
        &self,
        subject: &S,
        read: impl FnOnce(Result<&[u8], TooLong>) -> R,
    ) -> R {
        with_scratch(|key| {
            let mut result = Ok(());
            for part in &self.parts {
                match part {
                    // The same for all subjects: it tells none apart.
                    Part::Literal(_) => {}
                    Part::Truth(truth) => push_framed(key, &[u8::from(truth.holds(subject))]),
                    Part::Text(text) => text.lend(subject, |value| {
                        let value = value.unwrap_or_default();
                        if key.len() + value.len() > MAX_RENDERED {
                            result = Err(TooLong);
                            return;
                        }
                        push_framed(key, value);
                    }),
                }
            }
            read(result.map(|()| key.as_slice()))
        })
    }

    /// Appends what it becomes for this subject, byte for byte: it may hold whatever a client sent.
    ///
    /// # Errors
    /// [`TooLong`]; nothing is appended then.
    pub fn render<S: Subject + ?Sized>(
        &self,
        subject: &S,
        out: &mut Vec<u8>,
    ) -> Result<Rendered, TooLong> {
        self.render_escaped(subject, |value, out| out.extend_from_slice(value), out)
    }

    /// Appends what it becomes for this subject, with every value written by `escape`; what stands outside of
    /// braces is written as it is. `escape` is to write no more than a few times what it is given.
    ///
    /// # Errors
    /// [`TooLong`]; nothing is appended then.
    pub fn render_escaped<S: Subject + ?Sized>(
        &self,
        subject: &S,
        escape: impl Fn(&[u8], &mut Vec<u8>),
        out: &mut Vec<u8>,
    ) -> Result<Rendered, TooLong> {
        let start = out.len();
        let mut rendered = Rendered::Complete;
        for part in &self.parts {
            let before = out.len();
            let length = match part {
                Part::Literal(text) => {
                    out.extend_from_slice(text);
                    text.len()
                }
                Part::Truth(truth) => {
                    out.extend_from_slice(if truth.holds(subject) { b"true" } else { b"false" });
                    0
                }
                Part::Text(text) => text.lend(subject, |value| match value {
                    // Values too long are not even escaped.
                    Some(value) if value.len() <= MAX_RENDERED => {
                        escape(value, out);
                        0
                    }
                    Some(value) => value.len(),
                    None => {
                        rendered = Rendered::WithGaps;
                        0
                    }
                }),
            };
            if before - start + length.max(out.len() - before) > MAX_RENDERED {
                out.truncate(start);
                return Err(TooLong);
            }
        }
        Ok(rendered)
    }

    /// Appends what it becomes for this subject as the value of a field, which no control character can end
    /// (see [`clean_field_value`]).
    ///
    /// # Errors
    /// [`TooLong`]; nothing is appended then.
    pub fn render_field_value<S: Subject + ?Sized>(
        &self,
        subject: &S,
        out: &mut Vec<u8>,
    ) -> Result<Rendered, TooLong> {
        let start = out.len();
        let rendered = match &*self.parts {
            // Nearly all: what is needed for several parts is as much again.
            [Part::Text(text)] => text.lend(subject, |value| {
                out.extend_from_slice(bounded(value.unwrap_or_default())?);
                Ok(if value.is_some() { Rendered::Complete } else { Rendered::WithGaps })
            })?,
            _ => self.render(subject, out)?,
        };
        clean_field_value(out, start);
        Ok(rendered)
    }
}

/// Appends a value and its length. Values that are appended one after the other can be told apart from the end,
/// so that two lists of values are the same bytes only if they are the same values. Values are shorter than 4 GiB.
pub fn push_framed(out: &mut Vec<u8>, value: &[u8]) {
    out.extend_from_slice(value);
    out.extend_from_slice(&u32::try_from(value.len()).unwrap_or(u32::MAX).to_be_bytes());
}

/// Lends memory of the thread, empty, to whoever writes a text.
fn with_scratch<R>(write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    SCRATCH.with(|scratch| {
        // Only what is made while another text is read finds it taken.
        let mut own = Vec::new();
        let mut shared = scratch.try_borrow_mut();
        let text = shared.as_deref_mut().unwrap_or(&mut own);
        text.clear();
        write(text)
    })
}

/// The expression behind a brace: the text it stands in, where it begins there, and where the template goes on if that is
/// known. An old spelling is read as what is written today.
fn spelled<'t>(text: &'t str, at: usize, scope: &Scope) -> (&'t str, usize, Option<usize>) {
    let inside = text.get(at..).and_then(|rest| rest.split_once('}')).map(|(inside, _)| inside);
    let today = inside.and_then(|inside| Some((inside.len(), scope.today(inside)?)));
    match today {
        Some((length, today)) => (today, 0, Some(at + length + 1)),
        None => (text, at, None),
    }
}

/// A value, unless it is too long.
#[inline]
fn bounded(value: &[u8]) -> Result<&[u8], TooLong> {
    if value.len() <= MAX_RENDERED { Ok(value) } else { Err(TooLong) }
}

fn push_literal(parts: &mut Vec<Part>, literal: &mut String) {
    if !literal.is_empty() {
        parts.push(Part::Literal(std::mem::take(literal).into_bytes().into()));
    }
}
