//! Foreign servers on free ports, as far as tests need them: nginx, HAProxy, redis-server and one of WebSocket.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

pub use sluice_testkit::Peer;
use sluice_testkit::Scratch;

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

/// A program in Python that listens at the address in its first argument.
#[must_use]
pub fn python(program: &str) -> Peer {
    interpreted("python3", program, |program, address| vec![program.into(), address.into()])
}

/// A program for Node.js that listens at the address in its first argument.
#[must_use]
pub fn node(program: &str) -> Peer {
    interpreted("node", program, |program, address| vec![program.into(), address.into()])
}

/// The server that PHP brings along; `program` answers every request.
#[must_use]
pub fn php(program: &str) -> Peer {
    interpreted("php", program, |program, address| {
        vec!["-S".into(), address.into(), program.into()]
    })
}

fn interpreted(
    interpreter: &str,
    program: &str,
    arguments: impl Fn(PathBuf, &str) -> Vec<OsString>,
) -> Peer {
    Peer::start(|scratch, address| {
        let mut command = Command::new(interpreter);
        command.args(arguments(scratch.write("program", program), address));
        command
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
