//! What holds and what does not.

use super::subject::{Exchange, request};
use super::{compile, scope};
use crate::{Condition, Marks, Need, Template, fact_names, function_names};

/// Conditions on the full exchange of [`Exchange::full`].
const FULL: &[(&str, bool)] = &[
    // The example of the documentation.
    ("request.path starts_with '/api' && !request.header['x-skip']", true),
    // Logic.
    ("true", true),
    ("false", false),
    ("true && false || true", true),
    ("true || false && false", true),
    ("(true || false) && false", false),
    ("true and false or true", true),
    ("not false and not not true", true),
    ("!(true && false)", true),
    ("!true", false),
    ("!!true", true),
    ("!true == false", true),
    ("not true == false", true),
    ("tls.resumed == true", true),
    ("tls.resumed != false", true),
    // Requests.
    ("request.method == 'POST'", true),
    ("request.method == 'GET'", false),
    ("request.method != 'GET'", true),
    ("'POST' == request.method", true),
    ("request.method == 'post'", false),
    ("request.method == 'PURGE'", false),
    ("request.method in ['GET', \"POST\"]", true),
    ("request.method not in ['GET', 'HEAD',]", true),
    ("request.path == '/api/users/7'", true),
    ("request.path ends_with '/7'", true),
    ("request.path not ends_with '/7'", false),
    ("request.path contains 'users'", true),
    ("request.path contains 'Users'", false),
    ("request.path contains ''", true),
    (r"request.path matches '^/api/\w+/\d+$'", true),
    (r"request.path matches '~ ^/api/'", true),
    (r"request.path not matches '^/v\d'", true),
    (r"'it\'s' matches 'it\'s'", true),
    ("request.target == '/api/users/7?a=1&b=x%20y&b=z&e=&%6eame=n&flag'", true),
    ("request.raw_path == '/api/users/7'", true),
    ("request.search starts_with '?a=1&'", true),
    ("request.raw_target == request.target", true),
    ("request.query starts_with 'a=1&'", true),
    ("request.host == 'shop.example'", true),
    ("request.authority == 'Shop.Example.:8443'", true),
    ("request.scheme == 'https'", true),
    ("request.version == 'HTTP/2.0'", true),
    ("request.size == 2048", true),
    ("request.size > 2047 && request.size < 2049", true),
    ("request.size >= 2048 && request.size <= 2048", true),
    ("1024 < request.size", true),
    ("4096 <= request.size", false),
    ("request.size in [1, 2048]", true),
    ("request.size not in [1, 2]", true),
    ("request.id == '0193-id'", true),
    // Fields: each line counts.
    ("request.header.x-mode", true),
    ("request.header['X-MODE'] == 'test'", true),
    ("request.header.x-mode == 'Trial'", true),
    ("request.header.x-mode == 'test, Trial'", false),
    ("request.header.x-mode != 'test'", false),
    ("request.header.x-mode != 'else'", true),
    ("request.header.x-mode in ['a', 'Trial']", true),
    ("request.header.x-mode matches '^T'", true),
    ("request.header.x-mode starts_with 'Tr'", true),
    ("lower(request.header.x-mode) == 'trial'", true),
    ("default(request.header.x-mode, 'x') == 'Trial'", true),
    ("default(request.header.x-mode, 'x') == 'x'", false),
    ("request.header.x-empty", true),
    ("request.header.x-empty == ''", true),
    ("request.header.user-agent contains 'curl'", true),
    ("request.header.host", true),
    ("number(request.header.x-number) > 41", true),
    ("number(request.header.x-mode) > 0", false),
    ("address(request.header.x-ip) in '192.0.2.0/24'", true),
    ("address(request.header.x-mode) in '0.0.0.0/0'", false),
    // Arguments, decoded; a name may be there twice.
    ("request.parameter.a == '1'", true),
    ("request.parameter.b == 'x y'", true),
    ("request.parameter.b == 'z'", true),
    ("request.parameter.name == 'n'", true),
    ("request.parameter.e == ''", true),
    ("request.parameter.e", true),
    ("request.parameter.flag", true),
    ("request.parameter.A", false),
    // Cookies.
    ("request.cookie.sid == 'abc'", true),
    ("request.cookie.sid == 'def'", true),
    ("request.cookie.quoted == 'q'", true),
    ("request.cookie.late", true),
    ("request.cookie.none", false),
    // Who and where.
    ("capture.id == '7'", true),
    ("client.ip == '10.1.2.3'", true),
    ("client.ip == '::ffff:10.1.2.3'", true),
    ("client.ip != '10.1.2.3'", false),
    ("'10.1.2.4' == client.ip", false),
    ("client.ip in '10.0.0.0/8'", true),
    ("client.ip in ['192.0.2.0/24', '10.1.2.3']", true),
    ("client.ip not in ['192.0.2.0/24', '2001:db8::/32']", true),
    ("client.ip in []", false),
    ("client.peer == '192.0.2.1'", true),
    ("client.ip == client.peer", false),
    ("client.ip == client.ip", true),
    ("client.port == 50000", true),
    ("connection.listener == 'web'", true),
    ("tls.version == '1.3'", true),
    ("tls.cipher == 'TLS_AES_128_GCM_SHA256'", true),
    ("tls.server_name == 'shop.example'", true),
    ("tls.resumed", true),
    ("certificate.subject contains 'CN=robot'", true),
    ("certificate.names == 'spiffe://example/robot'", true),
    ("certificate.names == 'robot.example'", true),
    ("certificate.names == 'example'", false),
    ("certificate.fingerprint == '00ff'", true),
    ("route.id == 'users' && route.name == 'users'", true),
    ("auth.user == 'alice'", true),
    ("auth.claim.sub == auth.user", true),
    ("auth.claim.org.team == 'red'", true),
    ("auth.claim['https://x.example/roles'] contains '\"admin\"'", true),
    ("canary.variant == 'new'", true),
    ("note.seen == 'yes'", true),
    // The response.
    ("response.status == 503", true),
    ("response.status >= 500 && response.status in [502, 503, 504]", true),
    ("response.header.server == 'origin'", true),
    ("response.header.x-cache == 'stale'", true),
    // The clock.
    ("time.unix == 1795322096", true),
    ("time.hour == 4 && time.minute == 34", true),
    ("time.weekday == 7", true),
    ("time.date == '2026-11-22'", true),
    ("time.date >= '2026-11-01' && time.date < '2026-12-01'", true),
    // Functions.
    ("len(request.path) == 12", true),
    ("len(request.header.x-mode) == 11", true),
    ("upper(request.method) == request.method", true),
    ("base64('a') == 'YQ=='", true),
    ("base64_decode('YQ==') == 'a'", true),
    ("base64_decode('?') == 'a' || base64_decode('?') == ''", false),
    ("sha256('abc') starts_with 'ba7816bf'", true),
    ("url_encode('a b') == 'a%20b' && url_decode('a%20b') == 'a b'", true),
    ("default(request.header.none, 'x') == 'x'", true),
    ("default(request.header.none, request.header.x-number) == '42'", true),
    ("share('alice', 'checkout') == SHARE", true),
    ("share(client.ip, 's') < 1000", true),
    ("share(request.header.none, 's') < 1000", false),
    ("request.path contains capture.id", true),
    ("request.host == tls.server_name", true),
    ("request.header.x-mode == request.header.none", false),
    ("'b' > 'a' && 'a' < 'ab'", true),
    (r#""a\"b\n" == 'a"b\n'"#, true),
    ("'café' == \"caf\u{e9}\"", true),
];

#[test]
fn conditions_hold_or_do_not() {
    let exchange = Exchange::full();
    let share = crate::share(b"alice", crate::Salt::new(b"checkout")).to_string();
    for (text, expected) in FULL {
        let text = text.replace("SHARE", &share);
        let condition = compile(&text);
        assert_eq!(condition.holds(&exchange), *expected, "{text}");
        assert_eq!(condition.holds::<dyn crate::Subject>(&exchange), *expected, "{text}");
        assert_eq!(compile(&format!("!({text})")).holds(&exchange), !*expected, "not {text}");
    }
}

/// All that may be absent.
const ABSENT: &[&str] = &[
    "request.query",
    "request.search",
    "request.host",
    "request.authority",
    "request.scheme",
    "request.id",
    "request.header.x",
    "request.header.cookie",
    "request.parameter.x",
    "request.cookie.x",
    "capture.x",
    "connection.listener",
    "tls.version",
    "tls.cipher",
    "tls.server_name",
    "certificate.subject",
    "certificate.names",
    "certificate.fingerprint",
    "route.id",
    "auth.user",
    "auth.claim.a.b",
    "canary.variant",
    "response.header.x",
    "note.x",
    "lower(note.x)",
    "base64_decode('?')",
];

#[test]
fn what_is_absent_is_false_and_equals_nothing() {
    let exchange = Exchange::bare();
    let holds = |text: &str| compile(text).holds(&exchange);
    for fact in ABSENT {
        assert!(!holds(fact), "{fact}");
        assert!(holds(&format!("!{fact}")), "{fact}");
        for rest in [
            "== ''",
            "== 'x'",
            "in ['', 'x']",
            "matches '.*'",
            "starts_with ''",
            "ends_with ''",
            "contains ''",
            "< 'x'",
            ">= ''",
            "== route.id",
        ] {
            assert!(!holds(&format!("{fact} {rest}")), "{fact} {rest}");
        }
        assert!(holds(&format!("{fact} != ''")), "{fact}");
        assert!(holds(&format!("{fact} not in ['x']")), "{fact}");
        assert!(holds(&format!("default({fact}, 'y') == 'y'")), "{fact}");
        assert!(!holds(&format!("len({fact}) >= 0")), "{fact}");
        assert!(!holds(&format!("number({fact}) >= 0")), "{fact}");
        assert!(!holds(&format!("share({fact}, 's') >= 0")), "{fact}");
        assert!(!holds(&format!("address({fact}) in ['0.0.0.0/0', '::/0']")), "{fact}");
    }
    assert!(!holds("response.status >= 0") && holds("response.status != 200"));
    assert!(!holds("tls.resumed") && holds("tls.resumed == false"));
    assert!(holds("request.size == 0"));
    assert!(holds("client.ip in '2001:db8::/32'"));
}

#[test]
fn marks_are_never_wanted_where_a_condition_may_hold() {
    let (full, bare) = (Exchange::full(), Exchange::bare());
    for (text, holds) in FULL {
        let condition = compile(&text.replace("SHARE", "327"));
        assert!(!holds || Marks::of(&full.request).has(condition.marks()), "{text}");
    }
    let wants = |text: &str| !Marks::of(&bare.request).has(compile(text).marks());
    for text in [
        "request.header.x-mode",
        "request.header.x-mode == 'test'",
        "lower(request.header.x-mode) in ['a', 'b'] && true",
        "len(request.header.x-mode) > 0 || number(request.header.x-mode) == 1",
        "address(request.header.x-mode) in '10.0.0.0/8'",
        "request.cookie.sid == 'abc'",
        "request.method == 'POST'",
    ] {
        assert!(wants(text) && !compile(text).holds(&bare), "{text}");
    }
    for text in [
        "request.header.x-mode || request.path == '/'",
        "!request.header.x-mode",
        "request.header.x-mode != 'a'",
        "default(request.header.x-mode, request.cookie.a) == 'a'",
        "default(request.header.x-mode, 'a') == 'a'",
        "request.method != 'POST'",
        "(request.header.x-mode == 'a') == false",
    ] {
        assert!(!wants(text), "{text}");
    }
}

#[test]
fn content_of_unknown_length_has_no_size() {
    let mut exchange = Exchange::bare();
    exchange.request.body = sluice_message::BodyLength::Framed;
    assert!(!compile("request.size >= 0").holds(&exchange));
    assert!(compile("request.size != 0").holds(&exchange));
}

#[test]
fn methods_of_ones_own_are_compared_by_their_text() {
    let mut exchange = Exchange::bare();
    exchange.request = request("PURGE", "/", "");
    assert!(compile("request.method == 'PURGE'").holds(&exchange));
    assert!(!compile("request.method == 'REPORT'").holds(&exchange));
}

#[test]
fn every_fact_and_function_is_in_the_tables() {
    let full: String = FULL.iter().map(|(text, _)| *text).collect();
    for name in fact_names() {
        assert!(full.contains(name), "{name}");
    }
    for name in function_names() {
        assert!(full.contains(&format!("{name}(")), "{name}");
    }
}

#[test]
fn a_condition_knows_what_it_needs() {
    let all = [
        Need::Response,
        Need::Auth,
        Need::Variant,
        Need::Note,
        Need::Capture,
        Need::Certificate,
        Need::Clock,
        Need::RequestId,
        Need::Client,
    ];
    let rows: [(&str, &[Need]); 19] = [
        ("request.method == 'GET'", &[]),
        ("request.path == '/a' && request.parameter.b == 'c' && request.scheme == 'http'", &[]),
        ("request.header.x", &[Need::Client]),
        ("request.cookie.x", &[Need::Client]),
        ("client.ip in '10.0.0.0/8'", &[Need::Client]),
        ("client.port > 5", &[Need::Client]),
        ("tls.resumed", &[Need::Client]),
        ("response.status == 200", &[Need::Response]),
        ("response.header.x", &[Need::Response]),
        ("auth.user", &[Need::Auth, Need::Client]),
        ("auth.claim.x", &[Need::Auth, Need::Client]),
        ("canary.variant == 'a'", &[Need::Variant, Need::Client]),
        ("note.x", &[Need::Note, Need::Client]),
        ("capture.x", &[Need::Capture]),
        ("certificate.names == 'a'", &[Need::Certificate, Need::Client]),
        ("time.date == 'a'", &[Need::Clock]),
        ("time.hour > 5", &[Need::Clock]),
        ("request.id == 'a'", &[Need::RequestId]),
        (
            "false && lower(note.x) == default(auth.user, 'a')",
            &[Need::Note, Need::Auth, Need::Client],
        ),
    ];
    for (text, expected) in rows {
        let needs = compile(text).needs();
        for need in all {
            assert_eq!(needs.has(need), expected.contains(&need), "{text} {need:?}");
        }
    }
    let template = Template::compile("{note.x} {auth.user}", &scope()).unwrap();
    assert!(template.needs().has(Need::Note) && template.needs().has(Need::Auth));
    assert!(!template.needs().has(Need::Response));
}

#[test]
fn a_request_phase_has_no_response() {
    let scope = crate::Scope::new(crate::Phase::Request);
    assert!(Condition::compile("request.header.x", &scope).is_ok());
    for text in ["response.status == 200", "response.header.x", "response.header"] {
        let problem = super::problem(text, &scope);
        assert_eq!(problem.message, "there is no response yet where this is read", "{text}");
    }
}
