//! The filter `lua`: functions of a script in the phases of an exchange, good, bad and hostile ones.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sluice_acceptance::filters::{ask, ask_both, ask_http2, page_example};
use sluice_acceptance::{config, eventually, metric};
use sluice_testkit::{Asked, ByteScript, Origin, Sluice, behaviour};

/// One worker with a filter of this script before an origin.
fn with(origin: &Origin, script: &str, options: &str) -> String {
    let rest = config(&format!(
        "[filter.it.lua]\nscript = '''\n{script}\n'''\n{options}\n\
         [[route]]\npath = \"/*\"\nproxy = \"http://{}\"\nfilters = [\"it\"]\n",
        origin.address()
    ));
    format!("workers = 1\n{rest}")
}

fn gateway(origin: &Origin, script: &str, options: &str) -> Sluice {
    Sluice::start(&with(origin, script, options))
}

fn outcomes(gateway: &Sluice, outcome: &str) -> u64 {
    let labels = format!("{{filter=\"it\",outcome=\"{outcome}\"}}");
    metric(&gateway.admin(), &format!("sluice_filter_outcomes_total{labels}"))
}

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let origin = Origin::start(behaviour::echo);
    let replace = [("127.0.0.1:9001", origin.address())];
    let gateway = Sluice::start(&page_example("lua.md", &replace, ""));
    let hello = ask_both(&gateway, "/hello?name=Lua", &[], &["cache-control", "content-type"]);
    assert_eq!((hello.status, hello.content.as_str()), (200, "Hello, Lua!\n"));
    assert_eq!(hello.value("cache-control"), "no-store");
    assert_eq!(ask(&gateway, "/hello", &[]).content, "Hello, you!\n");
    let refused = ask_both(&gateway, "/other", &[], &["x-worked-on"]);
    assert_eq!((refused.status, refused.content.as_str()), (401, "sign in first\n"));
    for ask in [ask, ask_http2] {
        let passed = ask(&gateway, "/a?b=c", &["-b", "session=1"]);
        assert_eq!((passed.status, passed.value("x-worked-on")), (200, "/a"));
        // HMAC-SHA256 of "GET /a?b=c" with "secret".
        let signed = "x-signature: 9QIkyXSokTwVdyzZQnWctJeVgMVuzz7gh7kPguw2zCo=";
        assert!(passed.content.contains(signed), "{}", passed.content);
    }
    gateway.stop();
}

#[test]
fn heads_and_content_are_read_and_changed_in_all_phases() {
    let origin = Origin::start(behaviour::echo);
    let script = r#"
        function request_head(request)
            local body, problem = request:body(10)
            request:set_header("x-body", body or problem)
            request:set_header("x-list", { "1", "2" })
            request:add_header("X-List", 3)
            request:remove_header("x-gone")
            request:set_header("x-facts", table.concat({ request.method, request.path, request.query, request.client,
                request.scheme, request.route, request.listener, request.host, tostring(request.user),
                request:argument("q") or "-", request:cookie("c") or "-", #request:values("x-two") }, " "))
            request:set_variable("v", "noted")
            request.path = "/changed" .. request.path
            request.ctx.begun = "yes"
        end
        function response_head(request, response)
            response.status = 203
            response:set_header("x-seen", { request:variable("v"), request.ctx.begun, response.source })
            response:set_header("x-type", response:header("Content-Type"))
        end
        function request_body(request)
            return whole(function(body) return "<" .. body .. ">" end)
        end
        function response_body(request, response)
            return function(piece, last)
                if last then return "[the end]" end
                return (piece:gsub("secret", "******"))
            end
        end
    "#;
    let gateway = gateway(&origin, script, "");
    let options =
        ["-H", "x-gone: 1", "-H", "x-two: a", "-H", "x-two: b", "-b", "c=d", "-d", "a secret"];
    let host = gateway.address("web");
    for ask in [ask, ask_http2] {
        let reply = ask(&gateway, "/p?q=a%20b", &options);
        assert_eq!(reply.status, 203);
        assert_eq!(reply.values("x-seen"), ["noted", "yes", "origin"]);
        assert_eq!(reply.value("x-type"), "text/plain");
        for line in [
            "POST /changed/p?q=a%20b HTTP/1.1",
            "x-body: a ******",
            "x-list: 1\nx-list: 2\nX-List: 3",
            &format!("x-facts: POST /p q=a%20b 127.0.0.1 http /* web {host} nil a b d 2"),
            "<a ******>[the end]",
        ] {
            assert!(reply.content.contains(line), "{line:?} is not in {}", reply.content);
        }
        assert!(!reply.content.contains("x-gone"));
    }
    let long = ask(&gateway, "/p", &["-d", "more than ten bytes"]);
    assert!(long.content.contains("x-body: the content has more than 10 bytes"), "{long:?}");
    assert!(long.content.contains("<more than ten bytes>"), "{long:?}");
    gateway.stop();
}

const FAILED: (u16, &str) = (500, "500 Internal Server Error: a script failed\n");

const HOSTILE: &str = r#"
    local tests = {
        error = function(request) error("broken " .. request.path) end,
        value = function() error({}) end,
        handler = function() xpcall(error, function() error("again") end) error("so") end,
        loop = function() while true do end end,
        caught = function() while true do pcall(function() while true do end end) end end,
        bomb = function() local all = {} while true do all[#all + 1] = ("x"):rep(1e5) .. #all end end,
        deep = function() local function f(n) return 1 + f(n + 1) end f(1) end,
        twice = function() respond("one") respond("two") end,
        forge = function(request) request:set_header("x-y", "a\r\nx-z: b") end,
        name = function(request) request:set_header("x y", "a") end,
        framing = function(request) request:set_header("Content-Length", "7") end,
        status = function() respond { status = 99 } end,
        headers = function() respond { headers = { ["x\r\n"] = "a" } } end,
        method = function(request) request.method = "A B" end,
        path = function(request) request.path = "no slash" end,
        dot = function(request) request.header("x") end,
        yield = function() coroutine.yield() end,
        listen = function() require("silly.net.tcp").listen("127.0.0.1:0", print) end,
        io = function() io.open("/etc/passwd") end,
        execute = function() os.execute("true") end,
        ffi = function() require("ffi") end,
        answer = function(_) response.status = 1 end,
    }
    function request_head(request)
        local test = request:header("x-test")
        if test and request.path == "/told" then
            respond(select(2, pcall(tests[test], request)))
        elseif test then
            tests[test](request)
        end
    end
    function response_head(request, response)
        if request:header("x-late") == "sleep" then require("silly.time").sleep(1) end
        if request:header("x-late") then error("late") end
    end
"#;

#[test]
fn whatever_a_script_does_costs_one_request() {
    let origin = Origin::start(behaviour::fixed(200, "fine"));
    let gateway = gateway(&origin, HOSTILE, "memory = \"16MiB\"");
    // What cannot be caught costs the request.
    let rows =
        ["error", "value", "handler", "loop", "caught", "bomb", "deep", "twice", "forge", "yield"];
    for test in rows {
        let reply = ask(&gateway, "/", &["-H", &format!("x-test: {test}")]);
        assert_eq!((reply.status, reply.content.as_str()), FAILED, "{test}");
        assert_eq!(ask(&gateway, "/", &[]).content, "fine", "{test}");
    }
    gateway.wait_for_line("error: route /*: filter \"it\":3: broken /");
    let told = [
        ("bomb", "not enough memory"),
        ("deep", "stack overflow"),
        ("twice", "there is an answer already"),
        ("forge", "holds a line break or another control character"),
        ("name", "is no name of a header"),
        ("framing", "written by the gateway itself"),
        ("status", "a status is a number"),
        ("headers", "is no name of a header"),
        ("method", "this is no method"),
        ("path", "has to begin with a slash"),
        ("dot", "call it with a colon"),
        ("listen", "addresses of the gateway"),
        ("io", "global 'io'"),
        ("execute", "field 'execute'"),
        ("ffi", "module 'ffi' not found"),
        ("answer", "there is no answer yet"),
    ];
    for (test, words) in told {
        let reply = ask(&gateway, "/told", &["-H", &format!("x-test: {test}")]);
        // Where there was an answer, a second one is none.
        let is_twice = test == "twice" && reply.status == 500;
        assert!(is_twice || reply.content.contains(words), "{test}: {reply:?}");
        assert_eq!(ask(&gateway, "/", &[]).content, "fine", "{test}");
    }
    for late in ["error", "sleep"] {
        let reply = ask(&gateway, "/", &["-H", &format!("x-late: {late}")]);
        assert_eq!((reply.status, reply.content.as_str()), FAILED, "{late}");
    }
    assert_eq!(outcomes(&gateway, "failed"), 13);
    assert_eq!(metric(&gateway.admin(), "sluice_panics_total"), 0);
    gateway.stop();
}

#[test]
fn a_script_that_fails_can_let_pass() {
    let origin = Origin::start(behaviour::fixed(200, "fine"));
    let script = "function request_head(r) if r.path == '/no' then respond(403, 'no') end error('x') end\n\
                  function response_head() error('y') end";
    let gateway = gateway(&origin, script, "on_error = \"pass\"");
    assert_eq!(ask(&gateway, "/", &[]).content, "fine");
    // What it had said before it failed is not the whole.
    assert_eq!(ask(&gateway, "/no", &[]).content, "fine");
    gateway.stop();
}

#[test]
fn content_never_passes_unseen() {
    let origin = Origin::start(behaviour::mirror);
    let script = r"
        function response_body(request)
            if request.path == '/large' then return whole(function(all) return all end, 10) end
            if request.path == '/odd' then return function() return {} end end
            return function(piece) if piece:find('bad') then error('seen') end end
        end
    ";
    let gateway = gateway(&origin, script, "");
    assert_eq!(ask(&gateway, "/", &["-d", "good"]).content, "good");
    for (path, content) in [("/", "so bad"), ("/large", "more than ten bytes"), ("/odd", "x")] {
        let reply = ask(&gateway, path, &["-d", content]);
        assert!(!reply.content.contains(content), "{path} {reply:?}");
    }
    assert_eq!(ask(&gateway, "/", &["-d", "good"]).content, "good");
    assert_eq!(outcomes(&gateway, "failed"), 3);
    gateway.stop();
}

#[test]
fn a_script_waits_and_others_go_on() {
    let origin = Origin::start(behaviour::fixed(200, "fine"));
    let script = r#"
        local channel = require("silly.sync.channel").new()
        local time = require "silly.time"
        function request_head(request)
            if request.path == "/first" then
                log("the first waits")
                request:set_header("x-got", channel:pop())
                respond("first " .. request:header("x-got"))
            elseif request.path == "/second" then
                time.sleep(1)
                channel:push("from " .. request.path)
            elseif request.path == "/left" then
                log("the one that leaves waits")
                log("got " .. channel:pop())
                log(request.path)
            end
        end
        function done(request, facts)
            time.sleep(1)
            log("done with " .. facts.status)
        end
    "#;
    let gateway = gateway(&origin, script, "");
    let head = |path| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    let mark = gateway.words().mark();
    let mut first = ByteScript::connect(&gateway.address("web"));
    first.send(head("/first"));
    assert!(gateway.words().wait_after(mark, "the first waits").is_some());
    assert_eq!(ask(&gateway, "/second", &[]).content, "fine");
    assert_eq!(first.read_response(Asked::Get).unwrap().text(), "first from /second");
    // What outlives its client goes on without it.
    let mark = gateway.words().mark();
    let mut left = ByteScript::connect(&gateway.address("web"));
    left.send(head("/left"));
    assert!(gateway.words().wait_after(mark, "the one that leaves waits").is_some());
    drop(left);
    assert!(gateway.words().wait_after(mark, "done with 499").is_some());
    assert_eq!(ask(&gateway, "/second", &[]).content, "fine");
    assert!(gateway.words().wait_after(mark, "got from /second").is_some());
    assert_eq!(ask(&gateway, "/", &[]).content, "fine");
    assert_eq!(outcomes(&gateway, "failed"), 0);
    gateway.stop();
}

#[test]
fn a_wrong_script_stops_a_reload_and_says_where() {
    let origin = Origin::start(behaviour::fixed(200, "fine"));
    let good = |word: &str| format!("function request_head() respond('{word}') end");
    let gateway = gateway(&origin, &good("one"), "");
    for (script, words) in [
        ("function request_head(\n", "filter \"it\":3:"),
        ("local x = nil\nx.y = 1", "filter \"it\":2: attempt to index local 'x'"),
        ("while true do end", "(budget)"),
        ("require('nothing')", "module 'nothing' not found"),
        ("function head() end", "none of the functions request_head"),
    ] {
        let mark = gateway.words().mark();
        gateway.rewrite(&with(&origin, script, ""));
        gateway.signal(sluice_testkit::Signal::Reload);
        assert!(gateway.words().wait_after(mark, words).is_some(), "{words}");
        assert_eq!(ask(&gateway, "/", &[]).content, "one");
    }
    gateway.reload(&with(&origin, &good("two"), ""));
    assert!(eventually(|| ask(&gateway, "/", &[]).content == "two"));
    gateway.stop();
}

#[test]
fn a_changed_file_takes_effect_at_once() {
    let origin = Origin::start(behaviour::fixed(200, "fine"));
    let scratch = std::env::temp_dir().join(format!("sluice-lua-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).unwrap();
    let put = |name: &str, text: &str| {
        let whole = scratch.join(format!("{name}.new"));
        std::fs::write(&whole, text).unwrap();
        std::fs::rename(whole, scratch.join(name)).unwrap();
    };
    let script = r"
        local word = require('word')
        local task, waiting = require('silly.task')
        function request_head(request)
            if request.path == '/wait' then waiting = task.running() log('it waits') task.wait() end
            respond(word)
        end
    ";
    put("word.lua", "return 'one'");
    put("it.lua", script);
    let gateway = Sluice::start(&config(&format!(
        "[filter.it.lua]\nfile = \"{}\"\n\
         [[route]]\npath = \"/*\"\nproxy = \"http://{}\"\nfilters = [\"it\"]\n",
        scratch.join("it.lua").display(),
        origin.address()
    )));
    assert_eq!(ask(&gateway, "/", &[]).content, "one");
    let mut waiting = ByteScript::connect(&gateway.address("web"));
    let mark = gateway.words().mark();
    waiting.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(gateway.words().wait_after(mark, "it waits").is_some());
    put("word.lua", "return 'two'");
    assert!(gateway.words().wait_after(mark, "made anew").is_some());
    assert!(eventually(|| ask(&gateway, "/", &[]).content == "two"));
    // The one that waits has the old state, which ends with it.
    drop(waiting);
    assert_eq!(ask(&gateway, "/", &[]).content, "two");
    gateway.stop();
    std::fs::remove_dir_all(&scratch).unwrap();
}

#[test]
fn reloads_under_load_lose_nothing() {
    let origin = Origin::start(behaviour::fixed(200, "fine"));
    let version = |number: u32| {
        let script = format!(
            "local time = require 'silly.time'\n\
             function request_head(request) time.sleep(1) request:set_header('x-n', '{number}') end\n\
             function response_head(request, response) response:set_header('x-n', '{number}') end"
        );
        with(&origin, &script, "")
    };
    let gateway = Sluice::start(&version(0));
    let address = gateway.address("web");
    let clients = [(); 4].map(|()| {
        let address = address.clone();
        std::thread::spawn(move || {
            for _ in 0..100 {
                let reply = sluice_testkit::get(&address, "/");
                assert_eq!((reply.status, reply.text().as_str()), (200, "fine"));
            }
        })
    });
    for number in 1..=20 {
        gateway.reload(&version(number));
    }
    for client in clients {
        client.join().unwrap();
    }
    assert!(eventually(|| ask(&gateway, "/", &[]).value("x-n") == "20"));
    assert_eq!(outcomes(&gateway, "failed"), 0);
    gateway.stop();
}

/// Reads and writes in loops that LuaJIT compiles, with what is seldom among them.
const COMPILED: &str = r#"
    local function refused(object, name, value)
        local good, said = pcall(function() object:set_header(name, value) end)
        assert(not good, name)
        -- The place of the script, not one within the gateway.
        return said
    end
    local function work(object)
        local told = {}
        for round = 1, 400 do
            local text = ("v"):rep(round % 40) .. round
            object:set_header("x-round", text)
            assert(object:header("X-Round") == text, round)
            assert(object:header("x-absent") == nil, round)
            assert(#object:values("x-round") == 1, round)
            if round % 40 == 1 then
                object:set_header("x-list", { "a", text })
                object:set_header("x-number", round)
                assert(object:header("x-number") == tostring(round) and #object:values("x-list") == 2)
                told[#told + 1] = refused(object, "x-round", "a\r\nx-forged: b")
                told[#told + 1] = refused(object, "content-length", "7")
                told[#told + 1] = refused(object, "x round", "a")
                told[#told + 1] = refused(object, nil, "a")
                told[#told + 1] = refused(object, "x-round")
                assert(object:header("x-round") == text and object:header("x-forged") == nil)
            end
            object:remove_header("x-round")
            assert(object:header("x-round") == nil, round)
        end
        for part = 6, #told do assert(told[part] == told[part - 5], told[part]) end
        -- More names than are known by numbers.
        for number = 1, 400 do
            local name = "x-" .. number % 300
            object:set_header(name, "n" .. number)
            assert(object:header(name) == "n" .. number, number)
            object:remove_header(name)
        end
        object:set_header("x-told", table.concat(told, "|", 1, 5))
    end
    function request_head(request)
        work(request)
        request:set_header("Host", "other.example")
        request:set_header("x-host", request.host)
    end
    function response_head(request, response)
        work(response)
        local good, said = pcall(function() request:set_header("x-late", "a") end)
        response:set_header("x-late", said)
        assert(request:header("x-told") == response:header("x-told"))
        assert(request:header("x-list") == "a")
    end
"#;

#[test]
fn compiled_code_reads_and_writes_headers_as_the_rest_does() {
    let origin = Origin::start(behaviour::echo);
    let gateway = gateway(&origin, COMPILED, "");
    for ask in [ask, ask_http2, ask] {
        let reply = ask(&gateway, "/", &["-H", "content-type: text/x"]);
        assert_eq!(reply.status, 200, "{}", reply.content);
        let told: Vec<&str> = reply.value("x-told").split('|').collect();
        assert_eq!(
            told,
            [
                "filter \"it\":3: the value for the header 'x-round' holds a line break or another \
                 control character",
                "filter \"it\":3: the header 'content-length' is written by the gateway itself",
                "filter \"it\":3: 'x round' is no name of a header",
                "filter \"it\":3: bad argument: a name is expected",
                "filter \"it\":3: the header 'x-round' takes a text, a number or a list of those",
            ]
        );
        let late = "filter \"it\":47: the request cannot be changed any more: its answer is there";
        assert_eq!(reply.value("x-late"), late);
        for line in ["x-host: other.example", "x-list: a\nx-list: v", "x-number: 361"] {
            assert!(reply.content.contains(line), "{line}: {}", reply.content);
        }
        assert!(!reply.content.contains("\nx-round:"), "{}", reply.content);
    }
    gateway.stop();
}
