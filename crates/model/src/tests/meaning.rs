//! What documents mean: defaults, short forms, the environment, and the same in both notations.

use std::path::PathBuf;
use std::time::Duration;

use super::{toml, with_rest, yaml};
use crate::*;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const PATH_RULES: crate::PathRules = crate::PathRules {
    dot_segments: crate::PathAction::Normalize,
    repeated_slashes: crate::PathAction::Normalize,
    escaped_slashes: crate::PathAction::Refuse,
    backslashes: crate::PathAction::Refuse,
    control_characters: crate::PathAction::Refuse,
    parameters: crate::ParameterAction::Ignore,
    case_sensitive: true,
};

#[test]
fn defaults_are_filled_in() {
    let model = toml(&with_rest("[[route]]\nproxy = \"127.0.0.1:9001\"")).unwrap();
    let expected = Model {
        workers: None,
        shutdown_timeout: seconds(30),
        upgrade_timeout: seconds(60),
        trusted_proxies: vec![],
        resolver: Resolver {
            servers: vec![],
            timeout: seconds(5),
            min_ttl: seconds(1),
            max_ttl: seconds(3600),
        },
        admin: Admin {
            address: Some(Address::Tcp("127.0.0.1:9180".parse().unwrap())),
            origin: Origin::Default,
            hosts: vec![],
        },
        metrics: None,
        log: Log { access: AccessLog::Off, file: None },
        overload: Overload { concurrency: None, memory: MemoryLimit::Share(80) },
        listeners: vec![Listener {
            name: "0.0.0.0:80".to_owned(),
            address: Address::Tcp("0.0.0.0:80".parse().unwrap()),
            limits: Limits {
                head: 32_768,
                fields: 100,
                target: 8_192,
                requests_per_connection: None,
                connections: Some(65_536),
                connections_per_client: None,
            },
            timeout: ListenerTimeout {
                handshake: seconds(10),
                head: seconds(10),
                idle: seconds(60),
                body: seconds(30),
                write: seconds(30),
            },
            ambiguous_headers: AmbiguousHeaders::Drop,
            trace_method: TraceMethod::Refuse,
            path_rules: PATH_RULES,
            http2: Some(Http2 {
                streams: 128,
                window: 262_144,
                connection_window: 1_048_576,
                older: Older::Spoken,
            }),
            tls: None,
            proxy_protocol: None,
            lua: None,
        }],
        upstreams: vec![Upstream {
            name: "127.0.0.1:9001".to_owned(),
            servers: vec![Server {
                address: ServerAddress::Ip("127.0.0.1:9001".parse().unwrap()),
                weight: 1,
                role: Role::Primary,
                scheme: Scheme::Unsaid,
                max_connections: None,
            }],
            balance: Balance::RoundRobin,
            sticky: None,
            slow_start: None,
            limit: ServerLimit { connections: None, queue: 100, wait: seconds(1) },
            keepalive: Keepalive { idle: 256, timeout: seconds(60) },
            timeout: UpstreamTimeout {
                connect: seconds(2),
                read: seconds(30),
                write: seconds(30),
                tunnel: seconds(3600),
                tunnel_lifetime: None,
            },
            retry: Retry {
                attempts: 1,
                on: vec![RetryCondition::Connect],
                repeatable: Repeatable::Idempotent,
                per_try_timeout: None,
                budget: None,
                buffer: 0,
                hedge: None,
            },
            health: None,
            ejection: None,
            panic: Panic::Below(Share(0)),
            breaker: Breaker::default(),
            host: None,
            tls: None,
            proxy_protocol: None,
            protocol: crate::Protocol::Http1,
            http2: crate::UpstreamHttp2 {
                streams: 100,
                window: 262_144,
                connection_window: 33_554_432,
            },
        }],
        routes: vec![Route {
            name: "/*".to_owned(),
            listeners: vec![],
            hosts: vec![],
            path: PathPattern::Prefix("/".to_owned()),
            methods: vec![],
            headers: vec![],
            queries: vec![],
            cookies: vec![],
            clients: vec![],
            path_rules: None,
            body_limit: Some(104_857_600),
            proof: Proof::None,
            concurrency: None,
            action: Action::Proxy(Proxy { upstream: 0 }),
            calls: Calls::default(),
            mirror: None,
            filters: vec![],
            filters_written: Vec::new(),
        }],
        filters: vec![],
        warnings: vec![],
    };
    assert_eq!(model, expected);
}

const IN_TOML: &str = r##"
workers = 4
shutdown_timeout = "1m30s"
trusted_proxies = ["10.0.0.0/8", "::1"]

[resolver]
servers = ["1.1.1.1", "[::1]:5353"]
timeout = "1s"
min_ttl = "0s"
max_ttl = "5m"

[admin]
address = "off"

[log]
access = "{method} {path}"
file = "/var/log/a.log"

[overload]
memory = "512MiB"
concurrency = { adaptive = { min = 5, max = 50, tolerance = 40, window = "1s", probe = "1m" } }

[[listener]]
name = "web"
address = "[::]:${PORT}"
limits = { head = "16KiB", fields = "${COUNT}", requests_per_connection = 1000, connections = "unlimited" }
timeout = { head = "500ms" }

[[listener]]
address = "unix:/run/a.sock"

[upstream.api]
servers = ["Origin.Example:80", { address = "unix:/run/b.sock", weight = 3 }, "http://[::1]", "http://h"]
keepalive = { idle = 0, timeout = "5s" }
retry = { attempts = 0 }
health = { path = "/up?x=1", method = "HEAD", host = "h.test", statuses = ["204", "3xx"], port = 81, interval = "10ms", jitter = "0%", timeout = "50ms", healthy = 1, unhealthy = 5, initial = "unhealthy" }
panic = "50%"
breaker = { connections = 1, pending = "unlimited", requests = 1000, retries = 0 }
ejection = { failures = "off", share = "12.5%", requests = 3, window = "1s", statuses = [], time = "1s", max_time = "1s", limit = "100%" }
host = "api.internal:8080"

[[route]]
name = "first"
listener = "web"
host = ["Example.com", "*.example.com", "[::1]"]
path = "/api/*"
method = ["GET", "PURGE"]
header = { X-Tenant = "acme", accept = "~ json$" }
query = { v = "*" }
cookie = { sid = "*" }
client = "192.168.0.0/16"
body_limit = "off"
concurrency = { limit = 100, queue = 50, wait = "250ms", retry_after = "2s" }
proxy = "api"

[[route]]
path = "~ ^/v[0-9]+/"
respond = { status = 404, headers = { content-type = "text/html", set-cookie = ["a=1", "b=2"] }, body = "${EMPTY}# no: $${x}" }

[[route]]
path = "/users/{id}"
respond = { file = "/srv/a.css" }

[[route]]
path = "/users/{id}"
method = "GET"
redirect = { to = "https://{host}{path}", status = 301 }

[[route]]
host = ["a", "*"]
path = "/healthz"
health = "${FLAG}"
body_limit = 10
"##;

const IN_YAML: &str = r##"
workers: 4
shutdown_timeout: 1m30s
trusted_proxies: [10.0.0.0/8, "::1"]
resolver:
  servers:
    - 1.1.1.1
    - "[::1]:5353"
  timeout: 1s
  min_ttl: 0s
  max_ttl: 5m
admin: { address: off }
log:
  access: "{method} {path}"
  file: /var/log/a.log
overload:
  memory: 512MiB
  concurrency:
    adaptive: { min: 5, max: 50, tolerance: 40, window: 1s, probe: 1m }
listener:
  - name: web
    address: "[::]:${PORT}"
    limits:
      head: 16KiB
      fields: ${COUNT}
      requests_per_connection: 1000
      connections: unlimited
    timeout: { head: 500ms }
  - address: unix:/run/a.sock
upstream:
  api:
    servers:
      - Origin.Example:80
      - address: unix:/run/b.sock
        weight: 3
      - http://[::1]
      - http://h
    keepalive: &short
      idle: 0
      timeout: 5s
    retry: { attempts: 0 }
    health:
      path: /up?x=1
      method: HEAD
      host: h.test
      statuses: ["204", 3xx]
      port: 81
      interval: 10ms
      jitter: 0%
      timeout: 50ms
      healthy: 1
      unhealthy: 5
      initial: unhealthy
    panic: 50%
    breaker: { connections: 1, pending: unlimited, requests: 1000, retries: 0 }
    ejection:
      failures: off
      share: 12.5%
      requests: 3
      window: 1s
      statuses: []
      time: 1s
      max_time: 1s
      limit: 100%
    host: api.internal:8080
route:
  - name: first
    listener: [web]
    host:
      - Example.com
      - "*.example.com"
      - "[::1]"
    path: /api/*
    method: [GET, PURGE]
    header: { X-Tenant: acme, accept: ~ json$ }
    query: { v: "*" }
    cookie: { sid: '*' }
    client: 192.168.0.0/16
    body_limit: off
    concurrency: { limit: 100, queue: 50, wait: 250ms, retry_after: 2s }
    proxy: api
  - path: ~ ^/v[0-9]+/
    respond:
      status: 404
      headers:
        content-type: text/html
        set-cookie: [a=1, b=2]
      body: "${EMPTY}# no: $${x}"
  - path: /users/{id}
    respond: { file: /srv/a.css }
  - path: /users/{id}
    method: GET
    redirect:
      to: https://{host}{path}
      status: 301
  - host: [a, "*"]
    path: /healthz
    health: ${FLAG}
    body_limit: 10
"##;

#[test]
fn both_notations_mean_the_same() {
    let model = toml(IN_TOML).unwrap_or_else(|problems| panic!("{problems}"));
    let other = yaml(IN_YAML).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(model, other);
    assert_eq!(model.warnings, []);
}

#[test]
fn everything_written_arrives() {
    let model = toml(IN_TOML).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(model.workers, Some(4));
    assert_eq!(model.shutdown_timeout, seconds(90));
    let trusted: Vec<_> = model.trusted_proxies.iter().map(|it| it.to_string()).collect();
    assert_eq!(trusted, ["10.0.0.0/8", "::1/128"]);
    let servers: Vec<_> = model.resolver.servers.iter().map(|it| it.to_string()).collect();
    assert_eq!(servers, ["1.1.1.1:53", "[::1]:5353"]);
    assert_eq!(model.admin, Admin { address: None, origin: Origin::Written, hosts: vec![] });
    assert_eq!(model.log.access, AccessLog::Template("{method} {path}".to_owned()));
    assert_eq!(model.log.file, Some(PathBuf::from("/var/log/a.log")));
    assert_eq!(
        model.overload.concurrency,
        Some(Concurrency {
            limit: ConcurrencyLimit::Adaptive(Adaptive {
                min: 5,
                max: 50,
                tolerance: 40,
                window: seconds(1),
                probe: seconds(60),
            }),
            queue: 0,
            wait: seconds(1),
            retry_after: seconds(1),
        })
    );
    assert_eq!(model.overload.memory, MemoryLimit::Bytes(512 << 20));
    let [web, unix] = model.listeners.as_slice() else { panic!() };
    assert_eq!((web.name.as_str(), unix.name.as_str()), ("web", "unix:/run/a.sock"));
    assert_eq!(web.address.to_string(), "[::]:8080");
    assert_eq!((web.limits.head, web.limits.fields), (16_384, 7));
    assert_eq!(web.limits.requests_per_connection, Some(1000));
    assert_eq!(web.limits.connections, None);
    assert_eq!(web.timeout.head, Duration::from_millis(500));
    let [api] = model.upstreams.as_slice() else { panic!() };
    let addresses: Vec<_> = api.servers.iter().map(|it| it.address.to_string()).collect();
    assert_eq!(addresses, ["origin.example:80", "unix:/run/b.sock", "[::1]:80", "h:80"]);
    assert_eq!(api.servers[1].weight, 3);
    assert_eq!(api.keepalive, Keepalive { idle: 0, timeout: seconds(5) });
    assert_eq!(api.retry.attempts, 0);
    assert_eq!(api.host.as_deref(), Some("api.internal:8080"));
    let request = HealthRequest {
        path: "/up?x=1".to_owned(),
        method: "HEAD".to_owned(),
        host: Some("h.test".to_owned()),
        statuses: vec![204..=204, 300..=399],
        body: None,
        service: None,
    };
    let health = Health {
        request: Some(request),
        port: Some(81),
        interval: Duration::from_millis(10),
        jitter: Share(0),
        timeout: Duration::from_millis(50),
        healthy: 1,
        unhealthy: 5,
        initial: InitialHealth::Unhealthy,
    };
    assert_eq!(api.health.as_ref(), Some(&health));
    let ejection = Ejection {
        failures: None,
        share: Some(Share(125_000)),
        requests: 3,
        window: seconds(1),
        statuses: vec![],
        calls: vec![],
        time: seconds(1),
        max_time: seconds(1),
        limit: Share(1_000_000),
    };
    assert_eq!(api.ejection.as_ref(), Some(&ejection));
    assert_eq!(api.panic, Panic::Below(Share(500_000)));
    let breaker =
        Breaker { connections: Some(1), pending: None, requests: Some(1000), retries: Some(0) };
    assert_eq!(api.breaker, breaker);
}

#[test]
fn an_empty_table_turns_ejection_on() {
    let text = "upstream.a = { servers = \"h:1\", ejection = {} }\n[[route]]\nproxy = \"a\"";
    let model = toml(&with_rest(text)).unwrap_or_else(|problems| panic!("{problems}"));
    let expected = Ejection {
        failures: Some(5),
        share: None,
        requests: 20,
        window: seconds(10),
        statuses: vec![502..=504],
        calls: vec!["unavailable"],
        time: seconds(10),
        max_time: seconds(300),
        limit: Share(500_000),
    };
    assert_eq!(model.upstreams[0].ejection, Some(expected));
}

#[test]
fn calls_have_a_longest_time_and_failures_of_their_own() {
    let text = "upstream.a = { servers = \"h:1\", retry = { on = [\"grpc:unavailable\", \"503\"] }, \
                ejection = { statuses = [\"grpc:internal\"] } }\n[[route]]\nproxy = \"a\"\n\
                grpc = { max_timeout = \"30s\", web = true }";
    let model = toml(&with_rest(text)).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(
        model.routes[0].calls,
        Calls { max_timeout: Some(seconds(30)), web: WebCalls::Translated }
    );
    let expected = [RetryCondition::Call("unavailable"), RetryCondition::Statuses(503, 503)];
    assert_eq!(model.upstreams[0].retry.on, expected);
    let ejection = model.upstreams[0].ejection.as_ref().unwrap();
    assert_eq!((ejection.statuses.len(), ejection.calls.as_slice()), (0, &["internal"][..]));
}

#[test]
fn checks_have_defaults_and_a_short_form() {
    let model = |health: &str| {
        let text = format!(
            "upstream.a = {{ servers = \"h:1\", health = {health} }}\n[[route]]\nproxy = \"a\""
        );
        toml(&with_rest(&text)).unwrap_or_else(|problems| panic!("{problems}"))
    };
    let health = model("\"/up\"").upstreams[0].health.clone().unwrap();
    let expected = Health {
        request: Some(HealthRequest {
            path: "/up".to_owned(),
            method: "GET".to_owned(),
            host: None,
            statuses: vec![200..=299],
            body: None,
            service: None,
        }),
        port: None,
        interval: seconds(2),
        jitter: Share(100_000),
        timeout: seconds(1),
        healthy: 2,
        unhealthy: 3,
        initial: InitialHealth::Healthy,
    };
    assert_eq!(health, expected);
    assert_eq!(model("{ path = \"/up\" }").upstreams[0].health.as_ref(), Some(&health));
    let tcp = model("{ tcp = true }").upstreams[0].health.clone();
    assert_eq!(tcp, Some(Health { request: None, ..expected }));
}

#[test]
fn routes_arrive() {
    let routes = toml(IN_TOML).unwrap_or_else(|problems| panic!("{problems}")).routes;
    let names: Vec<_> = routes.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["first", "~^/v[0-9]+/", "/users/{id}", "/users/{id}#2", "/healthz"]);
    let text = str::to_owned;
    assert_eq!(
        routes[0],
        Route {
            name: text("first"),
            listeners: vec![text("web")],
            hosts: vec![
                HostPattern::Exact(text("example.com")),
                HostPattern::Wildcard(text(".example.com")),
                HostPattern::Exact(text("[::1]")),
            ],
            path: PathPattern::Prefix(text("/api/")),
            methods: vec![text("GET"), text("PURGE")],
            headers: vec![
                (text("x-tenant"), ValueMatch::Exact(text("acme"))),
                (text("accept"), ValueMatch::Regex(text("json$"))),
            ],
            queries: vec![(text("v"), ValueMatch::Present)],
            cookies: vec![(text("sid"), ValueMatch::Present)],
            clients: vec!["192.168.0.0/16".parse().unwrap()],
            path_rules: None,
            body_limit: None,
            proof: Proof::None,
            concurrency: Some(Concurrency {
                limit: ConcurrencyLimit::Fixed(100),
                queue: 50,
                wait: Duration::from_millis(250),
                retry_after: seconds(2),
            }),
            action: Action::Proxy(Proxy { upstream: 0 }),
            calls: Calls::default(),
            mirror: None,
            filters: vec![],
            filters_written: Vec::new(),
        }
    );
    assert_eq!(routes[1].path, PathPattern::Regex(text("^/v[0-9]+/")));
    let headers = vec![
        (text("content-type"), text("text/html")),
        (text("set-cookie"), text("a=1")),
        (text("set-cookie"), text("b=2")),
    ];
    let body = BodySource::Text(text("# no: ${x}"));
    assert_eq!(routes[1].action, Action::Respond(Respond { status: 404, headers, body }));
    assert_eq!(routes[2].path, PathPattern::Template(text("/users/{id}")));
    let headers = vec![(text("content-type"), text("text/css; charset=utf-8"))];
    let body = BodySource::File(PathBuf::from("/srv/a.css"));
    assert_eq!(routes[2].action, Action::Respond(Respond { status: 200, headers, body }));
    let to = text("https://{host}{path}");
    assert_eq!(routes[3].action, Action::Redirect(Redirect { to, status: 301 }));
    assert_eq!(routes[4].hosts, []);
    assert_eq!((&routes[4].action, routes[4].body_limit), (&Action::Health, Some(10)));
}

#[test]
fn short_forms() {
    let plain = ("content-type".to_owned(), "text/plain; charset=utf-8".to_owned());
    let respond = |status, headers: &[(String, String)], body: &str| {
        let body = BodySource::Text(body.to_owned());
        Action::Respond(Respond { status, headers: headers.to_vec(), body })
    };
    let redirect = |to: &str, status| Action::Redirect(Redirect { to: to.to_owned(), status });
    let rows = [
        ("respond = \"Hello\"", respond(200, std::slice::from_ref(&plain), "Hello")),
        ("respond = { body = \"Hi\" }", respond(200, std::slice::from_ref(&plain), "Hi")),
        ("respond = { status = 204 }", respond(204, &[], "")),
        ("redirect = \"/new\"", redirect("/new", 302)),
        ("redirect = { to = \"/new{query}\" }", redirect("/new{query}", 302)),
        ("health = true", Action::Health),
    ];
    for (text, expected) in rows {
        let model = toml(&with_rest(&format!("[[route]]\n{text}"))).unwrap();
        assert_eq!(model.routes[0].action, expected, "{text}");
    }
}

#[test]
fn one_address_makes_one_upstream() {
    let text = with_rest(
        "[upstream.\"127.0.0.1:3\"]\nservers = \"h:3\"\n\
         [[route]]\nname = \"a\"\npath = \"/a\"\nproxy = \"127.0.0.1:1\"\n\
         [[route]]\npath = \"/b\"\nproxy = \"http://127.0.0.1:1/\"\n\
         [[route]]\npath = \"/c\"\nproxy = \"unix:/run/c.sock\"\n\
         [[route]]\npath = \"/d\"\nproxy = \"127.0.0.1:3\"\n",
    );
    let model = toml(&text).unwrap_or_else(|problems| panic!("{problems}"));
    let names: Vec<_> = model.upstreams.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["127.0.0.1:3", "127.0.0.1:1", "unix:/run/c.sock"]);
    let used: Vec<_> = model
        .routes
        .iter()
        .map(|it| match &it.action {
            Action::Proxy(proxy) => proxy.upstream,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(used, [1, 1, 2, 0]);
    // What is written is taken at its word, even under a name that looks like an address.
    assert_eq!(model.upstreams[0].servers[0].address.to_string(), "h:3");
}

#[test]
fn default_names_avoid_written_ones() {
    let text = with_rest(
        "[[route]]\npath = \"/a\"\nmethod = \"GET\"\nhealth = true\n\
         [[route]]\npath = \"/a\"\nmethod = \"PUT\"\nhealth = true\n\
         [[route]]\nname = \"/a#2\"\npath = \"/b\"\nhealth = true\n",
    );
    let routes = toml(&text).unwrap().routes;
    let names: Vec<_> = routes.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["/a", "/a#3", "/a#2"]);
}

#[test]
fn memory_is_a_size_or_a_share() {
    let rows = [
        ("off", MemoryLimit::Off),
        ("1GiB", MemoryLimit::Bytes(1 << 30)),
        ("90%", MemoryLimit::Share(90)),
        ("100 %", MemoryLimit::Share(100)),
    ];
    for (text, expected) in rows {
        let model = toml(&with_rest(&format!("[overload]\nmemory = \"{text}\""))).unwrap();
        assert_eq!(model.overload.memory, expected, "{text}");
    }
}

#[test]
fn a_byte_order_mark_is_no_text() {
    let text = format!("\u{feff}{}", with_rest(""));
    assert!(toml(&text).is_ok());
    assert!(yaml("\u{feff}listener: [{address: \":80\"}]").is_ok());
}

#[test]
fn ports_may_be_free_twice() {
    let model = toml(
        "[[listener]]\nname = \"a\"\naddress = \":0\"\n[[listener]]\nname = \"b\"\naddress = \":0\"",
    );
    assert_eq!(model.unwrap().listeners.len(), 2);
}

#[test]
fn a_written_admin_address_is_known_as_such() {
    let model = toml(&with_rest("admin.address = \"127.0.0.1:9180\"")).unwrap();
    assert_eq!(model.admin.origin, Origin::Written);
}

#[test]
fn rules_of_choice_say_what_they_need() {
    let hash = |on: &str| format!("\"hash\"\nhash = {{ {on} }}");
    let header = HashOn::Header("x-user".to_owned());
    let rows = [
        ("\"round_robin\"".to_owned(), Balance::RoundRobin),
        ("\"least_requests\"".to_owned(), Balance::LeastRequests),
        ("\"two_choices\"".to_owned(), Balance::TwoChoices),
        ("\"random\"".to_owned(), Balance::Random),
        (hash("on = \"client\""), Balance::Hash(HashOn::Client)),
        (hash("on = \"path\""), Balance::Hash(HashOn::Path)),
        (hash("on = \"header\", name = \"X-User\""), Balance::Hash(header)),
        (hash("on = \"cookie\", name = \"Sid\""), Balance::Hash(HashOn::Cookie("Sid".to_owned()))),
        (
            hash("on = \"query\", name = \"user id\""),
            Balance::Hash(HashOn::Query("user id".to_owned())),
        ),
    ];
    for (text, expected) in rows {
        let upstream = format!("[upstream.a]\nservers = \"h:1\"\nbalance = {text}\n");
        let model = toml(&with_rest(&(upstream + "[[route]]\nproxy = \"a\""))).unwrap();
        assert_eq!(model.upstreams[0].balance, expected, "{text}");
    }
}

#[test]
fn a_server_may_be_a_backup() {
    let text = "[upstream.a]\nservers = [\"h:1\", { address = \"h:2\", backup = true },
                { address = \"h:3\", backup = false }]\n[[route]]\nproxy = \"a\"";
    let model = toml(&with_rest(text)).unwrap();
    let roles: Vec<Role> = model.upstreams[0].servers.iter().map(|server| server.role).collect();
    assert_eq!(roles, [Role::Primary, Role::Backup, Role::Primary]);
}

#[test]
fn retries_arrive() {
    let rows = [
        ("", vec![RetryCondition::Connect], None, Repeatable::Idempotent, 0, None),
        ("on = []", vec![], None, Repeatable::Idempotent, 0, None),
        (
            "on = ['reset', 'timeout', '503', '5xx'], per_try_timeout = '250ms', \
             non_idempotent = true, buffer = '64KiB', budget = {}",
            vec![
                RetryCondition::Reset,
                RetryCondition::Timeout,
                RetryCondition::Statuses(503, 503),
                RetryCondition::Statuses(500, 599),
            ],
            Some(Duration::from_millis(250)),
            Repeatable::All,
            64 << 10,
            Some(RetryBudget { share: Share(200_000), minimum: 10 }),
        ),
        (
            "on = 'connect', buffer = 'off', budget = { share = '0.5%', minimum = 0 }",
            vec![RetryCondition::Connect],
            None,
            Repeatable::Idempotent,
            0,
            Some(RetryBudget { share: Share(5_000), minimum: 0 }),
        ),
    ];
    for (text, on, per_try_timeout, repeatable, buffer, budget) in rows {
        let text = format!(
            "upstream.a = {{ servers = 'h:1', retry = {{ {text} }} }}\nroute = [{{ proxy = 'a' }}]"
        );
        let model = toml(&with_rest(&text)).unwrap_or_else(|problems| panic!("{problems}"));
        let hedge = None;
        let expected =
            Retry { attempts: 1, on, repeatable, per_try_timeout, budget, buffer, hedge };
        assert_eq!(model.upstreams[0].retry, expected, "{text}");
        assert!(model.warnings.is_empty(), "{text}");
    }
    let alone =
        "upstream.a = { servers = 'h:1', retry.per_try_timeout = '1s' }\nroute = [{ proxy = 'a' }]";
    let warnings = toml(&with_rest(alone)).unwrap().warnings;
    assert!(warnings[0].message.contains("does not name \"timeout\""), "{warnings:?}");
}

#[test]
fn sticky_cookies_have_their_attributes() {
    let path = "; Path=/; HttpOnly; SameSite=Lax";
    let rows = [
        ("{}", "sluice_server", path),
        ("{ cookie = \"to\" }", "to", path),
        (
            "{ path = \"/api\", domain = \"example.com\", max_age = \"1h\", secure = true }",
            "sluice_server",
            "; Path=/api; Domain=example.com; Max-Age=3600; Secure; HttpOnly; SameSite=Lax",
        ),
        (
            "{ http_only = false, same_site = \"strict\" }",
            "sluice_server",
            "; Path=/; SameSite=Strict",
        ),
        (
            "{ same_site = \"none\", secure = true }",
            "sluice_server",
            "; Path=/; Secure; HttpOnly; SameSite=None",
        ),
    ];
    for (text, cookie, attributes) in rows {
        let upstream = format!("[upstream.a]\nservers = \"h:1\"\nsticky = {text}\n");
        let model = toml(&with_rest(&(upstream + "[[route]]\nproxy = \"a\""))).unwrap();
        let (cookie, attributes) = (cookie.to_owned(), attributes.to_owned());
        assert_eq!(model.upstreams[0].sticky, Some(Sticky { cookie, key: None, attributes }));
    }
}

#[test]
fn the_key_of_sticky_cookies_comes_from_outside_and_shows_itself_nowhere() {
    let text = "[upstream.a]\nservers = \"h:1\"\nsticky.key = \"0123456789abcdef\"\n\
                slow_start = \"30s\"\n[[route]]\nproxy = \"a\"";
    let upstream = toml(&with_rest(text)).unwrap().upstreams.remove(0);
    assert_eq!(upstream.slow_start, Some(seconds(30)));
    assert!(!format!("{upstream:?}").contains("0123456789abcdef"));
    assert_eq!(upstream.sticky.unwrap().key.as_deref(), Some("0123456789abcdef"));
}

#[test]
fn hedges_arrive() {
    let text = |retry: &str| {
        with_rest(&format!(
            "upstream.a = {{ servers = 'h:1', {retry} }}\nroute = [{{ proxy = 'a' }}]"
        ))
    };
    let model = toml(&text("retry.hedge = { after = '50ms' }")).unwrap();
    let expected = Hedge { after: Duration::from_millis(50), most: 1 };
    assert_eq!(model.upstreams[0].retry.hedge, Some(expected));
    let model = toml(&text("retry.hedge = { after = '1s', most = 3 }")).unwrap();
    assert_eq!(model.upstreams[0].retry.hedge, Some(Hedge { after: seconds(1), most: 3 }));
    let warnings = toml(&text("retry = { attempts = 0, hedge.after = '1s' }")).unwrap().warnings;
    assert!(warnings[0].message.contains("`attempts` is 0"), "{warnings:?}");
}

#[test]
fn mirrors_arrive() {
    let rows = [
        ("", None),
        ("mirror = 'b'", Some((1, 1_000_000, 64 << 10, 100))),
        ("mirror = { to = 'b', share = '10%' }", Some((1, 100_000, 64 << 10, 100))),
        (
            "mirror = { to = '127.0.0.1:7', body_limit = 0, at_once = 5 }",
            Some((2, 1_000_000, 0, 5)),
        ),
    ];
    for (mirror, expected) in rows {
        let text = format!(
            "upstream.a.servers = 'h:1'\nupstream.b.servers = 'h:2'\n[[route]]\nproxy = 'a'\n{mirror}"
        );
        let model = toml(&with_rest(&text)).unwrap_or_else(|problems| panic!("{problems}"));
        let expected = expected.map(|(upstream, share, body_limit, at_once)| Mirror {
            upstream,
            share: Share(share),
            body_limit,
            at_once,
        });
        assert_eq!(model.routes[0].mirror, expected, "{mirror}");
    }
    let alone = with_rest("[[route]]\nrespond = 'x'\nmirror = 'h:1'");
    let problems = toml(&alone).unwrap_err();
    assert!(
        problems.list[0].message.contains("only requests that go to an upstream"),
        "{problems}"
    );
}
