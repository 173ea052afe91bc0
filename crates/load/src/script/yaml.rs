//! Reads YAML into a small tree with a place on every value, with bounds on what aliases unfold to.

use std::collections::HashMap;

use granit_parser::{Event, Options, Parser, ScalarStyle, Span as YamlSpan, StrInput};

use super::problem::{Report, Span};

/// How many values aliases may add: a few lines of nested aliases would otherwise unfold to gigabytes.
const ALIASED: usize = 100_000;
/// Deeper nesting than this is refused: nothing in the language needs it, and readers recurse.
const DEPTH: usize = 32;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) value: Value,
}

/// What may be written as a value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// A text, a number, a flag or nothing; which one is up to the reader.
    Scalar(Scalar),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// A scalar as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    pub(crate) style: Style,
}

/// Whether a scalar was typed with quotes or as a block: then it is a text and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Quoted,
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) span: Span,
    pub(crate) node: Node,
}

impl Node {
    /// The kind of value in words, with its article.
    pub(crate) const fn kind(&self) -> &'static str {
        match self.value {
            Value::Scalar(_) => "a single value",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }

    /// Whether nothing was written: `key:` or `key: null`.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar(scalar) if scalar.style == Style::Plain
            && matches!(scalar.text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }
}

/// The table a text is, or nothing if it is broken or no table; the reason is in the report.
pub(crate) fn read(report: &mut Report<'_>) -> Option<Vec<Entry>> {
    let text = report.text();
    let mut options = Options::default();
    options.set_emit_comments(false);
    let parser = Parser::new_from_str_with_options(text, options);
    let mut builder = Builder { text, parser, anchors: HashMap::new(), aliased: 0 };
    match builder.document() {
        Ok(entries) => Some(entries),
        Err((span, message)) => {
            report.error(span, message);
            None
        }
    }
}

/// Why reading ended before the document did, and where.
type Stop = (Span, String);

struct Builder<'a> {
    text: &'a str,
    parser: Parser<'a, StrInput<'a>>,
    /// Complete anchored nodes with the number of values in them and the levels below them.
    anchors: HashMap<usize, (Node, usize, usize)>,
    aliased: usize,
}

impl<'a> Builder<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Stop> {
        let end = Span::new(self.text.len(), self.text.len());
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, self.span(&span))),
            Some(Err(error)) => {
                let at = error.marker().byte_offset().unwrap_or(self.text.len());
                Err((Span::new(at, at), error.info().trim().to_owned()))
            }
            None => Ok((Event::StreamEnd, end)),
        }
    }

    fn span(&self, span: &YamlSpan) -> Span {
        let start = span.start.byte_offset().unwrap_or_default();
        let end = span.end.byte_offset().unwrap_or(start);
        // A block collection ends where the next token starts; trailing blanks are not part of it.
        let covered = self.text.get(start..end).unwrap_or_default().trim_end();
        Span::new(start, start.saturating_add(covered.len()))
    }

    fn document(&mut self) -> Result<Vec<Entry>, Stop> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => break,
                Event::DocumentStart(..) if root.is_some() => {
                    return Err((span, "a second document in the same text".to_owned()));
                }
                Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
                event => root = Some(self.node(event, span, 0)?.0),
            }
        }
        match root {
            Some(Node { value: Value::Table(entries), .. }) => Ok(entries),
            Some(node) if !node.is_null() => {
                Err((node.span, format!("a script has keys and values, this is {}", node.kind())))
            }
            _ => Ok(Vec::new()),
        }
    }

    /// A node, the number of values in it, and the levels below it.
    fn node(
        &mut self,
        event: Event<'a>,
        span: Span,
        depth: usize,
    ) -> Result<(Node, usize, usize), Stop> {
        if depth > DEPTH {
            return Err((span, "nested too deeply".to_owned()));
        }
        let (node, count, height, anchor) = match event {
            Event::Scalar(text, style, anchor, _) => {
                let style = match style {
                    ScalarStyle::Plain => Style::Plain,
                    _ => Style::Quoted,
                };
                let value = Value::Scalar(Scalar { text: text.into_owned(), style });
                (Node { span, value }, 1, 0, anchor)
            }
            Event::SequenceStart(_, anchor, _) => {
                let (node, count, height) = self.sequence(span, depth)?;
                (node, count, height, anchor)
            }
            Event::MappingStart(_, anchor, _) => {
                let (node, count, height) = self.mapping(span, depth)?;
                (node, count, height, anchor)
            }
            Event::Alias(anchor) => return self.alias(anchor, span, depth),
            _ => return Err((span, "a value was expected here".to_owned())),
        };
        if anchor > 0 {
            self.anchors.insert(anchor, (node.clone(), count, height));
        }
        Ok((node, count, height))
    }

    fn sequence(&mut self, start: Span, depth: usize) -> Result<(Node, usize, usize), Stop> {
        let (mut list, mut count, mut height) = (Vec::new(), 1_usize, 0_usize);
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                let span = Span::new(start.start, span.end);
                return Ok((Node { span, value: Value::List(list) }, count, height));
            }
            let (node, values, levels) = self.node(event, span, depth.saturating_add(1))?;
            count = count.saturating_add(values);
            height = height.max(levels.saturating_add(1));
            list.push(node);
        }
    }

    fn mapping(&mut self, start: Span, depth: usize) -> Result<(Node, usize, usize), Stop> {
        let (mut entries, mut count, mut height) = (Vec::<Entry>::new(), 1_usize, 0_usize);
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                let span = Span::new(start.start, span.end);
                return Ok((Node { span, value: Value::Table(entries) }, count, height));
            }
            let (key, ..) = self.node(event, span, depth.saturating_add(1))?;
            let Value::Scalar(Scalar { text: key, .. }) = key.value else {
                return Err((span, format!("a key is a text, not {}", key.kind())));
            };
            if entries.iter().any(|entry| entry.key == key) {
                return Err((span, format!("`{key}` is written twice")));
            }
            let (event, value) = self.next()?;
            let (node, values, levels) = self.node(event, value, depth.saturating_add(1))?;
            count = count.saturating_add(values);
            height = height.max(levels.saturating_add(1));
            entries.push(Entry { key, span, node });
        }
    }

    fn alias(
        &mut self,
        anchor: usize,
        span: Span,
        depth: usize,
    ) -> Result<(Node, usize, usize), Stop> {
        // An anchor is known once its node is complete, so a value can never hold itself.
        let Some((node, count, height)) = self.anchors.get(&anchor) else {
            return Err((span, "this alias would hold itself".to_owned()));
        };
        self.aliased = self.aliased.saturating_add(*count);
        if self.aliased > ALIASED {
            return Err((span, format!("the aliases unfold to more than {ALIASED} values")));
        }
        if depth.saturating_add(*height) > DEPTH {
            return Err((span, "nested too deeply".to_owned()));
        }
        Ok((node.clone(), *count, *height))
    }
}
