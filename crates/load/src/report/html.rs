//! Reports as one HTML page: style and charts inside, nothing loaded from anywhere, no script.

use super::document::{Block, Cell, Chart, Document, Table, Tone};

const STYLE: &str = include_str!("page.css");

/// The whole report as a page, which is also well-formed XML.
pub(crate) fn html(document: &Document) -> String {
    let title = escaped(&document.title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n\
         <p class=\"subtitle\">{}</p>\n",
        escaped(&document.subtitle)
    );
    for block in &document.blocks {
        out.push_str(&part(block));
    }
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

fn part(block: &Block) -> String {
    match block {
        Block::Heading(level, text) => format!("<h{level}>{}</h{level}>\n", escaped(text)),
        Block::Text(text) => format!("<p>{}</p>\n", escaped(text)),
        Block::Headline(text) => format!("<p class=\"headline\">{}</p>\n", escaped(text)),
        Block::List(items) if items.is_empty() => String::new(),
        Block::List(items) => {
            let items: String =
                items.iter().map(|item| format!("<li>{}</li>\n", escaped(item))).collect();
            format!("<ul>\n{items}</ul>\n")
        }
        Block::Table(table) => rows(table),
        Block::Charts(charts) => {
            let figures: String = charts.iter().map(figure).collect();
            format!("<div class=\"charts\">\n{figures}</div>\n")
        }
        Block::Folded(title, text) => format!(
            "<details><summary>{}</summary><pre>{}</pre></details>\n",
            escaped(title),
            escaped(text)
        ),
    }
}

fn figure(chart: &Chart) -> String {
    let (caption, svg) = (escaped(&chart.caption), &chart.svg);
    format!("<figure>\n<figcaption>{caption}</figcaption>\n{svg}</figure>\n")
}

/// A table in a box that scrolls by itself, so that the page never does sideways. Whoever reads with
/// a keyboard can scroll it, too.
fn rows(table: &Table) -> String {
    let facts = table.columns.iter().all(String::is_empty);
    let class = if facts { "facts" } else { "figures" };
    let mut out = format!("<div class=\"scroll\" tabindex=\"0\"><table class=\"{class}\">\n");
    if !facts {
        let heads: String = table
            .columns
            .iter()
            .map(|column| format!("<th scope=\"col\">{}</th>", escaped(column)))
            .collect();
        out.push_str(&format!("<thead><tr>{heads}</tr></thead>\n"));
    }
    out.push_str("<tbody>\n");
    for row in &table.rows {
        let cells: String = row.iter().enumerate().map(|(index, cell)| one(index, cell)).collect();
        out.push_str(&format!("<tr>{cells}</tr>\n"));
    }
    out.push_str("</tbody></table></div>\n");
    out
}

fn one(index: usize, cell: &Cell) -> String {
    let text = escaped(&cell.text);
    match (index, cell.tone) {
        (0, _) => format!("<th scope=\"row\">{text}</th>"),
        (_, Tone::Plain) => format!("<td>{text}</td>"),
        (_, Tone::Good) => format!("<td class=\"good\">{text}</td>"),
        (_, Tone::Bad) => format!("<td class=\"bad\">{text}</td>"),
    }
}

/// Text in which nothing is markup. XML allows no control characters, so they are replaced.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
