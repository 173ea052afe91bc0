//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

/// HTTP gateway: web server, reverse proxy, load balancer.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the gateway. Without a file it shows a welcome page
    Run(Run),
    /// Have a new process of the program take the place of a running one, and say how it went
    Upgrade(Upgrade),
    /// Say everything that is wrong with a configuration, and start nothing
    Check {
        /// The configuration: TOML, or YAML if it ends in .yaml or .yml
        #[arg(short, long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Run a service written in Lua
    Lua(crate::lua::Lua),
    /// Put load on a server, measure it, and report
    Bench(Box<sluice_load::BenchArguments>),
    /// Print the JSON schema of the configuration, for editors
    Schema,
    /// Print the completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    /// The configuration: TOML, or YAML if it ends in .yaml or .yml. A change of it is taken over
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["proxy", "respond", "listen", "tls"])]
    pub(crate) config: Option<PathBuf>,
    /// Without a file: pass every request on to this origin, like 127.0.0.1:9001
    #[arg(long, value_name = "ADDR", conflicts_with = "respond")]
    pub(crate) proxy: Option<String>,
    /// Without a file: answer every request with this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) respond: Option<String>,
    /// Without a file: where to listen [default: 127.0.0.1:8080, with --tls 127.0.0.1:8443]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,
    /// Without a file: speak HTTPS, with a certificate made for a try
    #[arg(long)]
    pub(crate) tls: bool,
    /// Worker threads [default: as the configuration says, or one per CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: Option<u16>,
    /// Write the number of the process to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) pid_file: Option<PathBuf>,
}

/// Which process is meant; without either, the only one there is.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Upgrade {
    /// The running process
    #[arg(long, value_name = "N", conflicts_with = "pid_file")]
    pub(crate) pid: Option<u32>,
    /// The file that names it, as given to `sluice run`
    #[arg(long, value_name = "FILE")]
    pub(crate) pid_file: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_file_and_a_quick_form_exclude_each_other() {
        let rows: [(&[&str], bool); 10] = [
            (&["run"], true),
            (&["run", "-c", "a.toml", "--workers", "2"], true),
            (&["run", "--proxy", "127.0.0.1:1", "--listen", ":80"], true),
            (&["run", "-c", "a.toml", "--proxy", "127.0.0.1:1"], false),
            (&["run", "-c", "a.toml", "--respond", "x"], false),
            (&["run", "-c", "a.toml", "--listen", ":80"], false),
            (&["run", "--tls", "--respond", "x"], true),
            (&["run", "-c", "a.toml", "--tls"], false),
            (&["run", "--proxy", "127.0.0.1:1", "--respond", "x"], false),
            (&["run", "--workers", "0"], false),
        ];
        for (line, good) in rows {
            let parsed = Arguments::try_parse_from(["sluice"].iter().chain(line));
            assert_eq!(parsed.is_ok(), good, "{line:?}: {parsed:?}");
        }
    }
}
