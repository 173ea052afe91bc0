//! Shows a request to a filter in a loop, to count instructions under `perf stat -e instructions:u` or callgrind;
//! `idle` is the loop alone.
#![allow(clippy::expect_used, clippy::panic, reason = "a measuring program may stop")]

use std::borrow::Cow;
use std::fmt;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use sluice_filter::{
    Certificate, Content, Elsewhere, Encryption, Fetch, FetchFault, Fetching, Filter, Gateway,
    Level, Local, Notes, RequestContext, Verdict,
};
use sluice_filters::jwt::{Algorithm, Expiry, Jwt, JwtOptions, Key, KeySet, Keys, Rules};
use sluice_filters::key_source::KeySource;
use sluice_filters::quota::{LocalStore, Quota};
use sluice_filters::restrict::{Ip, Refusing};
use sluice_filters::{
    Hiding, KeyAuth, KeyAuthOptions, KeyRing, Missing, Rate, RateFields, RateLimit, RateManner,
    Secret, Strictness, WhenFull, addresses, read_networks, restrict,
};
use sluice_message::{PathRules, RequestHead};
use sluice_meter::FilterMeter;
use sluice_testkit::SigningKey;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3));

fn main() {
    let what = std::env::args().nth(1).unwrap_or_default();
    let rounds = std::env::args().nth(2).and_then(|rounds| rounds.parse().ok()).unwrap_or(100_000);
    let filter: Option<Box<dyn Filter>> = match what.as_str() {
        "idle" => None,
        "jwt" => Some(Box::new(jwt())),
        "key_auth" => Some(Box::new(key_auth())),
        "ip" => Some(Box::new(ip())),
        "rate_limit" => Some(Box::new(rate_limit())),
        _ => panic!("count_filters idle|jwt|key_auth|ip|rate_limit [ROUNDS]"),
    };
    let template = request();
    let (mut request, mut notes) = (RequestHead::new(), Notes::default());
    for _ in 0..rounds {
        request.copy_from(black_box(&template));
        notes.clear();
        let mut context = RequestContext {
            request: &mut request,
            client: CLIENT,
            notes: &mut notes,
            gateway: &Lent,
            content: Content::default(),
        };
        if let Some(filter) = &filter {
            let verdict = filter.on_request_head(&mut context);
            assert!(matches!(verdict, Verdict::Continue), "{verdict:?}");
        }
        black_box(&request);
    }
}

fn jwt() -> Jwt {
    let key = Key::secret(&Secret::new(SECRET), Algorithm::Hs256).expect("a secret");
    let options = JwtOptions {
        field: Some(b"authorization".as_slice().into()),
        scheme: Some(b"Bearer".as_slice().into()),
        cookie: None,
        parameter: None,
        algorithms: Vec::new(),
        rules: Rules { expiry: Expiry::Required, ..Rules::default() },
        user_claim: "sub".to_owned(),
        fields: vec![(b"x-user".as_slice().into(), "sub".to_owned())],
        hiding: Hiding::Shown,
        missing: Missing::Refused,
        realm: "api".to_owned(),
    };
    Jwt::new(options, Keys::Fixed(KeySet::new(vec![key])), meter(Jwt::OUTCOMES))
}

fn key_auth() -> KeyAuth {
    let options = KeyAuthOptions {
        field: Some(b"x-api-key".as_slice().into()),
        scheme: None,
        parameter: None,
        hiding: Hiding::Hidden,
        missing: Missing::Refused,
        user_field: None,
    };
    let keys = KeyRing::new([("eva".to_owned(), Secret::new(SECRET))]).expect("a key");
    KeyAuth::new(options, keys, meter(KeyAuth::OUTCOMES))
}

fn ip() -> Ip {
    // Every second network of 256 addresses: nothing can be joined.
    let lines: String =
        (0..100_000_u32).map(|at| format!("{}/24\n", Ipv4Addr::from_bits(at << 9))).collect();
    let deny = addresses(&read_networks(&lines).expect("networks"));
    let refusing = Refusing { status: 403, meter: meter(restrict::OUTCOMES) };
    Ip { allow: Some(addresses(&["10.0.0.0/8".parse().expect("a network")])), deny, refusing }
}

/// One limit by address, never reached, of which clients are not told.
fn rate_limit() -> RateLimit {
    let quota = Quota::new(1_000_000, 1_000_000_000, 1_000_000);
    let key = KeySource::Client { ipv6_prefix: 64 };
    let rates = vec![Rate { name: "all".to_owned(), quota, key }];
    let manner = RateManner {
        strictness: Strictness::Refuse(429),
        when_full: WhenFull::Pass,
        fields: RateFields::None,
    };
    RateLimit::new(rates, manner, Box::new(LocalStore::new(65_536)), meter(RateLimit::OUTCOMES))
}

fn meter(outcomes: &[&str]) -> Arc<FilterMeter> {
    Arc::new(FilterMeter::new(1, outcomes))
}

/// A browser's request with a token of some 700 bytes.
fn request() -> RequestHead {
    let claims = format!(
        r#"{{"iss":"https://id.example/realms/shop","aud":"shop","sub":"eva","exp":4102444800,"realm_access":{{"roles":["{}"]}}}}"#,
        ["reader", "editor", "publisher"].repeat(12).join("\",\"")
    );
    let token = SigningKey::secret("HS256", "", SECRET).token(&claims);
    let mut head = RequestHead::new();
    head.set_target(b"/articles?page=2", &PathRules::DEFAULT).expect("a target");
    let bearer = format!("Bearer {token}");
    let fields: [(&str, &str); 10] = [
        ("Host", "www.example.com"),
        ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) Chrome/124.0.0.0 Safari/537.36"),
        ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
        ("Sec-Fetch-Site", "same-origin"),
        ("Sec-Fetch-Mode", "navigate"),
        ("Referer", "https://www.example.com/"),
        ("Accept-Encoding", "gzip, deflate, br"),
        ("X-API-Key", "0123456789abcdef0123456789abcdef"),
        ("Authorization", &bearer),
        ("Cookie", "session=0123456789abcdef"),
    ];
    for (name, value) in fields {
        head.fields.push(name.as_bytes(), value.as_bytes()).expect("an empty head has room");
    }
    head
}

/// A gateway that lends next to nothing.
struct Lent;

impl Gateway for Lent {
    fn route(&self) -> &str {
        "r"
    }
    fn listener(&self) -> &str {
        "l"
    }
    fn scheme(&self) -> &'static str {
        "http"
    }
    fn peer(&self) -> IpAddr {
        CLIENT
    }
    fn port(&self) -> u16 {
        0
    }
    fn is_peer_trusted(&self) -> bool {
        false
    }
    fn encryption(&self) -> Option<Encryption<'_>> {
        None
    }
    fn certificate(&self) -> Option<Certificate<'_>> {
        None
    }
    fn capture(&self, _: &str) -> Option<Cow<'_, [u8]>> {
        None
    }
    fn worker(&self) -> usize {
        0
    }
    // An hour: at 0 no key of a rate limit gets a place in the table.
    fn now(&self) -> u64 {
        3_600_000_000_000
    }
    fn unix_ms(&self) -> u64 {
        1_700_000_000_000
    }
    fn random(&self) -> u64 {
        4
    }
    fn is_available(&self, _: usize) -> bool {
        false
    }
    fn log(&self, _: Level, _: fmt::Arguments<'_>) {}
    fn fetch(&self, _: Fetch) -> Fetching {
        Box::pin(async { Err(FetchFault::TimedOut) })
    }
    fn sleep(&self, _: Duration) -> Local<()> {
        Box::pin(async {})
    }
    fn offload(&self, _: Box<dyn FnOnce() + Send>) -> Local<bool> {
        Box::pin(async { false })
    }
    fn elsewhere(&self) -> Elsewhere {
        |work| {
            work();
            Box::pin(async { true })
        }
    }
}
