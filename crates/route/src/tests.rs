//! Tables of routes, requests and the route each is to find.

mod many;
mod random;

use std::net::IpAddr;

use sluice_message::{Method, ParameterAction, PathCase, PathRules, RequestHead};

use crate::{HostSpec, Match, PathSpec, RouteSpec, Table, ValueSpec};

/// A request head as a decoder would leave it: `METHOD host/path?query`, then field lines.
fn request(line: &str, fields: &[(&str, &str)]) -> RequestHead {
    let (method, url) = line.split_once(' ').unwrap();
    let slash = url.find('/').unwrap_or(url.len());
    let (host, target) = url.split_at(slash);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut head = RequestHead::new();
    head.method = Method::of(method.as_bytes());
    head.method_text = head.fields.append(method.as_bytes()).unwrap();
    head.authority = head.fields.append(host.as_bytes()).unwrap();
    head.path = head.fields.append(path.as_bytes()).unwrap();
    head.query = head.fields.append(query.as_bytes()).unwrap();
    for (name, value) in fields {
        head.fields.push(name.as_bytes(), value.as_bytes()).unwrap();
    }
    head
}

/// A route as the configuration writes it: `METHOD,METHOD host,*.host/path`, each part optional but
/// the path; `/*` at the end makes a prefix, braces a template, `~` before the path an expression.
fn route(text: &str) -> RouteSpec {
    let (methods, url) = text.split_once(' ').unwrap_or(("", text));
    let at = url.find(['/', '~']).unwrap();
    let (hosts, path) = url.split_at(at);
    let list = |text: &str| -> Vec<String> {
        text.split(',').filter(|item| !item.is_empty()).map(str::to_owned).collect()
    };
    let path = if let Some(regex) = path.strip_prefix('~') {
        PathSpec::Regex(regex.to_owned())
    } else if let Some(prefix) = path.strip_suffix('*') {
        PathSpec::Prefix(prefix.to_owned())
    } else if path.contains('{') {
        PathSpec::Template(path.to_owned())
    } else {
        PathSpec::Exact(path.to_owned())
    };
    let host = |host: String| match host.strip_prefix('*') {
        Some(suffix) => HostSpec::Wildcard(suffix.to_owned()),
        None => HostSpec::Exact(host),
    };
    let mut spec = RouteSpec::new(path);
    spec.methods = list(methods);
    spec.hosts = list(hosts).into_iter().map(host).collect();
    spec
}

fn table(routes: &[&str]) -> Table {
    Table::build(routes.iter().map(|text| route(text)).collect()).unwrap()
}

const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

/// The answer as text: an index, `405 METHODS` or `404`.
fn answer(found: Match<'_>) -> String {
    match found {
        Match::Found(index) => index.to_string(),
        Match::MethodNotAllowed(allow) => format!("405 {allow}"),
        Match::None => "404".to_owned(),
    }
}

fn check(routes: &[&str], cases: &[(&str, &str)]) {
    let table = table(routes);
    for (line, expected) in cases {
        let got = answer(table.find(&request(line, &[]), CLIENT));
        assert_eq!(got, *expected, "{line} among {routes:?}");
    }
}

#[test]
fn exact_paths() {
    let routes = ["/", "/a", "/a/"];
    let cases = [
        ("GET h/", "0"),
        ("GET h/a", "1"),
        ("GET h/a/", "2"),
        ("GET h/b", "404"),
        ("GET h", "404"),
    ];
    check(&routes, &cases);
}

#[test]
fn prefixes() {
    let routes = ["/*", "/api/*", "/api/v1*", "/api/v1/users/*", "/.*"];
    let cases = [
        ("GET h/", "0"),
        ("GET h", "0"),
        ("OPTIONS h/*", "0"),
        ("GET h/ap", "0"),
        ("GET h/api", "1"),
        ("GET h/api/", "1"),
        ("GET h/apix", "0"),
        ("GET h/api/x", "1"),
        ("GET h/api/v1", "2"),
        ("GET h/api/v12", "2"),
        ("GET h/api/v1/users", "3"),
        ("GET h/api/v1/users/7", "3"),
        ("GET h/api/v1/userss", "2"),
        ("GET h/.git/config", "4"),
    ];
    check(&routes, &cases);
}

#[test]
fn templates() {
    let routes =
        ["/{a}/{b}", "/{x}/b", "/a/{x}", "/users/{id}/posts/{post}", "/users/{id}/", "/{any}"];
    let cases = [
        ("GET h/", "404"),
        ("GET h/x", "5"),
        ("GET h/x/y", "0"),
        ("GET h/x/b", "1"),
        ("GET h/a/x", "2"),
        ("GET h/a/b", "2"),
        ("GET h/a/", "404"),
        ("GET h/users/7/posts/9", "3"),
        ("GET h/users/7/posts/", "404"),
        ("GET h/users/7/posts", "404"),
        ("GET h/users/7/", "4"),
        ("GET h/users/7", "0"),
    ];
    check(&routes, &cases);
    check(&["/{x}/b/c", "/a/{x}/{y}"], &[("GET h/a/b/c", "0"), ("GET h/a/b/d", "1")]);
}

#[test]
fn kinds_of_paths_in_their_order() {
    let routes = ["~^/a", "/*", "/a/*", "/a/{x}", "/a/b", "~b$"];
    let cases = [("GET h/a/b", "4"), ("GET h/a/c", "3"), ("GET h/a/c/d", "2"), ("GET h/b", "1")];
    check(&routes, &cases);
    let cases = [("GET h/a/b", "0"), ("GET h/c/b", "1"), ("GET h/c", "404")];
    check(&["~^/a", "~b$"], &cases);
    check(&["~^/a[0-9]$"], &[("GET h/a7", "0"), ("GET h/a77", "404")]);
}

#[test]
fn hosts_in_their_order() {
    let routes = [
        "/*",
        "*.example.com/*",
        "*.b.example.com/*",
        "a.b.example.com/only",
        "A.example.com,b.example.com/*",
        "[::1]/*",
    ];
    let cases = [
        ("GET other/x", "0"),
        ("GET example.com/x", "0"),
        ("GET .example.com/x", "0"),
        ("GET c.example.com/x", "1"),
        ("GET C.EXAMPLE.com.:8080/x", "1"),
        ("GET x.b.example.com/x", "2"),
        ("GET a.b.example.com/only", "3"),
        ("GET a.b.example.com/x", "2"),
        ("GET a.example.com:80/x", "4"),
        ("GET B.example.com/x", "4"),
        ("GET [::1]:8080/x", "5"),
        ("GET xexample.com/x", "0"),
    ];
    check(&routes, &cases);
}

#[test]
fn methods() {
    let routes = ["GET /a", "POST /a", "PURGE /c", "GET,PUT /b/*", "DELETE /{x}/y", "DELETE /b/y"];
    let cases = [
        ("GET h/a", "0"),
        ("HEAD h/a", "0"),
        ("POST h/a", "1"),
        ("PUT h/a", "405 GET, HEAD, POST"),
        ("PURGE h/c", "2"),
        ("GET h/c", "405 PURGE"),
        ("BREW h/c", "405 PURGE"),
        ("purge h/c", "405 PURGE"),
        ("DELETE h/b/y", "5"),
        ("PATCH h/b/y", "405 GET, HEAD, PUT, DELETE"),
        ("PATCH h/nothing", "404"),
    ];
    check(&routes, &cases);
    // A less specific route that takes the method wins over 405, and any method means any.
    check(&["GET a.example/x", "/*"], &[("POST a.example/x", "1"), ("BREW a.example/x", "1")]);
}

fn with(text: &str, change: impl FnOnce(&mut RouteSpec)) -> RouteSpec {
    let mut spec = route(text);
    change(&mut spec);
    spec
}

fn exact(text: &str) -> ValueSpec {
    ValueSpec::Exact(text.to_owned())
}

#[test]
fn headers() {
    let table = Table::build(vec![
        with("/", |spec| {
            spec.headers = vec![
                ("X-Tenant".to_owned(), exact("acme")),
                ("x-tenant".to_owned(), ValueSpec::Regex("^b".to_owned())),
            ];
        }),
        with("/", |spec| spec.headers = vec![("x-tenant".to_owned(), exact("acme"))]),
        with("/", |spec| spec.headers = vec![("x-other".to_owned(), ValueSpec::Present)]),
        route("/"),
    ])
    .unwrap();
    let cases: [(&[(&str, &str)], &str); 6] = [
        (&[], "3"),
        (&[("X-TENANT", "acme")], "1"),
        (&[("x-tenant", "Acme")], "3"),
        (&[("x-tenant", "acme"), ("x-tenant", "beta")], "0"),
        (&[("x-other", "")], "2"),
        (&[("x-tenantx", "acme")], "3"),
    ];
    for (fields, expected) in cases {
        let got = answer(table.find(&request("GET h/", fields), CLIENT));
        assert_eq!(got, expected, "{fields:?}");
    }
}

#[test]
fn queries_and_cookies() {
    let table = Table::build(vec![
        with("/", |spec| spec.queries = vec![("a b".to_owned(), exact("c&d"))]),
        with("/", |spec| {
            spec.queries = vec![("n".to_owned(), ValueSpec::Regex("^[0-9 ]+$".to_owned()))];
        }),
        with("/", |spec| spec.queries = vec![("flag".to_owned(), ValueSpec::Present)]),
        with("/", |spec| spec.cookies = vec![("id".to_owned(), exact("7"))]),
        with("/", |spec| {
            spec.cookies = vec![("id".to_owned(), ValueSpec::Regex("^x+$".to_owned()))];
        }),
    ])
    .unwrap();
    let cases = [
        ("", "", "404"),
        ("a+b=c%26d", "", "0"),
        ("%61%20b=c%26d", "", "0"),
        ("a+b=c&d", "", "404"),
        ("n=12", "", "1"),
        ("n=1+%32", "", "1"),
        ("n=x&n=3", "", "1"),
        ("n=x", "", "404"),
        ("x=1&flag", "", "2"),
        ("flag=0", "", "2"),
        ("flagged", "", "404"),
        ("", "a=b; id=7", "3"),
        ("", "id=\"7\"", "3"),
        ("", "id=8; id=xx", "4"),
        ("", "ID=7", "404"),
    ];
    for (query, cookie, expected) in cases {
        let head = request(&format!("GET h/?{query}"), &[("Cookie", cookie)]);
        assert_eq!(answer(table.find(&head, CLIENT)), expected, "{query} {cookie}");
    }
}

#[test]
fn clients_fall_through_to_the_next_route() {
    let table = Table::build(vec![
        with("GET /", |spec| spec.clients = vec!["10.0.0.0/8".parse().unwrap()]),
        with("POST /*", |spec| spec.clients = vec!["2001:db8::/32".parse().unwrap()]),
    ])
    .unwrap();
    let cases = [
        ("GET h/", "10.1.2.3", "0"),
        ("GET h/", "::ffff:10.1.2.3", "0"),
        ("GET h/", "192.0.2.1", "404"),
        // What a client may not reach is not told to it by 405 either.
        ("PUT h/", "192.0.2.1", "404"),
        ("PUT h/", "10.1.2.3", "405 GET, HEAD"),
        ("POST h/", "2001:db8::1", "1"),
        ("POST h/", "10.1.2.3", "405 GET, HEAD"),
    ];
    for (line, client, expected) in cases {
        let found = table.find(&request(line, &[]), client.parse().unwrap());
        assert_eq!(answer(found), expected, "{line} from {client}");
    }
}

#[test]
fn paths_of_the_configuration_are_normalised() {
    let cases = [
        ("/caf\u{e9}", "/caf%C3%A9"),
        ("/a b", "/a%20b"),
        ("/%7euser", "/~user"),
        ("/a%2fb", "/a%2Fb"),
        ("/a/../b", "/b"),
        ("//a", "/a"),
        ("/%40fs/%7Bx%7D", "/@fs/{x}"),
    ];
    for (written, path) in cases {
        let table =
            Table::build(vec![RouteSpec::new(PathSpec::Exact(written.to_owned()))]).unwrap();
        assert_eq!(
            answer(table.find(&request(&format!("GET h{path}"), &[]), CLIENT)),
            "0",
            "{path}"
        );
    }
}

#[test]
fn routes_are_compared_by_the_rules_for_paths() {
    let insensitive = PathRules { case: PathCase::Insensitive, ..PathRules::DEFAULT };
    let specs = [
        PathSpec::Prefix("/Admin/".to_owned()),
        PathSpec::Template("/U/{id}".to_owned()),
        PathSpec::Regex("^/R[0-9]$".to_owned()),
    ];
    let table = Table::build_for(specs.map(RouteSpec::new).into(), &insensitive).unwrap();
    for (path, expected) in [("/admin/x", "0"), ("/u/7", "1"), ("/r7", "2"), ("/r77", "404")] {
        let got = answer(table.find(&request(&format!("GET h{path}"), &[]), CLIENT));
        assert_eq!(got, expected, "{path}");
    }
    let matrix = vec![RouteSpec::new(PathSpec::Exact("/a;v=1".to_owned()))];
    assert!(Table::build(matrix.clone()).unwrap_err().message.contains("';'"));
    let keep = PathRules { parameters: ParameterAction::Keep, ..PathRules::DEFAULT };
    let table = Table::build_for(matrix, &keep).unwrap();
    assert_eq!(answer(table.find(&request("GET h/a;v=1", &[]), CLIENT)), "0");
}

#[test]
fn what_cannot_match_is_refused_with_its_index() {
    let bad = [
        RouteSpec::new(PathSpec::Exact("a".to_owned())),
        RouteSpec::new(PathSpec::Prefix(String::new())),
        RouteSpec::new(PathSpec::Exact("/%zz".to_owned())),
        RouteSpec::new(PathSpec::Exact("/%00".to_owned())),
        RouteSpec::new(PathSpec::Regex("(".to_owned())),
        RouteSpec::new(PathSpec::Template("/{a}/{a}".to_owned())),
        RouteSpec::new(PathSpec::Template("/{a}.html".to_owned())),
        RouteSpec::new(PathSpec::Template("/{}".to_owned())),
        RouteSpec::new(PathSpec::Template("/{x}".repeat(65))),
        with("/", |spec| spec.methods = vec!["GE T".to_owned()]),
        with("/", |spec| spec.methods = (0..70).map(|n| format!("M{n}")).collect()),
        with("/", |spec| spec.headers = vec![("a b".to_owned(), ValueSpec::Present)]),
        with("/", |spec| spec.queries = vec![("a".to_owned(), ValueSpec::Regex("[".to_owned()))]),
        with("/", |spec| spec.hosts = vec![HostSpec::Wildcard("example.com".to_owned())]),
    ];
    for spec in bad {
        let error = Table::build(vec![route("/"), spec.clone()]).unwrap_err();
        assert_eq!(error.index, 1, "{spec:?}");
        assert!(!error.message.is_empty(), "{spec:?}");
    }
}
