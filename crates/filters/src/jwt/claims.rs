//! What a token says, and what it has to say.

use std::time::Duration;

use serde_json::{Map, Value};

use super::Refusal;

/// The claims of a token (RFC 7519, 4).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claims(Map<String, Value>);

/// Whether a token has to end some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    /// A token without `exp` is refused.
    #[default]
    Required,
    /// A token without `exp` is good for ever.
    Optional,
}

/// A claim that has to be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Its name; dots lead into objects.
    pub claim: Box<str>,
    /// One of these has to be its value or among its values; if there are none, any value will do.
    pub any_of: Vec<String>,
}

/// What is asked of the claims.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// `iss` has to be one of these, unless there are none.
    pub issuers: Vec<String>,
    /// `aud` has to hold one of these, unless there are none.
    pub audiences: Vec<String>,
    /// How far clocks may be apart.
    pub leeway: Duration,
    /// Whether `exp` has to be there.
    pub expiry: Expiry,
    /// What else has to be there.
    pub required: Vec<Requirement>,
}

impl Claims {
    /// From an object of JSON.
    #[must_use]
    pub const fn new(claims: Map<String, Value>) -> Self {
        Self(claims)
    }

    /// The claim of this name. Dots lead into objects, unless a claim has the whole name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        find(&self.0, name)
    }

    /// The claim as a text that fits into a field line: numbers and truth values as JSON has them,
    /// lists joined by commas. `None` for objects, for `null`, and for what a field line cannot hold or
    /// what would read as something else there (control characters, an element with a comma).
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        let text = match self.get(name)? {
            Value::Array(list) => {
                let elements = list.iter().map(plain).collect::<Option<Vec<_>>>()?;
                if elements.iter().any(|element| element.contains(',')) {
                    return None;
                }
                elements.join(",")
            }
            value => plain(value)?,
        };
        let fits = !text.bytes().any(|byte| byte < 0x20 || byte == 0x7f)
            && text.trim_matches([' ', '\t']).len() == text.len();
        fits.then_some(text)
    }

    /// All claims.
    #[must_use]
    pub const fn as_object(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Until when the claims hold, as Unix time in seconds; `None` if for ever.
    ///
    /// # Errors
    /// [`Refusal`] if they do not hold at `now`, Unix time in seconds.
    pub fn check(&self, rules: &Rules, now: u64) -> Result<Option<u64>, Refusal> {
        let leeway = rules.leeway.as_secs();
        let until = match self.moment("exp")? {
            Some(at) => Some(at.saturating_add(leeway)),
            None if rules.expiry == Expiry::Required => {
                return Err(Refusal::Missing("exp".into()));
            }
            None => None,
        };
        if until.is_some_and(|until| now >= until) {
            return Err(Refusal::Expired);
        }
        let latest = now.saturating_add(leeway);
        if self.moment("nbf")?.is_some_and(|from| latest < from) {
            return Err(Refusal::NotYet);
        }
        if self.moment("iat")?.is_some_and(|issued| latest < issued) {
            return Err(Refusal::IssuedLater);
        }
        let issuer = self.0.get("iss").and_then(Value::as_str);
        if !rules.issuers.is_empty()
            && !issuer.is_some_and(|iss| rules.issuers.iter().any(|one| one == iss))
        {
            return Err(Refusal::Issuer);
        }
        if !rules.audiences.is_empty() && !self.is_for(&rules.audiences) {
            return Err(Refusal::Audience);
        }
        for requirement in &rules.required {
            self.fulfils(requirement)?;
        }
        Ok(until)
    }

    /// RFC 7519, 4.1.3: one text or a list of them.
    fn is_for(&self, audiences: &[String]) -> bool {
        let wanted = |value: &Value| audiences.iter().any(|audience| value == audience.as_str());
        match self.0.get("aud") {
            Some(Value::Array(list)) => list.iter().any(wanted),
            Some(value) => wanted(value),
            None => false,
        }
    }

    fn fulfils(&self, requirement: &Requirement) -> Result<(), Refusal> {
        let name = &requirement.claim;
        let value = self.get(name).filter(|value| !value.is_null());
        let value = value.ok_or_else(|| Refusal::Missing(name.clone()))?;
        let wanted = &requirement.any_of;
        let is_wanted = |text: &str| wanted.iter().any(|one| one == text);
        let fits = wanted.is_empty()
            || match value {
                Value::Array(list) => list.iter().filter_map(plain).any(|one| is_wanted(&one)),
                // RFC 8693, 4.2: a list of words, whatever it is called by.
                Value::String(text) if matches!(&**name, "scope" | "scp") => {
                    is_wanted(text) || text.split(' ').any(is_wanted)
                }
                value => plain(value).is_some_and(|text| is_wanted(&text)),
            };
        if fits { Ok(()) } else { Err(Refusal::Claim(name.clone())) }
    }

    /// A NumericDate (RFC 7519, 2) as Unix time in seconds, rounded up.
    fn moment(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        if let Some(seconds) = value.as_u64() {
            return Ok(Some(seconds));
        }
        let seconds = value.as_f64().ok_or(Refusal::Malformed("a time is no number"))?;
        // A moment before 1970 is as far past as any.
        let span = Duration::try_from_secs_f64(seconds.ceil().max(0.0));
        Ok(Some(span.map_or(u64::MAX, |span| span.as_secs())))
    }
}

fn find<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    if let Some(value) = object.get(name) {
        return Some(value);
    }
    name.match_indices('.').find_map(|(at, _)| {
        let (front, rest) = name.split_at(at);
        let inner = object.get(front)?.as_object()?;
        find(inner, rest.get(1..)?)
    })
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::{Claims, Expiry, Requirement, Rules};
    use crate::jwt::Refusal;

    fn claims(value: Value) -> Claims {
        let Value::Object(object) = value else { panic!("an object") };
        Claims::new(object)
    }

    #[test]
    fn times_are_kept_with_leeway() {
        let rules = Rules { leeway: Duration::from_secs(10), ..Rules::default() };
        let table = [
            (json!({"exp": 1000}), 1009, Ok(Some(1010))),
            (json!({"exp": 1000}), 1010, Err(Refusal::Expired)),
            (json!({"exp": 1000.5}), 1010, Ok(Some(1011))),
            (json!({"exp": 1e30}), 1010, Ok(Some(u64::MAX))),
            (json!({"exp": -5}), 1010, Err(Refusal::Expired)),
            (json!({"exp": "1000"}), 1, Err(Refusal::Malformed("a time is no number"))),
            (json!({"exp": null}), 1, Err(Refusal::Malformed("a time is no number"))),
            (json!({}), 1, Err(Refusal::Missing("exp".into()))),
            (json!({"exp": 1000, "nbf": 510}), 500, Ok(Some(1010))),
            (json!({"exp": 1000, "nbf": 511}), 500, Err(Refusal::NotYet)),
            (json!({"exp": 1000, "iat": 511}), 500, Err(Refusal::IssuedLater)),
            (json!({"exp": 1000, "iat": 511}), 501, Ok(Some(1010))),
        ];
        for (value, now, wanted) in table {
            assert_eq!(claims(value.clone()).check(&rules, now), wanted, "{value} at {now}");
        }
        let forever = Rules { expiry: Expiry::Optional, ..Rules::default() };
        assert_eq!(claims(json!({})).check(&forever, 1), Ok(None));
    }

    #[test]
    fn issuer_and_audience_are_exact() {
        let rules = Rules {
            issuers: vec!["https://a".to_owned(), "https://b".to_owned()],
            audiences: vec!["api".to_owned()],
            expiry: Expiry::Optional,
            ..Rules::default()
        };
        let table = [
            (json!({"iss": "https://b", "aud": "api"}), Ok(None)),
            (json!({"iss": "https://a", "aud": ["x", "api"]}), Ok(None)),
            (json!({"iss": "https://a/", "aud": "api"}), Err(Refusal::Issuer)),
            (json!({"iss": ["https://a"], "aud": "api"}), Err(Refusal::Issuer)),
            (json!({"aud": "api"}), Err(Refusal::Issuer)),
            (json!({"iss": "https://a"}), Err(Refusal::Audience)),
            (json!({"iss": "https://a", "aud": ["x"]}), Err(Refusal::Audience)),
            (json!({"iss": "https://a", "aud": "api2"}), Err(Refusal::Audience)),
            (json!({"iss": "https://a", "aud": {"api": 1}}), Err(Refusal::Audience)),
        ];
        for (value, wanted) in table {
            assert_eq!(claims(value.clone()).check(&rules, 1), wanted, "{value}");
        }
    }

    #[test]
    fn required_claims_have_a_wanted_value() {
        let holds = |value: Value, claim: &str, any_of: &[&str]| {
            let any_of = any_of.iter().map(|text| (*text).to_owned()).collect();
            claims(value).fulfils(&Requirement { claim: claim.into(), any_of }).is_ok()
        };
        assert!(holds(json!({"sub": "eva"}), "sub", &[]));
        assert!(!holds(json!({"sub": null}), "sub", &[]));
        assert!(!holds(json!({}), "sub", &[]));
        assert!(holds(json!({"role": "b"}), "role", &["a", "b"]));
        assert!(!holds(json!({"role": "a b"}), "role", &["a"]));
        assert!(holds(json!({"scope": "read write"}), "scope", &["write"]));
        assert!(!holds(json!({"scope": "readwrite"}), "scope", &["write"]));
        assert!(holds(json!({"groups": ["x", "y"]}), "groups", &["y"]));
        assert!(holds(json!({"level": 3, "ok": true}), "level", &["3"]));
        assert!(holds(json!({"realm": {"roles": ["admin"]}}), "realm.roles", &["admin"]));
        assert!(holds(json!({"https://x.example/role": "a"}), "https://x.example/role", &["a"]));
        assert!(!holds(json!({"realm": "roles"}), "realm.roles", &[]));
    }

    #[test]
    fn texts_fit_into_field_lines() {
        let claims = claims(json!({
            "sub": "eva", "n": 7, "list": ["a", 1, true], "comma": ["a,b"], "object": {"a": "deep"},
            "broken": "a\r\nX-Admin: 1", "nul": "a\u{0}", "blank": " a", "null": null, "name": "Zoë",
        }));
        let table = [
            ("sub", Some("eva")),
            ("n", Some("7")),
            ("list", Some("a,1,true")),
            ("object.a", Some("deep")),
            ("name", Some("Zoë")),
            ("comma", None),
            ("object", None),
            ("broken", None),
            ("nul", None),
            ("blank", None),
            ("null", None),
            ("none", None),
        ];
        for (name, wanted) in table {
            assert_eq!(claims.text(name).as_deref(), wanted, "{name}");
        }
    }
}
