//! Encrypted listeners, looked at by curl and openssl.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io::Read;
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;

use sluice_acceptance::tls::{Authority, Held, Made, curl, fetch, file, made, made_until, openssl};
use sluice_acceptance::{eventually, metric};
use sluice_testkit::{Origin, Scratch, Sluice, behaviour, get, run};

/// A configuration with one encrypted listener; `tls` is what stands in its table.
fn config(tls: &str, rest: &str) -> String {
    format!(
        "[admin]\naddress = \"127.0.0.1:0\"\n[[listener]]\nname = \"web\"\n\
         address = \"127.0.0.1:0\"\n{tls}\n{rest}\n[[route]]\nrespond = \"hello\"\n"
    )
}

/// The table of a listener with the certificates of a folder, and further lines.
fn of_folder(folder: &Path, more: &str) -> String {
    format!("tls.folder = \"{}\"\n{more}", folder.display())
}

/// A gateway with one certificate for localhost, and where that is.
fn simple(more: &str) -> (Sluice, Scratch, Made) {
    let (scratch, made) = (Scratch::new(), made(&["localhost"]));
    made.write(scratch.path(), "a");
    (Sluice::start(&config(&of_folder(scratch.path(), more), "")), scratch, made)
}

#[test]
fn a_client_is_answered_and_origins_hear_of_it() {
    let origin = Origin::start(behaviour::echo);
    let (scratch, made) = (Scratch::new(), made(&["localhost"]));
    made.write(scratch.path(), "a");
    let text = format!(
        "[admin]\naddress = \"127.0.0.1:0\"\n[log]\naccess = \"{}\"\n\
         [[listener]]\nname = \"web\"\naddress = \"127.0.0.1:0\"\n{}\n\
         [[listener]]\nname = \"plain\"\naddress = \"127.0.0.1:0\"\n\
         [[route]]\nlistener = \"plain\"\nredirect = {{ to = \"https://{{host}}{{path}}{{query}}\", status = 308 }}\n\
         [[route]]\nlistener = \"web\"\npath = \"/there\"\nredirect = \"{{scheme}}://{{host}}/\"\n\
         [[route]]\nlistener = \"web\"\nproxy = \"{}\"\n",
        "{scheme} {tls.version} {tls.suite} {tls.group} {tls.resumed} {tls.server_name} {response.status}",
        of_folder(scratch.path(), "tls.hsts = \"on\""),
        origin.address()
    );
    let sluice = Sluice::start(&text);
    let (web, ca) = (sluice.address("web"), scratch.path().join("a.pem"));
    let done = fetch("localhost", &web, &ca, "/x");
    assert!(done.text.starts_with("HTTP/2 200"), "{done:?}");
    assert!(done.text.contains("strict-transport-security: max-age=31536000\r\n"), "{done:?}");
    let asked = origin.last_request();
    assert_eq!(asked.fields.first("x-forwarded-proto"), Some("https"));
    assert!(asked.fields.first("forwarded").unwrap().ends_with(";proto=https"));
    let line = "https 1.3 TLS_AES_128_GCM_SHA256 X25519 no localhost 200";
    assert!(sluice.stdout().wait_after(0, line).is_some(), "{:?}", sluice.stdout().so_far());
    let done = fetch("localhost", &web, &ca, "/there");
    assert!(done.text.contains("location: https://localhost/\r\n"), "{done:?}");
    let plain = get(&sluice.address("plain"), "/a?b=c");
    assert_eq!(
        (plain.status, plain.fields.first("location").unwrap()),
        (308, "https://localhost/a?b=c")
    );
    assert_eq!(plain.fields.first("strict-transport-security"), None, "never without encryption");
    assert!(sluice.stdout().wait_after(0, "http - - - - - 308").is_some());
    let done = metric(
        &sluice.admin(),
        "sluice_listener_handshakes_total{listener=\"web\",version=\"1.3\",resumed=\"no\"}",
    );
    assert_eq!(done, 2);
    sluice.stop();
}

#[test]
fn much_content_goes_both_ways() {
    let origin = Origin::start(behaviour::mirror);
    let (scratch, made) = (Scratch::new(), made(&["localhost"]));
    made.write(scratch.path(), "a");
    let text = format!(
        "[[listener]]\nname = \"web\"\naddress = \"127.0.0.1:0\"\n{}\n\
         [[route]]\nproxy = \"{}\"\nbody_limit = \"off\"\n[admin]\naddress = \"127.0.0.1:0\"\n",
        of_folder(scratch.path(), ""),
        origin.address()
    );
    let sluice = Sluice::start(&text);
    let letters = "abcdefghijklmnopqrstuvwxyz".chars().cycle();
    let content: String = letters.flat_map(|letter| [letter; 7]).take(3_000_000).collect();
    let sent = file(scratch.path(), "content", &content);
    let got = scratch.path().join("got");
    let port = sluice.address("web").rsplit(':').next().unwrap().to_owned();
    let done = curl(&[
        "--cacert",
        &scratch.path().join("a.pem").display().to_string(),
        "--resolve",
        &format!("localhost:{port}:127.0.0.1"),
        "--data-binary",
        &format!("@{}", sent.display()),
        "-o",
        &got.display().to_string(),
        &format!("https://localhost:{port}/"),
    ]);
    assert_eq!(done.code, Some(0));
    let got = std::fs::read_to_string(got).unwrap();
    assert!(got.ends_with(&content), "{} bytes", got.len());
    sluice.stop();
}

#[test]
fn a_name_gets_its_certificate() {
    let scratch = Scratch::new();
    let names = ["one.test", "*.two.test", "first.test"];
    let all = names.map(|name| made(&[name]));
    for (at, made) in all.iter().enumerate() {
        made.write(scratch.path(), &format!("{at}"));
    }
    let at = |name: &str| scratch.path().join(name).display().to_string();
    let tls = format!(
        "tls.certificates = [{{ cert = \"{}\", key = \"{}\" }}, {{ cert = \"{}\", key = \"{}\" }}, \"{}\"]",
        at("2.pem"),
        at("2.key"),
        at("0.pem"),
        at("0.key"),
        at("both.pem"),
    );
    file(scratch.path(), "both.pem", &format!("{}{}", all[1].cert, all[1].key));
    let sluice = Sluice::start(&config(&tls, ""));
    let web = sluice.address("web");
    for (name, ca) in [("one.test", "0.pem"), ("a.two.test", "1.pem"), ("first.test", "2.pem")] {
        let done = fetch(name, &web, &scratch.path().join(ca), "/");
        assert!(done.text.ends_with("hello"), "{name}: {done:?}");
        let wrong = fetch(
            name,
            &web,
            &scratch.path().join(if ca == "0.pem" { "1.pem" } else { "0.pem" }),
            "/",
        );
        assert_eq!(wrong.code, Some(60), "{name}: {wrong:?}");
    }
    let said = openssl(&web, &["-servername", "else.test", "-CAfile", &at("2.pem")]);
    assert!(said.contains("Verify return code: 0"), "whoever is unknown gets the first: {said}");
    sluice.stop();
}

#[test]
fn certificates_are_renewed_behind_a_link_and_no_connection_ends() {
    let scratch = Scratch::new();
    let (old, new) = (made(&["localhost"]), made(&["localhost"]));
    for (version, made) in [("v1", &old), ("v2", &new)] {
        std::fs::create_dir(scratch.path().join(version)).unwrap();
        made.write(&scratch.path().join(version), "a");
    }
    let link = scratch.path().join("current");
    symlink("v1", &link).unwrap();
    let sluice = Sluice::start(&config(&of_folder(&link, ""), ""));
    let web = sluice.address("web");
    let mut held = Held::open(&web);
    assert_eq!(held.ask("/"), "hello");
    let mark = sluice.words().mark();
    let next = scratch.path().join("next");
    symlink("v2", &next).unwrap();
    std::fs::rename(&next, &link).unwrap();
    assert!(sluice.words().wait_after(mark, "shows new certificates: localhost").is_some());
    assert!(
        fetch("localhost", &web, &scratch.path().join("v2/a.pem"), "/").text.ends_with("hello")
    );
    assert_eq!(fetch("localhost", &web, &scratch.path().join("v1/a.pem"), "/").code, Some(60));
    assert_eq!(held.ask("/"), "hello");
    // A broken one leaves the one before in place.
    let mark = sluice.words().mark();
    std::fs::write(scratch.path().join("v2/a.key"), &old.key).unwrap();
    let said = sluice.words().wait_after(mark, "cannot use the changed certificates").unwrap();
    assert!(said.contains("does not belong to the certificate"), "{said}");
    assert!(
        fetch("localhost", &web, &scratch.path().join("v2/a.pem"), "/").text.ends_with("hello")
    );
    assert_eq!(metric(&sluice.admin(), "sluice_certificate_failures_total"), 1);
    // One more file in the folder is one more certificate.
    let mark = sluice.words().mark();
    new.write(&scratch.path().join("v2"), "a");
    made(&["more.test"]).write(&scratch.path().join("v2"), "b");
    assert!(
        sluice.words().wait_after(mark, "localhost, more.test").is_some(),
        "{:?}",
        sluice.stderr()
    );
    assert!(
        fetch("more.test", &web, &scratch.path().join("v2/b.pem"), "/").text.ends_with("hello")
    );
    assert_eq!(held.ask("/"), "hello");
    sluice.stop();
}

#[test]
fn the_end_of_certificates_is_published_and_warned_of() {
    let scratch = Scratch::new();
    made_until(&["a.test"], (2020, 1, 1)).write(scratch.path(), "a");
    let sluice = Sluice::start(&config(&of_folder(scratch.path(), ""), ""));
    sluice.wait_for_line("listener web: the certificate for a.test expired ");
    let ends = || {
        let page = get(&sluice.admin(), "/metrics").text();
        let family = "sluice_certificate_expiry_timestamp_seconds{";
        let lines = page.lines().filter_map(|line| line.strip_prefix(family));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let [end] = &ends()[..] else { panic!("{:?}", ends()) };
    assert!(end.starts_with("listener=\"web\",name=\"a.test\",fingerprint=\""), "{end}");
    assert!(end.ends_with("} 1577836800"), "{end}");
    let mark = sluice.words().mark();
    made_until(&["a.test"], (2100, 3, 1)).write(scratch.path(), "a");
    assert!(sluice.words().wait_after(mark, "shows new certificates: a.test").is_some());
    assert!(
        eventually(|| ends().len() == 1 && ends()[0].ends_with("} 4107542400")),
        "{:?}",
        ends()
    );
    sluice.stop();
}

#[test]
fn a_reload_keeps_connections_and_changes_terms() {
    let (sluice, scratch, _made) = simple("");
    let web = sluice.address("web");
    let ca = scratch.path().join("a.pem");
    let ca = ca.display().to_string();
    let mut held = Held::open(&web);
    assert_eq!(held.ask("/"), "hello");
    assert!(openssl(&web, &["-tls1_2", "-CAfile", &ca]).contains("Verify return code: 0"));
    let port = format!("address = \"{web}\"");
    let with = |more: &str| {
        config(&of_folder(scratch.path(), more), "")
            .replace("address = \"127.0.0.1:0\"\ntls", &format!("{port}\ntls"))
    };
    sluice.reload(&with("tls.versions = \"1.3\"\ntls.groups = \"secp256r1\""));
    let refused = openssl(&web, &["-tls1_2"]);
    assert!(refused.contains("alert protocol version"), "{refused}");
    let said = openssl(&web, &["-CAfile", &ca]);
    assert!(said.contains("Verify return code: 0") && said.contains("ECDH, prime256v1"), "{said}");
    let failures = "sluice_listener_handshake_failures_total{listener=\"web\",reason=\"version\"}";
    assert!(eventually(|| metric(&sluice.admin(), failures) == 1));
    sluice.wait_for_line("TLS handshake failed: no version of TLS in common with the client");
    sluice.stop();
}

#[test]
fn handshakes_that_fail_say_why() {
    let (sluice, _scratch, _made) = simple("");
    let web = sluice.address("web");
    let failed_times = |reason: &str, times: u64| {
        let sample = format!(
            "sluice_listener_handshake_failures_total{{listener=\"web\",reason=\"{reason}\"}}"
        );
        eventually(|| metric(&sluice.admin(), &sample) == times)
    };
    let failed = |reason: &str| failed_times(reason, 1);
    let plain = get(&web, "/");
    assert_eq!(plain.status, 400);
    assert!(plain.text().contains("speaks HTTPS"), "{}", plain.text());
    assert!(failed("plain_http"));
    drop(TcpStream::connect(&web).unwrap());
    assert!(failed("closed"));
    let said = openssl(&web, &["-groups", "X448"]);
    assert!(said.contains("alert handshake failure"), "{said}");
    assert!(failed("suite"));
    // Suites without forward secrecy, and some for another kind of key than that of the certificate.
    for (times, cipher) in [(2, "AES128-SHA"), (3, "ECDHE-RSA-AES128-GCM-SHA256")] {
        let said = openssl(&web, &["-tls1_2", "-cipher", cipher]);
        assert!(said.contains("alert handshake failure"), "{said}");
        assert!(failed_times("suite", times));
    }
    let said = openssl(&web, &["-tls1_3", "-sigalgs", "RSA-PSS+SHA256"]);
    assert!(said.contains("alert handshake failure"), "{said}");
    assert!(failed("no_certificate"));
    let said = openssl(&web, &["-alpn", "spdy/1"]);
    assert!(said.contains("no application protocol"), "{said}");
    assert!(failed("protocol"));
    assert!(curl(&[&format!("https://{web}/")]).code == Some(60) && failed("distrusted"));
    sluice.wait_for_line("the client does not accept our certificate");
    sluice.stop();
}

#[test]
fn a_client_that_says_nothing_is_given_up() {
    let (sluice, _scratch, _made) = simple("timeout.handshake = \"50ms\"");
    let mut silent = TcpStream::connect(sluice.address("web")).unwrap();
    assert_eq!(silent.read(&mut [0; 9]).unwrap_or(0), 0);
    let sample = "sluice_listener_handshake_failures_total{listener=\"web\",reason=\"timed_out\"}";
    assert!(eventually(|| metric(&sluice.admin(), sample) == 1));
    sluice.stop();
}

#[test]
fn clients_show_certificates_where_they_have_to() {
    let scratch = Scratch::new();
    let (authority, stranger) = (Authority::new("known"), Authority::new("unknown"));
    file(scratch.path(), "ca.txt", &authority.cert);
    made(&["localhost"]).write(scratch.path(), "a");
    let keys = Scratch::new();
    authority.give(&["client"]).write(keys.path(), "good");
    stranger.give(&["client"]).write(keys.path(), "bad");
    let client = |mode: &str| {
        let ca = scratch.path().join("ca.txt");
        of_folder(
            scratch.path(),
            &format!("tls.client = {{ mode = \"{mode}\", ca = \"{}\" }}", ca.display()),
        )
    };
    for (mode, nobody) in [("required", false), ("optional", true)] {
        let sluice = Sluice::start(&config(&client(mode), ""));
        let web = sluice.address("web");
        let ask = |name: Option<&str>| {
            let at = |ending: &str| {
                keys.path()
                    .join(format!("{}.{ending}", name.unwrap_or_default()))
                    .display()
                    .to_string()
            };
            let (cert, key, url) = (at("pem"), at("key"), format!("https://{web}/"));
            let shown = ["--cert", &cert, "--key", &key];
            let shown = if name.is_some() { &shown[..] } else { &[] };
            curl(&[&["-k", &url][..], shown].concat()).text.ends_with("hello")
        };
        assert!(ask(Some("good")) && !ask(Some("bad")));
        assert_eq!(ask(None), nobody);
        let failures = |reason: &str| {
            let sample = format!(
                "sluice_listener_handshake_failures_total{{listener=\"web\",reason=\"{reason}\"}}"
            );
            metric(&sluice.admin(), &sample)
        };
        assert!(eventually(|| failures("certificate_refused") == 1));
        assert!(eventually(|| failures("certificate_missing") == u64::from(!nobody)));
        sluice.stop();
    }
}

#[test]
fn tickets_are_good_for_all_workers_and_for_a_fleet() {
    let scratch = Scratch::new();
    made(&["localhost"]).write(scratch.path(), "a");
    let keys = file(scratch.path(), "tickets", &"0123456789abcdef".repeat(4));
    let fleet = format!("tls.ticket_keys = \"{}\"", keys.display());
    let text =
        |more: &str| format!("workers = 2\n{}", config(&of_folder(scratch.path(), more), ""));
    let (one, two, alone) =
        (Sluice::start(&text(&fleet)), Sluice::start(&text(&fleet)), Sluice::start(&text("")));
    let session = scratch.path().join("session").display().to_string();
    for version in ["-tls1_2", "-tls1_3"] {
        for (from, to, resumed) in
            [(&one, &one, true), (&one, &two, true), (&alone, &alone, true), (&one, &alone, false)]
        {
            // With TLS 1.3 tickets come behind the handshake: an answer is waited for.
            let done = ticket(&from.address("web"), version, &session);
            assert!(done.contains("hello"), "{done}");
            for _ in 0..4 {
                let said = openssl(&to.address("web"), &[version, "-sess_in", &session]);
                assert_eq!(said.contains("Reused, TLS"), resumed, "{version}: {said}");
            }
        }
    }
    for sluice in [one, two, alone] {
        sluice.stop();
    }
}

/// Asks for a page and keeps the session.
fn ticket(address: &str, version: &str, session: &str) -> String {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut child = Command::new("openssl")
        .args(["s_client", "-connect", address, version, "-sess_out", session, "-ign_eof"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    child.stdin.take().unwrap().write_all(request).unwrap();
    String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned()
}

#[test]
fn what_cannot_be_used_is_told_before_the_start() {
    let scratch = Scratch::new();
    let (one, two) = (made(&["localhost"]), made(&["localhost"]));
    one.write(scratch.path(), "a");
    let at = |name: &str| scratch.path().join(name).display().to_string();
    file(scratch.path(), "wrong.key", &two.key);
    file(scratch.path(), "empty.txt", "nothing\n");
    std::fs::create_dir(scratch.path().join("none")).unwrap();
    let rows = [
        (format!("tls.certificates = \"{}\"", at("absent.pem")), "absent.pem: no such file"),
        (format!("tls.certificates = \"{}\"", at("empty.txt")), "no certificate is in it"),
        (format!("tls.certificates = \"{}\"", at("a.pem")), "no private key is in the file"),
        (
            format!(
                "tls.certificates = {{ cert = \"{}\", key = \"{}\" }}",
                at("a.pem"),
                at("wrong.key")
            ),
            "does not belong to the certificate",
        ),
        (format!("tls.folder = \"{}\"", at("nowhere")), "cannot read the folder"),
        (format!("tls.folder = \"{}\"", at("none")), "there is no certificate in the folder"),
        (
            format!("tls = {{ self_signed = true, ticket_keys = \"{}\" }}", at("empty.txt")),
            "openssl rand -hex 32",
        ),
        (
            format!("tls = {{ self_signed = true, client.ca = \"{}\" }}", at("empty.txt")),
            "no certificate is in it",
        ),
    ];
    for (tls, part) in rows {
        let file = file(scratch.path(), "sluice.toml", &config(&tls, ""));
        let done = run(&["check", "-c", &file.display().to_string()], "");
        assert_eq!(done.code, Some(1), "{tls}");
        assert!(
            done.stderr.contains(part) && done.stderr.contains("listener \"web\": tls: "),
            "{tls}\n{}",
            done.stderr
        );
    }
    let good = file(scratch.path(), "sluice.toml", &config(&of_folder(scratch.path(), ""), ""));
    // The folder holds a key of another certificate beside; only pairs of one name count.
    let done = run(&["check", "-c", &good.display().to_string()], "");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}

#[test]
fn https_in_one_flag() {
    let arguments = ["run", "--tls", "--respond", "hello", "--listen", "127.0.0.1:0"];
    let sluice = Sluice::try_start_with(&arguments).unwrap();
    sluice.wait_for_line("listening on https://127.0.0.1:");
    let said = sluice.wait_for_line("its SHA-256 fingerprint is ");
    let web = sluice.address("web");
    let done = curl(&["-k", &format!("https://{web}/")]);
    assert!(done.text.ends_with("hello"), "{done:?}");
    let shown = openssl(&web, &["-showcerts"]);
    let fingerprint = said.rsplit(' ').next().unwrap();
    let scratch = Scratch::new();
    let pem = shown.split("-----BEGIN").nth(1).unwrap().split("-----END").next().unwrap();
    let pem =
        file(scratch.path(), "shown.pem", &format!("-----BEGIN{pem}-----END CERTIFICATE-----\n"));
    let done = std::process::Command::new("openssl")
        .args(["x509", "-noout", "-fingerprint", "-sha256", "-in"])
        .arg(&pem)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(told.contains(fingerprint), "{told} {said}");
    // It holds for where it listens.
    assert!(
        curl(&["--cacert", &pem.display().to_string(), &format!("https://{web}/")])
            .text
            .ends_with("hello")
    );
    sluice.stop();
}
