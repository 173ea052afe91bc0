//! Reads an expression and checks its types in one pass.
//!
//! ```text
//! either   = both { ("||" | "or") both }
//! both     = negated { ("&&" | "and") negated }
//! negated  = "not" negated | compared
//! compared = value [ operator value ]
//! value    = "!" value | "(" either ")" | list | constant | function | fact
//! ```

use std::ops::Range;

use crate::MAX_TEXT;
use crate::call::{Call, call};
use crate::compare::compare;
use crate::decimal::parse_decimal;
use crate::fact::{Segment, resolve};
use crate::lexer::{self, Lexeme, Token};
use crate::nearest::nearest;
use crate::needs::Needs;
use crate::operand::{Constant, Operand, Value};
use crate::operator::{self, Operator, Relation};
use crate::problem::ExpressionProblem;
use crate::scope::Scope;
use crate::truth::Truth;
use crate::value::{Number, Text};

/// Parentheses, negations and functions within each other.
const MAX_DEPTH: usize = 64;
/// Functions within each other: each may make a text three times as long.
const MAX_CALLS: usize = 8;

type Parsed<T> = Result<T, ExpressionProblem>;

/// Reads one expression from a text.
pub(crate) struct Parser<'t> {
    text: &'t str,
    scope: &'t Scope,
    next: Lexeme<'t>,
    /// Where the last token that was taken ends.
    behind: usize,
    depth: usize,
    calls: usize,
    needs: Needs,
}

impl<'t> Parser<'t> {
    /// For the expression that begins at `at`.
    pub(crate) fn new(text: &'t str, at: usize, scope: &'t Scope) -> Parsed<Self> {
        check_length(text)?;
        let next = lexer::next(text, at)?;
        let needs = Needs::default();
        Ok(Self { text, scope, next, behind: at, depth: 0, calls: 0, needs })
    }

    pub(crate) const fn needs(&self) -> Needs {
        self.needs
    }

    /// All of the text as a condition.
    pub(crate) fn condition(&mut self) -> Parsed<Truth> {
        if self.next.token == Token::End {
            return Err(self.problem("a condition is missing"));
        }
        let truth = self.either()?.into_truth()?;
        match self.next.token {
            Token::End => Ok(truth),
            _ => Err(self.unexpected()),
        }
    }

    /// The value up to a closing brace, and where the text goes on behind that.
    pub(crate) fn placeholder(&mut self) -> Parsed<(Operand, usize)> {
        if self.next.token == Token::CloseBrace {
            return Err(self.problem("the braces are empty").with_help("write {{}} for braces"));
        }
        let operand = self.either()?;
        match self.next.token {
            Token::CloseBrace => Ok((operand, self.next.span.end)),
            Token::End => Err(self.problem("a } is missing")),
            _ => Err(self.unexpected()),
        }
    }

    fn advance(&mut self) -> Parsed<Lexeme<'t>> {
        let following = lexer::next(self.text, self.next.span.end)?;
        let taken = std::mem::replace(&mut self.next, following);
        self.behind = taken.span.end;
        Ok(taken)
    }

    fn take(&mut self, token: &Token<'_>) -> Parsed<bool> {
        let found = self.next.token == *token;
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, token: &Token<'_>, sign: &str) -> Parsed<()> {
        if self.take(token)? {
            return Ok(());
        }
        match self.next.token {
            Token::End | Token::CloseBrace => Err(self.problem(format!("a {sign} is missing"))),
            _ => Err(self.unexpected().with_help(format!("a {sign} is missing before it"))),
        }
    }

    fn problem(&self, message: impl Into<String>) -> ExpressionProblem {
        ExpressionProblem::new(message, self.next.span.clone())
    }

    /// What comes next makes no sense.
    fn unexpected(&self) -> ExpressionProblem {
        match self.next.token {
            Token::End => self.problem("something is missing here"),
            Token::Word(word) => {
                let problem = self.problem(format!("an operator is missing before '{word}'"));
                match nearest(word, operator::WORDS.iter().copied()) {
                    Some(near) => problem.with_help(format!("did you mean {near}?")),
                    None => problem,
                }
            }
            Token::Quoted(_) => self.problem("an operator is missing before this text"),
            _ => {
                let sign = self.text.get(self.next.span.clone()).unwrap_or_default();
                self.problem(format!("'{sign}' makes no sense here"))
            }
        }
    }

    /// One level deeper, as far as that goes.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == MAX_DEPTH {
            return Err(self.problem(format!("this is nested deeper than {MAX_DEPTH} levels")));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn either(&mut self) -> Parsed<Operand> {
        let first = self.both()?;
        if !self.at_word_or(&Token::Or, "or") {
            return Ok(first);
        }
        let start = first.span.start;
        let mut truths = vec![first.into_truth()?];
        while self.at_word_or(&Token::Or, "or") {
            self.advance()?;
            truths.push(self.both()?.into_truth()?);
        }
        Ok(self.truth(Truth::Any(truths.into()), start))
    }

    fn both(&mut self) -> Parsed<Operand> {
        let first = self.negated()?;
        if !self.at_word_or(&Token::And, "and") {
            return Ok(first);
        }
        let start = first.span.start;
        let mut truths = vec![first.into_truth()?];
        while self.at_word_or(&Token::And, "and") {
            self.advance()?;
            truths.push(self.negated()?.into_truth()?);
        }
        Ok(self.truth(Truth::All(truths.into()), start))
    }

    fn at_word_or(&self, sign: &Token<'_>, word: &str) -> bool {
        self.next.token == *sign || self.next.token == Token::Word(word)
    }

    fn truth(&self, truth: Truth, start: usize) -> Operand {
        Operand { value: Value::Truth(truth), span: start..self.behind }
    }

    fn negated(&mut self) -> Parsed<Operand> {
        if self.next.token != Token::Word("not") {
            return self.compared();
        }
        let start = self.advance()?.span.start;
        let truth = self.nested(Self::negated)?.into_truth()?;
        Ok(self.truth(Truth::Not(Box::new(truth)), start))
    }

    fn compared(&mut self) -> Parsed<Operand> {
        let left = self.value()?;
        let Some((operator, denied)) = self.operator()? else {
            return Ok(left);
        };
        let start = left.span.start;
        let right = match operator {
            Operator::Matches => self.expression()?,
            _ => self.value()?,
        };
        let truth = compare(left, operator, right)?;
        if self.at_operator() {
            return Err(self.problem("only two values can be compared").with_help(
                "put the first comparison in parentheses, or write && between two comparisons",
            ));
        }
        let truth = if denied { Truth::Not(Box::new(truth)) } else { truth };
        Ok(self.truth(truth, start))
    }

    fn at_operator(&self) -> bool {
        match self.next.token {
            Token::Compare(_) => true,
            Token::Word(word) => Operator::of_word(word).is_some(),
            _ => false,
        }
    }

    /// The operator that comes next, and whether `not` stands before it.
    fn operator(&mut self) -> Parsed<Option<(Operator, bool)>> {
        let denied = self.next.token == Token::Word("not");
        if denied {
            self.advance()?;
        }
        let operator = match self.next.token {
            Token::Compare(comparison) if !denied => {
                Operator::Related(Relation::Compared(comparison))
            }
            Token::Word(word) => match Operator::of_word(word) {
                Some(operator) => operator,
                None if denied => return Err(self.unexpected()),
                None => return Ok(None),
            },
            _ if denied => return Err(self.unexpected()),
            _ => return Ok(None),
        };
        self.advance()?;
        Ok(Some((operator, denied)))
    }

    /// The regular expression behind `matches`, in which backslashes are its own.
    fn expression(&mut self) -> Parsed<Operand> {
        let Token::Quoted(inner) = self.next.token else {
            return Err(self
                .problem("a regular expression in quotes is wanted here")
                .with_help("matches '^/v[0-9]+/'"));
        };
        let span = self.advance()?.span;
        let text = lexer::unquoted(inner).into_bytes();
        Ok(Operand { value: Value::Text(Text::Literal(text.into())), span })
    }

    fn value(&mut self) -> Parsed<Operand> {
        let start = self.next.span.start;
        match self.next.token {
            Token::Not => {
                self.advance()?;
                let operand = self.nested(Self::value)?;
                let span = start..self.behind;
                let truth = Truth::Not(Box::new(operand.into_truth()?));
                Ok(Operand { value: Value::Truth(truth), span })
            }
            Token::Open => {
                self.advance()?;
                let operand = self.nested(Self::either)?;
                self.expect(&Token::Close, ")")?;
                Ok(Operand { value: operand.value, span: start..self.behind })
            }
            Token::OpenList => self.list(),
            Token::Quoted(inner) => {
                let text = lexer::unescaped(inner, start + 1)?.into_bytes();
                let span = self.advance()?.span;
                Ok(Operand { value: Value::Text(Text::Literal(text.into())), span })
            }
            Token::Word(word) => self.word(word),
            Token::End => Err(self.problem("a value is missing here")),
            _ => {
                let problem = self.unexpected();
                Err(problem.with_help("a fact, a text in quotes, a number or a function is wanted"))
            }
        }
    }

    fn list(&mut self) -> Parsed<Operand> {
        let start = self.advance()?.span.start;
        let mut members = Vec::new();
        while self.next.token != Token::CloseList {
            let member = match self.next.token {
                Token::Quoted(inner) => {
                    Constant::Text(lexer::unescaped(inner, self.next.span.start + 1)?)
                }
                Token::Word(word) if word.starts_with(|c: char| c.is_ascii_digit()) => {
                    Constant::Number(number(word, &self.next.span)?)
                }
                Token::End => return Err(self.problem("a ] is missing")),
                _ => {
                    return Err(self
                        .problem("a list holds texts in quotes and numbers")
                        .with_help("['a', 'b'] or [1, 2]"));
                }
            };
            members.push((member, self.advance()?.span));
            if self.next.token != Token::CloseList {
                self.expect(&Token::Comma, ",")?;
            }
        }
        self.advance()?;
        Ok(Operand { value: Value::List(members), span: start..self.behind })
    }

    /// A number, `true`, `false`, a function or a fact.
    fn word(&mut self, word: &str) -> Parsed<Operand> {
        let span = self.advance()?.span;
        if word.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            let value = Value::Number(Number::Literal(number(word, &span)?));
            if self.next.token == Token::Dot {
                return Err(not_whole(span.start..self.next.span.end));
            }
            return Ok(Operand { value, span });
        }
        match word {
            "true" | "false" => {
                Ok(Operand { value: Value::Truth(Truth::Constant(word == "true")), span })
            }
            _ if self.next.token == Token::Open => self.function(word, span),
            _ if Operator::of_word(word).is_some() || matches!(word, "and" | "or" | "not") => {
                Err(ExpressionProblem::new(format!("a value is missing before '{word}'"), span))
            }
            _ => self.fact(word, span),
        }
    }

    fn function(&mut self, name: &str, span: Range<usize>) -> Parsed<Operand> {
        self.advance()?;
        if self.calls == MAX_CALLS {
            let message = format!("more than {MAX_CALLS} functions within each other");
            return Err(ExpressionProblem::new(message, span));
        }
        self.calls += 1;
        let mut arguments = Vec::new();
        while self.next.token != Token::Close {
            arguments.push(self.nested(Self::either)?);
            if self.next.token != Token::Close {
                self.expect(&Token::Comma, ")")?;
            }
        }
        self.advance()?;
        self.calls -= 1;
        let whole = span.start..self.behind;
        call(Call { name, span, whole, arguments })
    }

    fn fact(&mut self, first: &str, span: Range<usize>) -> Parsed<Operand> {
        let start = span.start;
        let mut segments = vec![Segment { text: first.to_owned(), span }];
        loop {
            match self.next.token {
                Token::Dot => {
                    self.advance()?;
                    let Token::Word(word) = self.next.token else {
                        return Err(self.problem("a name is missing behind the dot"));
                    };
                    let span = self.advance()?.span;
                    segments.push(Segment { text: word.to_owned(), span });
                }
                Token::OpenList => {
                    self.advance()?;
                    let Token::Quoted(inner) = self.next.token else {
                        return Err(self.problem("a name in quotes is wanted here"));
                    };
                    let text = lexer::unescaped(inner, self.next.span.start + 1)?;
                    let span = self.advance()?.span;
                    segments.push(Segment { text, span });
                    self.expect(&Token::CloseList, "]")?;
                }
                _ => break,
            }
        }
        let value = resolve(&segments, self.scope, &mut self.needs)?;
        Ok(Operand { value, span: start..self.behind })
    }
}

/// Texts that are too long are refused before anything of them is read.
pub(crate) fn check_length(text: &str) -> Parsed<()> {
    if text.len() <= MAX_TEXT {
        return Ok(());
    }
    let message = format!("this is longer than {MAX_TEXT} bytes");
    Err(ExpressionProblem::new(message, text.floor_char_boundary(MAX_TEXT)..text.len()))
}

fn number(word: &str, span: &Range<usize>) -> Parsed<u64> {
    if let Some(value) = parse_decimal(word.as_bytes()) {
        return Ok(value);
    }
    if word.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ExpressionProblem::new("this number is too large", span.clone()));
    }
    Err(not_whole(span.clone()))
}

fn not_whole(span: Range<usize>) -> ExpressionProblem {
    ExpressionProblem::new("this is no whole number", span)
        .with_help("numbers are digits alone: no sign, no fraction, no unit")
}
