//! Connections are never faster than the limit of bandwidth says, whatever comes over them.
//!
//! How long something takes at least is what the limit is: that is looked at here, and no speed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use sluice_acceptance::filters::page_example;
use sluice_acceptance::http2::Http2Client;
use sluice_acceptance::websocket::{Client, WAYS, repeat};
use sluice_acceptance::{config, eventually, metric};
use sluice_message::BodyLength;
use sluice_testkit::{Asked, ByteScript, Exchange, Gate, Origin, Sluice, behaviour};
use sluice_wire::h2::{End, StreamId};

const KIB: usize = 1024;

/// A time before which so much cannot have passed.
struct Watch {
    begun: Instant,
    rate: usize,
    burst: usize,
}

impl Watch {
    /// For a connection that is about to be opened.
    fn start(rate: usize, burst: usize) -> Self {
        Self { begun: Instant::now(), rate, burst: burst.max(rate / 10) }
    }

    /// So many bytes have passed since.
    fn passed(&self, bytes: usize) {
        let nanos = bytes.saturating_sub(self.burst) * 1_000_000_000 / self.rate;
        let least = Duration::from_nanos(u64::try_from(nanos).unwrap());
        let took = self.begun.elapsed();
        // The gateway reads its clock once in a while.
        assert!(took + Duration::from_millis(50) >= least, "{bytes} bytes in {took:?}");
    }
}

/// Answers with as many bytes as the last segment of the path says.
fn sized(exchange: &mut Exchange) -> std::io::Result<()> {
    let target = exchange.head().target.clone();
    let length = target.rsplit('/').next().and_then(|it| it.parse().ok()).unwrap_or(0);
    behaviour::stream(length)(exchange)
}

/// A gateway whose routes below `/slow` are held to this.
fn gateway(options: &str, origin: &Origin) -> Sluice {
    Sluice::start(&held_to(options, origin))
}

fn held_to(options: &str, origin: &Origin) -> String {
    let address = origin.address();
    config(&format!(
        "[filter.slow]\nbandwidth_limit = {{ {options} }}\n\n\
         [[route]]\npath = \"/slow/*\"\nproxy = \"http://{address}\"\nfilters = [\"slow\"]\n\n\
         [[route]]\npath = \"/*\"\nproxy = \"http://{address}\"\n"
    ))
}

fn outcome(gateway: &Sluice, filter: &str, outcome: &str) -> u64 {
    let sample =
        format!("sluice_filter_outcomes_total{{filter=\"{filter}\",outcome=\"{outcome}\"}}");
    metric(&gateway.admin(), &sample)
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

fn begin(client: &mut Http2Client, path: &str) -> StreamId {
    client.begin(("GET", path), &[], BodyLength::Empty)
}

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let origin = Origin::start(sized);
    let replace = [("127.0.0.1:9001", origin.address())];
    let gateway = Sluice::start(&page_example("bandwidth_limit.md", &replace, ""));
    let address = gateway.address("web");
    let length = 80 * KIB;

    let watch = Watch::start(64 * KIB, 16 * KIB);
    let mut client = ByteScript::connect(&address);
    let answer = client.send(get(&format!("/{length}"))).read_response(Asked::Get).unwrap();
    assert_eq!(answer.body.len(), length);
    watch.passed(length);

    let watch = Watch::start(64 * KIB, 16 * KIB);
    let answer = Http2Client::connect(&address).get(&format!("/{length}"));
    assert_eq!(answer.content.len(), length);
    watch.passed(length);

    let upload = 40 * KIB;
    let watch = Watch::start(32 * KIB, 16 * KIB);
    let mut client = ByteScript::connect(&address);
    client.send(format!("POST /0 HTTP/1.1\r\nHost: a\r\nContent-Length: {upload}\r\n\r\n"));
    client.send("u".repeat(upload));
    assert_eq!(client.read_response(Asked::Get).unwrap().status, 200);
    watch.passed(upload);

    assert_eq!(outcome(&gateway, "steady", "limited"), 3);
    assert!(outcome(&gateway, "steady", "download_waits") > 0);
    assert!(outcome(&gateway, "steady", "upload_waits") > 0);
    let waits = metric(&gateway.admin(), "sluice_filter_wait_seconds_count{filter=\"steady\"}");
    assert!(waits > 0);
    gateway.stop();
}

#[test]
fn uploads_reach_the_origin_no_faster_however_they_are_framed() {
    let origin = Origin::start(behaviour::sink);
    let gateway = gateway("upload = \"64KiB\"", &origin);
    let address = gateway.address("web");
    let length = 64 * KIB;
    let content = "u".repeat(length);
    let answers = |client: &mut ByteScript| {
        let answer = client.read_response(Asked::Get).unwrap();
        assert_eq!((answer.status, answer.text()), (200, length.to_string()));
    };

    let watch = Watch::start(64 * KIB, 0);
    let mut client = ByteScript::connect(&address);
    let head = "POST /slow/ HTTP/1.1\r\nHost: a\r\n";
    client.send(format!("{head}Content-Length: {length}\r\n\r\n{content}"));
    answers(&mut client);
    watch.passed(length);

    let watch = Watch::start(64 * KIB, 0);
    let mut client = ByteScript::connect(&address);
    client.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n"));
    for piece in content.as_bytes().chunks(1000) {
        client.send(format!("{:x}\r\n{}\r\n", piece.len(), str::from_utf8(piece).unwrap()));
    }
    client.send("0\r\n\r\n");
    answers(&mut client);
    watch.passed(length);

    let watch = Watch::start(64 * KIB, 0);
    let mut client = Http2Client::connect(&address);
    let stream = client.begin(("POST", "/slow/"), &[], BodyLength::Framed);
    client.send(stream, content.as_bytes(), End::Stream);
    assert_eq!(client.wait(stream).text(), length.to_string());
    watch.passed(length);
    gateway.stop();
}

#[test]
fn answers_of_the_gateway_are_held_as_well() {
    let body = "g".repeat(8000);
    let gateway = Sluice::start(&config(&format!(
        "[filter.slow]\nbandwidth_limit = {{ download = \"6KiB\" }}\n\
         [filter.mock]\nrespond = {{ body = \"{body}\" }}\n\
         [[route]]\npath = \"/filter\"\nfilters = [\"slow\", \"mock\"]\nrespond = {{ body = \"no\" }}\n\
         [[route]]\nfilters = [\"slow\"]\nrespond = {{ body = \"{body}\" }}\n"
    )));
    for path in ["/filter", "/route"] {
        let watch = Watch::start(6 * KIB, 0);
        let mut client = ByteScript::connect(&gateway.address("web"));
        let answer = client.send(get(path)).read_response(Asked::Get).unwrap();
        assert_eq!(answer.body.len(), body.len());
        watch.passed(body.len());

        let watch = Watch::start(6 * KIB, 0);
        let answer = Http2Client::connect(&gateway.address("web")).get(path);
        assert_eq!(answer.content.len(), body.len());
        watch.passed(body.len());
    }
    gateway.stop();
}

#[test]
fn many_streams_get_no_more_than_one_and_take_turns() {
    let gate = Gate::new();
    let origin = Origin::start(behaviour::gated(gate.clone(), sized));
    let gateway = gateway("download = \"64KiB\"", &origin);
    // Whoever begins earlier is ahead by a turn or two of many.
    let (count, length) = (4, 32 * KIB);
    let path = format!("/slow/{length}");
    let watch = Watch::start(64 * KIB, 0);
    let mut client = Http2Client::connect(&gateway.address("web"));
    let streams: Vec<StreamId> = (0..count).map(|_| begin(&mut client, &path)).collect();
    assert!(origin.wait_for_requests(count));
    gate.open();
    while !streams.iter().any(|stream| client.is_over(*stream)) {
        assert!(client.turn());
    }
    // The first is ready, and none of the others was left behind.
    for stream in &streams {
        assert!(client.received(*stream) >= length / 4, "{}", client.received(*stream));
    }
    for stream in streams {
        assert_eq!(client.wait(stream).content.len(), length);
    }
    watch.passed(count * length);
    // Another request goes on with the same bandwidth.
    assert_eq!(client.get(&path).content.len(), length);
    watch.passed((count + 1) * length);
    gateway.stop();
}

#[test]
fn heads_count_too() {
    let origin = Origin::start(sized);
    let gateway = gateway("download = \"2KiB\"", &origin);
    let watch = Watch::start(2 * KIB, 0);
    let mut client = Http2Client::connect(&gateway.address("web"));
    // More than a byte of head for each byte of content.
    let long = "?x=".to_owned() + &"x".repeat(100);
    let streams: Vec<StreamId> =
        (0..60).map(|_| begin(&mut client, &format!("/slow/1{long}"))).collect();
    let answers: Vec<_> = streams.into_iter().map(|stream| client.wait(stream)).collect();
    let content: usize = answers.iter().map(|answer| answer.content.len()).sum();
    // Compressed, a head has at least a byte for each of its fields.
    let heads: usize = answers.iter().map(|answer| answer.fields.len() + 1).sum();
    watch.passed(content + heads);
    gateway.stop();
}

#[test]
fn pipelined_and_repeated_requests_get_no_more() {
    let origin = Origin::start(sized);
    let gateway = gateway("download = \"64KiB\"", &origin);
    let (count, length) = (16, 5 * KIB);
    let watch = Watch::start(64 * KIB, 0);
    let mut client = ByteScript::connect(&gateway.address("web"));
    client.send(get(&format!("/slow/{length}")).repeat(count));
    for answer in client.read_responses(count).unwrap() {
        assert_eq!(answer.body.len(), length);
    }
    watch.passed(count * length);
    // The connection is idle in between.
    for more in 1..4 {
        let answer = client.send(get(&format!("/slow/{length}"))).read_response(Asked::Get);
        assert_eq!(answer.unwrap().body.len(), length);
        watch.passed((count + more) * length);
    }
    gateway.stop();
}

#[test]
fn pipelined_uploads_that_came_with_their_heads_wait_too() {
    let origin = Origin::start(behaviour::sink);
    let gateway = gateway("upload = \"16KiB\"", &origin);
    let (count, length) = (40, 500);
    let content = "p".repeat(length);
    let head = "POST /slow/ HTTP/1.1\r\nHost: a\r\n";
    let whole = format!("{head}Content-Length: {length}\r\n\r\n{content}");
    let chunks = format!("{head}Transfer-Encoding: chunked\r\n\r\n1f4\r\n{content}\r\n0\r\n\r\n");
    for request in [whole, chunks] {
        let watch = Watch::start(16 * KIB, 0);
        let mut client = ByteScript::connect(&gateway.address("web"));
        client.send(request.repeat(count));
        for answer in client.read_responses(count).unwrap() {
            assert_eq!(answer.text(), length.to_string());
        }
        watch.passed(count * length);
    }
    gateway.stop();
}

#[test]
fn what_nobody_reads_is_held_as_well() {
    // The gateway answers by itself and reads the content away, so that the connection goes on.
    let gateway = Sluice::start(&config(
        "[[route]]\nfilters = [{ bandwidth_limit = { upload = \"32KiB\" } }]\nrespond = { body = \"no\" }\n",
    ));
    let length = 40 * KIB;
    let watch = Watch::start(32 * KIB, 0);
    let mut client = ByteScript::connect(&gateway.address("web"));
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"));
    client.send("n".repeat(length)).send(get("/"));
    let answers = client.read_responses(2).unwrap();
    assert!(answers.iter().all(|answer| answer.text() == "no"));
    watch.passed(length);
    gateway.stop();
}

#[test]
fn other_routes_of_the_connection_go_past_it() {
    let origin = Origin::start(sized);
    let gateway = gateway("download = 1, upload = 1", &origin);
    let mut client = Http2Client::connect(&gateway.address("web"));
    let held = begin(&mut client, "/slow/3000");
    let upload = client.begin(("POST", "/slow/0"), &[], BodyLength::Framed);
    client.send(upload, &[0; 3000], End::Stream);
    // Each of them would take most of an hour.
    assert!(eventually(|| outcome(&gateway, "slow", "limited") == 2));
    for _ in 0..3 {
        assert_eq!(client.get("/fast/100000").content.len(), 100_000);
        let stream = client.begin(("POST", "/fast/5"), &[], BodyLength::Framed);
        client.send(stream, &[0; 50_000], End::Stream);
        assert_eq!(client.wait(stream).content.len(), 5);
    }
    assert!(!client.is_over(held) && !client.is_over(upload));
    let open = || metric(&gateway.admin(), "sluice_listener_connections{listener=\"web\"}");
    assert_eq!(open(), 1);
    drop(client);

    // Answers that were made before a request that is held go out at once.
    let mut client = ByteScript::connect(&gateway.address("web"));
    client.send(get("/fast/100000") + &get("/fast/20000") + &get("/slow/3000"));
    let answers = client.read_responses(2).unwrap();
    assert_eq!(answers.iter().map(|it| it.body.len()).collect::<Vec<_>>(), [100_000, 20_000]);
    drop(client);
    // Nobody waits for those who are gone.
    assert!(eventually(|| open() == 0));
    gateway.stop();
}

#[test]
fn nobody_runs_out_of_time_because_of_it() {
    let origin = Origin::start(sized);
    let address = origin.address();
    let gateway = Sluice::start(&format!(
        "admin.address = \"127.0.0.1:0\"\n\
         [[listener]]\nname = \"web\"\naddress = \"127.0.0.1:0\"\n\
         timeout = {{ idle = \"150ms\", body = \"150ms\", write = \"150ms\", head = \"150ms\" }}\n\
         [upstream.o]\nservers = [\"{address}\"]\ntimeout = {{ read = \"1s\", write = \"150ms\" }}\n\
         [filter.slow]\nbandwidth_limit = {{ download = 400, upload = 200 }}\n\
         [[route]]\npath = \"/own\"\nfilters = [\"slow\"]\nrespond = {{ body = \"{}\" }}\n\
         [[route]]\nfilters = [\"slow\"]\nproxy = \"o\"\n",
        "o".repeat(200)
    ));
    let web = gateway.address("web");
    // A turn takes a tenth of a second, and there are four of them: each stream moves less often than its
    // limits of time allow.
    let mut client = Http2Client::connect(&web);
    let streams = ["/60", "/70", "/own", "/80"].map(|path| begin(&mut client, path));
    let lengths = streams.map(|stream| client.wait(stream).content.len());
    assert_eq!(lengths, [60, 70, 200, 80]);
    let streams = [(); 4].map(|()| client.begin(("POST", "/5"), &[], BodyLength::Framed));
    for stream in streams {
        client.send(stream, &[b'u'; 60], End::Stream);
    }
    for stream in streams {
        assert_eq!(client.wait(stream).content.len(), 5);
    }
    let mut client = ByteScript::connect(&web);
    assert_eq!(client.send(get("/own")).read_response(Asked::Get).unwrap().body.len(), 200);
    assert_eq!(client.send(get("/200")).read_response(Asked::Get).unwrap().body.len(), 200);
    client.send("POST /5 HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n");
    assert_eq!(client.send("u".repeat(100)).read_response(Asked::Get).unwrap().body.len(), 5);
    // A client that is slow by itself is not forgiven.
    client.send("POST /5 HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nbegun");
    assert_eq!(client.read_response(Asked::Get).unwrap().status, 408);
    gateway.stop();
}

#[test]
fn tunnels_are_held_in_both_directions() {
    let origin = Origin::start(repeat);
    let gateway = gateway("download = \"64KiB\", upload = \"32KiB\"", &origin);
    for way in WAYS {
        let watch = Watch::start(32 * KIB, 0);
        let (mut client, status, fields) =
            Client::ask(way, &gateway.address("web"), "/slow/chat", &[]);
        assert!(matches!(status, 101 | 200), "{status} {fields:?}");
        let content = "t".repeat(40 * KIB);
        client.send(content.as_bytes());
        assert_eq!(client.read(content.len()), content.as_bytes());
        watch.passed(content.len());
        client.finish();
    }
    gateway.reload(&held_to("download = \"32KiB\"", &origin));
    for way in WAYS {
        let watch = Watch::start(32 * KIB, 0);
        let (mut client, ..) = Client::ask(way, &gateway.address("web"), "/slow/chat", &[]);
        let content = "d".repeat(40 * KIB);
        client.send(content.as_bytes());
        assert_eq!(client.read(content.len()), content.as_bytes());
        watch.passed(content.len());
    }
    gateway.stop();
}

#[test]
fn a_condition_may_look_at_the_answer() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        exchange.sink_body()?;
        let kind = if exchange.head().target == "/film" { "video/mp4" } else { "text/plain" };
        exchange.answer(200, &[&format!("Content-Type: {kind}")], "v".repeat(40 * KIB))
    });
    let gateway = Sluice::start(&config(&format!(
        "[filter.films]\nwhen = \"response.header['content-type'] starts_with 'video/'\"\n\
         bandwidth_limit = {{ download = \"32KiB\" }}\n\
         [[route]]\nfilters = [\"films\"]\nproxy = \"http://{}\"\n",
        origin.address()
    )));
    let watch = Watch::start(32 * KIB, 0);
    let mut client = ByteScript::connect(&gateway.address("web"));
    let answer = client.send(get("/film")).read_response(Asked::Get).unwrap();
    watch.passed(answer.body.len());
    client.send(get("/page")).read_response(Asked::Get).unwrap();
    assert_eq!(outcome(&gateway, "films", "limited"), 1);
    let watch = Watch::start(32 * KIB, 0);
    let answer = Http2Client::connect(&gateway.address("web")).get("/film");
    watch.passed(answer.content.len());
    gateway.stop();
}

#[test]
fn reloads_leave_what_is_under_way_and_what_was_used() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::start(move |exchange: &mut Exchange| {
        if exchange.head().target.contains("gated") {
            opened.pass();
        }
        sized(exchange)
    });
    let gateway = gateway("download = \"32KiB\"", &origin);
    let path = format!("/slow/{}", 24 * KIB);
    let watch = Watch::start(32 * KIB, 0);
    let mut client = Http2Client::connect(&gateway.address("web"));
    let first = begin(&mut client, &path);
    client.read(first, 1);
    // The filter stays the same: the connection goes on with what it has left.
    gateway.reload(
        &(held_to("download = \"32KiB\"", &origin)
            + "\n[[route]]\npath = \"/new\"\nrespond = { body = \"\" }\n"),
    );
    let second = begin(&mut client, &path);
    assert_eq!(client.wait(second).content.len(), 24 * KIB);
    assert_eq!(client.wait(first).content.len(), 24 * KIB - 1);
    watch.passed(48 * KIB);

    // It changes: what is under way ends as it began.
    let watch = Watch::start(32 * KIB, 0);
    let mut client = Http2Client::connect(&gateway.address("web"));
    let held = begin(&mut client, &format!("/slow/gated/{}", 40 * KIB));
    assert!(eventually(|| outcome(&gateway, "slow", "limited") == 3));
    gateway.reload(&held_to("download = \"100MiB\"", &origin));
    gate.open();
    let fast = begin(&mut client, &format!("/slow/{}", 200 * KIB));
    assert_eq!(client.wait(fast).content.len(), 200 * KIB);
    assert!(!client.is_over(held));
    assert_eq!(client.wait(held).content.len(), 40 * KIB);
    watch.passed(40 * KIB);
    gateway.stop();
}

#[test]
fn a_filter_that_limits_nothing_is_a_mistake() {
    let refused = Sluice::try_start(&config(
        "[filter.slow]\nbandwidth_limit = { burst = \"1MiB\" }\n\
         [[route]]\nfilters = [\"slow\"]\nrespond = { body = \"\" }\n",
    ));
    let said = format!("{refused:?}");
    assert!(refused.is_err() && said.contains("this limits nothing"), "{said}");
}
