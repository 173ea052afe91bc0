//! The table of byte scripts against the running program: all at once, and in small pieces.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::path::Path;

use sluice_acceptance::{config, upstream};
use sluice_testkit::case::{self, Case, Check, Outcome, Step, Then};
use sluice_testkit::{
    Asked, ByteScript, Failure, Malformed, Origin, Response, Sluice, State, behaviour,
};

const ROUTES: &str = r#"
[[route]]
path = "/"
respond = { status = 200, headers = { content-type = "text/plain" }, body = "Hello, World!" }

[[route]]
path = "/empty"
respond = { status = 204 }

[[route]]
path = "/get-only"
method = ["GET", "HEAD"]
respond = { status = 200, body = "got" }

[[route]]
host = "one.test"
path = "/who"
respond = { status = 200, body = "one" }

[[route]]
host = "two.test"
path = "/who"
respond = { status = 200, body = "two" }

[[route]]
path = "/echo"
proxy = "mirror"

[[route]]
path = "/small"
body_limit = "16B"
proxy = "mirror"

[[route]]
path = "/chunked"
proxy = "chunked"

[[route]]
path = "/upgrade"
proxy = "upgrade"
"#;

struct Stage {
    mirror: Origin,
    // Held for as long as the gateway runs.
    _others: [Origin; 2],
    sluice: Sluice,
}

impl Stage {
    fn set() -> Self {
        let mirror = Origin::start(behaviour::mirror);
        let chunked = Origin::start(behaviour::chunked(&["one", "two"], &[]));
        let upgrade = Origin::start(behaviour::upgrade_echo);
        let upstreams = upstream("mirror", mirror.address())
            + &upstream("chunked", chunked.address())
            + &upstream("upgrade", upgrade.address());
        // A port that speaks HTTP/1.1 alone: the preface of HTTP/2 is among the scripts.
        let web = "name = \"web\"\n";
        let alone = format!("{web}http2 = {{ enabled = false }}\n");
        let sluice = Sluice::start(&config(&(upstreams + ROUTES)).replacen(web, &alone, 1));
        Self { mirror, _others: [chunked, upgrade], sluice }
    }
}

/// How the bytes of a step are put into writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Whole,
    Pieces,
}

#[test]
fn every_script_sent_at_once() {
    play_all(Pace::Whole);
}

#[test]
fn every_script_sent_in_pieces() {
    play_all(Pace::Pieces);
}

#[test]
fn the_table_is_large() {
    let cases = table();
    assert!(cases.len() >= 200, "{} cases", cases.len());
    let mut names: Vec<String> =
        cases.iter().map(|(file, case)| format!("{file}: {}", case.name)).collect();
    names.sort();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

fn table() -> Vec<(String, Case)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bytes");
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let read = case::parse(&text).unwrap_or_else(|why| panic!("{file}: {why}"));
        cases.extend(read.into_iter().map(|case| (file.clone(), case)));
    }
    cases
}

fn play_all(pace: Pace) {
    let stage = Stage::set();
    let web = stage.sluice.address("web");
    let mut failures = Vec::new();
    let cases = table();
    for (file, case) in &cases {
        if let Err(why) = play(&web, &stage.mirror, case, pace) {
            failures
                .push(format!("{file}:{} {}\n    {why}\n    {}", case.line, case.name, case.why));
        }
        // Each that hangs costs the full patience: enough is enough.
        let hanging = failures.iter().filter(|failure| failure.contains("in time")).count();
        if hanging >= 4 {
            failures.push("... the rest was not tried".to_owned());
            break;
        }
    }
    let words = stage.sluice.stderr().join("\n");
    assert!(!words.contains("panicked at"), "{words}");
    assert!(
        failures.is_empty(),
        "{} of {} scripts failed ({pace:?}):\n{}\n{words}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
    stage.sluice.stop();
}

fn play(web: &str, origin: &Origin, case: &Case, pace: Pace) -> Result<(), String> {
    let before = origin.complete_requests();
    let mut script = ByteScript::connect(web);
    for step in &case.steps {
        match (step, pace) {
            (Step::Send(bytes), Pace::Whole) => drop(script.send(bytes)),
            (Step::Send(bytes), Pace::Pieces) => {
                // Every boundary of a short script; of a long one only some.
                let size = if bytes.len() < 1500 { 1 } else { 997 };
                script.send_pieces(bytes, size);
            }
            (Step::Shut, _) => drop(script.finish_sending()),
            (Step::Continue, _) => await_continue(&mut script)?,
        }
    }
    let (ends, answers) = read_answers(&mut script, case)?;
    for (index, check) in &case.checks {
        if let Some(answer) = answers.get(*index) {
            examine(answer, check).map_err(|why| format!("answer {}: {why}", index + 1))?;
        }
    }
    check_end(&mut script, &ends, pace)?;
    let complaints = origin.complaints();
    if !complaints.is_empty() {
        return Err(format!("the origin was sent nonsense: {complaints:?}"));
    }
    let reached = origin.complete_requests() - before;
    match case.origin {
        Some(count) if count != reached => {
            Err(format!("{reached} complete requests reached the origin instead of {count}"))
        }
        _ => Ok(()),
    }
}

fn await_continue(script: &mut ByteScript) -> Result<(), String> {
    let interim = script.read_until(b"\r\n\r\n").map_err(|failure| failure.to_string())?;
    let text = String::from_utf8_lossy(&interim);
    if text.starts_with("HTTP/1.1 100 ") { Ok(()) } else { Err(format!("no 100: {text:?}")) }
}

/// Reads answers for as long as an outcome that fits so far wants more of them; also the ends that still fit.
fn read_answers(
    script: &mut ByteScript,
    case: &Case,
) -> Result<(Vec<Then>, Vec<Response>), String> {
    let mut fitting: Vec<&Outcome> = case.outcomes.iter().collect();
    let mut answers = Vec::new();
    while fitting.iter().any(|outcome| outcome.statuses.len() > answers.len()) {
        let index = answers.len();
        match script.read_response(case.asked(index)) {
            Ok(answer) => {
                let status = answer.status;
                fitting.retain(|outcome| outcome.statuses.get(index) == Some(&status));
                if fitting.is_empty() {
                    return Err(format!("answer {} is {status}", index + 1));
                }
                answers.push(answer);
            }
            Err(Failure::Ended(state, rest)) if rest.is_empty() => {
                let end = if state == State::Reset { Then::Reset } else { Then::Closed };
                fitting.retain(|outcome| outcome.statuses.len() == index && outcome.then == end);
                if fitting.is_empty() {
                    return Err(format!("{state:?} after {index} answers"));
                }
            }
            Err(failure) => return Err(failure.to_string()),
        }
    }
    let ends: Vec<Then> = fitting.iter().map(|outcome| outcome.then).collect();
    if ends.is_empty() { Err("no outcome fits".to_owned()) } else { Ok((ends, answers)) }
}

fn examine(answer: &Response, check: &Check) -> Result<(), String> {
    let well = match check {
        Check::Has(name, value) => answer.fields.all(name).any(|v| v.eq_ignore_ascii_case(value)),
        Check::Lacks(name) => answer.fields.first(name).is_none(),
        Check::Body(body) => answer.body == *body,
        Check::Interim(statuses) => answer.interim.iter().map(|i| i.status).eq(statuses.clone()),
    };
    if well { Ok(()) } else { Err(format!("{check:?} does not hold for {answer:?}")) }
}

fn check_end(script: &mut ByteScript, ends: &[Then], pace: Pace) -> Result<(), String> {
    if ends.contains(&Then::Tunnel) {
        return Ok(());
    }
    if ends.contains(&Then::Open) {
        return match probe(script) {
            // Whether an end was on its way is only known once something was asked.
            Err(Failure::Ended(_, rest)) if rest.is_empty() && ends.contains(&Then::Closed) => {
                Ok(())
            }
            outcome => outcome.map_err(|why| format!("not open: {why}")),
        };
    }
    let state = script.wait_for_end();
    if !script.unread().is_empty() {
        return Err(format!("more than was asked for: {:?}", script.unread().escape_ascii()));
    }
    match state {
        State::Open => Err("not closed in time".to_owned()),
        State::Closed if ends.contains(&Then::Closed) => Ok(()),
        State::Reset if ends.contains(&Then::Reset) => Ok(()),
        // Bytes were still on their way when the answer came; only then may a close become a reset.
        State::Reset if pace == Pace::Pieces => Ok(()),
        state => Err(format!("{state:?} instead of {ends:?}")),
    }
}

/// An open connection is one that answers a further request, and with the answer to that request.
fn probe(script: &mut ByteScript) -> Result<(), Failure> {
    script.send("GET / HTTP/1.1\r\nHost: probe.test\r\nConnection: close\r\n\r\n");
    let answer = script.read_response(Asked::Get)?;
    let after = script.wait_for_end();
    let in_step = answer.status == 200 && answer.body == b"Hello, World!";
    if in_step && after == State::Closed && script.unread().is_empty() {
        return Ok(());
    }
    let why = format!("out of step: {after:?} after {answer:?}");
    Err(Failure::Malformed(Malformed(why), script.unread().to_owned()))
}
