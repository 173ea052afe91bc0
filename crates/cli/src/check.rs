//! `sluice check`: everything that is wrong with a configuration.

use std::path::PathBuf;
use std::process::ExitCode;

use sluice_control::{ConfigError, ConfigSource};
use sluice_model::Style;

use crate::terminal::{complain, print, style};

pub(crate) fn check(config: PathBuf) -> ExitCode {
    match examine(config, style()) {
        Ok(Fine { summary, warnings }) => {
            complain(&warnings);
            print(&summary)
        }
        Err(problems) => {
            complain(&problems);
            ExitCode::from(crate::CONFIGURATION)
        }
    }
}

/// What is said of a configuration that can be used.
#[derive(Debug, PartialEq, Eq)]
struct Fine {
    summary: String,
    warnings: String,
}

fn examine(config: PathBuf, style: Style) -> Result<Fine, String> {
    let name = config.display().to_string();
    let document = ConfigSource::File(config).read();
    let model = document.and_then(|document| sluice_control::check(&document));
    match model {
        Ok(model) => {
            let warnings: Vec<String> = model.warnings.iter().map(|it| it.render(style)).collect();
            Ok(Fine { summary: format!("{name}: ok\n"), warnings: warnings.join("\n") })
        }
        Err(error) => Err(format!("{}\n{}", error.render(style), tally(&name, &error))),
    }
}

fn tally(name: &str, error: &ConfigError) -> String {
    match error.count() {
        1 => format!("{name}: one problem\n"),
        count => format!("{name}: {count} problems\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_testkit::Scratch;

    #[test]
    fn every_problem_is_told_at_once() {
        let scratch = Scratch::new();
        let file = scratch.write(
            "a.toml",
            "[[listener]]\nadress = \":80\"\n\n[[route]]\npath = \"x\"\nrespond = \"y\"\n",
        );
        let said = examine(file, Style::Plain).unwrap_err();
        for part in ["a.toml:2:1", "did you mean", "a.toml:5:8", "^^^", "2 problems"] {
            assert!(said.contains(part), "{part} in:\n{said}");
        }
    }

    #[test]
    fn what_the_text_cannot_show_is_told_too() {
        let scratch = Scratch::new();
        let file = scratch.write(
            "a.toml",
            "[log]\naccess = \"{statsu}\"\n[[listener]]\naddress = \":80\"\n\
             [[route]]\npath = \"/a\"\nrespond = { file = \"/nowhere/at/all\" }\n",
        );
        let said = examine(file, Style::Plain).unwrap_err();
        for part in ["log.access", "statsu", "route \"/a\"", "/nowhere/at/all", "2 problems"] {
            assert!(said.contains(part), "{part} in:\n{said}");
        }
    }

    #[test]
    fn a_good_file_has_a_short_answer() {
        let scratch = Scratch::new();
        let text = "[upstream.idle]\nservers = \"127.0.0.1:1\"\n[[listener]]\naddress = \":80\"\n";
        let file = scratch.write("a.toml", text);
        let fine = examine(file.clone(), Style::Plain).unwrap();
        assert_eq!(fine.summary, format!("{}: ok\n", file.display()));
        assert!(fine.warnings.contains("no route uses the upstream"), "{}", fine.warnings);
    }

    #[test]
    fn a_missing_file_is_a_problem() {
        let said = examine(PathBuf::from("/nowhere.toml"), Style::Plain).unwrap_err();
        assert!(said.contains("/nowhere.toml: cannot read it: no such file"), "{said}");
    }
}
