//! Filters that find out who a client is: keys, passwords, tokens, signatures; and forged requests.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::time::{SystemTime, UNIX_EPOCH};

use sluice_acceptance::filtered::{Filtered, Question, Told};
use sluice_acceptance::upstream;
use sluice_acceptance::websocket::{Client, WAYS};
use sluice_testkit::{Origin, SigningKey, base64, behaviour, forged, get, jwks, sha256};

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Field lines of a request.
type Lines = Vec<(String, String)>;

const NONE: Vec<&str> = Vec::new();

/// What the example of a page needs to be a test's: the one filter is called `f`.
fn renamed(example: &str, name: &str) -> String {
    example
        .replace(&format!("filter.{name}."), "filter.f.")
        .replace(&format!("[\"{name}\"]"), "[\"f\"]")
}

#[test]
fn key_auth_example_of_its_page() {
    let gate = Filtered::of_page("key_auth", &[], |example| renamed(&example, "partners"));
    let forged = [("X-Client", "admin"), ("x_client", "admin"), ("X-API-Key", "9f1c2a7e55d04b6f")];
    for told in gate.get(200, &forged) {
        assert_eq!(told.origin_got("x-client"), ["reports"]);
        assert_eq!(told.origin_got("x_client"), NONE);
        assert_eq!(told.origin_got("x-api-key"), NONE);
    }
    for told in gate.get(401, &[]) {
        assert_eq!(told.field("www-authenticate"), Some("ApiKey"));
        assert!(told.text.contains("a key is needed"), "{told:?}");
    }
    for wrong in ["", "9f1c2a7e55d04b6", "9f1c2a7e55d04b6f0", "reports", "9F1C2A7E55D04B6F"] {
        gate.get(401, &[("X-API-Key", wrong)]);
    }
    let twice = [("X-API-Key", "9f1c2a7e55d04b6f"), ("x-api-key", "77ab0c1d9e3f4a52")];
    assert!(gate.get(401, &twice)[0].text.contains("more than one key"));
    assert_eq!((gate.outcome("passed"), gate.outcome("missing")), (2, 2));
    assert_eq!((gate.outcome("wrong"), gate.outcome("malformed")), (10, 2));
    let shown = get(&gate.sluice.admin(), "/config").text();
    assert!(!shown.contains("9f1c2a7e55d04b6f") && shown.contains("reports"), "{shown}");
    gate.sluice.stop();
}

#[test]
fn keys_come_from_files_and_queries() {
    let filter = "[filter.f.key_auth]\nkeys_file = \"{files}/keys\"\nheader = \"authorization\"\n\
                  scheme = \"Token\"\nquery = \"api key\"\nmissing = \"pass\"\nuser_header = \"x-user\"\n";
    let gate = Filtered::start(filter, &[("keys", "# keys\neva: s3cret key\n")]);
    let target = |target| Question { target, ..Question::default() };
    for told in gate.expect(200, target("/a?x=1&api%20key=s3cret%20key&y=%2b")) {
        assert!(told.text.starts_with("GET /a?x=1&y=%2b HTTP/1.1\n"), "{told:?}");
        assert_eq!(told.origin_got("x-user"), ["eva"]);
    }
    gate.get(200, &[("Authorization", "token  s3cret key")]);
    for told in gate.get(200, &[("X-User", "eva")]) {
        assert_eq!(told.origin_got("x-user"), NONE, "nobody has proved to be anybody");
    }
    gate.expect(401, target("/?api+key=wrong"));
    gate.expect(401, target("/?api+key=s3cret+key&api+key=x"));
    let both = [("Authorization", "Token s3cret key")];
    gate.expect(401, Question { fields: &both, ..target("/?api+key=s3cret+key") });
    gate.sluice.stop();
}

/// `U*U`, from the tests of the first bcrypt.
const BCRYPT: &str = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", base64(format!("{user}:{password}").as_bytes()))
}

#[test]
fn basic_auth_example_of_its_page() {
    let users = format!("# staff\neva:{BCRYPT}\n");
    let gate =
        Filtered::of_page("basic_auth", &[("users", &users)], |example| renamed(&example, "staff"));
    let offer =
        |status, value: &str| gate.get(status, &[("Authorization", value), ("X-User", "root")]);
    for _ in 0..2 {
        for told in offer(200, &basic("eva", "U*U")) {
            assert_eq!(told.origin_got("x-user"), ["eva"]);
            assert_eq!(told.origin_got("authorization"), NONE);
        }
    }
    for told in gate.get(401, &[]) {
        let wanted = "Basic realm=\"staff\", charset=\"UTF-8\"";
        assert_eq!(told.field("www-authenticate"), Some(wanted));
    }
    for (user, password) in
        [("eva", ""), ("eva", "U*V"), ("Eva", "U*U"), ("bob", "U*U"), ("eva ", "U*U")]
    {
        offer(401, &basic(user, password));
    }
    // What could become a line of its own, and what is no credential at all.
    offer(401, &basic("eva\r\nX-Admin: 1", "U*U"));
    offer(401, &basic("eva\0", "U*U"));
    for value in ["Basic", "Basic !!!", "Basic ZXZh", "Bearer ZXZhOlUqVQ==", &basic("", "U*U")] {
        offer(401, value);
    }
    offer(401, &basic("eva", &"x".repeat(3500)));
    let good = basic("eva", "U*U");
    gate.get(401, &[("Authorization", &good), ("Authorization", &basic("bob", "x"))]);
    assert!(gate.outcome("remembered") >= 1 && gate.outcome("passed") >= 1);
    assert_eq!(gate.outcome("passed") + gate.outcome("remembered"), 4);
    assert_eq!(gate.outcome("wrong"), 10);
    gate.sluice.stop();
}

#[test]
fn passwords_that_are_no_hashes_stop_a_reload() {
    let filter = format!("[filter.f.basic_auth]\npasswords = {{ eva = \"{BCRYPT}\" }}\n");
    let gate = Filtered::start(&filter, &[]);
    let good = basic("eva", "U*U");
    gate.get(200, &[("Authorization", &good)]);
    let config = std::fs::read_to_string(gate.sluice.config_path()).unwrap();
    let said = gate.sluice.reload(&config.replace(BCRYPT, "U*U"));
    assert!(said.contains("user `eva` has no bcrypt") && !said.contains("U*U"), "{said}");
    gate.get(200, &[("Authorization", &good)]);
    let shown = get(&gate.sluice.admin(), "/config").text();
    assert!(!shown.contains("CCCC"), "{shown}");
    gate.sluice.stop();
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

fn claims(rest: &str) -> String {
    format!(
        r#"{{"iss":"https://id.example","aud":["x","shop"],"scope":"read x","sub":"eva","exp":{}{rest}}}"#,
        now() + 300
    )
}

#[test]
fn jwt_example_of_its_page() {
    let (rsa, ec) = (SigningKey::generate("RS256", "r"), SigningKey::generate("ES256", "e"));
    let set = jwks(&[&rsa, &ec]);
    let gate = Filtered::of_page("jwt", &[("keys.json", &set)], |example| renamed(&example, "api"));
    let offer = |status, token: &str| {
        let value = bearer(token);
        gate.get(status, &[("Authorization", &value), ("X-User", "root"), ("x_roles", "admin")])
    };
    let roles = claims(r#","realm_access":{"roles":["a","b"]}"#);
    for key in [&rsa, &ec] {
        // The second time it is remembered.
        for _ in 0..2 {
            for told in offer(200, &key.token(&roles)) {
                assert_eq!(told.origin_got("x-user"), ["eva"]);
                assert_eq!(told.origin_got("x-roles"), ["a,b"]);
                assert_eq!(told.origin_got("x_roles"), NONE);
                assert_eq!(told.origin_got("authorization").len(), 1, "it goes on to the origin");
            }
        }
    }
    let refused = |token: &str, why: &str| {
        for told in offer(401, token) {
            assert!(told.text.contains(why), "{why}: {told:?}");
            let challenge = told.field("www-authenticate").unwrap();
            assert_eq!(challenge, "Bearer realm=\"api\", error=\"invalid_token\"");
        }
    };
    let good = claims("");
    for none in ["none", "None", "NONE"] {
        let header = format!(r#"{{"alg":"{none}","kid":"r"}}"#);
        refused(&forged(&header, &good, |_| Vec::new()), "algorithm");
    }
    for secret in [rsa.pem(), rsa.jwk(), set.clone()] {
        let forger = SigningKey::secret("HS256", "r", secret.as_bytes());
        refused(&forger.token(&good), "algorithm");
    }
    let header = r#"{"alg":"RS256","kid":"r","crit":["exp"]}"#;
    refused(&rsa.token_with(header, &good), "malformed");
    refused(&SigningKey::generate("RS256", "r").token(&good), "signature");
    refused(&SigningKey::generate("RS256", "q").token(&good), "key of the token not known");
    refused(&rsa.token(&good.replace("shop", "blog")), "audience");
    refused(&rsa.token(&good.replace("id.example", "evil.example")), "issuer");
    refused(&rsa.token(&good.replace("read", "rea")), "claims");
    refused(&rsa.token(&claims(&format!(r#","nbf":{}"#, now() + 3000))), "not valid yet");
    let old = format!(r#""exp":{}"#, now() - 3000);
    let exp = good.find(r#""exp""#).unwrap();
    refused(&rsa.token(&format!("{}{old}}}", &good[..exp])), "expired");
    refused(&rsa.token(&format!("{}\"x\":1}}", &good[..exp])), "claims");
    refused("x", "malformed");
    refused(&format!("{}.", rsa.token(&good)), "malformed");
    refused(&rsa.token(&claims(&format!(r#","x":"{}""#, "y".repeat(13_000)))), "malformed");
    gate.sluice.stop();
}

#[test]
fn claims_never_become_lines_of_their_own() {
    let key = SigningKey::secret("HS256", "", b"0123456789abcdef0123456789abcdef");
    let filter = "[filter.f.jwt]\nsecret_file = \"{files}/secret\"\nhide = true\ncookie = \"t\"\nquery = \"t\"\n\
                  headers = { x-user = \"sub\", x-roles = \"roles\" }\n";
    let gate = Filtered::start(filter, &[("secret", "0123456789abcdef0123456789abcdef\n")]);
    let token = |rest: &str| key.token_with(r#"{"alg":"HS256"}"#, &claims(rest));
    let evil = token(r#","sub":"a\r\nX-Admin: 1","roles":["a,admin"]"#);
    let value = bearer(&evil);
    for told in gate.get(200, &[("Authorization", &value), ("X-User", "root"), ("X-Roles", "r")]) {
        for name in ["x-user", "x-roles", "x-admin", "authorization"] {
            assert_eq!(told.origin_got(name), NONE, "{told:?}");
        }
    }
    let good = token("");
    let cookie = format!("a=1; t={good}; b=2");
    for told in gate.get(200, &[("Cookie", &cookie)]) {
        assert_eq!(told.origin_got("cookie"), ["a=1; b=2"]);
        assert_eq!(told.origin_got("x-user"), ["eva"]);
    }
    let target = format!("/a?x=1&t={good}");
    for told in gate.expect(200, Question { target: &target, ..Question::default() }) {
        assert!(told.text.starts_with("GET /a?x=1 HTTP/1.1\n"), "{told:?}");
    }
    let both = [("Cookie", cookie.as_str()), ("Authorization", value.as_str())];
    assert!(gate.get(401, &both)[0].text.contains("malformed"));
    let huge = format!("t={}", "x".repeat(9000));
    let told = gate.ask(Question { fields: &[("Cookie", &huge)], ..Question::default() });
    assert!(matches!(told[0].status, 401 | 431), "{told:?}");
    gate.sluice.stop();
}

/// A gateway that fetches its keys from `issuer`.
fn fetching(issuer: &str, more: &str) -> Filtered {
    let filter = format!(
        "{}[filter.f.jwt]\njwks_url = \"http://id.example/keys\"\njwks_upstream = \"id\"\n{more}\n",
        upstream("id", issuer)
    );
    Filtered::start(&filter, &[])
}

#[test]
fn keys_are_fetched_once_and_kept() {
    let key = SigningKey::generate("ES256", "one");
    let issuer = Origin::start(behaviour::fixed(200, &jwks(&[&key])));
    let gate = fetching(issuer.address(), "");
    let value = bearer(&key.token(&claims("")));
    for _ in 0..4 {
        gate.get(200, &[("Authorization", &value)]);
    }
    let asked = issuer.requests();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!((asked[0].method.as_str(), asked[0].target.as_str()), ("GET", "/keys"));
    assert_eq!(asked[0].fields.first("host"), Some("id.example"));
    // A key that nobody knows is no reason to ask again so soon, however often it is named.
    let stranger = bearer(&SigningKey::generate("ES256", "two").token(&claims("")));
    for _ in 0..4 {
        gate.get(401, &[("Authorization", &stranger)]);
    }
    assert_eq!(issuer.requests().len(), 1);
    gate.sluice.stop();
}

#[test]
fn without_keys_nobody_comes_in() {
    let key = SigningKey::generate("RS256", "one");
    let issuer = Origin::start(behaviour::fixed(500, ""));
    let gate = fetching(issuer.address(), "");
    let value = bearer(&key.token(&claims("")));
    let told = gate.get(503, &[("Authorization", &value)]);
    assert!(told[0].text.contains("no keys"), "{told:?}");
    gate.sluice.wait_for_line("no keys from /keys: it answered 500");
    gate.sluice.stop();
}

/// Signs a request the way the page says.
fn signed(secret: &str, (method, target): (&str, &str), lines: &[&str]) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let text = format!("{method}\n{path}\n{query}\nreports\n{}\n", lines.join("\n"));
    base64(&SigningKey::secret("HS256", "", secret.as_bytes()).sign(text.as_bytes()))
}

#[test]
fn hmac_auth_example_of_its_page() {
    const SECRET: &str = "0f4d4bb4f9b14a0c9b6a";
    let gate = Filtered::of_page("hmac_auth", &[], |example| renamed(&example, "partners"));
    let moment = std::cell::Cell::new(now());
    let offer = |status: u16, secret: &str, body: &str, change: &dyn Fn(&mut Lines)| {
        let ask = |http1: bool| -> Told {
            // Each signature is good once: another moment makes another one.
            moment.set(moment.get() - 1);
            let date = moment.get().to_string();
            let digest = format!("sha-256=:{}:", base64(&sha256(b"hello")));
            let signature = signed(
                secret,
                ("POST", "/orders?b=2&a=1"),
                &[&date, "host: a.example", &format!("content-digest: {digest}")],
            );
            let authorization = format!(
                "HMAC key=\"reports\", headers=\"host content-digest\", signature=\"{signature}\""
            );
            let mut fields = vec![
                ("Date".to_owned(), date),
                ("Content-Digest".to_owned(), digest),
                ("Authorization".to_owned(), authorization),
                ("X-Client".to_owned(), "root".to_owned()),
            ];
            change(&mut fields);
            let fields: Vec<(&str, &str)> =
                fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let question =
                Question { method: "POST", target: "/orders?b=2&a=1", fields: &fields, body };
            if http1 { gate.ask_http1(question) } else { gate.ask_http2(question) }
        };
        for told in [ask(true), ask(false)] {
            assert_eq!(told.status, status, "{told:?}");
            if status == 200 {
                assert_eq!(told.origin_got("x-client"), ["reports"]);
                assert_eq!(told.origin_got("authorization"), NONE);
                assert!(told.text.ends_with("\nhello"), "{told:?}");
            }
        }
    };
    let nothing = |_: &mut Lines| ();
    let set = |place: usize, value: &str| {
        let value = value.to_owned();
        move |fields: &mut Lines| fields[place].1.clone_from(&value)
    };
    offer(200, SECRET, "hello", &nothing);
    offer(401, "another secret of that length", "hello", &nothing);
    offer(401, SECRET, "hello", &|fields| drop(fields.remove(2)));
    offer(401, SECRET, "hello", &set(0, &(now() - 2).to_string()));
    offer(401, SECRET, "hello", &set(0, "yesterday"));
    offer(401, SECRET, "hello", &set(1, "sha-256=:AAAA:"));
    offer(401, SECRET, "hello", &|fields| fields[2].1 = fields[2].1.replace("reports", "nobody"));
    offer(401, SECRET, "hello", &|fields| fields[2].1 = fields[2].1.replace("host ", ""));
    offer(401, SECRET, "hello", &|fields| {
        fields[2].1 = fields[2].1.replace("host content-digest", "host");
    });
    offer(401, SECRET, "hello", &|fields| fields.push(("Date".to_owned(), "0".to_owned())));
    moment.set(now() - 400);
    offer(401, SECRET, "hello", &nothing);
    assert!(gate.outcome("skewed") == 2 && gate.outcome("passed") == 2);
    gate.sluice.stop();
}

#[test]
fn the_order_of_parameters_is_signed() {
    const SECRET: &str = "a secret of some length";
    // How the query is signed, what is signed, what is sent, and whether it passes.
    let rows = [
        ("as_sent", "b=2&a=1", "b=2&a=1", 200),
        ("as_sent", "a=1&b=2", "b=2&a=1", 401),
        ("as_sent", "a=1&a=2", "a=2&a=1", 401),
        ("as_sent", "a=1", "a=1&a=1", 401),
        ("as_sent", "a=1", "a=1&", 401),
        ("sorted", "a=1&b=2", "b=2&a=1", 200),
        ("sorted", "a=1&a=2&b", "b&a=1&a=2", 200),
        ("sorted", "a=1&a=2", "a=2&a=1", 401),
    ];
    for query in ["as_sent", "sorted"] {
        let filter = format!(
            "[filter.f.hmac_auth]\nkeys = {{ reports = \"{SECRET}\" }}\nquery = \"{query}\"\n"
        );
        let gate = Filtered::start(&filter, &[]);
        for (_, signs, sends, status) in rows.iter().filter(|(of, ..)| *of == query) {
            let date = now().to_string();
            let lines = [date.as_str(), "host: a.example"];
            let signature = signed(SECRET, ("GET", &format!("/?{signs}")), &lines);
            let authorization =
                format!("HMAC key=\"reports\", headers=\"host\", signature=\"{signature}\"");
            let fields = [("Date", date.as_str()), ("Authorization", authorization.as_str())];
            let target = format!("/?{sends}");
            let question = Question { target: &target, fields: &fields, ..Question::default() };
            gate.expect(*status, question);
        }
        gate.sluice.stop();
    }
}

#[test]
fn content_that_is_not_what_was_signed_never_ends() {
    const SECRET: &str = "a secret of some length";
    let filter =
        format!("[filter.f.hmac_auth]\nkeys = {{ reports = \"{SECRET}\" }}\nonce = true\n");
    let gate = Filtered::start(&filter, &[]);
    let date = now().to_string();
    let digest = format!("sha-256=:{}:", base64(&sha256(b"hello")));
    let lines = [date.as_str(), "host: a.example", &format!("content-digest: {digest}")];
    let signature = signed(SECRET, ("POST", "/"), &lines);
    let authorization =
        format!("HMAC key=\"reports\", headers=\"host content-digest\", signature=\"{signature}\"");
    let fields = [
        ("Date", date.as_str()),
        ("Content-Digest", digest.as_str()),
        ("Authorization", authorization.as_str()),
    ];
    let question = |body| Question { method: "POST", fields: &fields, body, ..Question::default() };
    let told = gate.ask_http1(question("jello"));
    assert!(told.status >= 400, "{told:?}");
    assert_eq!(gate.origin.complete_requests(), 0, "the origin never saw the end");
    // The same again is refused whatever it holds.
    let told = gate.ask_http1(question("hello"));
    assert!(told.status == 401 && told.text.contains("used before"), "{told:?}");
    assert_eq!(gate.outcome("replayed"), 1);
    gate.sluice.stop();
}

#[test]
fn csrf_example_of_its_page() {
    let gate = Filtered::of_page("csrf", &[], |example| renamed(&example, "forgery"));
    let post = |status, fields: &[(&str, &str)]| {
        gate.expect(status, Question { method: "POST", fields, ..Question::default() });
    };
    post(200, &[]);
    post(200, &[("Origin", "http://a.example")]);
    post(200, &[("Origin", "https://admin.example"), ("Sec-Fetch-Site", "cross-site")]);
    post(200, &[("Sec-Fetch-Site", "same-origin")]);
    post(403, &[("Origin", "https://evil.example")]);
    post(403, &[("Origin", "https://a.example.evil.example")]);
    post(403, &[("Origin", "null")]);
    post(403, &[("Sec-Fetch-Site", "cross-site")]);
    post(403, &[("Origin", "http://a.example"), ("Sec-Fetch-Site", "cross-site")]);
    post(403, &[("Origin", "http://a.example"), ("Origin", "https://evil.example")]);
    gate.get(200, &[("Origin", "https://evil.example")]);
    assert_eq!((gate.outcome("passed"), gate.outcome("foreign")), (10, 12));
    // A method that a framework takes for that of the request.
    let evil = ("Sec-Fetch-Site", "cross-site");
    for name in ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"] {
        gate.get(403, &[evil, (name, "DELETE")]);
        gate.get(200, &[("Sec-Fetch-Site", "same-origin"), (name, "DELETE")]);
    }
    for (target, status) in [("/?_method=DELETE", 403), ("/?_method=GET", 200), ("/?method=a", 200)]
    {
        gate.expect(status, Question { target, fields: &[evil], ..Question::default() });
    }
    // Every page may open a WebSocket anywhere, and has the cookies of its visitor sent with it: with `Upgrade`, and
    // over HTTP/2 with an extended CONNECT.
    for way in WAYS {
        let web = gate.sluice.address("web");
        let ask = |origin| Client::ask(way, &web, "/", &[("origin", origin)]).1;
        assert_eq!(ask("https://evil.example"), 403);
        assert_ne!(ask("http://a.example"), 403);
    }
    gate.sluice.stop();
}

#[test]
fn csrf_tokens_are_made_and_asked_for() {
    let filter =
        "[filter.f.csrf]\nsecrets = [\"a secret of some length\"]\nsession_cookie = \"sid\"\n";
    let gate = Filtered::start(filter, &[]);
    let cookie_of = |told: &Told| {
        let line = told.field("set-cookie").expect("there is a cookie").to_owned();
        assert!(line.contains("; Path=/; Max-Age=43200; SameSite=Lax"), "{line}");
        let pair = line.split(';').next().unwrap().to_owned();
        pair.strip_prefix("csrf-token=").unwrap().to_owned()
    };
    let token = cookie_of(&gate.get(200, &[("Cookie", "sid=eva")])[0]);
    let post = |status, cookie: &str, shown: &str| {
        let fields = [("Cookie", cookie), ("X-CSRF-Token", shown)];
        gate.expect(status, Question { method: "POST", fields: &fields, ..Question::default() });
    };
    let kept = format!("sid=eva; csrf-token={token}");
    post(200, &kept, &token);
    post(403, &kept, "");
    post(403, &kept, &format!("{token}A"));
    post(403, "sid=eva", &token);
    post(403, "sid=eva; csrf-token=x", "x");
    post(403, &kept.replace("eva", "bob"), &token);
    let huge = "x".repeat(6000);
    post(403, &format!("sid=eva; csrf-token={huge}"), &huge);
    // Whoever has one gets no other.
    for told in gate.get(200, &[("Cookie", &kept)]) {
        assert_eq!(told.field("set-cookie"), None);
    }
    gate.sluice.stop();
}
