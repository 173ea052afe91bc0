//! Reports as Markdown; charts are files beside it.

use super::document::{Block, Cell, Document, Table};

/// The whole report as Markdown. Charts are referred to as `charts/<name>.svg`.
pub(crate) fn markdown(document: &Document) -> String {
    let mut out = format!("# {}\n\n{}\n", plain(&document.title), plain(&document.subtitle));
    for block in &document.blocks {
        out.push('\n');
        match block {
            Block::Heading(level, text) => {
                let marks = "#".repeat(usize::from(*level));
                out.push_str(&format!("{marks} {}\n", plain(text)));
            }
            Block::Text(text) => out.push_str(&format!("{}\n", plain(text))),
            Block::Headline(text) => out.push_str(&format!("**{}**\n", plain(text))),
            Block::List(items) => {
                out.extend(items.iter().map(|item| format!("- {}\n", plain(item))));
            }
            Block::Table(table) => out.push_str(&rows(table)),
            Block::Charts(charts) => out.extend(charts.iter().map(|chart| {
                format!("![{}](charts/{}.svg)\n\n", plain(&chart.caption), chart.name)
            })),
            Block::Folded(title, text) => out.push_str(&folded(title, text)),
        }
    }
    while out.ends_with("\n\n") {
        out.pop();
    }
    out
}

/// A table as Markdown.
pub(super) fn rows(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = line(table.columns.iter().map(|column| cell(column)).collect());
    let mut rule = String::from("|---|");
    rule.push_str(&"---:|".repeat(table.columns.len().saturating_sub(1)));
    out.push_str(&rule);
    out.push('\n');
    for row in &table.rows {
        out.push_str(&line(row.iter().map(|Cell { text, .. }| cell(text)).collect()));
    }
    out
}

/// A fence longer than any in the text, so that no text can end it.
fn folded(title: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.saturating_add(1).max(3));
    format!("{}:\n\n{fence}\n{}\n{fence}\n", plain(title), text.trim_end())
}

/// One line in which nothing is markup that was not meant to be.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' => out.push(' '),
            '\\' | '`' | '*' | '_' | '<' | '>' | '[' | ']' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

fn cell(text: &str) -> String {
    plain(text).replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_taken_for_markup() {
        let mut document = Document { title: "a_b *c*".to_owned(), ..Document::default() };
        let mut table = Table::new(["name", "value"]);
        table.rows.push(vec![Cell::new("x|y\nz"), Cell::new("<b>")]);
        document.push(Block::Table(table));
        document.push(Block::Folded("config".to_owned(), "a\n```\nb".to_owned()));
        let text = markdown(&document);
        assert!(text.starts_with("# a\\_b \\*c\\*\n"), "{text}");
        assert!(text.contains("| name | value |\n|---|---:|\n| x\\|y z | \\<b\\> |\n"), "{text}");
        assert!(text.contains("````\na\n```\nb\n````\n"), "{text}");
    }
}
