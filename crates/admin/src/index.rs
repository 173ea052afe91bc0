//! The first page: what there is.

use sluice_control::Status;
use sluice_engine::ReportAnswer;

pub(crate) fn index(status: &Status) -> ReportAnswer {
    let mut rows = String::new();
    for (path, meaning, _) in crate::PAGES {
        rows.push_str(&format!("<li><a href=\"{path}\">{path}</a> {meaning}</li>\n"));
    }
    for (path, meaning, _) in crate::SWITCHES {
        rows.push_str(&format!("<li>POST {path} {meaning}</li>\n"));
    }
    let (path, meaning) = crate::PURGE;
    rows.push_str(&format!("<li>POST {path} {meaning}</li>\n"));
    let shown = status.shown();
    for listener in shown.iter().flat_map(|shown| &shown.listeners) {
        let (name, url) = (escape(&listener.name), escape(&listener.url));
        rows.push_str(&format!("<li>listener {name}: {url}</li>\n"));
    }
    let version = sluice_control::VERSION;
    let body = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Sluice</title>\n\
         <style>body{{font:16px/1.6 system-ui,sans-serif;margin:3em auto;max-width:40em}}</style>\n\
         <h1>Sluice {version}</h1>\n<ul>\n{rows}</ul>\n</html>\n"
    );
    ReportAnswer { status: 200, content_type: "text/html; charset=utf-8", body: body.into_bytes() }
}

/// Names come from the configuration and may hold anything.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_be_markup() {
        assert_eq!(escape("<b>&\""), "&lt;b&gt;&amp;&quot;");
    }
}
