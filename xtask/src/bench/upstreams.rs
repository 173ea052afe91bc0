//! What the number of an upstream's servers costs, and what a slow one does to the others.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use super::load::{Run, Shape};
use super::options::Options;
use super::peers::{Bench, Group, Peer, Role, Rule};
use super::report::Row;
use super::server::{Server, Under};
use super::{column, load_cpu, measure, shown};

/// What a slow server takes for an answer.
const SLOW: Duration = Duration::from_secs(1);
/// Requests per second offered where one server is slow.
const RATE: u32 = 2_000;

/// CPU time per request for upstreams of several sizes.
pub(super) fn cpu(bench: &Bench, options: &Options) -> Result<Vec<Row>, String> {
    let cpu = load_cpu();
    let shape = Shape { seconds: options.seconds, cpu, script: None };
    let mut rows = Vec::new();
    for count in [1, 10, 1000] {
        let origins = origins(bench, count)?;
        let group = Group { port: origins.port, count, slow: None, rule: Rule::RoundRobin };
        let rounds = measure::rounds(bench, Role::Upstream(group), options.rounds, shape)?;
        let servers = if count == 1 { "1 server".to_owned() } else { format!("{count} servers") };
        let mut ratio = Row::new(&format!("CPU time per request against nginx, {servers}"), "");
        let mut micros = Row::new(&format!("CPU time per request in µs, {servers}"), "");
        for peer in &bench.peers {
            let against = rounds.ratio(*peer, Peer::Nginx, Run::micros);
            ratio.figures[column(*peer)] = against.map_or("-".to_owned(), shown);
            let absolute = rounds.of(*peer, Run::micros);
            micros.figures[column(*peer)] = absolute.map_or("-".to_owned(), shown);
        }
        rows.extend([ratio, micros]);
    }
    Ok(rows)
}

/// The p99 where one of four servers takes a second, at a constant rate.
pub(super) fn slow(bench: &Bench, options: &Options) -> Result<Vec<Row>, String> {
    let origins = origins(bench, 3)?;
    let slow = slow_origin().map_err(|why| format!("the slow origin: {why}"))?;
    let mut rows = Vec::new();
    for (name, rule) in [("round robin", Rule::RoundRobin), ("fewest requests", Rule::Least)] {
        let group = Group { port: origins.port, count: 3, slow: Some(slow), rule };
        let what = format!("one of four servers takes 1 s, {name}: p99 at {RATE}/s, in ms");
        let mut row = Row::new(&what, "");
        for peer in &bench.peers {
            let server = Server::start(bench, *peer, Role::Upstream(group), Under::Nothing)?;
            row.figures[column(*peer)] = open_loop(bench, &server, options.seconds)?;
        }
        rows.push(row);
    }
    Ok(rows)
}

fn origins(bench: &Bench, count: u16) -> Result<Server, String> {
    if !bench.peers.contains(&Peer::Nginx) {
        return Err("the origins are an nginx, which is not there".to_owned());
    }
    let under = load_cpu().map_or(Under::Nothing, Under::Cpu);
    Server::start(bench, Peer::Nginx, Role::Origins(count), under)
}

/// An origin that answers everything after a second, until this program ends; its port.
fn slow_origin() -> std::io::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // The end of a connection is the end of its thread.
            std::thread::spawn(move || drop(answer_slowly(stream)));
        }
    });
    Ok(port)
}

fn answer_slowly(mut stream: TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Ok(());
        }
        head.extend_from_slice(&piece[..count]);
        while let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            head.drain(..end + 4);
            std::thread::sleep(SLOW);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!")?;
        }
    }
}

/// The p99 as our own open loop sees it, counted from the moment each request was due.
fn open_loop(bench: &Bench, server: &Server, seconds: u64) -> Result<String, String> {
    let file = bench.scratch.join("open.json");
    let output = Command::new(&bench.sluice)
        .args(["bench", "-c", "1000", "-t", "1", "--warmup", "2s", "--rate", &format!("{RATE}/s")])
        .args(["-d", &format!("{}s", seconds.max(5)), "--json", &file.display().to_string()])
        .arg(server.url())
        .output()
        .map_err(|e| format!("sluice bench: {e}"))?;
    if !output.status.success() {
        return Err(format!("sluice bench: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let p99 = percentile(&text, "99.0").ok_or("the result names no p99")?;
    let sustained = if text.contains("\"sustained\": true") { "" } else { ", not sustained" };
    Ok(format!("{:.1}{sustained}", p99 / 1000.0))
}

/// A corrected percentile of a result, in microseconds.
fn percentile(text: &str, wanted: &str) -> Option<f64> {
    let latency = text.split("\"latency\"").nth(1)?;
    let mut words = latency.split([' ', '\n', ',', '[', ']']).filter(|word| !word.is_empty());
    words.find(|word| *word == wanted)?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn finds_the_corrected_percentile() {
        let text = "\"seconds\": 99.0,\n\"latency\": {\n\"percentiles\": [\n [\n 50.0,\n 102\n ],\n \
                    [\n 99.0,\n 3517\n ]\n]},\n\"uncorrected\": {\"percentiles\": [[99.0, 7]]}";
        assert_eq!(percentile(text, "99.0"), Some(3517.0));
        assert_eq!(percentile("{}", "99.0"), None);
    }
}
