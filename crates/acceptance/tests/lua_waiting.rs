//! Scripts of the gateway that wait, in every phase, and that ask upstreams themselves.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sluice_acceptance::filters::{ask, ask_both, ask_http2};
use sluice_acceptance::{config, metric};
use sluice_testkit::{Asked, ByteScript, Origin, Sluice, behaviour};

fn outcomes(gateway: &Sluice, outcome: &str) -> u64 {
    let labels = format!("{{filter=\"it\",outcome=\"{outcome}\"}}");
    metric(&gateway.admin(), &format!("sluice_filter_outcomes_total{labels}"))
}

/// One worker with a filter `it` of this script before routes of all kinds.
fn gateway(origin: &Origin, script: &str) -> Sluice {
    let text = config(&format!(
        "[upstream.origin]\nservers = [\"{0}\"]\n\
         [upstream.nobody]\nservers = [\"127.0.0.1:1\"]\n\
         [filter.mark.headers]\nresponse.set = {{ x-outer = \"{{response.header.x-waited}}\" }}\n\
         [filter.it.lua]\nscript = '''\n{script}\n'''\n\
         [[route]]\npath = \"/own\"\nrespond = \"own content\"\nfilters = [\"mark\", \"it\"]\n\
         [[route]]\npath = \"/dead\"\nproxy = \"http://127.0.0.1:1\"\nfilters = [\"mark\", \"it\"]\n\
         [[route]]\npath = \"/*\"\nproxy = \"origin\"\nfilters = [\"mark\", \"it\"]\n",
        origin.address()
    ));
    Sluice::start(&format!("workers = 1\n{text}"))
}

const WAITS: &str = r#"
    local time = require "silly.time"
    function request_head(request)
        time.sleep(1)
        request:set_header("x-waited", "1")
        if request.path == "/refused" then respond(403, "no entry") end
    end
    function request_body(request)
        time.sleep(1)
        request:set_header("x-content", request.method)
        return function(piece, last)
            time.sleep(1)
            return last and "<end of request>" or piece:upper()
        end
    end
    function response_head(request, response)
        time.sleep(1)
        response:set_header("x-waited", response.source)
        time.sleep(1)
        response:set_header("x-path", request.path)
    end
    function response_body(request, response)
        time.sleep(1)
        local path = request.path
        return function(piece, last)
            time.sleep(1)
            return last and "<end of " .. path .. ">" or piece
        end
    end
"#;

#[test]
fn every_phase_can_wait() {
    let origin = Origin::start(behaviour::echo);
    let gateway = gateway(&origin, WAITS);
    for ask in [ask, ask_http2] {
        let passed = ask(&gateway, "/a", &["-d", "content"]);
        assert_eq!((passed.status, passed.value("x-waited")), (200, "origin"));
        assert_eq!((passed.value("x-outer"), passed.value("x-path")), ("origin", "/a"));
        for part in ["x-waited: 1", "x-content: POST", "CONTENT<end of request>", "<end of /a>"] {
            assert!(passed.content.contains(part), "{part}: {passed:?}");
        }
    }
    let rows = [
        ("/own", 200, "gateway", "own content"),
        ("/refused", 403, "gateway", "no entry"),
        ("/dead", 502, "fault", "502 Bad Gateway"),
    ];
    for (path, status, source, content) in rows {
        let reply = ask_both(&gateway, path, &[], &["x-waited", "x-outer", "x-path"]);
        assert_eq!((reply.status, reply.value("x-waited")), (status, source), "{reply:?}");
        // The filter `headers` leaves answers to faults as they are.
        let outer = if source == "fault" { "" } else { source };
        assert_eq!((reply.value("x-outer"), reply.value("x-path")), (outer, path));
        assert!(reply.content.starts_with(content), "{reply:?}");
        assert!(reply.content.ends_with(&format!("<end of {path}>")), "{reply:?}");
        let head = ask(&gateway, path, &["-I"]);
        assert_eq!((head.status, head.value("x-waited")), (status, source), "{head:?}");
    }
    assert_eq!(outcomes(&gateway, "failed"), 0);
    gateway.stop();
}

#[test]
fn what_comes_meanwhile_keeps_its_order() {
    let origin = Origin::start(behaviour::mirror);
    let script = r#"
        local time = require "silly.time"
        local function slowly(mark)
            local number = 0
            return function(piece, last)
                number = number + 1
                if number % 3 ~= 0 then time.sleep(1) end
                return last and mark or piece
            end
        end
        function request_body() return slowly("[up]") end
        function response_body() return slowly("[down]") end
    "#;
    let gateway = gateway(&origin, script);
    let content: String = (0..40_000).map(|number| format!("{number},")).collect();
    let expected = format!("{content}[up][down]");
    for ask in [ask, ask_http2] {
        // Curl takes what it is to send from a file, which is larger than what it lets stand in a command.
        let file = std::env::temp_dir().join(format!("sluice-waiting-{}", std::process::id()));
        std::fs::write(&file, &content).unwrap();
        let reply = ask(&gateway, "/", &["--data-binary", &format!("@{}", file.display())]);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(reply.status, 200);
        assert!(reply.content == expected, "{} bytes", reply.content.len());
    }
    gateway.stop();
}

#[test]
fn two_requests_of_a_connection_wait_one_after_the_other() {
    let origin = Origin::start(behaviour::echo);
    let gateway = gateway(&origin, WAITS);
    let mut client = ByteScript::connect(&gateway.address("web"));
    client.send("GET /own HTTP/1.1\r\nHost: a\r\n\r\nGET /dead HTTP/1.1\r\nHost: a\r\n\r\n");
    let own = client.read_response(Asked::Get).unwrap();
    assert_eq!(own.text(), "own content<end of /own>");
    assert!(client.read_response(Asked::Get).unwrap().text().ends_with("<end of /dead>"));
    client.send("GET /last HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.read_response(Asked::Get).unwrap().text().ends_with("<end of /last>"));
    gateway.stop();
}

#[test]
fn a_client_that_leaves_ends_the_wait_and_blames_nobody() {
    let origin = Origin::start(behaviour::fixed(200, "fine"));
    let script = r#"
        local channel = require("silly.sync.channel").new()
        function request_head(request)
            if request.path == "/push" then channel:push("pushed") end
        end
        function response_head(request, response)
            if request.path == "/wait" then
                log("it waits")
                log("got " .. channel:pop())
                log(response.status)
            end
        end
        function done(request, facts) log("done with " .. facts.status) end
    "#;
    let gateway = gateway(&origin, script);
    let mark = gateway.words().mark();
    let mut client = ByteScript::connect(&gateway.address("web"));
    client.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(gateway.words().wait_after(mark, "it waits").is_some());
    drop(client);
    assert!(gateway.words().wait_after(mark, "done with 499").is_some());
    assert_eq!(ask(&gateway, "/push", &[]).content, "fine");
    assert!(gateway.words().wait_after(mark, "got pushed").is_some());
    assert_eq!(ask(&gateway, "/", &[]).content, "fine");
    assert_eq!(outcomes(&gateway, "failed"), 0);
    gateway.stop();
}

#[test]
fn what_fails_after_a_wait_costs_its_message() {
    let origin = Origin::start(behaviour::mirror);
    let script = r#"
        local time = require "silly.time"
        local function maybe(request, phase)
            time.sleep(1)
            if request:header("x-fail") == phase then error("broken in " .. phase) end
        end
        function request_body(request)
            maybe(request, "request_body")
            local fails = request:header("x-fail") == "up"
            return function() time.sleep(1) if fails then error("broken up") end end
        end
        function response_head(request) maybe(request, "response_head") end
        function response_body(request)
            maybe(request, "response_body")
            local fails = request:header("x-fail") == "down"
            return function() time.sleep(1) if fails then error("broken down") end end
        end
    "#;
    let gateway = gateway(&origin, script);
    for phase in ["request_body", "response_head", "response_body"] {
        let fail = format!("x-fail: {phase}");
        for path in ["/", "/own", "/dead"] {
            let reply = ask(&gateway, path, &["-d", "secret", "-H", &fail]);
            assert_eq!(reply.status, 500, "{phase} {path} {reply:?}");
            assert!(!reply.content.contains("secret"));
        }
    }
    for fail in ["x-fail: up", "x-fail: down"] {
        let reply = ask(&gateway, "/", &["-d", "secret", "-H", fail]);
        assert!(!reply.content.contains("secret"), "{reply:?}");
    }
    assert_eq!(ask(&gateway, "/", &["-d", "fine"]).content, "fine");
    assert_eq!(metric(&gateway.admin(), "sluice_panics_total"), 0);
    gateway.stop();
}

#[test]
fn scripts_ask_upstreams() {
    let origin = Origin::start(behaviour::echo);
    let script = r#"
        local waitgroup = require "silly.sync.waitgroup"
        local asks = {}
        function asks.plain()
            local answer = assert(fetch("origin", "/asked?a=b", { headers = { ["x-a"] = { "1", "2" } } }))
            return answer.status .. " " .. answer.headers["content-type"] .. " " .. answer.body
        end
        function asks.post()
            local options = { method = "POST", body = "question", host = "other.example", timeout = 5000 }
            return assert(fetch("origin", "/", options)).body
        end
        function asks.small() return select(2, fetch("origin", "/", { limit = 10 })) end
        function asks.nobody() return select(2, fetch("nobody", "/")) end
        function asks.unknown() return select(2, pcall(fetch, "unknown", "/")) end
        function asks.target() return select(2, pcall(fetch, "origin", "no path")) end
        function asks.name() return select(2, pcall(fetch, "origin", "/", { headers = { ["a b"] = "c" } })) end
        function asks.forge() return select(2, pcall(fetch, "origin", "/", { headers = { a = "b\r\nc: d" } })) end
        function asks.method() return select(2, pcall(fetch, "origin", "/", { method = "CONNECT" })) end
        function asks.framing()
            return select(2, pcall(fetch, "origin", "/", { headers = { ["content-length"] = "7" } }))
        end
        function asks.both()
            local group, all = waitgroup.new(), {}
            for number = 1, 3 do
                group:fork(function() all[number] = assert(fetch("origin", "/" .. number)).body:match("GET /%d") end)
            end
            group:wait()
            return table.concat(all, " ")
        end
        function request_head(request)
            if asks[request.path:sub(2)] then respond(asks[request.path:sub(2)]()) end
        end
        function response_head(request, response)
            if request.path ~= "/phases" then return end
            request.ctx.phases = true
            response:set_header("x-head", fetch("origin", "/in-head").body:match("GET (%S+)"))
        end
        function response_body(request)
            if request.path ~= "/phases" then return end
            local first = fetch("origin", "/in-body").body:match("GET (%S+)")
            return whole(function() return first .. " " .. fetch("origin", "/in-piece").body:match("GET (%S+)") end)
        end
        function done(request)
            if request.ctx.phases then log("at the end " .. fetch("origin", "/in-done").body:match("GET (%S+)")) end
        end
    "#;
    let gateway = gateway(&origin, script);
    let rows = [
        ("/plain", "200 text/plain GET /asked?a=b HTTP/1.1\n"),
        ("/plain", "x-a: 1\r\nx-a: 2\r\n"),
        ("/post", "host: other.example\r\n"),
        ("/post", "question"),
        ("/small", "its answer is too large"),
        ("/nobody", "connect_failed"),
        ("/unknown", "declare it as [upstream.unknown]"),
        ("/target", "a path is expected"),
        ("/name", "is no name of a header"),
        ("/forge", "holds a line break"),
        ("/method", "this is no method"),
        ("/framing", "written by the gateway itself"),
        ("/both", "GET /1 GET /2 GET /3"),
    ];
    for (path, words) in rows {
        let reply = ask(&gateway, path, &[]);
        let content = reply.content.replace("\r\n", "\n");
        assert!(content.contains(&words.replace("\r\n", "\n")), "{path}: {words:?} in {reply:?}");
    }
    let mark = gateway.words().mark();
    let reply = ask(&gateway, "/phases", &[]);
    assert_eq!((reply.value("x-head"), reply.content.as_str()), ("/in-head", "/in-body /in-piece"));
    assert!(gateway.words().wait_after(mark, "at the end /in-done").is_some());
    assert_eq!(outcomes(&gateway, "failed"), 0);
    gateway.stop();
}
