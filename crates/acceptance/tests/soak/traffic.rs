//! The clients of a soak: each kind has a thread and a rate of its own, and compares what it gets.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sluice_acceptance::http2::{Answered, Http2Client};
use sluice_acceptance::websocket::{Client, More, Opcode, WAYS};
use sluice_message::BodyLength;
use sluice_testkit::{Asked, ByteScript, Job, Response};
use sluice_wire::h2::End;

use crate::gateway::{Gateway, body_of, length_of};

/// What one kind of client has seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Count {
    pub(crate) name: &'static str,
    /// Whole responses, every byte as it was sent.
    pub(crate) good: u64,
    /// Errors that say so: 5xx, connections that broke.
    pub(crate) failed: u64,
    /// How often each of these failures happened.
    pub(crate) reasons: BTreeMap<String, u64>,
    /// What must not be: other bodies than those that were sent. The first few.
    pub(crate) wrong: Vec<String>,
}

/// Why a request was not good.
enum Failure {
    /// It failed and says so.
    Failed(String),
    /// What came is not what was sent.
    Wrong(String),
}

type Outcome = Result<(), Failure>;

/// Where the gateway is.
#[derive(Clone)]
struct Target {
    web: String,
    secure: String,
}

/// Connections that a kind of client keeps between its requests.
#[derive(Default)]
struct Kept {
    http1: Option<ByteScript>,
    http2: Option<Http2Client>,
}

/// A kind of client: its name, how often it acts, and what it does.
type Kind = (&'static str, Duration, fn(&Target, &mut Kept, u64) -> Outcome);

const KINDS: &[Kind] = &[
    ("HTTP/1.1, kept connections", Duration::from_millis(25), kept),
    ("HTTP/1.1, new connections", Duration::from_millis(60), fresh),
    ("HTTP/1.1, clients that leave", Duration::from_millis(250), leaving),
    ("HTTP/1.1, malformed requests", Duration::from_millis(250), malformed),
    ("HTTP/1.1, uploads", Duration::from_millis(250), upload),
    ("HTTP/2, five streams at once", Duration::from_millis(150), streams),
    ("WebSocket", Duration::from_millis(400), tunnel),
    ("gRPC", Duration::from_millis(200), grpc),
    ("cache, 2 000 resources", Duration::from_millis(25), cached),
    ("compression", Duration::from_millis(200), compressed),
    ("TLS, 40 requests each", Duration::from_millis(2_500), encrypted),
];

/// All clients.
pub(crate) struct Traffic(Vec<JoinHandle<Count>>);

impl Traffic {
    pub(crate) fn start(gateway: &Gateway, stop: &Arc<AtomicBool>) -> Self {
        let target =
            Target { web: gateway.sluice.address("web"), secure: gateway.sluice.address("secure") };
        let start = |kind: &Kind| {
            let (kind, target, stop) = (*kind, target.clone(), Arc::clone(stop));
            std::thread::spawn(move || act(kind, &target, &stop))
        };
        Self(KINDS.iter().map(start).collect())
    }

    /// Waits until all have stopped.
    pub(crate) fn join(self) -> Vec<Count> {
        self.0.into_iter().map(|thread| thread.join().unwrap()).collect()
    }
}

fn act((name, every, act): Kind, target: &Target, stop: &AtomicBool) -> Count {
    let mut count = Count { name, ..Count::default() };
    let mut kept = Kept::default();
    let mut due = Instant::now();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        // The clients of the tests panic when a connection breaks.
        let outcome = catch_unwind(AssertUnwindSafe(|| act(target, &mut kept, number)));
        match outcome.unwrap_or_else(|_| Err(Failure::Failed("broken off".to_owned()))) {
            Ok(()) => count.good += 1,
            Err(failure) => {
                kept = Kept::default();
                count.failed += 1;
                match failure {
                    Failure::Failed(reason) => *count.reasons.entry(reason).or_default() += 1,
                    Failure::Wrong(what) if count.wrong.len() < 10 => count.wrong.push(what),
                    Failure::Wrong(_) => {}
                }
            }
        }
        // A rate, not a pause: but what was missed is not made up for.
        due = (due + every).max(Instant::now());
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    count
}

/// Judges a response by its path.
fn judge(path: &str, status: u16, body: &[u8]) -> Outcome {
    if status >= 500 {
        return Err(Failure::Failed(status.to_string()));
    }
    let expected = match path.strip_prefix("/lua/") {
        Some(_) => format!("lua {path}").into_bytes(),
        None if path == "/files/page.txt" => body_of(path, 100 * 1024),
        None => body_of(path, length_of(path)),
    };
    if (status, body) == (200, &expected) {
        return Ok(());
    }
    let begin = body.get(..80).unwrap_or(body).escape_ascii();
    Err(Failure::Wrong(format!("{path}: {status}, {} bytes, {begin}", body.len())))
}

fn send(script: &mut ByteScript, path: &str, headers: &str) -> Result<Response, Failure> {
    script.send(format!("GET {path} HTTP/1.1\r\nHost: soak.test\r\n{headers}\r\n"));
    script.read_response(Asked::Get).map_err(|failure| {
        let text = failure.to_string();
        Failure::Failed(text.split(" after ").next().unwrap_or_default().to_owned())
    })
}

fn path(number: u64) -> String {
    match number % 4 {
        0 => format!("/plain/{number}"),
        1 => format!("/signed/{number}"),
        2 => format!("/lua/{}", number % 100),
        _ => "/files/page.txt".to_owned(),
    }
}

fn kept(target: &Target, kept: &mut Kept, number: u64) -> Outcome {
    let path = path(number);
    let script = kept.http1.get_or_insert_with(|| ByteScript::connect(&target.web));
    let client = format!("X-Client: {}\r\n", number % 3_000);
    let response = send(script, &path, &client)?;
    if response.fields.has_token("connection", "close") || number.is_multiple_of(500) {
        kept.http1 = None;
    }
    judge(&path, response.status, &response.body)
}

fn fresh(target: &Target, _: &mut Kept, number: u64) -> Outcome {
    let path = path(number);
    let mut script = ByteScript::connect(&target.web);
    let response = send(&mut script, &path, "Connection: close\r\n")?;
    judge(&path, response.status, &response.body)
}

/// Asks for much and goes while it comes, or before.
fn leaving(target: &Target, _: &mut Kept, number: u64) -> Outcome {
    let mut script = ByteScript::connect(&target.web);
    script.send(format!("GET /large/{number} HTTP/1.1\r\nHost: soak.test\r\n\r\n"));
    if number.is_multiple_of(2) {
        let read = script.read_exactly(4_000);
        read.map_err(|_| Failure::Failed("broken off".to_owned()))?;
    }
    script.reset();
    Ok(())
}

fn malformed(target: &Target, _: &mut Kept, number: u64) -> Outcome {
    let requests = [
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "\x16\x03\x01\x02\0\x01\0",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ];
    let request = requests[number as usize % requests.len()];
    let mut script = ByteScript::connect(&target.web);
    let status = script.send(request).finish_sending().read_response(Asked::Get);
    match status.map(|response| response.status) {
        Ok(400) | Err(_) => Ok(()),
        Ok(status) => Err(Failure::Wrong(format!("{status} for {request:?}"))),
    }
}

fn upload(target: &Target, _: &mut Kept, number: u64) -> Outcome {
    let body = body_of(&format!("/upload/{number}"), 1_000 + (number as usize * 37_000) % 500_000);
    let mut script = ByteScript::connect(&target.web);
    let head = "POST /upload HTTP/1.1\r\nHost: soak.test\r\nConnection: close\r\n";
    if number.is_multiple_of(2) {
        script.send(format!("{head}Content-Length: {}\r\n\r\n", body.len()));
        script.send_pieces(&body, 16_000);
    } else {
        script.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n"));
        for piece in body.chunks(10_000) {
            let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
            script.send(chunk);
        }
        script.send("0\r\n\r\n");
    }
    let response = script.read_response(Asked::Get);
    match response.map_err(|_| Failure::Failed("broken off".to_owned()))? {
        response if response.status >= 500 => Err(Failure::Failed(response.status.to_string())),
        response if response.status == 200 && response.body == body => Ok(()),
        response => {
            Err(Failure::Wrong(format!("{}, {} bytes", response.status, response.body.len())))
        }
    }
}

/// Four requests and one that is given up, on one connection.
fn streams(target: &Target, kept: &mut Kept, number: u64) -> Outcome {
    let mut client = kept.http2.take().unwrap_or_else(|| Http2Client::connect(&target.web));
    let paths: Vec<String> = (0..4).map(|at| path(number * 4 + at)).collect();
    let streams: Vec<_> =
        paths.iter().map(|it| client.begin(("GET", it), &[], BodyLength::Empty)).collect();
    let left = format!("/large/{number}");
    let left = client.begin(("GET", &left), &[], BodyLength::Empty);
    client.reset(left);
    let answers: Vec<Answered> = streams.into_iter().map(|stream| client.wait(stream)).collect();
    if number % 100 != 99 {
        kept.http2 = Some(client);
    }
    for (path, answer) in paths.iter().zip(answers) {
        if answer.reset.is_some_and(|_| answer.content.len() < length_of(path)) {
            return Err(Failure::Failed("reset".to_owned()));
        }
        judge(path, answer.status(), &answer.content)?;
    }
    Ok(())
}

fn tunnel(target: &Target, _: &mut Kept, number: u64) -> Outcome {
    let mut client = Client::open(WAYS[number as usize % 2], &target.web);
    for _ in 0..3 {
        let payload = body_of("/chat", 1_000 + number as usize % 5_000);
        client.send_frame(Opcode::Binary, More::No, &payload);
        if client.read_frame().payload != payload {
            return Err(Failure::Wrong("another message".to_owned()));
        }
    }
    // Some end as they should, some break off.
    if !number.is_multiple_of(3) {
        client.send_frame(Opcode::Close, More::No, b"\x03\xE8");
        client.read_frame();
        client.finish();
        client.read_to_end();
    } else {
        client.reset();
    }
    Ok(())
}

fn grpc(target: &Target, kept: &mut Kept, number: u64) -> Outcome {
    let client = kept.http2.get_or_insert_with(|| Http2Client::connect(&target.web));
    let headers = [("content-type", "application/grpc"), ("te", "trailers")];
    let stream = client.begin(("POST", "/soak.Echo/Say"), &headers, BodyLength::Framed);
    let text = number.to_string();
    let length = text.len() as u8;
    let message = [&[0, 0, 0, 0, length], text.as_bytes()].concat();
    client.send(stream, &message, End::Stream);
    let answer = client.wait(stream);
    let status = answer.trailers.iter().find(|(name, _)| name == "grpc-status");
    match status.map(|(_, value)| value.as_str()) {
        Some("0") if answer.content == message => Ok(()),
        Some("0") => Err(Failure::Wrong(format!("{:?}", answer.content))),
        status => Err(Failure::Failed(format!("{} {status:?}", answer.status()))),
    }
}

fn cached(target: &Target, kept: &mut Kept, number: u64) -> Outcome {
    // Some are asked for often, the others in turn: 16 MB for a cache of four, with a disk of 32.
    let which =
        if number.is_multiple_of(2) { number % 40 } else { number.wrapping_mul(7_919) % 2_000 };
    let path = format!("/cached/{which}");
    let script = kept.http1.get_or_insert_with(|| ByteScript::connect(&target.web));
    let response = send(script, &path, "")?;
    judge(&path, response.status, &response.body)
}

fn compressed(target: &Target, kept: &mut Kept, number: u64) -> Outcome {
    let coding = ["br", "zstd", "gzip"][number as usize % 3];
    let script = kept.http1.get_or_insert_with(|| ByteScript::connect(&target.web));
    let headers = format!("Accept-Encoding: {coding}\r\n");
    let response = send(script, &format!("/text/{number}"), &headers)?;
    if response.status >= 500 {
        return Err(Failure::Failed(response.status.to_string()));
    }
    match response.fields.first("content-encoding") {
        Some(found) if found == coding && response.body.len() < 4_000 => Ok(()),
        found => Err(Failure::Wrong(format!("{found:?}, {} bytes", response.body.len()))),
    }
}

/// The load generator: new connections, with and without tickets, over both versions of HTTP.
fn encrypted(target: &Target, _: &mut Kept, number: u64) -> Outcome {
    let url = format!("https://{}/plain/{number}", target.secure);
    let more: &[&str] = match number % 3 {
        0 => &["--no-keepalive"],
        1 => &["--no-keepalive", "--resume"],
        _ => &["--http2", "--streams", "4"],
    };
    let words = ["bench", "-c", "2", "-t", "1", "--rate", "20/s", "-n", "40", "--insecure"];
    let job = Job::start(&[&words, more, &[&url]].concat(), std::path::Path::new("/"));
    let finished = job.finish(Duration::from_secs(60));
    // Two of forty may be failures of servers that are being restarted, as with the other clients.
    let errors = finished.stdout.lines().find_map(|line| line.strip_prefix("Errors"));
    match errors.unwrap_or(&finished.stderr).trim() {
        "none" | "unexpected status: 1" | "unexpected status: 2" => Ok(()),
        errors => Err(Failure::Failed(errors.to_owned())),
    }
}
