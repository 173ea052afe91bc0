//! Certificates of clients: what origins, routes and the access log make of them.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::path::Path;

use sluice_acceptance::metric;
use sluice_acceptance::tls::{Authority, Fetched, curl, file, made};
use sluice_testkit::{Origin, Scratch, Sluice, ask, behaviour, get};

struct Stage {
    scratch: Scratch,
    origin: Origin,
    sluice: Sluice,
}

const LOG: &str =
    "{tls.client.subject} {tls.client.names} {tls.client.fingerprint} {response.status}";

const FORGED: &str =
    "GET / HTTP/1.1\r\nHost: a\r\nX-Client-Subject: CN=forged\r\nConnection: close\r\n\r\n";

impl Stage {
    /// A gateway with an encrypted and a plain listener in front of an origin that repeats heads.
    fn new(top: &str) -> Self {
        let scratch = Scratch::new();
        let origin = Origin::start(behaviour::echo);
        let authority = Authority::new("known");
        std::fs::create_dir(scratch.path().join("server")).unwrap();
        made(&["localhost"]).write(&scratch.path().join("server"), "a");
        file(scratch.path(), "ca.txt", &authority.cert);
        authority.give(&["client.test", "other.test"]).write(scratch.path(), "me");
        let at = |name: &str| scratch.path().join(name).display().to_string();
        let text = format!(
            "{top}\n[admin]\naddress = \"127.0.0.1:0\"\n[log]\naccess = \"{LOG}\"\n\
             [[listener]]\nname = \"plain\"\naddress = \"127.0.0.1:0\"\n\
             [[listener]]\nname = \"web\"\naddress = \"127.0.0.1:0\"\n[listener.tls]\nfolder = \"{}\"\n\
             client = {{ mode = \"optional\", ca = \"{}\", headers = {{ subject = \"x-client-subject\", \
             names = \"x-client-names\", fingerprint = \"x-client-fingerprint\", certificate = \"client-cert\" }} }}\n\
             [[route]]\nproxy = \"{origin}\"\n[[route]]\npath = \"/secret\"\nproxy = \"{origin}\"\n\
             client_certificate = true\n",
            at("server"),
            at("ca.txt"),
            origin = origin.address(),
        );
        let sluice = Sluice::start(&text);
        Self { scratch, origin, sluice }
    }

    fn ask(&self, path: &str, more: &[&str]) -> Fetched {
        let url = format!("https://{}{path}", self.sluice.address("web"));
        let arguments: Vec<&str> = ["-k", &url].into_iter().chain(more.iter().copied()).collect();
        curl(&arguments)
    }

    fn at(&self, name: &str) -> String {
        self.scratch.path().join(name).display().to_string()
    }

    /// A field of the request the origin got last.
    fn told(&self, name: &str) -> Option<String> {
        self.origin.last_request().fields.first(name).map(str::to_owned)
    }
}

fn openssl(file: &Path, what: &[&str]) -> String {
    let done = std::process::Command::new("openssl")
        .args(["x509", "-noout", "-nameopt", "RFC2253", "-in"])
        .arg(file)
        .args(what)
        .output()
        .unwrap();
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

#[test]
fn origins_and_the_log_are_told_what_openssl_reads() {
    let stage = Stage::new("");
    let me = stage.scratch.path().join("me.pem");
    let (cert, key) = (stage.at("me.pem"), stage.at("me.key"));
    let done = stage
        .ask("/secret", &["--cert", &cert, "--key", &key, "-H", "x-client-subject: CN=forged"]);
    assert!(done.text.starts_with("HTTP/2 200"), "{done:?}");
    let subject = openssl(&me, &["-subject"]).replace("subject=", "");
    assert_eq!(stage.told("x-client-subject").unwrap(), subject);
    let fingerprint = openssl(&me, &["-fingerprint", "-sha256"]);
    let fingerprint = fingerprint.split('=').nth(1).unwrap().replace(':', "").to_ascii_lowercase();
    assert_eq!(stage.told("x-client-fingerprint").unwrap(), fingerprint);
    assert_eq!(stage.told("x-client-names").unwrap(), "client.test,other.test");
    let pem: String =
        std::fs::read_to_string(&me).unwrap().lines().filter(|it| !it.starts_with("--")).collect();
    assert_eq!(stage.told("client-cert").unwrap(), format!(":{pem}:"));
    let subjects = stage.origin.last_request().fields.all("x-client-subject").count();
    assert_eq!(subjects, 1, "what the client wrote went no further");
    let line = format!("{subject} client.test,other.test {fingerprint} 200");
    assert!(
        stage.sluice.stdout().wait_after(0, &line).is_some(),
        "{:?}",
        stage.sluice.stdout().so_far()
    );
    stage.sluice.stop();
}

#[test]
fn without_a_certificate_nothing_is_told_and_some_routes_are_closed() {
    let stage = Stage::new("");
    let forged = [
        "-H",
        "X-Client-Subject: CN=forged",
        "-H",
        "x_client_names: forged",
        "-H",
        "Client-Cert: :AAAA:",
    ];
    let done = stage.ask("/", &forged);
    assert!(done.text.starts_with("HTTP/2 200"), "{done:?}");
    let plain = ask(&stage.sluice.address("plain"), FORGED);
    assert_eq!(plain.status, 200);
    for request in stage.origin.requests() {
        for name in ["x-client-subject", "x_client_names", "client-cert"] {
            assert_eq!(request.fields.first(name), None, "{name}");
        }
    }
    let done = stage.ask("/secret", &[]);
    assert!(done.text.starts_with("HTTP/2 403"), "{done:?}");
    assert!(done.text.contains("certificate_required"), "{done:?}");
    assert_eq!(get(&stage.sluice.address("plain"), "/secret").status, 403);
    let faults = "sluice_faults_total{side=\"downstream\",reason=\"certificate_required\"}";
    assert_eq!(metric(&stage.sluice.admin(), faults), 2);
    stage.sluice.stop();
}

#[test]
fn a_trusted_proxy_may_speak_for_its_clients() {
    let stage = Stage::new("trusted_proxies = \"127.0.0.1\"");
    let done = stage.ask("/", &["-H", "x-client-subject: CN=behind"]);
    assert!(done.text.starts_with("HTTP/2 200"), "{done:?}");
    assert_eq!(stage.told("x-client-subject").unwrap(), "CN=behind");
    // What we have seen ourselves goes before that.
    let (cert, key) = (stage.at("me.pem"), stage.at("me.key"));
    let _ = stage.ask("/", &["--cert", &cert, "--key", &key, "-H", "x-client-subject: CN=behind"]);
    assert!(!stage.told("x-client-subject").unwrap().contains("behind"));
    stage.sluice.stop();
}
