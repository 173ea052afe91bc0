//! Templates of access-log lines: from text to pieces.

use std::fmt;

use sluice_message::FieldId;

use super::variable::{VARIABLES, Variable};

/// What is wrong with a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateProblem {
    /// There is no such variable.
    Unknown,
    /// A brace is opened and never closed.
    Unclosed,
    /// `request.header.` without a header name behind it.
    HeaderName,
    /// A line break or another control character, which would tear lines apart.
    Control,
}

/// A template that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// Where in the text, in bytes.
    pub offset: usize,
    /// What is wrong.
    pub problem: TemplateProblem,
    /// The text between the braces; empty if there is none.
    pub variable: String,
    /// The variable that was probably meant.
    pub suggestion: Option<&'static str>,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, problem, variable, suggestion } = self;
        match problem {
            TemplateProblem::Unknown => write!(f, "unknown variable '{variable}'")?,
            TemplateProblem::Unclosed => {
                write!(f, "'{{' at byte {offset} is never closed; '{{{{' writes a brace")?;
            }
            TemplateProblem::HeaderName => write!(f, "'{variable}' ends in no header name")?,
            TemplateProblem::Control => write!(f, "control character at byte {offset}")?,
        }
        match suggestion {
            Some(name) => write!(f, "; did you mean '{name}'?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for TemplateError {}

/// A piece of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Literal(Box<[u8]>),
    Variable(Variable),
}

pub(super) fn parse_template(text: &str) -> Result<Vec<Piece>, TemplateError> {
    let error = |offset, problem, variable: &str| TemplateError {
        offset,
        problem,
        variable: variable.to_owned(),
        suggestion: (problem == TemplateProblem::Unknown).then(|| nearest(variable)).flatten(),
    };
    if let Some(offset) = text.find(|character: char| character.is_control() && character != '\t') {
        return Err(error(offset, TemplateProblem::Control, ""));
    }
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once('{') {
        literal.push_str(plain);
        if let Some(after) = after.strip_prefix('{') {
            literal.push('{');
            rest = after;
            continue;
        }
        let offset = text.len() - after.len() - 1;
        let Some((name, after)) = after.split_once('}') else {
            return Err(error(offset, TemplateProblem::Unclosed, after));
        };
        let variable = Variable::parse(name).map_err(|problem| error(offset, problem, name))?;
        push_literal(&mut pieces, &mut literal);
        pieces.push(Piece::Variable(variable));
        rest = after;
    }
    literal.push_str(rest);
    push_literal(&mut pieces, &mut literal);
    Ok(pieces)
}

fn push_literal(pieces: &mut Vec<Piece>, literal: &mut String) {
    if !literal.is_empty() {
        pieces.push(Piece::Literal(std::mem::take(literal).into_bytes().into()));
    }
}

impl Variable {
    pub(super) fn parse(name: &str) -> Result<Self, TemplateProblem> {
        if let Some(header) = name.strip_prefix("request.header.") {
            let valid =
                |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if header.is_empty() || !header.bytes().all(valid) {
                return Err(TemplateProblem::HeaderName);
            }
            let header = header.to_ascii_lowercase();
            let id = FieldId::of(header.as_bytes());
            return Ok(Self::RequestHeader(header.into(), id));
        }
        Self::of(name).ok_or(TemplateProblem::Unknown)
    }
}

/// The variable whose name is nearest, if it is near at all.
fn nearest(name: &str) -> Option<&'static str> {
    let near = VARIABLES.iter().map(|&(known, _)| (distance(name, known), known)).min()?;
    (near.0 <= near.1.len() / 3).then_some(near.1)
}

/// How many letters have to change (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(b.bytes()) {
            let changed = diagonal + usize::from(x != y);
            diagonal = *cell;
            left = changed.min(diagonal + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}
