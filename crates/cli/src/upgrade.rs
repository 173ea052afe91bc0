//! `sluice upgrade`: a new process takes the place of a running one.

use std::process::ExitCode;
use std::time::Duration;

use sluice_net::errand::{ask_for_upgrade, running};

use crate::arguments::Upgrade;
use crate::terminal::{complain, print};

/// The running process gives up before, as its configuration says; this is for one that hangs.
const LIMIT: Duration = Duration::from_secs(600);

pub(crate) fn upgrade(which: &Upgrade) -> ExitCode {
    let result = find(which).and_then(|pid| Ok((pid, ask_for_upgrade(pid, LIMIT)?)));
    let said = match result {
        Ok((old, answer)) => understand(old, &answer),
        Err(problem) => Err(problem),
    };
    match said {
        Ok(text) => print(&text),
        Err(problem) => {
            complain(&format!("error: {}\n", problem.trim_end()));
            ExitCode::from(crate::RUNTIME)
        }
    }
}

fn find(which: &Upgrade) -> Result<u32, String> {
    match (which.pid, &which.pid_file) {
        (Some(pid), _) => Ok(pid),
        (None, Some(path)) => {
            let name = path.display();
            let bytes = sluice_net::files::read(path);
            let bytes = bytes.map_err(|error| format!("{name}: cannot read it: {error}"))?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            text.trim().parse().map_err(|_| format!("{name}: there is no process number in it"))
        }
        (None, None) => the_only_one(&running()),
    }
}

fn the_only_one(running: &[u32]) -> Result<u32, String> {
    match running {
        [] => Err("no running gateway was found\nhelp: name it with --pid".to_owned()),
        [pid] => Ok(*pid),
        many => {
            let list: Vec<String> = many.iter().map(u32::to_string).collect();
            let list = list.join(", ");
            Err(format!("several gateways are running: {list}\nhelp: choose one with --pid"))
        }
    }
}

/// The answer is `ok` and the number of the new process, or `failed` and the reason.
fn understand(old: u32, answer: &str) -> Result<String, String> {
    match answer.split_once([' ', '\n']) {
        Some(("ok", new)) => {
            Ok(format!("process {} has taken the place of process {old}\n", new.trim()))
        }
        Some(("failed", reason)) => Err(format!("{}\nprocess {old} goes on", reason.trim_end())),
        _ => Err(format!("process {old} said what cannot be understood: {answer}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_needs_no_name() {
        assert_eq!(the_only_one(&[7]), Ok(7));
        assert!(the_only_one(&[]).unwrap_err().contains("--pid"));
        assert!(the_only_one(&[7, 8]).unwrap_err().contains("7, 8"));
    }

    #[test]
    fn answers_are_told_in_words() {
        assert_eq!(
            understand(1, "ok 2\n").unwrap(),
            "process 2 has taken the place of process 1\n"
        );
        let said = understand(1, "failed\nno file\nat all\n").unwrap_err();
        assert_eq!(said, "no file\nat all\nprocess 1 goes on");
        assert!(understand(1, "").is_err());
    }
}
