//! Texts made to break a reader: an answer each time, never a panic, never much memory.

use super::{toml, yaml};
use crate::{Format, Source, redacted};

fn all(text: &str) {
    for result in [toml(text), yaml(text)] {
        if let Err(problems) = result {
            assert!(!problems.list.is_empty());
            assert!(problems.list.len() <= 200);
            assert!(problems.render(crate::Style::Coloured).len() < 1_000_000);
        }
    }
    for format in [Format::Toml, Format::Yaml] {
        let _ = redacted(&Source { name: "x", text, format });
    }
}

#[test]
fn shapes() {
    let deep = 20_000;
    let texts = [
        format!("a = {}", "[".repeat(deep)),
        format!("a = {}{}", "[".repeat(deep), "]".repeat(deep)),
        format!("a = {}{}", "[".repeat(60), "]".repeat(60)),
        format!("a = {}1{}", "{a = ".repeat(deep), "}".repeat(deep)),
        format!("a = {}1{}", "{a = ".repeat(60), "}".repeat(60)),
        format!("a{} = 1", ".a".repeat(deep)),
        format!("a{} = 1", ".a".repeat(60)),
        format!("[a{}]\nb{} = 1", ".a".repeat(70), ".b".repeat(70)),
        format!("a: {}", "[".repeat(deep)),
        format!("a: {}1{}", "{a: ".repeat(200), "}".repeat(200)),
        format!("a: {}1{}", "{a: ".repeat(40), "}".repeat(40)),
        "- ".repeat(deep),
        (0..300).map(|level| format!("{}a:\n", " ".repeat(level))).collect(),
        "a: &a [*a, *a]".to_owned(),
        "workers = 9223372036854775808".to_owned(),
        "workers: 9223372036854775808".to_owned(),
        format!("workers = {}", "9".repeat(100_000)),
        format!("workers: {}", "9".repeat(100_000)),
        "workers = 0x7fffffffffffffff\nlistener=-9223372036854775808".to_owned(),
        "workers = 1e999\nlistener = nan".to_owned(),
        "workers: .inf\nlistener: -.5e-400".to_owned(),
        "\0".to_owned(),
        "a = \"\0\"".to_owned(),
        "a: \"\\0\\u0007\"".to_owned(),
        "listener: [{address: \"\\0\", name: \"\\u001b[2J\"}]".to_owned(),
        "\u{1b}[2J = 1".to_owned(),
        "\r\r\r\na = 1\rb: 2".to_owned(),
        "ä".repeat(50_000),
        format!("a: {}", "\u{202e}".repeat(1000)),
        format!("a = \"{}\"", "${".repeat(50_000)),
        format!("listener: \"{}\"", "$${".repeat(50_000)),
        "route = [{}]".to_owned(),
        format!("listener = [{}]", "{},".repeat(20_000)),
        format!("route = [{}]", "{proxy = \"x\"},".repeat(20_000)),
        (0..20_000).map(|it| format!("x{it} = 1\n")).collect(),
        (0..20_000).map(|it| format!("x{it}: 1\n")).collect(),
        format!("{{{}}}", (0..20_000).map(|it| format!("x{it}: 1,")).collect::<String>()),
        "? \n: \n? ? ? :".to_owned(),
        "%YAML 9.9\n%TAG ! x\n---\n!x y".to_owned(),
        "a: |\n  x\n b: >\n".to_owned(),
        "---\n...\n---\n...\n".to_owned(),
        format!(
            "[[listener]]\naddress = \":1\"\n[[route]]\nhealth = true\npath = \"~ {}\"",
            "(a{1000}){1000}"
        ),
        format!(
            "[[listener]]\naddress = \":1\"\n[[route]]\nhealth = true\npath = \"~ {}\"",
            "(".repeat(5000)
        ),
    ];
    for text in &texts {
        all(text);
    }
}

#[test]
fn every_beginning_of_a_document() {
    let text = crate::reference::EXAMPLE;
    for (end, _) in text.char_indices() {
        let _ = toml(&text[..end]);
        let _ = yaml(&text[..end]);
    }
}

#[test]
fn aliases_cannot_unfold_without_end() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let below = level - 1;
        let list = vec![format!("*a{below}"); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{list}]\n"));
    }
    let problems = yaml(&text).unwrap_err();
    assert!(problems.list[0].message.contains("more than 100000 values"), "{problems}");
}

#[test]
fn aliases_cannot_nest_without_end() {
    let mut text = "a0: &a0 [x]\n".to_owned();
    for level in 1..60 {
        text.push_str(&format!("a{level}: &a{level} [*a{}]\n", level - 1));
    }
    let problems = yaml(&text).unwrap_err();
    assert!(problems.list[0].message.contains("nested too deeply"), "{problems}");
}
