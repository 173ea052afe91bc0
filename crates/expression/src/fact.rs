//! The facts that expressions may speak of, by name.

use std::ops::Range;

use sluice_message::FieldName;

use crate::moment::Hand;
use crate::nearest::nearest;
use crate::needs::{Need, Needs};
use crate::operand::Value;
use crate::problem::ExpressionProblem;
use crate::scope::{Phase, Scope};
use crate::subject::Word;
use crate::truth::Truth;
use crate::value::{Address, HeadPart, Number, Text};

/// A part of a name: `header` in `request.header.x`, `x-y` in `request.header['x-y']`.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) text: String,
    pub(crate) span: Range<usize>,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
enum Fact {
    Head(HeadPart),
    Word(Word),
    /// A word that is a truth.
    Truth(Word),
    Size,
    Port,
    Status,
    Time(Hand),
    Date,
    Client,
    Peer,
}

const FACTS: &[(&str, Fact)] = &[
    ("request.method", Fact::Head(HeadPart::Method)),
    ("request.path", Fact::Head(HeadPart::Path)),
    ("request.raw_path", Fact::Head(HeadPart::RawPath)),
    ("request.target", Fact::Head(HeadPart::Target)),
    ("request.raw_target", Fact::Head(HeadPart::RawTarget)),
    ("request.query", Fact::Head(HeadPart::Query)),
    ("request.search", Fact::Head(HeadPart::Search)),
    ("request.host", Fact::Head(HeadPart::Host)),
    ("request.authority", Fact::Head(HeadPart::Authority)),
    ("request.scheme", Fact::Word(Word::Scheme)),
    ("request.version", Fact::Head(HeadPart::Version)),
    ("request.size", Fact::Size),
    ("request.id", Fact::Word(Word::RequestId)),
    ("client.ip", Fact::Client),
    ("client.peer", Fact::Peer),
    ("client.port", Fact::Port),
    ("connection.listener", Fact::Word(Word::Listener)),
    ("tls.version", Fact::Word(Word::TlsVersion)),
    ("tls.cipher", Fact::Word(Word::TlsCipher)),
    ("tls.server_name", Fact::Word(Word::TlsServerName)),
    ("tls.resumed", Fact::Truth(Word::TlsResumed)),
    ("certificate.subject", Fact::Word(Word::CertificateSubject)),
    ("certificate.names", Fact::Word(Word::CertificateNames)),
    ("certificate.fingerprint", Fact::Word(Word::CertificateFingerprint)),
    ("route.id", Fact::Word(Word::Route)),
    ("route.name", Fact::Word(Word::Route)),
    ("auth.user", Fact::Word(Word::User)),
    ("canary.variant", Fact::Word(Word::Variant)),
    ("response.status", Fact::Status),
    ("time.unix", Fact::Time(Hand::Unix)),
    ("time.hour", Fact::Time(Hand::Hour)),
    ("time.minute", Fact::Time(Hand::Minute)),
    ("time.weekday", Fact::Time(Hand::Weekday)),
    ("time.date", Fact::Date),
];

/// Facts that have a name of their own behind that of their family.
#[derive(Clone, Copy, Debug)]
enum Family {
    Header,
    ResponseHeader,
    Parameter,
    Cookie,
    Capture,
    Claim,
    Note,
}

const FAMILIES: &[(&str, Family)] = &[
    ("request.header", Family::Header),
    ("request.parameter", Family::Parameter),
    ("request.cookie", Family::Cookie),
    ("response.header", Family::ResponseHeader),
    ("capture", Family::Capture),
    ("auth.claim", Family::Claim),
    ("note", Family::Note),
];

/// The names of all facts; those of families without what follows them.
pub fn names() -> impl Iterator<Item = &'static str> {
    FACTS.iter().map(|(name, _)| *name).chain(FAMILIES.iter().map(|(name, _)| *name))
}

/// What the name of these parts stands for in this scope.
pub(crate) fn resolve(
    segments: &[Segment],
    scope: &Scope,
    needs: &mut Needs,
) -> Result<Value, ExpressionProblem> {
    let name = joined(segments);
    for (family, kind) in FAMILIES {
        let own = family.split('.').count();
        let (head, rest) = segments.split_at_checked(own).unwrap_or((segments, &[]));
        if joined(head) == *family {
            return member(*kind, family, (head, rest), scope)
                .inspect(|_| note_family(*kind, needs));
        }
    }
    let Some((_, fact)) = FACTS.iter().find(|(known, _)| *known == name) else {
        return Err(unknown(&name, segments, scope));
    };
    if matches!(fact, Fact::Status) {
        response_is_known(scope, whole(segments))?;
    }
    note_fact(*fact, needs);
    Ok(value(*fact))
}

fn joined(segments: &[Segment]) -> String {
    let parts: Vec<&str> = segments.iter().map(|segment| segment.text.as_str()).collect();
    parts.join(".")
}

fn whole(segments: &[Segment]) -> Range<usize> {
    let start = segments.first().map_or(0, |first| first.span.start);
    start..segments.last().map_or(start, |last| last.span.end)
}

const fn value(fact: Fact) -> Value {
    match fact {
        Fact::Head(part) => Value::Text(Text::Head(part)),
        Fact::Word(word) => Value::Text(Text::Word(word)),
        Fact::Truth(word) => Value::Truth(Truth::Word(word)),
        Fact::Size => Value::Number(Number::Size),
        Fact::Port => Value::Number(Number::Port),
        Fact::Status => Value::Number(Number::Status),
        Fact::Time(hand) => Value::Number(Number::Time(hand)),
        Fact::Date => Value::Text(Text::Date),
        Fact::Client => Value::Address(Address::Client),
        Fact::Peer => Value::Address(Address::Peer),
    }
}

fn note_fact(fact: Fact, needs: &mut Needs) {
    let need = match fact {
        Fact::Word(word) | Fact::Truth(word) => word.need(),
        Fact::Status => Some(Need::Response),
        Fact::Time(_) | Fact::Date => Some(Need::Clock),
        _ => None,
    };
    if let Some(need) = need {
        needs.add(need);
    }
    let of_client = match fact {
        Fact::Client | Fact::Peer | Fact::Port => true,
        Fact::Word(word) | Fact::Truth(word) => word.is_of_client(),
        _ => false,
    };
    if of_client {
        needs.add(Need::Client);
    }
}

fn note_family(family: Family, needs: &mut Needs) {
    match family {
        Family::ResponseHeader => needs.add(Need::Response),
        Family::Claim => needs.add(Need::Auth),
        Family::Note => needs.add(Need::Note),
        Family::Capture => needs.add(Need::Capture),
        Family::Header | Family::Parameter | Family::Cookie => {}
    }
    if matches!(family, Family::Header | Family::Cookie | Family::Claim | Family::Note) {
        needs.add(Need::Client);
    }
}

/// A member of a family; `parts` are the family's own segments and those behind them.
fn member(
    family: Family,
    name: &str,
    parts: (&[Segment], &[Segment]),
    scope: &Scope,
) -> Result<Value, ExpressionProblem> {
    let (head, rest) = parts;
    if matches!(family, Family::ResponseHeader) {
        response_is_known(scope, whole(head))?;
    }
    let Some((first, more)) = rest.split_first() else {
        let end = whole(head).end;
        return Err(ExpressionProblem::new(format!("{name} of which name?"), end..end)
            .with_help(format!("write {name}.x or {name}['x']")));
    };
    if first.text.is_empty() {
        return Err(ExpressionProblem::new("this name is empty", first.span.clone()));
    }
    if matches!(family, Family::Claim) {
        let path = rest.iter().map(|segment| segment.text.as_str().into()).collect();
        return Ok(Value::Text(Text::Claim(path)));
    }
    if !more.is_empty() {
        return Err(ExpressionProblem::new(
            format!("{name}.{} has no parts", first.text),
            whole(more),
        )
        .with_help(format!("write a name with dots as {name}['a.b']")));
    }
    one(family, first, scope).map(Value::Text)
}

fn one(family: Family, segment: &Segment, scope: &Scope) -> Result<Text, ExpressionProblem> {
    let name = segment.text.as_str();
    Ok(match family {
        Family::Header => Text::Header(field_name(segment)?),
        Family::ResponseHeader => Text::ResponseHeader(field_name(segment)?),
        Family::Cookie => Text::Cookie(token(segment, "cookie")?.as_bytes().into()),
        Family::Capture => {
            if let Some(known) = scope.captures()
                && !known.iter().any(|known| **known == *name)
            {
                return Err(no_capture(segment, known));
            }
            Text::Capture(name.into())
        }
        Family::Note => Text::Note(name.into()),
        Family::Parameter | Family::Claim => Text::Parameter(name.as_bytes().into()),
    })
}

fn field_name(segment: &Segment) -> Result<FieldName, ExpressionProblem> {
    token(segment, "header").map(|name| FieldName::new(name.as_bytes()))
}

/// Names of fields and cookies are tokens (RFC 9110, 5.6.2): no other is ever found.
fn token<'s>(segment: &'s Segment, what: &str) -> Result<&'s str, ExpressionProblem> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if segment.text.bytes().all(is_token) {
        return Ok(&segment.text);
    }
    let message = format!("'{}' is no name of a {what}", segment.text.escape_debug());
    Err(ExpressionProblem::new(message, segment.span.clone()))
}

fn no_capture(segment: &Segment, known: &[Box<str>]) -> ExpressionProblem {
    let message = format!("the path has no part named '{}'", segment.text.escape_debug());
    let problem = ExpressionProblem::new(message, segment.span.clone());
    if known.is_empty() {
        return problem.with_help("name a segment: \"/users/{id}\", then capture.id");
    }
    let names: Vec<&str> = known.iter().take(20).map(|name| &**name).collect();
    problem.with_help(format!("there are: {}", names.join(", ")))
}

fn response_is_known(scope: &Scope, span: Range<usize>) -> Result<(), ExpressionProblem> {
    match scope.phase() {
        Phase::Response => Ok(()),
        Phase::Request => {
            Err(ExpressionProblem::new("there is no response yet where this is read", span))
        }
    }
}

fn unknown(name: &str, segments: &[Segment], scope: &Scope) -> ExpressionProblem {
    let message = format!("there is no fact '{}'", name.escape_debug());
    let problem = ExpressionProblem::new(message, whole(segments));
    // A family with a mistyped name: `request.headers.x`.
    let meant = FAMILIES.iter().map(|(family, _)| *family).find(|family| {
        let own = family.split('.').count();
        let head = segments.split_at_checked(own).filter(|(_, rest)| !rest.is_empty());
        head.is_some_and(|(head, _)| nearest(&joined(head), std::iter::once(*family)).is_some())
    });
    if let Some(family) = meant {
        return problem.with_help(format!("did you mean {family}.NAME?"));
    }
    if let Some(near) = nearest(name, names()) {
        return problem.with_help(format!("did you mean {near}?"));
    }
    // The name without the group: `host` instead of `request.host`.
    let last = |known: &&str| known.rsplit('.').next() == Some(name);
    if let Some(meant) = names().find(last).or_else(|| scope.meant(name)) {
        return problem.with_help(format!("did you mean {meant}?"));
    }
    let group = segments.first().map(|first| first.text.as_str()).unwrap_or_default();
    let inside = |name: &&str| name.split('.').next() == Some(group);
    let known: Vec<&str> = names().filter(inside).collect();
    if known.is_empty() {
        let usual: Vec<&str> = scope.usual().collect();
        return problem.with_help(match usual.is_empty() {
            true => "a text stands in quotes: 'text'".to_owned(),
            false => format!("there are: {}, and others", usual.join(", ")),
        });
    }
    problem.with_help(format!("there are: {}", known.join(", ")))
}
