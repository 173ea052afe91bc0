//! Files over HTTP/1.1 and HTTP/2: what is found, what is said of it, and what never comes out.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use sluice_acceptance::filters::{Reply, ask, ask_both, page_example};
use sluice_acceptance::{config, eventually};
use sluice_testkit::{Scratch, Sluice, run};

/// A folder with a root in it and something beside, gone at the end.
struct Site(PathBuf);

impl Site {
    fn new(name: &str) -> Self {
        let base = std::env::temp_dir().join(format!("sluice-files-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&base);
        std::fs::create_dir_all(base.join("root")).unwrap();
        Self(base)
    }

    fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// A gateway that answers everything from the root; `options` are those of the action.
    fn serve(&self, options: &str) -> Sluice {
        let root = self.root();
        Sluice::start(&config(&format!(
            "[[route]]\npath = \"/*\"\n[route.files]\nroot = '{}'\n{options}\n",
            root.display()
        )))
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const SAID: [&str; 8] = [
    "content-type",
    "etag",
    "last-modified",
    "content-length",
    "content-range",
    "cache-control",
    "vary",
    "content-encoding",
];

fn both(gateway: &Sluice, path: &str, options: &[&str]) -> Reply {
    ask_both(gateway, path, options, &SAID)
}

/// Content of so many bytes that shows what is missing or twice.
fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| b'a' + u8::try_from(at % 26).unwrap()).collect()
}

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let site = Site::new("page");
    site.put("index.html", "<p>application</p>");
    site.put("about.html", "about");
    site.put("assets/app.js", "plain");
    site.put("assets/app.js.br", "brotli");
    site.put("assets/app.js.gz", "gzip");
    let other = Site::new("downloads");
    other.put("a b.zip", "zip");
    other.put("deep/x.txt", "x");
    let roots = [site.root().display().to_string(), other.root().display().to_string()];
    let words = [("/srv/www", roots[0].as_str()), ("/srv/downloads", roots[1].as_str())];
    let gateway = Sluice::start(&page_example("../files.md", &words, ""));
    for (path, expected) in [
        ("/", "<p>application</p>"),
        ("/index.html", "<p>application</p>"),
        ("/about", "about"),
        ("/any/where?x=y", "<p>application</p>"),
    ] {
        let reply = both(&gateway, path, &[]);
        assert_eq!((reply.status, reply.content.as_str()), (200, expected), "{path}");
        assert_eq!(reply.value("content-type"), "text/html; charset=utf-8", "{path}");
        assert_eq!(reply.value("cache-control"), "no-cache", "{path}");
    }
    for (accept, expected, coding) in [
        ("identity", "plain", ""),
        ("gzip, br", "brotli", "br"),
        ("gzip, br;q=0.5", "gzip", "gzip"),
        ("zstd", "plain", ""),
    ] {
        let accept = format!("accept-encoding: {accept}");
        let reply = both(&gateway, "/assets/app.js", &["-H", &accept]);
        assert_eq!((reply.content.as_str(), reply.value("content-encoding")), (expected, coding));
        assert_eq!(reply.value("vary"), "accept-encoding");
        assert_eq!(reply.value("cache-control"), "public, max-age=31536000, immutable");
        assert_eq!(reply.value("content-type"), "text/javascript; charset=utf-8");
        let etag = format!("if-none-match: {}", reply.value("etag"));
        let again = both(&gateway, "/assets/app.js", &["-H", &accept, "-H", &etag]);
        assert_eq!((again.status, again.value("vary")), (304, "accept-encoding"));
        let plain = both(&gateway, "/assets/app.js", &["-H", &etag]);
        assert_eq!(plain.status == 304, coding.is_empty(), "tags of encodings differ");
    }
    let list = both(&gateway, "/downloads/", &[]);
    assert!(list.content.contains("href=\"./a%20b.zip\"") && list.content.contains("viewport"));
    let zip = both(&gateway, "/downloads/a%20b.zip", &[]);
    let named = "attachment; filename=\"a b.zip\"";
    assert_eq!((zip.content.as_str(), zip.value("content-disposition")), ("zip", named));
    let list = both(&gateway, "/downloads/deep/?format=json", &[]);
    assert!(list.content.starts_with("[{\"name\":\"x.txt\""), "{}", list.content);
    gateway.stop();
}

#[test]
fn encoded_forms_that_are_older_are_not_used() {
    let site = Site::new("older");
    for name in ["new.js", "new.js.br", "old.js", "old.js.br", "old.js.gz"] {
        site.put(name, name);
    }
    let set = |name: &str, second: u64| {
        let file = std::fs::File::options().write(true).open(site.root().join(name)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(second)).unwrap();
    };
    for (name, second) in [("new.js", 1000), ("new.js.br", 1000), ("old.js", 1000)] {
        set(name, second);
    }
    set("old.js.br", 999);
    set("old.js.gz", 1001);
    let gateway = site.serve("precompressed = [\"br\", \"gzip\"]");
    for (path, accept, expected) in [
        ("/new.js", "br", "new.js.br"),
        ("/old.js", "br", "old.js"),
        ("/old.js", "br, gzip", "old.js.gz"),
    ] {
        let accept = format!("accept-encoding: {accept}");
        let reply = both(&gateway, path, &["-H", &accept]);
        assert_eq!((reply.content.as_str(), reply.value("vary")), (expected, "accept-encoding"));
    }
    gateway.stop();
}

#[test]
fn heads_say_what_gets_would() {
    let site = Site::new("heads");
    site.put("a.txt", content(100));
    site.put("large", content(300_000));
    site.put("empty", "");
    let gateway = site.serve("");
    for (path, length) in [("/a.txt", "100"), ("/large", "300000"), ("/empty", "0")] {
        let got = both(&gateway, path, &[]);
        assert_eq!((got.status, got.content.len().to_string().as_str()), (200, length), "{path}");
        let head = both(&gateway, path, &["-I"]);
        assert_eq!((head.status, head.content.as_str()), (200, ""), "{path}");
        for name in SAID {
            assert_eq!(head.value(name), got.value(name), "{path} {name}");
        }
        assert_eq!(got.value("accept-ranges"), "bytes");
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
            let reply = ask_both(&gateway, path, &["-X", method], &["allow"]);
            assert_eq!((reply.status, reply.value("allow")), (405, "GET, HEAD"), "{method}");
        }
    }
    gateway.stop();
}

#[test]
fn conditions_and_ranges_are_those_of_the_standard() {
    let site = Site::new("conditions");
    let (small, large) = (content(1000), content(200_000));
    site.put("small.txt", &small);
    site.put("large.txt", &large);
    for name in ["small.txt", "large.txt"] {
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        std::fs::File::options()
            .write(true)
            .open(site.root().join(name))
            .unwrap()
            .set_modified(old)
            .unwrap();
    }
    let gateway = site.serve("");
    for (path, all) in [("/small.txt", &small), ("/large.txt", &large)] {
        let first = both(&gateway, path, &[]);
        let (etag, date) = (first.value("etag"), first.value("last-modified"));
        assert_eq!(date, "Tue, 14 Nov 2023 22:13:20 GMT");
        let other = "\"other\"";
        let before = "Tue, 14 Nov 2023 22:13:19 GMT";
        let rows = [
            (format!("if-none-match: {etag}"), 304),
            (format!("if-none-match: W/{etag}"), 304),
            (format!("if-none-match: {other}, {etag}"), 304),
            ("if-none-match: *".into(), 304),
            (format!("if-none-match: {other}"), 200),
            (format!("if-modified-since: {date}"), 304),
            (format!("if-modified-since: {before}"), 200),
            ("if-modified-since: whenever".into(), 200),
            (format!("if-match: {etag}"), 200),
            (format!("if-match: {other}"), 412),
            (format!("if-match: W/{etag}"), 412),
            (format!("if-unmodified-since: {date}"), 200),
            (format!("if-unmodified-since: {before}"), 412),
        ];
        for (line, status) in rows {
            let reply = both(&gateway, path, &["-H", &line]);
            assert_eq!(reply.status, status, "{path} {line}");
            if status == 304 {
                assert_eq!((reply.value("etag"), reply.content.as_str()), (etag, ""), "{line}");
                assert_eq!(reply.value("content-type"), "", "{line}");
            }
        }
        let size = all.len();
        let rows: [Part<'_>; 9] = [
            ("0-9", &[], 206, &all[..10], format!("bytes 0-9/{size}")),
            ("10-19", &[], 206, &all[10..20], format!("bytes 10-19/{size}")),
            ("990-", &[], 206, &all[990..], format!("bytes 990-{}/{size}", size - 1)),
            ("-5", &[], 206, &all[size - 5..], format!("bytes {}-{}/{size}", size - 5, size - 1)),
            (
                "999999-",
                &[],
                416,
                b"416 Range Not Satisfiable: there are no such bytes\n",
                format!("bytes */{size}"),
            ),
            ("9-1", &[], 200, all, String::new()),
            ("0-9", &["-I"], 200, b"", String::new()),
            ("0-9", &["-H", "if-range: \"other\""], 200, all, String::new()),
            (
                "0-9",
                &["-H", "if-range: Tue, 14 Nov 2023 22:13:20 GMT"],
                206,
                &all[..10],
                format!("bytes 0-9/{size}"),
            ),
        ];
        for (range, options, status, expected, said) in rows {
            let line = format!("range: bytes={range}");
            let reply = both(&gateway, path, &[&["-H", &line], options].concat());
            assert_eq!((reply.status, reply.value("content-range")), (status, &*said), "{line}");
            assert!(reply.content.as_bytes() == expected, "{path} {line} {options:?}");
        }
        parts(&gateway, path, all);
    }
    gateway.stop();
}

/// A range, options of curl, and what they come to: status, content, `Content-Range`.
type Part<'p> = (&'p str, &'p [&'p str], u16, &'p [u8], String);

/// Several parts in one answer.
fn parts(gateway: &Sluice, path: &str, all: &[u8]) {
    let reply = ask(gateway, path, &["-H", "range: bytes=0-4, 100-199 ,-3"]);
    assert_eq!((reply.status, reply.value("content-range")), (206, ""));
    let kind = reply.value("content-type").to_owned();
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let size = all.len();
    let text = |range: std::ops::Range<usize>| String::from_utf8_lossy(&all[range]).into_owned();
    let mut expected = String::new();
    for range in [0..5, 100..200, size - 3..size] {
        expected += &format!(
            "\r\n--{boundary}\r\ncontent-type: text/plain; charset=utf-8\r\n\
             content-range: bytes {}-{}/{size}\r\n\r\n{}",
            range.start,
            range.end - 1,
            text(range.clone())
        );
    }
    expected += &format!("\r\n--{boundary}--\r\n");
    assert_eq!(reply.content, expected);
    assert_eq!(reply.value("content-length"), expected.len().to_string());
    let many = format!("range: bytes={}", vec!["0-0"; 65].join(","));
    assert_eq!(both(gateway, path, &["-H", &many]).status, 200);
    assert_eq!(both(gateway, path, &["-H", "range: bytes=0-,0-,0-"]).status, 200);
}

#[test]
fn hostile_paths_come_to_nothing() {
    let site = Site::new("hostile");
    site.put("in/file.txt", "inside");
    site.put(".env", "hidden");
    site.put(".git/config", "hidden");
    site.put(".well-known/security.txt", "known");
    site.put("back\\slash", "a name");
    std::fs::write(site.0.join("secret"), "outside").unwrap();
    for (target, link) in [
        ("../secret", "out"),
        ("/etc/passwd", "absolute"),
        ("..", "up"),
        ("in/file.txt", "good"),
        ("in", "folder"),
    ] {
        symlink(target, site.root().join(link)).unwrap();
    }
    let gateway = site.serve("listing = true");
    let found = [
        ("/in/file.txt", "inside"),
        ("/good", "inside"),
        ("/folder/file.txt", "inside"),
        ("/in/../in/./file.txt", "inside"),
        ("/%69n/file%2etxt", "inside"),
        ("/.well-known/security.txt", "known"),
    ];
    for (path, expected) in found {
        let reply = both(&gateway, path, &[]);
        assert_eq!((reply.status, reply.content.as_str()), (200, expected), "{path}");
    }
    let missing = [
        "/../secret",
        "/in/../../secret",
        "/%2e%2e/secret",
        "/..%252fsecret",
        "/%252e%252e/secret",
        "/%252e%252e%252fsecret",
        "/out",
        "/absolute",
        "/up",
        "/up/secret",
        "/folder/../../secret",
        "//secret",
        "/.env",
        "/%2eenv",
        "/.git/config",
        "/.git/",
        "/in/file.txt/",
        "/in/file.txt/x",
        "/etc/passwd",
        "/%c0%ae%c0%ae/secret",
    ];
    for path in missing {
        let reply = both(&gateway, path, &[]);
        assert!(matches!(reply.status, 404), "{path}: {} {}", reply.status, reply.content);
        assert!(!reply.content.contains("outside"), "{path}");
    }
    let refused = [
        "/%2e%2e%2fsecret",
        "/..%2fsecret",
        "/..%5csecret",
        "/..\\secret",
        "/in/..%2f..%2fsecret",
        "/in%2ffile.txt",
        "/back%5Cslash",
        "/in/file.txt%00",
        "/in/%zz",
    ];
    for path in refused {
        assert_eq!(ask(&gateway, path, &[]).status, 400, "{path}");
    }
    let long = format!("/{}", "a".repeat(5000));
    assert_eq!(both(&gateway, &long, &[]).status, 404);
    let list = both(&gateway, "/", &[]).content;
    for name in ["out", "absolute", "up", ".env", ".git"] {
        assert!(!list.contains(&format!(">{name}<")) && !list.contains(&format!(">{name}/<")));
    }
    assert!(list.contains(">folder/<") && list.contains(">good<"), "{list}");
    gateway.stop();
}

#[test]
fn folders_without_a_slash_stay_where_they_are() {
    let site = Site::new("slash");
    site.put("evil.example/index.html", "folder");
    site.put("a/b c/index.html", "deep");
    site.put("bare/file", "x");
    let gateway = site.serve("");
    let rows = [
        ("/evil.example", 301, "./evil.example/"),
        ("//evil.example", 301, "./evil.example/"),
        ("/a/b%20c?d=e", 301, "./b%20c/?d=e"),
        ("/evil.example/", 200, ""),
        ("/bare", 404, ""),
        ("/bare/", 404, ""),
    ];
    for (path, status, place) in rows {
        let reply = ask_both(&gateway, path, &[], &["location"]);
        assert_eq!((reply.status, reply.value("location")), (status, place), "{path}");
    }
    gateway.stop();
}

#[test]
fn lists_are_sorted_as_asked() {
    let site = Site::new("lists");
    site.put("big", content(3000));
    site.put("little", "x");
    site.put("<script>&\"'.txt", "x");
    site.put("sub/x", "x");
    let gateway = site.serve("listing = true");
    let names = |query: &str| -> Vec<String> {
        let reply = both(&gateway, &format!("/?format=json&{query}"), &[]);
        assert_eq!(reply.value("content-type"), "application/json");
        let parts = reply.content.split("\"name\":\"").skip(1);
        parts.map(|part| part.split("\",\"").next().unwrap().to_owned()).collect()
    };
    let strange = "<script>&\\\"'.txt";
    assert_eq!(names(""), ["sub", strange, "big", "little"]);
    assert_eq!(names("order=desc"), ["sub", "little", "big", strange]);
    assert_eq!(names("sort=size&order=desc"), ["sub", "big", "little", strange]);
    let html = both(&gateway, "/", &["-H", "accept: text/html"]);
    assert_eq!(html.value("content-type"), "text/html; charset=utf-8");
    assert!(!html.content.contains("<script>") && html.content.contains("&lt;script&gt;"));
    let json = both(&gateway, "/", &["-H", "accept: application/json"]);
    assert!(json.content.starts_with("[{\"name\":\"sub\",\"type\":\"directory\""));
    gateway.stop();
}

#[test]
fn changes_are_seen() {
    let site = Site::new("changes");
    site.put("a.txt", "one");
    site.put("large", content(200_000));
    let link = site.0.join("current");
    symlink(site.root(), &link).unwrap();
    let gateway = Sluice::start(&config(&format!(
        "[[route]]\npath = \"/*\"\n[route.files]\nroot = '{}'\ncache.check = \"10ms\"\n",
        link.display()
    )));
    let says = |path: &str, expected: &str| {
        assert!(eventually(|| ask(&gateway, path, &[]).content == expected), "{path} {expected}");
    };
    says("/a.txt", "one");
    let first = ask(&gateway, "/a.txt", &[]).value("etag").to_owned();
    site.put("new", "two");
    std::fs::rename(site.root().join("new"), site.root().join("a.txt")).unwrap();
    says("/a.txt", "two");
    assert_ne!(ask(&gateway, "/a.txt", &[]).value("etag"), first);
    assert_eq!(ask(&gateway, "/b.txt", &[]).status, 404);
    site.put("b.txt", "three");
    says("/b.txt", "three");
    std::fs::remove_file(site.root().join("b.txt")).unwrap();
    assert!(eventually(|| ask(&gateway, "/b.txt", &[]).status == 404));
    // The root is swapped as whoever deploys does it.
    let next = Site::new("changes-next");
    next.put("a.txt", "four");
    let swap = site.0.join("swap");
    symlink(next.root(), &swap).unwrap();
    std::fs::rename(&swap, &link).unwrap();
    says("/a.txt", "four");
    gateway.stop();
}

#[test]
fn many_requests_on_one_connection_get_their_files() {
    let site = Site::new("kept");
    site.put("small", content(8192));
    site.put("large", content(500_000));
    let gateway = site.serve("");
    let mut client = TcpStream::connect(gateway.address("web")).unwrap();
    for path in ["/small", "/large", "/none", "/large", "/small"] {
        write!(client, "GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    }
    write!(client, "GET /small HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    let mut all = Vec::new();
    client.read_to_end(&mut all).unwrap();
    let statuses: Vec<&[u8]> =
        all.windows(12).filter(|it| it.starts_with(b"HTTP/1.1 ")).map(|it| &it[9..]).collect();
    assert_eq!(statuses, [b"200", b"200", b"404", b"200", b"200", b"200"]);
    let sizes = 3 * 8192 + 2 * 500_000;
    assert!((sizes..sizes + 6 * 400).contains(&all.len()), "{}", all.len());
    gateway.stop();
}

#[test]
fn a_root_that_is_not_there_is_refused_with_a_way_out() {
    let text = config("[[route]]\npath = \"/*\"\nfiles = \"/nowhere/at/all\"\n");
    let scratch = Scratch::new();
    let name = scratch.write("a.toml", &text).display().to_string();
    for command in ["check", "run"] {
        let done = run(&[command, "-c", &name], "");
        assert_eq!(done.code, Some(1), "{command}: {}", done.stderr);
        for word in ["/nowhere/at/all", "route \"/*\"", "create the folder"] {
            assert!(done.stderr.contains(word), "{word}: {}", done.stderr);
        }
    }
}
