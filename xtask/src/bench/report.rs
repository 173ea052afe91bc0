//! The table, the machine it was measured on, and the page both go to.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::peers::{Bench, first_line};

/// One line of the table.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// What Sluice is to reach, in words.
    pub target: String,
    /// The figures of Sluice, nginx and HAProxy; "-" when there is none.
    pub figures: [String; 3],
    /// Whether Sluice reached it; `None` when it was not measured.
    pub reached: Option<bool>,
}

impl Row {
    /// A line without figures.
    pub fn new(what: &str, target: &str) -> Self {
        let figures = ["-", "-", "-"].map(String::from);
        Self { what: what.to_owned(), target: target.to_owned(), figures, reached: None }
    }
}

/// The table in Markdown.
pub fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| measurement | to reach | Sluice | reached | nginx | HAProxy |\n|---|---|---|---|---|---|\n",
    );
    for Row { what, target, figures: [sluice, nginx, haproxy], reached } in rows {
        let reached = match reached {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "-",
        };
        let _ =
            writeln!(text, "| {what} | {target} | {sluice} | {reached} | {nginx} | {haproxy} |");
    }
    text
}

/// The whole page.
pub fn page(bench: &Bench, rows: &[Row], how: &[String]) -> String {
    let mut text = String::from(
        "# Results\n\nWritten by `cargo xtask bench` (`make bench`); how each figure comes about is in \
         [README.md](README.md).\n\n",
    );
    text.push_str(&table(rows));
    let mut list = |title: &str, lines: &[String]| {
        if !lines.is_empty() {
            let _ = write!(text, "\n{title}\n\n");
            for line in lines {
                let _ = writeln!(text, "- {line}");
            }
        }
    };
    list("How it was measured:", how);
    list("Left out:", &bench.missing);
    list("Where:", &environment(bench));
    text
}

fn environment(bench: &Bench) -> Vec<String> {
    let mut lines = Vec::new();
    let mut note = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            lines.push(format!("{name}: {value}"));
        }
    };
    note("Date", first_line(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"])));
    note("Commit", commit(&bench.root));
    note("CPU", cpu());
    note("Kernel", first_line(Command::new("uname").args(["-srm"])));
    for peer in &bench.peers {
        note(peer.name(), bench.version(*peer));
    }
    note("h2load", first_line(Command::new("h2load").arg("--version")));
    // wrk prints its version and ends with 1.
    let wrk = Command::new("wrk").arg("-v").output().ok();
    let wrk = wrk.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    note("wrk", wrk.and_then(|text| Some(text.lines().next()?.to_owned())));
    note("valgrind", first_line(Command::new("valgrind").arg("--version")));
    note("strace", first_line(Command::new("strace").arg("--version")));
    note("rustc", first_line(Command::new("rustc").arg("--version")));
    lines
}

fn commit(root: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        first_line(command.arg("-C").arg(root).args(arguments))
    };
    let hash = git(&["rev-parse", "--short=12", "HEAD"])?;
    // Figures of a tree nobody else has say so.
    let changed =
        git(&["status", "--porcelain", "--untracked-files=no", "--", "crates", "Cargo.lock"]);
    Some(if changed.is_some() { format!("{hash}, with changes") } else { hash })
}

fn cpu() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let named = text.lines().find(|line| line.starts_with("model name"));
    let model = named.and_then(|line| line.split(": ").nth(1)).unwrap_or("unknown");
    let count = text.lines().filter(|line| line.starts_with("processor")).count();
    Some(format!("{model}, {count} CPUs"))
}

#[cfg(test)]
mod tests {
    use super::{Row, table};

    #[test]
    fn the_table_names_what_was_missed() {
        let mut row = Row::new("a", "at most 1");
        row.figures[0] = "2".to_owned();
        row.reached = Some(false);
        let text = table(&[row, Row::new("b", "at least 2")]);
        assert!(text.ends_with(
            "| a | at most 1 | 2 | **no** | - | - |\n| b | at least 2 | - | - | - | - |\n"
        ));
    }
}
