//! What users are told, and where it points.

use super::{problem, scope};
use crate::ExpressionProblem;

/// The place as it is drawn: marks under what is at fault, one bar where something is missing.
pub(super) fn marks(text: &str, problem: &ExpressionProblem) -> String {
    let before = text[..problem.span.start].chars().count();
    let length = text[problem.span.clone()].chars().count();
    let mark = if length == 0 { "|".to_owned() } else { "^".repeat(length) };
    " ".repeat(before) + &mark
}

/// Text, the marks under it, what is said, what helps.
type Row = (&'static str, &'static str, &'static str, &'static str);

/// Names that nobody knows, or that are not whole.
const NAMES: &[Row] = &[
    ("", "|", "a condition is missing", ""),
    ("  ", "  |", "a condition is missing", ""),
    (
        "request.methd == 'a'",
        "^^^^^^^^^^^^^",
        "there is no fact 'request.methd'",
        "did you mean request.method?",
    ),
    (
        "request.headers.x",
        "^^^^^^^^^^^^^^^^^",
        "there is no fact 'request.headers.x'",
        "did you mean request.header.NAME?",
    ),
    (
        "route.colour == 'a'",
        "^^^^^^^^^^^^",
        "there is no fact 'route.colour'",
        "there are: route.id, route.name",
    ),
    (
        "POST == request.method",
        "^^^^",
        "there is no fact 'POST'",
        "a text stands in quotes: 'text'",
    ),
    (
        "request.path.x",
        "^^^^^^^^^^^^^^",
        "there is no fact 'request.path.x'",
        "did you mean request.path?",
    ),
    (
        "request.header",
        "              |",
        "request.header of which name?",
        "write request.header.x or request.header['x']",
    ),
    ("request.header.", "               |", "a name is missing behind the dot", ""),
    (
        "request.header.a.b",
        "                 ^",
        "request.header.a has no parts",
        "write a name with dots as request.header['a.b']",
    ),
    ("request.header['a b']", "               ^^^^^", "'a b' is no name of a header", ""),
    ("request.cookie['a=b']", "               ^^^^^", "'a=b' is no name of a cookie", ""),
    ("request.header[x]", "               ^", "a name in quotes is wanted here", ""),
    ("request.header['x'", "                  |", "a ] is missing", ""),
    ("request.header['']", "               ^^", "this name is empty", ""),
];

/// Signs that make no sense where they stand.
const SYNTAX: &[Row] = &[
    ("request.method = 'a'", "               ^", "'=' has no meaning here", "write == to compare"),
    ("true & false", "     ^", "'&' has no meaning here", "write && for both"),
    ("true | false", "     ^", "'|' has no meaning here", "write || for either"),
    (
        "request.path ~ 'a'",
        "             ^",
        "'~' has no meaning here",
        "write matches 'expression' for a regular expression",
    ),
    ("request.path == 'é' €", "                    ^", "'€' has no meaning here", ""),
    ("request.path == 'a", "                ^^", "this text has no end", ""),
    (r"request.path == 'a\'", r"                ^^^^", "this text has no end", ""),
    (
        r"request.path == 'a\d'",
        "                  ^^",
        "this escape has no meaning",
        r#"there are \\ \' \" \n \r \t"#,
    ),
    (
        "request.path startswith '/'",
        "             ^^^^^^^^^^",
        "an operator is missing before 'startswith'",
        "did you mean starts_with?",
    ),
    ("request.path '/'", "             ^^^", "an operator is missing before this text", ""),
    ("request.path ==", "               |", "a value is missing here", ""),
    (
        "request.path == )",
        "                ^",
        "')' makes no sense here",
        "a fact, a text in quotes, a number or a function is wanted",
    ),
    ("request.path)", "            ^", "')' makes no sense here", ""),
    ("(request.path", "             |", "a ) is missing", ""),
    ("(request.path ]", "              ^", "']' makes no sense here", "a ) is missing before it"),
    ("request.path && ", "                |", "a value is missing here", ""),
    (
        "&& request.path",
        "^^",
        "'&&' makes no sense here",
        "a fact, a text in quotes, a number or a function is wanted",
    ),
    ("and request.path", "^^^", "a value is missing before 'and'", ""),
    ("request.path }", "             ^", "'}' makes no sense here", ""),
    ("request.path not 'a'", "                 ^^^", "an operator is missing before this text", ""),
    ("request.path not && true", "                 ^^", "'&&' makes no sense here", ""),
    (
        "'a' == request.path == 'a'",
        "                    ^^",
        "only two values can be compared",
        "put the first comparison in parentheses, or write && between two comparisons",
    ),
];

/// Values that do not go together.
const TYPES: &[Row] = &[
    (
        "request.path == 5",
        "^^^^^^^^^^^^^^^^^",
        "a text and a number cannot be compared so",
        "number(...) makes a number of a text; a text stands in quotes, a number does not",
    ),
    (
        "true && request.size == '5'",
        "        ^^^^^^^^^^^^^^^^^^^",
        "a number and a text cannot be compared so",
        "number(...) makes a number of a text; a text stands in quotes, a number does not",
    ),
    (
        "client.ip starts_with '10.'",
        "^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        "an address and a text cannot be compared so",
        "compare an address with == '10.0.0.1' or in '10.0.0.0/8'; address(...) makes one of a text",
    ),
    (
        "client.ip < client.peer",
        "^^^^^^^^^^^^^^^^^^^^^^^",
        "an address and an address cannot be compared so",
        "",
    ),
    (
        "request.size contains 5",
        "^^^^^^^^^^^^^^^^^^^^^^^",
        "a number and a number cannot be compared so",
        "numbers are compared with == != < <= > >=",
    ),
    (
        "!request.path == 'a'",
        "^^^^^^^^^^^^^^^^^^^^",
        "a truth and a text cannot be compared so",
        "what stands behind ! is the next value alone: write !(a == b)",
    ),
    (
        "request.path == ['a']",
        "^^^^^^^^^^^^^^^^^^^^^",
        "a text and a list cannot be compared so",
        "a list stands behind in",
    ),
    (
        "request.path in 'a'",
        "                ^^^",
        "behind in a list is wanted",
        "['a', 'b']; address(...) makes an address of a text, which may be in '10.0.0.0/8'",
    ),
    (
        "request.path in request.query",
        "                ^^^^^^^^^^^^^",
        "behind in a list is wanted",
        "['a', 'b']; address(...) makes an address of a text, which may be in '10.0.0.0/8'",
    ),
    (
        "request.path in ['a', 5]",
        "                      ^",
        "a text is looked for, this is a number",
        "",
    ),
    (
        "request.size in [5, 'a']",
        "                    ^^^",
        "a number is looked for, this is a text",
        "",
    ),
    (
        "request.size in 5",
        "^^^^^^^^^^^^^^^^^",
        "behind in a number needs a list",
        "a list of constants: ['a', 'b'] or [1, 2]",
    ),
    ("tls.resumed in ['a']", "^^^^^^^^^^^", "a truth cannot be in a list", ""),
    (
        "request.path in [request.query]",
        "                 ^^^^^^^",
        "a list holds texts in quotes and numbers",
        "['a', 'b'] or [1, 2]",
    ),
    (
        "request.path in ['a' 'b']",
        "                     ^^^",
        "an operator is missing before this text",
        "a , is missing before it",
    ),
    ("request.path in ['a',", "                     |", "a ] is missing", ""),
    (
        "client.ip in '10.0.0.0/33'",
        "             ^^^^^^^^^^^^^",
        "'10.0.0.0/33' is no address",
        "'10.0.0.1', '2001:db8::1' or '10.0.0.0/8'",
    ),
    (
        "client.ip in ['10.0.0.1', 'a']",
        "                          ^^^",
        "'a' is no address",
        "'10.0.0.1', '2001:db8::1' or '10.0.0.0/8'",
    ),
    ("client.ip in [1]", "              ^", "an address is looked for, this is a number", ""),
    (
        "client.ip == 'a'",
        "             ^^^",
        "'a' is no address",
        "'10.0.0.1', '2001:db8::1' or '10.0.0.0/8'",
    ),
    (
        "request.path matches request.query",
        "                     ^^^^^^^",
        "a regular expression in quotes is wanted here",
        "matches '^/v[0-9]+/'",
    ),
    (
        "request.size matches 'a'",
        "^^^^^^^^^^^^",
        "a regular expression is for texts, this is a number",
        "",
    ),
    (
        "request.path matches '('",
        "                     ^^^",
        "this is no regular expression: unclosed group",
        "",
    ),
    (
        "request.path matches '~'",
        "                     ^^^",
        "this regular expression is empty",
        "",
    ),
    ("'a'", "^^^", "a constant text is no condition", ""),
    ("true && 'a'", "        ^^^", "a constant text is no condition", ""),
    ("5", "^", "a number is no condition", "compare it with something"),
    ("request.size", "^^^^^^^^^^^^", "a number is no condition", "compare it with something"),
    ("!client.ip", " ^^^^^^^^^", "an address is no condition", "compare it with something"),
    ("['a'] || true", "^^^^^", "a list is no condition", "compare it with something"),
];

/// Numbers.
const NUMBERS: &[Row] = &[
    (
        "request.size > 99999999999999999999",
        "               ^^^^^^^^^^^^^^^^^^^^",
        "this number is too large",
        "",
    ),
    (
        "request.size > 10KiB",
        "               ^^^^^",
        "this is no whole number",
        "numbers are digits alone: no sign, no fraction, no unit",
    ),
    (
        "request.size > 1.5",
        "               ^^",
        "this is no whole number",
        "numbers are digits alone: no sign, no fraction, no unit",
    ),
    (
        "request.size > -1",
        "               ^^",
        "this is no whole number",
        "numbers are digits alone: no sign, no fraction, no unit",
    ),
];

/// Functions.
const FUNCTIONS: &[Row] = &[
    ("lowr(request.path) == 'a'", "^^^^", "there is no function 'lowr'", "did you mean lower?"),
    ("lower() == 'a'", "^^^^^^^", "lower takes 1 argument, here are 0", ""),
    (
        "default(request.path) == 'a'",
        "^^^^^^^^^^^^^^^^^^^^^",
        "default takes 2 arguments, here are 1",
        "",
    ),
    ("lower(true) == 'a'", "      ^^^^", "a text is wanted, this is a truth", ""),
    ("lower(request.path == 'a'", "                         |", "a ) is missing", ""),
    (
        "share(request.path, request.query) < 5",
        "                    ^^^^^^^^^^^^^",
        "a constant text is wanted here",
        "write it in quotes",
    ),
];

#[test]
fn problems_have_their_place_and_a_way_out() {
    let rows = [NAMES, SYNTAX, TYPES, NUMBERS, FUNCTIONS].concat();
    for (text, expected, message, help) in rows {
        let problem = problem(text, &scope());
        let told = (problem.message.as_str(), problem.help.as_deref().unwrap_or_default());
        assert_eq!(told, (message, help), "{text}");
        assert_eq!(marks(text, &problem), expected, "{text}\n{expected}");
    }
}

#[test]
fn captures_are_those_of_the_path() {
    let two = scope().with_captures(["id", "post"]);
    assert!(crate::Condition::compile("capture.id && capture['post']", &two).is_ok());
    let problem = problem("capture.user", &two);
    assert_eq!(problem.to_string(), "the path has no part named 'user'; there are: id, post");
    assert_eq!(problem.span, 8..12);
    let none = scope().with_captures::<Box<str>>([]);
    let help = super::problem("capture.user", &none).help;
    assert_eq!(help.unwrap(), "name a segment: \"/users/{id}\", then capture.id");
}
