//! The action `lua`: a function of a script answers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sluice_acceptance::filters::{ask, ask_both};
use sluice_acceptance::{config, eventually};
use sluice_testkit::Sluice;

/// One worker with a route of this script.
fn with(script: &str, rest: &str) -> String {
    let rest = config(&format!(
        "[[route]]\npath = \"/{{name}}\"\n[route.lua]\nscript = '''\n{script}\n'''\n{rest}"
    ));
    format!("workers = 1\n{rest}")
}

#[test]
fn a_function_answers() {
    let script = r#"
        local calls = {}
        function calls.table()
            respond { status = 201, headers = { ["content-type"] = "a/b", ["x-a"] = { "1", "2" } }, body = 7 }
        end
        function calls.status() respond(404, "not here\n") end
        function calls.empty() respond { status = 204 } end
        function calls.echo(request) respond(request.method .. " " .. (request:body(20) or "too large")) end
        function calls.error() error("broken") end
        function calls.nothing() end
        function calls.loop() while true do end end
        function calls.sleep() require("silly.time").sleep(1) respond("woken") end
        function answer(request) calls[request:capture("name")](request) end
    "#;
    let gateway = Sluice::start(&with(script, ""));
    let text = "text/plain; charset=utf-8";
    let failed = "500 Internal Server Error: a script failed\n";
    let rows: [(&str, &[&str], u16, &str, &str); 10] = [
        ("/table", &[], 201, "a/b", "7"),
        ("/status", &[], 404, text, "not here\n"),
        ("/empty", &[], 204, "", ""),
        ("/echo", &["-d", "abc"], 200, text, "POST abc"),
        ("/echo", &["-d", "0123456789012345678901"], 200, text, "POST too large"),
        ("/echo", &[], 200, text, "GET "),
        ("/sleep", &[], 200, text, "woken"),
        ("/error", &[], 500, text, failed),
        ("/nothing", &[], 500, text, failed),
        ("/loop", &[], 500, text, failed),
    ];
    for (path, options, status, media, content) in rows {
        let reply = ask_both(&gateway, path, options, &["content-type", "x-a"]);
        assert_eq!((reply.status, reply.content.as_str()), (status, content), "{path}");
        assert_eq!(reply.value("content-type"), media, "{path}");
    }
    assert_eq!(ask(&gateway, "/table", &[]).values("x-a"), ["1", "2"]);
    assert_eq!(ask(&gateway, "/table", &["-I"]).status, 201);
    for words in ["\"/{name}\":9: broken", "returned without an answer", "(budget)"] {
        gateway.wait_for_line(words);
    }
    gateway.stop();
}

#[test]
fn what_a_script_knows_outlives_reloads_that_do_not_change_it() {
    let counter = |word: &str| {
        format!("local n = 0\nfunction answer() n = n + 1 respond('{word} ' .. n) end")
    };
    let gateway = Sluice::start(&with(&counter("a"), ""));
    let say = || ask(&gateway, "/x", &[]).content;
    assert_eq!((say(), say()), ("a 1".to_owned(), "a 2".to_owned()));
    let more = "[[route]]\npath = \"/y/z\"\nrespond = \"y\"\n";
    gateway.reload(&with(&counter("a"), more));
    assert!(eventually(|| ask(&gateway, "/y/z", &[]).content == "y"));
    assert_eq!(say(), "a 3");
    gateway.reload(&with(&counter("b"), ""));
    assert!(eventually(|| say().starts_with("b ")));
    let mark = gateway.words().mark();
    gateway.rewrite(&with("x = 1", ""));
    gateway.signal(sluice_testkit::Signal::Reload);
    assert!(gateway.words().wait_after(mark, "it has no function answer").is_some());
    assert!(say().starts_with("b "));
    gateway.stop();
}

#[test]
fn the_file_of_a_script_is_watched() {
    let text = config("[[route]]\nlua = { file = \"answer.lua\" }\n");
    let gateway = Sluice::start_by(&text, |scratch| {
        scratch.write("answer.lua", "function answer() respond('first') end");
        let mut command = std::process::Command::new(sluice_testkit::binary());
        command.current_dir(scratch.path());
        command
    });
    assert_eq!(ask(&gateway, "/", &[]).content, "first");
    for (script, outcome, answer) in [
        ("function answer() respond('second') end", "reloaded sluice.toml", "second"),
        ("function answer( respond", "reload failed: route", "second"),
        ("function answer() respond('third') end", "reloaded sluice.toml", "third"),
    ] {
        let mark = gateway.words().mark();
        let fresh = gateway.scratch().write("fresh", script);
        std::fs::rename(fresh, gateway.scratch().path().join("answer.lua")).unwrap();
        let line = gateway.words().wait_after(mark, "a script changed)").unwrap();
        assert!(line.contains(outcome), "{line}");
        assert_eq!(ask(&gateway, "/", &[]).content, answer);
    }
    gateway.stop();
}
