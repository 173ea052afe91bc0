//! Content made smaller on its way to clients, and plain again on its way to others.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::sync::{Arc, Condvar, Mutex};

use sluice_acceptance::config;
use sluice_acceptance::filters::{Reply, ask_both, page_example};
use sluice_acceptance::http2::Http2Client;
use sluice_coding::{Bounds, Coding, Decoder, Encoder, Extent};
use sluice_message::BodyLength;
use sluice_testkit::{ByteScript, Exchange, Origin, PATIENCE, Scratch, Sluice, State, behaviour};

/// A page of 24 KB.
fn page() -> String {
    (0..400)
        .map(|number| format!("<tr><td>{number}</td><td>article {}</td></tr>\n", number * 7))
        .collect()
}

/// An origin that answers with the page: HEAD and conditional requests too.
fn origin(kind: &str) -> Origin {
    let kind = format!("Content-Type: {kind}");
    Origin::start(move |exchange: &mut Exchange| {
        exchange.sink_body()?;
        let head = exchange.head().clone();
        let weakly = head.fields.first("if-none-match").is_some_and(|tags| tags.contains("\"x\""));
        let lines = [kind.as_str(), "ETag: \"x\"", "Accept-Ranges: bytes"];
        match head.method.as_str() {
            _ if weakly => exchange.answer(304, &lines[1..2], ""),
            "HEAD" => {
                let length = page().len();
                let lines = lines.join("\r\n");
                exchange.write(format!(
                    "HTTP/1.1 200 OK\r\n{lines}\r\nContent-Length: {length}\r\n\r\n"
                ))
            }
            _ if head.fields.first("range").is_some() => {
                let range = "Content-Range: bytes 0-9/24000";
                exchange.answer(206, &[&lines[..], &[range]].concat(), &page()[..10])
            }
            _ => exchange.answer(200, &lines, page()),
        }
    })
}

fn gateway(origin: &Origin, filters: &str) -> Sluice {
    let route =
        format!("[[route]]\nproxy = \"http://{}\"\nfilters = [{filters}]\n", origin.address());
    Sluice::start(&config(&route))
}

/// Asked for with this `Accept-Encoding`; curl makes it plain again.
fn ask(gateway: &Sluice, accepted: &str, options: &[&str]) -> Reply {
    let accepted = format!("Accept-Encoding: {accepted}");
    let fields = ["content-encoding", "vary", "etag", "accept-ranges", "content-type"];
    ask_both(gateway, "/", &[&["--compressed", "-H", &accepted], options].concat(), &fields)
}

fn encode(coding: Coding, content: &[u8]) -> Vec<u8> {
    let mut encoder = Encoder::new(coding, 5, Extent::Unknown);
    let mut out = Vec::new();
    encoder.push(content, &mut out).unwrap();
    encoder.finish(&mut out).unwrap();
    out
}

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let origin = origin("text/html; charset=utf-8");
    let example = page_example("compress.md", &[("127.0.0.1:9000", origin.address())], "");
    let gateway = Sluice::start(&example);
    for (accepted, coding) in
        [("gzip, deflate, br, zstd", "br"), ("gzip", "gzip"), ("zstd;q=0.9, br;q=0.8", "zstd")]
    {
        let reply = ask(&gateway, accepted, &[]);
        assert_eq!((reply.status, reply.value("content-encoding")), (200, coding), "{accepted}");
        assert_eq!(reply.content, page(), "{accepted}");
        assert_eq!((reply.value("etag"), reply.value("accept-ranges")), ("W/\"x\"", ""));
        assert_eq!(reply.value("vary"), "Accept-Encoding");
        assert_eq!(reply.value("content-length"), "", "nobody knows it before the end");
        let head = ask(&gateway, accepted, &["-I"]);
        let without = |reply: &Reply| {
            let mut fields = reply.fields.clone();
            fields.retain(|(name, _)| {
                !["date", "transfer-encoding", "content-length"].contains(&name.as_str())
            });
            fields
        };
        assert_eq!(without(&head), without(&reply), "{accepted}: HEAD says what GET does");
    }
    let plain = ask(&gateway, "identity", &[]);
    assert_eq!((plain.value("content-encoding"), plain.value("etag")), ("", "\"x\""));
    assert_eq!((plain.content, plain.fields.len()), (page(), 6), "{:?}", plain.fields);
    gateway.stop();
}

#[test]
fn conditional_requests_work_with_the_weak_tag() {
    let origin = origin("text/html");
    let gateway = gateway(&origin, "{ compress = {} }");
    let reply = ask(&gateway, "gzip", &["-H", "If-None-Match: W/\"x\""]);
    assert_eq!(
        (reply.status, reply.value("etag"), reply.value("vary")),
        (304, "W/\"x\"", "Accept-Encoding")
    );
    let reply = ask(&gateway, "gzip", &["-H", "If-None-Match: \"x\""]);
    assert_eq!((reply.status, reply.value("etag")), (304, "\"x\""));
    let part = ask(&gateway, "gzip", &["-H", "Range: bytes=0-9"]);
    assert_eq!((part.status, part.value("content-encoding")), (206, ""));
    assert_eq!((part.content.as_str(), part.value("etag")), (&page()[..10], "\"x\""));
    gateway.stop();
}

#[test]
fn answers_of_the_gateway_and_of_faults_are_compressed_too() {
    let nobody = "[[route]]\npath = \"/gone\"\nproxy = \"http://127.0.0.1:1\"\n";
    let own = format!("[[route]]\nrespond = {{ body = \"{}\" }}\n", "own words ".repeat(300));
    let filters = "filters = [{ compress = { minimum = 0 } }]\n";
    let gateway = Sluice::start(&config(&format!("{nobody}{filters}{own}{filters}")));
    let reply = ask(&gateway, "zstd", &[]);
    assert_eq!((reply.status, reply.value("content-encoding")), (200, "zstd"));
    assert_eq!(reply.content, "own words ".repeat(300));
    let fault = ask_both(&gateway, "/gone", &["--compressed"], &["content-encoding"]);
    assert_eq!((fault.status, fault.value("content-encoding")), (502, "br"), "{fault:?}");
    gateway.stop();
}

#[test]
fn what_another_filter_took_out_of_the_request_still_counts() {
    let origin = origin("text/html");
    let gateway = gateway(
        &origin,
        "{ compress = {} }, { body_replace = { rules = [{ text = \"article\", with = \"thing\" }] } }",
    );
    let reply = ask(&gateway, "br", &[]);
    assert_eq!(reply.value("content-encoding"), "br");
    assert!(reply.content == page().replace("article", "thing"));
    assert!(origin.last_request().fields.first("accept-encoding").is_none());
    gateway.stop();
}

/// How many events the client has confirmed.
#[derive(Clone, Default)]
struct Seen(Arc<(Mutex<usize>, Condvar)>);

impl Seen {
    fn confirm(&self) {
        *self.0.0.lock().unwrap() += 1;
        self.0.1.notify_all();
    }

    fn wait_for(&self, count: usize) {
        let seen = self.0.0.lock().unwrap();
        let (seen, _) = self.0.1.wait_timeout_while(seen, PATIENCE, |seen| *seen < count).unwrap();
        assert!(*seen >= count, "event {count} was not seen");
    }
}

fn event(number: usize) -> String {
    format!("id: {number}\ndata: {}\n\n", "x".repeat(number * 50))
}

const EVENTS: usize = 10;

/// An origin that sends an event when the client has seen the one before.
fn teller(seen: &Seen) -> Origin {
    let seen = seen.clone();
    Origin::start(move |exchange: &mut Exchange| {
        exchange.write(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
        )?;
        for number in 0..EVENTS {
            seen.wait_for(number);
            let event = event(number);
            exchange.write(format!("{:x}\r\n{event}\r\n", event.len()))?;
        }
        exchange.write("0\r\n\r\n")
    })
}

/// Reads events through a coding: `more` yields bytes as they come.
fn read_events(coding: Coding, seen: &Seen, mut more: impl FnMut() -> Vec<u8>) {
    let mut decoder = Decoder::new(coding, Bounds { most: 1 << 20, expansion: 1000 });
    let (mut plain, mut expected) = (Vec::new(), String::new());
    for number in 0..EVENTS {
        expected.push_str(&event(number));
        while plain.len() < expected.len() {
            decoder.push(&more(), &mut plain).unwrap();
        }
        assert_eq!(String::from_utf8_lossy(&plain), expected, "{coding:?}");
        seen.confirm();
    }
    while decoder.finish().is_err() {
        decoder.push(&more(), &mut plain).unwrap();
    }
    assert_eq!(plain.len(), expected.len());
}

#[test]
fn each_event_can_be_read_when_it_is_made() {
    for coding in [Coding::Gzip, Coding::Brotli, Coding::Zstd] {
        let seen = Seen::default();
        let origin = teller(&seen);
        let gateway = gateway(&origin, "{ compress = {} }");
        let mut client = ByteScript::connect(&gateway.address("web"));
        client.send(format!(
            "GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {}\r\n\r\n",
            coding.name()
        ));
        let head = client.read_until(b"\r\n\r\n").expect("the head before any event");
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        assert!(head.contains(&format!("\r\ncontent-encoding: {}\r\n", coding.name())), "{head}");
        read_events(coding, &seen, || {
            let size = client.read_until(b"\r\n").expect("a chunk");
            let size = String::from_utf8_lossy(&size).trim().to_owned();
            let size = usize::from_str_radix(&size, 16).unwrap();
            let mut chunk = client.read_exactly(size + 2).expect("its content");
            chunk.truncate(size);
            chunk
        });
        gateway.stop();
    }
}

#[test]
fn each_event_can_be_read_over_http2() {
    for coding in [Coding::Gzip, Coding::Brotli, Coding::Zstd] {
        let seen = Seen::default();
        let origin = teller(&seen);
        let gateway = gateway(&origin, "{ compress = {} }");
        let mut client = Http2Client::connect(&gateway.address("web"));
        let fields = [("accept-encoding", coding.name())];
        let stream = client.begin(("GET", "/"), &fields, BodyLength::Empty);
        assert_eq!(client.wait_for_head(stream), 200);
        read_events(coding, &seen, || {
            while client.received(stream) == 0 {
                assert!(client.turn(), "the server closed the connection");
            }
            let count = client.received(stream);
            client.read(stream, count)
        });
        gateway.stop();
    }
}

#[test]
fn an_answer_that_breaks_off_is_not_taken_for_whole() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        exchange.sink_body()?;
        exchange
            .write("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5000\r\n\r\n")?;
        exchange.write("<html>")?;
        exchange.then(sluice_testkit::After::Close);
        Ok(())
    });
    let gateway = gateway(&origin, "{ compress = {} }");
    let mut client = ByteScript::connect(&gateway.address("web"));
    client.send("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    let (bytes, state) = client.read_to_end();
    assert_eq!(state, State::Reset, "{bytes:?}");
    gateway.stop();
}

#[test]
fn long_content_comes_whole() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        exchange.sink_body()?;
        exchange.answer(200, &["Content-Type: text/plain"], page().repeat(40))
    });
    let gateway = gateway(&origin, "{ compress = { levels = { br = 9, gzip = 9, zstd = 9 } } }");
    for coding in ["gzip", "br", "zstd"] {
        let reply = ask(&gateway, coding, &[]);
        assert_eq!(reply.value("content-encoding"), coding);
        assert!(reply.content == page().repeat(40), "{coding}: {} bytes", reply.content.len());
    }
    gateway.stop();
}

#[test]
fn content_of_requests_goes_on_plain() {
    let origin = Origin::start(behaviour::mirror);
    let gateway =
        gateway(&origin, "{ decompress = { request_limit = \"100KiB\", responses = \"none\" } }");
    let scratch = Scratch::new();
    let send = |coding: &str, content: &[u8]| {
        let file = scratch.path().join("content");
        std::fs::write(&file, content).unwrap();
        let (file, coding) =
            (format!("@{}", file.display()), format!("Content-Encoding: {coding}"));
        ask_both(&gateway, "/", &["-H", &coding, "--data-binary", &file], &["accept-encoding"])
    };
    let page = page();
    for coding in [Coding::Gzip, Coding::Brotli, Coding::Zstd] {
        let reply = send(coding.name(), &encode(coding, page.as_bytes()));
        assert_eq!((reply.status, reply.content.as_str()), (200, page.as_str()), "{coding:?}");
        assert!(origin.last_request().fields.first("content-encoding").is_none());
        assert_eq!(send(coding.name(), b"this is plain").status, 400, "{coding:?}");
        let whole = encode(coding, page.as_bytes());
        assert_eq!(send(coding.name(), &whole[..whole.len() - 1]).status, 400, "{coding:?}");
        assert_eq!(
            send(coding.name(), &encode(coding, &vec![0; 1 << 24])).status,
            413,
            "{coding:?}"
        );
    }
    let twice = encode(Coding::Brotli, &encode(Coding::Gzip, page.as_bytes()));
    assert_eq!(send("gzip, br", &twice).content, page);
    // By HTTP/1.1 alone: this client takes it for a fault when it is told to send no more of what it has sent.
    let refused = ["-H", "Content-Encoding: aes128gcm", "-d", "x"];
    let reply = sluice_acceptance::filters::ask(&gateway, "/", &refused);
    assert_eq!((reply.status, reply.value("accept-encoding")), (415, "gzip, br, zstd, deflate"));
    assert_eq!(send("identity", b"plain").content, "plain");
    gateway.stop();
}

/// An origin that answers with the page in this coding.
fn coded(coding: Coding, content: Vec<u8>) -> Origin {
    Origin::start(move |exchange: &mut Exchange| {
        exchange.sink_body()?;
        let encoding = format!("Content-Encoding: {}", coding.name());
        exchange.answer(
            200,
            &["Content-Type: text/html", &encoding, "ETag: \"x\""],
            content.clone(),
        )
    })
}

#[test]
fn the_example_of_decompress_does_what_it_says() {
    let page = page();
    for coding in [Coding::Gzip, Coding::Brotli, Coding::Zstd] {
        let origin = coded(coding, encode(coding, page.as_bytes()));
        let example = page_example("decompress.md", &[("127.0.0.1:9000", origin.address())], "");
        let gateway = Sluice::start(&example);
        let plain = ask_both(&gateway, "/", &[], &["etag", "content-encoding", "vary"]);
        assert_eq!((plain.content.as_str(), plain.value("content-encoding")), (page.as_str(), ""));
        assert_eq!((plain.value("etag"), plain.value("vary")), ("W/\"x\"", "Accept-Encoding"));
        let same = ask(&gateway, coding.name(), &[]);
        assert_eq!((same.value("content-encoding"), same.value("etag")), (coding.name(), "\"x\""));
        assert_eq!(same.content, page);
        gateway.stop();
    }
}

#[test]
fn what_an_origin_compressed_can_be_searched_and_compressed_again() {
    let page = page();
    let origin = coded(Coding::Gzip, encode(Coding::Gzip, page.as_bytes()));
    let rules = "{ body_replace = { rules = [{ text = \"article\", with = \"thing\" }] } }";
    let gateway =
        gateway(&origin, &format!("{{ compress = {{}} }}, {rules}, {{ decompress = {{}} }}"));
    let reply = ask(&gateway, "br", &[]);
    assert_eq!(reply.value("content-encoding"), "br");
    assert!(reply.content == page.replace("article", "thing"));
    gateway.stop();
}

#[test]
fn answers_that_lie_or_explode_break_off() {
    let bomb = encode(Coding::Zstd, &vec![0; 1 << 24]);
    let whole = encode(Coding::Zstd, page().as_bytes());
    for content in [bomb, whole[..whole.len() - 1].to_vec(), b"plain".to_vec()] {
        let origin = coded(Coding::Zstd, content);
        let gateway = gateway(&origin, "{ decompress = { response_limit = \"1MiB\" } }");
        let mut client = ByteScript::connect(&gateway.address("web"));
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let (bytes, state) = client.read_to_end();
        assert_eq!(state, State::Reset, "{} bytes", bytes.len());
        assert!(bytes.len() < 1 << 21);
        gateway.stop();
    }
}

#[test]
fn what_makes_no_sense_is_told() {
    let scratch = Scratch::new();
    let rows = [
        ("compress = { encodings = [] }", "this compresses nothing"),
        ("compress = { encodings = \"deflate\" }", "no encoding \\\"deflate\\\" is made"),
        ("compress = { encodings = [\"br\", \"br\"] }", "twice"),
        ("compress = { types = \"html\" }", "is no media type"),
        ("compress = { levels = { gzip = 10 } }", "gzip"),
        ("decompress = { expansion = 0 }", "expansion"),
    ];
    for (options, message) in rows {
        let text = config(&format!("[[route]]\nrespond = \"ok\"\nfilters = [{{ {options} }}]\n"));
        let file = scratch.write("sluice.toml", &text);
        let checked = sluice_testkit::run(&["check", "--config", &file.display().to_string()], "");
        let said = format!("{}{}", checked.stdout, checked.stderr);
        let message = message.replace("\\\"", "\"");
        assert!(checked.code != Some(0) && said.contains(&message), "{options}: {said}");
    }
}

/// What a metric of the filter `f` says.
fn outcome(gateway: &Sluice, outcome: &str) -> u64 {
    let sample = format!("sluice_filter_outcomes_total{{filter=\"f\",outcome=\"{outcome}\"}}");
    sluice_acceptance::metric(&gateway.admin(), &sample)
}

/// Asks so often over one connection of HTTP/2; the content has to be the page each time.
fn ask_often(gateway: &Sluice, coding: Coding, count: usize) {
    let mut client = Http2Client::connect(&gateway.address("web"));
    for number in 0..count {
        let fields = [("accept-encoding", coding.name())];
        let stream = client.begin(("GET", "/"), &fields, BodyLength::Empty);
        let answered = client.wait(stream);
        assert_eq!(
            (answered.status(), answered.field("content-encoding")),
            (200, Some(coding.name()))
        );
        let mut plain = Vec::new();
        let mut decoder = Decoder::new(coding, Bounds { most: 1 << 20, expansion: 1000 });
        decoder.push(&answered.content, &mut plain).unwrap();
        assert_eq!(decoder.finish(), Ok(()));
        assert!(plain == page().as_bytes(), "{coding:?}, answer {number}");
    }
}

#[test]
fn what_is_asked_for_a_thousand_times_is_compressed_once() {
    let own = format!("[[route]]\nfilters = [\"f\"]\nrespond = {{ body = '''{}''' }}\n", page());
    for coding in [Coding::Gzip, Coding::Brotli, Coding::Zstd] {
        let gateway = Sluice::start(&config(&format!("[filter.f]\ncompress = {{}}\n{own}")));
        ask_often(&gateway, coding, 1000);
        assert_eq!((outcome(&gateway, "compressed"), outcome(&gateway, "reused")), (1, 999));
        gateway.stop();
    }
}

#[test]
fn an_origins_answer_is_compressed_once_and_its_connection_goes_on() {
    let origin = origin("text/html");
    let route = format!("[[route]]\nproxy = \"http://{}\"\nfilters = [\"f\"]\n", origin.address());
    let gateway = Sluice::start(&config(&format!("[filter.f]\ncompress = {{}}\n{route}")));
    ask_often(&gateway, Coding::Gzip, 50);
    assert_eq!((outcome(&gateway, "compressed"), outcome(&gateway, "reused")), (1, 49));
    assert_eq!(origin.requests().len(), 50, "the origin is asked each time");
    assert_eq!(origin.connections(), 1, "what is not wanted of its answers is read");
    // Of another host.
    assert_eq!(ask(&gateway, "gzip", &[]).status, 200);
    let [reply, head] = [&[][..], &["-I"]].map(|options| ask(&gateway, "gzip", options));
    assert!(reply.content == page());
    let told = |reply: &Reply| {
        ["content-length", "content-encoding", "etag", "vary"]
            .map(|name| reply.value(name).to_owned())
    };
    assert_eq!(told(&reply), told(&head));
    assert_eq!(told(&reply)[1..], ["gzip", "W/\"x\"", "Accept-Encoding"]);
    assert!(told(&reply)[0].parse::<usize>().unwrap() < page().len() / 4);
    gateway.stop();
}

#[test]
fn what_takes_long_is_compressed_elsewhere_and_then_kept() {
    let own = format!("[[route]]\nfilters = [\"f\"]\nrespond = {{ body = '''{}''' }}\n", page());
    let options = "levels = { br = 11, zstd = 22 }";
    for coding in [Coding::Brotli, Coding::Zstd] {
        let filter = format!("[filter.f]\ncompress = {{ {options} }}\n");
        let gateway = Sluice::start(&config(&format!("{filter}{own}")));
        let begun = std::time::Instant::now();
        // Everybody gets the page meanwhile.
        while outcome(&gateway, "reused") == 0 {
            ask_often(&gateway, coding, 1);
            assert!(begun.elapsed() < PATIENCE, "{coding:?} never comes to an end");
        }
        let before = outcome(&gateway, "compressed");
        ask_often(&gateway, coding, 20);
        assert_eq!(outcome(&gateway, "compressed"), before);
        gateway.stop();
    }
}
