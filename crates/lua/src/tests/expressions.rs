//! Regular expressions, good, bad and hostile ones.

use super::modules::reports;
use super::scripted::Scripted;

#[test]
fn groups_are_found_by_number_and_name() {
    reports(
        r#"local regex = require "regex"
           local m = regex.match("GET /users/42", [[/(?<kind>\w+)/(\d+)(x)?]])
           report(m[0], m[1], m.kind, m[2], m[3], #m)
           report(regex.match("abc", "x"), regex.match("", "^$")[0] == "")
           report(regex.match("a1b22", [[\d+]], "", 3)[0], regex.match("a1", "a", "", 2), regex.match("a", "a", "", 9))
           report(regex.find("a1b22", [[([a-z])(\d+)]], "", 3))
           report(regex.find("a1b22", [[([a-z])(\d+)]], "", 3, 2))
           report(regex.find("abc", "x"), regex.find("abc", "a(x)?", "", 1, 1), regex.find("abc", "a", "", 1, 9))"#,
        &[
            "/users/42 users users 42 false 3",
            "nil true",
            "22 nil nil",
            "3 5",
            "4 5",
            "nil nil nil nil",
        ],
    );
}

#[test]
fn options_are_those_of_openresty() {
    reports(
        r#"local regex = require "regex"
           local function is(...) return regex.find(...) ~= nil end
           report(is("ABC", "b"), is("ABC", "b", "ijo"))
           report(is("a\nb", "^b"), is("a\nb", "^b", "m"), is("a\nb", "a.b"), is("a\nb", "a.b", "s"))
           report(is("ab", "a b # comment"), is("ab", "a b # comment", "x"))
           report(is("ba", "a"), is("ba", "a", "a"), is("ba", "a", "a", 2))
           -- Two bytes, or one character.
           report(is("\195\188", "^..$"), is("\195\188", "^.$", "u"), is("\195\188", [[\w]]), is("\195\188", [[\w]], "u"))
           report(is("\255\0x", [[^..x$]]), is("\255x", "x", "u"))"#,
        &[
            "false true",
            "false true false true",
            "false true",
            "true false true",
            "true true false true",
            "true true",
        ],
    );
}

#[test]
fn matches_are_replaced_and_split() {
    reports(
        r#"local regex = require "regex"
           report(regex.gsub("2026-11-22", [[(\d+)-(\d+)-(\d+)]], "$3.${2}.$1 $$"))
           report(regex.gsub("a1 b2", [[(?<l>[a-z])(\d)]], "${l}$0$9"))
           report(regex.sub("aaa", "a", "b"))
           report(regex.gsub("abc", "", "-"))
           report(regex.gsub("hello", "l", function(m) return m[0]:upper() end))
           report(regex.gsub("hello", "l", function() end))
           report(regex.gsub("hello", "x", "y"))
           report(regex.gsub("foobar", "(?<=foo)bar|foo(?=bar)", "x"))
           report(regex.gsub("abab", [[(a)(b)\1\2]], "$2$1"))
           report(table.concat(regex.split("a, b;c", "[,;] *"), "|"), #regex.split("", ","), table.concat(regex.split("abc", ""), "|"))
           local words = {}
           for m in regex.gmatch("one two", [[\w+]]) do words[#words + 1] = m[0] end
           report(table.concat(words, "|"))"#,
        &[
            "22.11.2026 $ 1",
            "aa1 bb2 2",
            "baa 1",
            "-a-b-c- 4",
            "heLLo 2",
            "heo 2",
            "hello 0",
            "xx 2",
            "ba 1",
            "a|b|c 1 abc",
            "one|two",
        ],
    );
}

#[test]
fn what_is_no_pattern_is_told_and_no_search_lasts() {
    let mut script = Scripted::start(
        r#"local regex = require "regex"
           local function says(words, ...)
               local good, said = pcall(...)
               report(not good and said:find(words, 1, true) ~= nil or words .. tostring(said))
           end
           says('the pattern "(a"', regex.match, "a", "(a")
           says('unknown option "z"', regex.find, "a", "a", "z")
           says('no UTF-8', regex.gsub, "a", "\255", "b")
           says('longer than', regex.split, "a", ("a"):rep(40000))
           says('after a dollar', regex.gsub, "a", "a", "$x")
           says('a text and a pattern', regex.match, nil, "a")
           says('', regex.gmatch, "a", "(")
           says('Max limit for backtracking', regex.match, ("a"):rep(40) .. "bcd", "^((a|aa)(?!x))+\\2c")
           for number = 1, 1000 do assert(regex.find("x" .. number, "x" .. number .. "$")) end
           report("still here")"#,
    );
    script.expect(&["true"; 8]);
    script.expect(&["still here"]);
    assert_eq!(script.log(), "");
}
