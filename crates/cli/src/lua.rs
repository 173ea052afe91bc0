//! `sluice lua`: a service written in Lua.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use sluice_lua::{Access, Launch, Level, Settings, Voice, WriteFull, serve};
use sluice_net::process::raise_descriptor_limit;
use sluice_net::{LogTarget, LogWriter};

use crate::terminal::complain;

/// What a script is started with.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lua {
    /// The script. Every further --key=value is for it: `env.get("key")`
    pub(crate) script: PathBuf,
    /// Threads that run the script, each with a state of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: u16,
    /// Bind the threads to these CPUs, in turn
    #[arg(
        long,
        short = 'W',
        value_name = "CPU,...",
        value_delimiter = ',',
        aliases = ["worker-affinity", "worker_cpu_affinity"]
    )]
    pub(crate) pin: Vec<usize>,
    /// Where `require` looks, beside the directory of the script
    #[arg(long, short = 'L', value_name = "DIR", aliases = ["lualib-path", "lualib_path"])]
    pub(crate) path: Vec<PathBuf>,
    /// Megabytes of memory that a state may use
    #[arg(long, value_name = "MB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(4..=1_048_576))]
    pub(crate) memory: u32,
    /// Milliseconds of CPU time that a task may take without waiting for anything
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u32).range(10..))]
    pub(crate) budget: u32,
    /// Tasks that a state may have at once, those of connections included, and timers that may be to come
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) tasks: u32,
    /// Variables of the environment that `os.getenv` finds
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) env: Vec<String>,
    /// Megabytes that may wait to be read by the script, for each connection
    #[arg(long, value_name = "MB", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub(crate) read_limit: u32,
    /// Megabytes that may wait to be taken by a peer
    #[arg(long, value_name = "MB", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub(crate) write_limit: u32,
    /// What happens if more wait: the connection is closed, or who writes waits until the peer has taken half of it
    #[arg(long, value_name = "WHAT", default_value = "close")]
    pub(crate) write_full: Full,
    /// What the script may do beside what every script may
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub(crate) allow: Vec<Allowed>,
    /// Lines that a state may write to the log in a second; how many more there were is told afterwards
    #[arg(long, value_name = "LINES", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) log_rate: u32,
    /// Which lines of the script's logger are written
    #[arg(long, short = 'l', value_name = "LEVEL", default_value = "info", alias = "loglevel")]
    pub(crate) log_level: LogLevel,
}

/// What happens when a peer does not take what is written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Full {
    Close,
    Wait,
}

/// What scripts may be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Allowed {
    /// Read and write files
    Files,
    /// Start processes
    Processes,
}

/// Levels of the script's logger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Debug,
    Info,
    Warn,
    Error,
}

/// Arguments without those that are for a script, and these.
pub(crate) type Split = (Vec<OsString>, Vec<(String, String)>);

/// Takes out of a command line what is for a script: after `lua`, every `--key=value` that is no option of ours.
pub(crate) fn split(line: impl IntoIterator<Item = OsString>) -> Split {
    let line: Vec<OsString> = line.into_iter().collect();
    if line.get(1).is_none_or(|command| command != "lua") {
        return (line, Vec::new());
    }
    let command = Lua::augment_args(clap::Command::new("lua"));
    let known: Vec<String> = command
        .get_arguments()
        .flat_map(|option| {
            let aliases = option.get_all_aliases().unwrap_or_default();
            option.get_long().into_iter().chain(aliases).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    let (mut ours, mut variables) = (Vec::new(), Vec::new());
    for argument in line {
        let pair = argument.to_str().and_then(|it| it.strip_prefix("--")?.split_once('='));
        match pair {
            Some((key, value)) if !known.iter().any(|known| known == key) => {
                variables.push((key.to_owned(), value.to_owned()));
            }
            _ => ours.push(argument),
        }
    }
    (ours, variables)
}

pub(crate) fn lua(arguments: Lua, variables: Vec<(String, String)>) -> ExitCode {
    raise_descriptor_limit();
    let open = |target| LogWriter::start(target, std::sync::Arc::default());
    let (log, output) = match (open(LogTarget::Stderr), open(LogTarget::Stdout)) {
        (Ok(log), Ok(output)) => (log, output),
        (Err(error), _) | (_, Err(error)) => {
            complain(&format!("error: cannot write: {error}\n"));
            return ExitCode::from(crate::RUNTIME);
        }
    };
    let voice = Voice::new(log.clone(), output.clone());
    let launch = launch(arguments, variables, voice);
    let outcome = serve(&launch);
    log.flush();
    output.flush();
    match outcome {
        Ok(status) => ExitCode::from(status),
        Err(problem) => {
            complain(&format!("error: {problem}\n"));
            ExitCode::from(crate::CONFIGURATION)
        }
    }
}

fn launch(arguments: Lua, variables: Vec<(String, String)>, voice: Voice) -> Launch {
    let Lua { script, workers, pin, path, memory, budget, .. } = arguments;
    let megabytes =
        |number: u32| usize::try_from(number).unwrap_or(usize::MAX).saturating_mul(1 << 20);
    let access = arguments.allow.iter().map(|allowed| match allowed {
        Allowed::Files => Access::Files,
        Allowed::Processes => Access::Processes,
    });
    let settings = Settings {
        path,
        variables,
        memory: megabytes(memory),
        budget: Duration::from_millis(budget.into()),
        tasks: usize::try_from(arguments.tasks).unwrap_or(usize::MAX),
        env: arguments.env,
        read_limit: megabytes(arguments.read_limit),
        write_limit: megabytes(arguments.write_limit),
        write_full: match arguments.write_full {
            Full::Close => WriteFull::Close,
            Full::Wait => WriteFull::Wait,
        },
        log_level: match arguments.log_level {
            LogLevel::Debug => Level::Debug,
            LogLevel::Info => Level::Info,
            LogLevel::Warn => Level::Warn,
            LogLevel::Error => Level::Error,
        },
        log_rate: arguments.log_rate,
        access: access.collect(),
        ..Settings::new(script)
    };
    Launch { settings, workers: usize::from(workers), pin, voice }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Command};
    use clap::Parser;

    fn parse(line: &[&str]) -> (Lua, Vec<(String, String)>) {
        let (ours, variables) = split(line.iter().map(OsString::from));
        match Arguments::parse_from(ours).command {
            Command::Lua(lua) => (lua, variables),
            _ => panic!("another command"),
        }
    }

    #[test]
    fn what_is_no_option_is_for_the_script() {
        let line = [
            "sluice",
            "lua",
            "a.lua",
            "--workers=2",
            "--port=80",
            "--pin",
            "0,1",
            "--x=",
            "--loglevel=debug",
        ];
        let (lua, variables) = parse(&line);
        assert_eq!((lua.script, lua.workers, lua.pin), ("a.lua".into(), 2, vec![0, 1]));
        assert_eq!(lua.log_level, LogLevel::Debug);
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(variables, [pair("port", "80"), pair("x", "")]);
    }

    #[test]
    fn other_commands_keep_all_their_words() {
        let line = ["sluice", "run", "--proxy=127.0.0.1:1"].map(OsString::from);
        assert_eq!(split(line.clone()), (line.to_vec(), Vec::new()));
    }
}
