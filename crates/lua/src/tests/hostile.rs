//! Scripts that mean harm, or might as well: each costs itself and nothing else.

use std::time::Duration;

use super::scripted::{PATIENCE, Peer, Scripted};

/// For loops that only the budget ends, and for what ends otherwise.
const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(20);

/// A service that does what each line says, and another that only answers.
fn service(functions: &str, budget: Duration) -> Scripted {
    let script = format!(
        "local acts = {{}}
         {functions}
         serve(function(c) local act = c:read('\\n'):sub(1, -2) acts[act](c) c:write('done') c:close() end)
         serve(function(c) while true do local l = c:read('\\n') if not l then return end c:write(l) end end)"
    );
    Scripted::start_with(&script, |settings| {
        settings.budget = budget;
        settings.memory = 32 << 20;
    })
}

/// Has the first service do something that must fail with this word, while the second goes on.
#[track_caller]
fn fails(functions: &str, act: &str, word: &str, budget: Duration) {
    let mut script = service(functions, budget);
    let (address, mut other) = (script.line(), script.connect());
    other.send("before\n");
    other.expect("before\n");
    let mut peer = Peer::new(&address);
    peer.send(&format!("{act}\n"));
    other.send("meanwhile\n");
    other.expect("meanwhile\n");
    let mut rest = Vec::new();
    let _ = std::io::Read::read_to_end(&mut peer.0, &mut rest);
    assert_eq!(String::from_utf8_lossy(&rest), "", "{}", script.log());
    other.send("after\n");
    other.expect("after\n");
    let log = script.log();
    assert!(log.contains(word), "{word} in {log}");
}

#[test]
fn loops_without_end_are_stopped() {
    for (act, body) in [
        ("empty", "while true do end"),
        ("busy", "local n = 0 while true do n = n + 1 end"),
        ("calls", "local function f(n) return n + 1 end local n = 0 while true do n = f(n) end"),
        ("strings", "local s = '' while true do s = tostring(math.random()) end"),
        ("caught", "while true do pcall(function() while true do end end) end"),
        ("nested", "while true do coroutine.wrap(function() while true do end end)() end"),
        (
            "handler",
            "while true do xpcall(function() while true do end end, function() while true do end end) end",
        ),
        ("natives", "while true do c:isalive() end"),
        ("tail", "local function f() return f() end f()"),
    ] {
        fails(&format!("acts.{act} = function(c) {body} end"), act, "it ran for too long", SHORT);
    }
}

#[test]
fn memory_has_a_bound() {
    for (act, body) in [
        ("table", "local t = {} while true do t[#t + 1] = {} end"),
        ("string", "local s = 'x' while true do s = s .. s end"),
        ("rep", "local s = ('x'):rep(1e9)"),
        ("buffer", "local t = {} for i = 1, 1e7 do t[i] = ('x'):rep(100) .. i end"),
    ] {
        fails(&format!("acts.{act} = function(c) {body} end"), act, "not enough memory", LONG);
    }
}

#[test]
fn garbage_is_collected_before_memory_is_short() {
    let mut script = Scripted::start_with(
        "for i = 1, 300 do local s = ('x'):rep(1000000) .. i time.sleep(0) end report('fine')",
        |settings| settings.memory = 16 << 20,
    );
    script.expect(&["fine"]);
}

#[test]
fn recursion_has_a_bound() {
    for (act, body, word) in [
        ("plain", "local function f() return 1 + f() end f()", "stack overflow"),
        ("gsub", "local function f() return (('x'):gsub('x', f)) end f()", "stack overflow"),
        (
            "sort",
            "local function f() table.sort({1, 2, 3}, f) return false end f()",
            "stack overflow",
        ),
        ("load", "local function f() return load(f) end f()", "stack overflow"),
        ("wrap", "local function f() coroutine.wrap(f)() end f()", "stack overflow"),
        (
            "resume",
            "local function f() error(select(2, coroutine.resume(coroutine.create(f))), 0) end f()",
            "overflow",
        ),
        (
            "meta",
            "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k + 1] end local x = t[1]",
            "overflow",
        ),
        (
            "tostring",
            "local t = setmetatable({}, {}) getmetatable(t).__tostring = function(t) return tostring(t) .. '' end tostring(t)",
            "overflow",
        ),
        (
            "format",
            "local t = setmetatable({}, {}) getmetatable(t).__tostring = function(t) return ('%s'):format(t) .. '' end tostring(t)",
            "overflow",
        ),
        (
            "concat",
            "local t = setmetatable({}, {}) getmetatable(t).__concat = function(a, b) return a .. b .. '' end local x = t .. t",
            "overflow",
        ),
    ] {
        fails(&format!("acts.{act} = function(c) {body} end"), act, word, LONG);
    }
}

#[test]
fn nobody_waits_below_functions_of_c() {
    for (act, wait) in [
        ("read", "c:read(5)"),
        ("readline", "c:readline()"),
        ("sleep", "time.sleep(1)"),
        ("wait", "task.wait()"),
        ("connect", "tcp.connect('127.0.0.1:1')"),
    ] {
        let functions = format!(
            "acts.{act} = function(c) ('%s'):format(setmetatable({{}}, {{ __tostring = function() {wait} end }})) end"
        );
        fails(&functions, act, "called by format", LONG);
        // Who catches that has waited for nothing: the next wait is for what it says.
        let mut script = Scripted::start(&format!(
            "serve(function(c) report(pcall(string.format, '%s', setmetatable({{}}, {{ __tostring = function() {wait} end }})) == false)
             collectgarbage() report(c:read(5), c:read(1)) end)"
        ));
        let mut peer = script.connect();
        peer.send("12345x");
        script.expect(&["true", "12345 x"]);
    }
}

#[test]
fn errors_in_handlers_of_errors_are_errors() {
    for (act, body, word) in [
        ("handler", "error(select(2, xpcall(error, function() error('again') end)))", "error"),
        (
            "object",
            "error(setmetatable({}, {__tostring = function() error('no') end}))",
            "the error is no string",
        ),
        ("empty", "error()", "the error is no string"),
        ("yield", "coroutine.yield()", "attempt to yield from a task"),
        ("wait", "coroutine.wrap(function() c:read(1) end)()", "attempt to wait outside a task"),
    ] {
        fails(&format!("acts.{act} = function(c) {body} end"), act, word, LONG);
    }
}

#[test]
fn nothing_leads_out_of_the_state() {
    let mut script = Scripted::start(
        "for _, name in ipairs{'io', 'dofile', 'loadfile', 'newproxy', 'ffi'} do report(name, _G[name]) end
         report(os.execute, os.remove, os.exit, debug.sethook, debug.getregistry, debug.getupvalue, string.dump)
         report((pcall(require, 'ffi')), (pcall(require, 'jit.util')), package.loadlib, jit.on)
         report(select(2, load('\\27LJ\\2')), (load('return 1')()), select(2, load('=')))
         report(getmetatable((tcp.listen(':0', print))[1]), getmetatable(out))
         report((pcall(require, '../x')), (pcall(require, '/etc/passwd')), (pcall(require, '..x')))
         report(debug.getinfo(1, 'f').func, debug.getinfo(print).func)",
    );
    script.expect(&["io nil", "dofile nil", "loadfile nil", "newproxy nil", "ffi nil"]);
    script.expect(&["nil nil nil nil nil nil nil", "false false nil nil"]);
    let said = script.line();
    assert!(said.contains("it is compiled code") && said.contains(" 1 "), "{said}");
    script.expect(&["object connection", "false false false", "nil nil"]);
}

#[test]
fn what_is_allowed_is_there() {
    use crate::settings::Access;
    let mut script = Scripted::start_with(
        "local f = assert(io.open(env.get 'file', 'w')) f:write('text') f:close() report(io.popen, os.execute)
         report((pcall(tcp.write, io.stdout, 'x')))",
        |settings| {
            settings.access = vec![Access::Files];
            let file = settings.script.with_file_name("made");
            settings.variables.push(("file".to_owned(), file.display().to_string()));
        },
    );
    script.expect(&["nil nil", "false"]);
    assert_eq!(std::fs::read_to_string(script.scratch().path().join("made")).unwrap(), "text");
}

#[test]
fn thousands_of_tasks_are_no_trouble() {
    let mut script = Scripted::start(
        "local left = 20000
         for i = 1, left do task.fork(function() time.sleep(i % 7) left = left - 1 end) end
         while left > 0 do time.sleep(1) end
         report(left, task.readycount())
         local n = 0
         for i = 1, 300 do tcp.listen('127.0.0.1:0', print):close() end
         report('closed')",
    );
    script.expect(&["0 0", "closed"]);
}

#[test]
fn a_script_that_cannot_begin_says_why() {
    let script = Scripted::start("error('no good')");
    assert_eq!(script.end(), Ok(1));
    assert!(script.log().contains("test.lua:2: no good"), "{}", script.log());
}

#[test]
fn tasks_that_make_each_other_ready_let_others_run() {
    let mut script = Scripted::start(
        "local function again() task.fork(again) end
         task.fork(again)
         serve(function(c) c:write(c:read(2)) end)",
    );
    let mut peer = script.connect();
    peer.send("hi");
    peer.expect("hi");
}

#[test]
fn a_loop_of_errors_does_not_fill_the_log() {
    let mut script = Scripted::start_with(
        "local log = require 'silly.logger'
         for i = 1, 1000 do log.error('line ' .. i) end
         -- What was left out is told when the second is over.
         time.sleep(1500)
         report('done')",
        |settings| settings.log_rate = 10,
    );
    script.expect(&["done"]);
    let log = script.log();
    assert!(log.starts_with("error: line 1\nerror: line 2\n"), "{log}");
    assert!(
        log.contains(" lines were left out, since there were more than 10 in a second\n"),
        "{log}"
    );
    assert!(log.lines().count() < 100, "{log}");
}

/// Valid bytes of every protocol that is written in Lua, changed at random: whatever comes of it, nothing fails but the
/// connection it came by.
#[test]
fn noise_is_nothing_but_noise() {
    let mut script = Scripted::start(
        r#"math.randomseed(20261122)
        local http, websocket, redis = require 'silly.net.http', require 'silly.net.websocket', require 'silly.store.redis'
        local shake = 'GET / HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'
        local requests = {
            'GET /a?b=c HTTP/1.1\r\nhost: a\r\nx-y: z\r\n\r\n',
            'POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nhost: a\r\n\r\n',
            'POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nx: y\r\n\r\n',
            shake .. '\129\133\0\0\0\0hello\137\128\0\0\0\0\136\130\0\0\0\0\3\232',
            shake .. '\1\129\1\2\3\4a\128\254\0\126\1\2\3\4' .. ('b'):rep(126),
        }
        local answers = {
            'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok',
            'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
            'HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n\129\2ok',
        }
        local replies = {'+PONG\r\n', ':12\r\n', '$5\r\nhello\r\n', '*2\r\n$1\r\na\r\n*1\r\n:1\r\n', '-ERR no\r\n', '$-1\r\n'}
        local random, char = math.random, string.char
        local function changed(list)
            local text = list[random(#list)]
            for _ = 1, random(0, 4) do
                local at, act = random(#text + 1), random(4)
                local before, after = text:sub(1, at - 1), text:sub(at)
                if act == 1 then text = before .. char(random(0, 255)) .. after:sub(2)
                elseif act == 2 then text = before .. after:sub(random(2, 6))
                elseif act == 3 then text = before .. after:sub(1, random(8)) .. after
                else text = before end
            end
            return text
        end
        local function serve_noise(list)
            return assert(tcp.listen{addr = '127.0.0.1:0', accept = function(c) c:write(changed(list)) c:read('\r\n') c:close() end}).addr
        end
        local server = assert(http.listen{addr = '127.0.0.1:0', handler = function(s)
            local sock = websocket.upgrade(s)
            if sock then
                repeat local data, kind = sock:read() until not data or kind == 'close'
            elseif not s.out then
                local body = s:readall() s:respond(200, {}) s:closewrite(body)
            end
        end})
        local noisy_http, noisy_redis = serve_noise(answers), serve_noise(replies)
        local client = http.newclient{timeout = 30000}
        local group = require('silly.sync.waitgroup').new()
        local failed = 0
        for i = 1, 300 do
            group:fork(function()
                local c = assert(tcp.connect(server.addr))
                c:write(changed(requests)) time.sleep(0) c:close()
                local good = pcall(client.get, client, 'http://' .. noisy_http .. '/')
                    and pcall(websocket.connect, 'ws://' .. noisy_http .. '/')
                local db = redis.new{addr = noisy_redis, timeout = 30000}
                good = pcall(db.ping, db) and pcall(db.pipeline, db, {{'GET', 'a'}, {'GET', 'b'}}) and good
                db:close()
                if not good then failed = failed + 1 end
            end)
            if i % 20 == 0 then group:wait() end
        end
        group:wait()
        report(failed, http.post('http://' .. server.addr, {}, 'still here').body)"#,
    );
    script.expect(&["0 still here"]);
    assert_eq!(script.log(), "");
}

/// Doubles its tasks whenever it runs.
const BOMB: &str = "local function f() task.fork(f) task.fork(f) end task.fork(f)";

#[test]
fn tasks_that_multiply_stop_nobody_else() {
    let script = format!(
        "local time_out = false
         serve(function(c) while true do local l = c:read('\\n') if not l then return end c:write(l) end end)
         require('silly.signal').signal('SIGTERM', function() report('told') os.exit = nil require('silly').exit(7) end)
         task.fork(function() time.sleep(50) report('slept') end)
         time.after(50, function() report('rang') end)
         {BOMB}"
    );
    let mut script = Scripted::start_with(&script, |settings| settings.tasks = 300);
    let mut peer = script.connect();
    for _ in 0..20 {
        peer.send("still here\n");
        peer.expect("still here\n");
    }
    let mut seen = [script.line(), script.line()];
    seen.sort();
    assert_eq!(seen, ["rang", "slept"]);
    script.signal("SIGTERM");
    script.expect(&["told"]);
    assert_eq!(script.end(), Ok(7));
    let log = script.log();
    assert!(log.contains("there are 300 tasks already (tasks)"), "{log}");
}

#[test]
fn what_the_program_keeps_for_a_script_counts_as_its_memory() {
    for body in [
        "while true do task.fork(function() task.wait() end) end",
        "while true do for _ = 1, 1000 do task.fork(function() time.sleep(1e9) end) end time.sleep(0) end",
        "local function f() end while true do time.after(1e9, f) end",
        "local h, t = require 'silly.crypto.hash', {} while true do t[#t + 1] = h.new('sha256') end",
        "local channel = require 'silly.sync.channel'.new() while true do channel:push(1) end",
        "local mutex = require 'silly.sync.mutex'.new() while true do mutex:lock({}) end",
        "local group = require 'silly.sync.waitgroup'.new() while true do group:fork(function() task.wait() end) end",
    ] {
        let script = format!(
            "serve(function(c) while true do local l = c:read('\\n') if not l then return end c:write(l) end end)
             task.fork(function() {body} end)"
        );
        let mut script = Scripted::start_with(&script, |settings| {
            settings.memory = 8 << 20;
            settings.tasks = 10_000_000;
            settings.budget = LONG;
        });
        let mut peer = script.connect();
        let began = std::time::Instant::now();
        while !script.log().contains("not enough memory") {
            assert!(began.elapsed() < PATIENCE, "{body}: {}", script.log());
            peer.send("meanwhile\n");
            peer.expect("meanwhile\n");
        }
        peer.send("still here\n");
        peer.expect("still here\n");
    }
}

#[test]
fn timers_have_a_bound_and_cancelled_ones_do_not_count() {
    let mut script = Scripted::start_with(
        "local function f() end
         local first = time.after(1e9, f)
         for _ = 2, 100 do time.after(1e9, f) end
         report(select(2, pcall(time.after, 1e9, f)))
         time.cancel(first)
         first = time.after(1e9, f)
         time.cancel(first)
         report(pcall(time.after, 1, function() report('rang') end))
         time.sleep(5)
         for _ = 1, 1000 do time.cancel(time.after(1e9, f)) end",
        |settings| settings.tasks = 100,
    );
    let said = script.line();
    assert!(said.contains("there are 100 timers already (tasks)"), "{said}");
    assert!(script.line().starts_with("true "));
    // The last place is free again.
    script.expect(&["rang"]);
}

#[test]
fn timers_that_are_due_wait_for_room() {
    let mut script = Scripted::start_with(
        "local blocked = {}
         for index = 1, 9 do blocked[index] = task.fork(task.wait) end
         time.after(1, function() report('rang') end)
         report((pcall(task.fork, function() end)))
         time.sleep(20)
         report('slept')
         task.wakeup(blocked[1])",
        |settings| settings.tasks = 10,
    );
    script.expect(&["false", "slept", "rang"]);
}

#[test]
fn the_environment_is_what_the_script_is_to_see() {
    // Both are in the environment of every test.
    let mut script = Scripted::start_with(
        "report(os.getenv('PATH') ~= nil, os.getenv('CARGO_MANIFEST_DIR'), os.getenv('NOT_THERE'), pcall(os.getenv))",
        |settings| settings.env = vec!["PATH".to_owned(), "NOT_THERE".to_owned()],
    );
    let said = script.line();
    assert!(said.starts_with("true nil nil false "), "{said}");
}

#[test]
fn nobody_forges_lines_of_the_log() {
    let mut script = Scripted::start(
        "local log = require 'silly.logger'
         log.info('one\\nerror: two\\27[2J\\r\\155')
         task.fork(function() error('three\\nerror: four\\n\\tfive') end)
         task.fork(function() error('six\\0\\27', 0) end)
         time.sleep(1)
         report('done')",
    );
    script.expect(&["done"]);
    let log = script.log();
    let starts: Vec<_> = log.lines().filter(|line| !line.starts_with('\t')).collect();
    assert_eq!(starts.len(), 5, "{log}");
    assert_eq!(starts.first(), Some(&"info: one\\nerror: two\\x1b[2J\\r\\x9b"), "{log}");
    assert!(log.contains("three\\nerror: four\\n\tfive\nstack traceback:\n\t"), "{log}");
    assert!(log.contains("error: six\\x00\\x1b\nstack traceback:\n"), "{log}");
}
