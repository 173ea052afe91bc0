//! The modules beside connections.

use super::scripted::Scripted;

/// Runs a script whose reports are these.
#[track_caller]
pub(super) fn reports(script: &str, lines: &[&str]) {
    let mut script = Scripted::start(script);
    script.expect(lines);
    assert_eq!(script.log(), "");
}

#[test]
fn tasks_wait_for_each_other() {
    reports(
        "local a = task.fork(function(x) report('a', x, task.status(task.running())) report(task.wait()) report(task.wait()) end, 7)
         report(task.status(a), task.running() ~= a)
         time.sleep(0)
         report(task.status(a))
         task.wakeup(a, 'first')
         report(task.status(a), (pcall(task.wakeup, a)))
         time.sleep(0)
         task.wakeup(a)
         time.sleep(0)
         report(task.status(a), (pcall(task.wakeup, a)), (pcall(task.wakeup, 1)), (pcall(task.fork, 1)))
         report(task.inspect()[task.running()].status, #task.inspect()[task.running()].traceback > 0)",
        &["READY true", "a 7 RUN", "WAIT", "READY false", "first", "nil", "nil false false false", "RUN true"],
    );
}

#[test]
fn time_passes_as_asked() {
    reports(
        "local before = time.monotonic()
         time.sleep(20)
         report(time.monotonic() - before >= 20, time.now() > 1.6e12)
         local order = {}
         -- In this order: a machine that stands still for longer finds both due at once.
         time.after(5, function(what) order[#order + 1] = what end, 'soon')
         time.after(30, function(what) order[#order + 1] = what end, 'late')
         local dropped = time.after(1, function() order[#order + 1] = 'never' end, 'argument')
         report(time.cancel(dropped), time.cancel(dropped), time.cancel(12345))
         while #order < 2 do time.sleep(1) end
         report(table.concat(order, ' '), (pcall(time.after, 1)), (pcall(time.sleep, {})))",
        &["true true", "argument nil nil", "soon late false false"],
    );
}

#[test]
fn channels_hand_values_over() {
    reports(
        "local channel = require 'silly.sync.channel'
         local c = channel.new()
         task.fork(function() for i = 1, 3 do c:push(i) time.sleep(1) end c:close('over') end)
         report(c:pop(), c:pop(), c:pop())
         report(c:pop())
         report(c:push(1))
         local d = channel.new()
         d:push 'x' d:push 'y' d:clear() d:push 'z'
         report(d:pop(), (pcall(d.push, d, nil)))",
        &["1 2 3", "nil over", "false over", "z false"],
    );
}

#[test]
fn one_at_a_time_holds_a_mutex() {
    reports(
        "local m = require('silly.sync.mutex').new()
         local seen = {}
         local function work(name)
            local lock = m:lock('key')
            local again = m:lock('key')
            seen[#seen + 1] = name .. '+'
            time.sleep(2)
            seen[#seen + 1] = name .. '-'
            again:unlock() lock:unlock() lock:unlock()
         end
         local group = require('silly.sync.waitgroup').new()
         for _, name in ipairs{'a', 'b', 'c'} do group:fork(function() work(name) end) end
         local other = m:lock('other') other:unlock()
         group:wait()
         report(table.concat(seen, ' '), next(m.held))",
        &["a+ a- b+ b- c+ c- nil"],
    );
}

#[test]
fn what_many_ask_for_is_worked_out_once() {
    reports(
        "local runs = 0
         local once = require('silly.sync.singleflight').new(function(key)
            runs = runs + 1 time.sleep(3) if key == 'bad' then error('no ' .. key, 0) end return key .. runs end)
         local group, got = require('silly.sync.waitgroup').new(), {}
         for i = 1, 3 do group:fork(function() got[i] = once:call('k') end) end
         for i = 4, 5 do group:fork(function() got[i] = select(2, pcall(once.call, once, 'bad')) end) end
         group:wait()
         report(table.concat(got, ' '), runs)",
        &["k2 k2 k2 no bad no bad 2"],
    );
}

#[test]
fn json_goes_both_ways() {
    reports(
        r#"local json = require 'silly.encoding.json'
         local v = json.decode('{"a":[1,2.5,"x\\u00e4",true,null],"b":{},"c":-12345678901}')
         report(#v.a, v.a[1], v.a[2], v.a[3] == 'x\195\164', v.a[4], v.a[5], next(v.b), v.c)
         report(json.encode({1, 2, {x = 'y'}}), json.encode('a"b'), json.encode(1.5), json.encode(3), json.encode(false))
         report(json.encode({json.null}), json.encode({}), json.encode({[7] = 8}))
         report(select(2, json.decode('{')) ~= nil, select(2, json.encode(print)) ~= nil, select(2, json.encode(0/0)) ~= nil)
         local deep = {} local t = deep for i = 1, 1000 do t[1] = {} t = t[1] end
         report(json.encode(deep))
         report((json.decode(('['):rep(100000))))"#,
        &[
            "4 1 2.5 true true nil nil -12345678901",
            r#"[1,2,{"x":"y"}] "a\"b" 1.5 3 false"#,
            r#"[null] {} {"7":8}"#,
            "true true true",
            "nil the value is nested too deeply",
            "nil",
        ],
    );
}

#[test]
fn digests_are_those_of_the_standards() {
    reports(
        "local hash, hmac, base64 = require 'silly.crypto.hash', require 'silly.crypto.hmac', require 'silly.encoding.base64'
         local function hex(s) return (s:gsub('.', function(c) return ('%02x'):format(c:byte()) end)) end
         report(hex(hash.hash('sha1', 'abc')))
         local h = hash.new('sha256') h:update('a') h:update('bc')
         report(hex(h:final()) == hex(hash.hash('SHA256', 'abc')), hex(h:digest('abc')) == hex(hash.hash('sha256', 'abc')))
         report(hex(hmac.digest('key', 'The quick brown fox jumps over the lazy dog', 'sha256')))
         report((pcall(hash.hash, 'md4', '')), (pcall(hash.new)))
         report(base64.encode('a?>'), base64.urlsafe_encode('a?>~'), base64.decode('YT8+'), base64.urlsafe_decode('YT8-fg=='))
         report(base64.decode('!') == nil, base64.decode('YQ') == nil)",
        &[
            "a9993e364706816aba3e25717850c26c9cd0d89d",
            "true true",
            "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8",
            "false false",
            "YT8+ YT8-fg a?> a?>~",
            "true true",
        ],
    );
}

#[test]
fn the_log_has_levels_and_print_has_an_output() {
    let mut script = Scripted::start(
        "local log = require 'silly.logger'
         log.debug('hidden') log.info('one', 2, nil) log.warnf('%s-%d', 'w', 3)
         log.setlevel(log.ERROR) log.warn('hidden') log.error('e') report(log.getlevel())
         print('a', 1, nil) report('done')
         require('silly').error('told')
         report(require('silly').pcall(error, 'x'))",
    );
    script.expect(&["3", "done", "false error: x"]);
    let log = script.log();
    assert!(
        log.starts_with("info: one 2 nil\nwarning: w-3\nerror: e\nerror: told\nstack traceback"),
        "{log}"
    );
    assert_eq!(script.output(), "a\t1\tnil\n");
}

#[test]
fn variables_errors_and_signals_have_names() {
    let mut script = Scripted::start(
        "local silly, signal = require 'silly', require 'silly.signal'
         env.set('x', {y = 5})
         report(env.get('x.y'), env.get('nothing'), env.get('a.b'), silly.pid > 0, silly.genid() ~= silly.genid())
         report(errno.TIMEDOUT, errno.whatever, errno.EOF == errno.EOF)
         local old = signal.signal('SIGHUP', function(name) report(name) silly.exit(7) report('never') end)
         report(old, (pcall(signal.signal, 'SIGSEGV', print)))",
    );
    script.expect(&[
        "5 nil nil true true",
        "Operation timed out (110) Unknown error 'whatever' true",
        "nil false",
    ]);
    script.signal("SIGHUP");
    script.expect(&["SIGHUP"]);
    assert_eq!(script.end(), Ok(7));
}

#[test]
fn modules_lie_beside_the_script() {
    let mut script = Scripted::start(
        "task.wait_for_files = true
         time.sleep(0)
         serve(function(c)
            c:read(1)
            local a = require 'part.a'
            report(a.name, require('part.a') == a, a.path:match('part/a%.lua$'))
            local good, problem = pcall(require, 'part.broken')
            report(good, problem:match('part/broken%.lua:2:') ~= nil)
            report(select(2, pcall(require, 'part.none')):match(\"module 'part.none' not found\") ~= nil)
            report(select(2, pcall(require, 'part.circle')):match('requires itself') ~= nil)
         end)",
    );
    let mut peer = script.connect();
    let folder = script.scratch().path().join("part");
    std::fs::create_dir(&folder).unwrap();
    for (name, text) in [
        ("a.lua", "local name, path = ...\nreturn { name = name, path = path }"),
        ("broken.lua", "\n=\n"),
        ("circle.lua", "return require 'part.circle'"),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    peer.send("x");
    script.expect(&["part.a true part/a.lua", "false true", "true", "true"]);
}
