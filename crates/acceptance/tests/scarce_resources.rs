//! What the gateway does without descriptors, disk space, a writable folder, a name server or a
//! steady clock, and what is left in the cache when it is killed.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use sluice_acceptance::{config, eventually, metric};
use sluice_testkit::{
    Asked, ByteScript, Exchange, NameServer, Origin, Resolution, Scratch, Sluice, State, behaviour,
    binary, get,
};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// The program, started by a shell that does this before.
fn after(script: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{script}; exec \"$@\""), "sh"]).arg(binary()).stdin(Stdio::null());
    shell
}

/// The program in a mount namespace of its own, where `path` is a file system of this size.
fn on_small_disk(path: &Path, size: &str) -> Command {
    let mut program = Command::new("unshare");
    if !rustix::process::getuid().is_root() {
        program.arg("--map-root-user");
    }
    let mount = format!("mount -t tmpfs -o size={size} none '{}'", path.display());
    let script = format!("{mount} && exec \"$@\"");
    program.args(["--mount", "sh", "-c", &script, "sh"]).arg(binary()).stdin(Stdio::null());
    program
}

/// The program without the right of root to write wherever it wants.
fn without_override() -> Command {
    let mut program = Command::new("setpriv");
    program.args(["--bounding-set", "-dac_override,-dac_read_search"]);
    if !rustix::process::getuid().is_root() {
        program = Command::new("env");
    }
    program.arg(binary()).stdin(Stdio::null());
    program
}

#[test]
fn two_hundred_and_fifty_six_descriptors_serve_a_thousand_clients_in_turn() {
    let origin = Origin::start(behaviour::fixed(200, "served"));
    let rest = format!("[[route]]\nproxy = \"{}\"\n", origin.address());
    let text = format!("workers = 2\n{}", config(&rest));
    let gateway = Sluice::start_by(&text, |_| after("ulimit -n 256"));
    let web = gateway.address("web");
    let mut clients: Vec<ByteScript> = (0..1000).map(|_| ByteScript::connect(&web)).collect();
    for client in &mut clients {
        client.send(GET);
    }
    let page = get(&gateway.admin(), "/metrics").text();
    assert!(page.contains("process_max_fds 256"), "the admin listener answers meanwhile");
    // Each is served or sees its connection end. Those that are done make room for those that wait.
    let mut served = 0;
    for (number, mut client) in clients.into_iter().enumerate() {
        match client.read_response(Asked::Get) {
            Ok(response) if response.status == 200 => served += 1,
            Ok(response) => assert_eq!(response.status, 503, "{response:?}"),
            Err(_) if client.state() != State::Open => {}
            Err(failure) => {
                let page = get(&gateway.admin(), "/metrics").text();
                panic!("client {number} after {served}: {failure}\n{page}")
            }
        }
    }
    assert!(served >= 200, "{served} of 1000 were served");
    assert!(eventually(|| get(&web, "/").text() == "served"), "service goes on");
    let page = get(&gateway.admin(), "/metrics").text();
    assert!(page.contains("process_max_fds 256"), "{page}");
    assert!(metric(&gateway.admin(), "sluice_descriptor_shortages_total") > 0, "{page}");
    let lines = gateway.stderr();
    assert!(lines.len() < 60, "a line for each failure:\n{}", lines.join("\n"));
    gateway.stop();
}

/// A body of its own for each path, larger than what sockets and pages hold.
fn body(path: &str) -> Vec<u8> {
    let number: usize = path.trim_start_matches(|it: char| !it.is_ascii_digit()).parse().unwrap();
    let mut text = String::new();
    for line in 0..500 + number % 7 * 700 {
        let _ = writeln!(text, "{line} of {path}");
    }
    text.into_bytes()
}

fn cacheable(exchange: &mut Exchange) -> std::io::Result<()> {
    let target = exchange.head().target.clone();
    exchange.answer(200, &["Cache-Control: max-age=600"], body(&target))
}

fn caching(origin: &Origin, folder: &Path, memory: &str) -> String {
    let (address, folder) = (origin.address(), folder.display());
    format!(
        "workers = 2\n{}",
        config(&format!(
            "[filter.pages.cache]\nmemory = \"{memory}\"\n\
             disk = {{ path = \"{folder}\", size = \"64MiB\" }}\n\
             [[route]]\npath = \"/*\"\nproxy = \"{address}\"\nfilters = [\"pages\"]\n"
        ))
    )
}

fn disk(gateway: &Sluice, folder: &Path, name: &str) -> u64 {
    let folder = folder.display();
    metric(&gateway.admin(), &format!("sluice_cache_disk_{name}{{folder=\"{folder}\"}}"))
}

fn disk_faults(gateway: &Sluice) -> u64 {
    let page = get(&gateway.admin(), "/metrics").text();
    let faults = page.lines().filter(|line| line.starts_with("sluice_cache_disk_faults_total{"));
    faults.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[test]
fn a_full_file_system_costs_the_cache_its_entries_and_no_request() {
    let origin = Origin::start(cacheable);
    let scratch = Scratch::new();
    let folder = scratch.path().join("small");
    std::fs::create_dir(&folder).unwrap();
    let text = caching(&origin, &folder, "1MiB");
    let gateway = Sluice::start_by(&text, |_| on_small_disk(&folder, "256k"));
    let web = gateway.address("web");
    for number in 0..60 {
        let path = format!("/full/{number}");
        assert!(get(&web, &path).body == body(&path), "{path}");
    }
    assert!(eventually(|| disk_faults(&gateway) > 0), "the fault can be seen");
    for number in 0..60 {
        let path = format!("/full/{number}");
        assert!(get(&web, &path).body == body(&path), "{path}, again");
    }
    gateway.stop();
}

/// Sets the permissions of the folder and of those in it.
fn set_mode(folder: &Path, mode: u32) {
    let inner = folder.read_dir().unwrap().flatten().map(|entry| entry.path());
    for path in inner.filter(|path| path.is_dir()).chain([folder.to_path_buf()]) {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    }
}

#[test]
fn a_folder_that_turns_read_only_costs_the_cache_its_entries_and_no_request() {
    let origin = Origin::start(cacheable);
    let scratch = Scratch::new();
    let folder = scratch.path().join("frozen");
    std::fs::create_dir(&folder).unwrap();
    let text = caching(&origin, &folder, "1MiB");
    let gateway = Sluice::start_by(&text, |_| without_override());
    let web = gateway.address("web");
    let all = |round: &str| {
        for number in 0..20 {
            let path = format!("/{round}/{number}");
            assert!(get(&web, &path).body == body(&path), "{path}");
        }
    };
    all("before");
    assert!(eventually(|| disk(&gateway, &folder, "entries") > 0));
    set_mode(&folder, 0o500);
    all("meanwhile");
    all("before");
    assert!(eventually(|| disk_faults(&gateway) > 0), "the fault can be seen");
    set_mode(&folder, 0o700);
    all("after");
    gateway.stop();
}

#[test]
fn a_full_file_system_costs_lines_of_the_access_log_and_no_request() {
    let scratch = Scratch::new();
    let folder = scratch.path().join("log");
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("access.log");
    let text = config("[[route]]\npath = \"/*\"\nrespond = \"well\"\n").replace(
        "access = \"off\"",
        &format!("access = \"{{request.target}}\"\nfile = \"{}\"", file.display()),
    );
    let gateway = Sluice::start_by(&text, |_| on_small_disk(&folder, "64k"));
    let web = gateway.address("web");
    let path = format!("/{}", "x".repeat(4000));
    let mut client = ByteScript::connect(&web);
    let mut ask = |path: &str| {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(client.read_response(Asked::Get).unwrap().text(), "well");
    };
    let dropped = || metric(&gateway.admin(), "sluice_access_log_dropped_total");
    let mut lines = 0;
    while dropped() == 0 {
        ask(&path);
        lines += 1;
        assert!(lines < 5000, "nothing is dropped");
    }
    // There is room again, and lines come again.
    let inside = format!("/proc/{}/root{}", gateway.pid(), file.display());
    std::fs::OpenOptions::new().write(true).truncate(true).open(&inside).unwrap();
    let written = || {
        ask("/room-again");
        std::fs::read_to_string(&inside).is_ok_and(|text| text.contains("/room-again\n"))
    };
    assert!(eventually(written), "no line comes after there is room");
    gateway.stop();
}

#[test]
fn a_kill_in_the_middle_of_writing_leaves_no_wrong_body() {
    let origin = Origin::start(cacheable);
    let scratch = Scratch::new();
    let folder = scratch.path().join("killed");
    let text = caching(&origin, &folder, "1MiB");
    let mut hits = 0;
    for round in 0..20 {
        let gateway = Sluice::start(&text);
        let web = gateway.address("web");
        // What the rounds before have left, as far as it went.
        for number in 0..round * 3 {
            let path = format!("/{number}");
            let response = get(&web, &path);
            assert!(response.body == body(&path), "{path} in round {round}");
            let status = response.fields.first("cache-status").unwrap_or_default();
            hits += usize::from(status.contains("; hit"));
        }
        let done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for client in 0..4 {
                let (web, done) = (&web, &done);
                scope.spawn(move || {
                    for number in 0..30 {
                        let path = format!("/{}", round * 3 + client * 30 + number);
                        let mut script = ByteScript::connect(web);
                        script.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
                        // From the kill on there is no response, or a part of one.
                        let Ok(response) = script.read_response(Asked::Get) else { return };
                        assert!(response.body == body(&path), "{path} in round {round}");
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            // A little later each time, so that other steps of writing are interrupted.
            assert!(eventually(|| done.load(Ordering::Relaxed) > round * 2));
            drop(gateway);
        });
    }
    assert!(hits > 0, "nothing outlived a kill, so nothing was tested");
}

#[test]
fn a_name_server_that_is_slow_down_or_lies_stops_nobody() {
    let one = Origin::start(behaviour::fixed(200, "one"));
    let port = one.address().rsplit(':').next().unwrap().to_owned();
    let names = NameServer::start();
    names.set("good.test", Resolution::Addresses(vec!["127.0.0.1".parse().unwrap()], 1));
    names.set("silent.test", Resolution::Silence);
    names.set("failing.test", Resolution::Failure);
    // An address where nobody listens, and an alias to itself.
    names.set("lying.test", Resolution::Addresses(vec!["127.9.9.9".parse().unwrap()], 0));
    names.set("loop.test", Resolution::Alias("loop.test".to_owned(), Vec::new(), 1));
    let mut rest = format!(
        "[resolver]\nservers = [\"{}\"]\ntimeout = \"300ms\"\nmin_ttl = \"100ms\"\n",
        names.address()
    );
    for name in ["good", "silent", "failing", "lying", "loop"] {
        let _ = write!(
            rest,
            "[upstream.{name}]\nservers = [\"{name}.test:{port}\"]\n\
             timeout = {{ connect = \"300ms\" }}\n[[route]]\npath = \"/{name}\"\n\
             proxy = \"{name}\"\n"
        );
    }
    let gateway = Sluice::start(&format!("workers = 1\n{}", config(&rest)));
    let web = gateway.address("web");
    assert!(eventually(|| get(&web, "/good").text() == "one"));
    for name in ["silent", "failing", "lying", "loop"] {
        let status = get(&web, &format!("/{name}")).status;
        assert!(matches!(status, 502..=504), "{name}: {status}");
        assert_eq!(get(&web, "/good").text(), "one", "{name} holds nobody up");
    }
    // Down: what was known goes on.
    names.set("good.test", Resolution::Silence);
    for _ in 0..20 {
        assert_eq!(get(&web, "/good").text(), "one");
    }
    gateway.stop();
}

/// Where the Debian package libfaketime puts what the program's clock is wrapped with.
fn faketime() -> std::path::PathBuf {
    let found = Path::new("/usr/lib").read_dir().unwrap().flatten().find_map(|folder| {
        let library = folder.path().join("faketime/libfaketime.so.1");
        library.exists().then_some(library)
    });
    found.expect("libfaketime is installed: make test does that")
}

#[test]
fn a_clock_that_jumps_ends_no_connection_and_keeps_nothing_fresh_for_longer() {
    let origin = Origin::start(cacheable);
    let scratch = Scratch::new();
    let now = scratch.write("now", "+0");
    let rest = format!(
        "[filter.pages.cache]\nmemory = \"1MiB\"\n[filter.few.rate_limit]\nlimits = \"1000/s\"\n\
         [[route]]\npath = \"/*\"\nproxy = \"{}\"\nfilters = [\"few\", \"pages\"]\n",
        origin.address()
    );
    let text = format!("workers = 1\n{}", config(&rest));
    let gateway = Sluice::start_by(&text, |_| {
        let mut program = Command::new(binary());
        program.stdin(Stdio::null()).env("LD_PRELOAD", faketime());
        program.env("FAKETIME_TIMESTAMP_FILE", &now).env("FAKETIME_NO_CACHE", "1");
        program.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        program
    });
    let mut kept = ByteScript::connect(&gateway.address("web"));
    let mut ask = |path: &str| {
        kept.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
        let response = kept.read_response(Asked::Get).expect("the connection goes on");
        assert_eq!(response.status, 200, "{path}");
        assert!(response.body == body(path), "{path}");
        response
    };
    let age = |response: &sluice_testkit::Response| {
        response.fields.first("age").map(|age| age.parse::<u64>().unwrap())
    };
    ask("/page/1");
    let year = |response: &sluice_testkit::Response| {
        response.fields.first("date").unwrap().get(12..16).unwrap().to_owned()
    };
    let before = year(&ask("/page/1"));
    let mut number = 10;
    for jump in ["+370d", "-370d", "+0"] {
        std::fs::write(&now, jump).unwrap();
        // A response of its own each time: one out of the cache has the date of its origin.
        let jumped = || {
            number += 1;
            let same = year(&ask(&format!("/date/{number}"))) == before;
            same == (jump == "+0")
        };
        assert!(eventually(jumped), "{jump}: the clock has not moved");
        // Fresh for ten minutes, so no response may claim to be older, or that its age is negative.
        for path in ["/page/1", "/page/3"] {
            let response = ask(path);
            assert!(age(&response).is_none_or(|age| age <= 600), "{jump}: {response:?}");
        }
    }
    assert_eq!(metric(&gateway.admin(), "sluice_panics_total"), 0);
    gateway.stop();
}
