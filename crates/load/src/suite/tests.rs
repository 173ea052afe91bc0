//! Suites with a made-up load generator and servers made of shell and Python: no figures, all the rest.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::report::sample;
use crate::results::State;

/// A folder for one test, with a server in it that answers everything with its status.
struct Folder(PathBuf);

const SERVER: &str = r#"#!/usr/bin/env python3
import http.server, os, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(int(sys.argv[2]))
        self.end_headers()
    def log_message(self, *_):
        pass
open("pid", "w").write(str(os.getpid()))
if os.fork() == 0:
    # A child that does not listen to anybody: it must be stopped all the same.
    import signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open("child", "w").write(str(os.getpid()))
    time.sleep(600)
    os._exit(0)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"#;

impl Folder {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("sluice-suite-test-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("scratch")).unwrap();
        let server = folder.join("server.py");
        fs::write(&server, SERVER).unwrap();
        fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.join("web.conf"), "listen {port}; beside {port:other}; host {host};\n")
            .unwrap();
        Self(folder)
    }

    fn suite(&self, more: &str) -> Suite {
        let server = self.0.join("server.py").display().to_string();
        let text = format!(
            "name = \"t\"\ntitle = \"T\"\nrounds = {{ short = 2, full = 4 }}\n\
             duration = {{ short = \"1s\", full = \"60s\" }}\n\
             warm_up = {{ connections = 10, short = \"100ms\", full = \"5s\" }}\n\
             [[server]]\nname = \"web\"\ncommand = [\"{server}\", \"{{port}}\", \"200\"]\n\
             config = \"web.conf\"\nversion = [\"echo\", \"web 1.0\"]\n\
             [[server]]\nname = \"other\"\ncommand = [\"{server}\", \"{{port}}\", \"200\"]\n\
             {more}"
        );
        parse("t.toml", &text, &self.0).unwrap()
    }

    fn bench<'a>(
        &self,
        run: &'a dyn Fn(&CaseRun) -> Result<Outcome, String>,
        stopped: &'a dyn Fn() -> bool,
    ) -> Bench<'a> {
        Bench {
            program: PathBuf::from("/bin/true"),
            tool: "sluice 0".to_owned(),
            length: Length::Short,
            scratch: self.0.join("scratch"),
            run,
            stopped,
            say: &|_| (),
        }
    }

    /// The processes that servers of this test have written down.
    fn processes(&self) -> BTreeSet<u32> {
        let mut found = BTreeSet::new();
        for server in fs::read_dir(self.0.join("scratch")).unwrap().flatten() {
            for name in ["pid", "child"] {
                let text = fs::read_to_string(server.path().join(name)).unwrap_or_default();
                found.extend(text.trim().parse::<u32>());
            }
        }
        found
    }

    fn assert_all_stopped(&self, expected: usize) {
        let processes = self.processes();
        assert_eq!(processes.len(), expected, "{processes:?}");
        for pid in processes {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // An orphan that is dead may still wait for init to take note of it.
            let dead = stat.is_empty() || stat.contains(") Z ");
            assert!(dead, "{pid} still runs: {stat}");
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const CASE: &str = "[[case]]\nname = \"hello\"\ntitle = \"Hello\"\nservers = [\"web\", \"other\"]\n\
    connections = [10, 20]\npath = \"/x\"\npaths = { other = \"/y\" }\n";

fn never() -> bool {
    false
}

#[test]
fn a_suite_runs_in_alternating_order_and_leaves_its_files() {
    let folder = Folder::new("whole");
    let suite = folder.suite(&format!(
        "[feature.wings]\nsays = \"wings\"\ncheck = [\"false\"]\n\
         [[server]]\nname = \"absent\"\ncommand = [\"no-such-program\"]\n{CASE}\
         [[case]]\nname = \"fly\"\ntitle = \"Fly\"\nservers = [\"web\"]\nconnections = [1]\nneeds = \"wings\"\n\
         [[case]]\nname = \"lost\"\ntitle = \"Lost\"\nservers = [\"absent\"]\nconnections = [1]\n\
         [[case]]\nname = \"half\"\ntitle = \"Half\"\nservers = [\"web\", \"absent\"]\nconnections = [5]\n\
         rate = 3000.0\n"
    ));
    let asked: RefCell<Vec<CaseRun>> = RefCell::default();
    let run = |case: &CaseRun| {
        asked.borrow_mut().push(case.clone());
        Ok(sample::outcome(case.connections, 1000.0, 100))
    };
    let results = super::run(&suite, &folder.bench(&run, &never)).unwrap();
    folder.assert_all_stopped(4);
    assert_eq!(results.state, State::Complete);

    let asked = asked.into_inner();
    let (warm, measured): (Vec<_>, Vec<_>) =
        asked.iter().partition(|run| run.purpose == Purpose::WarmUp);
    assert_eq!((warm.len(), measured.len()), (10, 10), "a warm-up before each run");
    assert!(warm.iter().all(|run| run.connections == 10 && run.mode == Mode::Closed));
    let order: String = measured.iter().map(|run| run.url.chars().last().unwrap()).collect();
    assert_eq!(order, "xyyxxyyx//");
    assert_eq!(measured[9].mode, Mode::Open { rate_per_second: 3000.0 });
    assert_eq!(measured[0].extent, Extent::Time(Duration::from_secs(1)));

    let skipped: Vec<Option<&str>> =
        results.cases.iter().map(|case| case.skipped.as_deref()).collect();
    let absent = "no-such-program is not installed";
    assert_eq!(skipped, [None, Some("waiting for wings"), Some(absent), None]);
    assert_eq!(results.cases[3].servers, ["web"]);
    assert_eq!(results.servers[2].skipped.as_deref(), Some(absent));
    let web = &results.servers[0];
    assert_eq!(web.version.as_deref(), Some("web 1.0"));
    let config = web.config.as_deref().unwrap();
    assert!(config.ends_with("host {host};\n") && !config.contains("{port"), "{config}");
    let first = &results.cases[0].runs[0];
    assert!(first.server_cpu_seconds.is_some() && first.noise.load_after > 0.0, "{first:?}");

    let out = folder.0.join("out");
    write(&results, &out).unwrap();
    for name in ["report.md", "report.html", "results.csv", "results.json"] {
        assert!(fs::metadata(out.join(name)).unwrap().len() > 500, "{name}");
    }
    assert_eq!(fs::read_dir(out.join("raw")).unwrap().count(), 10);
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("waiting for wings") && page.contains(absent));
    let same = crate::compare::files(&out.join("results.json"), &out.join("results.json")).unwrap();
    assert_eq!(same.beyond_noise(), 0);
}

#[test]
fn everything_is_stopped_when_runs_fail() {
    let folder = Folder::new("fails");
    let run = |_: &CaseRun| Err("the wire is cut".to_owned());
    let results = super::run(&folder.suite(CASE), &folder.bench(&run, &never)).unwrap();
    folder.assert_all_stopped(4);
    assert_eq!(results.state, State::Failed);
    let failure = results.cases[0].runs[0].failure.as_deref();
    assert_eq!(failure, Some("warm-up: the wire is cut"));
    assert!(crate::report::suite(&results).unwrap().markdown.contains("the wire is cut"));
}

#[test]
fn everything_is_stopped_when_the_load_generator_panics() {
    let folder = Folder::new("panics");
    let run = |_: &CaseRun| panic!("on purpose");
    let suite = folder.suite(CASE);
    let bench = folder.bench(&run, &never);
    let caught =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| super::run(&suite, &bench)));
    assert!(caught.is_err());
    folder.assert_all_stopped(4);
}

#[test]
fn ctrl_c_ends_a_suite_after_the_run_that_goes_on() {
    let folder = Folder::new("stops");
    let count = RefCell::new(0);
    let run = |case: &CaseRun| {
        *count.borrow_mut() += 1;
        Ok(Outcome { interrupted: true, ..sample::outcome(case.connections, 1.0, 100) })
    };
    let stopped = || *count.borrow() >= 2;
    let results = super::run(&folder.suite(CASE), &folder.bench(&run, &stopped)).unwrap();
    folder.assert_all_stopped(4);
    assert_eq!(results.state, State::Interrupted);
    assert_eq!(results.cases[0].runs.len(), 1);
}

#[test]
fn a_server_that_dies_is_said_with_its_last_words() {
    let folder = Folder::new("dies");
    let suite = folder.suite(
        "[[server]]\nname = \"bad\"\ncommand = [\"sh\", \"-c\", \"echo no such option >&2; exit 3\"]\n\
         [[server]]\nname = \"moody\"\ncommand = [\"sh\", \"-c\", \"exec sleep 600\"]\n\
         ready = { within = \"200ms\" }\n\
         [[server]]\nname = \"above\"\ncommand = [\"sh\"]\nuses = [\"bad\"]\n\
         [[case]]\nname = \"a\"\ntitle = \"A\"\nservers = [\"bad\", \"moody\"]\nconnections = [1]\n\
         [[case]]\nname = \"b\"\ntitle = \"B\"\nservers = [\"above\"]\nconnections = [1]\n",
    );
    let run = |_: &CaseRun| Ok(sample::outcome(1, 1.0, 100));
    let results = super::run(&suite, &folder.bench(&run, &never)).unwrap();
    assert_eq!(results.state, State::Failed);
    let said = |index: usize| results.cases[index].skipped.clone().unwrap();
    assert!(said(0).contains("ended at once; its last words: no such option"), "{}", said(0));
    assert!(said(1).contains("bad did not start"), "{}", said(1));
    let moody = results.servers[3].skipped.as_deref().unwrap();
    assert!(moody.contains("not ready in 200ms"), "{moody}");
}

#[test]
fn mistakes_are_shown_with_their_line() {
    let good = "name = \"t\"\ntitle = \"T\"\nrounds = { short = 1, full = 1 }\n\
        duration = { short = \"1s\", full = \"1s\" }\n\
        warm_up = { connections = 1, short = \"1s\", full = \"1s\" }\n\
        [[server]]\nname = \"a\"\ncommand = [\"a\"]\n\
        [[case]]\nname = \"c\"\ntitle = \"C\"\nservers = [\"a\"]\nconnections = [1]\n";
    assert!(parse("t.toml", good, Path::new(".")).is_ok());
    let rows = [
        ("servers = [\"a\"]", "servers = [\"a\", \"b\"]", "there is no server `b`", "^^^"),
        ("connections = [1]", "connections = [0]", "1 or more", "^^^"),
        ("connections = [1]", "connections = [1]\nneeds = \"x\"", "no feature `x`", "^^^"),
        ("connections = [1]", "connections = [1]\nrate = -1.0", "above zero", "^^^^"),
        ("connections = [1]", "connections = [1]\nstreams = 9", "streams are of HTTP/2", "^"),
        (
            "connections = [1]",
            "connections = [1]\nprotocol = \"http/2\"\nstreams = 0",
            "1 or more",
            "^",
        ),
        ("connections = [1]", "connections = [1]\nprotocol = \"http/3\"", "http/3", "^^^"),
        (
            "connections = [1]",
            "connections = [1]\nhandshakes = \"full\"",
            "`a` is asked without TLS",
            "^^^",
        ),
        ("title = \"T\"", "titel = \"T\"", "unknown field `titel`", "^^^^^"),
        ("short = \"1s\"", "short = \"1h\"", "`1h` is no duration", "^^^^"),
        ("command = [\"a\"]", "command = []", "needs a program", "^^"),
        ("command = [\"a\"]", "command = [\"a\"]\nconfig = \"none\"", "there is no file", "^^^"),
        ("command = [\"a\"]", "command = [\"a\"]\ncpus = \"x\"", "a set of CPUs", "^^^"),
        ("command = [\"a\"]", "command = [\"a\"", "", "^"),
        (
            "command = [\"a\"]",
            "command = [\"a\"]\nurl = \"http://example.com/\"",
            "`http://example.com/` is not on this machine",
            "^^^^",
        ),
        (
            "[[case]]",
            "[[server]]\nname = \"a\"\ncommand = [\"a\"]\n[[case]]",
            "`a` stands here twice",
            "^",
        ),
    ];
    for (from, to, message, carets) in rows {
        let error = parse("t.toml", &good.replacen(from, to, 1), Path::new(".")).unwrap_err();
        assert!(error.contains(message) && error.contains(carets), "{to}: {error}");
        assert!(error.contains("--> t.toml:"), "{to}: {error}");
    }
    let error = parse("t.toml", &good.replace("[\"a\"]\nconn", "[\"b\"]\nconn"), Path::new("."));
    assert_eq!(
        error.unwrap_err(),
        "error: there is no server `b`\n  --> t.toml:12:12\n   |\n12 | servers = [\"b\"]\n   \
         |            ^^^\n"
    );
}

#[test]
fn load_leaves_this_machine_under_no_name() {
    let rows = [
        ("http://127.0.0.1:{port}", true),
        ("http://127.1.2.3/x", true),
        ("https://[::1]:1/", true),
        ("redis://localhost:1", true),
        ("unix:/run/x.sock", true),
        ("http://10.0.0.1/", false),
        ("http://127.0.0.1@example.com/", false),
        ("http://127.0.0.1.example.com/", false),
        ("http://example.com/127.0.0.1", false),
        ("http://[2001:db8::1]/", false),
        ("http://{port}", false),
        ("", false),
    ];
    for (url, allowed) in rows {
        assert_eq!(file::is_loopback(url), allowed, "{url}");
    }
}

#[test]
fn the_suites_of_this_project_are_sound() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/suites");
    for name in ["gate", "gateway-go", "silly", "pingap", "infini"] {
        let suite =
            load(&folder.join(format!("{name}.toml"))).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(suite.name, name);
        assert!(!suite.cases.is_empty());
    }
}
