//! The measurements themselves: each takes a server through its paces and gives one figure.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::load::{self, Run, Shape};
use super::peers::{Bench, Peer, Role};
use super::server::{Server, Under};

const WARM_UP: u64 = 2_000;
const COUNTED: u64 = 20_000;

/// User-space instructions per request, under callgrind.
pub fn instructions(bench: &Bench, peer: Peer, role: Role) -> Result<f64, String> {
    instructions_by(bench, (peer, role), load::requests)
}

/// The same by a load of another kind, which is told how many requests to send.
pub fn instructions_by(
    bench: &Bench,
    (peer, role): (Peer, Role),
    load: impl Fn(&Server, u64) -> Result<(), String>,
) -> Result<f64, String> {
    let out = bench.scratch.join(format!("callgrind-{}", std::process::id()));
    clear(&out);
    let server = Server::start(bench, peer, role, Under::Callgrind(&out))?;
    // The warm-up may find a server that still fills its pools.
    let _ = load(&server, WARM_UP);
    control("-z", server.pid())?;
    load(&server, COUNTED)?;
    control("-d", server.pid())?;
    let total = dumped(&out);
    // Not before the figures are read: its end is counted, too.
    drop(server);
    clear(&out);
    total.map(|total| total / COUNTED as f64)
}

fn control(what: &str, pid: i32) -> Result<(), String> {
    let output = Command::new("callgrind_control")
        .args([what, &pid.to_string()])
        .output()
        .map_err(|e| format!("callgrind_control: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("callgrind_control {what}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// The dump has a number behind its name; it is there once it has its totals.
fn dumped(out: &Path) -> Result<f64, String> {
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        for number in 1..4 {
            let text = std::fs::read_to_string(format!("{}.{number}", out.display()));
            let total = text.ok().and_then(|text| parse_totals(&text));
            if let Some(total) = total.filter(|total| *total > 0.0) {
                return Ok(total);
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err("callgrind wrote no figures".to_owned())
}

/// The total of a file that callgrind wrote.
pub fn parse_totals(text: &str) -> Option<f64> {
    let line = text.lines().rev().find_map(|line| line.strip_prefix("totals: "))?;
    line.split_whitespace().next()?.parse().ok()
}

fn clear(out: &Path) {
    let (Some(folder), Some(name)) = (out.parent(), out.file_name()) else { return };
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&*name.to_string_lossy()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Runs of several servers in turn, round after round.
#[derive(Debug)]
pub struct Rounds {
    /// The servers, in the order of the runs.
    pub peers: Vec<Peer>,
    /// One row for each round, one run for each server.
    pub rows: Vec<Vec<Run>>,
}

/// Has each server take wrk's load in turn, each alone on the first CPU.
pub fn rounds(bench: &Bench, role: Role, count: usize, shape: Shape<'_>) -> Result<Rounds, String> {
    let entrants: Vec<_> = bench.peers.iter().map(|peer| (*peer, role)).collect();
    let Paired(rows) = turns(bench, &entrants, count, shape)?;
    Ok(Rounds { peers: bench.peers.clone(), rows })
}

/// What was measured in turn, round after round: one row for each round, one column for each of those compared.
#[derive(Debug)]
pub struct Paired<T>(pub Vec<Vec<T>>);

impl<T> Paired<T> {
    /// A figure of one column over the rounds.
    pub fn of(&self, at: usize, figure: impl Fn(&T) -> f64) -> Option<Spread> {
        spread(self.0.iter().filter_map(|row| row.get(at)).map(figure).collect())
    }

    /// A figure of one column in units of another's in the same round.
    pub fn ratio(&self, at: usize, base: usize, figure: impl Fn(&T) -> f64) -> Option<Spread> {
        let pairs = self.0.iter().filter_map(|row| Some((row.get(at)?, row.get(base)?)));
        spread(pairs.map(|(one, other)| figure(one) / figure(other)).collect())
    }
}

/// Has each of these take wrk's load in turn, each alone on the first CPU if the load is bound to another.
pub fn turns(
    bench: &Bench,
    entrants: &[(Peer, Role)],
    count: usize,
    shape: Shape<'_>,
) -> Result<Paired<Run>, String> {
    let cpu = shape.cpu.map_or(Under::Nothing, |_| Under::Cpu(0));
    let mut servers = Vec::new();
    for (peer, role) in entrants {
        servers.push(Server::start(bench, *peer, *role, cpu)?);
    }
    for server in &servers {
        load::wrk(server, Shape { seconds: 1, ..shape })?;
    }
    let mut rows = Vec::new();
    for _ in 0..count {
        let row: Result<Vec<Run>, String> =
            servers.iter().map(|server| load::wrk(server, shape)).collect();
        rows.push(row?);
    }
    Ok(Paired(rows))
}

/// A median and how far the values around it went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle value.
    pub median: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

/// The median of some values; `None` of none.
pub fn spread(mut values: Vec<f64>) -> Option<Spread> {
    values.sort_by(f64::total_cmp);
    let (least, most) = (*values.first()?, *values.last()?);
    let middle = values.len() / 2;
    let median = if values.len() % 2 == 1 {
        values[middle]
    } else {
        (values[middle - 1] + values[middle]) / 2.0
    };
    Some(Spread { median, least, most })
}

impl Rounds {
    /// A figure of one server over the rounds.
    pub fn of(&self, peer: Peer, figure: impl Fn(&Run) -> f64) -> Option<Spread> {
        let at = self.peers.iter().position(|known| *known == peer)?;
        spread(self.rows.iter().map(|row| figure(&row[at])).collect())
    }

    /// A figure of one server in units of another's in the same round.
    pub fn ratio(&self, peer: Peer, base: Peer, figure: impl Fn(&Run) -> f64) -> Option<Spread> {
        let at = |wanted| self.peers.iter().position(|known| *known == wanted);
        let (one, other) = (at(peer)?, at(base)?);
        spread(self.rows.iter().map(|row| figure(&row[one]) / figure(&row[other])).collect())
    }
}

/// Growth of the resident size per idle kept-alive connection, in KiB.
pub fn memory(bench: &Bench, peer: Peer, connections: usize) -> Result<f64, String> {
    let server = Server::start(bench, peer, Role::Direct, Under::Nothing)?;
    // The first connections bring code and pools into memory once; they stay open, so they are in both figures.
    let first = load::idle_connections(&server, 100)?;
    let before = server.resident()?;
    let open = load::idle_connections(&server, connections)?;
    let after = server.resident()?;
    drop((first, open));
    Ok((after - before) / connections as f64)
}

/// System calls per request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calls {
    /// All but waiting for events.
    pub work: f64,
    /// Waiting for events, which many connections share.
    pub waiting: f64,
}

/// Counts system calls with strace.
pub fn calls(bench: &Bench, peer: Peer, role: Role) -> Result<Calls, String> {
    // Twice with different numbers of requests: the difference has no start-up and no end in it.
    let few = count_calls(bench, peer, role, WARM_UP)?;
    let many = count_calls(bench, peer, role, WARM_UP + COUNTED)?;
    let per = |few: f64, many: f64| (many - few) / COUNTED as f64;
    Ok(Calls { work: per(few.work, many.work), waiting: per(few.waiting, many.waiting) })
}

fn count_calls(bench: &Bench, peer: Peer, role: Role, count: u64) -> Result<Calls, String> {
    let out = bench.scratch.join(format!("strace-{}", std::process::id()));
    let server = Server::start(bench, peer, role, Under::Strace(&out))?;
    let sent = load::requests(&server, count);
    server.stop();
    sent?;
    let text = std::fs::read_to_string(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    let _ = std::fs::remove_file(&out);
    Ok(parse_strace(&text))
}

fn parse_strace(text: &str) -> Calls {
    let mut counted = Calls { work: 0.0, waiting: 0.0 };
    for line in text.lines() {
        // "% time, seconds, usecs/call, calls, [errors,] syscall"
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(calls), Some(name)) =
            (words.get(3).and_then(|n| n.parse::<f64>().ok()), words.last())
        else {
            continue;
        };
        match *name {
            "total" => {}
            "epoll_wait" | "epoll_pwait" | "epoll_pwait2" | "poll" => counted.waiting += calls,
            _ => counted.work += calls,
        }
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::{Calls, Paired, Rounds, Run, parse_strace, parse_totals, spread};
    use crate::bench::peers::Peer;

    #[test]
    fn medians_and_paired_ratios() {
        assert_eq!(spread(vec![]), None);
        let three = spread(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!((three.median, three.least, three.most), (2.0, 1.0, 3.0));
        assert_eq!(spread(vec![4.0, 1.0]).unwrap().median, 2.5);
        let run = |cpu| Run { answers: 1.0, cpu };
        // The machine was half as fast in the second round: the ratios do not care.
        let rows = vec![vec![run(1.0), run(2.0)], vec![run(2.0), run(4.0)]];
        let rounds = Rounds { peers: vec![Peer::Sluice, Peer::Nginx], rows };
        let ratio = rounds.ratio(Peer::Sluice, Peer::Nginx, Run::micros).unwrap();
        assert_eq!((ratio.median, ratio.least, ratio.most), (0.5, 0.5, 0.5));
        let paired = Paired(vec![vec![run(1.0), run(2.0)], vec![run(2.0), run(4.0)]]);
        assert_eq!(paired.ratio(0, 1, Run::micros).unwrap().median, 0.5);
        assert_eq!(paired.of(1, |run| run.cpu).unwrap().median, 3.0);
        assert_eq!((paired.ratio(0, 2, Run::micros), paired.of(2, Run::micros)), (None, None));
        assert_eq!(rounds.ratio(Peer::Haproxy, Peer::Nginx, Run::micros), None);
    }

    #[test]
    fn reads_callgrind_and_strace() {
        assert_eq!(parse_totals("events: Ir\nsummary: 5\n\ntotals: 61440\n"), Some(61_440.0));
        let table = "% time     seconds  usecs/call     calls    errors syscall\n\
            ------ ----------- ----------- --------- --------- ----------------\n\
            \x20 50.00    0.000010           1     40000        12 read\n\
            \x20 25.00    0.000005           1     20000           write\n\
            \x20 25.00    0.000005           1       900           epoll_wait\n\
            100.00    0.000020           1     60900        12 total\n";
        assert_eq!(parse_strace(table), Calls { work: 60_000.0, waiting: 900.0 });
    }
}
