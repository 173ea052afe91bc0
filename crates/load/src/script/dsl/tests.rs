//! The DSL as a tree: lines, options, assertions.

use super::*;

/// A tree as JSON, so that it can be compared.
fn json(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Scalar(scalar) => crate::script::fields::meaning(scalar),
        Value::List(list) => list.iter().map(json).collect(),
        Value::Table(entries) => {
            entries.iter().map(|entry| (entry.key.clone(), json(&entry.node))).collect()
        }
    }
}

fn tree(text: &str) -> serde_json::Value {
    let mut report = Report::new("s.dsl", text);
    let entries = super::read(&mut report);
    let entries = entries.unwrap_or_else(|| panic!("{}", report.finish().unwrap_err()));
    json(&Node { span: Span::default(), value: Value::Table(entries) })
}

fn problem(text: &str) -> String {
    let mut report = Report::new("s.dsl", text);
    assert!(super::read(&mut report).is_none(), "{text}");
    report.finish().unwrap_err().to_string()
}

/// The condition that these lines make of a response.
fn condition(lines: &str) -> serde_json::Value {
    let text = format!("GET /\n{lines}");
    tree(&text)["requests"][0]["assert"].clone()
}

#[test]
fn requests_have_bodies_and_options() {
    let text = "\
# // A remark in front
# runner: {
#   // total_rounds: 1
#   no_warm: true, // and behind
#   default_endpoint: \"$[[env.HOST]]\",
# },
# variables: [
#   {name: \"id\", type: 'sequence'},
#   {name: \"q\", type: \"list\", data: [\"a\\\"b\", 'c\\\\d'], replace: {'\"': '\\\\\"'}},
# ]

DELETE /one

# A remark without slashes
POST /two?x=$[[id]]
{\"a\": 1}
{\"b\": \"#no comment\"}
# request: {
#   headers: [{Authorization: \"Bearer $[[t]]\"}, {X-A: 5}],
#   basic_auth: {username: u, password: -1.5e3},
# },
#
#// a heading
# register: [ { t: \"_ctx.response.body_json.hits.0._id\" }, ]

# sleep: { \"sleep_in_milli_seconds\": 250 }
";
    let expected = serde_json::json!({
        "runner": {"no_warm": true, "default_endpoint": "$[[env.HOST]]"},
        "variables": [
            {"name": "id", "type": "sequence"},
            {"name": "q", "type": "list", "data": ["a\"b", "c\\d"], "replace": {"\"": "\\\""}},
        ],
        "requests": [
            {"request": {"method": "DELETE", "url": "/one"}},
            {
                "request": {
                    "method": "POST",
                    "url": "/two?x=$[[id]]",
                    "body": "{\"a\": 1}\n{\"b\": \"#no comment\"}\n",
                    "headers": [{"Authorization": "Bearer $[[t]]"}, {"X-A": 5}],
                    "basic_auth": {"username": "u", "password": -1500.0},
                },
                "register": [{"t": "_ctx.response.body_json.hits.0._id"}],
                "sleep": {"sleep_in_milli_seconds": 250},
            },
        ],
    });
    assert_eq!(tree(text), expected);
}

#[test]
fn assertions_become_conditions() {
    let status = serde_json::json!({"equals": {"_ctx.response.status": 200}});
    let body = |path: &str, value: serde_json::Value| {
        let path = format!("_ctx.response.body_json.{path}");
        serde_json::json!({ "equals": { path: value } })
    };
    let at = |path: &str| format!("_ctx.response.body_json.{path}");
    let rows = [
        ("# 200", status.clone()),
        (
            "# 200\n# {\"errors\":false,}",
            serde_json::json!({"and": [status, body("errors", false.into())]}),
        ),
        ("# assert: (200, {}),", status.clone()),
        ("# assert: ({a: 'x'})", body("a", "x".into())),
        (
            "# assert: (200, {a: {b.c: null}})",
            serde_json::json!({"and": [status, body("a.b.c", ().into())]}),
        ),
        (
            "# assert: (>= 200 and < 300)",
            serde_json::json!({"and": [
                {"range": {"_ctx.response.status": {"gte": 200}}},
                {"range": {"_ctx.response.status": {"lt": 300}}},
            ]}),
        ),
        (
            "# assert: 200 or 201",
            serde_json::json!({"or": [
                {"equals": {"_ctx.response.status": 200}}, {"equals": {"_ctx.response.status": 201}},
            ]}),
        ),
        // `and` binds more tightly than `or`.
        (
            "# {took: <50 and >0 or == 7}",
            serde_json::json!({"or": [
                {"and": [{"range": {at("took"): {"lt": 50}}}, {"range": {at("took"): {"gt": 0}}}]},
                {"equals": {at("took"): 7}},
            ]}),
        ),
        ("# {a: not /x\\/y.*/}", serde_json::json!({"not": {"regexp": {at("a"): "x/y.*"}}})),
        (
            "# {a: [1, {b: 2}], c: [], d: ('e')}",
            serde_json::json!({"and": [
                {"and": [body("a.0", 1.into()), body("a.1.b", 2.into())]}, body("d", "e".into()),
            ]}),
        ),
        (
            "# {a: in(['x', 5]), b: exists(), c: prefix(\"y\")}",
            serde_json::json!({"and": [
                {"in": {at("a"): ["x", 5]}}, {"exists": [at("b")]}, {"prefix": {at("c"): "y"}},
            ]}),
        ),
        (
            "# assert: {\n#   _ctx.response: {status: 200, body: \"hi\"},\n#   _ctx.elapsed: <= 1000,\n# }",
            serde_json::json!({"and": [
                {"and": [status, {"equals": {"_ctx.response.body": "hi"}}]},
                {"range": {"_ctx.elapsed": {"lte": 1000}}},
            ]}),
        ),
        ("# {n: $[[env.N]]}", body("n", "$[[env.N]]".into())),
        (
            "# assert: (200, {u: \"\\u00e4\\n\"})",
            serde_json::json!({"and": [status, body("u", "ä\n".into())]}),
        ),
    ];
    for (lines, expected) in rows {
        assert_eq!(condition(lines), expected, "{lines}");
    }
    assert!(condition("# assert: {}").is_null());
}

#[test]
fn what_is_wrong_has_its_place() {
    let rows = [
        ("GET\n", "a request begins with a method and a URL", "s.dsl:1:1"),
        ("# runner: {\n#   no_warm: true,\n\nGET /\n", "this `{` has no `}`", "s.dsl:1:11"),
        ("# 200\nGET /\n", "stands below the request", "s.dsl:1:3"),
        ("GET /\n# assert 200\n", "`assert` needs a `:`", "s.dsl:2:3"),
        ("GET /\n# 200 documents\n", "a remark in a `#` line begins with `//`", "s.dsl:2:3"),
        ("GET /\n# assert: (200, {a: \"b})\n", "a \" is missing", "s.dsl:2:"),
        ("GET /\n# assert: (200, {a: })\n", "a value was expected", "s.dsl:2:21"),
        ("GET /\n# {from: 10, to 15}\n", "`to` needs a `:`", "s.dsl:2:14"),
        ("GET /\n# {a: 1, a: 2}\n", "`a` is written twice", "s.dsl:2:10"),
        ("GET /\n# {a: /x}\n", "a `/` is missing", "s.dsl:2:"),
        ("GET /\n# {a: $[[x}\n", "has no `]]`", "s.dsl:2:"),
        ("GET /\n# assert: (1, {}, 3)\n", "(STATUS, BODY)", "s.dsl:2:11"),
        ("GET /\n# {a: in(1, 2)}\n", "`in` takes one value", "s.dsl:2:7"),
        ("GET /\n# request: {url: >5}\n", "for assertions only", "s.dsl:2:18"),
        ("GET /\n# request: 5\n", "`request` is a table", "s.dsl:2:12"),
        ("GET /\n# assert: [1\n", "a `]` is missing", "s.dsl:2:"),
    ];
    for (text, message, place) in rows {
        let shown = problem(text);
        assert!(shown.contains(message) && shown.contains(place), "{text}\n{shown}");
    }
    for deep in ["[", "{a:", "(", "not ", "in("] {
        let text = format!("GET /\n# {{a: {}", deep.repeat(10_000));
        assert!(problem(&text).contains("nested too deeply"), "{deep}");
    }
}
