//! Scripts in Loadgen's DSL: request lines and bodies, with options and assertions in `#` lines.
//!
//! A text becomes the same tree that YAML does, so that everything behind it is one.

mod assertion;
mod expression;
mod parser;

use super::problem::{Report, Span};
use super::yaml::{Entry, Node, Scalar, Style, Value};
use assertion::asserted;
use expression::plain;
use parser::{Item, Parser};

/// The tree of a text in the DSL, or nothing if it is broken; the reason is in the report.
pub(crate) fn read(report: &mut Report<'_>) -> Option<Vec<Entry>> {
    let text = report.text();
    let mut reader = Reader { requests: Vec::new(), options: Vec::new(), draft: None };
    let mut document = Vec::new();
    let result = reader.lines(text, &mut document).and_then(|()| reader.close(&mut document));
    if let Err((span, message)) = result {
        report.error(span, message);
        return None;
    }
    let span = Span::new(0, 0);
    document.push(entry("requests", span, Value::List(reader.requests)));
    Some(document)
}

/// What is wrong, and where.
type Stop = (Span, String);

/// A request whose options may still follow.
struct Draft {
    /// Its first line.
    span: Span,
    method: (String, Span),
    url: (String, Span),
    body: Option<(String, Span)>,
    state: State,
}

/// Whether the body of a request still goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Body,
    Done,
}

struct Reader<'t> {
    requests: Vec<Node>,
    /// Lines of options that belong together, with their places; without the `#`.
    options: Vec<(usize, &'t str)>,
    draft: Option<Draft>,
}

impl<'t> Reader<'t> {
    fn lines(&mut self, text: &'t str, document: &mut Vec<Entry>) -> Result<(), Stop> {
        let mut at = 0_usize;
        for line in text.split_inclusive('\n') {
            let start = at;
            at = at.saturating_add(line.len());
            let line = line.trim_end_matches(['\n', '\r']);
            if let Some(options) = line.trim_start().strip_prefix('#') {
                self.end_body();
                let skipped = line.len().saturating_sub(options.len());
                self.options.push((start.saturating_add(skipped), options));
            } else if line.trim().is_empty() {
                self.end_body();
            } else if let Some(draft) = self.draft.as_mut().filter(|it| it.state == State::Body) {
                let span = Span::new(start, start.saturating_add(line.len()));
                let body = draft.body.get_or_insert_with(|| (String::new(), span));
                body.0.push_str(line);
                body.0.push('\n');
                body.1 = Span::new(body.1.start, span.end);
            } else {
                self.close(document)?;
                self.draft = Some(request_line(start, line)?);
            }
        }
        Ok(())
    }

    fn end_body(&mut self) {
        if let Some(draft) = &mut self.draft {
            draft.state = State::Done;
        }
    }

    /// Ends what was read so far: a request with its options, or the options of the whole script.
    fn close(&mut self, document: &mut Vec<Entry>) -> Result<(), Stop> {
        let lines = std::mem::take(&mut self.options);
        let items = Parser::new(&lines).items()?;
        match self.draft.take() {
            Some(draft) => self.requests.push(draft.finish(items)?),
            None => {
                for item in items {
                    match item {
                        Item::Pair(key, span, value) => {
                            let node = plain(value)?;
                            document.push(Entry { key, span, node });
                        }
                        Item::Status(node) | Item::Body(node) => {
                            let what = "an assertion stands below the request it is for";
                            return Err((node.span(), what.to_owned()));
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// `METHOD URL`.
fn request_line(start: usize, line: &str) -> Result<Draft, Stop> {
    let indent = line.len().saturating_sub(line.trim_start().len());
    let trimmed = line.trim();
    let span = Span::new(start.saturating_add(indent), start.saturating_add(line.len()));
    let Some((method, rest)) = trimmed.split_once([' ', '\t']) else {
        let what = "a request begins with a method and a URL, like `GET /path`";
        return Err((span, what.to_owned()));
    };
    let url = rest.trim();
    let place = span.start.saturating_add(trimmed.len()).saturating_sub(url.len());
    Ok(Draft {
        span,
        method: (method.to_owned(), Span::new(span.start, span.start.saturating_add(method.len()))),
        url: (url.to_owned(), Span::new(place, place.saturating_add(url.len()))),
        body: None,
        state: State::Body,
    })
}

impl Draft {
    fn finish(self, items: Vec<Item>) -> Result<Node, Stop> {
        let mut request =
            vec![text("method", self.method.1, self.method.0), text("url", self.url.1, self.url.0)];
        request.extend(self.body.map(|(body, span)| text("body", span, body)));
        let (mut entries, mut brief) = (Vec::new(), Vec::new());
        for item in items {
            match item {
                Item::Pair(key, span, value) => match key.as_str() {
                    "request" => add(&mut request, plain(value)?)?,
                    "assert" => {
                        let node = asserted(value)?;
                        entries.extend(node.map(|node| Entry { key, span, node }));
                    }
                    _ => entries.push(Entry { key, span, node: plain(value)? }),
                },
                Item::Status(value) => {
                    brief.extend(assertion::status(value)?);
                }
                Item::Body(value) => brief.extend(assertion::body(value)?),
            }
        }
        if let Some(node) = assertion::all(brief) {
            entries.push(Entry { key: "assert".to_owned(), span: node.span, node });
        }
        entries.insert(0, entry("request", self.span, Value::Table(request)));
        Ok(Node { span: self.span, value: Value::Table(entries) })
    }
}

/// Adds the fields of a table; a method, URL or body that is written there counts.
fn add(request: &mut Vec<Entry>, node: Node) -> Result<(), Stop> {
    let Value::Table(fields) = node.value else {
        return Err((node.span, "`request` is a table".to_owned()));
    };
    request.retain(|known| fields.iter().all(|field| field.key != known.key));
    request.extend(fields);
    Ok(())
}

fn entry(key: &str, span: Span, value: Value) -> Entry {
    Entry { key: key.to_owned(), span, node: Node { span, value } }
}

fn text(key: &str, span: Span, text: String) -> Entry {
    entry(key, span, Value::Scalar(Scalar { text, style: Style::Quoted }))
}

#[cfg(test)]
mod tests;
