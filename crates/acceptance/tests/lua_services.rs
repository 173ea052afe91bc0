//! `sluice lua`: the benchmark's script in all its forms, with the tools it was published with.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use sluice_testkit::{Scratch, binary};

/// How each form listens and reads; the rest is the same.
const FORMS: [(&str, &str); 3] = [
    ("tcp.listen('127.0.0.1:0', function(fd, addr)", "readline(fd)"),
    ("tcp.listen('127.0.0.1:0', function(fd, addr)", "readline(fd, '\\r\\n')"),
    ("tcp.listen({addr = '127.0.0.1:0', accept = function(fd)", "fd:read('\\r\\n')"),
];

fn script((listen, read): (&str, &str)) -> String {
    let end = if listen.contains('{') { "end})" } else { "end)" };
    format!(
        "local tcp = require 'silly.net.tcp'
         local readline, write = tcp.readline, tcp.write
         local listener = {listen}
            while true do
                local line = {read}
                if not line then
                    return
                end
                if line == 'save\\r\\n' then
                    write(fd, '*2\\r\\n$4\\r\\nsave\\r\\n$23\\r\\n3600 1 300 100 60 10000\\r\\n')
                elseif line == 'appendonly\\r\\n' then
                    write(fd, '*2\\r\\n$10\\r\\nappendonly\\r\\n$2\\r\\nno\\r\\n')
                elseif line == 'PING\\r\\n' then
                    write(fd, '+PONG\\r\\n')
                end
            end
         {end}
         print(listener.addr)"
    )
}

/// The program with a script; killed on drop.
struct Service {
    child: Child,
    address: String,
    _scratch: Scratch,
}

impl Service {
    fn start(text: &str, options: &[&str]) -> Self {
        let scratch = Scratch::new();
        let file = scratch.write("service.lua", text);
        let mut child = Command::new(binary())
            .arg("lua")
            .arg(&file)
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut address = String::new();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut address).unwrap();
        Self { child, address: address.trim().to_owned(), _scratch: scratch }
    }

    fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap()
    }

    /// What a tool of Redis says.
    fn ask(&self, tool: &str, arguments: &[&str]) -> String {
        let output = Command::new("timeout")
            .args(["60", tool, "-p", self.port()])
            .args(arguments)
            .output()
            .expect("redis-tools is installed: `make test` does that");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_published_scripts_answer_the_tools_of_redis() {
    for form in FORMS {
        let service = Service::start(&script(form), &[]);
        assert_eq!(service.ask("redis-cli", &["PING"]), "PONG\n", "{form:?}");
        let said = service.ask("redis-benchmark", &["-t", "ping", "-c", "20", "-n", "5000"]);
        for part in [
            "====== PING_INLINE ======",
            "====== PING_MBULK ======",
            "5000 requests completed in",
            "host configuration \"save\": 3600 1 300 100 60 10000",
            "host configuration \"appendonly\": no",
        ] {
            assert!(said.contains(part), "{form:?}: {part} in {said}");
        }
        let said = service
            .ask("redis-benchmark", &["-t", "ping", "-c", "5", "-n", "5000", "-P", "16", "-q"]);
        assert!(said.contains("PING_MBULK") && said.contains("requests per second"), "{said}");
    }
}

#[test]
fn workers_share_an_address() {
    let service = Service::start(&script(FORMS[0]), &["--workers=2", "--pin=0"]);
    let said = service.ask("redis-benchmark", &["-t", "ping", "-c", "20", "-n", "2000", "-q"]);
    assert!(said.contains("requests per second"), "{said}");
}

#[test]
fn a_script_has_variables_and_decides_how_it_ends() {
    let scratch = Scratch::new();
    let file = scratch.write(
        "a.lua",
        "local env = require 'silly.env' print(env.get 'greeting') require('silly').exit(tonumber(env.get 'status'))",
    );
    let done = sluice_testkit::run(
        &["lua", file.to_str().unwrap(), "--greeting=hello there", "--status=3"],
        "",
    );
    assert_eq!(
        (done.code, done.stdout.as_str(), done.stderr.as_str()),
        (Some(3), "hello there\n", "")
    );
}

#[test]
fn what_is_wrong_with_a_script_is_told() {
    let scratch = Scratch::new();
    for (text, part) in [
        ("x = = 1", "bad.lua:1: unexpected symbol near '='"),
        ("local t = nil\nt.x = 1", "bad.lua:2: attempt to index local 't'"),
        ("require 'silly.nothing'", "module 'silly.nothing' not found"),
        ("while true do end", "it ran for too long"),
    ] {
        let file = scratch.write("bad.lua", text);
        let done = sluice_testkit::run(&["lua", file.to_str().unwrap(), "--budget=50"], "");
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.stderr.contains(part), "{part} in {done:?}");
    }
    let done = sluice_testkit::run(&["lua", "/nowhere.lua"], "");
    assert!(done.stderr.contains("/nowhere.lua: cannot read it"), "{done:?}");
}
