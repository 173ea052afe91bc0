//! A kept-alive request on the direct path allocates nothing.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of a test")]
#![expect(
    unsafe_code,
    reason = "GlobalAlloc is an unsafe trait; every call is passed on as it came"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use sluice_conn::ServerTimeouts;
use sluice_engine::{
    Action, Answer, Beginning, CallSettings, ConnectionGuard, ConnectionLimits, ListenerPlan,
    Order, Proof, Route, RouteTable, Snapshot, WhenFull, WorkerParts, run_worker, team,
};
use sluice_meter::Meters;
use sluice_net::{Binding, Endpoint, LogCounts, LogTarget, LogWriter, mailbox, run};
use sluice_route::{PathSpec, RouteSpec, Table};
use sluice_wire::h1::Limits;

thread_local! {
    static COUNTED: Cell<bool> = const { Cell::new(false) };
}

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct Counting;

fn count() {
    if COUNTED.get() {
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
    }
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn snapshot(meters: &Meters, binding: &Arc<Binding>) -> Snapshot {
    let limit = Duration::from_secs(30);
    let answer =
        Answer::new(200, [("content-type", "text/plain")], b"Hello, World!".to_vec()).unwrap();
    let route = Route {
        mirror: None,
        filters: None,
        name: "hello".into(),
        body_limit: 1024,
        own_path_rules: None,
        proof: Proof::None,
        admission: None,
        calls: CallSettings::default(),
        action: Action::Respond(answer),
        meter: meters.route("hello"),
    };
    let table = Table::build(vec![RouteSpec::new(PathSpec::Exact("/".into()))]).unwrap();
    let routes =
        RouteTable { table, routes: vec![Arc::new(route)], unmatched: meters.route("none") };
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
        http2: None,
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

/// Sends so many requests, one after the other, and checks each answer.
fn ask(client: &mut TcpStream, requests: usize) {
    let mut answer = [0; 1024];
    for _ in 0..requests {
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: test\r\n\r\n").unwrap();
        let length = client.read(&mut answer).unwrap();
        assert!(answer[..length].starts_with(b"HTTP/1.1 200 OK\r\n"));
        assert!(answer[..length].ends_with(b"\r\n\r\nHello, World!"));
    }
}

#[test]
fn a_kept_alive_request_allocates_nothing() {
    let binding = Binding::bind(&Endpoint::Tcp("127.0.0.1:0".parse().unwrap()), 1).unwrap();
    let Endpoint::Tcp(address) = *binding.endpoint() else { panic!("bound TCP") };
    let address: SocketAddr = address;
    let (post, orders) = mailbox();
    let team = team(1).pop().unwrap();
    let worker = std::thread::spawn(move || {
        let meters = Meters::new(1);
        let fault_log =
            LogWriter::start(LogTarget::Stderr, Arc::new(LogCounts::default())).unwrap();
        let binding = Arc::new(binding);
        let snapshot = Arc::new(snapshot(&meters, &binding));
        post.send(Order::Apply(snapshot, channel().0));
        COUNTED.set(true);
        run(run_worker(WorkerParts { index: 0, meters, fault_log, orders, team })).unwrap();
        drop(post);
    });
    let mut clients: Vec<TcpStream> =
        (0..4).map(|_| TcpStream::connect(address).unwrap()).collect();
    // The first requests make coroutine, buffers and tables; all that follow use them again.
    clients.iter_mut().for_each(|client| ask(client, 10));
    let before = ALLOCATIONS.load(Ordering::SeqCst);
    assert!(before > 0, "the counter counts");
    clients.iter_mut().for_each(|client| ask(client, 500));
    assert_eq!(ALLOCATIONS.load(Ordering::SeqCst), before);
    assert!(!worker.is_finished());
}
