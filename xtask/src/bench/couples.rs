//! Workers that have clients of their own: what two of them come to against one.
//!
//! A client whose connections lie with both workers wakes both, on whichever CPU they are, and is woken by both; and a CPU
//! whose neighbour is idle is faster than one whose neighbour is busy. Both cost every server on a machine whose CPUs the
//! load shares, and say nothing of the server. So a client here speaks with one worker alone, as the next machine's would;
//! worker, client and origin share a CPU with nobody else; and what one worker does is seen beside another server that is
//! as busy on the other CPU.

use std::collections::HashMap;
use std::io::{Error, Read, Result, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, Pid, sched_setaffinity};

use super::load::Run;
use super::peers::{Bench, Page, Peer, Role};
use super::server::{Server, Under};

/// Connections of each client.
const CONNECTIONS: usize = 50;

/// Slices of a second.
const SLICES: u64 = 10;

/// Connections that are opened to find so many for each worker, at most.
const TRIES: usize = 2_000;

/// Heads are shorter than this.
const HEAD: usize = 8 << 10;

/// What says which worker a connection lies with.
const WORKER: &str = "/worker";

/// Where clients on the second CPU find the origin that is there, too.
const OTHER: &str = "/other/";

/// A server and a client for each of its workers.
pub struct Couples {
    server: Server,
    clients: Vec<Client>,
}

/// Connections that lie with one worker.
struct Client {
    /// The CPU of both.
    cpu: usize,
    streams: Vec<TcpStream>,
    request: String,
    /// Bytes of content that each answer has; heads may differ by an age.
    content: usize,
}

impl Couples {
    /// Starts a server with as many workers as the page wants, on as many CPUs from this one on.
    pub fn start(bench: &Bench, page: Page, cpu: usize) -> std::result::Result<Self, String> {
        let server = Server::start(bench, Peer::Sluice, Role::Page(page), Under::Nothing)?;
        let failed = |e: Error| format!("clients of {}: {e}", server.url());
        bind_workers(&server, page.workers, cpu).map_err(failed)?;
        let clients = clients(&server, page.workers, cpu).map_err(failed)?;
        Ok(Self { server, clients })
    }
}

/// Has the clients of both sides ask for so many seconds, one side after the other in short slices: what a busy host
/// leaves to this machine changes by the second, and both sides have the same of it.
pub fn take_turns(
    sides: &mut [Vec<Couples>; 2],
    seconds: u64,
) -> std::result::Result<[Run; 2], String> {
    let before = used(sides)?;
    let mut answers = [0, 0];
    for slice in 0..usize::try_from(seconds * SLICES).unwrap_or(0) {
        for side in [slice % 2, (slice + 1) % 2] {
            let asked = ask_at_once(&mut sides[side]);
            answers[side] += asked.map_err(|e| format!("clients: {e}"))?;
        }
    }
    let after = used(sides)?;
    let run = |side: usize| Run { answers: answers[side] as f64, cpu: after[side] - before[side] };
    Ok([run(0), run(1)])
}

/// CPU seconds that the servers of each side have taken so far. A server that nobody asks takes none.
fn used(sides: &[Vec<Couples>; 2]) -> std::result::Result<[f64; 2], String> {
    let of = |side: &[Couples]| side.iter().map(|it| it.server.cpu_seconds()).sum();
    let used: [std::result::Result<f64, String>; 2] = [of(&sides[0]), of(&sides[1])];
    let [one, other] = used;
    Ok([one?, other?])
}

/// Has all clients of a side ask for a slice of time: each asks on all of its connections, then waits for all answers.
fn ask_at_once(side: &mut [Couples]) -> Result<u64> {
    let end = Instant::now() + Duration::from_millis(1000 / SLICES);
    std::thread::scope(|scope| {
        let clients = side.iter_mut().flat_map(|it| &mut it.clients);
        let started: Vec<_> =
            clients.map(|client| scope.spawn(move || client.ask_until(end))).collect();
        let panicked = |_| Err(Error::other("a client panicked"));
        started.into_iter().map(|it| it.join().unwrap_or_else(panicked)).sum()
    })
}

/// Gives each worker a CPU, the first one this.
fn bind_workers(server: &Server, workers: usize, cpu: usize) -> Result<()> {
    let mut bound = 0;
    for task in std::fs::read_dir(format!("/proc/{}/task", server.pid()))? {
        let task = task?;
        let name = std::fs::read_to_string(task.path().join("comm"))?;
        let number = name.trim().strip_prefix("sluice-").and_then(|number| number.parse().ok());
        let worker: Option<usize> = number;
        let thread = task.file_name().to_str().and_then(|id| id.parse().ok());
        if let (Some(worker), Some(thread)) = (worker, thread.and_then(Pid::from_raw)) {
            bind(Some(thread), cpu + worker)?;
            bound += 1;
        }
    }
    match bound == workers {
        true => Ok(()),
        false => Err(Error::other(format!("{bound} threads of {workers} workers"))),
    }
}

/// Binds a thread, or else the calling one, to a CPU.
fn bind(thread: Option<Pid>, cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(thread, &set)?)
}

/// A client for each worker: connections are opened until each has enough; those beyond are closed.
fn clients(server: &Server, workers: usize, cpu: usize) -> Result<Vec<Client>> {
    let mut found: HashMap<usize, Vec<TcpStream>> = HashMap::new();
    let is_full = |streams: &Vec<TcpStream>| streams.len() == CONNECTIONS;
    for _ in 0..TRIES {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let worker = ask(&mut stream, &request(server, WORKER))?;
        let worker = String::from_utf8_lossy(&worker).parse();
        let streams = found.entry(worker.map_err(Error::other)?).or_default();
        if !is_full(streams) {
            streams.push(stream);
        }
        if found.values().filter(|streams| is_full(streams)).count() == workers {
            return found
                .into_iter()
                .map(|(worker, all)| client(server, cpu + worker, all))
                .collect();
        }
    }
    Err(Error::other(format!("not {CONNECTIONS} connections of each of {workers} workers")))
}

fn client(server: &Server, cpu: usize, mut streams: Vec<TcpStream>) -> Result<Client> {
    // Each CPU has an origin of its own.
    let path = match cpu {
        0 => server.path.to_owned(),
        _ => server.path.replace("/passed/", OTHER),
    };
    let request = request(server, &path);
    let mut content = 0;
    // Every worker keeps by then what it keeps.
    for stream in &mut streams {
        content = ask(stream, &request)?.len();
    }
    Ok(Client { cpu, streams, request, content })
}

fn request(server: &Server, path: &str) -> String {
    let header = server.header.map(|line| format!("{line}\r\n")).unwrap_or_default();
    format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{header}\r\n")
}

/// Asks once; the content of the answer, as it came.
fn ask(stream: &mut TcpStream, request: &str) -> Result<Vec<u8>> {
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut piece = [0; 16 << 10];
    loop {
        let count = stream.read(&mut piece)?;
        answer.extend_from_slice(piece.get(..count).unwrap_or_default());
        if let Some(head) = head_of_whole(&answer) {
            return Ok(answer.split_off(head));
        }
        if count == 0 {
            return Err(Error::other("the server closed a connection"));
        }
    }
}

/// The length of an answer's head, once the answer is whole.
fn head_of_whole(answer: &[u8]) -> Option<usize> {
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(answer.get(..head)?).to_ascii_lowercase();
    let whole = match text.lines().find_map(|line| line.strip_prefix("content-length: ")) {
        Some(length) => length.trim().parse() == Ok(answer.len() - head),
        // What is not kept yet comes in chunks.
        None => answer.ends_with(b"\r\n0\r\n\r\n"),
    };
    whole.then_some(head)
}

impl Client {
    fn ask_until(&mut self, end: Instant) -> Result<u64> {
        bind(None, self.cpu)?;
        let mut answers = 0;
        let mut room = vec![0; self.content + HEAD];
        while Instant::now() < end {
            for stream in &mut self.streams {
                stream.write_all(self.request.as_bytes())?;
            }
            for stream in &mut self.streams {
                read_answer(stream, &mut room, self.content)?;
                answers += 1;
            }
        }
        Ok(answers)
    }
}

/// Reads an answer with so many bytes of content.
fn read_answer(stream: &mut TcpStream, room: &mut [u8], content: usize) -> Result<()> {
    let mut there = 0;
    loop {
        let count = stream.read(room.get_mut(there..).unwrap_or_default())?;
        there += count;
        let answer = room.get(..there).unwrap_or_default();
        let head = answer.split_at_checked(there.saturating_sub(content)).map(|(head, _)| head);
        if head.is_some_and(|head| head.ends_with(b"\r\n\r\n")) {
            break;
        }
        if count == 0 {
            return Err(Error::other("an answer ended in the middle"));
        }
    }
    if room.starts_with(b"HTTP/1.1 200 ") {
        return Ok(());
    }
    Err(Error::other(room.get(..there).unwrap_or_default().escape_ascii().to_string()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::{head_of_whole, read_answer};

    #[test]
    fn an_answer_may_come_in_pieces() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut other = listener.accept().unwrap().0;
        let mut room = [0; 100];
        for (pieces, good) in [
            (&["HTTP/1.1 200 OK\r\nAge: 1\r\n\r\nabc"][..], true),
            (&["HTTP/1.1 200 OK\r\nAge: 10\r\n\r", "\na", "bc"], true),
            (&["HTTP/1.1 500 No\r\n\r\nabc"], false),
        ] {
            let pieces: Vec<String> = pieces.iter().map(ToString::to_string).collect();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for piece in &pieces {
                        other.write_all(piece.as_bytes()).unwrap();
                    }
                });
                assert_eq!(read_answer(&mut stream, &mut room, 3).is_ok(), good, "{pieces:?}");
            });
        }
        drop(other);
        assert!(read_answer(&mut stream, &mut room, 3).is_err());
    }

    #[test]
    fn an_answer_is_whole_when_its_content_is_there() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(head_of_whole(text), Some(38));
        for part in [&text[..40], &text[..30], b"HTTP/1.1 200 OK\r\n\r\n"] {
            assert_eq!(head_of_whole(part), None);
        }
        let chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
        assert_eq!(head_of_whole(chunks), Some(47));
        assert_eq!(head_of_whole(&chunks[..chunks.len() - 1]), None);
    }
}
