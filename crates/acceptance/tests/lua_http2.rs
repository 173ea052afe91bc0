//! HTTP/2 of scripts: in the judgement of h2spec and of other clients, and with the gateway on the other side.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use sluice_testkit::{Origin, Scratch, Sluice, behaviour, binary};

/// What h2spec says at the end when nothing is wrong.
const ALL: &str = "146 tests, 146 passed, 0 skipped, 0 failed";

/// Repeats what it is sent, after all of it has come.
const ECHO: &str = "function(s)
    local body = s:readall()
    s:respond(200, { ['x-version'] = s.version, ['content-type'] = 'text/plain' })
    s:closewrite(body == '' and 'hello' or body or '')
 end";

/// The program with a script; killed on drop.
struct Service {
    child: Child,
    address: String,
    _scratch: Scratch,
}

impl Service {
    /// The first line that the script prints is its address.
    fn start(text: &str) -> Self {
        let scratch = Scratch::new();
        let file = scratch.write("service.lua", text);
        let mut child =
            Command::new(binary()).arg("lua").arg(&file).stdout(Stdio::piped()).spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let mut address = String::new();
        BufReader::new(output).read_line(&mut address).unwrap();
        Self { child, address: address.trim().to_owned(), _scratch: scratch }
    }

    fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn plain() -> Service {
    Service::start(&format!(
        "local http = require 'silly.net.http'
         print(assert(http.listen{{addr = '127.0.0.1:0', handler = {ECHO}}}).addr)"
    ))
}

fn encrypted() -> Service {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    Service::start(&format!(
        "local http = require 'silly.net.http'
         local certs = {{{{ cert = [[{}]], key = [[{}]] }}}}
         print(assert(http.listen{{addr = '127.0.0.1:0', tls = true, certs = certs, alpnprotos = {{'h2', 'http/1.1'}},
            handler = {ECHO}}}).addr)",
        made.cert.pem(),
        made.signing_key.serialize_pem(),
    ))
}

fn judged(service: &Service, arguments: &[&str]) -> String {
    // It waits as long as this for what does not come; what comes is there at once.
    let done = Command::new("h2spec")
        .args(["--strict", "--timeout", "10", "--host", "127.0.0.1", "--port", service.port()])
        .args(arguments)
        .output()
        .expect("h2spec is installed: `make test` does that");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

#[test]
fn h2spec_finds_nothing_over_tls() {
    let said = judged(&encrypted(), &["--tls", "--insecure"]);
    assert!(said.contains(ALL), "{}", last_lines(&said));
}

/// Without TLS a port speaks HTTP/1.1, too: what is no preface of HTTP/2 is answered in that. One case
/// asks for a port that does not.
#[test]
fn h2spec_finds_nothing_else_without_tls() {
    let said = judged(&plain(), &[]);
    assert!(said.contains("146 tests, 145 passed, 0 skipped, 1 failed"), "{}", last_lines(&said));
    assert!(said.contains("× 2: Sends invalid connection preface"), "{}", last_lines(&said));
}

fn said(tool: &str, arguments: &[&str]) -> String {
    let output = Command::new(tool).args(arguments).output().expect("it is installed");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn clients_choose_the_version() {
    let service = encrypted();
    let url = format!("https://{}/", service.address);
    let write = "%{http_version} %header{x-version}";
    let curl = |more: &[&str]| said("curl", &[&["-skw", write, &url], more].concat());
    assert_eq!(curl(&["--http2"]), "hello2 HTTP/2");
    assert_eq!(curl(&["--http1.1"]), "hello1.1 HTTP/1.1");
    assert_eq!(curl(&["--http2", "-d", "content"]), "content2 HTTP/2");
    let plain = plain();
    let url = format!("http://{}/", plain.address);
    let curl = |more: &str| said("curl", &["-sw", write, &url, more]);
    assert_eq!(curl("--http2-prior-knowledge"), "hello2 HTTP/2");
    assert_eq!(curl("--http1.1"), "hello1.1 HTTP/1.1");
}

#[test]
fn many_requests_share_connections() {
    let scratch = Scratch::new();
    let file = scratch.write("large", "x".repeat(300_000));
    let file = file.to_str().unwrap();
    for service in [(plain(), "http"), (encrypted(), "https")] {
        let url = format!("{}://{}/", service.1, service.0.address);
        let report = said("h2load", &["-n", "2000", "-c", "4", "-m", "50", &url]);
        assert!(report.contains("2000 succeeded, 0 failed, 0 errored"), "{report}");
        let report = said("h2load", &["-n", "40", "-c", "2", "-m", "10", "-d", file, &url]);
        assert!(report.contains("40 succeeded, 0 failed, 0 errored"), "{report}");
    }
}

#[test]
fn a_script_asks_the_gateway() {
    let origin = Origin::start(behaviour::mirror);
    let gateway = Sluice::start(&format!(
        "[admin]\naddress = \"127.0.0.1:0\"\n[[listener]]\nname = \"web\"\naddress = \"127.0.0.1:0\"\ntls = {{ self_signed = true }}\n\
         [[route]]\npath = \"/hello\"\nrespond = \"hello\"\n[[route]]\nproxy = \"http://{}\"\n",
        origin.address()
    ));
    let service = Service::start(&format!(
        "local http = require 'silly.net.http'
         local task, sync = require 'silly.task', require 'silly.sync.waitgroup'
         local client = http.newclient {{ insecure = true }}
         local url = 'https://{}'
         local said = {{ client:get(url .. '/hello').body }}
         local all, good = sync.new(), 0
         for number = 1, 20 do
             all:fork(function()
                 local stream = client:request('POST', url .. '/echo', {{}})
                 local content = tostring(number):rep(100000)
                 stream:closewrite(content)
                 local status = stream:readheader()
                 if status == 200 and stream.version == 'HTTP/2' and stream:readall() == content then
                     good = good + 1
                 end
             end)
         end
         all:wait()
         said[2] = good
         print(table.concat(said, ' '))",
        gateway.address("web")
    ));
    assert_eq!(service.address, "hello 20");
    let connections = sluice_acceptance::metric(
        &gateway.admin(),
        "sluice_listener_accepted_total{listener=\"web\"}",
    );
    assert_eq!(connections, 1, "all of them shared one");
    gateway.stop();
}
