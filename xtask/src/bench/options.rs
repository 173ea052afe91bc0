//! What a kind of benchmark is told on its command line.

use std::path::{Path, PathBuf};

use super::quiet;

/// What holds when nothing is said.
#[derive(Debug)]
pub(super) struct Defaults {
    /// The answer to everything that is not understood.
    pub usage: &'static str,
    pub rounds: usize,
    /// Of each round.
    pub seconds: u64,
    /// The number that only this kind is told: the option's name, what it is, and the least it may be.
    pub own: (&'static str, usize, usize),
}

/// What to measure and how long.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    only: Option<Vec<String>>,
    pub rounds: usize,
    /// Of each round.
    pub seconds: u64,
    /// [`Defaults::own`].
    pub own: usize,
    pub sluice: PathBuf,
    /// Whether the page of results is written.
    pub write: bool,
}

impl Options {
    pub(super) fn parse(
        defaults: &Defaults,
        sluice: PathBuf,
        arguments: &[String],
    ) -> Result<Self, String> {
        let Defaults { usage, rounds, seconds, own: (own_name, own, least) } = *defaults;
        let mut options = Self { only: None, rounds, seconds, own, sluice, write: true };
        let mut rest = arguments.iter();
        while let Some(name) = rest.next() {
            match name.as_str() {
                "--no-write" => {
                    options.write = false;
                    continue;
                }
                "--publish-anyway" => {
                    quiet::insist();
                    continue;
                }
                _ => {}
            }
            let value = rest.next().ok_or(usage)?;
            let number = || value.parse::<usize>().map_err(|_| format!("{name}: {value}"));
            match name.as_str() {
                "--only" => options.only = Some(value.split(',').map(String::from).collect()),
                "--rounds" => options.rounds = number()?.max(1),
                "--seconds" => options.seconds = number()?.max(1) as u64,
                "--sluice" => options.sluice = PathBuf::from(value),
                name if name == own_name => options.own = number()?.max(least),
                _ => return Err(usage.to_owned()),
            }
        }
        quiet::begin();
        Ok(options)
    }

    pub(super) fn wants(&self, part: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|name| name == part))
    }
}

/// The program, unless a command line names another one.
pub(super) fn sluice(root: &Path) -> PathBuf {
    let target = || std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let named = std::env::var_os("SLUICE_BIN").map(PathBuf::from);
    named.unwrap_or_else(|| target().join("release/sluice"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: Defaults =
        Defaults { usage: "usage", rounds: 5, seconds: 3, own: ("--long", 60, 11) };

    fn parse(arguments: &str) -> Result<Options, String> {
        let arguments: Vec<String> = arguments.split_whitespace().map(String::from).collect();
        Options::parse(&DEFAULTS, PathBuf::from("sluice"), &arguments)
    }

    #[test]
    fn everything_can_be_told() {
        let told = "--rounds 2 --seconds 9 --long 20 --sluice x --no-write --only a,b";
        let options = parse(told).unwrap();
        let Options { only, rounds, seconds, own, sluice, write } = &options;
        assert_eq!((*rounds, *seconds, *own, *write), (2, 9, 20, false));
        assert_eq!((only.as_ref().unwrap().len(), sluice), (2, &PathBuf::from("x")));
        assert!(options.wants("a") && options.wants("b") && !options.wants("c"));
    }

    #[test]
    fn nothing_has_to_be() {
        let options = parse("").unwrap();
        assert_eq!((options.rounds, options.seconds, options.own, options.write), (5, 3, 60, true));
        assert!(options.wants("a"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_or_raised() {
        assert_eq!(parse("--rounds 0 --long 1").unwrap().own, 11);
        assert_eq!(parse("--rounds many"), Err("--rounds: many".to_owned()));
        for wrong in ["--rounds", "--connections 5", "rounds"] {
            assert_eq!(parse(wrong), Err("usage".to_owned()), "{wrong}");
        }
    }
}
