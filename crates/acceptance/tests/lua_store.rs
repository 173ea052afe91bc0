//! What scripts of the gateway share between workers: stores with times to live, which reloads leave alone.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sluice_acceptance::filters::{ask, section_example};
use sluice_acceptance::{config, eventually};
use sluice_testkit::{Origin, Sluice, behaviour, get};

fn route(script: &str, rest: &str) -> String {
    config(&format!("{rest}\n[[route]]\npath = \"/*\"\n[route.lua]\nscript = '''\n{script}\n'''\n"))
}

#[test]
fn the_filter_of_the_tutorial_signs_requests() {
    let origin = Origin::start(behaviour::echo);
    let replace = [("127.0.0.1:9001", origin.address())];
    let gateway = Sluice::start(&section_example("lua.md", "## 4. A filter", &replace));
    let reply = ask(&gateway, "/a?b", &["-H", "x-signature: forged", "-H", "x-signed-at: 1"]);
    let value = |name: &str| {
        let line = reply.content.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name} is not in {reply:?}")).trim().to_owned()
    };
    let text = format!("GET\n/a?b\n{}", value("x-signed-at:"));
    let mut openssl = std::process::Command::new("sh");
    openssl.args([
        "-c",
        "printf '%s' \"$1\" | openssl dgst -sha256 -hmac 'change me' -binary | base64",
        "sh",
    ]);
    let expected = openssl.arg(text).output().unwrap();
    assert_eq!(value("x-signature:"), String::from_utf8_lossy(&expected.stdout).trim());
    assert!(!reply.content.contains("forged"));
    gateway.stop();
}

#[test]
fn the_rate_limiter_of_the_tutorial_is_exact_over_workers_and_reloads() {
    // Windows that do not end while the test runs.
    let text = section_example("lua.md", "## 5. A rate limiter", &[("5, 10", "5, 1000")]);
    let text = format!("workers = 2\n{text}");
    let gateway = Sluice::start(&text);
    for left in (0..5).rev() {
        // A connection for each, so that both workers have some of them.
        let reply = ask(&gateway, "/", &[]);
        assert_eq!((reply.status, reply.content.as_str()), (200, "welcome\n"));
        assert_eq!(reply.value("x-requests-left"), left.to_string());
    }
    for _ in 0..2 {
        for _ in 0..4 {
            let refused = ask(&gateway, "/", &[]);
            assert_eq!((refused.status, refused.content.as_str()), (429, "not so fast\n"));
            let after: u64 = refused.value("retry-after").parse().unwrap();
            assert!((1..=1000).contains(&after), "{after}");
        }
        // The script is another one from now on, and finds what the one before it kept.
        gateway.reload(&text.replace("most - count", "most-count"));
    }
    gateway.stop();
}

const CALLS: &str = r#"
    local other = store.open "other"
    local calls = {
        set = function() return store.set("a", "text"), store.get("a"), store.ttl("a") end,
        kinds = function()
            store.set("n", 1.5) store.set("t", true) store.set("f", false)
            return store.get("n"), store.get("t"), store.get("f"), store.get("none")
        end,
        ["nil"] = function() store.set("a", "b") store.set("a", nil) return store.get("a") end,
        add = function() return store.add("new", 1), select(2, store.add("new", 2)), store.get("new") end,
        replace = function() return select(2, store.replace("nothing", 1)), store.replace("new", 3), store.get("new") end,
        incr = function() return store.incr("c", 1, 10), (store.incr("c")), select(2, store.incr("d", 1)) end,
        text = function() store.set("s", "x") return select(2, store.incr("s", 1)) end,
        list = function()
            store.rpush("l", "b") store.lpush("l", "a") store.rpush("l", 3)
            local why = select(2, store.get("l"))
            return store.llen("l"), store.lpop("l"), store.rpop("l"), store.rpop("l"), store.lpop("l"), why
        end,
        time = function() store.set("x", 1, 100) return store.ttl("x") > 99, store.expire("x", 0), store.ttl("x") end,
        gone = function() return select(2, store.ttl("never")), select(2, store.expire("never", 1)) end,
        apart = function() other.set("a", 1) store.delete("a") return other.get("a"), store.get("a") end,
        keys = function() other.flush() other.set("k1", 1) other.set("k2", 1) local k = other.keys() table.sort(k) return unpack(k) end,
        flush = function() other.set("a", 1) other.flush() return other.get("a"), select(2, other.room()) end,
        room = function() return (other.room()) end,
        large = function() return select(2, other.set("large", ("x"):rep(65537))) end,
        unknown = function() return select(2, pcall(store.open, "unknown")) end,
        colon = function() return select(2, pcall(store.get, store, "a")) end,
        value = function() return select(2, pcall(store.set, "a", {})) end,
        seconds = function() return select(2, pcall(store.set, "a", 1, -1)) end,
        nothing = function() return select(2, pcall(store.set, nil, 1)) end,
    }
    function answer(request)
        local all = { calls[request.path:sub(2)]() }
        for index = 1, table.maxn(all) do all[index] = tostring(all[index]) end
        respond(table.concat(all, " "))
    end
"#;

#[test]
fn every_call_does_what_the_page_says() {
    let gateway = Sluice::start(&route(CALLS, "[store.other]\nsize = \"64KiB\""));
    let rows = [
        ("set", "true text 0"),
        ("kinds", "1.5 true false"),
        ("nil", ""),
        ("add", "true exists 1"),
        ("replace", "not found true 3"),
        ("incr", "11 12 not found"),
        ("text", "not a number"),
        ("list", "3 a 3 b nil value is a list"),
        ("time", "true true 0"),
        ("gone", "not found not found"),
        ("apart", "1"),
        ("keys", "k1 k2"),
        ("flush", "nil 0"),
        ("room", "65536"),
        ("large", "no memory"),
    ];
    for (call, expected) in rows {
        assert_eq!(ask(&gateway, &format!("/{call}"), &[]).content, expected, "{call}");
    }
    let errors = [
        ("unknown", "declare it in the configuration as [store.unknown]"),
        ("colon", "call it with a dot"),
        ("value", "texts, numbers and booleans"),
        ("seconds", "a number of seconds, not below 0"),
        ("nothing", "a key is a text"),
    ];
    for (call, words) in errors {
        let reply = ask(&gateway, &format!("/{call}"), &[]);
        assert!(reply.content.contains(words), "{call}: {reply:?}");
    }
    gateway.stop();
}

#[test]
fn a_size_is_changed_by_a_reload_and_a_name_is_looked_for_when_a_script_is_tried() {
    let script = "local s = store.open 'one'\n\
                  function answer(request)\n\
                    if request.path == '/set' then for n = 1, 200 do s.set(n, ('x'):rep(1000)) end end\n\
                    respond(#s.keys() .. ' ' .. (s.room()))\n\
                  end";
    let text = |size: &str| route(script, &format!("[store.one]\nsize = \"{size}\""));
    let gateway = Sluice::start(&text("512KiB"));
    assert_eq!(ask(&gateway, "/set", &[]).content, "200 524288");
    gateway.reload(&text("64KiB"));
    assert!(
        eventually(|| ask(&gateway, "/", &[]).content == "57 65536"),
        "{:?}",
        ask(&gateway, "/", &[])
    );
    let mark = gateway.words().mark();
    gateway.rewrite(&route(script, ""));
    gateway.signal(sluice_testkit::Signal::Reload);
    let words = "there is no store \"one\": declare it in the configuration as [store.one]";
    assert!(gateway.words().wait_after(mark, words).is_some());
    assert_eq!(ask(&gateway, "/", &[]).content, "57 65536");
    gateway.stop();
}

/// A filter of the script below this heading, on two workers before an origin.
fn counting(origin: &Origin, script: &str) -> String {
    let rest = config(&format!(
        "[filter.it.lua]\nscript = '''\n{script}\n'''\n\
         [[route]]\npath = \"/*\"\nproxy = \"http://{}\"\nfilters = [\"it\"]\n",
        origin.address()
    ));
    format!("workers = 2\n{rest}")
}

#[test]
fn metrics_of_scripts_are_told_with_those_of_the_gateway() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/filters/lua.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("## Metrics\n").unwrap();
    let script = section.split_once("```lua\n").unwrap().1.split("```").next().unwrap();
    let origin = Origin::start(behaviour::fixed(200, "fine"));
    let gateway = Sluice::start(&counting(&origin, script));
    // A connection for each, so that both workers have some of them.
    let send = |client: &str, count| {
        for _ in 0..count {
            assert_eq!(ask(&gateway, "/", &["-H", &format!("x-client: {client}")]).status, 200);
        }
    };
    let told = |line: &str| {
        eventually(|| get(&gateway.admin(), "/metrics").text().lines().any(|it| it == line))
    };
    send("a", 12);
    send("\"b\\", 3);
    for line in [
        "# HELP shop_requests_total Requests by client.",
        "# TYPE shop_requests_total counter",
        r#"shop_requests_total{client="a"} 12"#,
        r#"shop_requests_total{client="\"b\\"} 3"#,
        "# TYPE shop_open gauge",
        "shop_open 0",
        r#"shop_answer_bytes_bucket{le="1000"} 15"#,
        r#"shop_answer_bytes_bucket{le="+Inf"} 15"#,
        "shop_answer_bytes_sum 60",
        "shop_answer_bytes_count 15",
    ] {
        assert!(told(line), "{line}: {}", get(&gateway.admin(), "/metrics").text());
    }
    // Another script with the same metric goes on counting.
    gateway.reload(&counting(&origin, &format!("{script}\n-- changed")));
    send("a", 8);
    assert!(told(r#"shop_requests_total{client="a"} 20"#));
    // One with other labels begins anew, and only when it is in force.
    let other = script.replace("{ \"client\" }", "{ \"who\" }");
    gateway.reload(&counting(&origin, &other));
    send("c", 2);
    assert!(told(r#"shop_requests_total{who="c"} 2"#));
    let all = get(&gateway.admin(), "/metrics").text();
    assert!(!all.contains("client=\"a\""), "{all}");
    assert_eq!(all.matches("# TYPE shop_requests_total ").count(), 1, "{all}");
    gateway.stop();
}

#[test]
fn a_metric_that_cannot_be_is_told_with_its_line() {
    let origin = Origin::start(behaviour::fixed(200, "fine"));
    for (line, word) in [
        ("metrics.counter('sluice_mine', '')", "'sluice_mine' is taken"),
        ("metrics.counter('a b')", "'a b' is no name for it"),
        ("metrics.counter(nil)", "the name of a metric is expected"),
        ("metrics.gauge('mine', '', { 'le' })", "'le' is taken"),
        ("metrics.gauge('mine', '', 'le')", "labels are a list of names"),
        ("metrics.histogram('mine', '', nil, { 2, 1 })", "numbers that grow"),
        ("metrics.counter('mine'):add(-1)", "a counter grows"),
        ("metrics.gauge('mine', '', { 'a' }):labels()", "a value for each of 1 labels"),
        ("metrics.gauge('mine'):set('x')", "a number is expected, not string"),
    ] {
        let script = format!("{line}\nfunction request_head() end");
        let refused = Sluice::try_start(&counting(&origin, &script)).unwrap_err();
        let said = format!("{refused:?}");
        assert!(said.contains(word) && said.contains(":1: "), "{line}: {said}");
    }
}
