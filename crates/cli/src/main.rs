//! The program.

mod arguments;
mod check;
mod lua;
mod quick;
mod run;
mod terminal;
mod upgrade;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use arguments::{Arguments, Command};

/// Exit code: the configuration cannot be used.
const CONFIGURATION: u8 = 1;
/// Exit code: the command line cannot be used; clap uses the same.
const USAGE: u8 = 2;
/// Exit code: the world does not have what is needed, or something broke.
const RUNTIME: u8 = 3;

fn main() -> ExitCode {
    let (line, variables) = lua::split(std::env::args_os());
    match Arguments::parse_from(line).command {
        Command::Run(run) => run::run(run),
        Command::Upgrade(which) => upgrade::upgrade(&which),
        Command::Check { config } => check::check(config),
        Command::Lua(arguments) => lua::lua(arguments, variables),
        Command::Bench(arguments) => ExitCode::from(sluice_load::bench(&arguments)),
        Command::Schema => terminal::print(&schema()),
        Command::Completions { shell } => terminal::print(&completions(shell)),
    }
}

fn schema() -> String {
    format!("{:#}\n", sluice_model::schema())
}

fn completions(shell: clap_complete::Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "sluice", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_know_the_options() {
        for shell in [clap_complete::Shell::Bash, clap_complete::Shell::Zsh] {
            let script = completions(shell);
            assert!(script.contains("--proxy"), "{script}");
        }
    }

    #[test]
    fn the_schema_is_json_of_the_configuration() {
        let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
        assert!(schema["properties"]["listener"].is_object(), "{schema:#}");
    }
}
