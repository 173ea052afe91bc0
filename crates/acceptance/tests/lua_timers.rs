//! Patterns and timers in scripts of the gateway: background work that begins with a state and ends with it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sluice_acceptance::filters::{ask, ask_http2};
use sluice_acceptance::{config, eventually};
use sluice_testkit::{Origin, Sluice, behaviour};

/// One worker, so that each answer is of the state that the timers count in.
fn with(filter: &str, action: &str, origin: &Origin) -> String {
    let rest = config(&format!(
        "[filter.it.lua]\nscript = '''\n{filter}\n'''\n\
         [[route]]\npath = \"/action/*\"\n[route.lua]\nscript = '''\n{action}\n'''\n\
         [[route]]\npath = \"/*\"\nproxy = \"http://{}\"\nfilters = [\"it\"]\n",
        origin.address()
    ));
    format!("workers = 1\n{rest}")
}

/// What counts at top level, by a timer, a task and `every`, and what a request starts.
const COUNTS: &str = r#"
    local time, task = require "silly.time", require "silly.task"
    local seen = { after = 0, fork = 0, every = 0, asked = 0, failing = 0 }
    time.after(1, function(step) seen.after = seen.after + step end, 7)
    task.fork(function() time.sleep(1) seen.fork = 1 end)
    every(0.001, function() seen.every = seen.every + 1 end)
    -- One that fails goes on the next time.
    every(0.001, function() seen.failing = seen.failing + 1 if seen.failing == 1 then error("the first fails") end end)
    -- One that has begun is waited for.
    local slow, most = 0, 0
    every(0.001, function()
        slow = slow + 1
        most = math.max(most, slow)
        time.sleep(5)
        slow = slow - 1
    end)
    local stop
    stop = every(0.001, function() seen.stopped = (seen.stopped or 0) + 1 stop() end)
    local function answer_with(path)
        if path:find("start") then
            time.after(1, function() task.fork(function() seen.asked = seen.asked + 1 end) end)
        end
        local done = seen.after == 7 and seen.fork == 1 and seen.every > 2 and seen.failing > 2
        respond(("done=%s asked=%d stopped=%s most=%d"):format(tostring(done), seen.asked, tostring(seen.stopped), most))
    end
"#;

#[test]
fn timers_and_tasks_run_from_top_level_and_from_functions() {
    let origin = Origin::start(behaviour::echo);
    let filter = format!("{COUNTS} function request_head(request) answer_with(request.path) end");
    let action = format!("{COUNTS} function answer(request) answer_with(request.path) end");
    let gateway = Sluice::start(&with(&filter, &action, &origin));
    let mark = gateway.words().mark();
    for place in ["/filter", "/action"] {
        for ask in [ask, ask_http2] {
            assert_eq!(ask(&gateway, &format!("{place}/start"), &[]).status, 200);
        }
        let all = "done=true asked=2 stopped=1 most=1";
        assert!(eventually(|| ask(&gateway, &format!("{place}/look"), &[]).content == all));
    }
    assert!(gateway.words().wait_after(mark, "the first fails").is_some());
    gateway.stop();
}

#[test]
fn what_every_is_given_has_to_be_right() {
    let origin = Origin::start(behaviour::echo);
    let filter = r#"
        function request_head()
            local _, first = pcall(every, 0, print)
            local _, second = pcall(every, 1)
            local _, third = pcall(every, 0 / 0, print)
            respond(first .. "\n" .. second .. "\n" .. third .. "\n")
        end
    "#;
    let gateway = Sluice::start(&with(filter, "function answer() respond('a') end", &origin));
    let said = ask(&gateway, "/", &[]).content;
    assert_eq!(said.lines().count(), 3, "{said}");
    assert!(said.contains("every: seconds from 0.001 on are expected, not 0\n"), "{said}");
    assert!(said.contains("every: a function is expected, not nil\n"), "{said}");
    gateway.stop();
}

#[test]
fn a_reload_ends_what_the_script_before_has_started() {
    let origin = Origin::start(behaviour::echo);
    // Each state writes its own name, so that the log says who still runs.
    let told = |name: &str| {
        let filter = format!(
            "every(0.001, function() log('tick of {name}') end)
             function request_head() respond('{name}') end"
        );
        with(&filter, "function answer() respond('a') end", &origin)
    };
    let gateway = Sluice::start(&told("one"));
    assert_eq!(ask(&gateway, "/", &[]).content, "one");
    let mark = gateway.words().mark();
    assert!(gateway.words().wait_after(mark, "tick of one").is_some());
    assert!(gateway.reload(&told("two")).contains("reloaded"));
    assert!(eventually(|| ask(&gateway, "/", &[]).content == "two"));
    // Between ticks of the new one, the old one is silent from some time on.
    assert!(eventually(|| {
        let mark = gateway.words().mark();
        for _ in 0..20 {
            let after = gateway.words().mark();
            assert!(gateway.words().wait_after(after, "tick of two").is_some());
        }
        gateway.words().so_far().iter().skip(mark).all(|line| !line.contains("tick of one"))
    }));
    gateway.stop();
}

#[test]
fn patterns_are_there_in_filters_and_actions() {
    let origin = Origin::start(behaviour::echo);
    let filter = r#"
        function request_head(request)
            local found = regex.match(request.path, [[^/users/(?<id>\d+)(?=/|$)]])
            if found then
                request:set_header("x-user-id", found.id)
            end
            request.path = regex.gsub(request.path, "/{2,}", "/")
        end
    "#;
    let action = "function answer(request) respond(require('regex') == regex and \
                  regex.match(request.path, '(a+)+[(]') and '' or 'none') end";
    let gateway = Sluice::start(&with(filter, action, &origin));
    for ask in [ask, ask_http2] {
        let passed = ask(&gateway, "/users/42//files", &[]).content;
        assert!(passed.contains("GET /users/42/files HTTP/1.1"), "{passed}");
        assert!(passed.contains("x-user-id: 42"), "{passed}");
        assert_eq!(ask(&gateway, "/action/aaa", &[]).content, "none");
    }
    gateway.stop();
}
