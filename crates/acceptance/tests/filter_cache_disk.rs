//! What the cache keeps on a disk outlives the process, whatever became of that, and never harms the service.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sluice_acceptance::filters::{self, Reply};
use sluice_acceptance::{config, eventually, metric};
use sluice_testkit::{After, Exchange, Gate, Origin, Scratch, Sluice, binary, run};

/// What a client gets; listeners have another port after each start.
fn ask(gateway: &Sluice, path: &str, options: &[&str]) -> Reply {
    filters::ask(gateway, path, &[&["-H", "Host: a"], options].concat())
}

fn ask_http2(gateway: &Sluice, path: &str, options: &[&str]) -> Reply {
    filters::ask_http2(gateway, path, &[&["-H", "Host: a"], options].concat())
}

fn ask_both(gateway: &Sluice, path: &str, options: &[&str], fields: &[&str]) -> Reply {
    filters::ask_both(gateway, path, &[&["-H", "Host: a"], options].concat(), fields)
}

/// The content names the path; all are fresh for long.
fn answer(exchange: &mut Exchange) -> std::io::Result<()> {
    exchange.sink_body()?;
    let head = exchange.head();
    let target = head.target.clone();
    let tag = format!("Surrogate-Key: all {}", target.trim_start_matches('/'));
    if head.fields.first("if-none-match") == Some("\"one\"") {
        return exchange.answer(304, &["Cache-Control: max-age=600", "ETag: \"one\""], "");
    }
    let lines = ["Cache-Control: max-age=600", "ETag: \"one\"", "X-Line: 1", &tag];
    exchange.answer(200, &lines, format!("content of {target}"))
}

fn text(origin: &Origin, folder: &Path, rest: &str) -> String {
    let (address, folder) = (origin.address(), folder.display());
    format!(
        "workers = 2\n{}",
        config(&format!(
            "[filter.pages.cache]\nmemory = \"16MiB\"\npurge_from = \"127.0.0.1\"\n{rest}\n\
             disk = {{ path = \"{folder}\", size = \"16MiB\" }}\n\
             [[route]]\npath = \"/*\"\nproxy = \"{address}\"\nfilters = [\"pages\"]\n"
        ))
    )
}

fn disk(gateway: &Sluice, folder: &Path, name: &str) -> u64 {
    let folder = folder.display();
    metric(&gateway.admin(), &format!("sluice_cache_disk_{name}{{folder=\"{folder}\"}}"))
}

fn faults(gateway: &Sluice, folder: &Path, reason: &str) -> u64 {
    let folder = folder.display();
    let labels = format!("folder=\"{folder}\",reason=\"{reason}\"");
    metric(&gateway.admin(), &format!("sluice_cache_disk_faults_total{{{labels}}}"))
}

fn has(gateway: &Sluice, folder: &Path, entries: u64) {
    let seen = || disk(gateway, folder, "entries");
    assert!(eventually(|| seen() == entries), "{} instead of {entries}", seen());
}

fn is_hit(reply: &Reply) -> bool {
    reply.value("cache-status").contains("; hit;")
}

/// The files of answers.
fn files(folder: &Path) -> Vec<PathBuf> {
    let inner = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let all = inner
        .filter(|path| path.is_dir())
        .flat_map(|path| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
    all.collect()
}

#[test]
fn variants_on_the_disk_are_told_from_nothing_at_all() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        let kind = exchange.head().fields.first("x-kind").unwrap_or("none").to_owned();
        exchange.answer(200, &["Cache-Control: max-age=600", "Vary: X-Kind"], kind)
    });
    let scratch = Scratch::new();
    let folder = scratch.path().join("disk");
    let text = text(&origin, &folder, "");
    let gateway = Sluice::start(&text);
    assert_eq!(ask(&gateway, "/page", &["-H", "X-Kind: a"]).content, "a");
    has(&gateway, &folder, 1);
    gateway.stop();
    let gateway = Sluice::start(&text);
    has(&gateway, &folder, 1);
    let table = [
        ("/page", "b", "sluice; fwd=vary-miss; stored"),
        ("/page", "a", "sluice; hit; ttl="),
        ("/other", "a", "sluice; fwd=uri-miss; stored"),
    ];
    for (path, kind, expected) in table {
        let reply = ask(&gateway, path, &["-H", &format!("X-Kind: {kind}")]);
        assert_eq!(reply.content, kind);
        let status = reply.value("cache-status");
        assert!(status.starts_with(expected), "{path} {kind}: {status}");
    }
    gateway.stop();
}

#[test]
fn a_restart_keeps_what_was_kept_and_purges_last() {
    let origin = Origin::start(answer);
    let scratch = Scratch::new();
    let folder = scratch.path().join("deep/er");
    let text = text(&origin, &folder, "");
    let gateway = Sluice::start(&text);
    for path in ["/a", "/b", "/c", "/d"] {
        assert_eq!(ask(&gateway, path, &[]).status, 200);
    }
    has(&gateway, &folder, 4);
    gateway.stop();
    // Killed, the second time.
    for round in 0..2 {
        let gateway = Sluice::start(&text);
        let before = origin.requests().len();
        let whole = ask_both(&gateway, "/a", &[], &["x-line", "etag", "content-length"]);
        assert!(is_hit(&whole), "{round}: {whole:?}");
        assert_eq!((whole.status, whole.content.as_str()), (200, "content of /a"));
        assert_eq!(whole.value("surrogate-key"), "", "tags are nobody's business");
        let head = ask_both(&gateway, "/b", &["-I"], &["content-length"]);
        assert_eq!((head.status, head.value("content-length")), (200, "13"));
        let part = ask(&gateway, "/c", &["-r", "11-"]);
        assert_eq!((part.status, part.content.as_str()), (206, "/c"));
        let same = ask_http2(&gateway, "/d", &["-H", "If-None-Match: \"one\""]);
        assert_eq!(same.status, 304);
        assert_eq!(origin.requests().len(), before, "nobody was asked");
        if round == 1 {
            let purged = ask(&gateway, "/", &["-X", "PURGE", "-H", "Surrogate-Key: a"]);
            assert_eq!(
                purged.content.trim(),
                "{\"purged\":1}",
                "in memory and on the disk it is one"
            );
            assert_eq!(ask(&gateway, "/b", &["-X", "PURGE", "-H", "Soft-Purge: 1"]).status, 200);
            assert_eq!(ask(&gateway, "/c", &["-X", "DELETE"]).status, 200);
            has(&gateway, &folder, 2);
            assert!(eventually(|| files(&folder).len() == 2));
            let marked = |path: &PathBuf| std::fs::read(path).unwrap()[8] == b'S';
            assert!(eventually(|| files(&folder).iter().any(marked)));
        }
        drop(gateway);
    }
    let gateway = Sluice::start(&text);
    let before = origin.requests().len();
    assert!(!is_hit(&ask(&gateway, "/a", &[])), "purged by its tag");
    assert!(!is_hit(&ask(&gateway, "/c", &[])), "invalidated");
    let confirmed = ask(&gateway, "/b", &[]);
    assert!(confirmed.value("cache-status").contains("fwd-status=304"), "{confirmed:?}");
    assert!(is_hit(&ask(&gateway, "/d", &[])));
    assert_eq!(origin.requests().len(), before + 3);
    has(&gateway, &folder, 4);
    // All of it, by the admin listener.
    let url = format!("http://{}/caches/pages/purge?all", gateway.admin());
    let purged = Command::new("curl").args(["-s", "-X", "POST", &url]).output().unwrap();
    assert!(String::from_utf8_lossy(&purged.stdout).contains("\"purged\": 4"), "{purged:?}");
    assert!(eventually(|| files(&folder).is_empty() && disk(&gateway, &folder, "bytes") == 0));
    gateway.stop();
}

#[test]
fn damaged_files_are_dropped_and_the_origin_is_asked() {
    let origin = Origin::start(answer);
    let scratch = Scratch::new();
    let folder = scratch.path().to_path_buf();
    let text = text(&origin, &folder, "");
    let gateway = Sluice::start(&text);
    for number in 0..6 {
        assert_eq!(ask(&gateway, &format!("/{number}"), &[]).status, 200);
    }
    has(&gateway, &folder, 6);
    gateway.stop();
    for path in files(&folder) {
        let mut bytes = std::fs::read(&path).unwrap();
        let content = String::from_utf8_lossy(&bytes).into_owned();
        if content.ends_with("/0") {
            *bytes.last_mut().unwrap() = b'7';
        } else if content.ends_with("/1") {
            bytes.pop();
        } else if content.ends_with("/2") {
            bytes[60] ^= 1;
        } else if content.ends_with("/3") {
            bytes.clear();
        } else if content.ends_with("/4") {
            bytes[0] = b'X';
        }
        std::fs::write(path, bytes).unwrap();
    }
    let gateway = Sluice::start(&text);
    // One is found out when it is wanted, the others before.
    has(&gateway, &folder, 2);
    let before = origin.requests().len();
    for number in 0..6 {
        let path = format!("/{number}");
        let reply = ask(&gateway, &path, &[]);
        assert_eq!((reply.status, reply.content), (200, format!("content of {path}")));
        assert_eq!(origin.requests().len(), before + (number + 1).min(5), "{path}");
    }
    assert_eq!(faults(&gateway, &folder, "damaged"), 5);
    let lines = gateway.stderr().iter().filter(|line| line.contains("is dropped")).count();
    assert!(eventually(|| lines >= 1), "{:?}", gateway.stderr());
    has(&gateway, &folder, 6);
    gateway.stop();
}

/// The program, whose files may have so many half KiB.
fn limited(scratch: &Scratch, blocks: u32) -> Command {
    let mut shell = Command::new("sh");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
    shell.args(["-c", &script, "sh"]).arg(binary()).stdin(Stdio::null());
    shell.current_dir(scratch.path());
    shell
}

#[test]
fn a_full_disk_stops_nobody() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        exchange.answer(200, &["Cache-Control: max-age=600"], vec![b'x'; 200_000])
    });
    let scratch = Scratch::new();
    let folder = scratch.path().to_path_buf();
    // No file may grow beyond 64 KiB: what is written fails half-way.
    let gateway = Sluice::start_by(&text(&origin, &folder, ""), |scratch| limited(scratch, 128));
    assert_eq!(ask(&gateway, "/first", &[]).content.len(), 200_000);
    // It is told without another request.
    gateway.wait_for_line("tries again later");
    for number in 0..30 {
        let path = format!("/{number}");
        assert_eq!(ask(&gateway, &path, &[]).content.len(), 200_000);
        assert!(is_hit(&ask(&gateway, &path, &[])), "memory goes on");
    }
    assert!(eventually(|| faults(&gateway, &folder, "no_space") >= 1));
    assert_eq!(disk(&gateway, &folder, "bytes"), 0);
    assert!(disk(&gateway, &folder, "budget_bytes") < 16 << 20, "it has become smaller");
    assert!(files(&folder).is_empty(), "nothing half stays");
    let told = gateway.stderr().iter().filter(|line| line.contains("tries again later")).count();
    assert_eq!(told, 1, "{:?}", gateway.stderr());
    gateway.stop();
}

#[test]
fn a_large_answer_that_the_disk_gives_up_reaches_all_who_have_begun() {
    const LARGE: usize = 6_000_000;
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::start(move |exchange: &mut Exchange| {
        exchange.write(format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {LARGE}\r\n\r\n"
        ))?;
        exchange.write(vec![b'x'; LARGE / 12])?;
        opened.pass();
        exchange.write(vec![b'x'; LARGE - LARGE / 12])
    });
    let scratch = Scratch::new();
    let folder = scratch.path().to_path_buf();
    // No file may grow beyond 1 MiB.
    let text = text(&origin, &folder, "entry_limit = \"256KiB\"");
    let gateway = Sluice::start_by(&text, |scratch| limited(scratch, 2048));
    let url = format!("http://{}/large", gateway.address("web"));
    let begin = |version: &str| {
        let mut curl = Command::new("curl");
        curl.args(["-s", "-m", "60", "-o", "/dev/null", "-w", "%{http_code} %{size_download}"]);
        curl.args(["-H", "Host: a", version, &url]).stdout(Stdio::piped()).spawn().unwrap()
    };
    let first = begin("--http1.1");
    assert!(origin.wait_for_requests(1));
    let others = [begin("--http1.1"), begin("--http2-prior-knowledge")];
    let sample = "sluice_filter_outcomes_total{filter=\"pages\",outcome=\"coalesced\"}";
    assert!(eventually(|| metric(&gateway.admin(), sample) == 2), "they have begun");
    gate.open();
    for client in [first].into_iter().chain(others) {
        let got = client.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&got.stdout), format!("200 {LARGE}"));
        assert!(got.status.success());
    }
    assert_eq!(origin.requests().len(), 1);
    assert!(eventually(|| faults(&gateway, &folder, "no_space") >= 1));
    assert!(eventually(|| files(&folder).is_empty()), "nothing half stays");
    gateway.stop();
}

#[test]
fn a_folder_belongs_to_one_process_and_passes_to_its_heir() {
    let origin = Origin::start(answer);
    let scratch = Scratch::new();
    let folder = scratch.path().join("cache");
    let text = text(&origin, &folder, "");
    let mut gateway = Sluice::start(&text);
    assert_eq!(ask(&gateway, "/a", &[]).status, 200);
    has(&gateway, &folder, 1);
    let refused = Sluice::try_start(&text).expect_err("the folder is taken").to_string();
    assert!(refused.contains(&format!("in use by process {}", gateway.pid())), "{refused}");
    // Looking whether a configuration could be used takes and makes nothing.
    let other = text.replace("/cache\"", "/none\"");
    let path = scratch.write("other.toml", &other);
    let checked = run(&["check", "-c", &path.display().to_string()], "");
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert!(!scratch.path().join("none").exists());
    // A reload keeps it; so does one that changes the cache.
    assert!(gateway.reload(&format!("{text}\n# changed\n")).contains("reloaded"));
    assert!(gateway.reload(&text.replace("16MiB\" }", "8MiB\" }")).contains("reloaded"));
    assert_eq!(disk(&gateway, &folder, "budget_bytes"), 8 << 20);
    assert!(is_hit(&ask(&gateway, "/a", &[])));
    gateway.upgrade();
    let before = origin.requests().len();
    // Until it has the folder, the new process keeps answers in memory; it looks again when somebody comes.
    let taken = || {
        assert_eq!(ask(&gateway, "/b", &["-H", "Cache-Control: no-cache"]).status, 200);
        disk(&gateway, &folder, "entries") == 2
    };
    assert!(eventually(taken));
    assert!(origin.requests().len() > before);
    let asked = origin.requests().iter().filter(|head| head.target == "/a").count();
    assert!(is_hit(&ask(&gateway, "/a", &[])), "what the old process kept");
    let still = origin.requests().iter().filter(|head| head.target == "/a").count();
    assert_eq!(asked, still);
    gateway.stop();
}

#[test]
fn one_folder_has_one_size() {
    let origin = Origin::start(answer);
    let scratch = Scratch::new();
    let folder = scratch.path().join("cache");
    let one = text(&origin, &folder, "");
    let two = format!(
        "{one}[filter.more.cache]\ndisk = {{ path = \"{}\", size = \"32MiB\" }}\n\
         [[route]]\npath = \"/more/*\"\nproxy = \"{}\"\nfilters = [\"more\"]\n",
        folder.display(),
        origin.address()
    );
    let refused = Sluice::try_start(&two).expect_err("which one?").to_string();
    assert!(refused.contains("says another `size`"), "{refused}");
    let gateway = Sluice::start(&two.replace("32MiB", "16MiB"));
    for path in ["/a", "/more/a"] {
        assert_eq!(ask(&gateway, path, &[]).status, 200);
    }
    has(&gateway, &folder, 2);
    let purge = ["-X", "PURGE", "-H", "Surrogate-Key: all"];
    assert_eq!(ask(&gateway, "/", &purge).content.trim(), "{\"purged\":1}", "of one of them");
    gateway.stop();
}

/// Larger than memory takes as one answer.
const LARGE: usize = 6_000_000;

/// Bytes that tell where they stand.
fn large() -> Vec<u8> {
    (0..LARGE / 8).flat_map(|at| format!("{:07}\n", at % 10_000_000).into_bytes()).collect()
}

#[test]
fn large_answers_lie_on_the_disk_alone() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        let lines = ["Cache-Control: max-age=600", "ETag: \"one\""];
        match exchange.head().target.as_str() {
            "/chunks" => {
                exchange.write("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                for piece in large().chunks(100_000) {
                    exchange.write(format!("{:x}\r\n", piece.len()))?;
                    exchange.write([piece, b"\r\n"].concat())?;
                }
                exchange.write("0\r\n\r\n")
            }
            _ => exchange.answer(200, &lines, large()),
        }
    });
    let scratch = Scratch::new();
    let folder = scratch.path().to_path_buf();
    let text = text(&origin, &folder, "entry_limit = \"1MiB\"");
    let mut gateway = Sluice::start(&text);
    let expected = String::from_utf8(large()).unwrap();
    for path in ["/known", "/chunks"] {
        let first = ask(&gateway, path, &[]);
        assert!(first.content == expected && !is_hit(&first), "{path}");
    }
    has(&gateway, &folder, 2);
    // The second time after a restart: checked before it is given.
    for round in 0..2 {
        let before = origin.requests().len();
        for path in ["/known", "/chunks"] {
            let whole = ask_both(&gateway, path, &[], &["content-length", "etag"]);
            assert!(is_hit(&whole) && whole.content == expected, "{round} {path}");
            assert_eq!(whole.value("content-length"), LARGE.to_string());
        }
        let head = ask_both(&gateway, "/known", &["-I"], &["content-length", "etag"]);
        assert_eq!((head.status, head.value("content-length")), (200, LARGE.to_string().as_str()));
        let part = ask_both(&gateway, "/known", &["-r", "4000000-4000015"], &["content-range"]);
        assert_eq!((part.status, part.content.as_str()), (206, "0500000\n0500001\n"));
        let parts = ask(&gateway, "/known", &["-r", "0-7,-8"]);
        assert_eq!(parts.status, 206);
        assert!(parts.content.contains("\r\n\r\n0000000\n\r\n"), "{}", parts.content);
        assert!(parts.content.contains("\r\n\r\n0749999\n\r\n"), "{}", parts.content);
        let same = ask_both(&gateway, "/known", &["-H", "If-None-Match: \"one\""], &["etag"]);
        assert_eq!((same.status, same.content.len()), (304, 0));
        assert_eq!(ask(&gateway, "/known", &["-r", "9000000-"]).status, 416);
        assert_eq!(origin.requests().len(), before, "{round}");
        if round == 0 {
            gateway.stop();
            gateway = Sluice::start(&text);
            has(&gateway, &folder, 2);
        }
    }
    let bytes = metric(&gateway.admin(), "sluice_cache_bytes{filter=\"pages\"}");
    assert!(bytes < 2 << 20, "memory has none of it: {bytes}");
    gateway.stop();
}

#[test]
fn a_process_that_is_killed_while_it_fills_leaves_nothing_half() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::start(move |exchange: &mut Exchange| {
        exchange.write(format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {LARGE}\r\n\r\n"
        ))?;
        exchange.write(&large()[..LARGE / 2])?;
        opened.pass();
        exchange.write(&large()[LARGE / 2..])
    });
    let scratch = Scratch::new();
    let folder = scratch.path().to_path_buf();
    let text = text(&origin, &folder, "entry_limit = \"1MiB\"");
    let gateway = Sluice::start(&text);
    let mut client = std::net::TcpStream::connect(gateway.address("web")).unwrap();
    std::io::Write::write_all(&mut client, b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let written = || match files(&folder).as_slice() {
        [one] => std::fs::metadata(one).unwrap().len() > 1_000_000,
        _ => false,
    };
    assert!(eventually(written));
    // SIGKILL.
    drop(gateway);
    assert_eq!(files(&folder).len(), 1);
    let gateway = Sluice::start(&text);
    assert!(eventually(|| files(&folder).is_empty()), "{:?}", files(&folder));
    assert_eq!(disk(&gateway, &folder, "entries"), 0);
    gate.open();
    let whole = ask(&gateway, "/a", &[]);
    assert!(!is_hit(&whole) && whole.content.as_bytes() == large());
    has(&gateway, &folder, 1);
    assert!(is_hit(&ask(&gateway, "/a", &[])));
    gateway.stop();
}

#[test]
fn a_length_that_lies_leaves_nothing() {
    let origin = Origin::start(|exchange: &mut Exchange| {
        exchange.write(format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {LARGE}\r\n\r\n"
        ))?;
        exchange.write(&large()[..LARGE / 2])?;
        exchange.then(After::Close);
        Ok(())
    });
    let scratch = Scratch::new();
    let folder = scratch.path().to_path_buf();
    let gateway = Sluice::start(&text(&origin, &folder, "entry_limit = \"1MiB\""));
    for number in 1..4 {
        assert!(ask(&gateway, "/a", &[]).content.len() < LARGE);
        assert_eq!(origin.requests().len(), number);
    }
    assert!(eventually(|| files(&folder).is_empty() && disk(&gateway, &folder, "bytes") == 0));
    gateway.stop();
}
