//! The PROXY protocol: believed of load balancers in front, and told to origins.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io::{Read, Write};
use std::net::TcpListener;

use sluice_acceptance::peers::{haproxy, nginx, nginx_with};
use sluice_acceptance::tls::{curl, made};
use sluice_acceptance::{eventually, metric};
use sluice_testkit::{
    Asked, ByteScript, Deadline, Origin, Response, Scratch, Sluice, State, behaviour, get,
};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const LINE: &str = "PROXY TCP4 192.0.2.7 198.51.100.1 56324 443\r\n";

/// A gateway that believes the peers of these networks and passes everything on to `origin`.
fn believing(from: &str, more: &str, origin: &str) -> Sluice {
    Sluice::start(&format!(
        "{more}\n[admin]\naddress = \"127.0.0.1:0\"\n[log]\naccess = \"{{client.ip}} {{request.target}}\"\n\
         [[route]]\nproxy = \"{origin}\"\n[[route]]\npath = \"/known\"\nclient = \"192.0.2.0/24\"\nrespond = \"known\"\n\
         [[listener]]\nname = \"web\"\naddress = \"127.0.0.1:0\"\n\
         proxy_protocol = {{ from = [\"{from}\"], timeout = \"2s\" }}\n"
    ))
}

/// A header of version 2 with this command, this family and this content.
fn binary(command: u8, family: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &length, content].concat()
}

/// 2001:db8::7, port 4660, to 2001:db8::1, port 443.
fn six() -> Vec<u8> {
    let mut content = [0; 36];
    (content[0], content[1], content[2], content[3], content[15]) = (0x20, 0x01, 0x0d, 0xb8, 7);
    content.copy_within(0..4, 16);
    content[31] = 1;
    content[32..].copy_from_slice(&[0x12, 0x34, 0x01, 0xBB]);
    binary(0x21, 0x21, &content)
}

fn told(answer: &Response) -> String {
    let text = answer.text().to_ascii_lowercase();
    let line = text.lines().find_map(|line| line.strip_prefix("x-forwarded-for: "));
    line.unwrap_or("nothing").to_owned()
}

#[test]
fn whom_a_header_names_is_the_client() {
    let origin = Origin::start(behaviour::echo);
    let sluice = believing("127.0.0.0/8", "", origin.address());
    let extended = {
        let mut bytes = six();
        bytes.extend_from_slice(&[0x04, 0, 2, 0, 0]);
        bytes[15] += 5;
        bytes
    };
    let cases = [
        (LINE.as_bytes().to_vec(), "192.0.2.7"),
        (b"PROXY TCP6 2001:db8::9 ::1 1 2\r\n".to_vec(), "2001:db8::9"),
        (b"PROXY TCP6 ::ffff:192.0.2.8 ::ffff:127.0.0.1 1 2\r\n".to_vec(), "192.0.2.8"),
        (six(), "2001:db8::7"),
        (extended, "2001:db8::7"),
        // Whoever names nobody is the client itself.
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
        (binary(0x20, 0, b""), "127.0.0.1"),
        (binary(0x21, 0, b""), "127.0.0.1"),
        (binary(0x21, 0x31, &[0; 216]), "127.0.0.1"),
    ];
    for (number, (header, client)) in cases.into_iter().enumerate() {
        let mark = sluice.stdout().mark();
        let request = format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n");
        let whole = [&header[..], request.as_bytes()].concat();
        for size in [whole.len(), 1] {
            let mut script = ByteScript::connect(&sluice.address("web"));
            let answer = script.send_pieces(&whole, size).read_response(Asked::Get).unwrap();
            assert_eq!(told(&answer), client, "{number}");
            // A header is for the connection, not for a request.
            let answer = script.send(&request).read_response(Asked::Get).unwrap();
            assert_eq!(told(&answer), client, "{number}");
        }
        let line = format!("{client} /{number}");
        assert!(
            sluice.stdout().wait_after(mark, &line).is_some(),
            "{:?}",
            sluice.stdout().so_far()
        );
    }
    // Routes go by it, too.
    let known = "GET /known HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut script = ByteScript::connect(&sluice.address("web"));
    let answer = script.send(LINE).send(known).read_response(Asked::Get).unwrap();
    assert_eq!(answer.text(), "known");
    assert!(origin.complaints().is_empty());
    sluice.stop();
}

#[test]
fn what_is_no_header_ends_the_connection() {
    let origin = Origin::start(behaviour::echo);
    let sluice = believing("127.0.0.0/8", "workers = 1", origin.address());
    let checksum = binary(0x21, 0x11, &[&[1; 12][..], &[3, 0, 4, 1, 2, 3, 4]].concat());
    let cases = [
        (GET.as_bytes().to_vec(), "there is none"),
        (b"\x16\x03\x01\x02\0\x01\0".to_vec(), "there is none"),
        (b"PROXY TCP4 192.0.2.7 1.1.1.1 56324\r\n".to_vec(), "malformed line"),
        (("PROXY UNKNOWN ".to_owned() + &"f".repeat(100)).into_bytes(), "too long"),
        (binary(0x21, 0x11, &[1; 11]), "too short for its addresses"),
        (binary(0x22, 0x11, &[1; 12]), "unknown version or command"),
        (binary(0x21, 0x51, &[1; 12]), "unknown address family"),
        (binary(0x21, 0x11, &[1; 13]), "malformed extension"),
        (binary(0x21, 0, &[0; 5000]), "too long"),
        (checksum, "wrong checksum"),
    ];
    let count = u64::try_from(cases.len()).unwrap();
    let mark = sluice.words().mark();
    for (bytes, why) in cases {
        let mut script = ByteScript::connect(&sluice.address("web"));
        let (answer, state) = script.send(&bytes).send(GET).read_to_end();
        assert_eq!((answer.len(), state == State::Open), (0, false), "{why}");
        let line = format!("listener web: PROXY header refused: {why}, peer 127.0.0.1");
        // No more than ten lines a second are written.
        let said = sluice.words().wait_after(mark, &line).is_some();
        assert!(said, "{why}: {:?}", sluice.stderr());
    }
    let sample = "sluice_faults_total{side=\"downstream\",reason=\"proxy_header\"}";
    assert_eq!(metric(&sluice.admin(), sample), count);
    assert_eq!(origin.requests().len(), 0);
    sluice.stop();
}

#[test]
fn a_header_has_its_time() {
    let origin = Origin::start(behaviour::echo);
    let sluice = believing("127.0.0.0/8", "", origin.address());
    for begun in ["", "PROXY TCP4 192.0"] {
        let mut script = ByteScript::connect(&sluice.address("web"));
        assert_ne!(script.send(begun).wait_for_end(), State::Open, "{begun}");
    }
    // Half a header, and then the end.
    let mut script = ByteScript::connect(&sluice.address("web"));
    let state = script.send("PROXY TCP4 192.0").finish_sending().wait_for_end();
    assert_ne!(state, State::Open);
    let fault = |reason: &str| {
        let sample = format!("sluice_faults_total{{side=\"downstream\",reason=\"{reason}\"}}");
        metric(&sluice.admin(), &sample)
    };
    assert_eq!((fault("timed_out"), fault("closed")), (2, 1));
    sluice.stop();
}

#[test]
fn nobody_else_may_send_one() {
    let origin = Origin::start(behaviour::echo);
    let sluice = believing("192.0.2.0/24", "", origin.address());
    let web = sluice.address("web");
    assert_eq!(told(&get(&web, "/")), "127.0.0.1");
    for header in [LINE.as_bytes().to_vec(), six()] {
        let mut script = ByteScript::connect(&web);
        let answer = script.send(&header).send(GET).read_response(Asked::Get).unwrap();
        assert_eq!(answer.status, 400);
    }
    assert_eq!(origin.requests().len(), 1);
    sluice.stop();
}

#[test]
fn each_client_has_its_own_limit() {
    let origin = Origin::start(behaviour::echo);
    let limits = "limits.connections_per_client = 1";
    let text = format!(
        "[admin]\naddress = \"127.0.0.1:0\"\n[[listener]]\nname = \"web\"\naddress = \"127.0.0.1:0\"\n\
         {limits}\nproxy_protocol = {{ from = \"127.0.0.1\" }}\n[[route]]\nproxy = \"{}\"\n",
        origin.address()
    );
    let sluice = Sluice::start(&text);
    let web = sluice.address("web");
    let open = |client: u8| {
        let mut script = ByteScript::connect(&web);
        script.send(format!("PROXY TCP4 192.0.2.{client} 127.0.0.1 1 2\r\n{GET}"));
        script
    };
    let (mut one, mut two) = (open(1), open(2));
    assert_eq!(one.read_response(Asked::Get).unwrap().status, 200);
    assert_eq!(two.read_response(Asked::Get).unwrap().status, 200);
    assert_ne!(open(1).wait_for_end(), State::Open);
    let sample = "sluice_listener_rejected_total{listener=\"web\",limit=\"client\"}";
    assert_eq!(metric(&sluice.admin(), sample), 1);
    let distant = |client: &str| {
        let mut script = ByteScript::connect(&web);
        script.send(format!("PROXY TCP6 {client} ::1 1 2\r\n{GET}"));
        script
    };
    // A client of IPv6 has all addresses of its network.
    let (mut one_of_six, mut two_of_six) = (distant("2001:db8:0:1::1"), distant("2001:db8:0:2::1"));
    assert_eq!(one_of_six.read_response(Asked::Get).unwrap().status, 200);
    assert_eq!(two_of_six.read_response(Asked::Get).unwrap().status, 200);
    assert_ne!(distant("2001:db8:0:1:ffff::2").wait_for_end(), State::Open);
    assert_eq!(metric(&sluice.admin(), sample), 2);
    // The place of a client that left is free.
    drop(one);
    assert!(eventually(|| open(1).read_response(Asked::Get).is_ok_and(|it| it.status == 200)));
    sluice.stop();
}

#[test]
fn it_comes_before_encryption_and_proxies_may_stand_in_front() {
    let origin = Origin::start(behaviour::echo);
    let scratch = Scratch::new();
    made(&["localhost"]).write(scratch.path(), "a");
    let socket = scratch.path().join("in.sock");
    let believed = "proxy_protocol = { from = \"127.0.0.1\" }";
    let text = format!(
        "trusted_proxies = [\"127.0.0.1\", \"192.0.2.0/24\"]\n[admin]\naddress = \"127.0.0.1:0\"\n\
         [log]\naccess = \"{{client.ip}} {{scheme}} {{listener}}\"\n\
         [[listener]]\nname = \"web\"\naddress = \"127.0.0.1:0\"\ntls.folder = \"{}\"\n{believed}\n\
         [[listener]]\nname = \"local\"\naddress = \"unix:{}\"\n{believed}\n\
         [[route]]\nproxy = \"{}\"\n",
        scratch.path().display(),
        socket.display(),
        origin.address(),
    );
    let sluice = Sluice::start(&text);
    let url = format!("https://{}/", sluice.address("web"));
    let done = curl(&["-k", "--haproxy-protocol", &url]);
    assert!(done.text.starts_with("HTTP/2 200"), "{done:?}");
    assert!(done.text.to_ascii_lowercase().contains("x-forwarded-for: 127.0.0.1"), "{done:?}");
    assert!(sluice.stdout().wait_after(0, "127.0.0.1 https web").is_some());
    let done = curl(&["-k", &url]);
    assert_ne!(done.code, Some(0), "without the header there is no handshake");
    // Whom a trusted proxy in front of the balancer names is the client.
    let mut script = ByteScript::connect(&format!("unix:{}", socket.display()));
    let request = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.5\r\n\r\n";
    let answer = script.send(LINE).send(request).read_response(Asked::Get).unwrap();
    assert!(answer.text().to_ascii_lowercase().contains("x-forwarded-for: 192.0.2.7"));
    assert!(sluice.stdout().wait_after(0, "203.0.113.5 http local").is_some());
    sluice.stop();
}

#[test]
fn a_balancer_is_believed() {
    let origin = Origin::start(behaviour::echo);
    let sluice = believing("127.0.0.1", "", origin.address());
    let server = sluice.address("web").trim_start_matches("http://").to_owned();
    for send in ["send-proxy", "send-proxy-v2", "send-proxy-v2 proxy-v2-options crc32c,unique-id"] {
        let balancer = haproxy(&format!("server one {server} {send}"));
        let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        // It asks from another address than it is asked at.
        let answer = ByteScript::connect(&balancer.address)
            .send(request)
            .read_response(Asked::Get)
            .unwrap_or_else(|failure| panic!("{send}: {failure}"));
        assert_eq!((answer.status, told(&answer).as_str()), (200, "127.0.0.1"), "{send}");
    }
    assert_eq!(sluice.stderr().iter().filter(|line| line.contains("refused")).count(), 0);
    sluice.stop();
}

/// A gateway that tells servers for whom a connection is.
fn telling(version: &str, server: &str, more: &str) -> Sluice {
    Sluice::start(&format!(
        "workers = 1\ntrusted_proxies = \"127.0.0.1\"\n[admin]\naddress = \"127.0.0.1:0\"\n[[listener]]\nname = \"web\"\n\
         address = \"127.0.0.1:0\"\n[upstream.api]\nservers = \"{server}\"\nproxy_protocol = \"{version}\"\n{more}\n\
         [[route]]\nproxy = \"api\"\n"
    ))
}

/// What a client is told whom `forwarded` names.
fn ask_for(sluice: &Sluice, forwarded: &str) -> String {
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{forwarded}Connection: close\r\n\r\n");
    let mut script = ByteScript::connect(&sluice.address("web"));
    script.send(request).read_response(Asked::Get).unwrap().text()
}

#[test]
fn origins_are_told_whose_connection_it_is() {
    let say = "location / { return 200 '$proxy_protocol_addr $proxy_protocol_port \
               $proxy_protocol_server_addr $proxy_protocol_server_port $connection'; }";
    let plain = nginx("proxy_protocol", say);
    let keys = "ssl_certificate a.pem; ssl_certificate_key a.key;";
    let encrypted = nginx_with("ssl proxy_protocol", &format!("{keys}\n{say}"), |scratch| {
        made(&["localhost"]).write(scratch.path(), "a");
    });
    let servers = [
        (plain.address.clone(), ""),
        (format!("https://{}", encrypted.address), "tls.verify = \"none\""),
    ];
    for (server, more) in servers {
        for version in ["v1", "v2"] {
            let sluice = telling(version, &server, more);
            let web = sluice.address("web");
            let port = web.rsplit(':').next().unwrap();
            let first = ask_for(&sluice, "");
            let words: Vec<&str> = first.split(' ').collect();
            assert_eq!((words[0], words[2], words[3]), ("127.0.0.1", "127.0.0.1", port), "{first}");
            assert!(words[1].parse::<u16>().unwrap() > 0, "{first}");
            let second = ask_for(&sluice, "X-Forwarded-For: 192.0.2.9\r\n");
            // nginx writes a port that is 0 as nothing.
            assert!(second.starts_with(&format!("192.0.2.9  127.0.0.1 {port} ")), "{second}");
            let third = ask_for(&sluice, "X-Forwarded-For: 2001:db8::5\r\n");
            assert!(third.starts_with("2001:db8::5  ::ffff:127.0.0.1 "), "{third}");
            // One connection for several requests of a client is one for each of them, too.
            let mut script = ByteScript::connect(&web);
            let answers: Vec<String> = (0..3)
                .map(|_| script.send(GET).read_response(Asked::Get).unwrap().text())
                .collect();
            let own = |text: &str| text.rsplit(' ').next().unwrap().to_owned();
            let mut used: Vec<String> = [first, second, third].iter().map(|it| own(it)).collect();
            used.extend(answers.iter().map(|text| own(text)));
            let all = used.len();
            used.sort_unstable();
            used.dedup();
            assert_eq!(used.len(), all, "no connection serves two requests: {used:?}");
            let kept = "sluice_upstream_idle_connections{upstream=\"api\"}";
            assert_eq!(metric(&sluice.admin(), kept), 0);
            sluice.stop();
        }
    }
}

#[test]
fn kept_connections_are_not_used_once_origins_are_to_be_told() {
    let peer = nginx("proxy_protocol", "location / { return 200 $proxy_protocol_addr; }");
    let origin = Origin::start(behaviour::fixed(200, "kept"));
    let sluice = telling("off", origin.address(), "");
    assert_eq!(ask_for(&sluice, ""), "kept");
    let text = std::fs::read_to_string(sluice.config_path()).unwrap();
    sluice.reload(&text.replace("\"off\"", "\"v2\""));
    // The server is the same, and is spoken to in another way: it does not understand.
    let mut script = ByteScript::connect(&sluice.address("web"));
    assert_eq!(script.send(GET).read_response(Asked::Get).unwrap().status, 502);
    sluice.reload(&text.replace("\"off\"", "\"v1\"").replace(origin.address(), &peer.address));
    assert_eq!(ask_for(&sluice, ""), "127.0.0.1");
    sluice.stop();
}

#[test]
fn a_chain_of_gateways_keeps_the_client() {
    let origin = Origin::start(behaviour::echo);
    let back = believing("127.0.0.1", "", origin.address());
    let server = back.address("web").trim_start_matches("http://").to_owned();
    for version in ["v1", "v2"] {
        let text = format!(
            "[[listener]]\nname = \"web\"\naddress = \"127.0.0.1:0\"\nproxy_protocol = {{ from = \"127.0.0.1\" }}\n\
             [upstream.back]\nservers = \"{server}\"\nproxy_protocol = \"{version}\"\n[[route]]\nproxy = \"back\"\n"
        );
        let front = Sluice::start(&text);
        for (header, client) in [(LINE.as_bytes().to_vec(), "192.0.2.7"), (six(), "2001:db8::7")] {
            let mark = back.stdout().mark();
            let mut script = ByteScript::connect(&front.address("web"));
            let answer = script.send(&header).send(GET).read_response(Asked::Get).unwrap();
            assert_eq!(answer.status, 200);
            assert!(back.stdout().wait_after(mark, &format!("{client} /")).is_some());
        }
        front.stop();
    }
    back.stop();
}

#[test]
fn checks_say_that_they_are_nobodys() {
    let cases: [(&str, &[u8]); 2] =
        [("v1", b"PROXY UNKNOWN\r\n"), ("v2", b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0")];
    for (version, header) in cases {
        for check in ["\"/up\"", "{ tcp = true }"] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let server = listener.local_addr().unwrap().to_string();
            let sluice = telling(version, &server, &format!("health = {check}"));
            let (mut stream, _) = listener.accept().unwrap();
            let mut begin = vec![0; header.len()];
            stream.read_exact(&mut begin).unwrap();
            assert_eq!(begin, header, "{version} {check}");
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            sluice.stop();
        }
    }
    // nginx answers nobody who does not begin with a header.
    let peer = nginx("proxy_protocol", "location / { return 200 up; }");
    for version in ["v1", "v2"] {
        let sluice =
            telling(version, &peer.address, "health = { path = \"/\", initial = \"unhealthy\" }");
        let deadline = Deadline::patient();
        let mut healthy = false;
        while !healthy && deadline.remaining().is_some() {
            healthy = get(&sluice.address("web"), "/").text() == "up";
        }
        assert!(healthy, "{version}");
        sluice.stop();
    }
}

#[test]
fn copies_and_hedged_requests_tell_it_too() {
    let first = nginx("proxy_protocol", "location / { return 200 $proxy_protocol_addr; }");
    let scratch = Scratch::new();
    let log = scratch.path().join("seen");
    let say = format!("access_log {} seen; location / {{ return 204; }}", log.display());
    let copies = nginx("proxy_protocol", &say);
    let text = format!(
        "trusted_proxies = \"127.0.0.1\"\n[admin]\naddress = \"127.0.0.1:0\"\n[[listener]]\nname = \"web\"\naddress = \"127.0.0.1:0\"\n\
         [upstream.api]\nservers = \"{}\"\nproxy_protocol = \"v2\"\nretry = {{ hedge = {{ after = \"10s\" }} }}\n\
         [upstream.copies]\nservers = \"{}\"\nproxy_protocol = \"v1\"\n\
         [[route]]\nproxy = \"api\"\nmirror = \"copies\"\n",
        first.address, copies.address
    );
    let sluice = Sluice::start(&text);
    assert_eq!(ask_for(&sluice, "X-Forwarded-For: 192.0.2.9\r\n"), "192.0.2.9");
    let seen = || std::fs::read_to_string(&log).unwrap_or_default();
    assert!(eventually(|| seen().contains("192.0.2.9")), "{:?}", seen());
    sluice.stop();
}
