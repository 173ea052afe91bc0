//! Many clients want one cold object: one request goes to the origin, and whatever becomes of it, nobody gets half
//! for whole.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sluice_acceptance::filters::{ask, ask_http2};
use sluice_acceptance::{config, metric};
use sluice_testkit::{After, Exchange, Gate, Origin, Scratch, Sluice};

/// Large enough that it comes in many pieces.
const SIZE: usize = 300_000;

fn gateway(origin: &Origin, rest: &str) -> Sluice {
    let address = origin.address();
    Sluice::start(&format!(
        "workers = 2\n{}",
        config(&format!(
            "[filter.pages.cache]\nmemory = \"16MiB\"\nwait = \"30s\"\n{rest}\n\
             [[route]]\npath = \"/*\"\nproxy = \"{address}\"\nfilters = [\"pages\"]\n"
        ))
    ))
}

fn outcome(gateway: &Sluice, outcome: &str) -> u64 {
    let sample = format!("sluice_filter_outcomes_total{{filter=\"pages\",outcome=\"{outcome}\"}}");
    metric(&gateway.admin(), &sample)
}

/// A client that has asked, and has read nothing yet.
fn begin(gateway: &Sluice, target: &str) -> TcpStream {
    let mut stream = TcpStream::connect(gateway.address("web")).unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// What it gets: status and content, as far as it came.
fn end(mut stream: TcpStream) -> (u16, usize) {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer);
    let Some((head, content)) = text.split_once("\r\n\r\n") else { return (0, 0) };
    (head[9..12].parse().unwrap(), content.len())
}

fn good(exchange: &mut Exchange) -> std::io::Result<()> {
    exchange.answer(200, &["Cache-Control: max-age=600"], vec![b'x'; SIZE])
}

/// Clients by HTTP/1.1, and by HTTP/2: together a thousand, and no process has a thousand files open for them but the gateway.
const CROWD: [usize; 2] = [700, 300];

/// Many requests for the same by HTTP/2.
fn crowd_by_http2(gateway: &Sluice, target: &str) -> Child {
    let address = gateway.address("web");
    let line = format!("url = \"http://{address}{target}\"\noutput = \"/dev/null\"\n");
    let mut curl = Command::new("curl")
        .args([
            "-s",
            "-m",
            "60",
            "--http2-prior-knowledge",
            "-Z",
            "--parallel-max",
            "300",
            "--parallel-immediate",
        ])
        .args(["-H", "Host: a", "-w", "%{http_code} %{size_download}\n", "-K", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    curl.stdin.take().unwrap().write_all(line.repeat(CROWD[1]).as_bytes()).unwrap();
    curl
}

#[test]
fn a_crowd_makes_one_request() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::start(move |exchange: &mut Exchange| {
        opened.pass();
        good(exchange)
    });
    let gateway = gateway(&origin, "");
    let clients: Vec<_> = (0..CROWD[0]).map(|_| begin(&gateway, "/cold")).collect();
    let others = crowd_by_http2(&gateway, "/cold");
    assert!(origin.wait_for_requests(1));
    gate.open();
    for client in clients {
        assert_eq!(end(client), (200, SIZE));
    }
    let others = others.wait_with_output().unwrap();
    let lines = String::from_utf8_lossy(&others.stdout).into_owned();
    let good = lines.lines().filter(|line| **line == format!("200 {SIZE}")).count();
    assert_eq!(good, CROWD[1], "{lines}");
    assert_eq!(origin.requests().len(), 1);
    let (hits, waited) = (outcome(&gateway, "hit"), outcome(&gateway, "coalesced"));
    let all = u64::try_from(CROWD[0] + CROWD[1]).unwrap();
    assert_eq!((hits + waited, outcome(&gateway, "miss")), (all - 1, 1));
    assert_eq!(ask_http2(&gateway, "/cold", &[]).content.len(), SIZE);
    gateway.stop();
}

/// An origin that sends a head and half of what that promises, and goes on when the gate opens: with the rest, or
/// with the end of its connection.
fn half(gate: &Gate, size: usize, after: After) -> Origin {
    let (opened, asked) = (gate.clone(), Arc::new(AtomicUsize::new(0)));
    Origin::start(move |exchange: &mut Exchange| {
        let first = asked.fetch_add(1, Ordering::SeqCst) == 0;
        exchange.write(format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {size}\r\n\r\n"
        ))?;
        if !first {
            return exchange.write(vec![b'x'; size]);
        }
        exchange.write(vec![b'x'; size / 2])?;
        opened.pass();
        match after {
            After::Close => exchange.then(After::Close),
            _ => exchange.write(vec![b'x'; size - size / 2])?,
        }
        Ok(())
    })
}

/// Reads so many bytes of content.
fn take(stream: &mut impl Read, wanted: usize) -> usize {
    let (mut all, mut room) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        let read = stream.read(&mut room).unwrap();
        assert!(read > 0, "it ends after {} bytes", all.len());
        all.extend_from_slice(room.get(..read).unwrap());
        let head = all.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
        if let Some(got) = head.map(|head| all.len() - head).filter(|got| *got >= wanted) {
            return got;
        }
    }
}

/// How much more comes, up to the end or a break.
fn rest(mut stream: impl Read) -> usize {
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    rest.len()
}

fn by_http2(gateway: &Sluice, target: &str) -> Child {
    by_curl(gateway, target, "--http2-prior-knowledge")
}

/// A client that takes framed content apart.
fn by_curl(gateway: &Sluice, target: &str, version: &str) -> Child {
    let url = format!("http://{}{target}", gateway.address("web"));
    Command::new("curl")
        .args(["-s", "-i", "-N", "-m", "60", "-H", "Host: a", version, &url])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn who_waits_gets_it_as_it_comes() {
    // In memory, and too large for it.
    for size in [SIZE, 5_000_000] {
        let gate = Gate::new();
        let origin = half(&gate, size, After::Next);
        let scratch = Scratch::new();
        let folder = scratch.path().display();
        let gateway = gateway(
            &origin,
            &format!("entry_limit = \"1MiB\"\ndisk = {{ path = \"{folder}\", size = \"64MiB\" }}"),
        );
        let mut first = begin(&gateway, "/half");
        let before = take(&mut first, size / 2);
        let mut waiters = [begin(&gateway, "/half"), begin(&gateway, "/half")];
        let mut other = by_http2(&gateway, "/half");
        let mut pipe = other.stdout.take().unwrap();
        // The origin has not said the rest yet.
        let got = waiters.each_mut().map(|waiter| take(waiter, size / 2));
        let piped = take(&mut pipe, size / 2);
        assert_eq!((before, got, piped), (size / 2, [size / 2; 2], size / 2));
        // One takes nothing more for now, and holds nobody up.
        let [slow, fast] = waiters;
        gate.open();
        let left = size - size / 2;
        assert_eq!([fast, first].map(rest), [left; 2]);
        assert_eq!((rest(pipe), other.wait().unwrap().code()), (left, Some(0)));
        assert_eq!(origin.requests().len(), 1);
        assert_eq!(rest(slow), left);
        assert_eq!(outcome(&gateway, "coalesced"), 3);
        assert_eq!(ask(&gateway, "/half", &["-H", "Host: a"]).content.len(), size);
        assert_eq!(origin.requests().len(), 1);
        gateway.stop();
    }
}

/// An origin that says nothing of the length, and what it ends with.
fn framed(gate: &Gate, (first, rest): (usize, usize), end: &'static str) -> Origin {
    let opened = gate.clone();
    Origin::start(move |exchange: &mut Exchange| {
        exchange.write(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nTransfer-Encoding: chunked\r\n\r\n",
        )?;
        let chunk = |size: usize| format!("{size:x}\r\n{}\r\n", "x".repeat(size));
        exchange.write(chunk(first))?;
        opened.pass();
        exchange.write(chunk(rest))?;
        exchange.write(end)?;
        if !end.starts_with('0') {
            exchange.then(After::Close);
        }
        Ok(())
    })
}

const MEMORY: &str = "entry_limit = \"1MiB\"\n";

/// Who follows an answer without a length, whether it breaks off, how often its origin is asked in the end.
fn follow_unknown(
    (settings, kept): (&str, bool),
    sizes: (usize, usize),
    ending: &'static str,
) -> (Vec<bool>, usize) {
    let gate = Gate::new();
    let origin = framed(&gate, sizes, ending);
    let gateway = gateway(&origin, &format!("{MEMORY}{settings}"));
    let versions = ["--http1.1", "--http1.1", "--http2-prior-knowledge", "--http1.0"];
    let mut clients = Vec::new();
    for version in versions {
        let mut client = by_curl(&gateway, "/unknown", version);
        let mut pipe = client.stdout.take().unwrap();
        // Those that come later follow the first one: the origin has not said the rest yet.
        assert_eq!(take(&mut pipe, sizes.0), sizes.0);
        // All go on at once: nobody waits long for those who take nothing.
        clients.push((client, std::thread::spawn(move || rest(pipe))));
    }
    gate.open();
    let whole = clients.into_iter().map(|(mut client, rest)| {
        let got = rest.join().unwrap();
        let whole = client.wait().unwrap().success();
        // The first one gets the trailers, too, where there are any.
        let more = got.checked_sub(sizes.1).filter(|more| [0, ending.len() - 5].contains(more));
        assert!(!whole || more.is_some(), "{got} of {sizes:?}");
        whole
    });
    let whole = whole.collect::<Vec<_>>();
    assert_eq!((origin.requests().len(), outcome(&gateway, "coalesced")), (1, 3));
    if kept {
        assert_eq!(ask(&gateway, "/unknown", &["-H", "Host: a"]).content.len(), sizes.0 + sizes.1);
    } else {
        let _ = end(begin(&gateway, "/unknown"));
    }
    let asked = origin.requests().len();
    gateway.stop();
    (whole, asked)
}

#[test]
fn who_waits_follows_what_says_nothing_of_its_length() {
    let scratch = Scratch::new();
    let disk = format!("disk = {{ path = \"{}\", size = \"64MiB\" }}", scratch.path().display());
    let good = "0\r\n\r\n";
    let all = vec![true; 4];
    let memory = (SIZE / 2, SIZE / 2);
    assert_eq!(follow_unknown(("", true), memory, good), (all.clone(), 1), "in memory");
    let large = (2_500_000, 2_500_000);
    assert_eq!(follow_unknown((&disk, true), large, good), (all.clone(), 1), "on the disk");
    // Too large for memory, and there is nothing else: those who have begun get it all the same.
    let vast = (SIZE, 9_000_000);
    assert_eq!(follow_unknown(("", false), vast, good), (all.clone(), 2), "passed on");
    let full = Scratch::new();
    let full = format!("disk = {{ path = \"{}\", size = \"4MiB\" }}", full.path().display());
    assert_eq!(follow_unknown((&full, false), vast, good), (all.clone(), 2), "the disk is full");
    // What ends with trailers is not kept.
    let trailers = "0\r\nX-Sum: 1\r\n\r\n";
    assert_eq!(follow_unknown(("", false), memory, trailers), (all.clone(), 2), "trailers");
    assert_eq!(follow_unknown(("", false), vast, trailers), (all, 2), "large, with trailers");
}

/// What the origin says of the length says nothing of what a filter behind the cache makes of the content.
#[test]
fn who_waits_follows_what_a_filter_changes() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::start(move |exchange: &mut Exchange| {
        exchange.write(format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Type: text/plain\r\n\
             Content-Length: {SIZE}\r\n\r\n{}",
            "x".repeat(SIZE / 2)
        ))?;
        opened.pass();
        exchange.write("x".repeat(SIZE / 2))
    });
    let address = origin.address();
    let gateway = Sluice::start(&format!(
        "workers = 2\n{}",
        config(&format!(
            "[filter.pages.cache]\nmemory = \"16MiB\"\n\
             [filter.longer.body_replace]\nrules = [{{ text = \"x\", with = \"yyy\" }}]\n\
             [[route]]\npath = \"/*\"\nproxy = \"{address}\"\nfilters = [\"pages\", \"longer\"]\n"
        ))
    ));
    let clients =
        ["--http1.1", "--http1.1", "--http2-prior-knowledge", "--http1.0"].map(|version| {
            let mut client = by_curl(&gateway, "/changed", version);
            let mut pipe = client.stdout.take().unwrap();
            // Those that come later follow the first one: the origin has not said the rest yet.
            let got = take(&mut pipe, SIZE);
            (client, pipe, got)
        });
    gate.open();
    for (mut client, pipe, got) in clients {
        assert_eq!((got + rest(pipe), client.wait().unwrap().code()), (3 * SIZE, Some(0)));
    }
    assert_eq!((origin.requests().len(), outcome(&gateway, "coalesced")), (1, 3));
    // Nor does a client that wants all get a part of what there is.
    let all = ask(&gateway, "/all", &["-H", "Host: a", "-H", "Range: bytes=0-"]);
    assert_eq!((all.status, all.content.len(), all.value("content-range")), (200, 3 * SIZE, ""));
    assert_eq!(ask(&gateway, "/changed", &["-H", "Host: a"]).content.len(), 3 * SIZE);
    // What is asked about leaves it where it is.
    assert_eq!(ask(&gateway, "/changed", &["-I", "-H", "Host: a"]).status, 200);
    assert_eq!(origin.requests().len(), 2);
    gateway.stop();
}

#[test]
fn what_says_nothing_of_its_length_and_breaks_off_is_nobodys_whole() {
    for sizes in [(SIZE / 2, SIZE / 2), (SIZE, 9_000_000)] {
        let (whole, _) = follow_unknown(("", false), sizes, "5\r\nhal");
        assert_eq!(whole, [false; 4], "{sizes:?}");
    }
}

#[test]
fn who_wants_a_part_gets_it_when_its_first_bytes_have_come() {
    for (size, disk) in [(SIZE, false), (5_000_000, true)] {
        let gate = Gate::new();
        let origin = half(&gate, size, After::Next);
        let scratch = Scratch::new();
        let folder = scratch.path().display();
        let disk =
            format!("disk = {{ path = \"{folder}\", size = \"64MiB\" }}").repeat(usize::from(disk));
        let gateway = gateway(&origin, &format!("{MEMORY}{disk}"));
        let mut first = begin(&gateway, "/half");
        take(&mut first, size / 2);
        let part = |range: &str| {
            let mut stream = TcpStream::connect(gateway.address("web")).unwrap();
            let request = format!(
                "GET /half HTTP/1.1\r\nHost: a\r\nRange: bytes={range}\r\nConnection: close\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).unwrap();
            stream
        };
        // What the first one has may still be on its way to the disk; what this one has is there.
        let middle = size / 2;
        let mut all = part("0-");
        assert_eq!(take(&mut all, middle), middle);
        assert_eq!(end(part("1000-1999")), (206, 1_000), "it is there");
        let mut across = part(&format!("{}-{}", middle - 500, middle + 99));
        assert_eq!(take(&mut across, 500), 500);
        assert_eq!(origin.requests().len(), 1);
        // Nobody knows when that comes.
        assert_eq!(end(part(&format!("{}-", size - 9))).0, 200, "the origin does not know ranges");
        assert_eq!(origin.requests().len(), 2);
        gate.open();
        assert_eq!((rest(across), rest(all), rest(first)), (100, size - middle, size - middle));
        assert_eq!(outcome(&gateway, "coalesced"), 3);
        gateway.stop();
    }
}

#[test]
fn who_asked_may_leave_in_the_middle() {
    let gate = Gate::new();
    let origin = half(&gate, SIZE, After::Next);
    let gateway = gateway(&origin, "");
    let mut first = begin(&gateway, "/half");
    take(&mut first, SIZE / 2);
    let mut waiter = begin(&gateway, "/half");
    take(&mut waiter, SIZE / 2);
    drop(first);
    gate.open();
    assert_eq!((rest(waiter), origin.requests().len()), (SIZE - SIZE / 2, 1));
    assert_eq!(end(begin(&gateway, "/half")), (200, SIZE));
    assert_eq!(origin.requests().len(), 1);
    gateway.stop();
}

#[test]
fn an_answer_that_breaks_off_breaks_off_for_all_who_have_begun() {
    let gate = Gate::new();
    let origin = half(&gate, SIZE, After::Close);
    let gateway = gateway(&origin, "");
    let mut first = begin(&gateway, "/half");
    take(&mut first, SIZE / 2);
    let mut waiter = begin(&gateway, "/half");
    take(&mut waiter, SIZE / 2);
    let mut other = by_http2(&gateway, "/half");
    let mut pipe = other.stdout.take().unwrap();
    take(&mut pipe, SIZE / 2);
    gate.open();
    // Each was promised more.
    assert_eq!((rest(first), rest(waiter), rest(pipe)), (0, 0, 0));
    assert_ne!(other.wait().unwrap().code(), Some(0), "a stream is reset");
    assert_eq!(end(begin(&gateway, "/half")), (200, SIZE), "nothing of it was kept");
    assert_eq!(origin.requests().len(), 2);
    gateway.stop();
}

#[test]
fn an_answer_that_breaks_off_is_nobodys() {
    let count = Arc::new(AtomicUsize::new(0));
    let gate = Gate::new();
    let (counted, opened) = (Arc::clone(&count), gate.clone());
    let origin = Origin::start(move |exchange: &mut Exchange| {
        if counted.fetch_add(1, Ordering::SeqCst) > 0 {
            return good(exchange);
        }
        opened.pass();
        let head = format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {SIZE}\r\n\r\n"
        );
        exchange.write(head)?;
        exchange.then(After::Close);
        Ok(())
    });
    let gateway = gateway(&origin, "");
    let first = begin(&gateway, "/half");
    assert!(origin.wait_for_requests(1));
    let others: Vec<_> = (0..20).map(|_| begin(&gateway, "/half")).collect();
    gate.open();
    let (status, length) = end(first);
    assert!(status == 200 && length < SIZE, "it had begun: {status} {length}");
    for other in others {
        assert_eq!(end(other), (200, SIZE), "those who were sent nothing get all of it");
    }
    assert_eq!(ask(&gateway, "/half", &[]).content.len(), SIZE);
    assert!(origin.requests().len() <= 4, "{}", origin.requests().len());
    gateway.stop();
}

#[test]
fn who_asked_may_leave_and_the_others_get_it() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::start(move |exchange: &mut Exchange| {
        opened.pass();
        good(exchange)
    });
    let gateway = gateway(&origin, "");
    let first = begin(&gateway, "/left");
    assert!(origin.wait_for_requests(1));
    let others: Vec<_> = (0..10).map(|_| begin(&gateway, "/left")).collect();
    drop(first);
    gate.open();
    for other in others {
        assert_eq!(end(other), (200, SIZE));
    }
    assert!(origin.requests().len() <= 3, "{}", origin.requests().len());
    gateway.stop();
}

#[test]
fn a_client_that_takes_nothing_holds_nobody_up() {
    let size = 6_000_000;
    let origin = Origin::start(move |exchange: &mut Exchange| {
        exchange.answer(200, &["Cache-Control: max-age=600"], vec![b'x'; size])
    });
    let gateway = gateway(&origin, "");
    // It has more to come than buffers hold, and reads nothing of it.
    let slow = begin(&gateway, "/slow");
    assert!(origin.wait_for_requests(1));
    assert_eq!(end(begin(&gateway, "/slow")), (200, size));
    assert_eq!(end(slow), (200, size));
    assert_eq!(origin.requests().len(), 1);
    gateway.stop();
}

#[test]
fn answers_for_one_alone_are_not_waited_for() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        exchange.answer(200, &["Cache-Control: private"], "yours")
    });
    let gateway = gateway(&origin, "");
    let clients: Vec<_> = (0..20).map(|_| begin(&gateway, "/private")).collect();
    for client in clients {
        assert_eq!(end(client), (200, 5));
    }
    assert_eq!((origin.requests().len(), outcome(&gateway, "coalesced")), (20, 0));
    gateway.stop();
}

#[test]
fn lies_and_bombs_are_not_kept() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        let target = exchange.head().target.clone();
        match target.as_str() {
            "/more" => {
                exchange.write(
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 4\r\n\r\nfour and more",
                )?;
                exchange.then(After::Close);
                Ok(())
            }
            "/less" => {
                exchange.write(
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 400\r\n\r\nfour",
                )?;
                exchange.then(After::Close);
                Ok(())
            }
            "/large" => exchange.answer(200, &["Cache-Control: max-age=600"], vec![b'x'; 2000]),
            "/chunks" => {
                exchange.write("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                for _ in 0..10 {
                    exchange.write(format!("c8\r\n{}\r\n", "y".repeat(200)))?;
                }
                exchange.write("0\r\n\r\n")
            }
            _ => {
                let bomb = format!("X-Bomb: {}", "b".repeat(12_000));
                exchange.answer(200, &["Cache-Control: max-age=600", &bomb], "ok")
            }
        }
    });
    let gateway = gateway(&origin, "entry_limit = 1000");
    // What is there of the promised four bytes is kept, and nothing of the rest.
    assert_eq!(ask(&gateway, "/more", &[]).content, "four");
    assert_eq!(ask_http2(&gateway, "/more", &[]).content, "four");
    for target in ["/less", "/less", "/large", "/large", "/chunks", "/chunks"] {
        let before = origin.requests().len();
        let got = ask(&gateway, target, &[]);
        assert_eq!(origin.requests().len(), before + 1, "{target} is asked for each time");
        assert!(target == "/less" || got.content.len() == 2000, "{target}");
    }
    // A head of 12 KB counts for the memory like everything else.
    for number in 0..2_000 {
        let target = format!("/bomb/{number}");
        if number % 100 == 0 {
            assert_eq!(ask(&gateway, &target, &[]).status, 200);
        } else {
            assert_eq!(end(begin(&gateway, &target)).0, 200);
        }
    }
    let bytes = metric(&gateway.admin(), "sluice_cache_bytes{filter=\"pages\"}");
    assert!((8 << 20..=16 << 20).contains(&bytes), "{bytes}");
    assert!(metric(&gateway.admin(), "sluice_cache_evictions_total{filter=\"pages\"}") > 500);
    gateway.stop();
}

#[test]
fn a_dead_origin_fails_for_all_who_wait_at_once() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::start(move |exchange: &mut Exchange| {
        opened.pass();
        hang_up(exchange)
    });
    let gateway = gateway(&origin, "");
    let clients: Vec<_> = (0..30).map(|_| begin(&gateway, "/dead")).collect();
    assert!(origin.wait_for_requests(1));
    gate.open();
    let mut waited = 0;
    for mut client in clients {
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(["502", "503", "504"].contains(&&answer[9..12]), "{answer}");
        assert!(answer.contains("sluice; fwd=uri-miss"), "{answer}");
        waited += usize::from(answer.contains("; collapsed"));
    }
    assert!(waited > 0, "somebody waits for the first one");
    gateway.stop();
}

fn hang_up(exchange: &mut Exchange) -> std::io::Result<()> {
    exchange.then(After::Close);
    Ok(())
}
