//! What cannot take part, and why: programs that are not installed, features that do not exist yet.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use super::Bench;
use super::file::{CaseEntry, ServerEntry, Suite};
use super::placeholder::Places;

/// Why servers and features are missing, by name. What is not in here is there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Missing {
    pub(crate) servers: BTreeMap<String, String>,
    pub(crate) features: BTreeMap<String, String>,
}

impl Missing {
    /// Looks for everything a suite names.
    pub(crate) fn look(suite: &Suite, bench: &Bench<'_>) -> Self {
        let mut missing = Self::default();
        for (name, feature) in &suite.feature {
            if !exists(name, suite, bench) {
                missing.features.insert(name.clone(), format!("waiting for {}", feature.says));
            }
        }
        for server in &suite.servers {
            if let Some(reason) = missing.why(server) {
                missing.servers.insert(server.name.get_ref().clone(), reason);
            }
        }
        // A server without one that it uses is of no use, and so on along the chain.
        for _ in &suite.servers {
            for server in &suite.servers {
                let lost = server.uses.iter().find_map(|name| missing.servers.get(name.get_ref()));
                if let Some(reason) = lost.cloned() {
                    missing.servers.entry(server.name.get_ref().clone()).or_insert(reason);
                }
            }
        }
        missing
    }

    fn why(&self, server: &ServerEntry) -> Option<String> {
        let needs = server.needs.as_ref().and_then(|name| self.features.get(name.get_ref()));
        if let Some(reason) = needs {
            return Some(reason.clone());
        }
        let program = server.command.get_ref().first()?;
        let placeholder = program.contains('{');
        (!placeholder && !installed(program)).then(|| format!("{program} is not installed"))
    }

    /// Why a case cannot be run; nothing if its first server and one feature more are there.
    pub(crate) fn case(&self, case: &CaseEntry) -> Option<String> {
        let needs = case.needs.as_ref().and_then(|name| self.features.get(name.get_ref()));
        let first = case.servers.first().and_then(|name| self.servers.get(name.get_ref()));
        needs.or(first).cloned()
    }
}

/// Whether a program is found as a shell would find it.
pub(crate) fn installed(program: &str) -> bool {
    if program.contains('/') {
        return std::path::Path::new(program).is_file();
    }
    // Servers are often where only root's shell looks.
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/usr/local/sbin:/sbin";
    path.split(':').any(|folder| std::path::Path::new(folder).join(program).is_file())
}

fn exists(name: &str, suite: &Suite, bench: &Bench<'_>) -> bool {
    let Some(feature) = suite.feature.get(name) else { return false };
    let config = feature.config.as_ref().map(|file| suite.folder.join(file.get_ref()));
    // Port 1 in a configuration that is only checked, never started.
    let ports = suite.servers.iter().map(|server| (server.name.get_ref().clone(), 1)).collect();
    let places = Places {
        program: &bench.program,
        dir: &bench.scratch,
        config: None,
        workers: 1,
        server: "",
        ports: &ports,
    };
    let mut filled = None;
    if let Some(config) = &config {
        let Ok(text) = std::fs::read_to_string(config) else { return false };
        let name = config.file_name().unwrap_or_default();
        let copy = bench.scratch.join(format!("check-{}", name.display()));
        let any = suite.servers.first().map_or("", |server| server.name.get_ref());
        let own = Places { server: any, ..places.clone() };
        if std::fs::write(&copy, own.fill(&text)).is_err() {
            return false;
        }
        filled = Some(copy);
    }
    let places = Places { config: filled.as_deref(), ..places };
    let command: Vec<String> =
        feature.check.get_ref().iter().map(|word| places.fill(word)).collect();
    let Some((program, arguments)) = command.split_first() else { return false };
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}
