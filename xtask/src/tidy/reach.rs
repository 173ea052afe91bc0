//! What a crate may reach: the system only through `net`, `unsafe` nowhere, protocols only in `wire` and `conn`.

use super::Finding;
use super::paths::named;
use super::source::{Kind, Source, is_word, places};

/// What is a tool has threads, files and sockets of its own. Suites start servers, look at the machine
/// and write reports; the load itself goes through `net`.
const TOOLS: &[&str] = &[
    "crates/testkit/",
    "crates/acceptance/",
    "crates/load/src/suite",
    "crates/load/src/environment",
    "crates/load/src/compare/",
    "crates/load/src/report/browser.rs",
    "xtask/",
    "fuzz/",
];
/// The crate whose secret the system is.
const NET: &str = "crates/net/";

/// Paths that touch sockets, files, threads, clocks or a runtime.
const SYSTEM: &[&str] = &[
    "std::net::TcpStream",
    "std::net::TcpListener",
    "std::net::UdpSocket",
    "std::net::ToSocketAddrs",
    "std::os::unix::net",
    "std::os::fd",
    "std::fs",
    "std::thread",
    "std::process::Command",
    "std::time::SystemTime",
    "Instant::now",
    "SystemTime::now",
    "thread::spawn",
    "fs::read",
    "fs::write",
    "File::open",
    "File::create",
    "TcpStream::connect",
    "TcpListener::bind",
    "tokio",
    "rustix",
    "libc",
    "nix",
    "mio",
    "socket2",
];

/// Where requests and routes have no protocol.
const PROTOCOL_FREE: &[&str] = &["crates/engine/src/exchange", "crates/route/src"];
const PROTOCOLS: &[&str] = &["h1", "h2", "h3", "http1", "http2", "http3"];
const VERSIONS: &[&str] = &["HTTP/1", "HTTP/2", "HTTP/3", "http/1", "http/2", "http/3"];

/// Every rule about what one file reaches.
pub fn check(source: &Source) -> Vec<Finding> {
    let path = source.path.display().to_string();
    let mut findings = Vec::new();
    for at in places(&source.code, "unsafe") {
        let what = "`unsafe` in a file that is not listed".to_owned();
        findings.push(Finding::new("unsafe", &path, source.line_at(at), what));
    }
    if source.kind == Kind::Test {
        return findings;
    }
    if !path.starts_with(NET) && !TOOLS.iter().any(|tool| path.starts_with(tool)) {
        findings.extend(system(source, &path));
    }
    if PROTOCOL_FREE.iter().any(|free| path.starts_with(free)) {
        findings.extend(protocols(source, &path));
    }
    findings
}

fn system(source: &Source, path: &str) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for named in named(&source.code) {
        let Some(reached) = SYSTEM.iter().find(|system| begins(&named.path, system)) else {
            continue;
        };
        let line = source.line_at(named.at);
        if !findings.iter().any(|finding| finding.line == line) {
            let what = format!("`{reached}` belongs in net");
            findings.push(Finding::new("system", path, line, what));
        }
    }
    findings
}

/// Whether `path` is `prefix` or lies below it.
fn begins(path: &str, prefix: &str) -> bool {
    let exact = prefix.starts_with("std") || !prefix.contains("::");
    let rest = if exact {
        path.strip_prefix(prefix)
    } else {
        // `time::Instant::now` as well as `Instant::now`.
        path.find(prefix).map(|at| &path[at + prefix.len()..])
    };
    rest.is_some_and(|rest| !rest.bytes().next().is_some_and(is_word))
}

fn protocols(source: &Source, path: &str) -> Vec<Finding> {
    let words =
        PROTOCOLS.iter().flat_map(|name| places(&source.words, name).map(move |at| (at, name)));
    let versions = VERSIONS
        .iter()
        .flat_map(|name| source.words.match_indices(name).map(move |(at, _)| (at, name)));
    words
        .chain(versions)
        .map(|(at, name)| {
            let what = format!("`{name}`: a protocol's name where there is only one exchange");
            Finding::new("protocol", path, source.line_at(at), what)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::source::Source;
    use std::path::Path;

    #[test]
    fn finds_what_a_file_must_not_reach() {
        let engine = "crates/engine/src/exchange.rs";
        let table: [(&str, &str, &[&str]); 14] = [
            (engine, "use std::net::{IpAddr, TcpStream};", &["system"]),
            (engine, "use std::net::IpAddr;", &[]),
            (engine, "use std::{fs, io};", &["system"]),
            (engine, "let now = std::time::Instant::now();", &["system"]),
            (engine, "use std::time::Instant;", &[]),
            (engine, "use tokio::select;", &["system"]),
            (engine, "use tokio_util::x;", &[]),
            (engine, "// std::fs::read", &[]),
            ("crates/net/src/a.rs", "use std::fs;", &[]),
            ("xtask/src/a.rs", "use std::fs;", &[]),
            (engine, "unsafe { x() }", &["unsafe"]),
            (engine, "let x = \"HTTP/1.1\";", &["protocol"]),
            (engine, "use sluice_wire::h1::Decoder;", &["protocol"]),
            ("crates/wire/src/a.rs", "use crate::h1::Decoder;", &[]),
        ];
        for (path, text, rules) in table {
            let found = check(&Source::new(Path::new(path), text));
            assert_eq!(found.iter().map(|f| f.rule).collect::<Vec<_>>(), rules, "{path}: {text}");
        }
    }
}
