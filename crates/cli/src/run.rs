//! `sluice run`: the gateway itself.

use std::process::ExitCode;

use sluice_control::{ConfigSource, Failure, Launch};
use sluice_net::descriptors::keep_reserve;
use sluice_net::process::raise_descriptor_limit;

use crate::arguments::Run;
use crate::quick;
use crate::terminal::{complain, style};

pub(crate) fn run(arguments: Run) -> ExitCode {
    keep_reserve(raise_descriptor_limit());
    let workers = arguments.workers.map(usize::from);
    let source = match arguments.config.clone() {
        Some(file) => ConfigSource::File(file),
        None => match quick::document(&arguments) {
            Ok(document) => ConfigSource::Text(document),
            Err(problems) => {
                complain(&problems);
                return ExitCode::from(crate::USAGE);
            }
        },
    };
    let style = style();
    let pid_file = arguments.pid_file;
    let launch = Launch { source, workers, pid_file, style, pages: sluice_admin::pages };
    match sluice_control::run(launch) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Config(error)) => {
            complain(&error.render(style));
            ExitCode::from(crate::CONFIGURATION)
        }
        Err(Failure::Runtime(text)) => {
            complain(&text);
            ExitCode::from(crate::RUNTIME)
        }
    }
}
