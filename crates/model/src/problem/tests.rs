//! Tests of how problems are shown.

use super::*;

fn shown_at(text: &str, start: usize, end: usize, help: Option<&str>) -> Problem {
    let mut flaw = Flaw::new("wrong");
    flaw.help = help.map(str::to_owned);
    Problem::at("a.toml", &Lines::new(text), Span::new(start, end), Severity::Error, flaw)
}

#[test]
fn the_caret_is_under_the_place() {
    let rows: &[(&str, usize, usize, Option<&str>, &str)] = &[
        (
            "a\nb = cde\n",
            6,
            9,
            Some("try this"),
            "error: wrong\n --> a.toml:2:5\n  |\n2 | b = cde\n  |     ^^^\nhelp: try this\n",
        ),
        // A tab stays a tab, whatever its width.
        (
            "\tx = \ty",
            6,
            7,
            None,
            "error: wrong\n --> a.toml:1:7\n  |\n1 | \tx = \ty\n  | \t    \t^\n",
        ),
        ("ä = ö", 5, 7, None, "error: wrong\n --> a.toml:1:5\n  |\n1 | ä = ö\n  |     ^\n"),
        // A wide character takes two cells, and so does its caret.
        ("日 = 本", 6, 9, None, "error: wrong\n --> a.toml:1:5\n  |\n1 | 日 = 本\n  |      ^^\n"),
        // A combining mark takes none.
        (
            "e\u{301} = x",
            6,
            7,
            None,
            "error: wrong\n --> a.toml:1:6\n  |\n1 | e\u{301} = x\n  |     ^\n",
        ),
        // Only the first line of a long span.
        ("a = [\n1,\n]", 4, 9, None, "error: wrong\n --> a.toml:1:5\n  |\n1 | a = [\n  |     ^\n"),
        // The end of the text.
        ("a =", 3, 3, None, "error: wrong\n --> a.toml:1:4\n  |\n1 | a =\n  |    ^\n"),
        ("", 0, 0, None, "error: wrong\n --> a.toml:1:1\n  |\n1 | \n  | ^\n"),
        // Control characters would drive the terminal.
        (
            "\u{1b}[2J x\r\n",
            5,
            6,
            None,
            "error: wrong\n --> a.toml:1:6\n  |\n1 | \u{fffd}[2J x\n  |      ^\n",
        ),
    ];
    for (text, start, end, help, expected) in rows {
        let problem = shown_at(text, *start, *end, *help);
        assert_eq!(&problem.to_string(), expected, "{text:?}");
    }
}

#[test]
fn the_gutter_is_as_wide_as_the_number() {
    let text = "\n".repeat(99) + "x";
    let expected = "error: wrong\n   --> a.toml:100:1\n    |\n100 | x\n    | ^\n";
    assert_eq!(shown_at(&text, 99, 100, None).to_string(), expected);
}

#[test]
fn a_long_line_is_cut_around_the_place() {
    let text = format!("{}X{}", "a".repeat(5000), "b".repeat(5000));
    let problem = shown_at(&text, 5000, 5001, None);
    assert_eq!((problem.line, problem.column), (1, 5001));
    assert!(problem.source_line.chars().count() < 200);
    let rendered = problem.to_string();
    let line = rendered.lines().nth(3).unwrap();
    let caret = rendered.lines().nth(4).unwrap();
    let column = caret.chars().position(|c| c == '^').unwrap();
    assert_eq!(line.chars().nth(column), Some('X'), "{rendered}");
    assert!(line.starts_with("1 | …a") && line.ends_with("b…"), "{rendered}");
}

#[test]
fn colours_change_no_letter() {
    let problem = shown_at("a = b", 4, 5, Some("help"));
    let coloured = problem.render(Style::Coloured);
    assert!(coloured.contains("\u{1b}[1;31merror"));
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    plain.push_str(rest);
    assert_eq!(plain, problem.render(Style::Plain));
}

#[test]
fn problems_stand_apart() {
    let problem = shown_at("a = b", 4, 5, None);
    let problems = Problems { list: vec![problem.clone(), problem.clone()] };
    assert_eq!(problems.to_string(), format!("{problem}\n{problem}"));
}

#[test]
fn a_message_is_one_printable_line() {
    let flaw = Flaw::new(format!("\u{1b}[2J\n{}", "x".repeat(10_000))).with_help("a\r\nb");
    let lines = Lines::new("a");
    let problem = Problem::at("a", &lines, Span::default(), Severity::Error, flaw);
    assert!(problem.message.starts_with("\u{fffd}[2J xxx") && problem.message.ends_with("x…"));
    assert_eq!(problem.message.chars().count(), LONGEST + 1);
    assert_eq!(problem.help.as_deref(), Some("a  b"));
}
