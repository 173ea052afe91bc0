//! What answers by itself, piece by piece, over both protocols.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use sluice_conn::ServerTimeouts;
use sluice_engine::{
    Action, Answer, Beginning, CallSettings, ConnectionGuard, ConnectionLimits, ListenerPlan,
    Order, Proof, Route, RouteFilters, RouteTable, Snapshot, WhenFull, WorkerParts, run_worker,
    team,
};
use sluice_filter::{
    Body, BodySource, Broken, Chain, Filter, Link, Phases, Piece, Reply, RequestContext,
    ResponseContext, ResponseVerdict, Resume, SharedBytes, Transform, Verdict,
};
use sluice_meter::Meters;
use sluice_net::disk::DiskFile;
use sluice_net::{Binding, Endpoint, LogCounts, LogTarget, LogWriter, mailbox, run};
use sluice_route::{PathSpec, RouteSpec, Table};
use sluice_wire::h1::Limits;

/// Content of so many bytes that shows what is missing or twice.
fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| b'a' + u8::try_from(at % 26 + at / 7919 % 2).unwrap() % 26).collect()
}

/// Gives its pieces, and has to be asked twice for each.
#[derive(Debug)]
struct Script {
    length: Option<u64>,
    pieces: VecDeque<Result<Piece, Broken>>,
    asked: bool,
    /// Told when the source goes.
    gone: Option<Sender<()>>,
}

impl BodySource for Script {
    fn length(&self) -> Option<u64> {
        self.length
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Piece, Broken>> {
        self.asked = !self.asked;
        if self.asked {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.pieces.is_empty() && self.gone.is_some() {
            return Poll::Ready(Ok(Piece::Bytes(content(100_000))));
        }
        Poll::Ready(self.pieces.pop_front().unwrap_or(Ok(Piece::End)))
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        if let Some(gone) = &self.gone {
            gone.send(()).unwrap();
        }
    }
}

/// What answers.
#[derive(Debug)]
struct Handler {
    file: Arc<DiskFile>,
    gone: Mutex<Sender<()>>,
}

impl Handler {
    fn body(&self, path: &[u8]) -> Body {
        let bytes = |length| Ok(Piece::Bytes(content(length)));
        let file =
            |offset, length| Ok(Piece::File { file: Arc::clone(&self.file), offset, length });
        let shared = Ok(Piece::Shared(SharedBytes::from(content(1000)).part(10..60)));
        let (length, pieces) = match path {
            b"/small" => return content(1000).into(),
            b"/large" => return content(1_000_000).into(),
            b"/shared" => return SharedBytes::from(content(300_000)).part(1..299_999).into(),
            b"/framed" => (None, vec![bytes(3), bytes(0), bytes(200_000), shared]),
            b"/known" => (Some(70_050), vec![bytes(70_000), shared]),
            b"/file" => (Some(1_500_003), vec![bytes(3), file(100, 1_499_950), shared]),
            b"/file/framed" => (None, vec![file(0, 3_000_000)]),
            b"/short" => (Some(100), vec![bytes(99)]),
            b"/long" => (Some(100), vec![bytes(99), bytes(2)]),
            b"/broken" => (None, vec![bytes(99), Err(Broken)]),
            b"/file/short" => (Some(4_000_000), vec![file(0, 4_000_000)]),
            path => panic!("{}", String::from_utf8_lossy(path)),
        };
        Body::Stream(Box::new(Script { length, pieces: pieces.into(), asked: false, gone: None }))
    }

    fn endless(&self) -> Body {
        let gone = Some(self.gone.lock().unwrap_or_else(PoisonError::into_inner).clone());
        Body::Stream(Box::new(Script { length: None, pieces: VecDeque::new(), asked: false, gone }))
    }
}

fn reply(body: Body) -> Verdict {
    Verdict::Respond(Box::new(Reply { body, ..Reply::new(200) }))
}

impl Filter for Handler {
    fn phases(&self) -> Phases {
        Phases::REQUEST_HEAD
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        let path = context.request.path().to_vec();
        match path.strip_prefix(b"/changed").unwrap_or(&path) {
            b"/nothing" => Verdict::Continue,
            b"/elsewhere" => Verdict::Reroute,
            b"/panic" => panic!("on purpose"),
            b"/endless" => reply(self.endless()),
            b"/unmodified" => {
                let reply = Reply { body: content(50).into(), ..Reply::new(304) };
                Verdict::Respond(Box::new(reply))
            }
            b"/wait" => {
                let sleep = context.gateway.sleep(Duration::from_millis(1));
                let body = self.body(b"/known");
                Verdict::Wait(Box::pin(async move {
                    sleep.await;
                    let resume: Resume = Box::new(move |_| reply(body));
                    resume
                }))
            }
            b"/gather" => {
                Verdict::Gather(5, Box::new(|context| reply(context.content.bytes.to_vec().into())))
            }
            path => reply(self.body(path)),
        }
    }
}

/// Makes content upper case and says at its end that it has.
#[derive(Debug)]
struct Louder;

impl Transform for Louder {
    fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        out.extend(piece.iter().map(u8::to_ascii_uppercase));
        Ok(())
    }

    fn end(
        &mut self,
        _: &mut Option<sluice_message::Fields>,
        out: &mut Vec<u8>,
    ) -> Result<(), Broken> {
        out.push(b'!');
        Ok(())
    }
}

/// A filter that changes content, or puts another in its place.
#[derive(Debug)]
struct Changer;

impl Filter for Changer {
    fn phases(&self) -> Phases {
        Phases::RESPONSE_HEAD | Phases::RESPONSE_BODY
    }

    fn on_response_head(&self, context: &mut ResponseContext<'_>) -> ResponseVerdict {
        if !context.request.path().starts_with(b"/replaced") {
            return ResponseVerdict::Continue;
        }
        let pieces = VecDeque::from([Ok(Piece::Bytes(content(50_000)))]);
        let source = Script { length: Some(50_000), pieces, asked: false, gone: None };
        let body = Body::Stream(Box::new(source));
        ResponseVerdict::Replace(Box::new(Reply { body, ..Reply::new(203) }))
    }

    fn response_body(&self, context: &mut ResponseContext<'_>) -> Option<Box<dyn Transform>> {
        let changed = context.request.path().starts_with(b"/changed");
        changed.then(|| -> Box<dyn Transform> { Box::new(Louder) })
    }
}

fn snapshot(meters: &Meters, binding: &Arc<Binding>, handler: Handler) -> Snapshot {
    let limit = Duration::from_secs(30);
    let handler: Arc<dyn Filter> = Arc::new(handler);
    let changer: Arc<dyn Filter> = Arc::new(Changer);
    let route = |action, links: &[Link]| {
        let chain = Chain::new(links).unwrap_or_default();
        Arc::new(Route {
            mirror: None,
            filters: Some(RouteFilters { chain, captures: None }),
            name: "handled".into(),
            body_limit: 1024,
            own_path_rules: None,
            proof: Proof::None,
            admission: None,
            calls: CallSettings::default(),
            action,
            meter: meters.route("handled"),
        })
    };
    let links = [Link { name: "changer".into(), filter: changer, when: None }];
    let table = Table::build(vec![
        RouteSpec::new(PathSpec::Prefix("/changed".into())),
        RouteSpec::new(PathSpec::Exact("/replaced".into())),
        RouteSpec::new(PathSpec::Prefix("/".into())),
    ]);
    let routes = RouteTable {
        table: table.unwrap(),
        routes: vec![
            route(Action::Handle(Arc::clone(&handler)), &links),
            route(Action::Respond(Answer::new(200, [], b"hello".to_vec()).unwrap()), &links),
            route(Action::Handle(handler), &[]),
        ],
        unmatched: meters.route("none"),
    };
    let listener = ListenerPlan {
        name: "web".into(),
        endpoint: binding.endpoint().clone(),
        binding: Arc::downgrade(binding),
        limits: Limits { head: 32 * 1024, fields: 100, target: 8 * 1024 },
        path_rules: sluice_message::PathRules::DEFAULT,
        timeouts: ServerTimeouts { head: limit, idle: limit, body: limit, write: limit },
        connections: ConnectionLimits {
            requests: u64::MAX,
            total: 100,
            per_client: u32::MAX,
            when_full: WhenFull::Refuse,
        },
        guard: Arc::new(ConnectionGuard::new()),
        routes: Arc::new(routes),
        http2: Some(sluice_wire::h2::Config::default()),
        beginning: Beginning::Any,
        ambiguous_headers: sluice_message::AmbiguousHeaders::Drop,
        trace: sluice_engine::TraceMethod::Refuse,
        tls: None,
        proxy_protocol: None,
        service: None,
        meter: meters.listener("web"),
    };
    Snapshot { listeners: vec![Arc::new(listener)], ..Snapshot::empty() }
}

/// A server, and what it tells of sources that are gone.
fn start(test: &str) -> (SocketAddr, Receiver<()>) {
    let path = std::env::temp_dir().join(format!("sluice-{test}-{}", std::process::id()));
    std::fs::write(&path, content(3_000_000)).unwrap();
    let file = Arc::new(DiskFile::open(&path).unwrap());
    std::fs::remove_file(&path).unwrap();
    let (gone, told) = channel();
    let handler = Handler { file, gone: Mutex::new(gone) };
    let binding = Binding::bind(&Endpoint::Tcp("127.0.0.1:0".parse().unwrap()), 1).unwrap();
    let Endpoint::Tcp(address) = *binding.endpoint() else { panic!("bound TCP") };
    let (post, orders) = mailbox();
    let team = team(1).pop().unwrap();
    std::thread::spawn(move || {
        let meters = Meters::new(1);
        let fault_log =
            LogWriter::start(LogTarget::Stderr, Arc::new(LogCounts::default())).unwrap();
        let binding = Arc::new(binding);
        let snapshot = Arc::new(snapshot(&meters, &binding, handler));
        post.send(Order::Apply(snapshot, channel().0));
        run(run_worker(WorkerParts { index: 0, meters, fault_log, orders, team })).unwrap();
        drop(post);
    });
    (address, told)
}

const PROTOCOLS: [&str; 3] = ["--http1.1", "--http2-prior-knowledge", "--http1.0"];

/// Status, field lines, content, and whether curl took the answer for whole.
struct Got {
    status: u16,
    head: String,
    content: Vec<u8>,
    whole: bool,
}

fn curl(address: SocketAddr, path: &str, options: &[&str]) -> Got {
    let url = format!("http://{address}{path}");
    let done = Command::new("curl").args(["-s", "-i", "-m", "20", &url]).args(options).output();
    let done = done.unwrap();
    let end = done.stdout.windows(4).position(|four| four == b"\r\n\r\n");
    let (head, content) =
        end.map_or((&[][..], &[][..]), |end| (&done.stdout[..end], &done.stdout[end + 4..]));
    let head = String::from_utf8_lossy(head).to_lowercase();
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
    Got { status, head, content: content.to_vec(), whole: done.status.success() }
}

#[test]
fn bodies_of_every_kind_arrive_whole() {
    let (address, _) = start("kinds");
    let all = content(3_000_000);
    let mark = &content(1000)[10..60];
    let rows: [(&str, Vec<u8>, bool); 7] = [
        ("/small", content(1000), true),
        ("/large", content(1_000_000), true),
        ("/shared", content(300_000)[1..299_999].to_vec(), true),
        ("/framed", [&content(3), &content(200_000), mark].concat(), false),
        ("/known", [&content(70_000), mark].concat(), true),
        ("/file", [&content(3), &all[100..1_500_050], mark].concat(), true),
        ("/file/framed", all.clone(), false),
    ];
    for protocol in PROTOCOLS {
        for (path, expected, known) in &rows {
            let what = format!("{path} {protocol}");
            let got = curl(address, path, &[protocol]);
            assert!(got.whole && got.status == 200, "{what}: {}", got.head);
            assert!(got.content == *expected, "{what}: {} bytes", got.content.len());
            let length = format!("content-length: {}", expected.len());
            assert_eq!(got.head.contains(&length), *known, "{what}: {}", got.head);
            let head = curl(address, path, &["-I", protocol]);
            assert!(head.whole && head.content.is_empty(), "{what}");
            assert_eq!(head.head.contains(&length), *known, "{what}: {}", head.head);
            let changed = curl(address, &format!("/changed{path}"), &[protocol]);
            let loud = [&*expected.to_ascii_uppercase(), b"!"].concat();
            assert!(changed.whole && changed.content == loud, "{what}");
            let length = "content-length:";
            let head = curl(address, &format!("/changed{path}"), &["-I", protocol]);
            assert!(!head.head.contains(length), "{what}: {}", head.head);
        }
        let waited = curl(address, "/wait", &[protocol]);
        assert!(waited.content == [&content(70_000), mark].concat(), "{protocol}");
        let gathered = curl(address, "/gather", &[protocol, "-d", "1234567"]);
        assert_eq!(gathered.content, b"12345", "{protocol}");
        let replaced = curl(address, "/replaced", &[protocol]);
        assert_eq!((replaced.status, replaced.content), (203, content(50_000)), "{protocol}");
        let head = curl(address, "/replaced", &[protocol, "-I"]);
        assert!(head.head.contains("content-length: 50000"), "{}", head.head);
        let unmodified = curl(address, "/unmodified", &[protocol]);
        assert_eq!((unmodified.status, unmodified.content), (304, Vec::new()), "{protocol}");
        assert!(!unmodified.head.contains("content-length"), "{}", unmodified.head);
    }
}

#[test]
fn one_connection_serves_one_after_the_other() {
    let (address, _) = start("kept");
    let mut client = TcpStream::connect(address).unwrap();
    // All at once: the next one waits until the one before is out.
    let paths = ["/file", "/small", "/known", "/shared", "/file"];
    for path in paths {
        let content = if path == "/small" { "content-length: 3\r\n\r\nabc" } else { "\r\n" };
        write!(client, "GET {path} HTTP/1.1\r\nhost: a\r\n{content}").unwrap();
    }
    write!(client, "GET /small HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    let mut all = Vec::new();
    client.read_to_end(&mut all).unwrap();
    let heads = all.windows(13).filter(|it| *it == b"HTTP/1.1 200 ").count();
    assert_eq!(heads, 6);
    let sizes = 2 * 1_500_003 + 2 * 1000 + 70_050 + 299_998;
    assert!((sizes..sizes + 6 * 200).contains(&all.len()), "{}", all.len());
    assert!(all.ends_with(&content(1000)));
}

#[test]
fn half_an_answer_is_never_taken_for_the_whole() {
    let (address, _) = start("halves");
    for protocol in ["--http1.1", "--http2-prior-knowledge"] {
        for path in ["/short", "/long", "/broken", "/file/short"] {
            for prefix in ["", "/changed"] {
                let got = curl(address, &format!("{prefix}{path}"), &[protocol]);
                assert!(!got.whole, "{prefix}{path} {protocol}: {}", got.head);
            }
        }
    }
    assert_eq!(curl(address, "/small", &[]).content, content(1000));
}

#[test]
fn whoever_has_to_answer_and_does_not_fails() {
    let (address, _) = start("silent");
    for protocol in PROTOCOLS {
        for path in ["/nothing", "/elsewhere", "/panic"] {
            assert_eq!(curl(address, path, &[protocol]).status, 500, "{path} {protocol}");
        }
    }
}

#[test]
fn a_source_goes_with_its_client() {
    let (address, gone) = start("leaving");
    // Nobody wants its content.
    assert_eq!(curl(address, "/endless", &["-I"]).status, 200);
    gone.recv_timeout(Duration::from_secs(20)).unwrap();
    for protocol in ["--http1.1", "--http2-prior-knowledge"] {
        let url = format!("http://{address}/endless");
        let mut curl = Command::new("curl")
            .args(["-s", "-N", &url, protocol])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut some = vec![0; 1_000_000];
        curl.stdout.take().unwrap().read_exact(&mut some).unwrap();
        curl.kill().unwrap();
        curl.wait().unwrap();
        gone.recv_timeout(Duration::from_secs(20)).unwrap();
    }
}
