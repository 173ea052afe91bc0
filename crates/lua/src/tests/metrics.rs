//! `silly.metrics` as documented.

use super::modules::reports;
use super::scripted::Scripted;

#[test]
fn metrics_are_told_as_text() {
    reports(
        r#"local registry = require 'silly.metrics.registry'
         local counter, gauge, histogram = require 'silly.metrics.counter', require 'silly.metrics.gauge', require 'silly.metrics.histogram'
         local all = registry.new()
         local c = counter('requests_total', 'All \\ of\nthem.')
         c:inc() c:add(2.5)
         local v = counter('errors_total', 'Errors.', {'method', 'why'})
         v:labels('GET', 'a "b"\n\\'):inc() v:labels('GET', 'x'):add(5) v:labels('GET', 'x'):inc()
         local g = gauge('active', 'Now.') g:set(10) g:inc() g:dec() g:add(0.25) g:sub(1)
         local h = histogram('size', 'Sizes.', nil, {1, 2.5, 10})
         for _, value in ipairs{0, 1, 2, 3, 100} do h:observe(value) end
         local hv = histogram('time', 'Times.', {'path'}, {1})
         hv:labels('/'):observe(0.5)
         for _, one in ipairs{c, v, g, h, hv} do all:register(one) end
         all:register({collect = function(self, buf) buf[#buf + 1] = {name = 'own', help = 'Own.', kind = 'gauge', value = 1/0} end})
         for line in all:gather():gmatch('[^\n]+') do report(line) end
         all:unregister(c)
         report(all:gather():find('requests_total'))"#,
        &[
            r"# HELP requests_total All \\ of\nthem.",
            "# TYPE requests_total counter",
            "requests_total 3.5",
            "# HELP errors_total Errors.",
            "# TYPE errors_total counter",
            r#"errors_total{method="GET",why="a \"b\"\n\\"} 1"#,
            r#"errors_total{method="GET",why="x"} 6"#,
            "# HELP active Now.",
            "# TYPE active gauge",
            "active 9.25",
            "# HELP size Sizes.",
            "# TYPE size histogram",
            r#"size_bucket{le="1"} 2"#,
            r#"size_bucket{le="2.5"} 3"#,
            r#"size_bucket{le="10"} 4"#,
            r#"size_bucket{le="+Inf"} 5"#,
            "size_sum 106",
            "size_count 5",
            "# HELP time Times.",
            "# TYPE time histogram",
            r#"time_bucket{path="/",le="1"} 1"#,
            r#"time_bucket{path="/",le="+Inf"} 1"#,
            r#"time_sum{path="/"} 0.5"#,
            r#"time_count{path="/"} 1"#,
            "# HELP own Own.",
            "# TYPE own gauge",
            "own +Inf",
            "nil",
        ],
    );
}

#[test]
fn what_makes_no_sense_is_an_error() {
    reports(
        "local p = require 'silly.metrics.prometheus'
         local c, v = p.counter('a_total', 'A.'), p.gauge('b', 'B.', {'x'})
         report((pcall(c.add, c, -1)), (pcall(c.add, c, 0/0)), (pcall(p.counter, 'a_total', 'again')), (pcall(p.counter, 'no name', '')),
            (pcall(v.labels, v)), (pcall(v.labels, v, 1, 2)), (pcall(p.histogram, 'h', '', nil, {2, 1})), (pcall(p.gauge, 'g', '', {'no label'})))
         v:labels(7):set(1)
         local text = p.gather()
         report(text:match('b{x=\"7\"} 1'), text:match('silly_tasks_runnable %d'), text:match('# TYPE process_cpu_seconds_total counter') ~= nil,
            p.registry():gather() ~= nil)",
        &["false false false false false false false false", "b{x=\"7\"} 1 silly_tasks_runnable 0 true true"],
    );
}

#[test]
fn values_that_never_end_are_counted_together() {
    let mut script = Scripted::start(
        "local v = require('silly.metrics.counter')('hits', 'Hits.', {'who'})
         for i = 1, 10100 do v:labels(i):inc() end
         local buf = {}
         v:collect(buf)
         report(#buf[1].lines, buf[1].lines[10001])",
    );
    script.expect(&["10001 hits{who=\"other\"} 100"]);
    assert!(script.log().contains("metric hits: more than 10000 series"));
}
