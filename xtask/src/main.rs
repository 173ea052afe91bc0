//! Tasks of the repository: `cargo xtask tidy | generate | bench | gate`.

mod bench;
mod generate;
mod readme;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask TASK
  tidy              check the invariants of the architecture
  generate          write the files that are made from the model
  bench [OPTION ..] measure Sluice beside nginx and HAProxy, write bench/RESULTS.md
  bench load [..]   measure the load generator beside wrk, write its section there
  bench pages [..]  measure files, compression and caches beside nginx and Varnish, write their section there
  gate              assert the instruction counts
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let task = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    let root = root();
    let result = match task.as_str() {
        "tidy" => tidy::run(&root).and_then(|count| match count {
            0 => Ok(()),
            _ => Err(format!("{count} invariants are broken; exceptions: xtask/exceptions.toml")),
        }),
        "generate" => generate::run(&root),
        "bench" => bench::run(&root, &rest),
        "gate" => bench::gate(&root, &rest),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask {task}: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
