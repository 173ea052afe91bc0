//! Servers that a file lists: watched, and taken over without loss.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sluice_acceptance::{config, eventually, metric};
use sluice_testkit::{Asked, ByteScript, Origin, Scratch, Sluice, behaviour, get};

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn through(servers: &str) -> String {
    let upstream = format!("[upstream.api]\nservers = {servers}\n");
    config(&format!("{upstream}\n[[route]]\npath = \"/\"\nproxy = \"api\"\n"))
}

fn of_file(path: &Path) -> String {
    through(&format!("\"file:{}\"", path.display()))
}

fn json(origins: &[&Origin]) -> String {
    let addresses: Vec<String> = origins.iter().map(|it| format!("{:?}", it.address())).collect();
    format!("[{}]", addresses.join(", "))
}

fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, path).unwrap();
}

/// The answers of so many requests, each once, in order.
fn answers(web: &str) -> Vec<String> {
    let mut answers: Vec<String> = (0..8).map(|_| get(web, "/").text()).collect();
    answers.sort();
    answers.dedup();
    answers
}

struct Stage {
    scratch: Scratch,
    one: Origin,
    two: Origin,
}

impl Stage {
    fn new() -> Self {
        let origin = |text| Origin::start(behaviour::fixed(200, text));
        Self { scratch: Scratch::new(), one: origin("one"), two: origin("two") }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }
}

#[test]
fn a_file_may_be_edited_in_place_or_replaced() {
    let stage = Stage::new();
    let path = stage.file("servers.json");
    std::fs::write(&path, json(&[&stage.one])).unwrap();
    let sluice = Sluice::start(&of_file(&path));
    let web = sluice.address("web");
    assert_eq!(answers(&web), ["one"]);
    std::fs::write(&path, json(&[&stage.one, &stage.two])).unwrap();
    sluice.wait_for_line("servers.json lists 2 servers");
    assert!(eventually(|| answers(&web) == ["one", "two"]));
    let mark = sluice.words().mark();
    replace(&path, &json(&[&stage.two]));
    assert!(sluice.words().wait_after(mark, "lists one server").is_some(), "{:?}", sluice.stderr());
    assert!(eventually(|| answers(&web) == ["two"]));
    let page = get(&sluice.admin(), "/upstreams").text();
    assert!(page.contains(stage.two.address()) && !page.contains(stage.one.address()), "{page}");
    assert!(get(&sluice.admin(), "/config").text().contains("\"generation\": 1"), "no reload");
    // An empty list is what it says.
    replace(&path, "[]");
    sluice.wait_for_line("lists no servers");
    assert!(eventually(|| get(&web, "/").status == 503));
    sluice.stop();
}

#[test]
fn a_config_map_that_is_swapped_is_taken_over() {
    // servers.toml -> ..data/servers.toml, ..data -> ..1: as Kubernetes mounts it.
    let stage = Stage::new();
    for (version, origin) in [("..1", &stage.one), ("..2", &stage.two)] {
        std::fs::create_dir(stage.file(version)).unwrap();
        let text = format!("servers = [{:?}]\n", origin.address());
        std::fs::write(stage.file(version).join("servers.toml"), text).unwrap();
    }
    symlink("..1", stage.file("..data")).unwrap();
    symlink("..data/servers.toml", stage.file("servers.toml")).unwrap();
    let sluice = Sluice::start(&of_file(&stage.file("servers.toml")));
    let web = sluice.address("web");
    assert_eq!(answers(&web), ["one"]);
    symlink("..2", stage.file("..data_tmp")).unwrap();
    std::fs::rename(stage.file("..data_tmp"), stage.file("..data")).unwrap();
    assert!(eventually(|| answers(&web) == ["two"]), "{:?}", sluice.stderr());
    sluice.stop();
}

#[test]
fn a_broken_file_keeps_the_last_good_list_and_is_told_with_its_place() {
    let stage = Stage::new();
    let path = stage.file("servers.toml");
    std::fs::write(&path, format!("servers = [{:?}]\n", stage.one.address())).unwrap();
    let sluice = Sluice::start(&of_file(&path));
    let web = sluice.address("web");
    let rows: [(&str, &[&str]); 3] = [
        ("servers = [\n  \"127.0.0.1\",\n]\n", &["servers.toml:2:3", "has no port", "^^^^^"]),
        ("servers = [", &["servers.toml:1:"]),
        ("servers = [{ address = \"a:1\", weigth = 2 }]\n", &["did you mean \"weight\"?"]),
    ];
    for (text, parts) in rows {
        let mark = sluice.words().mark();
        replace(&path, text);
        for part in parts {
            let said = sluice.words().wait_after(mark, part);
            assert!(said.is_some(), "{part}: {:#?}", sluice.stderr());
        }
        assert_eq!(get(&web, "/").text(), "one");
    }
    let mark = sluice.words().mark();
    std::fs::remove_file(&path).unwrap();
    assert!(sluice.words().wait_after(mark, "no such file").is_some(), "{:?}", sluice.stderr());
    assert_eq!(get(&web, "/").text(), "one");
    assert!(metric(&sluice.admin(), "sluice_server_list_failures_total") >= 4);
    std::fs::write(&path, format!("servers = [{:?}]\n", stage.two.address())).unwrap();
    assert!(eventually(|| answers(&web) == ["two"]), "{:?}", sluice.stderr());
    sluice.stop();
}

#[test]
fn a_file_that_is_missing_is_waited_for_and_other_servers_serve_meanwhile() {
    let stage = Stage::new();
    let path = stage.file("later/servers.json");
    let both = format!("[{:?}, \"file:{}\"]", stage.one.address(), path.display());
    let sluice = Sluice::start(&through(&both));
    let web = sluice.address("web");
    sluice.wait_for_line("no such file or directory");
    assert_eq!(answers(&web), ["one"]);
    std::fs::create_dir(stage.file("later")).unwrap();
    std::fs::write(&path, json(&[&stage.two])).unwrap();
    assert!(eventually(|| answers(&web) == ["one", "two"]), "{:?}", sluice.stderr());
    let said = sluice.reload(&through(&format!("{:?}", stage.one.address())));
    assert!(said.starts_with("reloaded"), "{said}");
    assert_eq!(answers(&web), ["one"]);
    sluice.stop();
}

#[test]
fn a_check_reads_the_lists_too() {
    let stage = Stage::new();
    let path = stage.file("servers.json");
    std::fs::write(&path, "[\"127.0.0.1\"]").unwrap();
    let configuration = stage.file("sluice.toml");
    std::fs::write(&configuration, of_file(&path)).unwrap();
    let check = || sluice_testkit::run(&["check", "-c", configuration.to_str().unwrap()], "");
    let refused = check();
    assert_ne!(refused.code, Some(0));
    assert!(refused.stderr.contains("servers.json:1:2"), "{}", refused.stderr);
    std::fs::write(&path, json(&[&stage.one])).unwrap();
    assert_eq!(check().code, Some(0));
}

#[test]
fn names_and_weights_of_a_file_mean_what_they_mean_elsewhere() {
    let stage = Stage::new();
    let path = stage.file("servers.yaml");
    let port = stage.one.address().rsplit(':').next().unwrap();
    let two = stage.two.address();
    let text = format!("servers:\n- localhost:{port}\n- {{ address: \"{two}\", weight: 3 }}\n");
    std::fs::write(&path, text).unwrap();
    let sluice = Sluice::start(&format!("workers = 1\n{}", of_file(&path)));
    let web = sluice.address("web");
    // "localhost" may have two addresses, of which one is listened at.
    let page = get(&sluice.admin(), "/upstreams").text();
    assert!(page.contains(&format!("\"localhost:{port}\"")), "{page}");
    assert_eq!(answers(&web), ["one", "two"]);
    sluice.stop();
}

#[test]
fn growing_and_shrinking_under_load_loses_nothing() {
    let stage = Stage::new();
    let three = Origin::start(behaviour::fixed(200, "three"));
    let path = stage.file("servers.json");
    std::fs::write(&path, json(&[&stage.one])).unwrap();
    let sluice = Sluice::start(&format!("workers = 2\n{}", of_file(&path)));
    let web = sluice.address("web");
    let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (web, stop, served) = (web.clone(), Arc::clone(&stop), Arc::clone(&served));
            std::thread::spawn(move || {
                let mut client = ByteScript::connect(&web);
                while !stop.load(Ordering::Relaxed) {
                    let answer = client.send(REQUEST).read_response(Asked::Get).unwrap();
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    served.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let steps: [&[&Origin]; 4] =
        [&[&stage.one, &stage.two, &three], &[&three], &[&stage.two, &three], &[&stage.one]];
    for servers in steps {
        let mark = sluice.words().mark();
        replace(&path, &json(servers));
        assert!(sluice.words().wait_after(mark, "servers.json lists").is_some());
        // Each step sees traffic.
        let before: Vec<usize> = servers.iter().map(|it| it.complete_requests()).collect();
        assert!(eventually(|| {
            let now = servers.iter().map(|it| it.complete_requests());
            now.zip(&before).all(|(now, before)| now > *before)
        }));
    }
    stop.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert!(served.load(Ordering::Relaxed) > 0);
    let admin = sluice.admin();
    assert_eq!(metric(&admin, "sluice_upstream_retries_total{upstream=\"api\"}"), 0);
    assert!(!get(&admin, "/metrics").text().contains("sluice_upstream_failures_total{"));
    // The first server was gone for three steps; it came back as the same, and is alone now.
    assert!(eventually(|| answers(&web) == ["one"]));
    sluice.stop();
}
