//! What is in a folder, for people and for programs.

use std::cmp::Ordering;
use std::fmt::Write;

use sluice_filter::Reply;
use sluice_message::{RequestHead, SpaceExhausted};
use sluice_meter::http_date;
use sluice_net::disk::{Denied, Folder, Kind, Listed, More};

use crate::way::encode;
use crate::{Names, Settings};

/// More names are not listed.
const MOST: usize = 10_000;

/// How a list is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    form: Form,
    by: By,
    way: Direction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Html,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Name,
    Size,
    Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

impl Order {
    /// What a request asks for by its query, and by the types it takes.
    pub(crate) fn of(request: &RequestHead) -> Self {
        let parameter = |name: &[u8]| {
            let mut pairs = request.query().split(|byte| *byte == b'&');
            pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix(b"="))
        };
        let accepted = request.fields.values_of(b"accept").next().unwrap_or_default();
        let json = match parameter(b"format") {
            Some(format) => format == b"json",
            // Browsers name HTML; who names JSON first is a program.
            None => accepted.trim_ascii_start().starts_with(b"application/json"),
        };
        Self {
            form: if json { Form::Json } else { Form::Html },
            by: match parameter(b"sort") {
                Some(b"size") => By::Size,
                Some(b"time") => By::Time,
                _ => By::Name,
            },
            way: if parameter(b"order") == Some(b"desc") { Direction::Down } else { Direction::Up },
        }
    }
}

/// The answer with a list, written away from the workers. `shown` is the path as the client knows it.
pub(crate) fn list(
    path: &[u8],
    shown: &[u8],
    order: Order,
    settings: &Settings,
) -> Result<Reply, Denied> {
    let folder = Folder::open(&settings.root).map_err(Denied::Failed)?;
    let (mut entries, more) = folder.list(path, MOST)?;
    entries.retain(|it| settings.hidden == Names::All || !it.name.starts_with(b"."));
    entries.sort_by(|one, other| compare(one, other, order));
    let text = match order.form {
        Form::Json => json(&entries),
        Form::Html => html(&entries, (shown, path.is_empty()), order, more),
    };
    reply(order.form, text).map_err(|_| Denied::Busy)
}

fn reply(form: Form, text: String) -> Result<Reply, SpaceExhausted> {
    let media: &[u8] = match form {
        Form::Html => b"text/html; charset=utf-8",
        Form::Json => b"application/json",
    };
    let mut reply = Reply::new(200).with_field(b"content-type", media)?;
    reply.fields.push(b"vary", b"accept")?;
    reply.fields.push(b"x-content-type-options", b"nosniff")?;
    if form == Form::Html {
        // Names of files are text; should one ever be taken for more, it can do nothing.
        let policy = b"default-src 'none'; style-src 'unsafe-inline'";
        reply.fields.push(b"content-security-policy", policy)?;
    }
    reply.body = text.into_bytes().into();
    Ok(reply)
}

/// Folders come first, whatever the order.
fn compare(one: &Listed, other: &Listed, order: Order) -> Ordering {
    let folders = |it: &Listed| it.looks.kind != Kind::Directory;
    let by = match order.by {
        By::Name => Ordering::Equal,
        By::Size => one.looks.size.cmp(&other.looks.size),
        By::Time => one.looks.modified.cmp(&other.looks.modified),
    };
    let by = by.then_with(|| one.name.cmp(&other.name));
    let by = if order.way == Direction::Down { by.reverse() } else { by };
    folders(one).cmp(&folders(other)).then(by)
}

fn json(entries: &[Listed]) -> String {
    let list = entries.iter().map(|it| {
        let folder = it.looks.kind == Kind::Directory;
        let mut entry = serde_json::Map::new();
        entry.insert("name".into(), String::from_utf8_lossy(&it.name).into());
        entry.insert("type".into(), if folder { "directory" } else { "file" }.into());
        if !folder {
            entry.insert("size".into(), it.looks.size.into());
        }
        entry.insert("modified".into(), it.looks.modified.as_secs().into());
        serde_json::Value::Object(entry)
    });
    format!("{}\n", serde_json::Value::Array(list.collect()))
}

const STYLE: &str = ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;\
    margin:0 auto;max-width:60rem;padding:1rem}h1{font-size:1.25rem;overflow-wrap:anywhere}\
    table{border-collapse:collapse;width:100%}th{text-align:left}th,td{padding:.5rem .25rem;\
    border-bottom:1px solid #8884}td:first-child{overflow-wrap:anywhere}td+td,th+th{text-align:right;\
    white-space:nowrap}a{color:inherit}@media(max-width:40rem){td:last-child,th:last-child{\
    display:none}}";

fn html(entries: &[Listed], (shown, top): (&[u8], bool), order: Order, more: More) -> String {
    let title = escape(&String::from_utf8_lossy(shown));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head>\n<body><h1>{title}</h1>\n\
         <table><thead><tr>"
    );
    for (by, key, label) in
        [(By::Name, "name", "Name"), (By::Size, "size", "Size"), (By::Time, "time", "Changed")]
    {
        let turned = by == order.by && order.way == Direction::Up;
        let way = if turned { "desc" } else { "asc" };
        let mark = match (by == order.by, order.way) {
            (false, _) => "",
            (true, Direction::Up) => " \u{2191}",
            (true, Direction::Down) => " \u{2193}",
        };
        // Writing to a text never fails.
        let _ = write!(page, "<th><a href=\"?sort={key}&amp;order={way}\">{label}{mark}</a></th>");
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    if !top {
        page.push_str("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    }
    for entry in entries {
        row(&mut page, entry);
    }
    page.push_str("</tbody></table>\n");
    if more == More::Yes {
        let _ = writeln!(page, "<p>Only {MOST} names are shown; there are more.</p>");
    }
    page.push_str("</body></html>\n");
    page
}

fn row(page: &mut String, entry: &Listed) {
    let folder = entry.looks.kind == Kind::Directory;
    let slash = if folder { "/" } else { "" };
    let mut link = Vec::new();
    encode(&entry.name, &mut link);
    let link = String::from_utf8_lossy(&link);
    let name = escape(&String::from_utf8_lossy(&entry.name));
    let size = if folder { String::new() } else { human(entry.looks.size) };
    let mut date = [0; 29];
    http_date(entry.looks.modified.as_secs(), &mut date);
    let date = String::from_utf8_lossy(&date);
    // A name with a colon would be taken for a scheme (RFC 3986, 4.2).
    let _ = writeln!(
        page,
        "<tr><td><a href=\"./{link}{slash}\">{name}{slash}</a></td><td>{size}</td><td>{date}</td></tr>"
    );
}

/// A number of bytes for people.
fn human(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut value, mut unit) = (bytes.saturating_mul(10), 0);
    while value >= 10_240 && unit + 1 < units.len() {
        value /= 1024;
        unit += 1;
    }
    let name = units.get(unit).copied().unwrap_or_default();
    match (unit, value % 10) {
        (0, _) | (_, 0) => format!("{} {name}", value / 10),
        (_, tenth) => format!("{}.{tenth} {name}", value / 10),
    }
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_for_people() {
        let rows = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (1 << 20, "1 MiB"),
            (5 << 30, "5 GiB"),
        ];
        for (bytes, expected) in rows {
            assert_eq!(human(bytes), expected);
        }
    }

    #[test]
    fn names_are_text_and_nothing_more() {
        assert_eq!(escape("<a href='x'>&\""), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;");
    }
}
