//! Lines of the access log against what they must be.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::Value;
use sluice_message::{Method, RequestHead, Version};

use super::{AccessFormat, AccessRecord, ClientRecord, TemplateProblem, TlsRecord, VARIABLES};

fn head(target: &[u8], fields: &[(&[u8], &[u8])]) -> RequestHead {
    let mut head = RequestHead::new();
    head.method = Method::Get;
    head.method_text = head.fields.append(b"GET").unwrap();
    head.target = head.fields.append(target).unwrap();
    let path = target.split(|&byte| byte == b'?').next().unwrap();
    head.path = head.fields.append(path).unwrap();
    head.query = head.fields.append(target.get(path.len() + 1..).unwrap_or_default()).unwrap();
    head.authority = head.fields.append(b"a.example:8080").unwrap();
    for (name, value) in fields {
        head.fields.push(name, value).unwrap();
    }
    head
}

fn record(head: Option<&RequestHead>) -> AccessRecord<'_> {
    AccessRecord {
        client: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)),
        unix_ms: 784_111_777_042,
        head,
        status: 200,
        received_bytes: 70,
        sent_bytes: 1234,
        duration_nanos: 12_345_678,
        route: "main",
        listener: "web",
        tls: None,
        upstream: "api",
        upstream_address: "127.0.0.1:9001",
        upstream_nanos: Some(9_000_999),
        attempts: 2,
        grpc_status: None,
        fault: None,
        user: None,
        variant: None,
    }
}

fn line(format: &AccessFormat, record: &AccessRecord<'_>) -> String {
    let mut out = b"before".to_vec();
    format.write(record, &mut out);
    let text = String::from_utf8(out).unwrap();
    let line = text.strip_prefix("before").and_then(|rest| rest.strip_suffix('\n')).unwrap();
    assert!(!line.contains('\n'), "{line}");
    line.to_owned()
}

fn templated(text: &str, record: &AccessRecord<'_>) -> String {
    line(&AccessFormat::template(text).unwrap(), record)
}

#[test]
fn combined_is_what_log_readers_know() {
    let fields: [(&[u8], &[u8]); 2] = [(b"Referer", b"http://x/"), (b"User-Agent", b"curl/8")];
    let full = head(b"/a?b=c", &fields);
    let bare = head(b"/", &[]);
    let cases = [
        (
            Some(&full),
            r#"192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] "GET /a?b=c HTTP/1.1" 200 1234 "http://x/" "curl/8""#,
        ),
        (
            Some(&bare),
            r#"192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] "GET / HTTP/1.1" 200 1234 "-" "-""#,
        ),
        (None, r#"192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] "-" 200 1234 "-" "-""#),
    ];
    for (head, expected) in cases {
        assert_eq!(line(&AccessFormat::combined(), &record(head)), expected);
    }
}

#[test]
fn every_variable_has_its_value() {
    let fields: [(&[u8], &[u8]); 3] = [(b"X-A", b"1"), (b"x-a", b"2"), (b"Cookie", b"k=v")];
    let head = head(b"/a?b=c", &fields);
    let tls = TlsRecord {
        version: "1.3",
        suite: "TLS_AES_128_GCM_SHA256",
        group: "",
        resumed: "yes",
        server_name: "a.example",
        client: Some(ClientRecord {
            subject: "CN=a,O=Acme",
            names: &["a.test".to_owned(), "b.test".to_owned()],
            fingerprint: "00ff",
        }),
    };
    let (user, variant) = (Some(&b"alice"[..]), Some("new"));
    let record = AccessRecord { tls: Some(tls), user, variant, ..record(Some(&head)) };
    let cases = [
        ("client.ip", "192.0.2.7"),
        ("time.iso", "1994-11-06T08:49:37.042Z"),
        ("time.clf", "06/Nov/1994:08:49:37 +0000"),
        ("time.unix_ms", "784111777042"),
        ("request.line", "GET /a?b=c HTTP/1.1"),
        ("request.method", "GET"),
        ("request.target", "/a?b=c"),
        ("request.raw_target", "/a?b=c"),
        ("request.path", "/a"),
        ("request.query", "b=c"),
        ("request.host", "a.example"),
        ("request.version", "HTTP/1.1"),
        ("request.bytes", "70"),
        ("response.status", "200"),
        ("response.bytes", "1234"),
        ("duration.ms", "12.345"),
        ("duration.seconds", "0.012"),
        ("upstream.name", "api"),
        ("upstream.address", "127.0.0.1:9001"),
        ("upstream.duration.ms", "9.000"),
        ("upstream.attempts", "2"),
        ("route", "main"),
        ("listener", "web"),
        ("scheme", "https"),
        ("tls.version", "1.3"),
        ("tls.suite", "TLS_AES_128_GCM_SHA256"),
        ("tls.group", "-"),
        ("tls.resumed", "yes"),
        ("tls.server_name", "a.example"),
        ("tls.client.subject", "CN=a,O=Acme"),
        ("tls.client.names", "a.test,b.test"),
        ("tls.client.fingerprint", "00ff"),
        ("request.scheme", "https"),
        ("route.id", "main"),
        ("route.name", "main"),
        ("connection.listener", "web"),
        ("tls.cipher", "TLS_AES_128_GCM_SHA256"),
        ("certificate.subject", "CN=a,O=Acme"),
        ("certificate.names", "a.test,b.test"),
        ("certificate.fingerprint", "00ff"),
        ("grpc.status", "-"),
        ("auth.user", "alice"),
        ("canary.variant", "new"),
        ("fault", "-"),
        ("request.header.X-A", "1, 2"),
        ("request.header.cookie", "k=v"),
        ("request.header.none", "-"),
    ];
    for (name, expected) in cases {
        assert_eq!(templated(&format!("{{{name}}}"), &record), expected, "{name}");
    }
    let plain = AccessRecord { tls: None, ..record };
    assert_eq!(templated("{scheme} {tls.version} {tls.client.names}", &plain), "http - -");
    for (name, meaning) in VARIABLES {
        let covered = cases.iter().any(|(case, _)| case == name) || name.ends_with("<name>");
        assert!(covered && !meaning.is_empty(), "{name}");
    }
}

#[test]
fn what_is_missing_is_a_dash() {
    let mut record = record(None);
    record.upstream_nanos = None;
    (record.route, record.upstream, record.upstream_address) = ("", "", "");
    record.fault = Some("malformed");
    record.grpc_status = Some("internal");
    for (name, _) in VARIABLES
        .iter()
        .filter(|(name, _)| name.starts_with("request.") && *name != "request.scheme")
    {
        let name = name.replace("<name>", "x");
        let expected = if name == "request.bytes" { "70" } else { "-" };
        assert_eq!(templated(&format!("{{{name}}}"), &record), expected, "{name}");
    }
    let text =
        "{route} {upstream.name} {upstream.address} {upstream.duration.ms} {grpc.status} {fault}";
    assert_eq!(templated(text, &record), "- - - - internal malformed");
}

#[test]
fn addresses_and_versions() {
    let mut head = head(b"/", &[]);
    head.version = Version::Http10;
    for (client, text) in [
        ("::ffff:10.0.0.255", "10.0.0.255"),
        ("2001:db8::1", "2001:db8::1"),
        ("0.0.0.0", "0.0.0.0"),
    ] {
        let record = AccessRecord { client: client.parse().unwrap(), ..record(Some(&head)) };
        let expected = format!("{text} HTTP/1.0");
        assert_eq!(templated("{client.ip} {request.version}", &record), expected);
    }
}

#[test]
fn templates_keep_their_literals() {
    let record = record(None);
    let cases = [
        ("", ""),
        ("plain", "plain"),
        ("{{", "{"),
        ("{{route}}", "{route}}"),
        ("{{{route}}", "{main}"),
        ("a}b\t{route}é", "a}b\tmainé"),
    ];
    for (text, expected) in cases {
        assert_eq!(templated(text, &record), expected, "{text}");
    }
}

#[test]
fn templates_that_cannot_be_used_say_why() {
    use TemplateProblem::{Control, HeaderName, Unclosed, Unknown};
    let cases = [
        ("{client.pi}", 0, Unknown, "client.pi", Some("client.ip")),
        ("a {{ {respons.status}", 5, Unknown, "respons.status", Some("response.status")),
        ("{zzz}", 0, Unknown, "zzz", None),
        ("{}", 0, Unknown, "", None),
        ("{Route}", 0, Unknown, "Route", Some("route")),
        (
            "{request.headers.host}",
            0,
            Unknown,
            "request.headers.host",
            Some("request.header.<name>"),
        ),
        ("ä{route", 2, Unclosed, "route", None),
        ("{request.header.}", 0, HeaderName, "request.header.", None),
        ("{request.header.a b}", 0, HeaderName, "request.header.a b", None),
        ("a\nb", 1, Control, "", None),
        ("a\u{9b}b", 1, Control, "", None),
    ];
    for (text, offset, problem, variable, suggestion) in cases {
        let error = AccessFormat::template(text).unwrap_err();
        assert_eq!((error.offset, error.problem), (offset, problem), "{text}");
        assert_eq!((error.variable.as_str(), error.suggestion), (variable, suggestion), "{text}");
        assert!(!error.to_string().is_empty());
    }
}

/// What a client might send to forge lines, leave quotes or write to a terminal.
const HOSTILE: [&[u8]; 6] = [
    b"a\r\n192.0.2.1 - - forged",
    b"\" 200 0 \"",
    b"back\\slash\\\"",
    b"\x1b[2J\x00\x7f",
    b"caf\xc3\xa9 \xc2\x9b2J",
    b"\xff\xfe broken \xe2\x82",
];

#[test]
fn no_value_leaves_its_line_or_quotes() {
    let escaped = [
        r"a\x0D\x0A192.0.2.1 - - forged",
        r"\x22 200 0 \x22",
        r"back\x5Cslash\x5C\x22",
        r"\x1B[2J\x00\x7F",
        r"caf\xC3\xA9 \xC2\x9B2J",
        r"\xFF\xFE broken \xE2\x82",
    ];
    for (value, expected) in HOSTILE.into_iter().zip(escaped) {
        let head = head(value, &[(b"User-Agent", value)]);
        let record = record(Some(&head));
        assert_eq!(templated("{request.header.user-agent}", &record), expected);
        assert_eq!(templated("{request.target}", &record), expected);
        let combined = line(&AccessFormat::combined(), &record);
        assert_eq!(combined.matches('"').count(), 6, "{combined}");
        assert!(combined.bytes().all(|byte| matches!(byte, 0x20..0x7f)), "{combined}");
    }
    let hostile = String::from_utf8_lossy(HOSTILE[0]);
    let record = AccessRecord { route: &hostile, upstream: &hostile, ..record(None) };
    assert!(!templated("{route} {upstream.name}", &record).contains('\r'));
}

#[test]
fn json_lines_parse_whatever_was_sent() {
    let every_byte: Vec<u8> = (0..=255).collect();
    for value in HOSTILE.into_iter().chain([every_byte.as_slice(), b"plain"]) {
        let head = head(value, &[(b"User-Agent", value), (b"Referer", value)]);
        let text = line(&AccessFormat::json(), &record(Some(&head)));
        let control = |letter: char| letter.is_control();
        assert!(!text.contains(control), "{text}");
        let json: Value = serde_json::from_str(&text).unwrap();
        let expected = String::from_utf8_lossy(value);
        assert_eq!(json["user_agent"], *expected, "{text}");
        assert_eq!(json["target"], *expected, "{text}");
    }
}

#[test]
fn json_has_numbers_and_nulls() {
    let head = head(b"/a?b=c", &[]);
    let expected = r#"{"time":"1994-11-06T08:49:37.042Z","client":"192.0.2.7","listener":"web","#
        .to_owned()
        + r#""route":"main","method":"GET","host":"a.example","target":"/a?b=c","#
        + r#""version":"HTTP/1.1","status":200,"request_bytes":70,"response_bytes":1234,"#
        + r#""duration_ms":12.345,"upstream":"api","upstream_address":"127.0.0.1:9001","#
        + r#""upstream_duration_ms":9.000,"upstream_attempts":2,"referer":null,"#
        + r#""user_agent":null,"grpc_status":null,"user":null,"variant":null,"fault":null}"#;
    assert_eq!(line(&AccessFormat::json(), &record(Some(&head))), expected);
    let undecodable = AccessRecord { status: 0, upstream_nanos: None, ..record(None) };
    let json: Value = serde_json::from_str(&line(&AccessFormat::json(), &undecodable)).unwrap();
    for key in ["method", "host", "target", "version", "upstream_duration_ms"] {
        assert_eq!(json[key], Value::Null, "{key}");
    }
    assert_eq!(json["status"], 0);
}
