//! Where something stands in the text: byte spans, and their line and column for people.

/// A range of bytes in the text; `start == end` points between two characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self { start, end: end.max(start) }
    }
}

/// A place as people count: lines and columns from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
    /// How many characters of the line the span covers, at least 1.
    pub(crate) width: usize,
}

/// The lines of a text, found once, so that every problem finds its own quickly.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(ends.map(|(at, _)| at.saturating_add(1))).collect();
        Self { text, starts }
    }

    /// The text of the span as it was typed; empty where the span is not inside the text.
    pub(crate) fn slice(&self, span: Span) -> &'a str {
        self.text.get(span.start..span.end).unwrap_or_default()
    }

    /// Line, column and width of a span. A span beyond the text is at its end.
    pub(crate) fn place(&self, span: Span) -> Place {
        let start = self.boundary(span.start);
        let line = self.starts.partition_point(|at| *at <= start).max(1);
        let begin = self.starts.get(line.saturating_sub(1)).copied().unwrap_or_default();
        let before = self.text.get(begin..start).unwrap_or_default();
        let end = self.boundary(span.end).max(start);
        let covered = self.text.get(start..end).unwrap_or_default();
        let width = covered.chars().take_while(|c| *c != '\n' && *c != '\r').count();
        Place { line, column: before.chars().count().saturating_add(1), width: width.max(1) }
    }

    /// The text of a line, counted from 1, without its line ending.
    pub(crate) fn line(&self, line: usize) -> &'a str {
        let Some(begin) = self.starts.get(line.saturating_sub(1)) else {
            return "";
        };
        let end = self.starts.get(line).copied().unwrap_or(self.text.len());
        self.text.get(*begin..end).unwrap_or_default().trim_end_matches(['\n', '\r'])
    }

    /// The nearest character boundary at or before the offset.
    fn boundary(&self, offset: usize) -> usize {
        let mut at = offset.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at = at.saturating_sub(1);
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_become_places() {
        let lines = Lines::new("ab\r\ncäd\n\nx");
        let rows = [
            ((0, 2), (1, 1, 2)),
            ((1, 9), (1, 2, 1)),
            ((4, 5), (2, 1, 1)),
            ((7, 8), (2, 3, 1)),
            ((5, 7), (2, 2, 1)),
            ((6, 7), (2, 2, 1)),
            ((9, 9), (3, 1, 1)),
            ((10, 11), (4, 1, 1)),
            ((11, 11), (4, 2, 1)),
            ((99, 120), (4, 2, 1)),
        ];
        for ((start, end), (line, column, width)) in rows {
            let place = lines.place(Span::new(start, end));
            assert_eq!(place, Place { line, column, width }, "{start}..{end}");
        }
        assert_eq!(lines.line(1), "ab");
        assert_eq!(lines.line(2), "cäd");
        assert_eq!(lines.line(9), "");
    }
}
