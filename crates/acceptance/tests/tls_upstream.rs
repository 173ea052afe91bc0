//! Encrypted connections to origins: nginx, openssl and the gateway itself in front of the gateway.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::path::Path;

use sluice_acceptance::peers::{Peer, encrypted_nginx, nginx};
use sluice_acceptance::tls::{Authority, file, made};
use sluice_acceptance::{eventually, metric};
use sluice_testkit::{Origin, Scratch, Sluice, behaviour, get, run};

/// A gateway that passes everything on to an upstream with these lines.
fn to(upstream: &str) -> String {
    format!(
        "workers = 1\n[admin]\naddress = \"127.0.0.1:0\"\n[[listener]]\nname = \"web\"\n\
         address = \"127.0.0.1:0\"\n[upstream.api]\n{upstream}\n[[route]]\nproxy = \"api\"\n"
    )
}

fn port(address: &str) -> &str {
    address.rsplit(':').next().unwrap()
}

fn certificate(peer: &Peer) -> String {
    peer.scratch().path().join("certificate.pem").display().to_string()
}

fn failures(sluice: &Sluice, reason: &str) -> u64 {
    let sample = format!("sluice_upstream_failures_total{{upstream=\"api\",reason=\"{reason}\"}}");
    metric(&sluice.admin(), &sample)
}

#[test]
fn an_origin_is_reached_and_its_connection_kept() {
    let peer = encrypted_nginx(
        &["localhost"],
        "location / { return 200 '$ssl_server_name $ssl_protocol $ssl_session_reused $connection'; }",
    );
    let servers = format!("servers = \"https://localhost:{}\"\n", port(&peer.address));
    let sluice = Sluice::start(&to(&format!("{servers}tls.ca = \"{}\"", certificate(&peer))));
    let web = sluice.address("web");
    let first = get(&web, "/").text();
    assert!(first.starts_with("localhost TLSv1."), "{first}");
    for _ in 0..3 {
        assert_eq!(get(&web, "/").text(), first, "one connection for all");
    }
    let reuses =
        metric(&sluice.admin(), "sluice_upstream_connection_reuses_total{upstream=\"api\"}");
    assert_eq!(reuses, 3);
    sluice.stop();
}

#[test]
fn a_ticket_shortens_the_next_handshake() {
    let peer = encrypted_nginx(
        &["localhost"],
        "ssl_session_cache shared:a:1m; keepalive_timeout 0;\n\
         location / { return 200 '$ssl_session_reused'; }",
    );
    let servers = format!("servers = \"https://localhost:{}\"\n", port(&peer.address));
    let sluice = Sluice::start(&to(&format!("{servers}tls.ca = \"{}\"", certificate(&peer))));
    let web = sluice.address("web");
    assert_eq!(get(&web, "/").text(), ".");
    assert_eq!(get(&web, "/").text(), "r");
    // A reload that changes nothing about it keeps the tickets.
    sluice
        .reload(&to(&format!("{servers}tls.ca = \"{}\"\nkeepalive.idle = 7", certificate(&peer))));
    assert_eq!(get(&sluice.address("web"), "/").text(), "r");
    sluice.stop();
}

#[test]
fn a_certificate_is_looked_at_unless_somebody_says_not_to() {
    let peer = encrypted_nginx(&["localhost"], "location / { return 200 'there'; }");
    let (port, ca) = (port(&peer.address), certificate(&peer));
    let rows = [
        (
            format!("servers = \"https://localhost:{port}\""),
            Some("nobody who is trusted has issued it"),
        ),
        (
            format!("servers = \"https://127.0.0.1:{port}\"\ntls.ca = \"{ca}\""),
            Some("not for \\\"127.0.0.1\\\""),
        ),
        (
            format!(
                "servers = \"127.0.0.1:{port}\"\ntls = {{ ca = \"{ca}\", server_name = \"other.test\" }}"
            ),
            Some("not for \\\"other.test\\\""),
        ),
        (
            format!(
                "servers = \"127.0.0.1:{port}\"\ntls = {{ ca = \"{ca}\", server_name = \"localhost\" }}"
            ),
            None,
        ),
        (format!("servers = \"https://127.0.0.1:{port}\"\ntls.verify = \"none\""), None),
    ];
    for (upstream, said) in rows {
        let sluice = Sluice::start(&to(&format!("{upstream}\nretry.attempts = 0")));
        let answer = get(&sluice.address("web"), "/");
        match said {
            None => assert_eq!(answer.text(), "there", "{upstream}"),
            Some(part) => {
                assert_eq!(answer.status, 502, "{upstream}");
                assert!(answer.text().contains("tls_untrusted"), "{}", answer.text());
                let line = sluice
                    .wait_for_line("tls_untrusted (the server's certificate is not accepted: ");
                assert!(line.contains(&part.replace('\\', "")), "{line}");
                assert_eq!(failures(&sluice, "tls_untrusted"), 1);
            }
        }
        sluice.stop();
    }
}

#[test]
fn who_speaks_no_tls_is_told_from_who_is_not_there() {
    let peer = nginx("", "location / { return 200 'plain'; }");
    let upstream = format!("servers = \"https://{}\"\nretry.attempts = 0", peer.address);
    let sluice = Sluice::start(&to(&upstream));
    let answer = get(&sluice.address("web"), "/");
    assert_eq!((answer.status, answer.text().contains("tls_failed")), (502, true));
    sluice.wait_for_line("tls_failed (the server does not speak TLS");
    assert_eq!((failures(&sluice, "tls_failed"), failures(&sluice, "connect_failed")), (1, 0));
    sluice.stop();
}

/// A gateway that asks for certificates, and says who asked.
fn strict(folder: &Path, ca: &Path, origin: &str) -> Sluice {
    Sluice::start(&format!(
        "[admin]\naddress = \"127.0.0.1:0\"\n[[listener]]\nname = \"web\"\naddress = \"127.0.0.1:0\"\n\
         tls = {{ folder = \"{}\", client.ca = \"{}\" }}\n[[route]]\nproxy = \"{origin}\"\n",
        folder.display(),
        ca.display()
    ))
}

#[test]
fn origins_may_ask_who_we_are_and_a_new_certificate_is_shown_at_once() {
    let origin = Origin::start(behaviour::echo);
    let (folder, mine) = (Scratch::new(), Scratch::new());
    let authority = Authority::new("known");
    made(&["localhost"]).write(folder.path(), "a");
    let ca = file(mine.path(), "ca.txt", &authority.cert);
    let there = strict(folder.path(), &ca, origin.address());
    let web = there.address("web");
    let upstream = |more: &str| {
        let trust = folder.path().join("a.pem");
        to(&format!(
            "servers = \"https://127.0.0.1:{}\"\nkeepalive.idle = 0\nretry.attempts = 0\n\
             tls = {{ ca = \"{}\", server_name = \"localhost\"{more} }}",
            port(&web),
            trust.display()
        ))
    };
    let nobody = Sluice::start(&upstream(""));
    assert_eq!(get(&nobody.address("web"), "/").status, 502);
    nobody.stop();
    Authority::new("unknown").give(&["gateway"]).write(mine.path(), "me");
    let at = |name: &str| mine.path().join(name).display().to_string();
    let shown = format!(", cert = \"{}\", key = \"{}\"", at("me.pem"), at("me.key"));
    let sluice = Sluice::start(&upstream(&shown));
    assert_eq!(get(&sluice.address("web"), "/").status, 502, "an issuer they do not know");
    let mark = sluice.words().mark();
    authority.give(&["gateway"]).write(mine.path(), "me");
    assert!(sluice.words().wait_after(mark, "asked for other certificates").is_some());
    // Key and certificate are two files: what was read between them is read again.
    let web = sluice.address("web");
    assert!(eventually(|| get(&web, "/x").text().starts_with("GET /x ")));
    sluice.stop();
    there.stop();
}

#[test]
fn servers_are_checked_encrypted_too() {
    let peer = encrypted_nginx(&["localhost"], "location / { return 200 'well'; }");
    let servers = format!(
        "servers = \"https://127.0.0.1:{}\"\ntls.server_name = \"localhost\"\n",
        port(&peer.address)
    );
    let health = "health = { path = \"/\", interval = \"50ms\", unhealthy = 1 }\npanic = \"off\"\n";
    let good = Sluice::start(&to(&format!("{servers}{health}tls.ca = \"{}\"", certificate(&peer))));
    let available =
        format!("sluice_server_available{{upstream=\"api\",server=\"{}\"}}", peer.address);
    let checks =
        format!("sluice_server_checks_total{{upstream=\"api\",server=\"{}\"}}", peer.address);
    assert!(eventually(|| metric(&good.admin(), &checks) >= 2));
    assert_eq!(metric(&good.admin(), &available), 1);
    good.stop();
    let bad = Sluice::start(&to(&format!("{servers}{health}")));
    bad.wait_for_line("TLS handshake failed: its certificate is not accepted");
    assert!(eventually(|| metric(&bad.admin(), &available) == 0));
    assert_eq!(get(&bad.address("web"), "/").status, 503);
    bad.stop();
}

#[test]
fn content_of_any_size_goes_both_ways() {
    let origin = Origin::start(behaviour::mirror);
    let (folder, mine) = (Scratch::new(), Scratch::new());
    made(&["localhost"]).write(folder.path(), "a");
    let there = Sluice::start(&format!(
        "[admin]\naddress = \"127.0.0.1:0\"\n[[listener]]\nname = \"web\"\naddress = \"127.0.0.1:0\"\n\
         tls.folder = \"{}\"\n[[route]]\nproxy = \"{}\"\nbody_limit = \"off\"\n",
        folder.path().display(),
        origin.address()
    ));
    let web = there.address("web");
    let trust = folder.path().join("a.pem");
    let text = to(&format!(
        "servers = \"https://127.0.0.1:{}\"\ntls = {{ ca = \"{}\", server_name = \"localhost\" }}",
        port(&web),
        trust.display()
    ));
    let sluice = Sluice::start(&(text + "body_limit = \"off\"\n"));
    for length in [0, 1, 16_384, 16_385, 2_000_000] {
        let letters = "abcdefghijklmnopqrstuvwxyz".chars().cycle();
        let content: String = letters.take(length).collect();
        let sent = file(mine.path(), "content", &content);
        let at = format!("@{}", sent.display());
        let url = format!("http://{}/", sluice.address("web"));
        let done = sluice_acceptance::tls::curl(&["--data-binary", &at, &url]);
        assert!(done.text.ends_with(&content) && done.code == Some(0), "{length}");
    }
    sluice.stop();
    there.stop();
}

#[test]
fn what_cannot_be_used_is_told_before_the_start() {
    let scratch = Scratch::new();
    let rows = [
        (
            "servers = [\"https://a.test\", \"b.test:80\"]",
            "some of these servers are encrypted and some are not",
        ),
        (
            "servers = \"http://a.test\"\ntls = {}",
            "some of these servers are encrypted and some are not",
        ),
        ("servers = \"unix:/x\"\ntls = {}", "has to be for a name, and none is known"),
        (
            "servers = \"https://a.test\"\ntls.key = \"x\"",
            "a `key` is of no use without its `cert`",
        ),
        ("servers = \"https://a.test\"\ntls.verify = \"no\"", "`verify` cannot be \"no\""),
        (
            "servers = \"https://a.test\"\ntls.ca = \"absent.pem\"",
            "upstream \"api\": tls: cannot read absent.pem",
        ),
        (
            "servers = \"https://a.test\"\ntls.cert = \"absent.pem\"",
            "upstream \"api\": tls: cannot read absent.pem",
        ),
    ];
    for (upstream, part) in rows {
        let file = file(scratch.path(), "sluice.toml", &to(upstream));
        let done = run(&["check", "-c", &file.display().to_string()], "");
        assert_eq!(done.code, Some(1), "{upstream}");
        assert!(done.stderr.contains(part), "{upstream}\n{}", done.stderr);
    }
}
