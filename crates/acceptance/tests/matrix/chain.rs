//! A gateway between curl and a second gateway that plays its origin, spoken to as a test wants.

use std::fmt;
use std::io::Write;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sluice_acceptance::tls::made;
use sluice_acceptance::websocket;
use sluice_testkit::{After, Exchange, Gate, Origin, Received, Scratch, Sluice, behaviour};

/// How two neighbours speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leg {
    pub(crate) version: Version,
    pub(crate) security: Security,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Http1,
    Http2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Security {
    Plain,
    Tls,
}

impl Leg {
    pub(crate) const ALL: [Self; 4] = [
        Self { version: Version::Http1, security: Security::Plain },
        Self { version: Version::Http2, security: Security::Plain },
        Self { version: Version::Http1, security: Security::Tls },
        Self { version: Version::Http2, security: Security::Tls },
    ];

    pub(crate) fn scheme(self) -> &'static str {
        match self.security {
            Security::Plain => "http",
            Security::Tls => "https",
        }
    }

    /// As `Via` has it.
    pub(crate) fn number(self) -> &'static str {
        match self.version {
            Version::Http1 => "1.1",
            Version::Http2 => "2",
        }
    }

    /// As the access log has it.
    pub(crate) fn name(self) -> &'static str {
        match self.version {
            Version::Http1 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
        }
    }

    /// curl's option.
    fn option(self) -> &'static str {
        match (self.version, self.security) {
            (Version::Http1, _) => "--http1.1",
            (Version::Http2, Security::Plain) => "--http2-prior-knowledge",
            (Version::Http2, Security::Tls) => "--http2",
        }
    }

    /// Lines of a listener that speaks so and in no other way.
    fn listener(self, folder: &Scratch) -> String {
        let http2 = match self.version {
            Version::Http1 => "http2 = { enabled = false }",
            Version::Http2 => "http2 = { required = true }",
        };
        format!("{http2}\n{}", self.tls(folder))
    }

    fn tls(self, folder: &Scratch) -> String {
        match self.security {
            Security::Plain => String::new(),
            Security::Tls => format!("tls.folder = \"{}\"\n", folder.path().display()),
        }
    }

    /// Lines of an upstream whose servers are spoken to so.
    fn upstream(self, folder: &Scratch) -> String {
        let protocol = match (self.version, self.security) {
            (Version::Http1, _) => "http1",
            (Version::Http2, Security::Plain) => "http2",
            (Version::Http2, Security::Tls) => "negotiate",
        };
        let trust = folder.path().join("a.pem");
        let tls = match self.security {
            Security::Plain => String::new(),
            Security::Tls => {
                let trust = trust.display();
                format!("tls = {{ ca = \"{trust}\", server_name = \"localhost\" }}\n")
            }
        };
        format!("protocol = \"{protocol}\"\n{tls}")
    }
}

impl fmt::Display for Leg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name(), self.scheme())
    }
}

/// Whether a request says how long its content is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Known,
    Unknown,
}

/// What the scripted origins wait for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gates {
    /// Requests for `held`.
    pub(crate) held: Gate,
    /// The end of the connection in the middle of `half`.
    pub(crate) half: Gate,
    /// The second event of `events`.
    pub(crate) events: Gate,
    /// Requests for `silent`, and those for `slow` at the first origin.
    pub(crate) silent: Gate,
}

/// What `large` answers with.
pub(crate) fn large() -> Vec<u8> {
    (0..4_u32 << 20).map(|n| b'a' + u8::try_from((n ^ (n >> 8)) % 26).unwrap()).collect()
}

/// An origin that does what the last segment of the path says.
fn origin(name: &'static str, gates: &Gates) -> Origin {
    let gates = gates.clone();
    let (failures, large) = (AtomicUsize::new(0), Arc::new(large()));
    Origin::start(move |exchange: &mut Exchange| {
        let target = exchange.head().target.clone();
        let path = target.split('?').next().unwrap_or_default();
        match path.rsplit('/').next().unwrap_or_default() {
            "name" => behaviour::fixed(200, name)(exchange),
            "mirror" => behaviour::mirror(exchange),
            "sink" => behaviour::sink(exchange),
            "none" => exchange.answer(204, &["X-One: 1"], ""),
            "known" => exchange.write("HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\n\r\n"),
            "fields" => exchange.answer(200, FIELDS, "fields"),
            "large" => exchange.answer(200, &[], &*large),
            "page" => exchange.answer(200, PAGE, &large[..100_000]),
            "chunks" => chunks(exchange, &large),
            "trailers" => behaviour::chunked(&["one", "two"], &["X-Sum: 6"])(exchange),
            "hints" => behaviour::interim(&[103], &["Link: </a>"])(exchange),
            "half" => half(exchange, &gates.half),
            "busy" => exchange.answer(503, &["X-Reason: maintenance"], "busy"),
            "once" if failures.fetch_add(1, Ordering::SeqCst) == 0 => {
                behaviour::fixed(503, "not yet")(exchange)
            }
            "held" => behaviour::gated(gates.held.clone(), behaviour::fixed(200, name))(exchange),
            "slow" if name == "two" => behaviour::fixed(200, name)(exchange),
            "silent" | "slow" => {
                behaviour::gated(gates.silent.clone(), behaviour::fixed(200, name))(exchange)
            }
            "chat" => websocket::echo(exchange),
            "events" => events(exchange, &gates.events),
            _ => behaviour::echo(exchange),
        }
    })
}

const PAGE: &[&str] = &["Content-Type: text/plain", "Cache-Control: max-age=600", "ETag: \"p\""];

const FIELDS: &[&str] = &[
    "Connection: X-Hop",
    "X-Hop: 1",
    "Keep-Alive: timeout=5",
    "X-One: 1",
    "Set-Cookie: a=1",
    "Set-Cookie: b=2; Path=/",
];

/// In chunks of many sizes.
fn chunks(exchange: &mut Exchange, content: &[u8]) -> std::io::Result<()> {
    exchange.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    let (mut rest, mut size) = (content, 1);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.len().min(size));
        exchange.write(format!("{:x}\r\n", piece.len()))?;
        exchange.write(piece)?;
        exchange.write("\r\n")?;
        (rest, size) = (after, size * 7 % 100_003);
    }
    exchange.write("0\r\n\r\n")
}

fn half(exchange: &mut Exchange, seen: &Gate) -> std::io::Result<()> {
    behaviour::cut_short(10, "half", After::Close)(exchange)?;
    seen.pass();
    Ok(())
}

fn events(exchange: &mut Exchange, seen: &Gate) -> std::io::Result<()> {
    let fields = "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked";
    exchange.write(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n"))?;
    exchange.write("b\r\ndata: one\n\n\r\n")?;
    seen.pass();
    exchange.write("b\r\ndata: two\n\n\r\n0\r\n\r\n")
}

/// Everything that is running for one pair of legs.
pub(crate) struct Chain {
    pub(crate) down: Leg,
    pub(crate) up: Leg,
    pub(crate) gates: Gates,
    pub(crate) one: Origin,
    pub(crate) two: Origin,
    /// The gateway that is looked at.
    pub(crate) sluice: Sluice,
    /// The addresses its servers have.
    pub(crate) servers: [String; 2],
    far: Sluice,
    folder: Scratch,
}

const UPSTREAMS: &[(&str, &str)] = &[
    ("one", ""),
    ("two", ""),
    ("both", "sticky = {}\n"),
    ("hedged", "retry = { hedge = { after = \"50ms\" } }\n"),
    ("hasty", "timeout.read = \"1s\"\n"),
    ("again", "retry = { on = \"503\" }\n"),
    ("nobody", ""),
    ("counted", ""),
    ("chat", ""),
    (
        "well",
        "panic = \"off\"\nhealth = { path = \"/name\", interval = \"50ms\", initial = \"unhealthy\" }\n",
    ),
    ("ill", "panic = \"off\"\nhealth = { path = \"/busy\", interval = \"50ms\", unhealthy = 1 }\n"),
];

const ROUTES: &str = r#"
[[route]]
name = "pass"
path = "/pass/*"
proxy = "one"
body_limit = "off"

[[route]]
path = "/small/*"
proxy = "one"
body_limit = "4B"

[[route]]
name = "narrow"
path = "/narrow/*"
proxy = "one"
concurrency = { limit = 1 }

[[route]]
name = "copied"
path = "/copied/*"
proxy = "one"
mirror = "two"

[[route]]
name = "filtered"
path = "/filtered/*"
proxy = "one"
filters = [
    { guard = { methods = ["GET", "POST"], body = 100 } },
    { rewrite = { strip_prefix = "/filtered", add_prefix = "/seen" } },
    { when = "request.header['x-asks']", headers = { request = { remove = ["x-secret"], set = { x-asked = "{request.path} of {client.ip}" } } } },
    { headers = { response = { set = { x-filtered = "{response.status}" } }, trailers = { set = { x-late = "yes" } } } },
    { body_replace = { types = ["text/*"], rules = [{ text = "hello", with = "goodbye" }] } },
]

[[route]]
path = "/kept/*"
proxy = "one"
filters = [{ cache = {} }]

[[route]]
path = "/smaller/*"
proxy = "one"
filters = [{ compress = {} }]

[[route]]
path = "/packed/*"
proxy = "one"
filters = [{ cache = {} }, { compress = {} }]

[[route]]
path = "/site/*"
files = { root = "@SITE@", strip_prefix = "/site" }

[[route]]
path = "/own/hello"
respond = { status = 203, headers = { x-own = "yes" }, body = "hello" }

[[route]]
path = "/own/moved/*"
redirect = { to = "https://new.test{path}{query}", status = 308 }

[[route]]
path = "/own/read"
method = "GET"
respond = "read"

[[route]]
host = "other.test"
path = "/which"
respond = "host"

[[route]]
path = "/which"
header = { x-tenant = "acme" }
respond = "header"

[[route]]
path = "/which"
query = { v = "2" }
respond = "query"

[[route]]
path = "/which"
cookie = { beta = "1" }
respond = "cookie"

[[route]]
path = "/which"
respond = "any"
"#;

const LOG: &str = "{request.method} {request.target} {request.version} {scheme} \
                   {response.status} {route} {upstream.name} {upstream.address} {fault}";

impl Chain {
    pub(crate) fn start(down: Leg, up: Leg) -> Self {
        let (gates, folder) = (Gates::default(), Scratch::new());
        made(&["localhost"]).write(folder.path(), "a");
        let (one, two) = (origin("one", &gates), origin("two", &gates));
        let far = Sluice::start(&far(up, &folder, [&one, &two]));
        let servers = ["one", "two"].map(|name| far.address(name));
        let sluice = Sluice::start(&near(down, up, &folder, &servers));
        Self { down, up, gates, one, two, sluice, servers, far, folder }
    }

    /// curl, about to ask for these paths.
    fn curl(&self, paths: &[&str], arguments: &[&str]) -> Command {
        let address = self.sluice.address("web");
        let port = address.rsplit(':').next().unwrap();
        let mut command = Command::new("curl");
        command.args(["-s", "-D", "/dev/stderr", "--max-time", "20", "--noproxy", "*"]);
        command.args(["--resolve", &format!("localhost:{port}:127.0.0.1"), self.down.option()]);
        command.arg("--cacert").arg(self.folder.path().join("a.pem")).args(arguments);
        command.args(paths.iter().map(|p| format!("{}://localhost:{port}{p}", self.down.scheme())));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Asks and does not wait for the answer.
    pub(crate) fn begin(&self, path: &str, arguments: &[&str]) -> Child {
        self.curl(&[path], arguments).spawn().expect("curl is installed")
    }

    /// Answers to all of these, one after the other, on a connection where curl can.
    pub(crate) fn all(&self, paths: &[&str], arguments: &[&str]) -> Reply {
        if self.down.option() != "--http2-prior-knowledge" {
            let done = self.curl(paths, arguments).output().expect("curl is installed");
            return self.reply(done);
        }
        // With it curl 7.88 fails on the second request of a connection, whoever the server is.
        let mut replies = paths.iter().map(|path| self.ask(path, arguments));
        let first = replies.next().expect("at least one path");
        replies.fold(first, Reply::and)
    }

    pub(crate) fn ask(&self, path: &str, arguments: &[&str]) -> Reply {
        let done = self.curl(&[path], arguments).output().expect("curl is installed");
        self.reply(done)
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.ask(path, &[])
    }

    /// Sends content whose length nobody knows before its end.
    pub(crate) fn send(&self, path: &str, content: &[u8]) -> Reply {
        let mut command = self.curl(&[path], &["-X", "POST", "-T", "-"]);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("curl is installed");
        let mut input: ChildStdin = child.stdin.take().unwrap();
        let content = content.to_owned();
        // curl may leave before it has read all.
        let feeder = std::thread::spawn(move || drop(input.write_all(&content)));
        let done = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        self.reply(done)
    }

    /// The status of an answer that comes before the content has been read. curl 7.88 loses it over
    /// HTTP/2 if the stream is closed (RST_STREAM with NO_ERROR, RFC 9113, 8.1) in the same breath.
    pub(crate) fn early_status(&self, path: &str, content: &[u8], length: Length) -> u16 {
        let file = self.file(content);
        if self.down.version == Version::Http1 {
            let reply = match length {
                Length::Known => self.ask(path, &["--data-binary", &file]),
                Length::Unknown => self.send(path, content),
            };
            return *reply.statuses().last().expect("an answer");
        }
        let mut command = Command::new("nghttp");
        command.args(["-v", "-d", file.trim_start_matches('@')]);
        if length == Length::Unknown {
            command.arg("--no-content-length");
        }
        let url = format!("{}://{}{path}", self.down.scheme(), self.sluice.address("web"));
        let done = command.arg(url).output().expect("nghttp is installed");
        let text = String::from_utf8_lossy(&done.stdout);
        let status = text.split(":status: ").last().unwrap_or_default();
        status.get(..3).and_then(|it| it.parse().ok()).unwrap_or_else(|| panic!("{text}"))
    }

    /// A file with this content, as an argument for curl.
    pub(crate) fn file(&self, content: &[u8]) -> String {
        let path = self.folder.path().join("content");
        std::fs::write(&path, content).unwrap();
        format!("@{}", path.display())
    }

    /// A file below `/site/`.
    pub(crate) fn file_of_site(&self, path: &str, content: &[u8]) {
        let path = self.folder.path().join("site").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// What curl saw. Whatever the answer is, it came in the version that was asked for.
    pub(crate) fn reply(&self, done: Output) -> Reply {
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        let blocks: Vec<&str> = text.split("\r\n\r\n").filter(|it| !it.is_empty()).collect();
        let (heads, trailers): (Vec<&str>, Vec<&str>) =
            blocks.into_iter().partition(|it| it.starts_with("HTTP/"));
        let version = format!("HTTP/{} ", self.down.number());
        assert!(heads.iter().all(|head| head.starts_with(&version)), "{text}");
        let owned = |lines: Vec<&str>| lines.into_iter().map(str::to_owned).collect();
        let code = done.status.code().expect("curl comes to its end");
        Reply { code, heads: owned(heads), trailers: owned(trailers), content: done.stdout }
    }

    /// The last request for this target that the first origin got.
    #[track_caller]
    pub(crate) fn received(&self, target: &str) -> Received {
        let found = self.one.requests().into_iter().rfind(|request| request.target == target);
        found.unwrap_or_else(|| panic!("nobody asked for {target}"))
    }

    /// The target of every request an origin got.
    pub(crate) fn targets(origin: &Origin) -> Vec<String> {
        origin.requests().into_iter().map(|request| request.target).collect()
    }

    pub(crate) fn stop(self) {
        self.gates.silent.open();
        for origin in [&self.one, &self.two] {
            assert_eq!(origin.complaints(), Vec::<String>::new());
        }
        self.sluice.stop();
        self.far.stop();
    }
}

/// The gateway that plays two origins. It believes what the one before it says about clients.
fn far(up: Leg, folder: &Scratch, origins: [&Origin; 2]) -> String {
    let mut text = String::from(
        "workers = 1\ntrusted_proxies = \"127.0.0.0/8\"\n[admin]\naddress = \"127.0.0.1:0\"\n",
    );
    for (name, origin) in ["one", "two"].into_iter().zip(origins) {
        let (more, origin) = (up.listener(folder), origin.address());
        text += &format!(
            "[[listener]]\nname = \"{name}\"\naddress = \"127.0.0.1:0\"\n{more}\n\
             [[route]]\nname = \"{name}\"\nlistener = \"{name}\"\nproxy = \"{origin}\"\nbody_limit = \"off\"\n"
        );
    }
    text
}

/// The gateway that is looked at. Clients choose what it speaks with them.
fn near(down: Leg, up: Leg, folder: &Scratch, servers: &[String; 2]) -> String {
    let mut text = format!(
        "workers = 2\n[admin]\naddress = \"127.0.0.1:0\"\n[log]\naccess = \"{LOG}\"\n\
         [[listener]]\nname = \"web\"\naddress = \"127.0.0.1:0\"\n{}",
        down.tls(folder)
    );
    let [one, two] = servers;
    for (name, more) in UPSTREAMS {
        let servers = match *name {
            "two" => format!("\"{two}\""),
            "both" | "hedged" => format!("\"{one}\", \"{two}\""),
            // Nobody listens there.
            "nobody" => "\"127.0.0.1:1\"".to_owned(),
            _ => format!("\"{one}\""),
        };
        let mut spoken = up.upstream(folder);
        if *name == "chat" {
            // Where there is a choice, tunnels get connections of HTTP/1.1.
            spoken = spoken.replace("negotiate", "http2");
        }
        text += &format!("[upstream.{name}]\nservers = [{servers}]\n{spoken}{more}");
        if !["one", "two"].contains(name) {
            text += &format!(
                "[[route]]\nname = \"{name}\"\npath = \"/{name}/*\"\nproxy = \"{name}\"\n"
            );
        }
    }
    let site = folder.path().join("site");
    std::fs::create_dir_all(&site).unwrap();
    text + &ROUTES.replace("@SITE@", &site.display().to_string())
}

/// What curl saw of one or more answers.
#[derive(Debug)]
pub(crate) struct Reply {
    /// curl's exit status; 0 if all came in full.
    pub(crate) code: i32,
    /// Heads, interim ones included.
    pub(crate) heads: Vec<String>,
    pub(crate) trailers: Vec<String>,
    pub(crate) content: Vec<u8>,
}

impl Reply {
    fn and(mut self, other: Self) -> Self {
        self.code = self.code.max(other.code);
        self.heads.extend(other.heads);
        self.trailers.extend(other.trailers);
        self.content.extend(other.content);
        self
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.content).into_owned()
    }

    /// All statuses, interim ones included.
    pub(crate) fn statuses(&self) -> Vec<u16> {
        let status = |head: &String| head.split(' ').nth(1).unwrap().trim().parse().unwrap();
        self.heads.iter().map(status).collect()
    }

    /// The status of the only answer, which came in full.
    #[track_caller]
    pub(crate) fn status(&self) -> u16 {
        assert_eq!((self.code, self.heads.len()), (0, 1), "{self:?}");
        self.statuses()[0]
    }

    /// Values of a field in the last head.
    pub(crate) fn fields(&self, name: &str) -> Vec<&str> {
        let head = self.heads.last().map_or("", String::as_str);
        let fields = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let own = fields.filter(|field| field.0.eq_ignore_ascii_case(name));
        own.map(|field| field.1.trim()).collect()
    }
}
