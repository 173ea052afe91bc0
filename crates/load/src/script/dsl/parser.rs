//! Takes the `#` lines of the DSL apart.

use super::Stop;
use super::expression::Expression;
use crate::script::environment::{CLOSE, OPEN};
use crate::script::problem::Span;
use crate::script::yaml::{Scalar, Style};

/// Deeper nesting than this is refused: nothing needs it, and this reader recurses.
const DEPTH: usize = 24;

/// Words that begin no remark.
const KEYS: [&str; 7] = ["assert", "env", "register", "request", "runner", "sleep", "variables"];

/// One part of the options of a request, or of the script.
#[derive(Debug)]
pub(super) enum Item {
    /// `key: value`.
    Pair(String, Span, Expression),
    /// A status alone.
    Status(Expression),
    /// A pattern of the body alone.
    Body(Expression),
}

/// The characters of some lines with their places in the text.
pub(super) struct Parser {
    characters: Vec<(usize, char)>,
    at: usize,
    depth: usize,
    /// Behind the last character.
    end: usize,
}

impl Parser {
    pub(super) fn new(lines: &[(usize, &str)]) -> Self {
        let mut characters = Vec::new();
        let mut end = 0;
        for (start, line) in lines {
            characters.extend(line.char_indices().map(|(at, c)| (start.saturating_add(at), c)));
            end = start.saturating_add(line.len());
            characters.push((end, '\n'));
        }
        Self { characters, at: 0, depth: 0, end }
    }

    /// Everything in the lines.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub(super) fn items(&mut self) -> Result<Vec<Item>, Stop> {
        let mut items = Vec::new();
        loop {
            while self.skip() == Some(',') {
                self.at += 1;
            }
            let Some(next) = self.peek() else { return Ok(items) };
            let from = self.at;
            if next == '{' {
                items.push(Item::Body(self.value()?));
            } else if next.is_ascii_digit() || "<>=(".contains(next) {
                items.push(Item::Status(self.value()?));
                if self.is_followed_by_a_word() {
                    let what = "a remark in a `#` line begins with `//`";
                    return Err((self.span(from), what.to_owned()));
                }
            } else {
                let (key, span) = self.key()?;
                if self.is_prose() && !KEYS.contains(&key.as_str()) {
                    self.skip_line();
                    continue;
                }
                if self.skip() != Some(':') {
                    return Err((self.span(from), format!("`{key}` needs a `:` and a value")));
                }
                self.at += 1;
                items.push(Item::Pair(key, span, self.value()?));
            }
        }
    }

    /// Whether the word before was the first one of a remark and no key: a word follows, or nothing.
    fn is_prose(&self) -> bool {
        let mut rest = self.characters.iter().skip(self.at).map(|(_, c)| *c);
        match rest.next() {
            None | Some('\n') => true,
            Some(' ') => rest.find(|c| *c != ' ').is_none_or(|c| c == '\n' || c.is_alphanumeric()),
            Some(_) => false,
        }
    }

    fn is_followed_by_a_word(&self) -> bool {
        let mut rest = self.characters.iter().skip(self.at).map(|(_, c)| *c);
        rest.find(|c| *c != ' ').is_some_and(char::is_alphabetic)
    }

    fn skip_line(&mut self) {
        while self.peek().is_some_and(|c| c != '\n') {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<char> {
        self.characters.get(self.at).map(|(_, c)| *c)
    }

    fn starts_with(&self, text: &str) -> bool {
        let rest = self.characters.iter().skip(self.at).map(|(_, c)| *c);
        rest.take(text.chars().count()).eq(text.chars())
    }

    /// Takes a text if it is next.
    fn takes(&mut self, text: &str) -> bool {
        let found = self.starts_with(text);
        if found {
            self.at += text.chars().count();
        }
        found
    }

    /// Takes a word if it is next and ends there.
    fn takes_word(&mut self, word: &str) -> bool {
        let behind = self.characters.get(self.at + word.chars().count()).map(|(_, c)| *c);
        !behind.is_some_and(is_word) && self.takes(word)
    }

    /// Skips blanks and `//` remarks; the next character.
    fn skip(&mut self) -> Option<char> {
        loop {
            match self.peek() {
                Some(c) if c.is_whitespace() => self.at += 1,
                Some('/') if self.starts_with("//") => self.skip_line(),
                next => return next,
            }
        }
    }

    /// From a character to the one before the present.
    fn span(&self, from: usize) -> Span {
        let place = |at: usize| self.characters.get(at).map_or(self.end, |(place, _)| *place);
        Span::new(place(from), place(self.at))
    }

    fn stop<T>(&self, message: impl Into<String>) -> Result<T, Stop> {
        let place = self.characters.get(self.at).map_or(self.end, |(place, _)| *place);
        Err((Span::new(place, place), message.into()))
    }

    /// A key: a text in quotes, or names and numbers with dots between.
    fn key(&mut self) -> Result<(String, Span), Stop> {
        let from = self.at;
        if let Some(quote @ ('"' | '\'')) = self.peek() {
            self.at += 1;
            let text = self.quoted(quote)?;
            return Ok((text, self.span(from)));
        }
        let mut key = String::new();
        while let Some(c) = self.peek().filter(|c| is_word(*c) || *c == '.') {
            key.push(c);
            self.at += 1;
        }
        match key.is_empty() {
            true => self.stop("a key was expected here, like `assert: ...`"),
            false => Ok((key, self.span(from))),
        }
    }

    /// A value with everything that can be said about it.
    fn value(&mut self) -> Result<Expression, Stop> {
        self.depth += 1;
        if self.depth > DEPTH {
            return self.stop("nested too deeply");
        }
        let from = self.at;
        let mut either = vec![self.conjunction()?];
        while self.next_word("or") {
            either.push(self.conjunction()?);
        }
        self.depth -= 1;
        Ok(match (either.len(), either.pop()) {
            (1, Some(only)) => only,
            (_, last) => {
                either.extend(last);
                Expression::Or(self.span(from), either)
            }
        })
    }

    fn conjunction(&mut self) -> Result<Expression, Stop> {
        let from = self.at;
        let mut both = vec![self.prefixed()?];
        while self.next_word("and") {
            both.push(self.prefixed()?);
        }
        Ok(match (both.len(), both.pop()) {
            (1, Some(only)) => only,
            (_, last) => {
                both.extend(last);
                Expression::And(self.span(from), both)
            }
        })
    }

    fn next_word(&mut self, word: &str) -> bool {
        let before = self.at;
        self.skip();
        let found = self.takes_word(word);
        if !found {
            self.at = before;
        }
        found
    }

    fn prefixed(&mut self) -> Result<Expression, Stop> {
        self.skip();
        let from = self.at;
        for (sign, bound) in [(">=", "gte"), ("<=", "lte"), (">", "gt"), ("<", "lt")] {
            if self.takes(sign) {
                let value = Box::new(self.atom()?);
                return Ok(Expression::Bound(self.span(from), bound, value));
            }
        }
        if self.takes("==") {
            let value = Box::new(self.atom()?);
            return Ok(Expression::Equal(self.span(from), value));
        }
        if self.takes_word("not") {
            self.depth += 1;
            if self.depth > DEPTH {
                return self.stop("nested too deeply");
            }
            let value = Box::new(self.prefixed()?);
            self.depth -= 1;
            return Ok(Expression::Not(self.span(from), value));
        }
        self.atom()
    }

    fn atom(&mut self) -> Result<Expression, Stop> {
        let from = self.at;
        let quoted = |text| Scalar { text, style: Style::Quoted };
        match self.skip() {
            Some('{') => self.table(),
            Some('[') => {
                let list = self.items_until(']')?;
                Ok(Expression::List(self.span(from), list))
            }
            Some('(') => {
                let items = self.items_until(')')?;
                Ok(Expression::Tuple(self.span(from), items))
            }
            Some(quote @ ('"' | '\'')) => {
                self.at += 1;
                let text = self.quoted(quote)?;
                Ok(Expression::Scalar(self.span(from), quoted(text)))
            }
            Some('/') => {
                self.at += 1;
                let text = self.regex()?;
                Ok(Expression::Regex(self.span(from), quoted(text)))
            }
            Some('$') if self.starts_with(OPEN) => {
                let mut text = String::new();
                while !text.ends_with(CLOSE) {
                    let Some(c) = self.peek().filter(|c| *c != '\n') else {
                        return self.stop(format!("this `{OPEN}` has no `{CLOSE}`"));
                    };
                    text.push(c);
                    self.at += 1;
                }
                Ok(Expression::Scalar(self.span(from), Scalar { text, style: Style::Plain }))
            }
            _ => self.word(from),
        }
    }

    /// A number, a name that means something, or a call.
    fn word(&mut self, from: usize) -> Result<Expression, Stop> {
        let mut text = String::new();
        let number = self.peek().is_some_and(|c| c.is_ascii_digit() || c == '-');
        while let Some(c) = self.peek() {
            let exponent = c == '+' && text.ends_with(['e', 'E']);
            if !(is_word(c) || (number && (c == '.' || exponent))) {
                break;
            }
            text.push(c);
            self.at += 1;
        }
        if text.is_empty() {
            return self.stop("a value was expected here");
        }
        if self.peek() == Some('(') && !number {
            let arguments = self.items_until(')')?;
            return Ok(Expression::Call(self.span(from), text, arguments));
        }
        Ok(Expression::Scalar(self.span(from), Scalar { text, style: Style::Plain }))
    }

    fn table(&mut self) -> Result<Expression, Stop> {
        let from = self.at;
        self.at += 1;
        let mut fields: Vec<(String, Span, Expression)> = Vec::new();
        loop {
            match self.skip() {
                Some('}') => {
                    self.at += 1;
                    return Ok(Expression::Table(self.span(from), fields));
                }
                Some(',') => self.at += 1,
                None => return Err((self.span(from), "this `{` has no `}`".to_owned())),
                Some(_) => {
                    let (key, span) = self.key()?;
                    if self.skip() != Some(':') {
                        return Err((span, format!("`{key}` needs a `:` and a value")));
                    }
                    self.at += 1;
                    if fields.iter().any(|(known, ..)| *known == key) {
                        return Err((span, format!("`{key}` is written twice")));
                    }
                    fields.push((key, span, self.value()?));
                }
            }
        }
    }

    /// The items up to a bracket; the one that opens is next.
    fn items_until(&mut self, close: char) -> Result<Vec<Expression>, Stop> {
        let from = self.at;
        self.at += 1;
        let mut items = Vec::new();
        loop {
            match self.skip() {
                Some(c) if c == close => {
                    self.at += 1;
                    return Ok(items);
                }
                Some(',') => self.at += 1,
                None => return Err((self.span(from), format!("a `{close}` is missing"))),
                Some(_) => items.push(self.value()?),
            }
        }
    }

    /// The rest of a text in quotes.
    fn quoted(&mut self, quote: char) -> Result<String, Stop> {
        let mut text = String::new();
        while let Some(c) = self.peek().filter(|c| *c != '\n') {
            self.at += 1;
            match c {
                c if c == quote => return Ok(text),
                '\\' => text.extend(self.escaped()),
                c => text.push(c),
            }
        }
        self.stop(format!("a {quote} is missing before the end of the line"))
    }

    fn escaped(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(match c {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'u' => {
                let digits = self.characters.iter().skip(self.at).take(4).map(|(_, c)| *c);
                let code = u32::from_str_radix(&digits.collect::<String>(), 16).ok();
                match code.and_then(char::from_u32) {
                    Some(found) => {
                        self.at += 4;
                        found
                    }
                    None => 'u',
                }
            }
            other => other,
        })
    }

    /// The rest of a regular expression.
    fn regex(&mut self) -> Result<String, Stop> {
        let mut text = String::new();
        while let Some(c) = self.peek().filter(|c| *c != '\n') {
            self.at += 1;
            match c {
                '/' => return Ok(text),
                '\\' if self.peek() == Some('/') => {
                    text.push('/');
                    self.at += 1;
                }
                // What is escaped cannot end it: `[\\/]`.
                '\\' => {
                    text.push(c);
                    text.extend(self.peek().filter(|c| *c != '\n'));
                    self.at += 1;
                }
                c => text.push(c),
            }
        }
        self.stop("a `/` is missing before the end of the line")
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}
