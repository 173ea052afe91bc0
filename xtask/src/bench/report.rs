//! The table, the machine it was measured on, and the page both go to.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::peers::{Bench, Peer, first_line};

/// One line of the table.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// What Sluice is to reach, in words.
    pub target: String,
    /// The figures of Sluice, nginx, HAProxy and h2o; "-" when there is none.
    pub figures: [String; 4],
    /// Whether Sluice reached it; `None` when it was not measured.
    pub reached: Option<bool>,
}

impl Row {
    /// A line without figures.
    pub fn new(what: &str, target: &str) -> Self {
        let figures = ["-", "-", "-", "-"].map(String::from);
        Self { what: what.to_owned(), target: target.to_owned(), figures, reached: None }
    }
}

/// The table in Markdown.
pub fn table(rows: &[Row]) -> String {
    columns(rows, &["Sluice", "nginx", "HAProxy"])
}

/// The table in Markdown, with figures of these, ours first.
pub fn columns(rows: &[Row], titles: &[&str]) -> String {
    let (ours, others) = titles.split_first().unwrap_or((&"Sluice", &[]));
    let others = others.join(" | ");
    let lines = "---|".repeat(titles.len() + 3);
    let mut text = format!("| measurement | to reach | {ours} | reached | {others} |\n|{lines}\n");
    for Row { what, target, figures, reached } in rows {
        let reached = match reached {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "-",
        };
        let [ours, others @ ..] = figures;
        let others = others.get(..titles.len() - 1).unwrap_or_default().join(" | ");
        let _ = writeln!(text, "| {what} | {target} | {ours} | {reached} | {others} |");
    }
    text
}

/// A titled list; nothing if it is empty.
pub fn list(title: &str, lines: &[String]) -> String {
    let mut text = String::new();
    if !lines.is_empty() {
        let _ = write!(text, "\n{title}\n\n");
        for line in lines {
            let _ = writeln!(text, "- {line}");
        }
    }
    text
}

/// The page, up to its first section, which a [`Section`] is.
pub fn page(bench: &Bench, rows: &[Row], how: &[String]) -> String {
    let mut text = String::from(
        "# Results\n\nWritten by `cargo xtask bench` (`make bench`); how each figure comes about is in \
         [README.md](README.md).\n\n",
    );
    text.push_str(&table(rows));
    text.push_str(&list("How it was measured:", how));
    text.push_str(&list("Left out:", &bench.missing));
    text.push_str(&list("Where:", &environment(bench, Side::Server)));
    text
}

/// What one command measured.
pub struct Section<'s> {
    /// The command, as it is called: `pages`.
    pub command: &'s str,
    /// The title of its section of the page.
    pub title: &'s str,
    /// The figures.
    pub table: String,
    /// How it was measured, a sentence each.
    pub how: Vec<String>,
    /// What was left out, and why.
    pub missing: &'s [String],
    /// Who took part, and where.
    pub machine: Vec<String>,
}

impl Section<'_> {
    /// Shows the figures and what is missing among them.
    pub fn print(&self) {
        print!("{}", self.table);
        self.missing.iter().for_each(|line| println!("left out: {line}"));
    }

    /// Writes the section of the page anew; everything else stays.
    pub fn write(&self, root: &Path) -> Result<(), String> {
        let Self { command, title, table, .. } = self;
        let mut text = format!("Written by `cargo xtask bench {command}`.\n\n{table}");
        text.push_str(&list("How it was measured:", &self.how));
        text.push_str(&list("Left out:", self.missing));
        text.push_str(&list("Where:", &self.machine));
        change(root, |old| with_section(old, title, &text))
    }
}

/// Where the results of all measurements stand.
const PAGE: &str = "bench/RESULTS.md";

/// Writes the page anew; its sections stay.
pub fn write_page(root: &Path, page: &str) -> Result<(), String> {
    change(root, |old| with_front(old, page))
}

fn change(root: &Path, make: impl Fn(&str) -> String) -> Result<(), String> {
    if let Some(why) = super::quiet::disturbance() {
        eprintln!("{PAGE} is left alone: the machine was not quiet ({why}); see --publish-anyway");
        return Ok(());
    }
    let path = root.join(PAGE);
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    std::fs::write(&path, make(&old)).map_err(|e| format!("{}: {e}", path.display()))?;
    println!("wrote {}", path.display());
    Ok(())
}

/// How a section begins.
const SECTION: &str = "\n## ";

fn with_front(old: &str, front: &str) -> String {
    let sections = old.find(SECTION).and_then(|at| old.get(at..)).unwrap_or_default();
    format!("{front}{sections}")
}

fn with_section(old: &str, title: &str, text: &str) -> String {
    let heading = format!("{SECTION}{title}\n");
    let new = format!("{heading}\n{text}");
    let Some(at) = old.find(&heading) else { return format!("{old}{new}") };
    let (before, rest) = old.split_at(at);
    let behind = rest.get(1..).unwrap_or_default();
    let after = behind.find(SECTION).and_then(|at| behind.get(at..)).unwrap_or_default();
    format!("{before}{new}{after}")
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Servers, under load.
    Server,
    /// Load generators.
    Client,
}

/// What took part in a measurement, and where.
pub fn environment(bench: &Bench, side: Side) -> Vec<String> {
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
    // HAProxy is loaded by nobody but to be compared with.
    let took_part = |peer: &&Peer| side == Side::Server || **peer != Peer::Haproxy;
    for peer in bench.peers.iter().filter(took_part) {
        note(peer.name(), bench.version(*peer));
    }
    if side == Side::Server {
        note("h2load", first_line(Command::new("h2load").arg("--version")));
        note("strace", first_line(Command::new("strace").arg("--version")));
    }
    // wrk prints its version and ends with 1.
    let wrk = Command::new("wrk").arg("-v").output().ok();
    let wrk = wrk.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    note("wrk", wrk.and_then(|text| Some(text.lines().next()?.to_owned())));
    note("valgrind", first_line(Command::new("valgrind").arg("--version")));
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
    use super::{Row, table, with_front, with_section};

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

    #[test]
    fn each_command_writes_its_own_part_of_the_page() {
        let page = with_section("# Results\n\nfront\n", "One", "1\n");
        assert_eq!(page, "# Results\n\nfront\n\n## One\n\n1\n");
        let page = with_section(&page, "Two", "2\n");
        let page = with_section(&page, "One", "first\n");
        assert_eq!(page, "# Results\n\nfront\n\n## One\n\nfirst\n\n## Two\n\n2\n");
        let page = with_front(&page, "# Results\n\nnew\n");
        assert_eq!(page, "# Results\n\nnew\n\n## One\n\nfirst\n\n## Two\n\n2\n");
        assert_eq!(with_front("", "new\n"), "new\n");
    }
}
