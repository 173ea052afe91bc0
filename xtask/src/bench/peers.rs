//! The servers that are compared, and the configurations they get.

mod page;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::geteuid;

pub use page::{HUGE, Page};

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// Ours.
    Sluice,
    /// nginx.
    Nginx,
    /// HAProxy.
    Haproxy,
    /// h2o, which is measured for TLS and HTTP/2 alone.
    H2o,
    /// Varnish, which is measured as a cache alone.
    Varnish,
}

impl Peer {
    /// Those that are measured everywhere, ours first.
    pub const ALL: [Self; 3] = [Self::Sluice, Self::Nginx, Self::Haproxy];
    /// Those that are measured for TLS and HTTP/2, ours first.
    pub const SECURE: [Self; 4] = [Self::Sluice, Self::Nginx, Self::Haproxy, Self::H2o];

    /// Those that are measured with files, compression and caches, ours first.
    pub const PAGES: [Self; 3] = [Self::Sluice, Self::Nginx, Self::Varnish];

    /// How the table names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sluice => "Sluice",
            Self::Nginx => "nginx",
            Self::Haproxy => "HAProxy",
            Self::H2o => "h2o",
            Self::Varnish => "Varnish",
        }
    }
}

/// The number of the route that is asked for; a multiple of ten, so that it is exact in every table.
const ASKED: usize = 5000;

/// What a server does in a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Answers itself with 13 bytes.
    Direct,
    /// Asks an origin on this port.
    Proxied(u16),
    /// Answers itself, with so many routes in its table; ours only.
    Routes(usize, Kinds),
    /// Answers itself, behind these filters; ours only.
    Filtered(Filters),
    /// Asks an origin on this port, with something to do for each request.
    Policed(u16, Policy),
    /// Answers a page from memory, a file or what it keeps of an origin.
    Page(Page),
    /// Answers with this page, which it keeps of an origin on this port; ours only.
    Kept(u16, &'static str),
    /// Answers lines of a protocol without HTTP, by a script; ours only.
    Lines,
    /// Asks the servers of an upstream.
    Upstream(Group),
    /// Answers itself and asks an origin, over TLS and HTTP/2, too.
    Secure(Ports),
    /// Stands behind the proxies; nginx only.
    Origin,
    /// Stands behind them as so many servers, each at a loopback address of its own; nginx only.
    Origins(u16),
}

/// The ports of a server that speaks TLS and HTTP/2, and of its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// HTTP/2 without TLS.
    pub h2c: u16,
    /// TLS, with HTTP/1.1 and HTTP/2.
    pub tls: u16,
    /// The origin.
    pub origin: u16,
}

/// The servers of an upstream, and how one is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The port of all of them.
    pub port: u16,
    /// How many there are.
    pub count: u16,
    /// The port of one more, on 127.0.0.1, that is slow.
    pub slow: Option<u16>,
    /// How one is chosen.
    pub rule: Rule,
}

/// How a server is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// One after the other.
    RoundRobin,
    /// The one with the fewest requests or connections.
    Least,
}

impl Rule {
    fn text(self, peer: Peer) -> &'static str {
        match (self, peer) {
            (Self::RoundRobin, Peer::Sluice) => "round_robin",
            (Self::RoundRobin, Peer::Haproxy) => "roundrobin",
            // What nginx does when nothing is said.
            (Self::RoundRobin, Peer::Nginx | Peer::H2o | Peer::Varnish) => "",
            (Self::Least, Peer::Sluice) => "least_requests",
            (Self::Least, Peer::Haproxy) => "leastconn",
            (Self::Least, Peer::Nginx) => "least_conn;",
            (Self::Least, Peer::H2o | Peer::Varnish) => "",
        }
    }
}

/// Loopback addresses, beginning after 127.0.0.1, which is the proxies' own.
fn loopback(count: u16) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("127.0.{}.{}", 1 + number / 250, 1 + number % 250))
}

impl Group {
    fn servers(self, peer: Peer) -> String {
        let places = loopback(self.count).map(|ip| format!("{ip}:{}", self.port));
        let slow = self.slow.map(|port| format!("127.0.0.1:{port}"));
        let lines = places.chain(slow).enumerate().map(|(number, place)| match peer {
            Peer::Sluice => format!("\"{place}\""),
            Peer::Nginx | Peer::H2o | Peer::Varnish => format!("server {place};"),
            Peer::Haproxy => format!("server s{number} {place} pool-max-conn -1"),
        });
        let between = if peer == Peer::Sluice { ", " } else { "\n    " };
        lines.collect::<Vec<_>>().join(between)
    }
}

/// What kinds of routes stand in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// Exact paths alone.
    One,
    /// Exact paths, prefixes, patterns, hosts and wildcard hosts.
    All,
}

/// What a proxy does for a request besides passing it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Nothing.
    Plain,
    /// Five edits of header fields: two set and one removed of the request, two set of the answer.
    Edits,
    /// A rate limit by address.
    Limit,
    /// A tenth of the users, by a header, to another upstream.
    Split,
    /// Four networks are kept out.
    Network,
    /// A service is asked about each request.
    Login,
}

impl Policy {
    const fn path(self) -> &'static str {
        match self {
            Self::Plain => "/plain",
            Self::Edits => "/edits",
            Self::Limit => "/limit",
            Self::Split => "/split",
            Self::Network => "/network",
            Self::Login => "/login",
        }
    }
}

/// Filters of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filters {
    /// Ten that have nothing to do for the request: half of them for its method, half for its header.
    Idle,
    /// A token that was seen before.
    Jwt,
    /// A rate limit by client, of which nobody is told.
    RateLimit,
    /// A script that reads one header and sets another.
    Lua,
    /// None, and a script that answers.
    LuaAnswer,
}

/// A token signed with HS256 and the secret in the configuration, which never ends.
const TOKEN: &str = "authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4iLCJzY29wZSI6InJlYWQifQ.dUpL7bry0fa1zrKhoiTntr_-02gwmmWOMIsUe0SKNoI";

impl Filters {
    /// Lines of the configuration.
    fn text(self) -> String {
        let one = |number: usize| {
            let when = match number % 2 {
                0 => "request.method == 'POST'",
                _ => "request.header['x-debug']",
            };
            format!("[filter.f{number}]\nwhen = \"{when}\"\nguard = {{ target = 3 }}\n")
        };
        let filters = match self {
            Self::Idle => (0..10).map(one).collect(),
            Self::Jwt => "[filter.f0.jwt]\nsecret = \"a secret of 32 bytes for a bench\"\n\
                          endless = true\nmissing = \"pass\"\n"
                .to_owned(),
            Self::RateLimit => "[filter.f0.rate_limit]\nlimits = \"1000000/s\"\n\
                                key = \"{client.ip}\"\nheaders = \"none\"\n"
                .to_owned(),
            Self::Lua => "[filter.f0.lua]\nscript = '''function request_head(request) \
                          request:set_header('x-agent', request:header('user-agent') or '-') end'''\n"
                .to_owned(),
            Self::LuaAnswer => {
                let script = "function answer(request) respond('Hello, World!') end";
                return format!("\n[[route]]\npath = \"/f\"\nlua = {{ script = \"{script}\" }}\n");
            }
        };
        let count = if self == Self::Idle { 10 } else { 1 };
        let names: Vec<String> = (0..count).map(|number| format!("\"f{number}\"")).collect();
        let names = names.join(", ");
        let answer = "{ status = 200, headers = { content-type = \"text/plain\" }, \
                      body = \"Hello, World!\" }";
        format!("\n{filters}[[route]]\npath = \"/f\"\nfilters = [{names}]\nrespond = {answer}\n")
    }
}

impl Role {
    /// The path that is asked for.
    pub fn path(self) -> &'static str {
        match self {
            Self::Routes(..) => "/r/5000/exact",
            Self::Filtered(_) => "/f",
            Self::Policed(_, policy) => policy.path(),
            Self::Page(page) => page.path,
            _ => "/",
        }
    }

    /// A header line that requests have besides those of the client.
    pub fn header(self) -> Option<&'static str> {
        match self {
            Self::Filtered(Filters::Jwt) => Some(TOKEN),
            Self::Policed(..) => Some("x-user: eva"),
            Self::Page(page) => page.header,
            _ => None,
        }
    }
}

/// Where things are, and which servers there are.
#[derive(Debug)]
pub struct Bench {
    /// The repository.
    pub root: PathBuf,
    /// Scratch space for configurations, logs and figures.
    pub scratch: PathBuf,
    /// Our program.
    pub sluice: PathBuf,
    /// What is missing on this machine, in words.
    pub missing: Vec<String>,
    /// The servers that can be started.
    pub peers: Vec<Peer>,
}

impl Bench {
    /// Looks what is there.
    pub fn new(root: &Path, sluice: PathBuf) -> Result<Self, String> {
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
        let scratch = target.join(format!("bench/{}", std::process::id()));
        fs::create_dir_all(&scratch).map_err(|e| format!("{}: {e}", scratch.display()))?;
        let mut bench =
            Self { root: root.to_owned(), scratch, sluice, missing: Vec::new(), peers: Vec::new() };
        for peer in Peer::ALL {
            if bench.version(peer).is_some() {
                bench.peers.push(peer);
            } else {
                bench.missing.push(format!("{} is not there and was left out", peer.name()));
            }
        }
        Ok(bench)
    }

    /// The version a server reports; `None` when it cannot be started.
    pub fn version(&self, peer: Peer) -> Option<String> {
        let (program, argument) = match peer {
            Peer::H2o => (Path::new("h2o"), "--version"),
            Peer::Sluice => (self.sluice.as_path(), "--version"),
            Peer::Nginx => (Path::new("nginx"), "-v"),
            Peer::Haproxy => (Path::new("haproxy"), "-v"),
            Peer::Varnish => (Path::new("varnishd"), "-V"),
        };
        first_line(Command::new(program).arg(argument))
    }

    /// Writes a configuration and returns the command that serves it on the port.
    pub fn command(&self, peer: Peer, role: Role, port: u16) -> Result<Vec<String>, String> {
        let (folder, name) = match (peer, role) {
            (Peer::Nginx, Role::Origin) => ("nginx", "origin.conf"),
            (Peer::Nginx, Role::Origins(_)) => ("nginx", "origins.conf"),
            (Peer::Sluice, Role::Policed(..)) => ("sluice", "filters.toml"),
            (Peer::Nginx, Role::Policed(..)) => ("nginx", "filters.conf"),
            (Peer::Haproxy, Role::Policed(..)) => ("haproxy", "filters.cfg"),
            (Peer::Sluice, Role::Upstream(_)) => ("sluice", "upstream.toml"),
            (Peer::Nginx, Role::Upstream(_)) => ("nginx", "upstream.conf"),
            (Peer::Haproxy, Role::Upstream(_)) => ("haproxy", "upstream.cfg"),
            (Peer::Sluice, Role::Secure(_)) => ("sluice", "secure.toml"),
            (Peer::Nginx, Role::Secure(_)) => ("nginx", "secure.conf"),
            (Peer::Haproxy, Role::Secure(_)) => ("haproxy", "secure.cfg"),
            (Peer::H2o, Role::Secure(_)) => ("h2o", "secure.yaml"),
            (Peer::Nginx, Role::Direct) => ("nginx", "direct.conf"),
            (Peer::Nginx, Role::Proxied(_)) => ("nginx", "proxied.conf"),
            (Peer::Haproxy, Role::Direct) => ("haproxy", "direct.cfg"),
            (Peer::Haproxy, Role::Proxied(_)) => ("haproxy", "proxied.cfg"),
            (Peer::Sluice, Role::Direct | Role::Routes(..) | Role::Filtered(_)) => {
                ("sluice", "direct.toml")
            }
            (Peer::Sluice, Role::Proxied(_)) => ("sluice", "proxied.toml"),
            (Peer::Sluice, Role::Lines) => ("sluice", "ping.lua"),
            (Peer::Sluice, Role::Kept(..)) => ("sluice", "kept.toml"),
            (Peer::Sluice, Role::Page(_)) => ("sluice", "pages.toml"),
            (Peer::Nginx, Role::Page(_)) => ("nginx", "pages.conf"),
            (Peer::Varnish, Role::Page(_)) => ("varnish", "pages.vcl"),
            (peer, role) => {
                return Err(format!("{} has no configuration for {role:?}", peer.name()));
            }
        };
        let template = self.root.join("bench").join(folder).join(name);
        let mut text =
            fs::read_to_string(&template).map_err(|e| format!("{}: {e}", template.display()))?;
        let place = self.scratch.join(format!("{folder}-{port}"));
        fs::create_dir_all(&place).map_err(|e| format!("{}: {e}", place.display()))?;
        text = text.replace("@PORT@", &port.to_string()).replace("@DIR@", &show(&place));
        match role {
            Role::Proxied(origin) | Role::Policed(origin, _) => {
                text = text.replace("@ORIGIN@", &origin.to_string())
            }
            Role::Routes(count, kinds) => text.push_str(&routes(count, kinds)),
            Role::Filtered(filters) => text.push_str(&filters.text()),
            Role::Upstream(group) => {
                text = text.replace("@SERVERS@", &group.servers(peer));
                text = text.replace("@BALANCE@", group.rule.text(peer));
            }
            Role::Origins(count) => {
                // The first one is for the question whether it is there.
                let places = std::iter::once("127.0.0.1".to_owned()).chain(loopback(count));
                let lines = places.map(|ip| format!("listen {ip}:{port} backlog=1024;"));
                text = text.replace("@LISTEN@", &lines.collect::<Vec<_>>().join("\n        "));
            }
            Role::Secure(ports) => text = self.secure(&place, ports, text)?,
            Role::Kept(origin, page) => {
                text = text.replace("@ORIGIN@", &origin.to_string()).replace("@PAGE@", page);
            }
            Role::Page(page) => {
                let (origin, workers) = (page.origin.to_string(), page.workers.to_string());
                text = text.replace("@ORIGIN@", &origin).replace("@WORKERS@", &workers);
                text = text.replace("@OTHER@", &page.other.to_string());
                text = text.replace("@PAGES@", &show(&self.pages()?));
            }
            Role::Origin => {
                large(&place)?;
                text = text.replace("@PAGES@", &show(&self.pages()?));
            }
            Role::Direct | Role::Lines => {}
        }
        let config = place.join(name);
        fs::write(&config, text).map_err(|e| format!("{}: {e}", config.display()))?;
        let (config, log) = (show(&config), show(&place.join("error.log")));
        let words = match peer {
            Peer::Sluice if role == Role::Lines => {
                vec![show(&self.sluice), "lua".to_owned(), config]
            }
            Peer::Sluice => vec![show(&self.sluice), "run".to_owned(), "-c".to_owned(), config],
            Peer::Nginx => ["nginx", "-e", &log, "-c", &config].map(String::from).to_vec(),
            Peer::Haproxy => ["haproxy", "-db", "-f", &config].map(String::from).to_vec(),
            Peer::H2o => {
                let settings = format!("OPENSSL_CONF={}", show(&place.join("openssl.cnf")));
                ["env", &settings, "h2o", "-m", "worker", "-c", &config].map(String::from).to_vec()
            }
            Peer::Varnish => {
                let listen = format!("127.0.0.1:{port}");
                // Threads enough for the connections, so that none is made under load.
                let threads = ["-p", "thread_pools=1", "-p", "thread_pool_min=200"];
                let all = ["varnishd", "-F", "-n", &show(&place), "-a", &listen, "-f", &config];
                let rest = ["-s", "default,256m", "-j", "none"];
                all.iter().chain(&rest).chain(&threads).map(|word| (*word).to_owned()).collect()
            }
        };
        Ok(words)
    }

    /// The folder of pages, which are the same for everybody; made when it is asked for first.
    pub fn pages(&self) -> Result<PathBuf, String> {
        let folder = self.scratch.join("pages");
        if !folder.exists() {
            page::lay_out(&self.root, &folder)?;
        }
        Ok(folder)
    }
}

impl Bench {
    /// Puts certificate, key and files beside a configuration, and their names into it.
    fn secure(&self, place: &Path, ports: Ports, text: String) -> Result<String, String> {
        let (cert, key) = self.certificate()?;
        large(place)?;
        let write = |name: &str, content: &[u8]| {
            let path = place.join(name);
            fs::write(&path, content).map_err(|e| format!("{}: {e}", path.display()))
        };
        let read = |path: &Path| fs::read(path).map_err(|e| format!("{}: {e}", path.display()));
        write("both.pem", &[read(&cert)?, read(&key)?].concat())?;
        // h2o has no words of its own for suites and curves of TLS 1.3.
        write("openssl.cnf", OPENSSL.as_bytes())?;
        fs::create_dir_all(place.join("files")).map_err(|e| e.to_string())?;
        write("files/index.html", b"Hello, World!")?;
        let ports = [("@H2C@", ports.h2c), ("@TLS@", ports.tls), ("@ORIGIN@", ports.origin)];
        let text =
            ports.iter().fold(text, |text, (mark, port)| text.replace(mark, &port.to_string()));
        // Without a word it leaves root for a user who may read none of the files.
        let user = if geteuid().is_root() { "user: root" } else { "" };
        let text = text.replace("@USER@", user);
        Ok(text.replace("@CERT@", &show(&cert)).replace("@KEY@", &show(&key)))
    }

    /// One certificate with an ECDSA key over P-256, the same for everybody; made when it is asked for first.
    fn certificate(&self) -> Result<(PathBuf, PathBuf), String> {
        let (cert, key) = (self.scratch.join("cert.pem"), self.scratch.join("key.pem"));
        if !cert.exists() {
            let output = Command::new("openssl")
                .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
                .args(["-nodes", "-days", "30", "-subj", "/CN=localhost"])
                .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout"])
                .arg(&key)
                .arg("-out")
                .arg(&cert)
                .output()
                .map_err(|e| format!("openssl: {e}"))?;
            if !output.status.success() {
                return Err(format!("openssl: {}", String::from_utf8_lossy(&output.stderr)));
            }
        }
        Ok((cert, key))
    }
}

/// What everybody is to agree upon, for programs that leave it to the library.
const OPENSSL: &str = "openssl_conf = all\n[all]\nssl_conf = ssl\n[ssl]\nsystem_default = defaults\n\
    [defaults]\nMinProtocol = TLSv1.3\nCiphersuites = TLS_AES_128_GCM_SHA256\nGroups = X25519\n";

/// A file of a MiB.
fn large(place: &Path) -> Result<(), String> {
    let path = place.join("large");
    let content: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    fs::write(&path, content).map_err(|e| format!("{}: {e}", path.display()))
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

fn show(path: &Path) -> String {
    path.display().to_string()
}

/// So many routes around the one that is asked for.
fn routes(count: usize, kinds: Kinds) -> String {
    let mut text = String::new();
    let first = ASKED - count / 2;
    for number in first..first + count {
        let kind = if kinds == Kinds::One { 0 } else { number % 10 };
        let (host, path) = match kind {
            1..=3 => (String::new(), format!("/p/{number}/*")),
            4 | 6 => (String::new(), format!("/u/{number}/{{id}}/x")),
            7 => (format!("host = \"h{number}.test\"\n"), "/".to_owned()),
            8 => (format!("host = \"*.w{number}.test\"\n"), "/w/*".to_owned()),
            _ => (String::new(), format!("/r/{number}/exact")),
        };
        text.push_str(&format!(
            "\n[[route]]\n{host}path = \"{path}\"\nrespond = {{ status = 200, headers = \
             {{ content-type = \"text/plain\" }}, body = \"Hello, World!\" }}\n"
        ));
    }
    text
}

/// A port nobody uses now.
pub fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|e| format!("no free port: {e}"))?;
    listener.local_addr().map(|address| address.port()).map_err(|e| e.to_string())
}

/// The first line a command prints; `None` when it cannot be run or fails.
pub fn first_line(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    let bytes = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    Some(String::from_utf8_lossy(&bytes).lines().next()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Kinds, routes};

    #[test]
    fn the_route_that_is_asked_for_is_in_every_table() {
        for (count, kinds) in
            [(1, Kinds::One), (10_000, Kinds::One), (10, Kinds::All), (10_000, Kinds::All)]
        {
            let text = routes(count, kinds);
            assert_eq!(text.matches("[[route]]").count(), count);
            assert_eq!(text.matches("path = \"/r/5000/exact\"").count(), 1);
            let mixed = ["/p/", "{id}", "host = \"h", "host = \"*.w"];
            assert!(mixed.iter().all(|mark| text.contains(mark) == (kinds == Kinds::All)));
        }
    }
}
