//! Headers whose names servers take for other ones: no client speaks under a header of the gateway, whatever its server
//! reads.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sluice_acceptance::filters::{ask, ask_http2};
use sluice_acceptance::peers::{Peer, nginx, node, php, python};
use sluice_acceptance::{PREAMBLE, metric};
use sluice_testkit::{
    Asked, ByteScript, Exchange, Origin, PlaceOf, Scratch, Sluice, ask as ask_raw, behaviour,
    place_file,
};

/// A server of WSGI (PEP 3333), which has headers as variables.
const WSGI: &str = r#"
import sys
from wsgiref.simple_server import make_server, WSGIRequestHandler
class Quiet(WSGIRequestHandler):
    def log_message(self, *arguments): pass
def application(environ, start):
    start("200 OK", [("Content-Type", "text/plain")])
    names = sorted(name for name in environ if name.startswith(("HTTP_", "CONTENT_")))
    return [f"{name}={environ[name]}\n".encode("latin-1") for name in names]
host, port = sys.argv[1].split(":")
make_server(host, int(port), application, handler_class=Quiet).serve_forever()
"#;

const PHP: &str = r#"<?php
header("Content-Type: text/plain");
foreach ($_SERVER as $name => $value) {
    if (str_starts_with($name, "HTTP_") || str_starts_with($name, "CONTENT_")) echo "$name=$value\n";
}
"#;

/// Node.js changes nothing but the case of names.
const NODE: &str = r#"
const [host, port] = process.argv[2].split(":");
require("http").createServer((request, response) => {
    const lines = Object.entries(request.headers).map(([name, value]) => `${name}=${value}\n`);
    response.end(lines.join(""));
}).listen(Number(port), host);
"#;

/// Variables of nginx have names of headers in lower case, with an underscore for a hyphen.
fn nginx_origin() -> Peer {
    let names = [
        "x_user",
        "x_forwarded_for",
        "x_forwarded_host",
        "x_forwarded_proto",
        "forwarded",
        "via",
        "transfer_encoding",
        "content_length",
        "connection",
        "host",
    ];
    let lines: Vec<String> =
        names.iter().map(|name| format!("HTTP_{name}=$http_{name}\\n")).collect();
    let answer = lines.concat();
    nginx("", &format!("underscores_in_headers on; location / {{ return 200 \"{answer}\"; }}"))
}

fn origins() -> Vec<(&'static str, Peer)> {
    vec![("wsgi", python(WSGI)), ("php", php(PHP)), ("node", node(NODE)), ("nginx", nginx_origin())]
}

/// Names that a server may take for this one, the name itself included.
fn spellings(name: &str) -> Vec<String> {
    let mut all: Vec<String> =
        ["_", ".", "~", "!", "'", "*", "+", "|", "^", "`", "#", "$", "%", "&"]
            .iter()
            .map(|separator| name.replace('-', separator))
            .collect();
    let mixed = |at: usize| {
        let separators = name.matches('-').count();
        let mut seen = 0;
        let letter = |letter: char| match letter {
            '-' => {
                seen += 1;
                if seen == at.min(separators) { '_' } else { '-' }
            }
            other => other,
        };
        name.chars().map(letter).collect::<String>()
    };
    all.extend([name.to_owned(), mixed(1), mixed(2)]);
    all.extend([name.to_uppercase(), name.replace('-', "_").to_uppercase()]);
    all
}

/// What the filters of a route say of the client, under the name `x-user`; whether they say anything.
const FILTERS: &[(&str, &str, bool)] = &[
    ("set", "{ headers = { request = { set = { x-user = \"gateway\" } } } }", true),
    (
        "template",
        "{ headers = { request = { set = { x-user = \"gate{request.method}\" } } } }",
        true,
    ),
    (
        "absent",
        "{ headers = { request = { add_if_absent = { x-other = \"other\" }, remove = [\"x-user\"] } } }",
        false,
    ),
    ("prefix", "{ headers = { request = { remove = [\"x-us*\"] } } }", false),
    ("auth", "\"auth\"", true),
    (
        "key",
        "{ key_auth = { keys = { gateway = \"9f1c2a7e55d04b6f\" }, user_header = \"x-user\" } }",
        true,
    ),
    ("geo", "\"place\"", true),
    ("id", "{ request_id = { header = \"x-user\" } }", false),
    ("variant", "\"variant\"", true),
    (
        "script",
        "{ lua = { script = \"function request_head(request) request:set_header('x-user', 'gateway') end\" } }",
        true,
    ),
    ("plain", "", false),
];

/// Lets everybody pass, as one user.
fn service(exchange: &mut Exchange) -> std::io::Result<()> {
    exchange.answer(200, &["X-User: gateway"], "")
}

fn gateway(rule: &str, service: &Origin, origins: &[(&str, Peer)], scratch: &Scratch) -> Sluice {
    let network = PlaceOf { network: "127.0.0.0/8", country: "gateway", continent: "EU", asn: 1 };
    let places = scratch.write("places.mmdb", place_file(&[network]));
    let mut config = format!(
        "{PREAMBLE}ambiguous_headers = \"{rule}\"\nlimits = {{ fields = 400 }}\n\n[filter.place.geo]\nfiles = [{places:?}]\n\
         country_header = \"x-user\"\n\n\
         [filter.auth.external_auth]\nupstream = \"http://{}\"\nup = [\"x-user\"]\n\n",
        service.address()
    );
    for (origin, peer) in origins {
        config.push_str(&format!(
            "[filter.variant_{origin}.canary]\ntag_header = \"x-user\"\n\
             variants.gateway = {{ upstream = \"http://{0}\" }}\n\
             [[filter.variant_{origin}.canary.rules]]\nto = \"gateway\"\n",
            peer.address
        ));
        for (name, filter, _) in FILTERS {
            let filter = filter.replace("\"variant\"", &format!("\"variant_{origin}\""));
            config.push_str(&format!(
                "[[route]]\npath = \"/{name}/{origin}\"\nproxy = \"http://{}\"\nfilters = [{filter}]\n",
                peer.address
            ));
        }
    }
    Sluice::start(&config)
}

/// What a client tries to say under headers of the gateway.
fn forged() -> Vec<String> {
    let mut names = spellings("X-User");
    for name in ["X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"] {
        names.extend(spellings(name));
    }
    for name in ["Content-Length", "Transfer-Encoding", "Proxy-Connection", "Keep-Alive"] {
        names.extend(spellings(name).into_iter().filter(|spelling| spelling.contains(['_', '.'])));
    }
    names.push("Forwarded".to_owned());
    names
}

#[test]
fn nobody_speaks_under_a_header_of_the_gateway() {
    let (service, origins, scratch) = (Origin::start(service), origins(), Scratch::new());
    // Else the test would show nothing: these servers do take one for the other.
    for (origin, spelling) in [(0, "X_User"), (1, "X_User"), (1, "X.User"), (3, "X_User")] {
        let (name, peer) = origins.get(origin).unwrap();
        let request =
            format!("GET / HTTP/1.1\r\nHost: a\r\n{spelling}: forged\r\nConnection: close\r\n\r\n");
        let answer = ask_raw(&peer.address, &request);
        let content = String::from_utf8_lossy(&answer.body).to_lowercase();
        assert!(content.contains("http_x_user=forged"), "{name} {spelling}: {content}");
    }
    for rule in ["drop", "keep"] {
        let gateway = gateway(rule, &service, &origins, &scratch);
        for (origin, _) in &origins {
            for (filter, _, said) in FILTERS {
                // Without a filter, nobody else speaks under this name.
                let own = |name: &str| name.len() == 6 && name.to_lowercase().ends_with("user");
                let protected = |name: &&String| *filter != "plain" || !own(name);
                let names = forged();
                let lines: Vec<String> =
                    names.iter().filter(protected).map(|name| format!("{name}: forged")).collect();
                let path = format!("/{filter}/{origin}");
                let request = format!(
                    "GET {path} HTTP/1.1\r\nHost: a\r\nX-Api-Key: 9f1c2a7e55d04b6f\r\n{}\r\nConnection: close\r\n\r\n",
                    lines.join("\r\n")
                );
                let answer = ask_raw(gateway.address("web").as_str(), &request);
                let content = String::from_utf8_lossy(&answer.body).into_owned();
                assert_eq!(answer.status, 200, "{rule} {path}: {content}");
                assert!(!content.contains("forged"), "{rule} {path}: {content}");
                let named = content.contains("=gateway") || content.contains("=gateGET");
                assert_eq!(named, *said, "{rule} {path}: {content}");
            }
        }
        // HTTP/2 has the same names, in lower case.
        for (filter, _, said) in FILTERS.iter().filter(|(filter, ..)| *filter != "plain") {
            let mut options = vec!["-H".to_owned(), "X-Api-Key: 9f1c2a7e55d04b6f".to_owned()];
            for name in forged() {
                options.extend(["-H".to_owned(), format!("{}: forged", name.to_lowercase())]);
            }
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            let reply = ask_http2(&gateway, &format!("/{filter}/wsgi"), &options);
            assert_eq!(reply.status, 200, "{rule} {filter}: {}", reply.content);
            assert!(!reply.content.contains("forged"), "{rule} {filter}: {}", reply.content);
            let named = reply.content.contains("=gateway") || reply.content.contains("=gateGET");
            assert_eq!(named, *said, "{rule} {filter}: {}", reply.content);
        }
        gateway.stop();
    }
    // The service was not told either.
    for asked in service.requests() {
        let told = format!("{asked:?}");
        assert!(!told.contains("orwarded_") && !told.contains("ORWARDED_"), "{told}");
    }
}

#[test]
fn ambiguous_names_are_dropped_refused_or_kept() {
    let origin = Origin::start(behaviour::echo);
    let start = |rule: &str| {
        let route = format!("[[route]]\nproxy = \"http://{}\"\n", origin.address());
        Sluice::start(&format!("{PREAMBLE}{rule}\n{route}"))
    };
    let lines =
        ["-H", "Device_Id: 7", "-H", "a.b: c", "-H", "X-Plain: d", "-H", "X_Forwarded_For: e"];
    let dropped = |gateway: &Sluice, reason: &str| {
        let labels = format!("{{listener=\"web\",reason=\"{reason}\"}}");
        metric(&gateway.admin(), &format!("sluice_listener_dropped_headers_total{labels}"))
    };
    for (rule, kept) in [
        ("", false),
        ("ambiguous_headers = \"drop\"", false),
        ("ambiguous_headers = \"keep\"", true),
    ] {
        let gateway = start(rule);
        for ask in [ask, ask_http2] {
            let reply = ask(&gateway, "/", &lines);
            let content = reply.content.to_lowercase();
            assert_eq!(reply.status, 200, "{rule}");
            assert!(
                content.contains("x-plain: d") && !content.contains("x_forwarded_for"),
                "{content}"
            );
            assert_eq!(content.contains("device_id: 7"), kept, "{rule}: {content}");
            assert_eq!(content.contains("a.b: c"), kept, "{rule}: {content}");
        }
        let told = gateway.wait_for_line("ambiguous_headers");
        let name = if kept { "_forwarded_for" } else { "evice_" };
        assert!(told.to_lowercase().contains(name) && told.contains("client 127.0.0.1"), "{told}");
        let (ambiguous, lookalikes) = if kept { (0, 2) } else { (6, 0) };
        assert_eq!(
            (dropped(&gateway, "ambiguous"), dropped(&gateway, "lookalike")),
            (ambiguous, lookalikes)
        );
        gateway.stop();
    }
    let gateway = start("ambiguous_headers = \"refuse\"");
    for ask in [ask, ask_http2] {
        assert_eq!(ask(&gateway, "/", &lines).status, 400);
        assert_eq!(ask(&gateway, "/", &["-H", "X-Plain: d"]).status, 200);
    }
    gateway.wait_for_line("malformed");
    gateway.stop();
}

#[test]
fn trailers_have_no_ambiguous_names_either() {
    let origin = Origin::start(behaviour::echo);
    let request = |trailer: &str| {
        format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTE: trailers\r\n\r\n1\r\nx\r\n0\r\n\
             {trailer}: 1\r\nx-plain: 2\r\n\r\n"
        )
    };
    for (rule, trailer, status, kept) in [
        ("drop", "x_user", 200, false),
        ("keep", "x_user", 200, true),
        ("refuse", "x_user", 400, false),
        ("refuse", "x-user", 200, true),
        ("keep", "content_length", 400, false),
    ] {
        let route = format!("[[route]]\nproxy = \"http://{}\"\n", origin.address());
        let gateway = Sluice::start(&format!("{PREAMBLE}ambiguous_headers = \"{rule}\"\n{route}"));
        let mut client = ByteScript::connect(gateway.address("web").as_str());
        client.send(request(trailer));
        let answer = client.read_response(Asked::Get).unwrap();
        assert_eq!(answer.status, status, "{rule} {trailer}");
        if status == 200 {
            let content = String::from_utf8_lossy(&answer.body);
            assert!(content.contains("x-plain: 2"), "{content}");
            assert_eq!(content.contains(&format!("{trailer}: 1")), kept, "{rule}: {content}");
        }
        let labels = "{listener=\"web\",reason=\"trailer\"}";
        let dropped =
            metric(&gateway.admin(), &format!("sluice_listener_dropped_headers_total{labels}"));
        assert_eq!(dropped, u64::from(rule == "drop"), "{rule}");
        gateway.stop();
    }
}
