//! Every kind of problem, with its place.

use super::{toml, with_rest, yaml};
use crate::{Problems, Severity};

/// "line:column message | help" of every problem.
fn summary(problems: &Problems) -> Vec<String> {
    let line = |it: &crate::Problem| {
        let help = it.help.as_deref().map(|help| format!(" | {help}")).unwrap_or_default();
        format!("{}:{} {}{help}", it.line, it.column, it.message)
    };
    problems.list.iter().map(line).collect()
}

fn check(name: &str, got: Result<crate::Model, Problems>, expected: &[&str]) {
    let problems = got.expect_err(name);
    let lines = summary(&problems);
    assert_eq!(lines.len(), expected.len(), "{name}\n{lines:#?}");
    for (line, expected) in lines.iter().zip(expected) {
        let (place, fragment) = expected.split_once(' ').unwrap();
        assert!(line.starts_with(&format!("{place} ")), "{name}\n{line}\nexpected {expected}");
        for part in fragment.split(" .. ") {
            assert!(line.contains(part), "{name}\n{line}\nexpected {expected}");
        }
    }
}

#[test]
fn of_whole_documents() {
    let rows: &[(&str, &[&str])] = &[
        ("", &["1:1 there is no listener .. [[listener]]"]),
        ("listener = []", &["1:1 there is no listener"]),
        ("workers = 2\n", &["1:1 there is no listener"]),
        ("[listener]\naddress = \":80\"", &["1:2 list of tables, this is a table .. [[listener]]"]),
        ("listener = 3", &["1:1 list of tables, this is an integer"]),
        ("listener = [3]", &["1:13 `listener` is a table, this is an integer"]),
        ("[[listener]]", &["1:1 `address` is missing .. 0.0.0.0:8080"]),
        (
            "[[listener]]\nadress = \":80\"",
            &["2:1 unknown key `adress` .. did you mean \"address\"?"],
        ),
        ("a = ", &["1:5 expected"]),
        ("a = 1\na = 2", &["2:1 duplicate key"]),
        ("a = \"x", &["1:7 expected"]),
        ("[[listener]\n", &["1:12 "]),
        (
            "[[listener]]\nname = \"a\"\naddress = \":1\"\n[[listener]]\nname = \"a\"\naddress = \":1\"",
            &[
                "5:8 name \"a\" is already used in line 2",
                "6:11 address \"0.0.0.0:1\" is already used in line 3",
            ],
        ),
        (
            "[admin]\naddress = \":80\"\n[[listener]]\naddress = \"0.0.0.0:80\"",
            &["2:11 \"0.0.0.0:80\" is at this address too"],
        ),
    ];
    for (text, expected) in rows {
        check(text, toml(text), expected);
    }
}

#[test]
fn of_listeners() {
    let rows = [
        ("address = \"8080\"", "2:11 not an address to listen at .. write \"0.0.0.0:8080\""),
        ("address = \"localhost:80\"", "2:11 not an address .. write \"127.0.0.1:80\""),
        ("address = \"*:80\"", "2:11 not an address .. write \"0.0.0.0:80\""),
        ("address = \"10.0.0.1\"", "2:11 not an address .. add the port"),
        ("address = \"1.2.3.4:99999\"", "2:11 not an address"),
        ("address = 8080", "2:11 `address` is a text, this is an integer .. in quotes: \"8080\""),
        ("address = \"unix:\"", "2:11 a unix address needs a path"),
        ("address = \":1\"\nname = \"a b\"", "3:8 \"a b\" is not a name"),
        ("address = \":1\"\nlimits.head = 100", "3:15 `head` must be from 1KiB to 65535B"),
        ("address = \":1\"\nlimits.head = \"64KiB\"", "3:15 `head` must be from 1KiB"),
        ("address = \":1\"\nlimits.head = \"8k\"", "3:15 not a size .. \"KiB\""),
        ("address = \":1\"\nlimits.head = true", "3:15 `head` is a size like .. this is a flag"),
        ("address = \":1\"\nlimits.fields = 0", "3:17 `fields` must be from 1 to 1000"),
        ("address = \":1\"\nlimits.fields = -1", "3:17 `fields` must be from 1 to 1000"),
        ("address = \":1\"\nlimits.fields = 1.5", "3:17 whole number, this is a fraction"),
        ("address = \":1\"\nlimits.fields = \"5\"", "3:17 whole number, this is a text"),
        ("address = \":1\"\nlimits.connections = \"none\"", "3:22 whole number or \"unlimited\""),
        ("address = \":1\"\nlimits = \"big\"", "3:1 `listener.limits` is a table, this is a text"),
        ("address = \":1\"\nlimit = {}", "3:1 unknown key `limit` .. did you mean \"limits\"?"),
        ("address = \":1\"\ntimeout.idle = 30", "3:16 has no unit .. \"30s\""),
        ("address = \":1\"\ntimeout.idle = \"30\"", "3:16 has no unit .. \"30s\""),
        ("address = \":1\"\ntimeout.idle = \"soon\"", "3:16 \"soon\" is not a duration"),
        ("address = \":1\"\ntimeout.idle = \"0s\"", "3:16 `idle` must be from 1ms to 365d, not 0s"),
        ("address = \":1\"\ntimeout.idle = [1]", "3:16 `idle` is a duration .. this is a list"),
        ("address = \":1\"\ntimeout.idel = \"1s\"", "3:9 unknown key `idel` .. \"idle\""),
        (
            "address = \":1\"\nhttp2 = { enabled = false, required = true }",
            "3:28 HTTP/2 cannot be required where it is not enabled .. remove `enabled = false`",
        ),
        ("address = \"${NOPE}\"", "2:12 the environment variable NOPE is not set .. default"),
        ("address = \"x${PORT\"", "2:13 `${` is not closed"),
        ("address = \"${HOST}:80\"", "2:11 \"example.com:80\" is not an address"),
        ("address = 2024-01-01", "2:11 a date has no meaning here"),
        ("address = \":1\"\nlimits.fields = 99999999999999999999", "3:17 too large"),
    ];
    for (text, expected) in rows {
        check(text, toml(&format!("[[listener]]\n{text}")), &[expected]);
    }
}

#[test]
fn of_balancing() {
    let rows = [
        ("upstream.a = { servers = \"h:1\", sticky = \"x\" }", "4:33 `upstream.sticky` is a table"),
        (
            "upstream.a = { servers = \"h:1\", sticky.cookie = \"a b\" }",
            "4:49 \"a b\" is not the name of a cookie",
        ),
        (
            "upstream.a = { servers = \"h:1\", sticky.key = \"short\" }",
            "4:46 a key of 5 characters could be guessed .. openssl",
        ),
        (
            "upstream.a = { servers = \"h:1\", sticky.path = \"x\" }",
            "4:47 not a path for a cookie .. starts with /",
        ),
        (
            "upstream.a = { servers = \"h:1\", sticky.path = \"/;x\" }",
            "4:47 not a path for a cookie",
        ),
        (
            "upstream.a = { servers = \"h:1\", sticky.domain = \"a b\" }",
            "4:49 \"a b\" is not a domain",
        ),
        (
            "upstream.a = { servers = \"h:1\", sticky.same_site = \"none\" }",
            "4:52 same_site = \"none\" alone .. secure = true",
        ),
        ("upstream.a = { servers = \"h:1\", slow_start = 3 }", "4:46 has no unit"),
        (
            "upstream.a = { servers = \"h:1\", balance = \"hash\" }",
            "4:43 needs to know what is hashed .. hash = { on = \"client\" }",
        ),
        (
            "upstream.a = { servers = \"h:1\", hash = { on = \"path\" } }",
            "4:33 no effect with balance = \"round_robin\" .. balance = \"hash\"",
        ),
        (
            "upstream.a = { servers = \"h:1\", balance = \"hash\", hash = {} }",
            "4:51 `on` is missing",
        ),
        (
            "upstream.a = { servers = \"h:1\", balance = \"hash\", hash = { on = \"ip\" } }",
            "4:65 cannot be \"ip\" .. client",
        ),
        (
            "upstream.a = { servers = \"h:1\", balance = \"hash\", hash = { on = \"header\" } }",
            "4:51 which header? .. name = \"...\"",
        ),
        (
            "upstream.a = { servers = \"h:1\", balance = \"hash\", hash = { on = \"path\", name = \"x\" } }",
            "4:80 on = \"path\" has no name",
        ),
        (
            "upstream.a = { servers = \"h:1\", balance = \"hash\", hash = { on = \"header\", name = \"a b\" } }",
            "4:82 not the name of a header",
        ),
        (
            "upstream.a = { servers = \"h:1\", balance = \"hash\", hash = { on = \"cookie\", name = \"a;\" } }",
            "4:82 not the name of a cookie",
        ),
        (
            "upstream.a = { servers = \"h:1\", balance = \"hash\", hash = { on = \"query\", name = \"\" } }",
            "4:81 the parameter has no name",
        ),
    ];
    for (text, expected) in rows {
        let text = with_rest(text);
        check(&text, toml(&text), &[expected]);
    }
}

#[test]
fn of_the_rest() {
    let rows = [
        ("workers = 0", "4:11 `workers` must be from 1 to 1024"),
        ("workers = \"many\"", "4:11 `workers` is a whole number, this is a text"),
        ("worker = 1", "4:1 unknown key `worker` .. did you mean \"workers\"?"),
        ("quantum = 1", "4:1 unknown key `quantum` .. known keys: workers"),
        ("shutdown_timeout = 5", "4:20 has no unit"),
        ("trusted_proxies = \"10.0.0.1/8\"", "4:19 bits set .. did you mean \"10.0.0.0/8\"?"),
        ("trusted_proxies = [\"10.0.0.0/8\", \"x\"]", "4:34 \"x\" is not a network"),
        ("trusted_proxies = [1]", "4:20 `trusted_proxies` is a text, this is an integer"),
        ("resolver.servers = \"dns.example\"", "4:20 not the address of a name server"),
        ("resolver = { min_ttl = \"2h\" }", "4:24 `min_ttl` is longer than `max_ttl`"),
        ("admin.address = \"of\"", "4:17 \"of\" is not an address"),
        ("admin.adress = \"off\"", "4:7 unknown key `adress`"),
        ("log.access = \"combind\"", "4:14 not a log format .. did you mean \"combined\"?"),
        ("log.access = \"{a}\\n\"", "4:14 a log template is one line"),
        ("log.file = \"\"\nlog.access = \"json\"", "4:12 not the path of a file"),
        ("upstream = 3", "4:1 `upstream` holds tables by name, this is an integer"),
        ("upstream.a = 3", "4:10 `upstream` is a table, this is an integer"),
        ("upstream.a = {}", "4:10 `servers` is missing"),
        ("upstream.a.servers = []", "4:22 the list of servers is empty"),
        ("upstream.a.servers = [{}]", "4:23 `address` is missing"),
        ("upstream.a.servers = [\"host\"]", "4:23 \"host\" has no port .. \"host:80\""),
        ("upstream.a.servers = [\"h:0\"]", "4:23 a server has no port 0"),
        ("upstream.a.servers = [\"h:x\"]", "4:23 \"x\" is not a port"),
        ("upstream.a.servers = [\"::1:80\"]", "4:23 \"::1:80\" has no port .. \"[::1:80]:80\""),
        ("upstream.a.servers = [\"1.2.3:80\"]", "4:23 neither an IP address nor a host name"),
        ("upstream.a.servers = [\"ftp://h:1\"]", "4:23 \"ftp://\" is not a scheme"),
        ("upstream.a.servers = [\"http://h/x\"]", "4:23 has a path"),
        ("upstream.a.servers = [\"h_ö:80\"]", "4:23 \"h_ö\" is not a host name .. xn--"),
        ("upstream.a.servers = [{ address = \"h:1\", weight = 1001 }]", "4:51 `weight` must be"),
        ("upstream.a.servers = [{ address = \"h:1\", weigth = 1 }]", "4:42 unknown key `weigth`"),
        (
            "upstream.a.servers = [{ address = \"h:1\", weight = 0 }]",
            "4:22 every server has weight 0",
        ),
        ("upstream.\"a b\".servers = \"h:1\"", "4:10 \"a b\" is not a name"),
        ("upstream.a = { servers = \"h:1\", balance = \"robin\" }", "4:43 cannot be \"robin\""),
        ("upstream.a = { servers = \"h:1\", host = \"a b\" }", "4:40 \"a b\" is not a host"),
        ("upstream.a = { servers = \"h:1\", retry.attempts = 101 }", "4:50 `attempts` must be"),
        ("upstream.a = { servers = \"h:1\", retry.hedge = {} }", "4:39 `after` is missing"),
        (
            "upstream.a = { servers = \"h:1\", retry.on = \"200\" }",
            "4:44 \"200\" is nothing to try",
        ),
        (
            "upstream.a = { servers = \"h:1\", retry.on = \"6xx\" }",
            "4:44 \"6xx\" is nothing to try",
        ),
        ("upstream.a = { servers = \"h:1\", retry.buffer = \"65MiB\" }", "4:48 `buffer` must be"),
        (
            "upstream.a = { servers = \"h:1\", retry.budget.share = \"20\" }",
            "4:54 \"20\" is not a share",
        ),
    ];
    for (text, expected) in rows {
        check(text, toml(&with_rest(text)), &[expected]);
    }
}

#[test]
fn of_checks() {
    let rows = [
        (
            "health = {}",
            "6:1 a check has a `path`, `tcp = true` or `grpc = true` .. health = \"/healthz\"",
        ),
        ("health = \"healthz\"", "6:10 \"healthz\" is not a path to ask for .. \"/healthz\""),
        ("health = \"/a b\"", "6:10 is not a path to ask for"),
        ("health = true", "6:1 `upstream.health` is a table, this is a flag"),
        ("health.path = \"/#a\"", "6:15 is not a path to ask for"),
        ("health = { path = \"/\", tcp = true }", "6:12 `path` has no meaning .. `tcp = true`"),
        ("health = { tcp = true, body = \"x\" }", "6:24 `body` has no meaning"),
        ("health = { grpc = true }", "6:1 made over HTTP/2 .. protocol = \"http2\""),
        ("health = { grpc = true, body = \"x\" }", "6:25 `body` has no meaning .. `grpc = true`"),
        ("health = { path = \"/\", service = \"a.B\" }", "6:24 `service` has no meaning"),
        ("health = { path = \"/\", statuses = \"ok\" }", "6:35 no status of a response"),
        ("health = { path = \"/\", method = \"get\" }", "6:33 did you mean \"GET\"?"),
        ("health = { path = \"/\", method = \"HEAD\", body = \"x\" }", "6:48 HEAD has no body"),
        ("health = { path = \"/\", jitter = \"10\" }", "6:33 \"10\" is not a share"),
        ("health = { path = \"/\", interval = \"0s\" }", "6:35 `interval` must be from 1ms"),
        ("health = { path = \"/\", healthy = 0 }", "6:34 `healthy` must be from 1"),
        ("health = { path = \"/\", initial = \"up\" }", "6:34 cannot be \"up\""),
        ("health = { path = \"/\", port = 0 }", "6:31 `port` must be from 1"),
        ("breaker = 5", "6:1 `upstream.breaker` is a table, this is an integer"),
        ("breaker.requests = 0", "6:20 `requests` must be from 1"),
        ("breaker.pending = \"none\"", "6:19 whole number or \"unlimited\""),
        ("panic = \"on\"", "6:9 \"on\" is not a share"),
        ("panic = \"200%\"", "6:9 more than the whole"),
        ("ejection = 5", "6:1 `upstream.ejection` is a table, this is an integer"),
        ("ejection.failures = 0", "6:21 `failures` must be from 1"),
        ("ejection.failures = \"off\"", "6:10 nothing ejects a server"),
        ("ejection.share = \"0%\"", "6:10 would eject servers that never fail"),
        ("ejection.limit = \"101%\"", "6:18 more than the whole"),
        ("ejection.statuses = [\"99\"]", "6:22 \"99\" is no status of a response"),
        ("ejection.time = \"10m\"", "6:10 `time` is longer than `max_time`"),
    ];
    for (text, expected) in rows {
        let upstream = format!("[upstream.a]\nservers = \"h:1\"\n{text}\n[[route]]\nproxy = \"a\"");
        check(text, toml(&with_rest(&upstream)), &[expected]);
    }
}

#[test]
fn of_routes() {
    let rows = [
        ("", "4:1 this route does nothing .. respond, redirect, proxy, files, lua, health"),
        ("respond = \"a\"\nproxy = \"h:1\"", "6:1 has `respond` and `proxy`"),
        ("health = false", "5:10 `health = false` is no action"),
        ("health = 1", "5:10 `health` is true or false"),
        ("proxy = \"api\"", "5:9 there is no upstream \"api\" .. [upstream.api]"),
        ("proxy = 9001", "5:9 `proxy` is a text"),
        ("proxy = \"ftp://h\"", "5:9 \"ftp://\" is not a scheme"),
        ("proxy = \"http://me:pw@h\"", "5:9 no user name or password"),
        ("respond = 1", "5:1 `route.respond` is a table, this is an integer"),
        ("respond.status = 199", "5:18 `status` must be from 200 to 599"),
        ("respond.status = 101", "5:18 `status` must be from 200 to 599"),
        ("respond = { status = 204, body = \"x\" }", "5:34 a response 204 has no body"),
        ("respond = { body = \"x\", file = \"y\" }", "5:32 a `body` or a `file`, not both"),
        ("respond = { file = \"\" }", "5:20 not the path of a file"),
        ("respond.headers = [\"a\"]", "5:9 `headers` is a table of names and values"),
        ("respond.headers = { \"a b\" = \"x\" }", "5:21 \"a b\" is not the name of a header"),
        ("respond.headers = { \"a\\r\\nb\" = \"x\" }", "5:21 \"a\\r\\nb\" is not the name"),
        ("respond.headers = { a = \"x\\r\\nb: y\" }", "5:25 a header value must not hold line"),
        ("respond.headers = { a = \"x\\u0000\" }", "5:25 a header value must not hold"),
        ("respond.headers = { a = \"${EVIL}\" }", "5:25 a header value must not hold"),
        ("respond.headers = { content-length = \"1\" }", "5:21 is written by the server itself"),
        ("respond.headers = { a = 1 }", "5:25 `a` is a text, this is an integer"),
        ("redirect = { status = 301 }", "5:1 `to` is missing"),
        ("redirect = { to = \"/\", status = 304 }", "5:33 304 is not the status of a redirect"),
        ("redirect = \"\"", "5:12 the target of the redirect is empty"),
        ("redirect = \"/a\\r\\nb\"", "5:12 must not hold blanks or line breaks"),
        (
            "redirect = \"https://{hst}/\"",
            "5:22 there is no fact 'hst' .. did you mean request.host?",
        ),
        (
            "redirect = \"https://{hots}/\"",
            "5:22 there is no fact 'hots' .. there are: request.scheme, request.host, request.raw_path, request.search",
        ),
        (
            "redirect = \"https://{host\"",
            "5:22 there is no fact 'host' .. did you mean request.host?",
        ),
        ("files = {}", "5:1 `root` is missing"),
        ("files = \"\"", "5:9 \"\" is not the path of a file"),
        ("files = { root = \"/w\", try = [] }", "5:30 the list `try` is empty"),
        ("files = { root = \"/w\", try = \"{file}\" }", "5:30 not known .. is {path}"),
        (
            "files = { root = \"/w\", try = [\"=404\", \"{path}\"] }",
            "5:31 nothing is tried after a status",
        ),
        ("files = { root = \"/w\", try = \"=200\" }", "5:30 is not a status from 400 to 599"),
        ("files = { root = \"/w\", try = \"/../x\" }", "5:30 is no path beneath the root"),
        ("files = { root = \"/w\", strip_prefix = \"a\" }", "5:39 does not begin with a slash"),
        ("files = { root = \"/w\", index = \"a/b\" }", "5:32 \"a/b\" is not the name of a file"),
        (
            "files = { root = \"/w\", types = { \"a.b\" = \"x/y\" } }",
            "5:34 \"a.b\" is not an extension",
        ),
        ("files = { root = \"/w\", types = { a = \"x\" } }", "5:38 \"x\" is not a media type"),
        ("files = { root = \"/w\", download = \"a/*\" }", "5:35 could never match"),
        ("files = { root = \"/w\", precompressed = \"brotli\" }", "5:40 no encoding \"brotli\""),
        (
            "files = { root = \"/w\", cache_control = { \"*\" = \"a\\r\\nb\" } }",
            "5:48 a header value must not",
        ),
        ("health = true\npath = \"api\"", "6:8 does not begin with / .. write \"/api\""),
        ("health = true\npath = \"*\"", "6:8 does not begin with / .. \"/*\" for every path"),
        ("health = true\npath = \"/a*\"", "6:8 has a * .. \"/api/*\""),
        ("health = true\npath = \"/a?b=c\"", "6:8 holds a ?"),
        ("health = true\npath = \"/a b\"", "6:8 holds a blank"),
        ("health = true\npath = \"/u/x{id}\"", "6:8 has braces that are no {name}"),
        ("health = true\npath = \"/{a}/{a}\"", "6:8 has {a} twice"),
        ("health = true\npath = \"/{a}/*\"", "6:8 mixes {name} and *"),
        ("health = true\npath = \"~ ^/(\"", "6:8 not a regular expression: unclosed group"),
        ("health = true\npath = \"~\"", "6:8 the regular expression after ~ is empty"),
        ("health = true\nhost = \"a.*.b\"", "6:8 \"a.*.b\" is not a host .. \"*.example.com\""),
        ("health = true\nhost = \"a:80\"", "6:8 has a port .. write \"a\""),
        ("health = true\nhost = [\"a\", \"b c\"]", "6:14 \"b c\" is not a host name"),
        ("health = true\nhost = []", "6:8 the list `host` is empty"),
        ("health = true\nmethod = []", "6:10 the list `method` is empty"),
        ("health = true\nmethod = \"get\"", "6:10 in capitals .. did you mean \"GET\"?"),
        ("health = true\nmethod = [\"GET\", \"G T\"]", "6:18 \"G T\" is not a method"),
        ("health = true\nheader = { \"x y\" = \"1\" }", "6:12 not the name of a header"),
        ("health = true\nheader = { x = \"~ [\" }", "6:16 not a regular expression"),
        ("health = true\ncookie = { \"a=b\" = \"1\" }", "6:12 not the name of a cookie"),
        ("health = true\nquery = { \"\" = \"1\" }", "6:11 not the name of a query parameter"),
        ("health = true\nheader = { a = [\"1\"] }", "6:16 `a` has one value .. ~ ^(a|b)$"),
        ("health = true\nquery = \"a=1\"", "6:1 `query` is a table of names and values"),
        ("health = true\nclient = \"10.0.0.0/33\"", "6:10 \"10.0.0.0/33\" is not a network"),
        ("health = true\nlistener = \"wbe\"", "6:12 there is no listener \"wbe\""),
        ("health = true\nbody_limit = \"1mb\"", "6:14 not a size .. did you mean \"MB\"?"),
        ("health = true\nbody_limt = 1", "6:1 unknown key `body_limt` .. \"body_limit\""),
        ("health = true\nname = \"\"", "6:8 \"\" is not a name"),
        (
            "health = true\nname = \"n\"\n[[route]]\nhealth = true\nname = \"n\"",
            "9:8 is used twice",
        ),
    ];
    for (text, expected) in rows {
        check(text, toml(&with_rest(&format!("[[route]]\n{text}"))), &[expected]);
    }
}

#[test]
fn of_yaml() {
    let rows: &[(&str, &[&str])] = &[
        ("", &["1:1 there is no listener"]),
        ("- a\n- b\n", &["1:1 a configuration has keys and values, this is a list"]),
        ("listener:\n  address: :80\n", &["1:1 list of tables, this is a table"]),
        ("listener:\n  - adress: :80\n", &["2:5 unknown key `adress`"]),
        ("listener:\n  - address: :80\n    address: :81\n", &["3:5 `address` is written twice"]),
        ("listener:\n  - address: 80\n", &["2:14 `address` is a text, this is an integer"]),
        ("listener:\n  - address:\n", &["2:5 `address` has no value"]),
        ("listener:\n  - address: \":80\n", &["3:1 multiline quoted scalar"]),
        (
            "listener:\n  - {address: \":80\", limits: {fields: ${COUNT}}}\n",
            &["2:40 flow mapping .. in quotes"],
        ),
        ("listener:\n  - address: *a\n", &["2:14 anchor"]),
        ("listener: &a\n  - address: :80\n  - *a\n", &["3:5 this alias would hold itself"]),
        ("listener:\n  - address: !secret :80\n", &["2:22 the tag `!secret` has no meaning"]),
        ("listener: []\n---\nlistener: []\n", &["2:1 a second document"]),
        (
            "a: &a {address: \":80\"}\nlistener:\n  - <<: *a\n",
            &["1:1 unknown key `a`", "3:5 merge keys are not part", "3:5 `address` is missing"],
        ),
        ("? [a]\n: b\nlistener: [{address: \":1\"}]\n", &["1:3 a key is a text, not a list"]),
        (
            "listener:\n  - address: :80\nroute:\n  - path: api\n    health: yes\n",
            &["4:11 does not begin with /", "5:13 `health` is true or false, this is a text"],
        ),
        ("listener:\n\t- address: :80\n", &["2:2 tabs"]),
    ];
    for (text, expected) in rows {
        check(text, yaml(text), expected);
    }
}

#[test]
fn all_of_them_at_once() {
    let text = "workers = 0\n[[listener]]\nadress = 1\n[[route]]\npath = \"x\"\nproxy = \"y\"\nbody_limit = \"z\"\n";
    let problems = toml(text).unwrap_err();
    let places: Vec<_> = problems.list.iter().map(|it| (it.line, it.column)).collect();
    assert_eq!(places, [(1, 11), (3, 1), (5, 8), (6, 9), (7, 14)]);
    let text = problems.to_string();
    for problem in &problems.list {
        assert!(text.contains(&problem.message), "{text}");
    }
}

#[test]
fn warnings_do_not_fail() {
    let rows = [
        ("upstream.a.servers = \"h:1\"", vec![(4, 10, "no route uses the upstream \"a\"")]),
        ("log.file = \"/x\"", vec![(4, 12, "the access log is off")]),
        (
            "[[route]]\npath = \"/a\"\nhost = [\"x\", \"y\"]\nhealth = true\n\
             [[route]]\npath = \"/a\"\nhost = [\"Y\", \"x\"]\nrespond = \"\"",
            vec![(8, 1, "the route \"y/a\" never matches: \"x/a\" is for the same requests")],
        ),
        (
            "[[route]]\npath = \"/a\"\nhealth = true\n[[route]]\npath = \"/a\"\nmethod = \"GET\"\nrespond = \"\"",
            vec![],
        ),
    ];
    for (text, expected) in rows {
        let warnings = toml(&with_rest(text)).unwrap().warnings;
        assert_eq!(warnings.len(), expected.len(), "{warnings:#?}");
        for (warning, (line, column, message)) in warnings.iter().zip(expected) {
            assert_eq!(warning.severity, Severity::Warning);
            assert_eq!((warning.line, warning.column), (line, column), "{warning}");
            assert!(warning.message.contains(message), "{warning}");
        }
    }
}

#[test]
fn of_limits_of_concurrency() {
    let rows = [
        ("concurrency = {}", "4:1 this limits nothing .. limit = 100"),
        ("concurrency = { limit = 0 }", "4:25 `limit` must be from 1 to 1000000"),
        ("concurrency = 100", "4:1 `concurrency` is a table, this is an integer"),
        (
            "concurrency = { limit = 1, adaptive = {} }",
            "4:1 `limit` and `adaptive` exclude each other .. max = ...",
        ),
        (
            "concurrency = { adaptive = { min = 5, max = 4 } }",
            "4:36 `min` is 5, more than `max`: 4",
        ),
        ("concurrency = { adaptive = { min = 1001 } }", "4:36 `min` is 1001, more than `max`"),
        ("memory = \"0%\"", "4:10 \"0%\" is not a share .. \"1%\" to \"100%\""),
        ("memory = \"101%\"", "4:10 is not a share"),
        ("memory = \"%\"", "4:10 is not a share"),
        ("memory = \"lots\"", "4:10 \"lots\" is not a size"),
        ("memory = \"0\"", "4:10 nobody is served .. \"off\""),
        ("memory = 5", "4:10 `memory` is a text .. \"5\""),
        ("concurrency = { limit = 1, wait = \"0s\" }", "4:35 `wait` must be from 1ms"),
        ("concurrency = { limit = 1, retry_after = \"1ms\" }", "4:42 `retry_after` must be"),
    ];
    for (text, expected) in rows {
        let text = format!("[overload]\n{text}");
        let rest = with_rest("").replacen("\n\n\n", "\n\n", 1);
        check(&text, toml(&format!("{rest}{text}")), &[expected]);
    }
    let text = "[[route]]\nconcurrency = { adaptive = {} }\nrespond = \"x\"";
    check(text, toml(&with_rest(text)), &["5:1 has none .. limit = 100"]);
}

#[test]
fn of_headers_in_front() {
    let listener = |text: &str| format!("[[listener]]\naddress = \":80\"\n{text}");
    let rows: &[(&str, &[&str])] = &[
        ("proxy_protocol = {}", &["3:1 `from` is missing .. Networks"]),
        ("proxy_protocol = true", &["3:1 `listener.proxy_protocol` is a table, this is a flag"]),
        (
            "proxy_protocol.from = []",
            &["3:16 nobody is to send a header .. leave proxy_protocol out"],
        ),
        ("proxy_protocol.from = \"10.0.0.1/8\"", &["3:23 bits set beyond its prefix"]),
        (
            "proxy_protocol.form = \"10.0.0.1\"",
            &["3:16 unknown key `form` .. did you mean \"from\"?"],
        ),
    ];
    for (text, expected) in rows {
        check(text, toml(&listener(text)), expected);
    }
    let text = "[upstream.a]\nservers = \"h:1\"\nproxy_protocol = \"v3\"\n[[route]]\nproxy = \"a\"";
    check(text, toml(&with_rest(text)), &["6:18 v3"]);
}
