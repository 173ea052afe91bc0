//! Comparisons: which types go together, and the shortest form for each.

use std::net::IpAddr;
use std::ops::Range;

use ipnet::IpNet;
use memchr::memmem::Finder;
use regex::bytes::RegexBuilder;
use sluice_message::{AddressRanges, Method};

use crate::operand::{Constant, Operand, Value};
use crate::operator::{Comparison, Operator, Relation};
use crate::problem::ExpressionProblem;
use crate::truth::{Rule, Truth};
use crate::value::{Address, HeadPart, Number, Text};

type Compared = Result<Truth, ExpressionProblem>;

/// What it means that `operator` stands between the two.
pub(crate) fn compare(left: Operand, operator: Operator, right: Operand) -> Compared {
    match operator {
        Operator::In => within(left, right),
        Operator::Matches => matches(left, right),
        // The contrary of the equal: a fact that is absent, or that is there twice, has one meaning only.
        Operator::Related(Relation::Compared(Comparison::Unequal)) => {
            let equal = Relation::Compared(Comparison::Equal);
            related(left, equal, right).map(|equal| Truth::Not(Box::new(equal)))
        }
        Operator::Related(relation) => related(left, relation, right),
    }
}

fn related(left: Operand, relation: Relation, right: Operand) -> Compared {
    // A constant stands on the right: that is the form with nothing to look up.
    if let (Relation::Compared(comparison), true) = (relation, is_constant(&left.value))
        && !is_constant(&right.value)
    {
        return related(right, Relation::Compared(comparison.turned()), left);
    }
    let mismatch = mismatch(&left, relation, &right);
    match (left.value, relation, right.value) {
        (Value::Text(left), relation, Value::Text(right)) => Ok(texts(left, relation, right)),
        (Value::Number(left), Relation::Compared(comparison), Value::Number(right)) => {
            Ok(Truth::Compared(left, comparison, right))
        }
        (Value::Address(left), EQUAL, Value::Address(right)) => Ok(Truth::SameAddress(left, right)),
        (Value::Address(left), EQUAL, Value::Text(Text::Literal(text))) => {
            let text = String::from_utf8_lossy(&text);
            let address: IpAddr =
                text.parse().map_err(|_| no_address(&text, right.span.clone()))?;
            Ok(Truth::Within(left, AddressRanges::of([(address, address)])))
        }
        (Value::Truth(left), EQUAL, Value::Truth(right)) => {
            Ok(Truth::Same(Box::new([left, right])))
        }
        _ => Err(mismatch),
    }
}

const EQUAL: Relation = Relation::Compared(Comparison::Equal);

const fn is_constant(value: &Value) -> bool {
    matches!(value, Value::Text(Text::Literal(_)) | Value::Number(Number::Literal(_)))
}

fn texts(left: Text, relation: Relation, right: Text) -> Truth {
    match (left, relation, right) {
        (Text::Head(HeadPart::Method), EQUAL, Text::Literal(name))
            if Method::of(&name) != Method::Extension =>
        {
            Truth::Method(Method::of(&name))
        }
        (left, Relation::Contains, Text::Literal(text)) => {
            let finder = Finder::new(&text).into_owned();
            Truth::Ruled(left, Rule::Contains(Box::new(finder)))
        }
        (left, relation, Text::Literal(text)) => Truth::Ruled(left, Rule::Related(relation, text)),
        (left, relation, right) => Truth::Related(left, relation, right),
    }
}

/// Why the two cannot be compared so, and how they can.
fn mismatch(left: &Operand, relation: Relation, right: &Operand) -> ExpressionProblem {
    let message = format!("{} and {} cannot be compared so", left.kind(), right.kind());
    // They may have been turned.
    let start = left.span.start.min(right.span.start);
    let span = start..left.span.end.max(right.span.end);
    let problem = ExpressionProblem::new(message, span);
    let help = match (&left.value, &right.value) {
        (Value::Text(_), Value::Number(_)) | (Value::Number(_), Value::Text(_)) => {
            "number(...) makes a number of a text; a text stands in quotes, a number does not"
        }
        (Value::Address(_), Value::Text(_)) | (Value::Text(_), Value::Address(_)) => {
            "compare an address with == '10.0.0.1' or in '10.0.0.0/8'; address(...) makes one of a text"
        }
        (_, Value::List(_)) | (Value::List(_), _) => "a list stands behind in",
        (Value::Truth(_), _) => "what stands behind ! is the next value alone: write !(a == b)",
        (Value::Number(_), Value::Number(_)) if !matches!(relation, Relation::Compared(_)) => {
            "numbers are compared with == != < <= > >="
        }
        _ => return problem,
    };
    problem.with_help(help)
}

fn matches(left: Operand, right: Operand) -> Compared {
    let left_span = left.span.clone();
    let kind = left.kind();
    let Value::Text(text) = left.value else {
        let message = format!("a regular expression is for texts, this is {kind}");
        return Err(ExpressionProblem::new(message, left_span));
    };
    let span = right.span.clone();
    let expression = right.into_constant()?;
    let expression = String::from_utf8_lossy(&expression);
    // As in routes, where a ~ tells regular expressions from other patterns.
    let expression = expression.strip_prefix('~').map_or(&*expression, str::trim_start);
    if expression.is_empty() {
        return Err(ExpressionProblem::new("this regular expression is empty", span));
    }
    match RegexBuilder::new(expression).unicode(false).build() {
        Ok(regex) => Ok(Truth::Ruled(text, Rule::Matches(regex))),
        Err(error) => {
            // The first lines of the message draw the expression; its place is shown already.
            let message = error.to_string();
            let reason = message.lines().last().unwrap_or_default();
            let reason = reason.strip_prefix("error: ").unwrap_or(reason);
            let message = format!("this is no regular expression: {reason}");
            Err(ExpressionProblem::new(message, span))
        }
    }
}

fn within(left: Operand, right: Operand) -> Compared {
    let kind = left.kind();
    let span = left.span.start..right.span.end;
    match (left.value, right.value) {
        (Value::Address(address), Value::Text(Text::Literal(text))) => {
            let text = String::from_utf8_lossy(&text).into_owned();
            networks(address, &[(Constant::Text(text), right.span)])
        }
        (Value::Address(address), Value::List(members)) => networks(address, &members),
        (Value::Text(text), Value::List(members)) => {
            let mut texts = Vec::with_capacity(members.len());
            for (member, span) in members {
                match member {
                    Constant::Text(text) => texts.push(text.into_bytes().into_boxed_slice()),
                    Constant::Number(_) => return Err(other_member(kind, "a number", span)),
                }
            }
            texts.sort_unstable();
            Ok(Truth::Ruled(text, Rule::OneOf(texts.into())))
        }
        (Value::Number(number), Value::List(members)) => {
            let mut numbers = Vec::with_capacity(members.len());
            for (member, span) in members {
                match member {
                    Constant::Number(value) => numbers.push(value),
                    Constant::Text(_) => return Err(other_member(kind, "a text", span)),
                }
            }
            numbers.sort_unstable();
            Ok(Truth::OneOf(number, numbers.into()))
        }
        (Value::Text(_), Value::Text(_)) => {
            Err(ExpressionProblem::new("behind in a list is wanted", right.span).with_help(
                "['a', 'b']; address(...) makes an address of a text, which may be in '10.0.0.0/8'",
            ))
        }
        (Value::Truth(_) | Value::List(_), _) => {
            Err(ExpressionProblem::new(format!("{kind} cannot be in a list"), left.span))
        }
        _ => Err(ExpressionProblem::new(format!("behind in {kind} needs a list"), span)
            .with_help("a list of constants: ['a', 'b'] or [1, 2]")),
    }
}

fn other_member(left: &str, member: &str, span: Range<usize>) -> ExpressionProblem {
    ExpressionProblem::new(format!("{left} is looked for, this is {member}"), span)
}

fn networks(address: Address, members: &[(Constant, Range<usize>)]) -> Compared {
    let mut ranges = Vec::with_capacity(members.len());
    for (member, span) in members {
        let Constant::Text(text) = member else {
            return Err(other_member("an address", "a number", span.clone()));
        };
        let network = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        let network = network.map_err(|_| no_address(text, span.clone()))?;
        ranges.push((network.network(), network.broadcast()));
    }
    Ok(Truth::Within(address, AddressRanges::of(ranges)))
}

fn no_address(text: &str, span: Range<usize>) -> ExpressionProblem {
    let message = format!("'{}' is no address", text.escape_debug());
    ExpressionProblem::new(message, span).with_help("'10.0.0.1', '2001:db8::1' or '10.0.0.0/8'")
}
