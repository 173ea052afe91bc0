//! Pages in a browser: HTTP/2 over TLS, a WebSocket and an event stream through the gateway; lists of files on a phone.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use sluice_acceptance::{config, eventually};
use sluice_testkit::{After, Exchange, Gate, Origin, Scratch, Sluice};

/// Tells the origin what it has seen once all of it has come.
const PAGE: &str = "<!doctype html><title>page</title><script>
const said = {};
const tell = (name, value) => {
    said[name] = value;
    if (Object.keys(said).length === 3) fetch('/report?' + new URLSearchParams(said));
};
const socket = new WebSocket('wss://' + location.host + '/socket');
socket.onopen = () => socket.send('over there');
socket.onmessage = event => tell('socket', event.data);
socket.onerror = () => tell('socket', 'failed');
const events = new EventSource('/events');
const got = [];
events.onmessage = event => {
    got.push(event.data);
    // The second one is not sent before the first one has arrived.
    if (got.length === 1) fetch('/next');
    if (got.length === 2) { events.close(); tell('events', got.join('+')); }
};
events.onerror = () => tell('events', 'failed');
fetch('/item').then(answer => answer.text()).then(text => {
    const [entry] = performance.getEntriesByName(new URL('/item', location));
    tell('item', entry.nextHopProtocol + '+' + text);
});
</script>";

fn serve(exchange: &mut Exchange, gate: &Gate) -> std::io::Result<()> {
    let target = exchange.head().target.clone();
    match target.split('?').next().unwrap_or_default() {
        "/" => exchange.answer(200, &["Content-Type: text/html"], PAGE),
        "/item" => exchange.answer(200, &["Content-Type: text/plain"], "thing"),
        "/socket" => echo_once(exchange),
        "/next" => {
            gate.open();
            exchange.answer(204, &[], "")
        }
        "/events" => {
            exchange.write(
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n",
            )?;
            exchange.write("data: one\n\n")?;
            gate.pass();
            exchange.write("data: two\n\n")?;
            exchange.then(After::Close);
            Ok(())
        }
        _ => exchange.answer(204, &[], ""),
    }
}

/// A WebSocket that returns the first message (RFC 6455), which has fewer than 126 bytes.
fn echo_once(exchange: &mut Exchange) -> std::io::Result<()> {
    let key = exchange.head().fields.first("sec-websocket-key").unwrap_or_default().to_owned();
    let accept = format!("Sec-WebSocket-Accept: {}", accept(&key));
    exchange.answer(101, &["Connection: Upgrade", "Upgrade: websocket", &accept], "")?;
    exchange.then(After::Close);
    let (stream, early) = exchange.raw();
    let mut frame = std::mem::take(early);
    let mut piece = [0; 512];
    while frame.len() < 6 || frame.len() < 6 + usize::from(frame[1] & 0x7f) {
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Ok(());
        }
        frame.extend_from_slice(&piece[..count]);
    }
    let length = frame[1] & 0x7f;
    let mask = frame[2..6].to_vec();
    let text = frame[6..6 + usize::from(length)].iter().zip(mask.iter().cycle());
    let mut answer = vec![0x81, length];
    answer.extend(text.map(|(byte, mask)| byte ^ mask));
    stream.write_all(&answer)?;
    // Until the browser leaves.
    while stream.read(&mut piece)? > 0 {}
    Ok(())
}

/// RFC 6455, 4.2.2.
fn accept(key: &str) -> String {
    let pipe = |program: &mut Command, input: &[u8]| {
        let mut child = program
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("openssl is installed");
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap().stdout
    };
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let digest = pipe(Command::new("openssl").args(["dgst", "-sha1", "-binary"]), text.as_bytes());
    let base64 = pipe(Command::new("openssl").args(["base64", "-A"]), &digest);
    String::from_utf8(base64).unwrap()
}

/// Killed on drop.
struct Browser(Child);

impl Browser {
    fn open(url: &str, scratch: &Scratch) -> Self {
        let profile = format!("--user-data-dir={}", scratch.path().display());
        let child = Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--disable-background-networking", "--disable-sync"])
            // The certificate is one that was made for the test.
            .args(["--ignore-certificate-errors", "--remote-debugging-port=0", &profile, url])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromium is installed: `make test` does that");
        Self(child)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a page tells of itself in the end, by the target of a request.
fn reported(origin: &Origin) -> String {
    let report = || {
        let targets = origin.requests().into_iter().map(|request| request.target);
        targets.into_iter().find(|target| target.starts_with("/report?"))
    };
    let _ = eventually(|| report().is_some());
    let asked: Vec<String> = origin.requests().into_iter().map(|it| it.target).collect();
    report().unwrap_or_else(|| panic!("the page is not done: {asked:?}"))
}

#[test]
fn a_page_with_a_web_socket_and_an_event_stream_works() {
    let gate = Gate::new();
    let waits = gate.clone();
    let origin = Origin::start(move |exchange: &mut Exchange| serve(exchange, &waits));
    let upstream = format!("[upstream.api]\nservers = \"{}\"\n\n", origin.address());
    let text = config(&(upstream + "[[route]]\npath = \"/*\"\nproxy = \"api\"\n"));
    let tls = "127.0.0.1:0\"\ntls = { self_signed = true }\n\n[upstream";
    let text = text.replacen("127.0.0.1:0\"\n\n[upstream", tls, 1);
    let log = "access = \"{request.method} {request.target} {request.version}\"";
    let sluice = Sluice::start(&text.replacen("access = \"off\"", log, 1));
    let scratch = Scratch::new();
    let browser = Browser::open(&format!("https://{}/", sluice.address("web")), &scratch);
    let report = reported(&origin);
    for part in ["item=h2%2Bthing", "socket=over+there", "events=one%2Btwo"] {
        assert!(report.contains(part), "{part} in {report}");
    }
    drop(browser);
    // Browsers open WebSockets over the connection there is, where they may (RFC 8441).
    let lines = sluice.stdout();
    for line in ["GET / HTTP/2.0", "GET /events HTTP/2.0", "GET /socket HTTP/2.0"] {
        assert!(lines.wait_after(0, line).is_some(), "{line} in {:?}", lines.so_far());
    }
    sluice.stop();
}

/// Looks at a list as wide as a phone, sorts it by a click on the head of a column, and goes into a folder.
const PHONE: &str = "<!doctype html><title>phone</title>
<iframe width=360 height=640 style='border:0' src='/list/'></iframe><script>
const frame = document.querySelector('iframe');
const names = page => [...page.querySelectorAll('tbody a')].map(link => link.textContent[0]).join('');
const said = {};
const steps = [page => {
    const root = page.documentElement;
    const cell = page.querySelector('tbody td');
    said.beyond = root.scrollWidth - 360;
    said.letters = parseFloat(getComputedStyle(cell).fontSize) >= 16 ? 'large' : 'small';
    // Two fingers' width of rows would be read, but not hit (WCAG 2.2, 2.5.8: 24 CSS pixels).
    said.rows = cell.getBoundingClientRect().height >= 24 ? 'high' : 'low';
    said.sizes = page.querySelector('tbody tr:last-child td:nth-child(2)').getBoundingClientRect().right <= 360;
    said.names = names(page);
    page.querySelector('th:nth-child(2) a').click();
}, page => {
    said.by_size = names(page);
    page.querySelector('tbody a').click();
}, page => {
    said.inside = names(page);
    fetch('/report?' + new URLSearchParams(said));
}];
frame.onload = () => steps.shift()?.(frame.contentDocument);
</script>";

#[test]
fn a_list_of_files_is_read_and_sorted_on_a_phone() {
    let files = Scratch::new();
    files.write(&format!("b{}.zip", "long".repeat(50)), vec![0; 3000]);
    files.write("c & <i>d", "short");
    std::fs::create_dir(files.path().join("a")).unwrap();
    files.write("a/x.txt", "inside");
    let origin = Origin::start(|exchange: &mut Exchange| match exchange.head().target.as_str() {
        "/" => exchange.answer(200, &["Content-Type: text/html"], PHONE),
        _ => exchange.answer(204, &[], ""),
    });
    let root = files.path().display();
    let sluice = Sluice::start(&config(&format!(
        "[upstream.pages]\nservers = \"{}\"\n\n\
         [[route]]\npath = \"/list/*\"\nfiles = {{ root = \"{root}\", strip_prefix = \"/list\", listing = true }}\n\n\
         [[route]]\npath = \"/*\"\nproxy = \"pages\"\n",
        origin.address()
    )));
    let scratch = Scratch::new();
    let browser = Browser::open(&format!("http://{}/", sluice.address("web")), &scratch);
    let report = reported(&origin);
    let seen = "beyond=0&letters=large&rows=high&sizes=true&names=abc&by_size=acb&inside=.x";
    assert_eq!(report, format!("/report?{seen}"));
    drop(browser);
    sluice.stop();
}
