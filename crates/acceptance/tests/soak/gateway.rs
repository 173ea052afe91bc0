//! The gateway of a soak, its servers, and what happens to them meanwhile.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sluice_acceptance::http2_origin::{Deed, Http2Origin, Request};
use sluice_acceptance::tls::made;
use sluice_acceptance::websocket;
use sluice_testkit::{Exchange, Origin, Scratch, Sluice};

/// Every so many requests a server responds with 503, so that the gateway has something to retry.
const UNAVAILABLE: u64 = 40;

/// The body of the resource of this path: as many bytes as it takes, each time the same.
pub(crate) fn body_of(path: &str, length: usize) -> Vec<u8> {
    let line = format!("the body of {path}, line by line\n");
    line.bytes().cycle().take(length).collect()
}

/// The length of a resource, by its path.
pub(crate) fn length_of(path: &str) -> usize {
    match path.split('/').nth(1) {
        Some("cached") => 8 * 1024,
        Some("text") => 24 * 1024,
        Some("large") => 1024 * 1024,
        _ => 300,
    }
}

/// A server of the upstream `api`.
fn respond(exchange: &mut Exchange, served: &AtomicU64) -> io::Result<()> {
    let path = exchange.head().target.clone();
    if path == "/chat" {
        return websocket::echo(exchange);
    }
    if path == "/upload" {
        let body = exchange.read_body()?;
        return exchange.answer(200, &[], body.bytes);
    }
    exchange.sink_body()?;
    if path != "/healthz" && served.fetch_add(1, Ordering::Relaxed).is_multiple_of(UNAVAILABLE) {
        return exchange.answer(503, &[], "not now");
    }
    let headers = ["Content-Type: text/plain", "Cache-Control: max-age=3"];
    exchange.answer(200, &headers, body_of(&path, length_of(&path)))
}

/// The gRPC service.
fn call(request: &Request) -> Deed {
    let headers = vec![("content-type", "application/grpc")];
    Deed::Answer(200, headers, request.content.clone(), vec![("grpc-status", "0")])
}

fn api(address: &str) -> Origin {
    let served = Arc::new(AtomicU64::new(1));
    Origin::start_at(address, move |exchange| respond(exchange, &served))
}

/// The program and everything around it.
pub(crate) struct Gateway {
    pub(crate) sluice: Sluice,
    pub(crate) scratch: Scratch,
    /// The servers of `api`; one that is being restarted is missing.
    api: [Option<Origin>; 2],
    addresses: [String; 2],
    shadow: Origin,
    calls: Http2Origin,
}

impl Gateway {
    pub(crate) fn start() -> Self {
        let scratch = Scratch::new();
        made(&["localhost"]).write(scratch.path(), "web");
        scratch.write("page.txt", body_of("/files/page.txt", 100 * 1024));
        let api = ["127.0.0.1:0"; 2].map(api);
        let addresses = [0, 1].map(|at: usize| api[at].address().to_owned());
        let shadow = Origin::start(|exchange: &mut Exchange| {
            exchange.sink_body()?;
            exchange.answer(200, &[], "seen")
        });
        let calls = Http2Origin::start(call);
        let text = configuration(0, &scratch, &addresses, [shadow.address(), &calls.address()]);
        let sluice = Sluice::start(&text);
        Self { sluice, scratch, api: api.map(Some), addresses, shadow, calls }
    }

    /// What happens next: servers go and come back, and the configuration changes.
    pub(crate) fn event(&mut self, number: u64) {
        match number % 6 {
            0 => self.api[0] = None,
            1 => self.api[0] = Some(api(&self.addresses[0])),
            2 | 5 => self.reload(number),
            3 => self.api[1] = None,
            _ => self.api[1] = Some(api(&self.addresses[1])),
        }
    }

    fn reload(&self, number: u64) {
        // Another certificate, too.
        made(&["localhost"]).write(self.scratch.path(), "web");
        let others = [self.shadow.address(), &self.calls.address()];
        let text = configuration(number, &self.scratch, &self.addresses, others);
        let line = self.sluice.reload(&text);
        assert!(line.contains("reloaded "), "{line}");
    }

    /// Both servers run, and the configuration is the first one.
    pub(crate) fn recover(&mut self) {
        for (slot, address) in self.api.iter_mut().zip(&self.addresses) {
            slot.get_or_insert_with(|| api(address));
        }
        self.reload(0);
    }

    fn origins(&self) -> impl Iterator<Item = &Origin> {
        self.api.iter().flatten().chain([&self.shadow])
    }

    /// Servers of tests remember what they were asked; in an hour that would be much.
    pub(crate) fn forget_requests(&self) {
        self.origins().for_each(|origin| _ = origin.take_requests());
    }

    /// Closes the idle connections of the gateway to its servers.
    pub(crate) fn close_connections(&self) {
        self.origins().for_each(Origin::close_connections);
    }
}

/// The configuration of this number; the listeners and routes of the clients are in each of them.
fn configuration(
    number: u64,
    scratch: &Scratch,
    [one, two]: &[String; 2],
    [shadow, calls]: [&str; 2],
) -> String {
    let folder = scratch.path().display();
    // Routes, scripts and limits come, change and go.
    let extra: String = (0..number % 5)
        .map(|at| format!("[[route]]\npath = \"/extra/{at}\"\nrespond = \"{number}\"\n\n"))
        .collect();
    let connections = 5_000 + number % 7;
    format!(
        r#"
workers = 2

[admin]
address = "127.0.0.1:0"

[log]
access = "combined"
file = "/dev/null"

[[listener]]
name = "web"
address = "127.0.0.1:0"
limits = {{ connections = {connections} }}

[[listener]]
name = "secure"
address = "127.0.0.1:0"
tls = {{ certificates = [{{ cert = "{folder}/web.pem", key = "{folder}/web.key" }}] }}

[upstream.api]
servers = ["{one}", "{two}"]
health = {{ path = "/healthz", interval = "100ms" }}
retry = {{ attempts = 3, on = ["connect", "reset", "timeout", "503"], buffer = "64KiB" }}

[upstream.shadow]
servers = ["{shadow}"]

[upstream.calls]
servers = ["{calls}"]
protocol = "http2"

[filter.pages.cache]
memory = "4MiB"
disk = {{ path = "{folder}/cache", size = "32MiB" }}
stale_if_error = "1m"

[filter.small.compress]
memory = "2MiB"

[filter.fair]
rate_limit = {{ limits = ["100000/s"], key = "{{request.header.x-client}}", keys = 1000 }}

[filter.named]
headers = {{ response = {{ set = {{ x-version = "{number}" }} }} }}

[filter.signed.lua]
script = '''
local hmac = require "silly.crypto.hmac"
local base64 = require "silly.encoding.base64"
function request_head(request)
    request:set_header("x-signature", base64.encode(hmac.digest("secret {number}", request.target, "sha256")))
end
'''

{extra}
[[route]]
path = "/lua/*"
[route.lua]
script = '''
function answer(request)
    respond {{ body = "lua " .. request.path }}
end
'''

[[route]]
path = "/files/*"
files = {{ root = "{folder}", strip_prefix = "/files" }}

[[route]]
path = "/cached/*"
proxy = "api"
filters = ["pages"]

[[route]]
path = "/text/*"
proxy = "api"
filters = ["small"]

[[route]]
path = "/soak.Echo/*"
proxy = "calls"

[[route]]
path = "/signed/*"
proxy = "api"
filters = ["fair", "named", "signed"]
mirror = "shadow"

[[route]]
path = "/*"
proxy = "api"
body_limit = "2MiB"
"#
    )
}
