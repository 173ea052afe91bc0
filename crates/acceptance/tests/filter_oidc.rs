//! Users sign in with a provider, stay signed in, and sign out.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use sluice_acceptance::eventually;
use sluice_acceptance::filtered::{Filtered, Question, Told};
use sluice_testkit::{Exchange, Origin, SigningKey, base64, behaviour, forged, jwks, sha256};

/// What the provider answers, and what it was asked.
struct Script {
    key: SigningKey,
    /// The ID token for any code, made of the nonce.
    id_token: String,
    /// More members of its answer.
    more: String,
    /// The status of answers to refresh tokens.
    refresh_status: u16,
    /// The ID token for any refresh token; empty = none.
    renewed_id_token: String,
    /// Forms of the token endpoint, with the field `Authorization`.
    forms: Vec<(String, String)>,
    /// The status of the revocation endpoint, and the forms it got.
    revocation_status: u16,
    revocations: Vec<(String, String)>,
}

struct Provider {
    origin: Origin,
    script: Arc<Mutex<Script>>,
}

const JSON: &[&str] = &["Content-Type: application/json"];

impl Provider {
    fn start() -> Self {
        let script = Arc::new(Mutex::new(Script {
            key: SigningKey::generate("ES256", "one"),
            id_token: String::new(),
            more: String::new(),
            refresh_status: 200,
            renewed_id_token: String::new(),
            forms: Vec::new(),
            revocation_status: 200,
            revocations: Vec::new(),
        }));
        let shared = Arc::clone(&script);
        let origin = Origin::start(move |exchange: &mut Exchange| {
            let body = String::from_utf8(exchange.read_body()?.bytes).unwrap();
            let field = |name: &str| exchange.head().fields.first(name).unwrap_or("").to_owned();
            let (host, authorization) = (field("host"), field("authorization"));
            let mut script = shared.lock().unwrap();
            let target = exchange.head().target.clone();
            match target.as_str() {
                described if described.ends_with("/.well-known/openid-configuration") => {
                    let own = format!("http://{host}");
                    let text = format!(
                        r#"{{"issuer":"{own}","authorization_endpoint":"https://login.example/auth?x=1",
                        "token_endpoint":"{own}/token","jwks_uri":"{own}/keys",
                        "revocation_endpoint":"{own}/revoke",
                        "end_session_endpoint":"https://login.example/out"}}"#
                    );
                    exchange.answer(200, JSON, text)
                }
                "/keys" => exchange.answer(200, JSON, jwks(&[&script.key])),
                "/token" => {
                    let refresh = body.contains("grant_type=refresh_token");
                    script.forms.push((body, authorization));
                    if refresh && script.refresh_status != 200 {
                        let text = r#"{"error":"invalid_grant"}"#;
                        return exchange.answer(script.refresh_status, JSON, text);
                    }
                    let id = if refresh { &script.renewed_id_token } else { &script.id_token };
                    let more = &script.more;
                    let text = format!(r#"{{"id_token":"{id}","access_token":"acc"{more}}}"#);
                    exchange.answer(200, JSON, text)
                }
                "/revoke" => {
                    script.revocations.push((body, authorization));
                    exchange.answer(script.revocation_status, JSON, "")
                }
                other => panic!("the provider is asked for {other}"),
            }
        });
        Self { origin, script }
    }

    fn issuer(&self) -> String {
        format!("http://{}", self.origin.address())
    }

    /// Claims of a token for this sign-in.
    fn claims(&self, nonce: &str) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        format!(
            r#"{{"iss":"{}","aud":"shop","sub":"1","email":"eva@example","groups":["a","b"],"nonce":"{nonce}","exp":{}}}"#,
            self.issuer(),
            now + 300
        )
    }

    /// From now on a code gets this token.
    fn give(&self, token: impl FnOnce(&SigningKey) -> String) {
        let mut script = self.script.lock().unwrap();
        script.id_token = token(&script.key);
    }

    /// From now on a refresh token gets this ID token, made of the claims of the sign-in.
    fn give_renewed(&self, token: impl FnOnce(&SigningKey) -> String) {
        let mut script = self.script.lock().unwrap();
        script.renewed_id_token = token(&script.key);
    }

    /// What further members of the token response are.
    fn add(&self, more: &str) {
        self.script.lock().unwrap().more = more.to_owned();
    }

    fn revocations(&self) -> Vec<(String, String)> {
        self.script.lock().unwrap().revocations.clone()
    }

    fn forms(&self) -> Vec<(String, String)> {
        self.script.lock().unwrap().forms.clone()
    }
}

/// Which protocol the browser speaks.
#[derive(Clone, Copy)]
enum Speaks {
    Http1,
    Http2,
}

/// A browser: it keeps cookies.
struct Browser<'g> {
    gate: &'g Filtered,
    speaks: Speaks,
    cookies: Vec<(String, String)>,
}

/// What the gateway told the browser to take to the provider.
struct Errand {
    state: String,
    nonce: String,
    challenge: String,
}

impl<'g> Browser<'g> {
    fn new(gate: &'g Filtered, speaks: Speaks) -> Self {
        Self { gate, speaks, cookies: Vec::new() }
    }

    fn ask(&mut self, target: &str, fields: &[(&str, &str)]) -> Told {
        self.send("GET", target, fields)
    }

    fn send(&mut self, method: &str, target: &str, fields: &[(&str, &str)]) -> Told {
        // The ID token goes nowhere but to the sign-out.
        let sent = |name: &str| !name.starts_with("sluice-session-id") || target.contains("logout");
        let cookies = self.cookies.iter().filter(|(name, _)| sent(name));
        let pairs: Vec<String> = cookies.map(|(name, value)| format!("{name}={value}")).collect();
        let cookie = pairs.join("; ");
        let mut fields = fields.to_vec();
        if !cookie.is_empty() {
            fields.push(("Cookie", cookie.as_str()));
        }
        let question = Question { method, target, fields: &fields, ..Question::default() };
        let told = match self.speaks {
            Speaks::Http1 => self.gate.ask_http1(question),
            Speaks::Http2 => self.gate.ask_http2(question),
        };
        for line in told.all("set-cookie") {
            let (pair, rest) = line.split_once("; ").unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            assert!(rest.contains("HttpOnly") && rest.contains("SameSite=Lax"), "{line}");
            let path = if name.starts_with("sluice-session-id") { "/oidc/logout" } else { "/" };
            assert!(rest.starts_with(&format!("Path={path}; ")), "{line}");
            self.cookies.retain(|(have, _)| have != name);
            if !rest.contains("Max-Age=0") {
                self.cookies.push((name.to_owned(), value.to_owned()));
            }
        }
        told
    }

    fn open(&mut self, target: &str) -> Told {
        self.ask(target, &[("Accept", "text/html")])
    }

    /// Wants to see a page and is sent to sign in.
    fn begin(&mut self, target: &str) -> Errand {
        let told = self.open(target);
        assert_eq!((told.status, told.field("cache-control")), (302, Some("no-store")), "{told:?}");
        let location = told.field("location").unwrap();
        let query = location.strip_prefix("https://login.example/auth?x=1&").expect(location);
        let value = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(have, _)| *have == name).expect(name).1.to_owned()
        };
        assert_eq!((value("response_type"), value("client_id")), ("code".into(), "shop".into()));
        assert_eq!(value("redirect_uri"), "http%3A%2F%2Fa.example%2Foidc%2Fcallback");
        assert_eq!(value("scope"), "openid%20profile%20email");
        assert_eq!(value("code_challenge_method"), "S256");
        let errand = Errand {
            state: value("state"),
            nonce: value("nonce"),
            challenge: value("code_challenge"),
        };
        assert!(errand.state.len() == 43 && errand.nonce.len() == 43);
        errand
    }

    fn come_back(&mut self, state: &str) -> Told {
        self.open(&format!("/oidc/callback?code=c%20d&state={state}"))
    }

    /// Signs in.
    fn sign_in(&mut self, provider: &Provider, target: &str) -> Told {
        let errand = self.begin(target);
        let claims = provider.claims(&errand.nonce);
        provider.give(|key| key.token(&claims));
        self.come_back(&errand.state)
    }

    fn session(&self) -> Option<&str> {
        let session = self.cookies.iter().find(|(name, _)| name == "sluice-session");
        session.map(|(_, value)| value.as_str())
    }
}

/// The example of the page in front of this provider, with further options.
fn gate(issuer: &str, more: &str) -> Filtered {
    Filtered::of_page("oidc", &[], |example| {
        example
            .replace("http://127.0.0.1:9001/realms/shop", issuer)
            .replace("client_id", &format!("{more}\nclient_id"))
            .replace("filter.login.", "filter.f.")
            .replace("[\"login\"]", "[\"f\"]")
    })
}

#[test]
fn the_example_of_the_page_signs_users_in_and_out() {
    let provider = Provider::start();
    let gate = gate(&provider.issuer(), "");
    for speaks in [Speaks::Http1, Speaks::Http2] {
        let mut browser = Browser::new(&gate, speaks);
        let errand = browser.begin("/cart?a=1%20b");
        let claims = provider.claims(&errand.nonce);
        provider.give(|key| key.token(&claims));
        let told = browser.come_back(&errand.state);
        assert_eq!((told.status, told.field("location")), (302, Some("/cart?a=1%20b")), "{told:?}");
        // The code came with what only this sign-in knows, and with who asks.
        let (form, authorization) = provider.forms().pop().unwrap();
        let value = |name: &str| {
            let mut pairs = form.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(have, _)| *have == name).expect(name).1.to_owned()
        };
        let hash = base64(&sha256(value("code_verifier").as_bytes()));
        assert_eq!(
            hash.replace('+', "-").replace('/', "_").trim_end_matches('='),
            errand.challenge
        );
        assert_eq!(
            (value("code"), value("grant_type")),
            ("c%20d".into(), "authorization_code".into())
        );
        assert_eq!(value("redirect_uri"), "http%3A%2F%2Fa.example%2Foidc%2Fcallback");
        let secret = base64(b"shop:not%20for%20production");
        assert_eq!(authorization, format!("Basic {secret}"));
        // Signed in: the origin learns who it is, and nothing that the browser says of that.
        let forged = [("X-User", "root"), ("x_groups", "admins"), ("Accept", "application/json")];
        let told = browser.ask("/cart", &forged);
        assert_eq!(told.status, 200, "{told:?}");
        assert_eq!(told.origin_got("x-user"), ["eva@example"]);
        assert_eq!(told.origin_got("x-groups"), ["a,b"]);
        for gone in ["x_groups", "cookie", "authorization"] {
            assert_eq!(told.origin_got(gone), Vec::<&str>::new(), "{gone}");
        }
        let told = browser.ask("/oidc/logout", &[("Sec-Fetch-Site", "same-origin")]);
        let id_token = provider.script.lock().unwrap().id_token.clone();
        let out = format!(
            "https://login.example/out?client_id=shop&post_logout_redirect_uri=http%3A%2F%2Fa.example%2F\
             &id_token_hint={id_token}"
        );
        assert_eq!((told.status, told.field("location")), (303, Some(&*out)));
        assert_eq!((browser.session(), &*browser.cookies), (None, &[][..]));
        assert_eq!(browser.ask("/cart", &[]).status, 401);
    }
    assert_eq!((gate.outcome("signed_in"), gate.outcome("signed_out")), (2, 2));
    gate.sluice.stop();
}

#[test]
fn what_is_no_page_is_not_sent_elsewhere() {
    let provider = Provider::start();
    let gate = gate(&provider.issuer(), "");
    gate.get(401, &[]);
    gate.get(401, &[("Accept", "application/json")]);
    gate.get(401, &[("Accept", "text/html"), ("Sec-Fetch-Mode", "cors")]);
    let fields = [("Accept", "text/html")];
    let post = Question { method: "POST", fields: &fields, ..Question::default() };
    gate.expect(401, post);
    // Cookies that nobody sealed, and far too large ones, are nobody's.
    for cookie in ["sluice-session=x", "sluice-session=", "sluice-session=a; sluice-session.1=b"] {
        gate.get(401, &[("Cookie", cookie)]);
    }
    let huge = format!("sluice-session={}", "A".repeat(7000));
    gate.get(401, &[("Cookie", &huge)]);
    assert_eq!(gate.origin.requests().len(), 0);
    gate.sluice.stop();
}

#[test]
fn nobody_comes_back_with_somebody_elses_sign_in() {
    let provider = Provider::start();
    let gate = gate(&provider.issuer(), "");
    let (mut eva, mut eve) =
        (Browser::new(&gate, Speaks::Http1), Browser::new(&gate, Speaks::Http2));
    let (hers, other) = (eva.begin("/"), eve.begin("/"));
    let claims = provider.claims(&other.nonce);
    provider.give(|key| key.token(&claims));
    // A link of Eve's in Eva's browser would sign Eva in as Eve.
    assert_eq!(eva.come_back(&other.state).status, 400);
    assert_eq!(eva.come_back("").status, 400);
    assert_eq!(eva.come_back("../../x").status, 400);
    assert_eq!(provider.forms().len(), 0, "no code was even tried");
    // Eve's token in Eva's sign-in has another nonce.
    let told = eva.come_back(&hers.state);
    assert!(told.status == 403 && told.text.contains("somebody else"), "{told:?}");
    assert_eq!((eva.session(), eve.session()), (None, None));
    assert_eq!(eve.come_back(&other.state).status, 302);
    assert!(eve.session().is_some());
    gate.sluice.stop();
}

#[test]
fn bad_tokens_sign_nobody_in() {
    let provider = Provider::start();
    let gate = gate(&provider.issuer(), "");
    let mut browser = Browser::new(&gate, Speaks::Http2);
    let mut refused = |make: &dyn Fn(&SigningKey, &str) -> String| {
        let errand = browser.begin("/");
        let claims = provider.claims(&errand.nonce);
        provider.give(|key| make(key, &claims));
        let told = browser.come_back(&errand.state);
        assert_eq!(told.status, 403, "{told:?}");
        assert_eq!(browser.session(), None);
    };
    refused(&|key, claims| key.token(&claims.replace("\"shop\"", "\"blog\"")));
    refused(&|key, claims| key.token(&claims.replace("\"shop\"", "[\"shop\",\"blog\"]")));
    refused(&|key, claims| {
        let azp = r#""azp":"blog","sub""#;
        key.token(&claims.replace("\"sub\"", azp))
    });
    refused(&|key, claims| key.token(&claims.replace("http://", "https://")));
    refused(&|_, claims| SigningKey::generate("ES256", "one").token(claims));
    refused(&|_, claims| forged(r#"{"alg":"none","kid":"one"}"#, claims, |_| Vec::new()));
    refused(&|_, claims| SigningKey::secret("HS256", "one", b"not for production").token(claims));
    // What the provider itself refuses.
    let errand = browser.begin("/");
    let target = format!("/oidc/callback?error=access_denied&state={}", errand.state);
    assert_eq!(browser.open(&target).status, 403);
    assert_eq!(gate.origin.requests().len(), 0);
    gate.sluice.stop();
}

#[test]
fn nobody_is_sent_to_another_host() {
    let provider = Provider::start();
    let gate = gate(&provider.issuer(), "");
    for (target, place) in [("//evil.example/", "/evil.example/"), ("/\\evil.example", "/")] {
        let mut browser = Browser::new(&gate, Speaks::Http1);
        // Some are not even a target.
        if browser.open(target).status == 400 {
            continue;
        }
        let mut browser = Browser::new(&gate, Speaks::Http1);
        let told = browser.sign_in(&provider, target);
        assert_eq!((told.status, told.field("location")), (302, Some(place)), "{target}");
    }
    gate.sluice.stop();
}

#[test]
fn sessions_are_renewed_and_end_when_the_provider_says_so() {
    let provider = Provider::start();
    provider.script.lock().unwrap().more = r#","refresh_token":"r1","expires_in":1"#.to_owned();
    let gate = gate(&provider.issuer(), "forward_token = true");
    let mut browser = Browser::new(&gate, Speaks::Http1);
    assert_eq!(browser.sign_in(&provider, "/").status, 302);
    let first = browser.session().unwrap().to_owned();
    provider.script.lock().unwrap().more = r#","refresh_token":"r2","expires_in":3600"#.to_owned();
    let refreshes = || {
        let forms = provider.forms();
        forms.iter().filter(|(form, _)| form.contains("grant_type=refresh_token")).count()
    };
    // It is due in a moment.
    assert!(eventually(|| {
        let told = browser.ask("/", &[("Authorization", "Bearer forged")]);
        assert_eq!((told.status, told.origin_got("authorization")), (200, vec!["Bearer acc"]));
        refreshes() == 1
    }));
    assert_ne!(browser.session().unwrap(), first);
    // What was on its way with the old cookie gets what the first one got.
    let mut late = Browser::new(&gate, Speaks::Http2);
    late.cookies.push(("sluice-session".to_owned(), first));
    assert_eq!(late.ask("/", &[]).status, 200);
    assert_eq!(browser.ask("/", &[]).status, 200);
    assert_eq!(refreshes(), 1, "a refresh token is used once");
    // Another session, which the provider ends.
    provider.script.lock().unwrap().more = r#","refresh_token":"r3","expires_in":1"#.to_owned();
    let mut other = Browser::new(&gate, Speaks::Http2);
    assert_eq!(other.sign_in(&provider, "/").status, 302);
    provider.script.lock().unwrap().refresh_status = 400;
    assert!(eventually(|| other.ask("/", &[]).status == 401));
    assert_eq!(browser.ask("/", &[]).status, 200);
    gate.sluice.stop();
}

#[test]
fn without_the_provider_nobody_signs_in() {
    let down = Origin::start(behaviour::fixed(500, ""));
    let gate = gate(&format!("http://{}", down.address()), "");
    let mut browser = Browser::new(&gate, Speaks::Http1);
    let told = browser.open("/");
    assert!(told.status == 503 && told.text.contains("sign-in is not available"), "{told:?}");
    gate.sluice.wait_for_line("its description has status 500");
    // One that describes somebody else is none.
    let other = Provider::start();
    let alias = gate_for_alias(&other);
    assert_eq!(Browser::new(&alias, Speaks::Http1).open("/").status, 503);
    alias.sluice.stop();
    gate.sluice.stop();
}

/// The provider under a name that it does not call itself.
fn gate_for_alias(provider: &Provider) -> Filtered {
    let issuer = provider.issuer().replace("127.0.0.1", "localhost");
    let upstream = format!("upstream = \"{}\"", provider.origin.address());
    Filtered::of_page("oidc", &[], |example| {
        let example = example.replace("http://127.0.0.1:9001/realms/shop", &format!("{issuer}/x"));
        example.replace("client_id", &format!("{upstream}\nclient_id"))
    })
}

/// A form or query without what is of no interest.
fn names_of(form: &str) -> Vec<&str> {
    form.split('&').filter_map(|pair| pair.split_once('=')).map(|(name, _)| name).collect()
}

#[test]
fn a_session_is_nothing_to_another_filter() {
    let (provider, other) = (Provider::start(), Provider::start());
    let filter = |name: &str, issuer: &str, client: &str| {
        format!(
            "[filter.{name}.oidc]\nissuer = \"{issuer}\"\nclient_id = \"{client}\"\n\
             secrets = [\"b64b1c2f3e0a4d5c9788\"]\n"
        )
    };
    let filters = [
        filter("f", &provider.issuer(), "shop"),
        filter("issuer", &other.issuer(), "shop"),
        filter("client", &provider.issuer(), "blog"),
        filter("name", &provider.issuer(), "shop") + "callback_path = \"/name/callback\"\n",
    ];
    let gate = Filtered::build(&filters.concat(), &[], |origin| {
        let route = |(path, filter): (&str, &str)| {
            format!(
                "[[route]]\npath = \"{path}\"\nproxy = \"{origin}\"\nfilters = [\"{filter}\"]\n"
            )
        };
        let paths = ["/*", "/issuer/*", "/client/*", "/name/*"];
        let names = ["f", "issuer", "client", "name"];
        paths.into_iter().zip(names).map(route).collect()
    });
    let mut browser = Browser::new(&gate, Speaks::Http1);
    assert_eq!(browser.sign_in(&provider, "/").status, 302);
    assert_eq!(browser.ask("/", &[]).status, 200);
    for path in ["/issuer/", "/client/", "/name/"] {
        assert_eq!(browser.ask(path, &[]).status, 401, "{path}");
    }
    // Nor is a sign-in that has begun, and one that another provider has answered is none.
    let mut browser = Browser::new(&gate, Speaks::Http2);
    let errand = browser.begin("/");
    let claims = provider.claims(&errand.nonce);
    provider.give(|key| key.token(&claims));
    let (state, asked) = (errand.state, provider.forms().len());
    assert_eq!(browser.open(&format!("/name/callback?code=c&state={state}")).status, 400);
    let mixed_up = format!("/oidc/callback?code=c&state={state}&iss=https%3A%2F%2Fevil.example");
    assert_eq!(browser.open(&mixed_up).status, 403);
    assert_eq!(provider.forms().len(), asked, "no code was tried");
    assert_eq!(browser.come_back(&state).status, 302);
    gate.sluice.stop();
}

#[test]
fn claims_keep_their_names_when_options_change() {
    let provider = Provider::start();
    let gate = gate(&provider.issuer(), "");
    let mut browser = Browser::new(&gate, Speaks::Http2);
    assert_eq!(browser.sign_in(&provider, "/").status, 302);
    let config = std::fs::read_to_string(gate.sluice.config_path()).unwrap();
    let with =
        |headers: &str| config.replace("{ x-user = \"email\", x-groups = \"groups\" }", headers);
    for headers in [
        "{ x-groups = \"groups\", x-user = \"email\" }",
        "{ x-groups = \"groups\" }",
        "{ x-mail = \"email\", x-groups = \"groups\", x-user = \"email\", x-sub = \"sub\" }",
    ] {
        gate.sluice.reload(&with(headers));
        let told = browser.ask("/", &[]);
        assert_eq!(told.status, 200, "{told:?}");
        assert_eq!(told.origin_got("x-groups"), ["a,b"], "{headers}");
        for name in ["x-user", "x-mail"] {
            let wanted = if headers.contains(name) { vec!["eva@example"] } else { vec![] };
            assert_eq!(told.origin_got(name), wanted, "{headers}");
        }
    }
    // A claim that nobody looked for when the user signed in: he signs in anew.
    gate.sluice.reload(&with("{ x-user = \"email\", x-name = \"name\" }"));
    assert_eq!(browser.ask("/", &[]).status, 401);
    assert_eq!(browser.sign_in(&provider, "/").status, 302);
    let told = browser.ask("/", &[]);
    assert_eq!((told.status, told.origin_got("x-name")), (200, vec![]), "the provider has none");
    gate.sluice.stop();
}

#[test]
fn a_renewed_session_is_the_same_users() {
    let provider = Provider::start();
    let gate = gate(&provider.issuer(), "");
    let mut number = 0;
    let mut renewed = |make: &dyn Fn(&SigningKey, &str) -> String| {
        number += 1;
        provider.add(&format!(r#","refresh_token":"a{number}","expires_in":1"#));
        let mut browser = Browser::new(&gate, Speaks::Http1);
        let errand = browser.begin("/");
        let claims = provider.claims(&errand.nonce);
        provider.give(|key| key.token(&claims));
        let changed = claims.replace("eva@example", "eva@new.example");
        provider.give_renewed(|key| make(key, &changed));
        assert_eq!(browser.come_back(&errand.state).status, 302);
        provider.add(&format!(r#","refresh_token":"b{number}","expires_in":3600"#));
        let form = format!("grant_type=refresh_token&refresh_token=a{number}");
        let mut told = None;
        assert!(eventually(|| {
            let last = browser.ask("/", &[]);
            let asked = provider.forms().iter().any(|(sent, _)| *sent == form);
            told = Some(last);
            asked
        }));
        let told = told.unwrap();
        (told.status, told.origin_got("x-user").join(" "))
    };
    let good = (200, "eva@new.example".to_owned());
    assert_eq!(renewed(&|key, claims| key.token(claims)), good);
    // OpenID Connect Core 1.0, 12.2: it need not have the nonce, and the provider need not give one at all.
    let without_nonce = |claims: &str| {
        let (before, rest) = claims.split_once("\"nonce\":\"").unwrap();
        format!("{before}{}", rest.split_once("\",").unwrap().1)
    };
    assert_eq!(renewed(&|key, claims| key.token(&without_nonce(claims))), good);
    assert_eq!(renewed(&|_, _| String::new()), (200, "eva@example".to_owned()));
    let ended = (401, String::new());
    let changes = [
        ("\"sub\":\"1\"", "\"sub\":\"2\""),
        ("\"sub\":\"1\",", ""),
        ("\"nonce\":\"", "\"nonce\":\"x"),
        ("\"aud\":\"shop\"", "\"aud\":\"blog\""),
        ("\"aud\":\"shop\"", "\"aud\":[\"shop\",\"blog\"]"),
        ("\"sub\"", "\"azp\":\"blog\",\"sub\""),
        ("http://", "https://"),
    ];
    for (from, to) in changes {
        let claims = |claims: &str| claims.replace(from, to);
        assert_eq!(renewed(&|key, found| key.token(&claims(found))), ended, "{from} {to}");
    }
    let forger = SigningKey::generate("ES256", "one");
    assert_eq!(renewed(&|_, claims| forger.token(claims)), ended);
    gate.sluice.wait_for_line("a session was not renewed, a bad ID token");
    gate.sluice.stop();
}

#[test]
fn nobody_else_signs_a_user_out() {
    let provider = Provider::start();
    let gate = gate(&provider.issuer(), "");
    for speaks in [Speaks::Http1, Speaks::Http2] {
        let mut browser = Browser::new(&gate, speaks);
        assert_eq!(browser.sign_in(&provider, "/").status, 302);
        let foreign: [&[(&str, &str)]; 6] = [
            &[("Sec-Fetch-Site", "cross-site")],
            &[("Sec-Fetch-Site", "same-site"), ("Origin", "http://a.example")],
            &[("Origin", "http://evil.example")],
            &[("Origin", "null"), ("Referer", "http://a.example/")],
            &[("Referer", "http://a.example.evil.example/")],
            &[],
        ];
        for fields in foreign {
            let told = browser.send("POST", "/oidc/logout", fields);
            assert_eq!((told.status, told.field("set-cookie")), (403, None), "{fields:?}");
            // A link asks the user, on a page that no other frames.
            let told = browser.ask("/oidc/logout", fields);
            assert_eq!((told.status, told.field("set-cookie")), (200, None), "{fields:?}");
            assert!(told.text.contains("<form method=\"post\">"), "{}", told.text);
            assert_eq!(told.field("x-frame-options"), Some("DENY"));
        }
        // What a page of ours embeds is not what the user does.
        for dest in ["image", "iframe", "empty"] {
            let fields = [("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Dest", dest)];
            assert_eq!(browser.ask("/oidc/logout", &fields).status, 200, "{dest}");
        }
        let fields = [("Sec-Fetch-Site", "same-origin"), ("Sec-Purpose", "prefetch")];
        assert_eq!(browser.ask("/oidc/logout", &fields).status, 200);
        let told = browser.send("PUT", "/oidc/logout", &[("Sec-Fetch-Site", "same-origin")]);
        assert_eq!((told.status, told.field("allow")), (405, Some("GET, HEAD, POST")));
        assert_eq!(browser.ask("/", &[]).status, 200, "the user is still signed in");
        let own: [(&str, &[(&str, &str)]); 4] = [
            ("POST", &[("Sec-Fetch-Site", "same-origin"), ("Origin", "null")]),
            ("POST", &[("Origin", "http://A.example")]),
            ("GET", &[("Sec-Fetch-Site", "none"), ("Sec-Fetch-Dest", "document")]),
            ("GET", &[("Referer", "http://a.example/cart?x=1")]),
        ];
        for (method, fields) in own {
            let told = browser.send(method, "/oidc/logout", fields);
            assert_eq!(told.status, 303, "{method} {fields:?}");
            assert_eq!((browser.session(), browser.cookies.len()), (None, 0));
            assert_eq!(browser.sign_in(&provider, "/").status, 302);
        }
    }
    gate.sluice.stop();
}

#[test]
fn tokens_are_revoked_when_a_user_signs_out() {
    let provider = Provider::start();
    let gate = gate(&provider.issuer(), "forward_token = true");
    let sign_out = |more: &str| {
        provider.add(more);
        let mut browser = Browser::new(&gate, Speaks::Http2);
        assert_eq!(browser.sign_in(&provider, "/").status, 302);
        let before = provider.revocations().len();
        let told = browser.send("POST", "/oidc/logout", &[("Sec-Fetch-Site", "same-origin")]);
        assert_eq!((told.status, browser.cookies.len()), (303, 0), "{told:?}");
        let location = told.field("location").unwrap().split_once('?').unwrap().1.to_owned();
        assert_eq!(names_of(&location), ["client_id", "post_logout_redirect_uri", "id_token_hint"]);
        provider.revocations().split_off(before)
    };
    let secret = format!("Basic {}", base64(b"shop:not%20for%20production"));
    let form =
        |token: &str, kind: &str| (format!("token={token}&token_type_hint={kind}"), secret.clone());
    assert_eq!(sign_out(""), [form("acc", "access_token")]);
    assert_eq!(
        sign_out(r#","refresh_token":"r1","expires_in":3600"#),
        [form("r1", "refresh_token"), form("acc", "access_token")]
    );
    // A provider that fails keeps nobody from signing out.
    provider.script.lock().unwrap().revocation_status = 503;
    let failed = sign_out(r#","refresh_token":"r2","expires_in":3600"#);
    assert_eq!(failed.first(), Some(&form("r2", "refresh_token")));
    gate.sluice.wait_for_line("a token was not revoked: 503");
    gate.sluice.stop();
}
