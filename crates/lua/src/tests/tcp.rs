//! `silly.net.tcp` as documented.

use std::io::Read;

use super::scripted::{Peer, Scripted};
use crate::settings::{Settings, WriteFull};

/// The script of the benchmark, in the three forms that were published.
const FORMS: [&str; 3] = [
    "local readline, write = tcp.readline, tcp.write
     report(tcp.listen('127.0.0.1:0', function(fd, addr)
        while true do
            local line = readline(fd)
            if not line then return end
            if line == 'PING\\r\\n' then write(fd, '+PONG\\r\\n') end
        end
     end).addr)",
    "report(tcp.listen('127.0.0.1:0', function(fd, addr)
        while true do
            local line = tcp.readline(fd, '\\r\\n')
            if not line then return end
            if line == 'PING\\r\\n' then tcp.write(fd, '+PONG\\r\\n') end
        end
     end).addr)",
    "report(tcp.listen { addr = '127.0.0.1:0', accept = function(conn)
        while true do
            local line = conn:read('\\r\\n')
            if not line then return end
            if line == 'PING\\r\\n' then conn:write('+PONG\\r\\n') end
        end
     end }.addr)",
];

#[test]
fn the_benchmark_runs_in_all_its_forms() {
    for form in FORMS {
        let mut script = Scripted::start(form);
        let mut peer = script.connect();
        peer.send("PING\r\n");
        peer.expect("+PONG\r\n");
        peer.send("*1\r\n$4\r\nPI");
        peer.send("NG\r\nPING\r\nPING\r\n");
        peer.expect("+PONG\r\n+PONG\r\n+PONG\r\n");
        // The handler returns at the end, and nobody has to close.
        peer.finish_sending();
        assert_eq!(peer.rest(), "");
        script.signal("SIGTERM");
        assert_eq!(script.end(), Ok(0));
        assert_eq!(script.log(), "");
    }
}

#[test]
fn the_old_name_of_the_module_is_the_same_module() {
    let mut script = Scripted::start(
        "report(require 'core.net.tcp' == require 'silly.net.tcp', require('core.time').now() > 0)
         report(require 'core.http' == require 'silly.net.http', require 'silly.http' == require 'silly.net.http',
            require 'core.db.redis' == require 'silly.store.redis', require 'silly.dns'.A, require 'core.net.tls' == require 'silly.net.tls')
         local net = require 'silly.net'
         report(net.tcp == tcp, net.udp == require 'silly.net.udp', net.nothing)",
    );
    script.expect(&["true true", "true true true 1 true", "true true nil"]);
}

#[test]
fn reads_give_exactly_what_was_asked_for() {
    let mut script = Scripted::start(
        "serve(function(c)
            report(c:read(3), c:read(0) == '', c:read(-1) == '', c:read('::end::', 30000))
            report(c:readline(), c:unreadbytes(), tcp.recvsize(c))
            report(c:read(5))
        end)",
    );
    let mut peer = script.connect();
    peer.send("abcone::end");
    peer.send("::line\nde");
    script.expect(&["abc true true one::end::", "line", " 2 2"]);
    peer.send("fgh");
    script.expect(&["defgh"]);
}

#[test]
fn time_runs_out_and_nothing_is_lost() {
    let mut script = Scripted::start(
        "serve(function(c)
            local line, problem = c:read('\\n', 10)
            report(line, problem, problem == errno.TIMEDOUT, c:unreadbytes())
            c:write('more')
            report(c:read('\\n', 30000))
        end)",
    );
    let mut peer = script.connect();
    peer.send("ab");
    script.expect(&["nil Operation timed out (110) true 2"]);
    peer.expect("more");
    peer.send("c\n");
    script.expect(&["abc", ""]);
}

#[test]
fn what_lies_ready_comes_before_the_end() {
    let mut script = Scripted::start(
        "serve(function(c)
            report(c:read(4))
            local rest, problem = c:read(4)
            report(rest, problem == errno.EOF, c:unreadbytes(), c:isalive())
            report(c:read(2))
            report(select('#', c:read(1)), (select(2, c:read(1))))
            c:write('still here')
            c:close()
        end)",
    );
    let mut peer = script.connect();
    peer.send("abcdef");
    peer.finish_sending();
    script.expect(&["abcd", "nil true 2 false", "ef", "2 End of file (10005)"]);
    assert_eq!(peer.rest(), "still here");
}

#[test]
fn a_connection_has_one_reader() {
    let mut script = Scripted::start(
        "serve(function(c)
            task.fork(function() report(c:read(1)) end)
            time.sleep(1)
            report(pcall(c.read, c, 1))
        end)",
    );
    let mut peer = script.connect();
    let said = script.line();
    assert!(
        said.starts_with("false ")
            && said.ends_with("another task is reading from this connection"),
        "{said}"
    );
    peer.send("x");
    script.expect(&["x"]);
}

#[test]
fn a_closed_connection_says_so_and_sends_what_it_has() {
    let mut script = Scripted::start(
        "serve(function(c)
            local big = ('x'):rep(3000000)
            task.fork(function() report('reader', c:read(1)) end)
            time.sleep(1)
            c:write(big)
            report(c:close(), select(2, c:close()) == errno.CLOSED, c:isalive())
            report(c:write('y'), c:read(1))
        end)",
    );
    let mut peer = script.connect();
    script.expect(&["true true false", "false nil Socket is closed (10004)"]);
    script.expect(&["reader nil Socket is closed (10004)"]);
    assert_eq!(peer.rest().len(), 3_000_000);
}

#[test]
fn writes_take_strings_numbers_and_tables() {
    let mut script = Scripted::start(
        "serve(function(c)
            report(c:write('a'), c:write(12), c:write {'b', 3, 'c'}, c:write '', c:write {})
            report((pcall(c.write, c)), (pcall(c.write, c, {{}})), (pcall(c.write, c, {'z', print})))
            report((pcall(tcp.write, nil, 'x')), (pcall(tcp.write, {}, 'x')), (pcall(tcp.write, io, 'x')))
            c:close()
        end)",
    );
    let mut peer = script.connect();
    script.expect(&["true true true true true", "false false false", "false false false"]);
    assert_eq!(peer.rest(), "a12b3c");
}

#[test]
fn a_peer_that_does_not_read_is_given_up() {
    let mut script = Scripted::start_with(
        "serve(function(c)
            local piece = ('x'):rep(100000)
            local good, problem
            repeat good, problem = c:write(piece) time.sleep(0) until not good
            report(problem == errno.NOBUFS, c:unsentbytes(), c:isalive())
        end)",
        |settings| settings.write_limit = 1 << 20,
    );
    let mut peer = script.connect();
    script.expect(&["true 0 false"]);
    assert!(script.log().contains("more than 1048576 bytes wait for the peer"), "{}", script.log());
    let mut all = Vec::new();
    // Broken off, not ended: half of something is not taken for the whole.
    assert!(peer.0.read_to_end(&mut all).is_err());
}

#[test]
fn who_writes_too_much_may_wait_instead() {
    let change = |settings: &mut Settings| {
        settings.write_limit = 1 << 20;
        settings.write_full = WriteFull::Wait;
    };
    let mut script = Scripted::start_with(
        "serve(function(c)
            local piece, most = ('x'):rep(700000), 0
            for i = 1, 30 do
                assert(c:write(piece))
                most = math.max(most, c:unsentbytes())
            end
            report(most <= 1048576)
            c:close()
        end)
        serve(function(c)
            local first = task.fork(function()
                repeat local good, problem = c:write(('y'):rep(1000000)) until not good
                report('first', select(2, c:write('z')) == errno.CLOSED)
            end)
            repeat time.sleep(1) until c:unsentbytes() > 1048576
            report('other', pcall(coroutine.wrap(function() return c:write('y') end)))
            report('closed', c:close())
        end)
        serve(function(c)
            local good, problem
            repeat good, problem = c:write(('y'):rep(1000000)) until not good
            report('left', problem == errno.PIPE or problem == errno.CONNRESET)
        end)",
        change,
    );
    let addresses = [script.line(), script.line(), script.line()];
    let mut patient = Peer::new(&addresses[0]);
    assert_eq!(patient.rest().len(), 21_000_000);
    script.expect(&["true"]);
    let idle = Peer::new(&addresses[1]);
    let said = script.line();
    assert!(said.starts_with("other false ") && said.contains("outside a task"), "{said}");
    script.expect(&["closed true", "first true"]);
    drop(idle);
    let mut hasty = Peer::new(&addresses[2]);
    hasty.expect("yyyyyyyyyy");
    drop(hasty);
    script.expect(&["left true"]);
}

#[test]
fn a_read_has_a_bound() {
    let mut script = Scripted::start_with(
        "serve(function(c)
            report(select(2, c:read(2000000)) == errno.NOBUFS)
            report(select(2, c:read('\\n')) == errno.NOBUFS)
            c:close()
        end)",
        |settings| settings.read_limit = 1 << 20,
    );
    let mut peer = script.connect();
    script.expect(&["true"]);
    peer.send(&"x".repeat(1 << 20));
    script.expect(&["true"]);
}

#[test]
fn what_a_script_forgets_is_closed() {
    let mut script = Scripted::start(
        "serve(function(c) end)
         serve(function(c) c:write('bye') end)
         task.fork(function() while true do time.sleep(5) collectgarbage() end end)",
    );
    let mut peers = [script.connect(), script.connect()];
    assert_eq!(peers.each_mut().map(Peer::rest), ["", "bye"]);
}

#[test]
fn what_a_script_keeps_stays_open() {
    let mut script = Scripted::start(
        "local kept = {}
         serve(function(c) kept[#kept + 1] = c report('kept') end)
         serve(function(c) collectgarbage() report(#kept) for _, k in ipairs(kept) do k:write(c:read(2)) end end)",
    );
    let addresses = [script.line(), script.line()];
    let mut first = Peer::new(&addresses[0]);
    script.expect(&["kept"]);
    let mut second = Peer::new(&addresses[1]);
    script.expect(&["1"]);
    second.send("hi");
    first.expect("hi");
}

#[test]
fn an_error_costs_its_own_connection_and_is_told_with_its_place() {
    let mut script = Scripted::start(
        "local function deep() local x = nil; return x.field end
         serve(function(c) local line = c:read('\\n'); if line == 'bad\\n' then deep() end c:write(line) end)",
    );
    let address = script.line();
    let (mut bad, mut good) = (Peer::new(&address), Peer::new(&address));
    bad.send("bad\n");
    assert_eq!(bad.rest(), "");
    good.send("good\n");
    good.expect("good\n");
    let log = script.log();
    for part in
        ["error: ", "test.lua:2: attempt to index", "stack traceback:", "in function 'deep'"]
    {
        assert!(log.contains(part), "{part} in {log}");
    }
}

#[test]
fn connections_are_made_and_refused() {
    let mut script = Scripted::start(
        "local l = tcp.listen('127.0.0.1:0', function(c, addr) c:write(addr .. '\\n') c:close() end)
         local c = assert(tcp.connect(l.addr))
         report(c.remoteaddr == l.addr, #c:read('\\n') > 0, select(2, c:read(1)) == errno.EOF, c.fd ~= nil)
         local n = assert(tcp.connect('localhost' .. l.addr:match(':%d+')))
         report(l:close(), select(2, l:close()) == errno.CLOSED)
         report(select(2, tcp.connect(l.addr)) == errno.CONNREFUSED)
         report(select(2, tcp.connect('nowhere')) == errno.INVAL, select(2, tcp.listen('nowhere', print)) == errno.INVAL)
         local a = tcp.listen('127.0.0.1:0', print)
         report(select(2, tcp.listen(a.addr, print)) == errno.ADDRINUSE)
         report(pcall(tcp.listen, nil, print))
         report((pcall(tcp.listen, {addr = ':0'})))",
    );
    script.expect(&["true true true true", "true true", "true", "true true", "true"]);
    assert!(script.line().contains("missing addr"));
    script.expect(&["false"]);
}

#[test]
fn scripts_add_what_they_like_to_connections() {
    let mut script = Scripted::start(
        "serve(function(c)
            report(type(c.fd), type(c.remoteaddr), c.user, c == c)
            c.user = 'anne'
            c.fd = 7
            c.itself = c
            report(c.user, c.fd, c.itself == c, c.isalive == tcp.isalive)
            c.read = function() return 'hidden' end
            report(c:read(3), tcp.read(c, 3), pcall(tcp.read, {c}, 3))
            c.read = nil
            report(c:read(3), getmetatable(c), tcp.readline(c, 5, nil), c:readline(nil))
            report(pcall(function() c[nil] = 1 end))
        end)",
    );
    let mut peer = script.connect();
    peer.send("onetwo...5line\n");
    script.expect(&["number string nil true", "anne 7 true true"]);
    assert!(script.line().starts_with("hidden one false "));
    script.expect(&["two connection ...5 line", ""]);
    assert!(script.line().starts_with("false "));
}

#[test]
fn a_limit_holds_the_peer_back() {
    let mut script = Scripted::start(
        "serve(function(c)
            report(c:limit(1000), c:read(10))
            report(#c:read(500000), c:limit(nil))
        end)",
    );
    let mut peer = script.connect();
    peer.send(&"y".repeat(500_010));
    script.expect(&["true yyyyyyyyyy", "500000 true"]);
}

#[test]
fn a_connection_comes_from_where_the_script_says() {
    let mut script = Scripted::start(
        "serve(function(c) report(c.remoteaddr:match('^[%d.]+')) c:close() end)
         local addr = env.get 'report'
         local l = tcp.listen{addr = '127.0.0.1:0', accept = function(c) report('from', c.remoteaddr:match('^[%d.]+')) end}
         report(tcp.connect(l.addr, {bind = '127.0.0.5:0'}) ~= nil)
         report(tcp.connect(l.addr, {bind = '192.0.2.1:0'}) )
         report(tcp.connect(l.addr, {bind = 'nonsense'}))",
    );
    script.line();
    let mut lines: Vec<String> = (0..4).map(|_| script.line()).collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            "from 127.0.0.5",
            "nil Cannot assign requested address (99)",
            "nil Invalid argument (22)",
            "true"
        ]
    );
}

#[test]
fn a_reader_says_how_much_it_lets_wait() {
    let mut script = Scripted::start(
        "serve(function(c)
            local line, problem = c:read('\\n', nil, 100)
            report(line, problem == errno.NOBUFS, c:unreadbytes() >= 100)
            report(#c:read('\\n'))
         end)",
    );
    let mut peer = script.connect();
    peer.send(&"x".repeat(100));
    script.expect(&["nil true true"]);
    peer.send("\n");
    script.expect(&["101"]);
}

#[test]
fn what_was_written_goes_out_before_the_script_ends() {
    let mut script = Scripted::start(
        "serve(function(c) c:readline() c:write('bye\\n') require('silly').exit(3) end)",
    );
    let mut peer = script.connect();
    peer.send("end\n");
    peer.expect("bye\n");
    assert_eq!(script.end(), Ok(3));
}

#[test]
fn answers_of_many_who_ask_at_once_come_complete_and_in_order() {
    // Some are short and wait for others to be read; some are long and do not.
    let mut script = Scripted::start(
        "serve(function(c)
            while true do
                local n = c:readline()
                if not n then return end
                c:write(('x'):rep(tonumber(n)) .. '\\n')
            end
        end)",
    );
    let address = script.line();
    let mut peers: Vec<_> = (0..50).map(|_| Peer::new(&address)).collect();
    for round in 0..20 {
        for (index, peer) in peers.iter_mut().enumerate() {
            let lengths = [index, index * 100 + round, index];
            peer.send(&lengths.map(|length| format!("{length}\n")).concat());
        }
        for (index, peer) in peers.iter_mut().enumerate() {
            let lengths = [index, index * 100 + round, index];
            peer.expect(&lengths.map(|length| format!("{}\n", "x".repeat(length))).concat());
        }
    }
}

#[test]
fn what_was_written_does_not_wait_for_what_its_task_does_next() {
    let mut script = Scripted::start(
        "serve(function(c)
            while true do
                local line = c:readline()
                if not line then return end
                c:write('got ' .. line)
                if line == 'sleep\\n' then require('silly.time').sleep(3600000) end
                if line == 'end\\n' then break end
            end
            c:write('bye\\n')
        end)",
    );
    let address = script.line();
    for lines in ["one\nsleep\n", "end\n", "sleep\n"] {
        let mut peer = Peer::new(&address);
        peer.send(lines);
        peer.expect(&lines.lines().map(|line| format!("got {line}\n")).collect::<String>());
    }
}

#[test]
fn a_peer_that_says_nothing_more_and_reads_late_gets_everything() {
    let mut script = Scripted::start(
        "serve(function(c)
            local n = tonumber(c:readline())
            for _ = 1, n do c:write(('x'):rep(100)) end
            report((c:readline()))
            c:write('end\\n')
        end)",
    );
    let mut peer = script.connect();
    peer.send("120000\n");
    peer.finish_sending();
    script.expect(&["nil"]);
    peer.expect(&("x".repeat(12_000_000) + "end\n"));
}
