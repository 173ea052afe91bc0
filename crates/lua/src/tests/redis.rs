//! `silly.store.redis` with the real server, and with servers that break the rules.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use sluice_testkit::Peer;

use super::scripted::Scripted;

/// A redis-server of this test.
fn server(options: &[&str]) -> Peer {
    Peer::start(|scratch, address| {
        let mut command = Command::new("redis-server");
        command
            .args(["--port", address.rsplit(':').next().unwrap(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--dir", scratch.path().to_str().unwrap()])
            .args(options);
        command
    })
}

fn with(server: &Peer, script: &str) -> Scripted {
    let script = format!("local redis = require 'silly.store.redis'\n{script}");
    Scripted::start_with(&script, |settings| {
        settings.variables.push(("redis".to_owned(), server.address.clone()));
    })
}

#[test]
fn commands_are_methods() {
    let server = server(&[]);
    let mut script = with(
        &server,
        "local db = redis.new{addr = env.get 'redis'}
         report(db:ping()) report(db:set('k', 'v')) report(db:get('k')) report(db:get('none'))
         report(db:incr('n')) report(db:incrby('n', 2^40)) report((db:set('f', 1.5)), select(2, db:get('f')))
         report(db:call('mset', {'a', '1', 'b', '2'}))
         local ok, all = db:mget('a', 'none', 'b') report(ok, all[1], all[2], all[3])
         report(db:lpush('k', 'x'))
         report(db:nonsense('x'))
         local ok, list = db:eval('return {1, {\"two\", {}}, false}', 0) report(ok, list[1], list[2][1], #list[2][2], list[3])
         local big = ('\\r\\n\\0x'):rep(50000)
         report((db:set('big', big)), select(2, db:get('big')) == big)
         report((pcall(db.select, db, 1)), (pcall(redis.new, {})))
         db:close() report(db:ping())",
    );
    script.expect(&[
        "true PONG",
        "true OK",
        "true v",
        "true nil",
        "true 1",
        "true 1099511627777",
        "true 1.5",
        "true OK",
        "true 1 nil 2",
        "false WRONGTYPE Operation against a key holding the wrong kind of value",
    ]);
    assert!(script.line().starts_with("false ERR unknown command"));
    script.expect(&[
        "true 1 two 0 nil",
        "true true",
        "false false",
        "false Socket is closed (10004)",
    ]);
}

#[test]
fn many_tasks_share_a_connection_and_each_gets_its_own() {
    let server = server(&[]);
    let mut script = with(
        &server,
        "local db = redis.new{addr = env.get 'redis'}
         local group, bad = require('silly.sync.waitgroup').new(), 0
         for i = 1, 200 do
            group:fork(function()
                for j = 1, 10 do
                    local ok, value = db:echo(i .. ':' .. j)
                    if not ok or value ~= i .. ':' .. j then bad = bad + 1 end
                end
            end)
         end
         group:wait()
         local _, clients = db:client('list')
         report(bad, select(2, clients:gsub('\\n', '')))
         local results = assert(db:pipeline{{'SET', 'p', 1}, {'get', 'p'}, {'NONSENSE'}, {'GET', 'none'}, {'INCR', 'p'}})
         report(results[1], results[2], results[4], results[5], results[7], results[8], results[9], results[10])
         report(#db:pipeline({}))",
    );
    script.expect(&["0 1", "true OK 1 false true nil true 2", "0"]);
}

#[test]
fn passwords_databases_and_servers_that_went_away() {
    let server = server(&["--requirepass", "secret"]);
    let mut script = with(
        &server,
        "local addr = env.get 'redis'
         report(redis.new{addr = addr}:ping())
         report(redis.new{addr = addr, auth = 'wrong'}:ping())
         local zero, one = redis.new{addr = addr, auth = 'secret'}, redis.new{addr = addr, auth = 'secret', db = 1}
         report((one:set('k', 'of one')), one:get('k')) report(zero:get('k'))
         -- It comes back by itself.
         local _, id = one:client('id')
         report(zero:client('kill', 'id', id))
         local ok, value = one:get('k')
         if not ok then ok, value = one:get('k') end
         report(ok, value)
         report(redis.new{addr = '127.0.0.1:1'}:ping())",
    );
    script.expect(&["false NOAUTH Authentication required."]);
    assert!(script.line().starts_with("false WRONGPASS"));
    script.expect(&[
        "true true of one",
        "true nil",
        "true 1",
        "true of one",
        "false Connection refused (111)",
    ]);
}

#[test]
fn servers_that_break_the_rules_harm_nobody() {
    let mut script = Scripted::start(
        "local redis = require 'silly.store.redis'
         local answers = {'?what\\r\\n', '$-5\\r\\n', '$3\\r\\nabcde', '*99999999999\\r\\n', ('*1\\r\\n'):rep(100), ':x\\r\\n', '$99999999999\\r\\n', ('x'):rep(70000), '$3\\r\\nab'}
         local at = 0
         local l = tcp.listen{addr = '127.0.0.1:0', accept = function(c)
            at = at + 1
            c:read('PING\\r\\n') c:write(answers[at]) c:close()
         end}
         local db = redis.new{addr = l.addr}
         for i = 1, #answers do report(db:ping()) end
         -- All who wait hear of it, and the next one has a connection again.
         answers[#answers + 1] = ''
         answers[#answers + 1] = '+PONG\\r\\n'
         local group, failed = require('silly.sync.waitgroup').new(), 0
         for i = 1, 5 do group:fork(function() if not db:ping() then failed = failed + 1 end end) end
         group:wait()
         report(failed, db:ping())
         local silent = tcp.listen{addr = '127.0.0.1:0', accept = function(c) c:read(100000) end}
         report(redis.new{addr = silent.addr, timeout = 5}:ping())",
    );
    script.expect(&[
        "false Protocol error (71)",
        "false Protocol error (71)",
        "false Protocol error (71)",
        "false Protocol error (71)",
        "false Protocol error (71)",
        "false Protocol error (71)",
        "false No buffer space available (105)",
        "false No buffer space available (105)",
        "false End of file (10005)",
        "5 true PONG",
        "false Operation timed out (110)",
    ]);
}

/// A task that ends while it reads an answer, or while it opens the connection, leaves nobody waiting for good.
#[test]
fn who_waits_behind_a_task_that_ended_hears_of_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // More than the script may keep, for the first command and for the first connection of another client.
    let bomb = ["*1000000\r\n", &"*1\r\n:1\r\n".repeat(1_000_000)].concat();
    std::thread::spawn(move || {
        let answers = [bomb.as_str(), "+PONG\r\n", &bomb, "+OK\r\n+PONG\r\n"];
        for (answer, stream) in answers.into_iter().zip(listener.incoming()) {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1000]);
            let _ = stream.write_all(answer.as_bytes());
            // Until the client has closed it.
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    let script = "local redis = require 'silly.store.redis'
         for _, password in ipairs {false, 'secret'} do
            local db = redis.new{addr = env.get 'redis', auth = password}
            local read = function() db:ping() report 'it has read all of it' end
            local first = setmetatable({task.fork(read)}, {__mode = 'v'})
            task.fork(function() report('second', db:ping()) end)
            repeat time.sleep(10) until not (first[1] and task.status(first[1]))
            report('third', db:ping())
            db:close()
         end";
    let mut script = Scripted::start_with(script, |settings| {
        settings.variables.push(("redis".to_owned(), address));
        settings.memory = 16 << 20;
    });
    let aborted = "second false Software caused connection abort (103)";
    script.expect(&[aborted, "third true PONG", aborted, "third true PONG"]);
    assert_eq!(script.log().matches("not enough memory").count(), 2, "{}", script.log());
}
