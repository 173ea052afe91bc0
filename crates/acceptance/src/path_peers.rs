//! Servers of other makers that look for what lies below `/admin/` each in its own way of reading a path.

use std::path::{Path, PathBuf};
use std::process::Command;

use sluice_testkit::{PATIENCE, Scratch};

use crate::peers::{Peer, nginx_with};

/// What nobody gets who is kept from `/admin/`.
pub const SECRET: &str = "the secret of the admin";
/// What everybody gets.
pub const OPEN: &str = "open";

/// A file beside the test.
fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/paths").join(name)
}

fn write_site(scratch: &Scratch) {
    for (name, content) in [
        ("site/admin/secret", SECRET),
        ("site/admin/index.html", SECRET),
        ("site/public/page", OPEN),
        ("site/x/y", OPEN),
        ("site/index.html", OPEN),
    ] {
        let path = scratch.path().join(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).expect("a folder can be made");
        }
        scratch.write(name, content);
    }
}

/// nginx with files.
#[must_use]
pub fn nginx_files() -> Peer {
    nginx_with("", "location / { root site; }", write_site)
}

/// Python's `http.server` with files.
#[must_use]
pub fn python_files() -> Peer {
    Peer::start(|scratch, address| {
        write_site(scratch);
        let port = address.rsplit(':').next().unwrap_or_default();
        let mut command = Command::new("python3");
        command.args(["-m", "http.server", port, "--bind", "127.0.0.1", "--directory", "site"]);
        command
    })
}

/// An application behind Python's `wsgiref`.
#[must_use]
pub fn wsgi() -> Peer {
    Peer::start(|_, address| {
        let mut command = Command::new("python3");
        command.arg(source("wsgi.py")).arg(address);
        command
    })
}

/// Node: `way` is `url` for WHATWG's URL, or `express` for the raw path without case.
#[must_use]
pub fn node(way: &str) -> Peer {
    Peer::start(|_, address| {
        let mut command = Command::new("node");
        command.arg(source("node.js")).args([address, way]);
        command
    })
}

/// The mux of Go's `net/http`.
#[must_use]
pub fn go_mux() -> Peer {
    Peer::start(|scratch, address| {
        let built = Command::new("go")
            .args(["build", "-o"])
            .arg(scratch.path().join("mux"))
            .arg(source("mux.go"))
            .current_dir(scratch.path())
            .status();
        assert!(built.is_ok_and(|status| status.success()), "go builds its server");
        let mut command = Command::new(scratch.path().join("mux"));
        command.arg(address);
        command
    })
}

/// Tomcat, told to decode slashes and to take backslashes for some.
#[must_use]
pub fn tomcat() -> Peer {
    // Compiled, by a virtual machine that starts: many seconds on a busy machine.
    Peer::start_within(PATIENCE * 6, |scratch, address| {
        let mut command = Command::new("tomcat-java");
        command.arg(source("Origin.java")).arg(address).arg(scratch.path());
        command
    })
}
