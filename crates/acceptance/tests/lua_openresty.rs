//! Scripts for OpenResty: blocks of its configuration in filters and routes, good and hostile ones.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io;

use sluice_acceptance::filters::{Reply, ask, ask_both, ask_http2, page_example};
use sluice_acceptance::{config, eventually};
use sluice_testkit::{Exchange, Origin, Sluice, behaviour};

/// One worker with a filter of these phases before an origin, and a route that these answer.
fn with(origin: &Origin, filter: &[(&str, &str)], action: &[(&str, &str)]) -> String {
    let keys = |phases: &[(&str, &str)]| -> String {
        phases.iter().map(|(phase, text)| format!("{phase} = '''\n{text}'''\n")).collect()
    };
    let [mut filtered, mut answered] = [String::new(), String::new()];
    if !filter.is_empty() {
        filtered = format!("[filter.it.lua]\n{}", keys(filter));
    }
    if !action.is_empty() {
        answered = format!("[[route]]\npath = \"/lua/*\"\n[route.lua]\n{}", keys(action));
    }
    let filters = if filter.is_empty() { "" } else { "filters = [\"it\"]" };
    let rest = config(&format!(
        "{filtered}\n{answered}\n[[route]]\npath = \"/*\"\nproxy = \"http://{}\"\n{filters}\n",
        origin.address()
    ));
    format!("workers = 1\n{rest}")
}

fn filter(origin: &Origin, phases: &[(&str, &str)]) -> Sluice {
    Sluice::start(&with(origin, phases, &[]))
}

/// A gateway whose route `/lua` is answered by this.
fn content(script: &str) -> Sluice {
    let origin = Origin::start(behaviour::echo);
    Sluice::start(&with(&origin, &[], &[("content_by_lua", script)]))
}

/// What such a script answers.
#[track_caller]
fn says(script: &str, expected: &[&str]) {
    let gateway = content(script);
    let reply = ask_both(&gateway, "/lua/", &[], &["content-type"]);
    let lines: Vec<_> = reply.content.lines().collect();
    assert_eq!(lines, expected, "{:?}", gateway.stderr());
    assert_eq!(reply.status, 200);
    gateway.stop();
}

fn failed(reply: &Reply) -> bool {
    reply.status == 500 && reply.content == "500 Internal Server Error: a script failed\n"
}

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let origin = Origin::start(|exchange: &mut Exchange| -> io::Result<()> {
        exchange.answer(200, &["server: origin"], b"the internal page")
    });
    let replace = [("127.0.0.1:9001", origin.address())];
    let gateway = Sluice::start(&page_example("../lua-openresty.md", &replace, ""));
    let args = ask_both(&gateway, "/args?name=Lua", &[], &["content-type"]);
    assert_eq!((args.status, args.content.as_str()), (200, "{\"name\":\"Lua\"}\n"));
    assert_eq!(args.value("content-type"), "application/json");
    let fields = ["www-authenticate", "x-served-by"];
    let refused = ask_both(&gateway, "/other", &[], &fields);
    assert_eq!((refused.status, refused.content.as_str()), (401, "show your token\n"));
    assert_eq!(refused.value("www-authenticate"), "Token");
    let options = ["-H", "X-Token: secret"];
    let passed = ask_both(&gateway, "/some/page?x=1", &options, &["x-served-by", "server"]);
    assert_eq!((passed.status, passed.content.as_str()), (200, "the public page"));
    assert_eq!((passed.value("x-served-by"), passed.value("server")), ("sluice", ""));
    gateway.wait_for_line("GET /other 401 refused");
    gateway.wait_for_line("GET /some/page 200 passed");
    assert_eq!(origin.last_request().fields.first("x-caller"), Some("friend"));
    gateway.stop();
}

#[test]
fn requests_are_rewritten_on_their_way() {
    let origin = Origin::start(behaviour::echo);
    let rewrite = r#"
        if ngx.var.uri == "/exec" then return ngx.exec("/executed", { a = 1 }) end
        if ngx.var.uri == "/jump" then ngx.req.set_uri("/jumped to", true) end
        if ngx.var.uri == "/plain" then return end
        if ngx.var.arg_exit then pcall(function() ngx.exit(ngx.OK) end) error("it goes on") end
        local args = ngx.req.get_uri_args()
        args.added = { "x y", 2 }
        args.secret = nil
        ngx.req.set_uri_args(args)
        ngx.req.set_uri("/new" .. ngx.var.uri)
        ngx.req.set_method(ngx.HTTP_PUT)
        ngx.req.set_header("X-Several", { "1", "2" })
        ngx.req.clear_header("X-Gone")
        ngx.var.color = "blue"
    "#;
    let access = r#"
        ngx.req.set_header("X-Phase", ngx.get_phase())
        ngx.req.set_header("X-Seen", table.concat({ tostring(ngx.var.color), tostring(ngx.req.is_internal()),
            ngx.var.request_uri, ngx.var.uri }, " "))
    "#;
    let gateway = filter(&origin, &[("rewrite_by_lua", rewrite), ("access_by_lua", access)]);
    for ask in [ask, ask_http2] {
        let rewritten = ask(&gateway, "/a%20b?secret=1", &["-H", "X-Gone: 1"]);
        let echoed = rewritten.content.to_ascii_lowercase();
        for line in [
            "put /new/a%20b?added=x%20y&added=2 http/1.1",
            "x-several: 1\nx-several: 2",
            "x-phase: access",
            "x-seen: blue false /a%20b?secret=1 /new/a b",
        ] {
            assert!(echoed.contains(line), "{line:?} is not in {echoed}");
        }
        assert!(!echoed.contains("x-gone"));
        // Its end reaches through pcall, and the next phase runs.
        let left = ask(&gateway, "/p?exit=1", &[]);
        assert!(left.content.contains("GET /p?exit=1"), "{}", left.content);
        assert!(left.content.to_ascii_lowercase().contains("x-phase: access"));
        let plain = ask(&gateway, "/plain", &[]);
        assert!(plain.content.contains("GET /plain "), "{}", plain.content);
        for (path, line) in
            [("/exec", "put /new/executed?"), ("/jump", "put /new/jumped%20to?added")]
        {
            let echoed = ask(&gateway, path, &[]).content.to_ascii_lowercase();
            assert!(echoed.contains(line), "{line:?} is not in {echoed}");
            assert!(echoed.contains(&format!("true {path}")), "{echoed}");
        }
    }
    gateway.stop();
}

#[test]
fn runs_end_where_they_say() {
    let origin = Origin::start(behaviour::echo);
    let script = r#"
        local tests = {
            ["401"] = function() ngx.exit(401) end,
            ["403"] = function() pcall(ngx.exit, ngx.HTTP_FORBIDDEN) error("it goes on") end,
            ["404"] = function()
                local co = coroutine.wrap(function() ngx.exit(404) end)
                co()
                error("it goes on")
            end,
            ["410"] = function() ngx.status = ngx.HTTP_GONE ngx.say("gone") ngx.exit(ngx.HTTP_OK) end,
            ["200"] = function() ngx.header["X-A"] = "b" ngx.exit(200) end,
            ["204"] = function() return ngx.exit(204) end,
            ["302"] = function() ngx.redirect("/there?a=b") end,
            ["301"] = function() ngx.redirect("http://example.com/", ngx.HTTP_MOVED_PERMANENTLY) end,
            ["500"] = function() return ngx.exit(ngx.ERROR) end,
            ["503"] = function() ngx.header["Retry-After"] = 7 ngx.sleep(0) ngx.exit(503) end,
        }
        tests[ngx.var.uri:sub(-3)]()
        error("it goes on")
    "#;
    let gateway =
        Sluice::start(&with(&origin, &[("access_by_lua", script)], &[("content_by_lua", script)]));
    for path in ["/", "/lua/"] {
        for (status, content) in [
            (401, "401 Unauthorized\n"),
            (403, "403 Forbidden\n"),
            (404, "404 Not Found\n"),
            (410, "gone\n"),
            (200, ""),
            (204, ""),
            (302, "302 Found\n"),
            (301, "301 Moved Permanently\n"),
            (500, "500 Internal Server Error\n"),
            (503, "503 Service Unavailable\n"),
        ] {
            let fields = ["location", "x-a", "retry-after"];
            let reply = ask_both(&gateway, &format!("{path}{status}"), &[], &fields);
            assert_eq!((reply.status, reply.content.as_str()), (status, content), "{path}");
            let (name, value) = match status {
                200 => ("x-a", "b"),
                301 => ("location", "http://example.com/"),
                302 => ("location", "/there?a=b"),
                503 => ("retry-after", "7"),
                _ => ("location", ""),
            };
            assert_eq!(reply.value(name), value);
        }
    }
    assert_eq!(origin.requests().len(), 0);
    gateway.stop();
}

#[test]
fn output_is_gathered_as_published() {
    says(
        r#"
        ngx.header.content_type = "text/x-test"
        ngx.say("a", 1, true, nil, ngx.null, { "x", { "y", 2 } })
        ngx.print("no line end") ngx.say()
        ngx.say(pcall(ngx.say, print))
        ngx.say(tostring(ngx.headers_sent), " ", ngx.get_phase(), " ", ngx.header["Content-Type"])
        ngx.header.x_list = { "1", "2" }
        ngx.say(#ngx.header["X-List"], " ", tostring(ngx.header.x_none))
        ngx.flush(true)
        ngx.eof()
        local good, problem = ngx.say("too late")
        assert(good == nil and problem == "seen eof")
        return
        "#,
        &[
            "a1truenilnullxy2",
            "no line end",
            "falseroute \"/lua/*\" content_by_lua:5: bad argument #1 to 'say' (string, number, boolean, nil, ngx.null, or \
             array table expected, but got function)",
            "true content text/x-test",
            "2 nil",
        ],
    );
}

#[test]
fn arguments_and_headers_are_lists_where_they_come_twice() {
    let gateway = content(
        r#"
        local cjson = require "cjson"
        if ngx.var.uri == "/lua/many" then
            local args, problem = ngx.req.get_uri_args()
            local all, none = ngx.req.get_uri_args(0)
            local heads, much = ngx.req.get_headers(3)
            local count, every, lines = 0, 0, 0
            for _ in pairs(args) do count = count + 1 end
            for _ in pairs(all) do every = every + 1 end
            for _ in pairs(heads) do lines = lines + 1 end
            return ngx.say(count, " ", problem, " ", every, " ", none, " ", lines, " ", much)
        end
        local args = ngx.req.get_uri_args()
        local heads = ngx.req.get_headers()
        ngx.req.read_body()
        local post = ngx.req.get_post_args()
        ngx.say(cjson.encode { a = args.a, b = args.b, c = args.c, d = args.d })
        ngx.say(heads["X-Two"][1], heads.x_two[2], " ", heads["x-one"], " ", tostring(heads.none))
        ngx.say(tostring(ngx.req.get_headers(0, true)["x-one"]), " ", ngx.req.get_headers(0, true)["X-One"])
        ngx.say(ngx.var.arg_b, " ", ngx.var.http_x_one, " ", ngx.var.cookie_c, " ", ngx.var.nothing)
        ngx.say(cjson.encode(post.p), " ", post.q, " ", ngx.req.get_body_data())
        "#,
    );
    let options =
        ["-H", "X-Two: 1", "-H", "X-Two: 2", "-H", "X-One: a", "-b", "c=d", "-d", "p=1&p=2&q=x+y"];
    let reply = ask(&gateway, "/lua/?a=1&a=2&b=x%20y&c&d=", &options);
    let lines: Vec<_> = reply.content.lines().collect();
    assert_eq!(lines.len(), 5, "{reply:?} {:?}", gateway.stderr());
    let first: String = lines[0].to_owned();
    for part in ["\"a\":[\"1\",\"2\"]", "\"b\":\"x y\"", "\"c\":true", "\"d\":\"\""] {
        assert!(first.contains(part), "{first}");
    }
    assert_eq!(
        lines[1..],
        ["12 a nil", "nil a", "x%20y a d nil", "[\"1\",\"2\"] x y p=1&p=2&q=x+y"]
    );
    let query: Vec<_> = (0..150).map(|number| format!("a{number}=1")).collect();
    let path = format!("/lua/many?{}", query.join("&"));
    let many = ask(&gateway, &path, &["-H", "X-A: 1", "-H", "X-B: 1", "-H", "X-C: 1"]);
    assert_eq!(many.content, "100 truncated 150 nil 3 truncated\n");
    gateway.stop();
}

#[test]
fn texts_and_times_are_those_of_the_documentation() {
    says(
        r#"
        ngx.say(ngx.escape_uri("a b&c/\252"), " ", ngx.escape_uri("a b&c/?", 0), " ", ngx.unescape_uri("b%20r56+7"))
        ngx.say(ngx.encode_args({ foo = 3 }), " ", ngx.encode_args({ foo = { "a b", "c" } }), " ", ngx.encode_args({ k = true, n = false }))
        ngx.say(ngx.decode_args("a=b%20c").a, " ", ngx.encode_base64("hello!"), " ", ngx.encode_base64("hello", true), " ", ngx.decode_base64("aGVsbG8"))
        ngx.say(tostring(ngx.decode_base64("***")), " ", ngx.md5("hello"), " ", #ngx.md5_bin("x"))
        ngx.say(ngx.encode_base64(ngx.hmac_sha1("thisisverysecretstuff", "some string we want to sign")), " ", ngx.encode_base64(ngx.sha1_bin("abc")))
        ngx.say(string.format("%.0f %.0f", ngx.crc32_short("hello"), ngx.crc32_long("hello")), " ", ngx.quote_sql_str("it's\n"))
        ngx.say(ngx.http_time(1290079655), "|", ngx.cookie_time(1290079655), "|", ngx.parse_http_time("Thu, 18 Nov 2010 11:27:35 GMT"))
        ngx.say(tostring(ngx.parse_http_time("never")), " ", #ngx.today(), #ngx.localtime(), #ngx.utctime(), " ", ngx.time() == math.floor(ngx.now()))
        local base64 = require "ngx.base64"
        ngx.say(base64.encode_base64url("\255\254"), " ", base64.decode_base64url("__4") == "\255\254")
        local json, safe = require "cjson", require "cjson.safe"
        ngx.say(json.encode({ 1, ngx.null, json.empty_array, {} }), json.encode({ [3] = 1 }), " ", tostring(json.decode("[null]")[1] == ngx.null))
        ngx.say(type(ngx.null), " ", tostring(pcall(json.decode, "{")), " ", type(select(2, safe.decode("{"))), " ", tostring((safe.encode(print))))
        ngx.say(json.encode(setmetatable({}, json.empty_array_mt)), json.encode(setmetatable({ 1 }, json.array_mt)), " ", tostring((safe.encode({ [1000] = 1 }))))
        "#,
        &[
            "a%20b%26c%2F%FC a%20b&c/%3F b r56 7",
            "foo=3 foo=a%20b&foo=c k",
            "b c aGVsbG8h aGVsbG8 hello",
            "nil 5d41402abc4b2a76b9719d911017c592 16",
            "R/pvxzHC4NLtj7S+kXFg/NePTmk= qZk+NkcGgWq6PiVxeFDCbJzQ2J0=",
            "907060870 907060870 'it\\'s\\n'",
            "Thu, 18 Nov 2010 11:27:35 GMT|Thu, 18-Nov-10 11:27:35 GMT|1290079655",
            "nil 101919 true",
            "__4 true",
            "[1,null,[],{}][null,null,1] true",
            "userdata false string nil",
            "[][1] nil",
        ],
    );
}

#[test]
fn content_and_heads_of_answers_are_changed() {
    let origin = Origin::start(behaviour::echo);
    let gateway = filter(
        &origin,
        &[
            ("init_by_lua", "words = { secret = '******' }\n"),
            ("access_by_lua", "ngx.header['X-Early'] = 'kept'\nngx.ctx.a = 1\n"),
            (
                "header_filter_by_lua",
                r#"
                ngx.header.content_length = nil
                ngx.header.x_type = ngx.header["Content-Type"]
                ngx.header["X-Status"] = ngx.status
                ngx.header["X-Ctx"] = ngx.ctx.a .. ngx.get_phase()
                if ngx.var.arg_exit then ngx.exit(ngx.OK) error("it goes on") end
                if ngx.var.arg_teapot then ngx.status = 418 end
                "#,
            ),
            (
                "body_filter_by_lua",
                r#"
                local piece, eof = ngx.arg[1], ngx.arg[2]
                if ngx.var.arg_cut then
                    ngx.arg[1], ngx.arg[2] = "cut", true
                    return
                end
                ngx.arg[1] = piece:gsub("secret", words.secret)
                if eof then
                    ngx.arg[1] = ngx.arg[1] .. "[" .. ngx.ctx.a .. ngx.var.request_method .. ngx.status .. "]"
                end
                "#,
            ),
        ],
    );
    for ask in [ask, ask_http2] {
        let reply = ask(&gateway, "/p", &["-d", "a secret"]);
        assert!(reply.content.ends_with("a ******[1POST200]"), "{}", reply.content);
        assert_eq!(reply.values("x-early"), ["kept"]);
        assert_eq!(reply.value("x-type"), "text/plain");
        assert_eq!((reply.value("x-status"), reply.value("x-ctx")), ("200", "1header_filter"));
        let left = ask(&gateway, "/p?exit=1", &[]);
        assert_eq!((left.status, left.value("x-ctx")), (200, "1header_filter"));
        assert_eq!(ask(&gateway, "/p?teapot=1", &[]).status, 418);
        assert_eq!(ask(&gateway, "/p?cut=1", &[]).content, "cut");
    }
    gateway.stop();
}

#[test]
fn content_of_requests_is_read_and_replaced() {
    let origin = Origin::start(behaviour::echo);
    let script = r#"
        ngx.req.read_body()
        local body = ngx.req.get_body_data()
        ngx.req.set_header("X-Body", tostring(body and #body))
        if ngx.var.arg_new then ngx.req.set_body_data("<" .. ngx.var.arg_new .. ">") end
        if ngx.var.arg_parts then
            ngx.req.init_body() ngx.req.append_body("x") ngx.req.append_body("y") ngx.req.finish_body()
        end
    "#;
    let gateway = filter(&origin, &[("access_by_lua", script)]);
    let large = "x".repeat((1 << 20) + 1);
    let scratch = gateway.scratch().write("large", &large);
    for ask in [ask, ask_http2] {
        for (path, options, line, end) in [
            ("/p", vec!["-d", "four"], "x-body: 4", "four"),
            ("/p", vec![], "x-body: nil", ""),
            ("/p?new=a", vec!["-d", "four"], "x-body: 4", "<a>"),
            ("/p?parts=a", vec!["-d", "four"], "x-body: 4", "xy"),
        ] {
            let reply = ask(&gateway, path, &options);
            assert!(reply.content.to_ascii_lowercase().contains(line), "{}", reply.content);
            assert!(reply.content.ends_with(end), "{}", reply.content);
        }
        let data = format!("@{}", scratch.display());
        let reply = ask(&gateway, "/p", &["--data-binary", &data]);
        assert!(reply.content.to_ascii_lowercase().contains("x-body: nil"));
        assert!(reply.content.ends_with(&large[..1000]));
        assert!(failed(&ask(&gateway, "/p?new=a", &[])));
    }
    gateway.stop();
}

#[test]
fn what_would_forge_a_message_is_an_error() {
    let origin = Origin::start(behaviour::echo);
    let script = r#"
        local tests = {
            value = function() ngx.header["X-A"] = "a\r\nX-Forged: 1" end,
            list = function() ngx.header["X-A"] = { "a", "b\nX-Forged: 1" } end,
            name = function() ngx.header["X-A: 1\r\nX-Forged"] = "1" end,
            redirect = function() ngx.redirect("/\r\nX-Forged: 1") end,
            uri = function() ngx.req.set_uri("/a HTTP/1.1\r\nX-Forged: 1") end,
            args = function() ngx.req.set_uri_args("a\r\nX-Forged: 1") end,
            request = function() ngx.req.set_header("X-A", "a\r\nX-Forged: 1") end,
            framing = function() ngx.header["Transfer-Encoding"] = "chunked" ngx.say("x") end,
            status = function() ngx.status = 99 end,
            exit = function() ngx.exit(1000) end,
            flood = function() local text = ("x"):rep(1e6) for _ = 1, 20 do ngx.print(text) end end,
            deep = function() local t = {} t[1] = t ngx.say(t) end,
            error = function() error("broken") end,
            body = function() ngx.req.get_post_args() end,
            var = function() ngx.var.uri = "/x" end,
            phase = function() ngx.arg[1] = "x" end,
            socket = function() ngx.socket.tcp() end,
            loop = function() pcall(coroutine.wrap(function() ngx.exit(403) end)) while true do end end,
        }
        local test = tests[ngx.var.uri:match("%a+$")]
        if ngx.var.arg_told then
            local _, problem = pcall(test)
            ngx.req.set_header("X-Told", tostring(problem))
            return ngx.get_phase() == "content" and ngx.say(problem)
        end
        if test then test() end
        if ngx.get_phase() == "content" then ngx.say("good") end
    "#;
    let gateway =
        Sluice::start(&with(&origin, &[("access_by_lua", script)], &[("content_by_lua", script)]));
    for path in ["/", "/lua/"] {
        for (test, said) in [
            ("value", ":3: the value for the header 'x-a' holds a line break"),
            ("list", ":4: the value for the header 'x-a' holds a line break"),
            ("name", ":5: 'x-a: 1??x-forged' is no name of a header"),
            ("redirect", ":6: the value for the header 'location' holds a line break"),
            ("uri", ":7: unsafe byte \"0x0d\" in the URI"),
            ("args", ":8: unsafe byte in the arguments: a control character"),
            ("request", "the value for the header 'X-A' holds a line break"),
            ("framing", ":10: the header 'transfer-encoding' is written by the gateway itself"),
            ("status", ":11: ngx.status is a number from 200 to 599, not 99"),
            ("exit", ":12: attempt to exit with status 1000"),
            ("flood", ":13: the output has more than 16777216 bytes"),
            ("deep", "stack overflow"),
            ("error", ":15: broken"),
            ("body", ":16: no request body found"),
            ("var", ":17: variable \"uri\" not changeable"),
            ("phase", ":18: API disabled in the context of "),
            ("socket", ":19: ngx.socket.tcp is not there: use require('silly.net.tcp').connect"),
        ] {
            let reply = ask_both(&gateway, &format!("{path}{test}"), &[], &["x-forged"]);
            assert!(failed(&reply), "{path}{test}: {reply:?}");
            assert_eq!(reply.value("x-forged"), "");
            if test != "flood" {
                let told = ask(&gateway, &format!("{path}{test}?told=1"), &[]);
                assert_eq!(told.status, 200);
                assert!(told.content.contains(said), "{said:?} is not in {told:?}");
            }
        }
        // What was asked for before it went on for too long is what happens.
        assert_eq!(ask(&gateway, &format!("{path}loop"), &[]).status, 403);
        assert_eq!(ask(&gateway, &format!("{path}fine"), &[]).status, 200);
    }
    assert!(origin.requests().iter().all(|request| request.fields.first("x-forged").is_none()));
    gateway.stop();
}

#[test]
fn an_error_in_a_phase_costs_its_request_alone() {
    for (phase, status, content) in [
        ("rewrite", 500, "500 Internal Server Error: a script failed\n"),
        ("access", 500, "500 Internal Server Error: a script failed\n"),
        ("header_filter", 500, "500 Internal Server Error: a script failed\n"),
        ("log", 200, "fine"),
    ] {
        let origin = Origin::start(behaviour::fixed(200, "fine"));
        let key = format!("{phase}_by_lua");
        let script = "local a\n if ngx.var.arg_bad then ngx.say(a.b) end\n";
        let gateway = filter(&origin, &[(&key, script)]);
        let bad = ask_both(&gateway, "/?bad=1", &[], &[]);
        assert_eq!((bad.status, bad.content.as_str()), (status, content), "{phase}");
        let good = ask_both(&gateway, "/", &[], &[]);
        assert_eq!((good.status, good.content.as_str()), (200, "fine"), "{phase}");
        gateway.wait_for_line(&format!("{key}:2: attempt to index local 'a' (a nil value)"));
        gateway.stop();
    }
    let origin = Origin::start(behaviour::echo);
    let gateway = filter(&origin, &[("body_filter_by_lua", "ngx.say('x')\n")]);
    // The head has gone: the message breaks off.
    let broken = ask(&gateway, "/", &[]);
    assert!(!broken.content.contains("GET /"), "{broken:?}");
    gateway.wait_for_line("API disabled in the context of body_filter_by_lua*");
    gateway.stop();
}

#[test]
fn dictionaries_are_shared_by_all_workers_and_outlive_reloads() {
    let counting = |word: &str| {
        let script = format!("ngx.say('{word}', (ngx.shared.counters:incr('hits', 1, 0)))\n");
        let rest = config(&format!(
            "[store.counters]\nsize = \"1MiB\"\n[[route]]\npath = \"/*\"\n[route.lua]\n\
             content_by_lua = '''\n{script}'''\n"
        ));
        format!("workers = 2\n{rest}")
    };
    let gateway = Sluice::start(&counting("n"));
    for hits in 1..=6 {
        assert_eq!(ask(&gateway, "/", &[]).content, format!("n{hits}\n"));
    }
    gateway.reload(&counting("m"));
    assert_eq!(ask(&gateway, "/", &[]).content, "m7\n");
    gateway.stop();
}

#[test]
fn expressions_do_what_is_published() {
    let script = r##"
        local function all(...)
            local words = {}
            for index = 1, select('#', ...) do words[index] = tostring((select(index, ...))) end
            ngx.say(table.concat(words, " "))
        end
        local m = ngx.re.match("hello, 1234", "([0-9])[0-9]+")
        all(m[0], m[1], m[2])
        local named = ngx.re.match("hello, 1234", "(?<remaining>[0-9]+)(x)?", "jo")
        all(named.remaining, named[2])
        local place = { pos = 2 }
        all(ngx.re.match("1234, hello", "[0-9]+", "", place)[0], place.pos)
        all(ngx.re.match("hello", "x"))
        all(type(ngx.re.match("hello", "(")), type(select(2, ngx.re.match("hello", "("))))
        all(ngx.re.find("hello, 1234", "([0-9]+)", "jo"))
        all(ngx.re.find("hello, 1234", "([a-z]+), ([0-9]+)", "jo", nil, 2))
        local words = {}
        for found in ngx.re.gmatch("hello, world!", "([a-z]+)", "i") do words[#words + 1] = found[1] end
        all(unpack(words))
        all(ngx.re.sub("hello, 1234", "([0-9])[0-9]", "[$0][$1]"))
        all(ngx.re.sub("hello, 1234", "[0-9]", "$${0}00"))
        all(ngx.re.gsub("hello, world", "([a-z])[a-z]+", function(it) return "[" .. it[0] .. "," .. it[1] .. "]" end, "i"))
        all(ngx.re.gsub("hello", "l", "$x"))
        all(ngx.re.gsub("abc", "", "-"))
        local into = { old = 1 }
        all(ngx.re.match("ab", "(a)(b)", "", nil, into) == into, into[2], into.old)
    "##;
    says(
        script,
        &[
            "1234 1 nil",
            "1234 false",
            "234 5",
            "nil nil",
            "nil string",
            "8 11",
            "8 11",
            "hello world",
            "hello, [12][1]34 1",
            "hello, 100234 1",
            "[hello,h], [world,w] 2",
            "nil nil the replacement \"$x\": after a dollar comes $, the number of a group or {its name}",
            "-a-b-c- 4",
            "true b 1",
        ],
    );
}

#[test]
fn dictionaries_do_what_is_published() {
    let script = r#"
        local dict = ngx.shared.default
        local function all(...)
            local words = {}
            for index = 1, select('#', ...) do words[index] = tostring((select(index, ...))) end
            ngx.say(table.concat(words, " "))
        end
        all(ngx.shared.dogs, dict:get("none"), dict:get(nil))
        all(dict:set("a", "text", 0, 7)) all(dict:get("a")) all(dict:add("a", 1)) all(dict:add("b", 1.5))
        all(dict:replace("c", 1)) all(dict:incr("b", 1)) all(dict:incr("n", 1)) all(dict:incr("n", 2, 40))
        all(dict:set("t", {})) all(dict:set("a", nil)) all(dict:get("a")) all(dict:set("b", true)) all(dict:incr("b", 1))
        all(dict:rpush("l", "x")) all(dict:lpush("l", 1)) all(dict:llen("l")) all(dict:lpop("l")) all(dict:rpop("l"))
        all(dict:ttl("n")) all(dict:ttl("none")) all(dict:expire("n", 1000)) all(dict:ttl("n") > 900)
        all(dict:free_space() <= dict:capacity(), #dict:get_keys())
        dict:flush_all() all(dict:get("n")) all((dict:get_stale("n"))) all(dict:flush_expired() > 0)
    "#;
    says(
        script,
        &[
            "nil nil nil nil key",
            "true nil false",
            "text 7",
            "false exists false",
            "true nil false",
            "false not found false",
            "2.5 nil false",
            "nil not found",
            "42 nil false",
            "nil bad value type",
            "true nil false",
            "nil",
            "true nil false",
            "nil not a number",
            "1",
            "2",
            "2",
            "1",
            "x",
            "0",
            "nil not found",
            "true",
            "true",
            "true 2",
            "nil",
            "42",
            "true",
        ],
    );
}

#[test]
fn timers_run_behind_requests() {
    let gateway = content(
        r#"
        if ngx.var.arg_count then return ngx.say(count or 0) end
        local good = ngx.timer.at(0, function(premature, word)
            count = (count or 0) + 1
            assert(premature == false and word == "word" and ngx.get_phase() == "timer")
            ngx.say("not here")
        end, "word")
        ngx.say(good)
        "#,
    );
    assert_eq!(ask(&gateway, "/lua/", &[]).content, "true\n");
    assert!(eventually(|| ask(&gateway, "/lua/?count=1", &[]).content == "1\n"));
    gateway.wait_for_line("API disabled in the context of ngx.timer");
    gateway.stop();
}

#[test]
fn mistakes_are_found_before_the_start() {
    let origin = Origin::start(behaviour::echo);
    for (phases, said) in [
        (vec![("access_by_lua", "if\n")], "access_by_lua:2: unexpected symbol near"),
        (
            vec![("init_by_lua", "\nngx.say('x')\n"), ("access_by_lua", "\n")],
            "init_by_lua:2: API disabled",
        ),
        (vec![("access_by_lua", "\n"), ("script", "x = 1\n")], "are in one place"),
        (vec![("access_by_lua", "\n"), ("access_by_lua_file", "x")], "not in both"),
        (vec![("init_by_lua", "\n")], "none of the functions"),
        (vec![("content_by_lua", "\n")], "unknown key `content_by_lua`"),
    ] {
        let refused = Sluice::try_start(&with(&origin, &phases, &[])).map(|_| ()).unwrap_err();
        let refused = format!("{refused:?}");
        assert!(refused.contains(said), "{said:?} is not in {refused}");
    }
}

#[test]
fn phases_lie_in_files_too() {
    let origin = Origin::start(behaviour::echo);
    let scratch = sluice_testkit::Scratch::new();
    scratch.write("word.lua", "return 'from a module'\n");
    let file = scratch.write("gate.lua", "ngx.say(require('word'))\nngx.exit(ngx.HTTP_OK)\n");
    let rest = config(&format!(
        "[filter.it.lua]\naccess_by_lua_file = \"{}\"\n\
         [[route]]\npath = \"/*\"\nproxy = \"http://{}\"\nfilters = [\"it\"]\n",
        file.display(),
        origin.address()
    ));
    let gateway = Sluice::start(&rest);
    assert_eq!(ask_both(&gateway, "/", &[], &[]).content, "from a module\n");
    scratch.write("gate.lua", "ngx.exit(404)\n");
    assert!(eventually(|| ask(&gateway, "/", &[]).status == 404));
    gateway.stop();
}

#[test]
fn what_answers_a_route_may_give_the_request_to_another() {
    let section = |path: &str, script: &str| {
        format!(
            "[[route]]\npath = \"{path}\"\nconcurrency = {{ limit = 1 }}\n[route.lua]\n\
             content_by_lua = '''\n{script}\n'''\n"
        )
    };
    let first =
        "if ngx.var.arg_to == 'circle' then return ngx.exec('/first', { to = 'circle' }) end
        ngx.ctx.lost = true
        pcall(ngx.exec, '/second', { seen = ngx.var.arg_to })
        ngx.say('it goes on')";
    let second = "if ngx.var.arg_seen == 'wait' then
            ngx.shared.default:set('waits', true)
            while not ngx.shared.default:get('go') do ngx.sleep(0.01) end
        end
        ngx.say(ngx.var.uri, ' ', ngx.var.args, ' ', ngx.worker.count())";
    let other = "ngx.exec('/third', 'a=1')";
    let text = format!(
        "workers = 2\n{}",
        config(&format!(
            "{}{}{}[[route]]\npath = \"/third\"\nrespond = \"third\"\n\
             [[route]]\npath = \"/state\"\n[route.lua]\nscript = \"function answer(request) \
             if request.query == 'go' then store.set('go', true) end respond(tostring(store.get('waits'))) end\"\n",
            section("/first", first),
            section("/second", second).replace("limit = 1", "limit = 10"),
            section("/other", other),
        ))
    );
    let gateway = Sluice::start(&text);
    for ask in [ask, ask_http2] {
        let given = ask(&gateway, "/first?to=x", &[]);
        assert_eq!(given.content, "/second seen=x 2\n");
        assert_eq!(ask(&gateway, "/other", &[]).content, "third");
        // Whoever is sent in a circle ends.
        assert_eq!(ask(&gateway, "/first?to=circle", &[]).status, 500);
    }
    // A request that was given away is none of its first route any more, which takes one at a time.
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| ask(&gateway, "/first?to=wait", &[]));
        assert!(eventually(|| ask(&gateway, "/state", &[]).content == "true"));
        assert!(ask(&gateway, "/first?to=y", &[]).content.starts_with("/second seen=y"));
        let _ = ask(&gateway, "/state?go", &[]);
        assert!(waits.join().unwrap().content.starts_with("/second seen=wait"));
    });
    gateway.stop();
}
