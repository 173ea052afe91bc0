//! Listeners of the gateway whose clients speak with a script.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use sluice_acceptance::tls::curl;
use sluice_acceptance::{eventually, metric};
use sluice_testkit::{Scratch, Signal, Sluice, behaviour, get, run};

/// How each published form of the benchmark's script listens and reads; the rest is the same.
const FORMS: [(&str, &str, &str); 3] = [
    ("tcp.listen('0.0.0.0:9999', function(fd, addr)", "tcp.readline(fd)", "end)"),
    ("tcp.listen('0.0.0.0:9999', function(fd, addr)", "tcp.readline(fd, '\\r\\n')", "end)"),
    ("tcp.listen({addr = '0.0.0.0:9999', accept = function(fd)", "fd:read('\\r\\n')", "end})"),
];

/// Tells each client its number, and repeats what it says.
const ECHO: &str = "
    local tcp = require 'silly.net.tcp'
    local count = 0
    tcp.listen('127.0.0.1:1', function(fd, addr)
        count = count + 1
        local number = count
        while true do
            local line = fd:readline('\\n')
            if not line then return end
            if line == 'fail\\n' then error('on purpose') end
            if line == 'whoami\\n' then line = addr:match('^(.*):') .. '\\n' end
            fd:write('NAME ' .. number .. ' ' .. line)
        end
    end)";

/// Two workers and a listener `chat` with this script and these further lines.
fn listening(script: &str, more: &str) -> String {
    format!(
        "workers = 2\nshutdown_timeout = \"1s\"\n[admin]\naddress = \"127.0.0.1:0\"\n\
         [[listener]]\nname = \"web\"\naddress = \"127.0.0.1:0\"\n[[route]]\nrespond = \"HTTP\"\n\
         [[listener]]\nname = \"chat\"\naddress = \"127.0.0.1:0\"\n{more}\n\
         [listener.lua]\nscript = '''\n{script}\n'''\n"
    )
}

fn echo(name: &str) -> String {
    listening(&ECHO.replace("NAME", name), "")
}

/// A client that speaks in lines.
struct Client(BufReader<TcpStream>);

impl Client {
    fn open(gateway: &Sluice) -> Self {
        let stream = TcpStream::connect(gateway.address("chat")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self(BufReader::new(stream))
    }

    fn say(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// The next line; nothing if there is none.
    fn hear(&mut self) -> String {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(_) => line.trim_end().to_owned(),
            // A connection that is closed with bytes unread is reset.
            Err(_) => String::new(),
        }
    }

    fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.hear()
    }
}

fn connections(gateway: &Sluice) -> u64 {
    metric(&gateway.admin(), "sluice_listener_connections{listener=\"chat\"}")
}

#[test]
fn the_published_scripts_answer_the_tools_of_redis() {
    for (at, (listen, read, end)) in FORMS.into_iter().enumerate() {
        let script = format!(
            "local tcp = require 'silly.net.tcp'
             {listen}
                while true do
                    local line = {read}
                    if not line then return end
                    if line == 'PING\\r\\n' then
                        tcp.write(fd, '+PONG\\r\\n')
                    elseif line == 'save\\r\\n' or line == 'appendonly\\r\\n' then
                        tcp.write(fd, '*2\\r\\n$1\\r\\nx\\r\\n$2\\r\\nno\\r\\n')
                    end
                end
             {end}"
        );
        let text = listening(&script, "");
        let text = if at == 0 { text } else { format!("{text}workers = \"all\"\n") };
        let gateway = Sluice::start(&text);
        let address = gateway.address("chat");
        let port = address.rsplit(':').next().unwrap();
        let ask = |tool: &str, arguments: &[&str]| {
            let mut command = Command::new("timeout");
            let output = command.args(["60", tool, "-p", port]).args(arguments).output();
            let output = output.expect("redis-tools is installed: `make test` does that");
            assert!(output.status.success(), "{output:?}");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        assert_eq!(ask("redis-cli", &["PING"]), "PONG\n", "{listen}");
        let said = ask("redis-benchmark", &["-t", "ping", "-c", "20", "-n", "3000", "-q"]);
        assert!(said.contains("PING_MBULK") && said.contains("requests per second"), "{said}");
        // The other listener is what it would be without.
        assert_eq!(get(&gateway.address("web"), "/").body, b"HTTP");
        gateway.stop();
    }
}

#[test]
fn all_clients_meet_in_one_state_unless_each_worker_is_to_have_its_own() {
    let gateway = Sluice::start(&echo("one"));
    let mut clients: Vec<Client> = (0..16).map(|_| Client::open(&gateway)).collect();
    let mut numbers: Vec<String> = clients.iter_mut().map(|it| it.ask("x")).collect();
    numbers.sort();
    let mut expected: Vec<String> = (1..=16).map(|number| format!("one {number} x")).collect();
    expected.sort();
    assert_eq!(numbers, expected);
    assert_eq!(connections(&gateway), 16);
    drop(clients);
    assert!(eventually(|| connections(&gateway) == 0));
    gateway.stop();

    let gateway = Sluice::start(&format!("{}workers = \"all\"\n", echo("all")));
    let mut clients: Vec<Client> = (0..16).map(|_| Client::open(&gateway)).collect();
    let mut first = clients.iter_mut().filter_map(|it| (it.ask("x") == "all 1 x").then_some(()));
    assert!(first.next().is_some() && first.next().is_some(), "both workers have connections");
    gateway.stop();
}

#[test]
fn connections_end_with_the_script_they_began_with() {
    let gateway = Sluice::start(&echo("old"));
    let mut before = Client::open(&gateway);
    assert_eq!(before.ask("a"), "old 1 a");
    // The same script: the same state.
    assert!(gateway.reload(&format!("# Nothing new.\n{}", echo("old"))).contains("reloaded"));
    assert_eq!(Client::open(&gateway).ask("a"), "old 2 a");
    assert!(gateway.reload(&echo("new")).contains("reloaded"));
    let mut after = Client::open(&gateway);
    assert_eq!((before.ask("b"), after.ask("b")), ("old 1 b".to_owned(), "new 1 b".to_owned()));
    let refused = gateway.reload(&listening("tcp.listen(", ""));
    assert!(refused.contains("reload failed") && refused.contains("listener \"chat\": lua:"));
    assert_eq!(Client::open(&gateway).ask("c"), "new 2 c");
    assert_eq!((before.ask("c"), after.ask("c")), ("old 1 c".to_owned(), "new 1 c".to_owned()));
    gateway.stop();
}

#[test]
fn files_are_watched_those_that_are_required_too() {
    let text = listening("", "lua = \"chat.lua\"");
    let text = text.split("[listener.lua]").next().unwrap();
    let gateway = Sluice::start_by(text, |scratch| {
        scratch.write(
            "chat.lua",
            ECHO.replace("'NAME '", "name")
                .replace("local count", "local name = require('name') local count"),
        );
        scratch.write("name.lua", "return 'first '");
        let mut command = Command::new(sluice_testkit::binary());
        command.current_dir(scratch.path());
        command
    });
    assert_eq!(Client::open(&gateway).ask("a"), "first 1 a");
    let change = |name: &str, text: &str| {
        let mark = gateway.words().mark();
        let fresh = gateway.scratch().write("fresh", text);
        std::fs::rename(fresh, gateway.scratch().path().join(name)).unwrap();
        let line = gateway.words().wait_after(mark, "a script changed)");
        line.unwrap_or_else(|| panic!("no reload in:\n{}", gateway.stderr().join("\n")))
    };
    assert!(change("name.lua", "return 'second '").contains("reloaded"));
    assert_eq!(Client::open(&gateway).ask("a"), "second 1 a");
    assert!(change("name.lua", "return (").contains("reload failed"));
    assert_eq!(Client::open(&gateway).ask("a"), "second 2 a");
    assert!(change("name.lua", "return 'third '").contains("reloaded"));
    assert_eq!(Client::open(&gateway).ask("a"), "third 1 a");
    gateway.stop();
}

#[test]
fn an_error_costs_the_connection_it_happens_in() {
    let gateway = Sluice::start(&echo("it"));
    // One after the other: who of two gets to the worker of the script first, nobody can say.
    let mut bad = Client::open(&gateway);
    assert_eq!(bad.ask("a"), "it 1 a");
    let mut good = Client::open(&gateway);
    assert_eq!(good.ask("a"), "it 2 a");
    assert_eq!(bad.ask("fail"), "");
    assert_eq!(good.ask("b"), "it 2 b");
    gateway.wait_for_line("error: listener \"chat\":10: on purpose");
    let failures = "sluice_listener_script_failures_total{listener=\"chat\"}";
    assert!(eventually(|| metric(&gateway.admin(), failures) == 1 && connections(&gateway) == 1));
    gateway.stop();
}

#[test]
fn whoever_comes_before_the_script_listens_waits_for_that() {
    let script = format!(
        "require('silly.time').sleep(300)
         {}",
        ECHO.replace("NAME", "late")
    );
    let gateway = Sluice::start(&listening(&script, ""));
    let mut clients = [Client::open(&gateway), Client::open(&gateway)];
    clients.iter_mut().for_each(|it| it.say("x"));
    // Who of them is the first to get to the worker of the script, nobody can say.
    let mut heard = clients.map(|mut it| it.hear());
    heard.sort();
    assert_eq!(heard, ["late 1 x", "late 2 x"]);
    gateway.stop();

    let never = "require('silly.time').sleep(300) error('no luck')";
    let gateway = Sluice::start(&listening(never, ""));
    assert_eq!(Client::open(&gateway).hear(), "");
    gateway.wait_for_line("no luck");
    assert_eq!(Client::open(&gateway).hear(), "");
    assert!(eventually(|| connections(&gateway) == 0));
    gateway.stop();
}

#[test]
fn what_the_listener_says_of_its_connections_holds() {
    let limits = "limits = { connections = 2 }\nproxy_protocol = { from = \"127.0.0.1\" }";
    let gateway = Sluice::start(&listening(&ECHO.replace("NAME", "it"), limits));
    let header = |client: &str| format!("PROXY TCP4 {client} 198.51.100.1 56324 443\r");
    let mut first = Client::open(&gateway);
    first.say(&header("192.0.2.7"));
    assert_eq!(first.ask("whoami"), "it 1 192.0.2.7");
    let mut second = Client::open(&gateway);
    second.say(&header("192.0.2.8"));
    assert_eq!(second.ask("whoami"), "it 2 192.0.2.8");
    assert_eq!(Client::open(&gateway).hear(), "", "too many");
    drop(first);
    assert!(eventually(|| connections(&gateway) == 1));
    let mut third = Client::open(&gateway);
    third.say(&header("192.0.2.9"));
    assert_eq!(third.ask("x"), "it 3 x");
    gateway.stop();
}

#[test]
fn the_gateway_encrypts_or_the_script_does() {
    let serve = "local http = require 'silly.net.http'
        http.listen { addr = ':1', handler = function(stream)
            stream:respond(200, { ['content-type'] = 'text/plain' })
            stream:closewrite('by a script ' .. stream.path)
        end }";
    let gateway = Sluice::start(&listening(serve, "tls = { self_signed = true }"));
    let url = format!("https://{}/secret", gateway.address("chat"));
    let fetched = curl(&["-k", &url]).text;
    assert!(fetched.ends_with("by a script /secret"), "{fetched}");
    // Who does not encrypt gets no further, and is counted where it always is.
    let mut plain = TcpStream::connect(gateway.address("chat")).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut said = String::new();
    let _ = plain.read_to_string(&mut said);
    assert!(said.contains("this port speaks HTTPS"), "{said}");
    gateway.stop();

    let made = sluice_acceptance::tls::made(&["127.0.0.1"]);
    let pair = format!("{{ cert = [[{}]], key = [[{}]] }}", made.cert, made.key);
    let own = ECHO
        .replace("NAME", "own")
        .replace("silly.net.tcp", "silly.net.tls")
        .replace(
            "tcp.listen('127.0.0.1:1', function(fd, addr)",
            &format!(
                "tcp.listen {{ addr = ':1', certs = {{ {pair} }}, accept = function(fd, addr)"
            ),
        )
        .replace("    end)", "    end }");
    let gateway = Sluice::start(&listening(&own, ""));
    let script = format!(
        "(echo hello; sleep 0.2) | timeout 20 openssl s_client -quiet -connect {} 2>/dev/null",
        gateway.address("chat")
    );
    let said = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout), "own 1 hello\n");
    gateway.stop();
    refuse(&listening(&own, "tls = { self_signed = true }"), "use tcp.listen");
}

#[test]
fn what_runs_finishes_when_the_program_ends() {
    let mut gateway = Sluice::start(&echo("it").replace("\"1s\"", "\"100s\""));
    let mut client = Client::open(&gateway);
    assert_eq!(client.ask("a"), "it 1 a");
    gateway.signal(Signal::Drain);
    gateway.wait_for_line("draining");
    assert_eq!(client.ask("b"), "it 1 b");
    drop(client);
    assert_eq!(gateway.wait_for_exit(), Some(0));
    assert!(gateway.stderr().iter().any(|line| line.contains("stopped")));
    // What has come and was not read goes with the thread, without a word.
    let gateway = Sluice::start(&echo("it"));
    let mut client = Client::open(&gateway);
    assert_eq!(client.ask("a"), "it 1 a");
    client.0.get_mut().write_all(&[b'x'; 50_000]).unwrap();
    gateway.stop();
}

#[test]
fn scripts_of_listeners_and_routes_share_stores_and_ask_upstreams() {
    let script = "
        require('silly.net.tcp').listen(':1', function(fd)
            fd:readline('\\n')
            local answer = fetch('api', '/x')
            fd:write(answer.status .. ' ' .. answer.body .. ' ' .. store.get('from route') .. '\\n')
            fd:close()
        end)";
    let origin = sluice_testkit::Origin::start(behaviour::fixed(200, "origin"));
    let text = listening(script, "");
    let text = format!(
        "{text}\n[upstream.api]\nservers = [\"{}\"]\n[[route]]\npath = \"/set\"\n[route.lua]\n\
         script = \"function answer() store.set('from route', 7) respond('set') end\"\n",
        origin.address()
    );
    let gateway = Sluice::start(&text);
    assert_eq!(get(&gateway.address("web"), "/set").body, b"set");
    assert_eq!(Client::open(&gateway).ask("go"), "200 origin 7");
    gateway.stop();
}

/// `sluice check` refuses this, with these words.
fn refuse(text: &str, words: &str) {
    let scratch = Scratch::new();
    let file = scratch.write("sluice.toml", text);
    let finished = run(&["check", "-c", &file.display().to_string()], "");
    assert_ne!(finished.code, Some(0), "{words}: {finished:?}");
    assert!(finished.stderr.contains(words), "{words}: {finished:?}");
}

#[test]
fn mistakes_are_found_before_anything_is_in_force() {
    refuse(&listening("local x = 1", ""), "call tcp.listen(address, handler)");
    let twice = format!("{ECHO}\ntcp.listen(':2', function() end)");
    refuse(&listening(&twice, ""), "gets its connections and no others");
    refuse(&listening("x = = 1", ""), "listener \"chat\": lua: listener \"chat\":1:");
    refuse(&listening(ECHO, "http2 = { streams = 10 }"), "remove `http2`");
    let both = format!("{}\n[[route]]\nlistener = \"chat\"\nrespond = \"x\"\n", echo("it"));
    refuse(&both, "a script answers at the listener \"chat\"");
    let missing = listening("", "lua = \"/nowhere/chat.lua\"");
    refuse(missing.split("[listener.lua]").next().unwrap(), "cannot read /nowhere/chat.lua");
    refuse(&listening("while true do end", ""), "budget");
}

/// The first block in this language below a heading of the page.
fn block(heading: &str, language: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lua.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (_, section) = page.split_once(heading).unwrap();
    let (_, after) = section.split_once(&format!("```{language}\n")).unwrap();
    after.split("```").next().unwrap().to_owned()
}

#[test]
fn the_example_of_the_page_is_the_chat_server_of_the_tutorial() {
    let text = block("## 6. A listener of the gateway", "toml");
    let text = text.replace("127.0.0.1:7000", "127.0.0.1:0");
    let text =
        format!("workers = 2\nshutdown_timeout = \"1s\"\nadmin.address = \"127.0.0.1:0\"\n{text}");
    let gateway = Sluice::start_by(&text, |scratch| {
        scratch.write("chat.lua", block("## 2. A chat server", "lua"));
        let mut command = Command::new(sluice_testkit::binary());
        command.current_dir(scratch.path());
        command
    });
    let (mut ann, mut bob) = (Client::open(&gateway), Client::open(&gateway));
    assert_eq!(ann.ask("ann"), "Your name? ann is here");
    assert_eq!(bob.ask("bob"), "Your name? bob is here");
    assert_eq!(ann.hear(), "bob is here");
    bob.say("hello");
    assert_eq!((ann.hear(), bob.hear()), ("bob: hello".to_owned(), "bob: hello".to_owned()));
    drop(bob);
    assert_eq!(ann.hear(), "bob has left");
    gateway.stop();
}
