//! Lowers YAML into the document tree, with bounds on what aliases may unfold to.

use std::collections::{HashMap, HashSet};

use granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, Span as YamlSpan, Tag};

use crate::place::Span;
use crate::problem::Flaw;
use crate::report::Report;
use crate::tree::{DEPTH, Entry, Node, Value};

/// How many values aliases may add in one document: a few lines of nested aliases would otherwise
/// unfold to gigabytes.
const ALIASED: usize = 100_000;

/// The tree of a YAML text, or nothing if its syntax is broken; every flaw is in the report.
pub(crate) fn read(text: &str, report: &Report<'_>) -> Option<Node> {
    let mut options = Options::default();
    options.set_emit_comments(false);
    let parser = Parser::new_from_str_with_options(text, options);
    let mut builder = Builder { report, text, parser, anchors: HashMap::new(), aliased: 0 };
    match builder.document() {
        Ok(node) => Some(node),
        Err(Stop::Syntax(error)) => {
            let at = error.marker().byte_offset().unwrap_or(text.len());
            let flaw = Flaw::new(error.info().trim());
            let line = report.lines().line(report.lines().place(Span::new(at, at)).line);
            report.error(
                Span::new(at, at),
                match line.contains("${") {
                    true => flaw.with_help("inside { } and [ ] write a ${NAME} in quotes"),
                    false => flaw,
                },
            );
            None
        }
        Err(Stop::Refused(span, flaw)) => {
            report.error(span, flaw);
            None
        }
    }
}

/// How large a node is, so that an alias to it can be weighed before it is copied.
#[derive(Clone, Copy)]
struct Extent {
    /// Values in it, itself included.
    count: usize,
    /// Levels below it.
    height: usize,
}

impl Extent {
    const LEAF: Self = Self { count: 1, height: 0 };

    fn add(&mut self, child: Self) {
        self.count = self.count.saturating_add(child.count);
        self.height = self.height.max(child.height.saturating_add(1));
    }
}

/// Why reading ended before the document did.
enum Stop {
    Syntax(Box<ScanError>),
    Refused(Span, Flaw),
}

struct Builder<'a, 'r> {
    report: &'r Report<'a>,
    text: &'a str,
    parser: Parser<'a, granit_parser::StrInput<'a>>,
    anchors: HashMap<usize, (Node, Extent)>,
    aliased: usize,
}

impl<'a> Builder<'a, '_> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Stop> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, self.span(&span))),
            Some(Err(error)) => Err(Stop::Syntax(Box::new(error))),
            None => Ok((Event::StreamEnd, Span::new(self.text.len(), self.text.len()))),
        }
    }

    fn span(&self, span: &YamlSpan) -> Span {
        let start = span.start.byte_offset().unwrap_or_default();
        let end = span.end.byte_offset().unwrap_or(start);
        // A block collection ends where the next token starts; trailing blanks are not part of it.
        let covered = self.text.get(start..end).unwrap_or_default().trim_end();
        Span::new(start, start.saturating_add(covered.len()))
    }

    fn document(&mut self) -> Result<Node, Stop> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => break,
                Event::DocumentStart(..) if root.is_some() => {
                    let flaw = Flaw::new("a second document in the same text")
                        .with_help("a configuration is one document: remove the `---`");
                    return Err(Stop::Refused(span, flaw));
                }
                Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
                event => root = Some(self.node(event, span, 0)?.0),
            }
        }
        Ok(match root {
            None | Some(Node { value: Value::Null, .. }) => {
                Node::new(Span::default(), Value::Table(Vec::new()))
            }
            Some(node) => node,
        })
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<(Node, Extent), Stop> {
        if depth > DEPTH {
            return Err(Stop::Refused(span, Flaw::new("nested too deeply")));
        }
        let (node, extent, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = self.scalar(&text, style, tag.as_deref(), span);
                (Node::new(span, value), Extent::LEAF, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), "seq", span);
                let (node, extent) = self.sequence(span, depth)?;
                (node, extent, anchor)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), "map", span);
                let (node, extent) = self.mapping(span, depth)?;
                (node, extent, anchor)
            }
            Event::Alias(anchor) => return self.alias(anchor, span, depth),
            _ => return Err(Stop::Refused(span, Flaw::new("a value was expected here"))),
        };
        if anchor > 0 {
            self.anchors.insert(anchor, (node.clone(), extent));
        }
        Ok((node, extent))
    }

    fn sequence(&mut self, start: Span, depth: usize) -> Result<(Node, Extent), Stop> {
        let (mut list, mut total) = (Vec::new(), Extent::LEAF);
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                let whole = Span::new(start.start, span.end);
                return Ok((Node::new(whole, Value::List(list)), total));
            }
            let (node, extent) = self.node(event, span, depth.saturating_add(1))?;
            total.add(extent);
            list.push(node);
        }
    }

    fn mapping(&mut self, start: Span, depth: usize) -> Result<(Node, Extent), Stop> {
        let (mut entries, mut total) = (Vec::new(), Extent::LEAF);
        let mut seen = HashSet::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                let whole = Span::new(start.start, span.end);
                return Ok((Node::new(whole, Value::Table(entries)), total));
            }
            let (key, _) = self.node(event, span, depth.saturating_add(1))?;
            let (event, value_span) = self.next()?;
            let (node, extent) = self.node(event, value_span, depth.saturating_add(1))?;
            total.add(extent);
            let Some(name) = self.key(&key, span) else { continue };
            if !seen.insert(name.clone()) {
                self.report.error(span, Flaw::new(format!("`{name}` is written twice")));
                continue;
            }
            entries.push(Entry { key: name, span, node });
        }
    }

    /// The name a key is, as typed for plain numbers and flags: `404:` is the name "404".
    fn key(&self, key: &Node, span: Span) -> Option<String> {
        match &key.value {
            Value::Text(text) if text.value == "<<" => {
                let flaw = Flaw::new("merge keys are not part of YAML 1.2")
                    .with_help("write the keys out, or use an alias for the whole value");
                self.report.error(span, flaw);
                None
            }
            Value::Text(text) => Some(text.value.clone()),
            Value::Bool(_) | Value::Integer(_) | Value::Float(_) => {
                Some(self.report.lines().slice(span).to_owned())
            }
            _ => {
                self.report.error(span, Flaw::new(format!("a key is a text, not {}", key.kind())));
                None
            }
        }
    }

    fn alias(&mut self, anchor: usize, span: Span, depth: usize) -> Result<(Node, Extent), Stop> {
        // An anchor is known once its node is complete, so a value can never hold itself.
        let Some((node, extent)) = self.anchors.get(&anchor) else {
            return Err(Stop::Refused(span, Flaw::new("this alias would hold itself")));
        };
        self.aliased = self.aliased.saturating_add(extent.count);
        if self.aliased > ALIASED {
            let flaw = Flaw::new(format!("the aliases unfold to more than {ALIASED} values"));
            return Err(Stop::Refused(span, flaw));
        }
        if depth.saturating_add(extent.height) > DEPTH {
            return Err(Stop::Refused(span, Flaw::new("nested too deeply")));
        }
        Ok((node.clone(), *extent))
    }

    fn refuse_tag(&self, tag: Option<&Tag>, allowed: &str, span: Span) {
        let Some(tag) = tag else { return };
        if tag.core_suffix() != Some(allowed) {
            let flaw = Flaw::new(format!("the tag `{}` has no meaning here", tag.original()));
            self.report.error(span, flaw);
        }
    }

    fn scalar(&self, text: &str, style: ScalarStyle, tag: Option<&Tag>, span: Span) -> Value {
        let words = || Node::text(span, text).value;
        if style != ScalarStyle::Plain {
            self.refuse_tag(tag, "str", span);
            return words();
        }
        match tag {
            Some(tag) if tag.core_suffix() == Some("str") => words(),
            Some(_) => {
                self.refuse_tag(tag, "str", span);
                words()
            }
            None => self.plain(text, span),
        }
    }

    /// The YAML 1.2 core schema (section 10.3.2): what an unquoted scalar means.
    fn plain(&self, text: &str, span: Span) -> Value {
        match text {
            "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
            "true" | "True" | "TRUE" => return Value::Bool(true),
            "false" | "False" | "FALSE" => return Value::Bool(false),
            _ => {}
        }
        let (digits, radix) = match text.split_at_checked(2) {
            Some(("0x", rest)) => (rest, 16),
            Some(("0o", rest)) => (rest, 8),
            _ => (text, 10),
        };
        let body = digits.strip_prefix(['+', '-']).filter(|_| radix == 10).unwrap_or(digits);
        if !body.is_empty() && body.chars().all(|c| c.is_digit(radix)) {
            return i64::from_str_radix(digits, radix).map_or_else(
                |_| {
                    self.report.error(span, Flaw::new("this number is too large"));
                    Value::Faulty
                },
                Value::Integer,
            );
        }
        let fraction = body.bytes().any(|byte| byte.is_ascii_digit())
            && body
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
        match text.parse::<f64>() {
            Ok(number) if fraction => Value::Float(number),
            _ => Node::text(span, text).value,
        }
    }
}
