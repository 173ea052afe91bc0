//! Searches for patterns of Lua and sorting: as in LuaJIT, within the budget.

use std::rc::Rc;
use std::time::Duration;

use super::modules::reports;
use super::scripted::{Peer, Scripted};
use crate::host::Host;
use crate::modules::push_functions;
use crate::ports::Ports;
use crate::settings::Settings;
use crate::strings;
use crate::vm::{self, Vm};
use crate::voice::Voice;

/// Calls the functions of LuaJIT and those of the program with the same random texts and patterns.
const COMPARE: &str = r#"
    local native, chunk = ...
    local theirs = { find = string.find, match = string.match, gsub = string.gsub, gmatch = string.gmatch }
    chunk(native)
    local ours = { find = string.find, match = string.match, gsub = string.gsub, gmatch = string.gmatch }
    math.randomseed(20261124)
    local random = math.random
    local pieces = {
        'a', 'b', '.', 'ab', 'c', '%a', '%d', '%s', '%w', '%S', '%.', '%%', '[ab]', '[^a]', '[a-c%d]', '[%a_]', '[]]',
        '[^]a]', '[a-]', '(', ')', '()', '(a)', '(.)', '(%a*)', '(.-)', '%1', '%2', '%bab', '%f[%w]', '%f[^a]', '^', '$',
        '*', '+', '-', '?', 'a*', 'b-', '.+', '.-', '[ab]*', 'c?', '%', '[', '%b', '%f', '\0', '%z', '%x+',
    }
    local letters = { 'a', 'b', 'c', ' ', '1', '.', '%', ']', '_', '-', '\n', '\0', '\255', '(' }
    local templates = { 'x', '', '%0', '<%1>', '%2', '%%', '%', '%a', 7 }
    local function some(list, most)
        local parts = {}
        for index = 1, random(0, most) do parts[index] = list[random(#list)] end
        return table.concat(parts)
    end
    -- Without the place, which is that of the caller.
    local function plain(value)
        return type(value) == 'string' and value:gsub('^%[string.-%]:%d+: ', '') or tostring(value)
    end
    local function outcome(...)
        local parts = { ... }
        for index = 1, select('#', ...) do parts[index] = plain(parts[index]) end
        return table.concat(parts, '|')
    end
    local function words(list, text, pattern)
        local found = {}
        local good, word = pcall(function()
            for a, b in list.gmatch(text, pattern) do
                found[#found + 1] = tostring(a) .. ',' .. tostring(b)
                if #found > 50 then break end
            end
        end)
        return table.concat(found, ';') .. outcome(good, word)
    end
    local function change(a, b)
        if a == 'a' then return nil elseif a == 'b' then return false elseif a == '' then return 1 end
        return '<' .. tostring(a) .. tostring(b) .. '>'
    end
    local changes = { a = 'A', ab = 12, b = false }
    for _ = 1, 20000 do
        local text, pattern = some(letters, 8), some(pieces, 5)
        local start, most = random(-4, 10), random(0, 4)
        if start == 10 then start = nil end
        if most == 4 then most = nil end
        local template = templates[random(#templates)]
        for name, call in pairs({
            find = function(list) return pcall(list.find, text, pattern, start) end,
            plain = function(list) return pcall(list.find, text, pattern, start, true) end,
            match = function(list) return pcall(list.match, text, pattern, start) end,
            gsub = function(list) return pcall(list.gsub, text, pattern, template, most) end,
            ['function'] = function(list) return pcall(list.gsub, text, pattern, change, most) end,
            ['table'] = function(list) return pcall(list.gsub, text, pattern, changes, most) end,
            gmatch = function(list) return words(list, text, pattern) end,
        }) do
            local expected, got = outcome(call(theirs)), outcome(call(ours))
            -- Places in front of messages differ: theirs name no function of this chunk.
            expected, got = expected:gsub('^false|.*:%d+: ', 'false|'), got:gsub('^false|.*:%d+: ', 'false|')
            if expected ~= got then
                error(('%s(%q, %q, %s, %s, %s): %q instead of %q'):format(
                    name, text, pattern, tostring(start), tostring(template), tostring(most), got, expected), 0)
            end
        end
    end
"#;

#[test]
fn results_are_those_of_luajit() {
    let mut settings = Settings::new("none".into());
    settings.budget = Duration::from_secs(3600);
    let host = Host::new(settings, Voice::part("test", None), Ports::new(1), 0);
    let _vm = Vm::new(Rc::clone(&host)).unwrap();
    vm::with_stack(&host, host.main.get(), |frame| {
        frame.push_chunk(COMPARE.as_bytes(), "=compare").unwrap();
        push_functions(frame, &strings::FUNCTIONS);
        frame.push_chunk(include_str!("../script/strings.lua").as_bytes(), "=strings").unwrap();
    });
    vm::call_main(&host, 2, 0).unwrap();
}

/// A service that answers lines by a function, and another that echoes.
fn answering(body: &str) -> (Scripted, Peer, Peer) {
    let script = format!(
        "serve(function(c) while true do local l = c:read('\\n') if not l then return end c:write(l) end end)
         serve(function(c) local text = c:read('\\n'):sub(1, -2) {body} c:write('never') end)"
    );
    let mut script = Scripted::start_with(&script, |settings| {
        settings.budget = Duration::from_millis(50);
    });
    let (echo, answer) = (script.connect(), script.connect());
    (script, echo, answer)
}

#[test]
fn searches_end_with_the_budget() {
    let blanks = " ".repeat(60_000);
    for body in [
        "text:match('^%s*(.-)%s*$' .. 'x')",
        "text:match('.-.-.-x')",
        "text:find('%s*x')",
        "for _ in text:gmatch('(.-)%s*x') do end",
        "text:gsub('%s*%s*x', '')",
        "text:gsub('%s*%s*x', {})",
        "text:gsub('%s*%s*x', function() end)",
        "text:find('.-%b ()')",
        "require('regex').find(text, '(?:\\\\s(?=.*x|\\\\s))*y')",
        "pcall(string.match, text, '.-.-x') pcall(string.match, text, '.-.-x') ",
        "xpcall(string.match, function() return text:match('.-.-x') end, text, '.-.-x')",
    ] {
        let (script, mut echo, mut answer) = answering(body);
        answer.send(&format!("{blanks}\n"));
        echo.send("meanwhile\n");
        echo.expect("meanwhile\n");
        assert_eq!(answer.rest(), "", "{body}");
        let log = script.log();
        // Regular expressions may reach their bound of steps first.
        let ends = ["it ran for too long", "Max limit for backtracking count"];
        assert!(ends.iter().any(|end| log.contains(end)), "{body}: {log}");
    }
}

#[test]
fn results_of_gsub_are_bounded_by_memory() {
    let mut script = Scripted::start_with(
        "local text = ('x'):rep(1000000)
         report(pcall(string.gsub, text, 'x', text))
         report(pcall(string.gsub, text, 'x', function() return text end))",
        |settings| {
            settings.memory = 32 << 20;
            settings.budget = Duration::from_secs(60);
        },
    );
    assert!(script.line().contains("not enough memory"));
    assert!(script.line().contains("not enough memory"));
}

#[test]
fn functions_for_gsub_can_wait() {
    reports(
        "report((('a b c'):gsub('%a', function(letter) time.sleep(1) return letter:upper() end)))
         report(pcall(string.gsub, 'x', 'x', function() error('no', 0) end))",
        &["A B C", "false no"],
    );
}

#[test]
fn wrong_arguments_have_their_place() {
    reports(
        "local function report_of(good, word) report(good, (word:gsub('^.*/test.lua', 'test.lua'))) end
         report_of(pcall(function() local _ = ('x'):find() end))
         report_of(pcall(function() local _ = ('x'):match({}) end))
         report_of(pcall(function() local _ = ('x'):gsub('x') end))
         report_of(pcall(function() local _ = ('x'):gsub('(x', '%1') end))
         report_of(pcall(function() local _ = ('x'):gsub('(x', function() end) end))
         report_of(pcall(function() for _ in ('x'):gmatch('[') do end end))
         report(string.find(123, 2))",
        &[
            "false test.lua:3: bad argument #2 to 'find' (string expected, got no value)",
            "false test.lua:4: bad argument #2 to 'match' (string expected, got table)",
            "false test.lua:5: bad argument #3 to 'gsub' (string/function/table expected, got nil)",
            "false test.lua:6: unfinished capture",
            "false test.lua:7: unfinished capture",
            "false test.lua:8: malformed pattern (missing ']')",
            "2 2",
        ],
    );
}

#[test]
fn sorting_is_right_whatever_the_order() {
    reports(
        "local function check(list, order)
             local before = order or function(a, b) return a < b end
             local count = {}
             for _, value in ipairs(list) do count[value] = (count[value] or 0) + 1 end
             table.sort(list, order)
             for index = 2, #list do assert(not before(list[index], list[index - 1])) end
             for _, value in ipairs(list) do count[value] = count[value] - 1 end
             for _, left in pairs(count) do assert(left == 0) end
         end
         for size = 0, 70 do
             for _, most in ipairs{1, 3, 1000} do
                 local list = {}
                 for index = 1, size do list[index] = math.random(most) end
                 check(list)
                 check(list)
                 check(list, function(a, b) return a > b end)
             end
         end
         check{'b', 'a', 'c', 'a'}
         local pairs_of = {}
         for index = 1, 100 do pairs_of[index] = {index % 3, index} end
         table.sort(pairs_of, function(a, b) return a[1] < b[1] end)
         for index = 2, 100 do
             local a, b = pairs_of[index - 1], pairs_of[index]
             assert(a[1] < b[1] or a[1] == b[1] and a[2] < b[2])
         end
         local list = {3, 1, 2}
         report(pcall(table.sort, list, function() error('no', 0) end))
         report(list[1], list[2], list[3])
         report(pcall(table.sort, {1, 'a'}))
         report(pcall(table.sort, 1))
         report(pcall(table.sort, {2, 1}, 1))",
        &[
            "false no",
            "3 1 2",
            "false sort:6: attempt to compare string with number",
            "false bad argument #1 to 'sort' (table expected, got number)",
            "false bad argument #2 to 'sort' (function expected, got number)",
        ],
    );
}

/// The order that LuaJIT's sort takes the square of the number of elements for: its median of three is always the
/// second smallest of what is left.
#[test]
fn sorting_has_no_bad_order() {
    let mut script = Scripted::start_with(
        "local count, list, nothing = 0, {}, 1e9
         local size = 20000
         local values, solid, candidate = {}, 0, 1
         for index = 1, size do list[index], values[index] = index, nothing end
         -- The adversary of McIlroy: it settles values as late as it can.
         table.sort(list, function(a, b)
             count = count + 1
             if values[a] == nothing and values[b] == nothing then
                 local fixed = a == candidate and a or b
                 solid = solid + 1
                 values[fixed] = solid
             end
             if values[a] == nothing then candidate = a elseif values[b] == nothing then candidate = b end
             return values[a] < values[b]
         end)
         report(count < 20 * size)",
        |settings| settings.budget = Duration::from_secs(60),
    );
    script.expect(&["true"]);
}
