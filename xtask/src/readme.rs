//! The table of figures in the README: a part of the results, word for word.

use std::path::Path;

const PAGE: &str = "README.md";
const RESULTS: &str = "bench/RESULTS.md";
const BEGIN: &str = "<!-- from bench/RESULTS.md: cargo xtask generate -->\n";
const END: &str = "<!-- end of the figures -->\n";

/// Rows by the title of their section, which is empty for the first one.
const ROWS: [(&str, &[&str]); 2] = [
    (
        "",
        &[
            "user instructions per request, direct answer",
            "user instructions per request, proxied",
            "CPU time per request against nginx, direct",
            "CPU time per request against nginx, proxied",
            "CPU time per request against nginx, 1000 servers",
            "KiB per idle kept-alive connection (8000)",
        ],
    ),
    (
        "Files, compression and caches",
        &[
            "CPU time per request against nginx, hit, 4 KiB",
            "CPU time per request against nginx, file of 8 KiB",
        ],
    ),
];

/// The README with the figures of the results.
pub fn page(root: &Path) -> (&'static str, String) {
    let read = |path| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    (PAGE, with_figures(&read(PAGE), &read(RESULTS)))
}

fn with_figures(page: &str, results: &str) -> String {
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let Some((before, after)) = parts else { return page.to_owned() };
    format!("{before}{BEGIN}\n{}\n{END}{after}", figures(results))
}

fn figures(results: &str) -> String {
    let mut text = String::from("| | Sluice | nginx | |\n|---|---|---|---|\n");
    let mut runs = String::new();
    for (title, rows) in ROWS {
        let section = section(results, title);
        let third = section.lines().find_map(|line| cells(line).get(5).copied());
        for row in rows {
            let found = section.lines().map(cells).find(|cells| cells.first() == Some(row));
            let cell = |at: usize| found.as_ref().and_then(|it| it.get(at).copied()).unwrap_or("?");
            let third = match (third, cell(5)) {
                (Some(name), figure) if figure != "-" => format!("{name} {figure}"),
                _ => "-".to_owned(),
            };
            text.push_str(&format!("| {row} | {} | {} | {third} |\n", cell(2), cell(4)));
        }
        let note = |name| {
            let mark = format!("- {name}: ");
            section.lines().find_map(|line| line.strip_prefix(&mark)).unwrap_or("?")
        };
        let title = if title.is_empty() { "The first rows" } else { title };
        runs.push_str(&format!("{title}: one run, {}, commit {}. ", note("Date"), note("Commit")));
    }
    format!("{text}\n{}\n", runs.trim_end())
}

/// The text below a heading, up to the next one.
fn section<'r>(results: &'r str, title: &str) -> &'r str {
    let text = if title.is_empty() {
        results
    } else {
        let heading = format!("\n## {title}\n");
        results.split_once(heading.as_str()).map_or("", |(_, rest)| rest)
    };
    text.split("\n## ").next().unwrap_or_default()
}

fn cells(line: &str) -> Vec<&str> {
    line.strip_prefix("| ")
        .map_or(Vec::new(), |rest| rest.trim_end_matches('|').split(" | ").map(str::trim).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULTS: &str = "# Results\n\n\
        | measurement | to reach | Sluice | reached | nginx | HAProxy |\n|---|---|---|---|---|---|\n\
        | user instructions per request, proxied | at most 2 | 1 | yes | 3 | 4 |\n\n\
        - Date: today\n- Commit: abc\n\n## Files, compression and caches\n\n\
        | measurement | to reach | Sluice | reached | nginx | Varnish |\n|---|---|---|---|---|---|\n\
        | CPU time per request against nginx, file of 8 KiB |  | 0.6 (0.5-0.7) | yes | 1.0 | - |\n\n\
        - Date: yesterday\n- Commit: def\n\n## Other\n\n- Date: never\n";

    #[test]
    fn figures_stand_as_they_were_measured() {
        let page = format!("before\n{BEGIN}old\n{END}after\n");
        let page = with_figures(&page, RESULTS);
        for line in [
            "| user instructions per request, proxied | 1 | 3 | HAProxy 4 |\n",
            "| CPU time per request against nginx, file of 8 KiB | 0.6 (0.5-0.7) | 1.0 | - |\n",
            "The first rows: one run, today, commit abc. ",
            "Files, compression and caches: one run, yesterday, commit def.\n",
        ] {
            assert!(page.contains(line), "{page}");
        }
        assert!(page.starts_with("before\n") && page.ends_with("after\n") && !page.contains("old"));
        assert_eq!(with_figures(&page, RESULTS), page);
        assert_eq!(with_figures("nothing", RESULTS), "nothing");
    }
}
