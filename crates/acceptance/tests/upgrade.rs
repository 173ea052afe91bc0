//! A new process of the program takes over from the one that runs.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use sluice_acceptance::load::{Wrk, bench};
use sluice_acceptance::{PREAMBLE, config, eventually, metric, upstream};
use sluice_testkit::{
    Asked, ByteScript, Finished, Gate, Origin, Scratch, Signal, Sluice, State, behaviour, binary,
    get, run,
};

const ROUTE: &str = "[[route]]\npath = \"/*\"\nrespond = \"hello\"\n";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// `sluice upgrade` of the running process.
fn ask(sluice: &Sluice) -> Finished {
    run(&["upgrade", "--pid", &sluice.pid().to_string()], "")
}

/// The process that goes may go while it is asked: no answer is one that is not there yet.
fn shows(sluice: &Sluice, sample: &str, value: u64) -> bool {
    eventually(|| {
        let mut script = ByteScript::connect(&sluice.admin());
        let page =
            script.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let Ok(page) = page.read_response(Asked::Get) else { return false };
        let text = page.text();
        text.lines().any(|line| {
            let shown = line.strip_prefix(sample).and_then(|rest| rest.trim().parse::<u64>().ok());
            shown == Some(value)
        })
    })
}

/// A copy of the program that the test may replace.
fn copied(config: &str) -> Sluice {
    Sluice::start_by(config, |scratch| {
        let copy = scratch.path().join("sluice");
        std::fs::copy(binary(), &copy).unwrap();
        let mut program = Command::new(copy);
        program.stdin(Stdio::null());
        program
    })
}

/// Replaces the program as an installation does: by another file of its name.
fn install(scratch: &Scratch, content: &[u8], mode: u32) {
    let fresh = scratch.write("sluice.new", content);
    std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(mode)).unwrap();
    std::fs::rename(fresh, scratch.path().join("sluice")).unwrap();
}

#[test]
fn upgrades_in_a_row_lose_nothing_under_load() {
    let text = config(ROUTE).replace(
        "access = \"off\"",
        "access = \"{request.target} {response.status}\"\nfile = \"access.log\"",
    );
    let mut sluice = Sluice::start(&format!("workers = 2\n{text}"));
    let web = sluice.address("web");
    let wrk = Wrk::start(&["-t1", "-c8", "-d8s"], &format!("http://{web}/wrk"));
    let url = format!("http://{web}/open");
    let open =
        std::thread::spawn(move || bench(&["-c", "8", "--rate", "300/s", "-n", "2400", &url]));
    for count in 1..=4 {
        let mark = sluice.words().mark();
        let said = ask(&sluice);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.stdout.contains("has taken the place of"), "{said:?}");
        sluice.follow_upgrade(mark);
        assert_eq!(sluice.address("web"), web);
        // The old process may still answer for a moment.
        assert!(shows(&sluice, "sluice_upgrades_total{result=\"ok\"}", count), "counted on");
    }
    open.join().unwrap().assert_good(2400.0);
    wrk.assert_good();
    let log = std::fs::read_to_string(sluice.scratch().path().join("access.log"));
    assert_eq!(sluice.wait_for_exit(), Some(0));
    // Two processes write one file: every line is whole. wrk hangs up in the middle of its last requests.
    for line in log.unwrap().lines() {
        assert!(["/wrk 200", "/open 200", "/wrk 499", "- 499"].contains(&line), "{line:?}");
    }
    sluice.stop();
}

#[test]
fn a_download_ends_where_it_began() {
    let gate = Gate::new();
    let origin = Origin::start(behaviour::gated(gate.clone(), behaviour::fixed(200, "whole")));
    let route = "[[route]]\npath = \"/slow\"\nproxy = \"slow\"\n";
    let mut sluice = Sluice::start(&config(&(upstream("slow", origin.address()) + route + ROUTE)));
    let web = sluice.address("web");
    let mut busy = ByteScript::connect(&web);
    busy.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(origin.wait_for_requests(1));
    let mut idle = ByteScript::connect(&web);
    idle.send(GET).read_response(Asked::Get).unwrap();
    sluice.upgrade();
    assert_eq!(get(&web, "/").text(), "hello");
    assert_eq!(idle.wait_for_end(), State::Closed);
    assert_eq!(get(&sluice.admin(), "/readyz").status, 200);
    gate.open();
    assert_eq!(busy.read_response(Asked::Get).unwrap().text(), "whole");
    drop(busy);
    assert_eq!(sluice.wait_for_exit(), Some(0));
    assert_eq!(get(&web, "/").text(), "hello");
    sluice.stop();
}

#[test]
fn a_program_that_does_not_start_leaves_the_old_one_serving() {
    let mut sluice = copied(&format!("upgrade_timeout = \"2s\"\n{PREAMBLE}{ROUTE}"));
    let (web, admin, pid) = (sluice.address("web"), sluice.admin(), sluice.pid());
    let rows: [(&[u8], u32, &str); 4] = [
        (b"#!/bin/sh\nexit 7\n", 0o755, "exit code 7"),
        (b"#!/bin/sh\nkill -SEGV $$\n", 0o755, "signal: 11"),
        (b"#!/bin/sh\nexit 1\n", 0o644, "ermission denied"),
        (b"#!/bin/sh\nexec sleep 60\n", 0o755, "not ready within 2s"),
    ];
    for (at, (program, mode, expected)) in (1..).zip(rows) {
        install(sluice.scratch(), program, mode);
        let said = ask(&sluice);
        assert_eq!(said.code, Some(3), "{said:?}");
        assert!(said.stderr.contains(expected), "{expected} in {said:?}");
        assert!(said.stderr.contains(&format!("process {pid} goes on")), "{said:?}");
        assert_eq!(get(&web, "/").text(), "hello");
        assert_eq!(metric(&admin, "sluice_upgrades_total{result=\"failed\"}"), at);
        assert!(
            sluice.stderr().iter().any(|line| line.contains(expected)),
            "{:?}",
            sluice.stderr()
        );
    }
    install(sluice.scratch(), &std::fs::read(binary()).unwrap(), 0o755);
    let mark = sluice.words().mark();
    let said = ask(&sluice);
    assert_eq!(said.code, Some(0), "{said:?}");
    sluice.follow_upgrade(mark);
    for (result, count) in [("failed", 4), ("ok", 1)] {
        let sample = format!("sluice_upgrades_total{{result=\"{result}\"}}");
        assert!(shows(&sluice, &sample, count));
    }
    assert_eq!(get(&web, "/").text(), "hello");
    sluice.stop();
}

#[test]
fn a_configuration_that_cannot_be_used_is_told() {
    let sluice = Sluice::start(&config(ROUTE));
    let web = sluice.address("web");
    sluice.reload(&config("[[route]]\npth = \"/\"\nrespond = \"x\"\n"));
    let said = ask(&sluice);
    assert_eq!(said.code, Some(3), "{said:?}");
    for part in ["sluice.toml:12:1", "pth", "exit code 1"] {
        assert!(said.stderr.contains(part), "{part} in {said:?}");
    }
    assert_eq!(get(&web, "/").text(), "hello");
    // Sockets that cannot be opened are another reason.
    let holder = Origin::start(behaviour::fixed(200, "mine"));
    let taken = format!("[[listener]]\nname = \"more\"\naddress = \"{}\"\n", holder.address());
    sluice.reload(&config(&(taken + ROUTE)));
    let said = ask(&sluice);
    assert!(said.stderr.contains("cannot listen on"), "{said:?}");
    assert_eq!(get(&web, "/").text(), "hello");
    sluice.stop();
}

#[test]
fn the_file_of_a_unix_socket_goes_with_the_last_process() {
    let file = "[[listener]]\nname = \"file\"\naddress = \"unix:web.sock\"\n";
    let mut sluice = Sluice::start(&config(&(file.to_owned() + ROUTE)));
    let path = sluice.scratch().path().join("web.sock");
    let address = format!("unix:{}", path.display());
    for _ in 0..3 {
        sluice.upgrade();
        assert_eq!(get(&address, "/").text(), "hello");
    }
    assert_eq!(sluice.wait_for_exit(), Some(0));
    assert!(path.exists());
    // Taken away by a reload of the new process, and back.
    sluice.reload(&config(ROUTE));
    assert!(eventually(|| !path.exists()));
    sluice.reload(&config(&(file.to_owned() + ROUTE)));
    // A look at the file that came due during an upgrade is passed on as a reload, and its line may be taken for ours.
    assert!(eventually(|| UnixStream::connect(&path).is_ok()));
    assert_eq!(get(&address, "/").text(), "hello");
    sluice.stop();
    assert!(!path.exists());
}

#[test]
fn every_queue_is_served_whatever_the_number_of_workers() {
    let with = |workers: u32| format!("workers = {workers}\n{PREAMBLE}{ROUTE}");
    let mut sluice = Sluice::start(&with(4));
    let web = sluice.address("web");
    for workers in [1, 3, 2, 4] {
        sluice.reload(&with(workers));
        sluice.upgrade();
        assert!(shows(&sluice, "sluice_workers", u64::from(workers)));
        // Each comes into one queue or another by a hash.
        let mut clients: Vec<_> = (0..64).map(|_| ByteScript::connect(&web)).collect();
        for client in &mut clients {
            client.send(GET);
        }
        for client in &mut clients {
            assert_eq!(client.read_response(Asked::Get).unwrap().status, 200, "{workers}");
        }
    }
    sluice.stop();
}

#[test]
fn listeners_that_changed_come_and_go() {
    let extra = "[[listener]]\nname = \"extra\"\naddress = \"127.0.0.1:0\"\n";
    let mut sluice = copied(&config(&(extra.to_owned() + ROUTE)));
    let (web, old) = (sluice.address("web"), sluice.address("extra"));
    // The new program is called with another file: the running one does not know of it.
    let other =
        sluice.scratch().write("other.toml", config(&extra.replace("extra", "more")) + ROUTE);
    let script = format!("#!/bin/sh\nexec {} run -c {}\n", binary().display(), other.display());
    install(sluice.scratch(), script.as_bytes(), 0o755);
    sluice.upgrade();
    // Its own words may come a little later than those of the old one.
    sluice.wait_for_line("(more)");
    let more = sluice.address("more");
    assert_ne!(more, old);
    assert_eq!(get(&more, "/").text(), "hello");
    assert_eq!(get(&web, "/").text(), "hello");
    assert_eq!(sluice.wait_for_exit(), Some(0));
    assert!(sluice_testkit::Stream::connect(&old).is_err(), "nobody wants it any more");
    sluice.stop();
}

#[test]
fn signals_meanwhile_have_their_effect_once() {
    let slow = b"#!/bin/sh\nread line < go\nexec \"$PROGRAM\" \"$@\"\n";
    let mut sluice = Sluice::start_by(&config(ROUTE), |scratch| {
        let [copy, next] = ["sluice", "next"].map(|name| scratch.path().join(name));
        std::fs::copy(binary(), &copy).unwrap();
        std::fs::copy(binary(), &next).unwrap();
        let made = Command::new("mkfifo").arg(scratch.path().join("go")).status().unwrap();
        assert!(made.success());
        let mut program = Command::new(copy);
        program.stdin(Stdio::null()).env("PROGRAM", next);
        program
    });
    install(sluice.scratch(), slow, 0o755);
    let mark = sluice.words().mark();
    sluice.signal(Signal::Upgrade);
    sluice.wait_for_line("upgrading: process");
    sluice.signal(Signal::Upgrade);
    sluice.wait_for_line("an upgrade is under way already");
    sluice.signal(Signal::Reload);
    sluice.wait_for_line("the reload waits");
    let web = sluice.address("web");
    assert_eq!(get(&web, "/").text(), "hello");
    std::fs::write(sluice.scratch().path().join("go"), "go\n").unwrap();
    sluice.follow_upgrade(mark);
    // Done by the new process.
    sluice.wait_for_line("reloaded sluice.toml (generation 2, asked for)");
    assert_eq!(sluice.wait_for_exit(), Some(0));

    // Told to stop, it takes the one that was to take over along, which is slow again.
    let scratch = sluice.scratch().path();
    std::fs::rename(scratch.join("sluice"), scratch.join("next")).unwrap();
    let mark = sluice.words().mark();
    sluice.signal(Signal::Upgrade);
    let line = sluice.words().wait_after(mark, "upgrading: process ").unwrap();
    let next = line.split(' ').find_map(|word| word.parse::<u32>().ok()).unwrap();
    // A program that is just being loaded has no arguments yet.
    assert!(eventually(|| runs(next)));
    sluice.stop();
    assert!(eventually(|| !runs(next)), "process {next} is left");
}

/// Whether there is such a process; what has ended and is not waited for has no arguments any more.
fn runs(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|arguments| !arguments.is_empty())
}

/// Starts the program as a service manager does: with a socket as descriptor 3.
fn activated(config: &str, socket: impl Into<std::os::fd::OwnedFd>) -> Sluice {
    const LAUNCHER: &str = "exec 3<&0 </dev/null\n\
                            LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web exec \"$0\" \"$@\"";
    let socket = socket.into();
    Sluice::start_by(config, |_| {
        let mut program = Command::new("sh");
        program.args(["-c", LAUNCHER]).arg(binary()).stdin(Stdio::from(socket));
        program
    })
}

#[test]
fn sockets_of_a_service_manager_are_used_and_passed_on() {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let with = |listener: &str| {
        let rest = config(ROUTE).replacen("127.0.0.1:0", "off", 1);
        format!("workers = 2\n{}", rest.replace("address = \"127.0.0.1:0\"", listener))
    };
    let listener = format!("address = \"{address}\"");
    // Ours is what the service manager keeps; a bound one would be refused: it is in use.
    let mut sluice = activated(&with(&listener), socket.try_clone().unwrap());
    let answered = || (0..16).all(|_| get(&address, "/").text() == "hello");
    assert!(answered());
    for _ in 0..2 {
        sluice.upgrade();
        assert!(answered());
    }
    assert_eq!(sluice.wait_for_exit(), Some(0));
    // Not wanted for a while: the socket stays, and is there when it is wanted again.
    sluice.reload(&with("address = \"127.0.0.1:0\""));
    sluice.upgrade();
    sluice.reload(&with(&listener));
    assert!(answered());
    sluice.stop();
}

#[test]
fn a_file_of_a_service_manager_stays() {
    let scratch = Scratch::new();
    let path = scratch.path().join("web.sock");
    let socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let address = format!("unix:{}", path.display());
    let text = config(ROUTE).replace(
        "[[route]]",
        &format!("[[listener]]\nname = \"file\"\naddress = \"{address}\"\n[[route]]"),
    );
    let mut sluice = activated(&text, socket);
    assert_eq!(get(&address, "/").text(), "hello");
    sluice.upgrade();
    assert_eq!(get(&address, "/").text(), "hello");
    assert_eq!(sluice.wait_for_exit(), Some(0));
    sluice.stop();
    assert!(path.exists());
}

#[test]
fn the_service_manager_is_told_who_is_in_charge() {
    let scratch = Scratch::new();
    let path = scratch.path().join("notify.sock");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(sluice_testkit::PATIENCE)).unwrap();
    let told = || {
        let mut buffer = [0; 256];
        let count = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    };
    let mut sluice = Sluice::start_by(&config(ROUTE), |_| {
        let mut program = Command::new(binary());
        program.stdin(Stdio::null()).env("NOTIFY_SOCKET", &path);
        program
    });
    assert_eq!(told(), "READY=1");
    sluice.upgrade();
    let mut both = [told(), told()];
    both.sort();
    assert_eq!(both, [format!("MAINPID={}", sluice.pid()), "READY=1".to_owned()]);
    sluice.signal(Signal::Drain);
    // Of the new one: the old one is no longer the service.
    assert_eq!(told(), "STOPPING=1");
    sluice.stop();
}

#[test]
fn a_pid_file_follows() {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let scratch = Scratch::new();
    let path = scratch.path().join("sluice.pid");
    let file = path.display().to_string();
    let listen = ["run", "--respond", "x", "--listen", "127.0.0.1:0", "--pid-file", &file];
    let mut sluice = Sluice::try_start_with(&listen).unwrap();
    assert_eq!(read(&path), sluice.pid().to_string());
    let mark = sluice.words().mark();
    let said = run(&["upgrade", "--pid-file", &file], "");
    assert_eq!(said.code, Some(0), "{said:?}");
    sluice.follow_upgrade(mark);
    assert!(eventually(|| read(&path) == sluice.pid().to_string()));
    sluice.stop();
    assert!(!path.exists());
}

#[test]
fn what_is_no_gateway_is_left_alone() {
    let mut other = Command::new("sleep").arg("60").spawn().unwrap();
    let said = run(&["upgrade", "--pid", &other.id().to_string()], "");
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.stderr.contains("does not know upgrades"), "{said:?}");
    assert_eq!(other.try_wait().unwrap(), None);
    other.kill().unwrap();
    other.wait().unwrap();
    let said = run(&["upgrade", "--pid-file", "/nowhere"], "");
    assert!(said.stderr.contains("/nowhere: cannot read it"), "{said:?}");
}
