//! Pages that differ with each request: what compressing costs when nothing can be reused.

use std::process::Command;

use super::load::Run;
use super::measure::turns;
use super::options::Options;
use super::pages::{page, put, shape, start_origin};
use super::peers::{Bench, Peer};
use super::report::Row;
use super::server::{Server, Under};

/// What is asked for, and how: the default levels of the filter `compress`.
const CODINGS: [(&str, &str); 3] = [
    ("gzip 6", "accept-encoding: gzip"),
    ("br 5", "accept-encoding: br"),
    ("zstd 6", "accept-encoding: zstd"),
];

/// A page whose bytes are others each time.
const PATH: &str = "/fresh/list.json";

/// CPU time and size of a page of 24 KB that is compressed for each request; nginx beside it with gzip.
pub(super) fn measure(bench: &Bench, options: &Options) -> Result<Vec<Row>, String> {
    let origin = start_origin(bench)?;
    let of = |header| page(&origin, PATH, header);
    let mut entrants = vec![(Peer::Sluice, of(None)), (Peer::Nginx, of(None))];
    entrants.extend(CODINGS.iter().map(|(_, header)| (Peer::Sluice, of(Some(*header)))));
    entrants.push((Peer::Nginx, of(Some(CODINGS[0].1))));
    let runs = turns(bench, &entrants, options.rounds, shape(options))?;
    let last = entrants.len() - 1;
    let mut rows = Vec::new();
    let mut add = |what: &str, columns: [Option<usize>; 2], against: Option<usize>| {
        let unit = if against.is_some() { " against nginx" } else { " in µs" };
        let mut row = Row::new(
            &format!("page of 24 KB that differs each time, {what}: CPU time per request{unit}"),
            "",
        );
        for (peer, at) in [Peer::Sluice, Peer::Nginx].into_iter().zip(columns) {
            let Some(at) = at else { continue };
            let figure = match against {
                Some(base) => runs.ratio(at, base, Run::micros),
                None => runs.of(at, Run::micros),
            };
            put(&mut row, peer, figure);
        }
        rows.push(row);
    };
    add("not compressed", [Some(0), Some(1)], None);
    add("gzip 6", [Some(2), Some(last)], Some(last));
    add("gzip 6", [Some(2), Some(last)], None);
    add("br 5", [Some(3), None], None);
    add("zstd 6", [Some(4), None], None);
    rows.push(sizes(bench, &entrants)?);
    Ok(rows)
}

/// Bytes of one response in each encoding.
fn sizes(bench: &Bench, entrants: &[(Peer, super::peers::Role)]) -> Result<Row, String> {
    let mut row =
        Row::new("page of 24 KB that differs each time: bytes (gzip 6, br 5, zstd 6)", "");
    for peer in [Peer::Sluice, Peer::Nginx] {
        let mut found = Vec::new();
        for (_, role) in
            entrants.iter().filter(|(one, role)| *one == peer && role.header().is_some())
        {
            let server = Server::start(bench, peer, *role, Under::Nothing)?;
            found.push(size(&server)?);
            server.stop();
        }
        row.figures[super::pages::place(peer)] = found.join(", ");
    }
    Ok(row)
}

fn size(server: &Server) -> Result<String, String> {
    let header = server.header.unwrap_or_default();
    let output = Command::new("curl")
        .args(["-sS", "--fail", "-o", "/dev/null", "-w", "%{size_download}", "-H", header])
        .arg(server.url())
        .output()
        .map_err(|e| format!("curl: {e}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
