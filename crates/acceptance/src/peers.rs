//! Foreign servers on free ports, as far as tests need them: nginx, HAProxy, redis-server and one of WebSocket.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use sluice_testkit::{Scratch, unclaimed_port};

use crate::eventually;

/// How often another free port is tried: somebody may take it before the server does.
const ATTEMPTS: usize = 5;

/// A running server, killed on drop.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    scratch: Scratch,
    /// `127.0.0.1:38000`.
    pub address: String,
}

impl Peer {
    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The directory it runs in.
    #[must_use]
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// Starts what `command` makes for a directory and an address.
    fn start(command: impl Fn(&Scratch, &str) -> Command) -> Self {
        for _ in 0..ATTEMPTS {
            let (scratch, address) = (Scratch::new(), format!("127.0.0.1:{}", unclaimed_port()));
            let mut command = command(&scratch, &address);
            command.current_dir(scratch.path());
            let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let child = quiet.spawn().expect("the peer is installed: `make test` does that");
            let mut peer = Self { child, scratch, address };
            let mut ended = false;
            let answers = eventually(|| {
                ended = !matches!(peer.child.try_wait(), Ok(None));
                ended || listens(peer.child.id(), &peer.address)
            });
            if answers && !ended {
                return peer;
            }
        }
        panic!("the peer did not start in {ATTEMPTS} attempts");
    }
}

/// Whether this very process listens at a port. To be connected would not say so: what looked for a free port may still
/// have a listener there, in a process that another test has forked and that has not become its program yet.
fn listens(process: u32, address: &str) -> bool {
    let port = address.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
    let suffix = format!(":{:04X}", port.unwrap_or_default());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let sockets: Vec<PathBuf> = table
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (local, state, inode) = (words.get(1)?, words.get(3)?, words.get(9)?);
            let found = local.ends_with(&suffix) && *state == LISTEN;
            found.then(|| PathBuf::from(format!("socket:[{inode}]")))
        })
        .collect();
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten();
    open.flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .any(|file| sockets.contains(&file))
}

/// The state of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Settings that keep nginx in one process and within its directory.
const NGINX: &str = "daemon off; master_process off; pid nginx.pid; error_log stderr;\n\
    events { worker_connections 16384; }\n\
    http { access_log off; keepalive_requests 1000000; client_body_temp_path body;\n\
    log_format seen '$proxy_protocol_addr $request_uri';\n\
    proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;\n";

/// nginx with one server. `listen` stands behind the address, `server` is the rest of the block.
#[must_use]
pub fn nginx(listen: &str, server: &str) -> Peer {
    nginx_with(listen, server, |_| ())
}

/// The same; `prepare` puts further files into its directory.
#[must_use]
pub fn nginx_with(listen: &str, server: &str, prepare: impl Fn(&Scratch)) -> Peer {
    Peer::start(|scratch, address| {
        prepare(scratch);
        let config = format!("{NGINX}server {{ listen {address} {listen};\n{server}\n}} }}\n");
        let config = scratch.write("nginx.conf", config);
        let mut command = Command::new("nginx");
        command.arg("-p").arg(scratch.path()).arg("-e").arg("stderr").arg("-c").arg(config);
        command
    })
}

/// nginx that speaks TLS, with a certificate for these names that nobody vouches for but the file
/// `certificate.pem` in its directory.
///
/// # Panics
/// When no certificate can be made.
#[must_use]
pub fn encrypted_nginx(names: &[&str], server: &str) -> Peer {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let made = rcgen::generate_simple_self_signed(names).expect("names of a certificate are fine");
    let keys = "ssl_certificate certificate.pem; ssl_certificate_key key.pem;";
    nginx_with("ssl", &format!("{keys}\n{server}"), |scratch| {
        scratch.write("certificate.pem", made.cert.pem());
        scratch.write("key.pem", made.signing_key.serialize_pem());
    })
}

/// HAProxy with one frontend; `servers` are the lines of its backend.
#[must_use]
pub fn haproxy(servers: &str) -> Peer {
    Peer::start(|scratch, address| {
        let config = format!(
            "defaults\n mode http\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n\
             frontend front\n bind {address}\n unique-id-format %[uuid]\n default_backend back\n\
             backend back\n {servers}\n"
        );
        let config = scratch.write("haproxy.cfg", config);
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(config);
        command
    })
}

/// redis-server that writes nothing to its disk.
#[must_use]
pub fn redis() -> Peer {
    Peer::start(|scratch, address| {
        let port = address.rsplit(':').next().unwrap_or_default();
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no"]);
        command.arg("--dir").arg(scratch.path());
        command
    })
}

/// A server that returns every message of WebSocket, strictly, by Go's gorilla/websocket; compressed if
/// the client offers that. It answers on the path `/m`.
#[must_use]
pub fn websocket() -> Peer {
    Peer::start(|_, address| {
        let mut command = Command::new("autobahn");
        command.args(["-addr", address]);
        command
    })
}
