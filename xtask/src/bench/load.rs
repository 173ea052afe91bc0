//! Load: h2load and wrk, and many idle connections.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::server::Server;

/// Sends exactly so many requests over 50 kept-alive connections; an error unless all get 200.
pub fn requests(server: &Server, count: u64) -> Result<(), String> {
    let number = count.to_string();
    let url = server.url();
    let output = Command::new("timeout")
        .args(["300", "h2load", "--h1", "-n", &number, "-c", "50", "-t", "1", &url])
        .args(server.header.iter().flat_map(|header| ["-H", header]))
        .output()
        .map_err(|e| format!("h2load: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let good = parse_h2load(&text);
    if good == Some(count) {
        return Ok(());
    }
    Err(format!("only {} of {count} requests to {url} got a 2xx answer", good.unwrap_or(0)))
}

fn parse_h2load(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("status codes: "))?;
    line.split(' ').next()?.parse().ok()
}

/// What one run of wrk came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// Answers received.
    pub answers: f64,
    /// CPU seconds the server took for them.
    pub cpu: f64,
}

impl Run {
    /// CPU time per request in microseconds.
    pub fn micros(&self) -> f64 {
        self.cpu / self.answers * 1e6
    }
}

/// How wrk is run.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// Seconds of each run.
    pub seconds: u64,
    /// The CPU wrk is bound to, when there is more than one.
    pub cpu: Option<usize>,
    /// A script, for pipelining.
    pub script: Option<&'a Path>,
}

/// Runs wrk with 100 connections and reads the server's CPU time before and after.
pub fn wrk(server: &Server, shape: Shape<'_>) -> Result<Run, String> {
    let mut words: Vec<String> = Vec::new();
    if let Some(cpu) = shape.cpu {
        words.extend(["taskset".into(), "-c".into(), cpu.to_string()]);
    }
    words.extend(["wrk", "-t1", "-c100"].map(String::from));
    words.push(format!("-d{}s", shape.seconds));
    if let Some(script) = shape.script {
        words.extend(["-s".to_owned(), script.display().to_string()]);
    }
    words.extend(server.header.iter().flat_map(|line| ["-H".to_owned(), (*line).to_owned()]));
    words.push(server.url());
    let before = server.cpu_seconds()?;
    let output = Command::new(&words[0])
        .args(&words[1..])
        .output()
        .map_err(|e| format!("{}: {e}", words.join(" ")))?;
    let cpu = server.cpu_seconds()? - before;
    let text = String::from_utf8_lossy(&output.stdout);
    let answers = parse_wrk(&text).map_err(|why| format!("{}: {why}", words.join(" ")))?;
    Ok(Run { answers, cpu })
}

fn parse_wrk(text: &str) -> Result<f64, String> {
    if let Some(line) = text.lines().find(|line| line.contains("Non-2xx")) {
        return Err(line.trim().to_owned());
    }
    if let Some(line) = text.lines().find(|line| line.contains("Socket errors")) {
        // A timeout counts requests that were still under way at the end; the others are failures.
        let failed = line.split(',').take(3).any(|part| !part.trim_end().ends_with(" 0"));
        if failed {
            return Err(line.trim().to_owned());
        }
    }
    let line = text.lines().find(|line| line.contains(" requests in "));
    let count = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    count.filter(|count| *count > 0.0).ok_or_else(|| format!("no requests in {text:?}"))
}

/// Opens so many connections, has one request answered on each and keeps them.
pub fn idle_connections(server: &Server, count: usize) -> Result<Vec<TcpStream>, String> {
    let mut connections = Vec::with_capacity(count);
    for number in 0..count {
        let stream = exchange(server).map_err(|e| format!("connection {number}: {e}"))?;
        connections.push(stream);
    }
    Ok(connections)
}

fn exchange(server: &Server) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")?;
    let mut answer = [0; 1024];
    let count = stream.read(&mut answer)?;
    if !answer[..count].starts_with(b"HTTP/1.1 200 ") {
        return Err(std::io::Error::other(answer[..count].escape_ascii().to_string()));
    }
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::{parse_h2load, parse_wrk};

    #[test]
    fn reads_what_the_tools_print() {
        let h2load = "finished in 1s\nstatus codes: 20000 2xx, 0 3xx, 0 4xx, 0 5xx\n";
        assert_eq!(parse_h2load(h2load), Some(20_000));
        let wrk = "Running 3s test\n  12345 requests in 3.00s, 1.9MB read\nRequests/sec: 4115.00\n";
        assert_eq!(parse_wrk(wrk), Ok(12_345.0));
        let timeouts =
            "  9 requests in 3.00s\n  Socket errors: connect 0, read 0, write 0, timeout 4\n";
        assert_eq!(parse_wrk(timeouts), Ok(9.0));
        let errors =
            "  9 requests in 3.00s\n  Socket errors: connect 0, read 7, write 0, timeout 0\n";
        assert!(parse_wrk(errors).is_err());
        assert!(parse_wrk("  9 requests in 3.00s\n  Non-2xx or 3xx responses: 9\n").is_err());
        assert!(parse_wrk("unable to connect").is_err());
    }
}
