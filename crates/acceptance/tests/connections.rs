//! The life of a connection: pipelined, kept, limited in number and in time, cut off.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustix::process::{Resource, getrlimit, setrlimit};
use sluice_acceptance::{PREAMBLE, eventually, metric, passing};
use sluice_testkit::{
    After, Asked, ByteScript, Exchange, Failure, Gate, Origin, PATIENCE, SOON, Scratch, Sluice,
    State, Stream, behaviour, get,
};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A gateway that answers by itself; further lines of the listener.
fn answering(listener: &str) -> Sluice {
    let route = "[[route]]\npath = \"/\"\nrespond = \"hello\"\n";
    Sluice::start(&format!("workers = 1\n{PREAMBLE}{listener}\n{route}"))
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        exchange.sink_body()?;
        let target = exchange.head().target.clone();
        exchange.answer(200, &[], target)
    });
    let own = "[[route]]\npath = \"/own\"\nrespond = \"own\"\n";
    let sluice = Sluice::start(&(passing("", origin.address(), "") + own));
    for count in (1..=64).step_by(7).chain([64]) {
        // Every third is proxied, every fifth has content.
        let (mut burst, mut expected) = (String::new(), Vec::new());
        for number in 0..count {
            let target = if number % 3 == 0 { format!("/{number}") } else { "/own".to_owned() };
            burst += &match number % 5 {
                0 => format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"),
                _ => format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"),
            };
            expected.push(if number % 3 == 0 { target } else { "own".to_owned() });
        }
        for size in [burst.len(), 11] {
            let mut client = ByteScript::connect(&sluice.address("web"));
            client.send_pieces(burst.as_bytes(), size);
            let answers = client.read_responses(count).unwrap();
            let texts: Vec<String> = answers.iter().map(|answer| answer.text()).collect();
            assert_eq!(texts, expected, "{count} in pieces of {size}");
        }
    }
    assert!(origin.complaints().is_empty());
    sluice.stop();
}

#[test]
fn a_burst_is_answered_in_one_go() {
    let sluice = answering("");
    let mut client = Stream::connect(&sluice.address("web")).unwrap();
    client.set_timeout(PATIENCE).unwrap();
    for count in [1, 16, 64] {
        std::io::Write::write_all(&mut client, GET.repeat(count).as_bytes()).unwrap();
        let (mut bytes, mut reads, mut piece) = (Vec::new(), 0, vec![0; 1 << 20]);
        while bytes.windows(5).filter(|window| window == b"hello").count() < count {
            let length = client.read(&mut piece).unwrap();
            assert_ne!(length, 0);
            bytes.extend_from_slice(&piece[..length]);
            reads += 1;
        }
        assert!(reads <= 2, "{count} answers came in {reads} pieces");
    }
    sluice.stop();
}

#[test]
fn connections_to_origins_are_used_again() {
    let gate = Gate::new();
    let of_origin = gate.clone();
    let origin = Origin::start(move |exchange: &mut Exchange| {
        match exchange.head().target.as_str() {
            "/wait" => of_origin.pass(),
            "/last" => return behaviour::early(200, After::Close)(exchange),
            _ => {}
        }
        behaviour::mirror(exchange)
    });
    let sluice = Sluice::start(&passing("", origin.address(), ""));
    let web = sluice.address("web");
    for _ in 0..20 {
        assert_eq!(get(&web, "/").status, 200);
    }
    assert_eq!(origin.connections(), 1, "one after the other need one");
    let mut waiting: Vec<ByteScript> = (0..4).map(|_| ByteScript::connect(&web)).collect();
    waiting.iter_mut().for_each(|client| {
        client.send(GET.replace("/ ", "/wait "));
    });
    assert!(origin.wait_for_requests(24));
    assert_eq!(origin.connections(), 4, "four at once need four");
    gate.open();
    for client in &mut waiting {
        assert_eq!(client.read_response(Asked::Get).unwrap().status, 200);
    }
    (0..8).for_each(|_| assert_eq!(get(&web, "/").status, 200));
    assert_eq!((origin.connections(), origin.open_connections()), (4, 4));
    assert_eq!(get(&web, "/last").status, 200);
    assert!(origin.wait_for_open_connections(3), "the origin's wish to close is respected");
    assert_eq!(metric(&sluice.admin(), "sluice_upstream_connects_total{upstream=\"origin\"}"), 4);
    sluice.stop();

    let sluice = Sluice::start(&passing("", origin.address(), "keepalive = { idle = 0 }"));
    let before = origin.connections();
    (0..3).for_each(|_| assert_eq!(get(&sluice.address("web"), "/").status, 200));
    assert_eq!(origin.connections(), before + 3);
    assert!(origin.wait_for_open_connections(0));
    sluice.stop();

    let sluice =
        Sluice::start(&passing("", origin.address(), "keepalive = { timeout = \"50ms\" }"));
    assert_eq!(get(&sluice.address("web"), "/").status, 200);
    assert!(origin.wait_for_open_connections(0), "idle for too long");
    sluice.stop();
}

#[test]
fn a_connection_serves_no_more_requests_than_allowed() {
    let sluice = answering("limits = { requests_per_connection = 3 }");
    for burst in [1, 5] {
        let mut client = ByteScript::connect(&sluice.address("web"));
        for number in 1..=3 {
            if burst == 1 || number == 1 {
                client.send(GET.repeat(burst));
            }
            let answer = client.read_response(Asked::Get).unwrap();
            assert_eq!(answer.fields.has_token("connection", "close"), number == 3, "{number}");
        }
        assert_eq!(client.finish_sending().wait_for_end(), State::Closed);
        assert!(client.unread().is_empty(), "the fourth is not answered");
    }
    sluice.stop();
}

/// A connection from this address of the machine.
fn from(address: &str, to: &str) -> TcpStream {
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&fd, &format!("{address}:0").parse::<SocketAddr>().unwrap()).unwrap();
    connect(&fd, &to.parse::<SocketAddr>().unwrap()).unwrap();
    TcpStream::from(fd)
}

fn is_served(stream: &mut TcpStream) -> bool {
    let _ = std::io::Write::write_all(stream, GET.as_bytes());
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = [0; 1024];
    matches!(stream.read(&mut answer), Ok(count) if answer[..count].ends_with(b"hello"))
}

#[test]
fn connections_are_limited_in_number() {
    for (limit, kind) in [("connections", "listener"), ("connections_per_client", "client")] {
        let sluice = answering(&format!("limits = {{ {limit} = 2 }}"));
        let web = sluice.address("web");
        let mut first = from("127.0.0.1", &web);
        let mut second = from("127.0.0.1", &web);
        assert!(is_served(&mut first) && is_served(&mut second));
        assert!(!is_served(&mut from("127.0.0.1", &web)), "{limit}");
        let other = is_served(&mut from("127.0.0.9", &web));
        assert_eq!(other, limit == "connections_per_client", "another client, {limit}");
        drop(first);
        assert!(eventually(|| is_served(&mut from("127.0.0.1", &web))), "a place came free");
        assert!(is_served(&mut second), "those inside notice nothing");
        let labels = format!("{{listener=\"web\",limit=\"{kind}\"}}");
        let sample = format!("sluice_listener_rejected_total{labels}");
        assert!(metric(&sluice.admin(), &sample) > 0, "{sample}");
        sluice.stop();
    }
}

/// How long a connection took to end, and what came meanwhile.
fn ending(client: &mut ByteScript) -> (Duration, Vec<u8>, State) {
    let begun = Instant::now();
    let (bytes, state) = client.read_to_end();
    (begun.elapsed(), bytes, state)
}

#[test]
fn idle_connections_end_in_silence() {
    let sluice = answering("timeout = { idle = \"300ms\", head = \"60s\" }");
    for requests in [0, 1, 2] {
        let mut client = ByteScript::connect(&sluice.address("web"));
        for _ in 0..requests {
            client.send(GET).read_response(Asked::Get).unwrap();
        }
        let (waited, bytes, state) = ending(&mut client);
        assert_eq!((bytes.as_slice(), state), (b"".as_slice(), State::Closed));
        assert!(waited >= Duration::from_millis(250) && waited < SOON, "{waited:?}");
    }
    sluice.stop();
}

#[test]
fn a_head_in_drops_is_given_up() {
    let sluice = answering("timeout = { head = \"500ms\", idle = \"60s\" }");
    let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X-Slow: y\r\n".repeat(50));
    for (before, drops) in [("", true), (GET, true), ("", false), (GET, false)] {
        let mut client = ByteScript::connect(&sluice.address("web"));
        if !before.is_empty() {
            client.send(before).read_response(Asked::Get).unwrap();
        }
        let begun = Instant::now();
        for byte in head.as_bytes() {
            client.send([*byte]);
            // The answer is what is waited for; it comes between two drops.
            let _ = client.stream().set_timeout(Duration::from_millis(200));
            let came = wait_a_moment(&client);
            if came || !drops {
                break;
            }
        }
        let answer = client.read_response(Asked::Get).unwrap();
        let waited = begun.elapsed();
        assert_eq!((answer.status, client.finish_sending().wait_for_end()), (408, State::Closed));
        assert!(waited >= Duration::from_millis(450) && waited < SOON, "{waited:?}");
    }
    sluice.stop();
}

/// Whether something can be read within the socket's time limit, without taking it.
fn wait_a_moment(client: &ByteScript) -> bool {
    match client.stream() {
        Stream::Tcp(stream) => stream.peek(&mut [0]).is_ok(),
        Stream::Unix(_) => false,
    }
}

#[test]
fn content_may_be_slow_but_not_stop() {
    let origin = Origin::start(behaviour::sink);
    let sluice = Sluice::start(&passing("timeout = { body = \"2s\" }", origin.address(), ""));
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n";
    let mut client = ByteScript::connect(&sluice.address("web"));
    client.send(head);
    for _ in 0..10 {
        let _ = client.stream().set_timeout(Duration::from_millis(250));
        assert!(!wait_a_moment(&client));
        client.send("x");
    }
    assert_eq!(client.read_response(Asked::Get).unwrap().text(), "10");
    for sent in ["", "xxx"] {
        let begun = Instant::now();
        client.send(format!("{head}{sent}"));
        let answer = client.read_response(Asked::Get).unwrap();
        let waited = begun.elapsed();
        assert_eq!(answer.status, 408, "{sent:?}");
        assert!(waited >= Duration::from_millis(1900) && waited < SOON, "{waited:?}");
        assert_eq!(client.finish_sending().wait_for_end(), State::Closed);
        assert!(origin.wait_for_open_connections(0), "half a request is of no use to the origin");
        client = ByteScript::connect(&sluice.address("web"));
    }
    sluice.stop();
}

#[test]
fn a_client_that_takes_nothing_is_cut_off() {
    let origin = Origin::start(behaviour::stream(1 << 40));
    let sluice = Sluice::start(&passing("timeout = { write = \"400ms\" }", origin.address(), ""));
    let mut client = ByteScript::connect(&sluice.address("web"));
    client.stream().shrink_receive_buffer(4096);
    client.send(GET).read_until(b"\r\n\r\n").unwrap();
    let begun = Instant::now();
    assert!(origin.wait_for_open_connections(0));
    assert!(begun.elapsed() < SOON);
    let sample = "sluice_faults_total{side=\"downstream\",reason=\"timed_out\"}";
    assert!(eventually(|| metric(&sluice.admin(), sample) == 1));
    sluice.stop();
}

#[test]
fn answers_that_nobody_takes_are_not_made() {
    let large = "x".repeat(1 << 20);
    let route = format!("[[route]]\npath = \"/\"\nrespond = \"{large}\"\n");
    let sluice = Sluice::start(&format!(
        "workers = 1\n{PREAMBLE}timeout = {{ write = \"400ms\" }}\n{route}"
    ));
    let mut client = ByteScript::connect(&sluice.address("web"));
    client.stream().shrink_receive_buffer(4096);
    // A line of request for a megabyte of answer, two hundred times.
    client.send(GET.repeat(200));
    let timed_out = "sluice_faults_total{side=\"downstream\",reason=\"timed_out\"}";
    assert!(eventually(|| metric(&sluice.admin(), timed_out) == 1));
    let status = std::fs::read_to_string(format!("/proc/{}/status", sluice.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 64 * 1024, "{peak} KiB");
    // Cut off, and not told 408 behind half an answer.
    let (bytes, state) = client.read_to_end();
    assert_eq!(state, State::Reset);
    assert!(!String::from_utf8_lossy(&bytes).contains("408"));
    assert!(metric(&sluice.admin(), "sluice_route_requests_total{route=\"/\"}") < 20);
    sluice.stop();
}

#[test]
fn five_thousand_connections_are_answered() {
    const COUNT: usize = 5000;
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    let sluice = answering("");
    let web = sluice.address("web");
    let mut clients: Vec<ByteScript> = (0..COUNT).map(|_| ByteScript::connect(&web)).collect();
    for _ in 0..2 {
        for client in &mut clients {
            client.send(GET);
        }
        for (number, client) in clients.iter_mut().enumerate() {
            let answer =
                client.read_response(Asked::Get).unwrap_or_else(|why| panic!("{number}: {why}"));
            assert_eq!(answer.text(), "hello");
        }
    }
    let open = "sluice_listener_connections{listener=\"web\"}";
    assert_eq!(metric(&sluice.admin(), open), 5000);
    drop(clients);
    assert!(eventually(|| metric(&sluice.admin(), open) == 0));
    sluice.stop();
}

#[test]
fn hundreds_of_requests_wait_for_an_origin_at_once() {
    const COUNT: usize = 600;
    let gate = Gate::new();
    let origin = Origin::start(behaviour::gated(gate.clone(), behaviour::mirror));
    let sluice = Sluice::start(&passing("", origin.address(), ""));
    let mut clients: Vec<ByteScript> =
        (0..COUNT).map(|_| ByteScript::connect(&sluice.address("web"))).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let text = number.to_string();
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        ));
    }
    assert!(origin.wait_for_requests(COUNT));
    gate.open();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.read_response(Asked::Get).unwrap().text(), number.to_string());
    }
    sluice.stop();
}

#[test]
fn a_connection_that_breaks_costs_itself_alone() {
    let scratch = Scratch::new();
    let origin = Origin::start(|exchange: &mut Exchange| match exchange.head().target.as_str() {
        "/download" => behaviour::stream(1 << 30)(exchange),
        _ => behaviour::mirror(exchange),
    });
    let local = format!(
        "[[listener]]\nname = \"local\"\naddress = \"unix:{}/s\"\n",
        scratch.path().display()
    );
    let sluice = Sluice::start(
        &passing("", origin.address(), "").replace("[upstream.", &format!("{local}\n[upstream.")),
    );
    let mut steady = ByteScript::connect(&sluice.address("web"));
    let beginnings = [
        "",
        "G",
        "GET / HTTP/1.1\r\nHo",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nha",
        "GET /download HTTP/1.1\r\nHost: a\r\n\r\n",
        GET,
        "nonsense\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /",
    ];
    for listener in ["web", "local"] {
        for beginning in beginnings.iter().cycle().take(90) {
            let mut client = ByteScript::connect(&sluice.address(listener));
            client.send(beginning);
            client.reset();
        }
        let answer = steady.send(GET).read_response(Asked::Get);
        assert_eq!(answer.map(|answer| answer.status), Ok::<_, Failure>(200));
    }
    for listener in ["web", "local"] {
        let open = format!("sluice_listener_connections{{listener=\"{listener}\"}}");
        let left = u64::from(listener == "web");
        assert!(eventually(|| metric(&sluice.admin(), &open) == left), "{listener}");
    }
    assert_eq!(metric(&sluice.admin(), "sluice_panics_total"), 0);
    sluice.stop();
}
