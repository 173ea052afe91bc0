//! Cuts the text of an expression into words, quoted texts and signs.

use std::ops::Range;

use crate::operator::Comparison;
use crate::problem::ExpressionProblem;

/// A word, a quoted text or a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'t> {
    /// Letters, digits, `_` and `-`: a name, an operator or a number.
    Word(&'t str),
    /// What stands between quotes, escapes and all.
    Quoted(&'t str),
    Open,
    Close,
    OpenList,
    CloseList,
    /// `}`, the end of an expression in a template.
    CloseBrace,
    Comma,
    Dot,
    Not,
    And,
    Or,
    Compare(Comparison),
    End,
}

/// A token and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Lexeme<'t> {
    pub(crate) token: Token<'t>,
    pub(crate) span: Range<usize>,
}

/// The token that begins at `at` or behind the blanks there.
pub(crate) fn next(text: &str, at: usize) -> Result<Lexeme<'_>, ExpressionProblem> {
    let rest = text.get(at..).unwrap_or_default();
    let trimmed = rest.trim_start_matches([' ', '\t', '\r', '\n']);
    let start = at + rest.len() - trimmed.len();
    let (token, length) = match trimmed.as_bytes() {
        [] => (Token::End, 0),
        [b'&', b'&', ..] => (Token::And, 2),
        [b'|', b'|', ..] => (Token::Or, 2),
        [b'=', b'=', ..] => (Token::Compare(Comparison::Equal), 2),
        [b'!', b'=', ..] => (Token::Compare(Comparison::Unequal), 2),
        [b'<', b'=', ..] => (Token::Compare(Comparison::LessOrEqual), 2),
        [b'>', b'=', ..] => (Token::Compare(Comparison::GreaterOrEqual), 2),
        [b'<', ..] => (Token::Compare(Comparison::Less), 1),
        [b'>', ..] => (Token::Compare(Comparison::Greater), 1),
        [b'!', ..] => (Token::Not, 1),
        [b'(', ..] => (Token::Open, 1),
        [b')', ..] => (Token::Close, 1),
        [b'[', ..] => (Token::OpenList, 1),
        [b']', ..] => (Token::CloseList, 1),
        [b'}', ..] => (Token::CloseBrace, 1),
        [b',', ..] => (Token::Comma, 1),
        [b'.', ..] => (Token::Dot, 1),
        [quote @ (b'\'' | b'"'), ..] => {
            let inner = quoted(trimmed, *quote)
                .ok_or_else(|| ExpressionProblem::new("this text has no end", start..text.len()))?;
            (Token::Quoted(inner), inner.len() + 2)
        }
        _ => {
            let length = trimmed.find(|c: char| !is_word(c)).unwrap_or(trimmed.len());
            if length == 0 {
                return Err(stray(trimmed, start));
            }
            (Token::Word(trimmed.get(..length).unwrap_or_default()), length)
        }
    };
    Ok(Lexeme { token, span: start..start + length })
}

const fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// What stands between this quote and the next of its kind that no backslash precedes.
fn quoted(text: &str, quote: u8) -> Option<&str> {
    let mut bytes = text.bytes().enumerate().skip(1);
    while let Some((at, byte)) = bytes.next() {
        if byte == quote {
            return text.get(1..at);
        }
        if byte == b'\\' {
            bytes.next();
        }
    }
    None
}

fn stray(text: &str, start: usize) -> ExpressionProblem {
    let c = text.chars().next().unwrap_or_default();
    let message = format!("'{}' has no meaning here", c.escape_debug());
    let problem = ExpressionProblem::new(message, start..start + c.len_utf8());
    match c {
        '=' => problem.with_help("write == to compare"),
        '&' => problem.with_help("write && for both"),
        '|' => problem.with_help("write || for either"),
        '~' => problem.with_help("write matches 'expression' for a regular expression"),
        _ => problem,
    }
}

/// The text that a quoted one stands for. `start` is where it begins, behind its quote.
pub(crate) fn unescaped(inner: &str, start: usize) -> Result<String, ExpressionProblem> {
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.char_indices();
    while let Some((at, c)) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some((_, escaped @ ('\\' | '\'' | '"'))) => out.push(escaped),
            Some((_, 'n')) => out.push('\n'),
            Some((_, 'r')) => out.push('\r'),
            Some((_, 't')) => out.push('\t'),
            other => {
                let length = 1 + other.map_or(0, |(_, c)| c.len_utf8());
                let span = start + at..start + at + length;
                return Err(ExpressionProblem::new("this escape has no meaning", span)
                    .with_help(r#"there are \\ \' \" \n \r \t"#));
            }
        }
    }
    Ok(out)
}

/// A regular expression between quotes: backslashes are its own, but for those before quotes.
pub(crate) fn unquoted(inner: &str) -> String {
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some(quote @ ('\'' | '"')) => out.push(quote),
            other => out.extend(std::iter::once('\\').chain(other)),
        }
    }
    out
}
