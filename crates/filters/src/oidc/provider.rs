//! Who signs users in: where it is asked what, as it says itself or as the configuration does.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde_json::{Map, Value};
use sluice_filter::{Fetch, FetchFault, Fetched, Gateway, Local};
use sluice_message::Fields;

use crate::flight::Flight;
use crate::jwt::RemoteKeys;
use crate::jwt::remote::Remote;

/// A place that is asked through an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The upstream, by its index.
    pub cluster: usize,
    /// The host asked for.
    pub host: String,
    /// Path and query.
    pub target: String,
}

/// Where the provider is asked what.
#[derive(Clone, Debug)]
pub struct ProviderOptions {
    /// What it calls itself, letter by letter.
    pub issuer: String,
    /// Where it describes itself.
    pub discovery: Endpoint,
    /// Where browsers are sent to sign in, unless it says so itself.
    pub authorization: Option<String>,
    /// Where browsers are sent to sign out, unless it says so itself.
    pub end_session: Option<String>,
    /// Where codes are exchanged, unless it says so itself.
    pub token: Option<Endpoint>,
    /// Where its keys are, unless it says so itself.
    pub jwks: Option<Endpoint>,
    /// Where tokens are revoked, unless it says so itself.
    pub revocation: Option<Endpoint>,
    /// How long each question may take.
    pub timeout: Duration,
}

/// More is no answer, in bytes.
pub(super) const LIMIT: usize = 256 * 1024;
/// How old a description gets before it is asked for again, in seconds.
const REFRESH: u64 = 3600;
/// How long to wait after a failure, in seconds.
const PAUSE: u64 = 10;

/// Where the provider is asked what, once that is known.
#[derive(Clone, Debug)]
pub(super) struct Endpoints {
    pub(super) authorization: String,
    pub(super) end_session: Option<String>,
    pub(super) token: Endpoint,
    /// `None` if the provider has none, and why it is not asked if it is elsewhere.
    pub(super) revocation: Option<Result<Endpoint, String>>,
    pub(super) keys: Arc<Remote>,
}

/// What is known of the provider, shared by all workers.
pub(super) struct Provider {
    pub(super) options: ProviderOptions,
    known: RwLock<Known>,
    flight: Arc<Flight>,
}

#[derive(Default)]
struct Known {
    endpoints: Option<Arc<Endpoints>>,
    /// From when on it is asked again, as Unix time in seconds.
    due: u64,
}

impl Provider {
    pub(super) fn new(options: ProviderOptions) -> Self {
        let provider = Self { options, known: RwLock::default(), flight: Arc::default() };
        // Where everything is written down, nothing is asked.
        if let ProviderOptions { authorization: Some(_), token: Some(_), jwks: Some(_), .. } =
            &provider.options
            && let Ok(endpoints) = provider.endpoints(&Map::new())
        {
            provider.learn(Ok(Arc::new(endpoints)), u64::MAX);
        }
        provider
    }

    /// What is known; `None` if it has to be asked for.
    pub(super) fn known(&self, now: u64) -> Option<Arc<Endpoints>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.endpoints.clone().filter(|_| now < known.due)
    }

    /// What was known last, however old it is.
    pub(super) fn last(&self) -> Option<Arc<Endpoints>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).endpoints.clone()
    }

    /// Asks the provider to describe itself, or waits for whoever asks. What is wrong, if anything is.
    pub(super) fn discover(
        self: &Arc<Self>,
        gateway: &dyn Gateway,
        now: u64,
    ) -> Local<Result<(), String>> {
        let Some(pilot) = self.flight.board() else {
            let landing = Arc::clone(&self.flight).landing();
            return Box::pin(async move {
                landing.await;
                Ok(())
            });
        };
        {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            if known.endpoints.is_none() && now < known.due {
                return Box::pin(async { Err("it failed a moment ago".to_owned()) });
            }
        }
        let question = self.question(&self.options.discovery, gateway);
        let fetching = gateway.fetch(question);
        let provider = Arc::clone(self);
        Box::pin(async move {
            let outcome = provider.read(fetching.await).map(Arc::new);
            let said = outcome.as_ref().map(|_| ()).map_err(Clone::clone);
            provider.learn(outcome, now);
            drop(pilot);
            said
        })
    }

    /// A GET request for one of its places.
    fn question(&self, endpoint: &Endpoint, gateway: &dyn Gateway) -> Fetch {
        let mut fields = Fields::new();
        // An empty head has room for a line.
        let _ = fields.push(b"accept", b"application/json");
        Fetch {
            cluster: endpoint.cluster,
            method: b"GET".to_vec(),
            target: endpoint.target.clone().into_bytes(),
            host: endpoint.host.clone().into_bytes(),
            fields,
            body: Vec::new(),
            timeout: self.options.timeout,
            limit: LIMIT,
            client: gateway.peer(),
        }
    }

    fn learn(&self, outcome: Result<Arc<Endpoints>, String>, now: u64) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(endpoints) => {
                // The keys that are known go on if they are of the same place.
                known.endpoints = match known.endpoints.take() {
                    Some(before) if before.keys.is_from(&endpoints.keys) => {
                        let keys = Arc::clone(&before.keys);
                        Some(Arc::new(Endpoints { keys, ..(*endpoints).clone() }))
                    }
                    _ => Some(endpoints),
                };
                known.due = now.saturating_add(REFRESH);
            }
            Err(_) => known.due = now.saturating_add(PAUSE),
        }
    }

    fn read(&self, fetched: Result<Fetched, FetchFault>) -> Result<Endpoints, String> {
        let fetched = fetched.map_err(|fault| fault.to_string())?;
        if fetched.status != 200 {
            return Err(format!("its description has status {}", fetched.status));
        }
        let described: Map<String, Value> = serde_json::from_slice(&fetched.body)
            .map_err(|_| "its description is no JSON object".to_owned())?;
        // OpenID Connect Discovery 1.0, 4.3: anybody else could pass himself off as the provider.
        if described.get("issuer").and_then(Value::as_str) != Some(&*self.options.issuer) {
            return Err("its description is of another issuer".to_owned());
        }
        self.endpoints(&described)
    }

    fn endpoints(&self, described: &Map<String, Value>) -> Result<Endpoints, String> {
        let said = |name: &str| described.get(name).and_then(Value::as_str).map(str::to_owned);
        let options = &self.options;
        let authorization =
            options.authorization.clone().or_else(|| said("authorization_endpoint"));
        let authorization = authorization.filter(|url| is_url(url));
        let here = |url: &str, name: &str, key: &str| {
            self.same_server(url)
                .ok_or_else(|| format!("its {name} is on another server: write it down as `{key}`"))
        };
        let place = |given: &Option<Endpoint>, name: &str, key: &str| match given {
            Some(endpoint) => Ok(endpoint.clone()),
            None => {
                let url = said(name).ok_or_else(|| format!("its description has no {name}"))?;
                here(&url, name, key)
            }
        };
        let described = said("revocation_endpoint");
        let described = described.map(|url| here(&url, "revocation_endpoint", "revocation_url"));
        let jwks = place(&options.jwks, "jwks_uri", "jwks_url")?;
        Ok(Endpoints {
            authorization: authorization
                .ok_or_else(|| "its description has no authorization_endpoint".to_owned())?,
            end_session: options
                .end_session
                .clone()
                .or_else(|| said("end_session_endpoint"))
                .filter(|url| is_url(url)),
            token: place(&options.token, "token_endpoint", "token_url")?,
            revocation: options.revocation.clone().map(Ok).or(described),
            keys: Arc::new(Remote::new(RemoteKeys {
                cluster: jwks.cluster,
                target: jwks.target.into_bytes(),
                host: jwks.host.into_bytes(),
                timeout: options.timeout,
                refresh: REFRESH,
                pause: 30,
            })),
        })
    }

    /// A URL on the server that described itself, which is the only one that may be asked unless the
    /// configuration names others.
    fn same_server(&self, url: &str) -> Option<Endpoint> {
        let scheme = self.options.issuer.split("://").next()?;
        let rest = url.strip_prefix(scheme)?.strip_prefix("://")?;
        let cut = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, target) = rest.split_at(cut);
        let Endpoint { cluster, host: own, .. } = &self.options.discovery;
        let plain = target.bytes().all(|byte| matches!(byte, b'!'..=b'~') && byte != b'#');
        (host.eq_ignore_ascii_case(own) && plain).then(|| Endpoint {
            cluster: *cluster,
            host: own.clone(),
            target: if target.starts_with('/') { target.to_owned() } else { format!("/{target}") },
        })
    }
}

/// What may stand in `Location`.
fn is_url(text: &str) -> bool {
    let web = text.starts_with("https://") || text.starts_with("http://");
    web && text.bytes().all(|byte| matches!(byte, b'!'..=b'~') && byte != b'#')
}

impl fmt::Debug for Provider {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Provider").field("options", &self.options).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluice_filter::Fetched;

    use super::{Endpoint, Provider, ProviderOptions};

    fn provider() -> Provider {
        let discovery =
            Endpoint { cluster: 3, host: "id.example".to_owned(), target: "/d".to_owned() };
        Provider::new(ProviderOptions {
            issuer: "https://id.example".to_owned(),
            discovery,
            authorization: None,
            end_session: None,
            token: None,
            jwks: None,
            revocation: None,
            timeout: Duration::from_secs(1),
        })
    }

    fn described(body: &str) -> Result<super::Endpoints, String> {
        provider().read(Ok(Fetched { status: 200, body: body.into(), ..Fetched::default() }))
    }

    #[test]
    fn reads_how_a_provider_describes_itself() {
        let good = r#"{"issuer":"https://id.example","authorization_endpoint":"https://login.example/a",
            "token_endpoint":"https://id.example/token","jwks_uri":"https://ID.example/keys?v=1"}"#;
        let found = described(good).unwrap();
        assert_eq!(found.authorization, "https://login.example/a");
        assert_eq!((found.token.cluster, found.token.target.as_str()), (3, "/token"));
        assert_eq!((&found.end_session, &found.revocation), (&None, &None));
        let with = |url: &str| {
            let more = format!("\"revocation_endpoint\":\"{url}\",\"issuer\"");
            described(&good.replace("\"issuer\"", &more)).unwrap().revocation
        };
        assert_eq!(with("https://id.example/r").unwrap().unwrap().target, "/r");
        assert!(with("https://evil.example/r").unwrap().unwrap_err().contains("`revocation_url`"));
        let table = [
            ("", "no JSON object"),
            ("[]", "no JSON object"),
            (&*good.replace("\"https://id.example\"", "\"https://id.example/\""), "another issuer"),
            (
                &*good.replace("https://id.example/token", "https://evil.example/token"),
                "`token_url`",
            ),
            (&*good.replace("https://ID.example", "http://id.example"), "`jwks_url`"),
            (
                &*good.replace("https://id.example/token", "https://id.example@evil/t"),
                "`token_url`",
            ),
            (
                &*good.replace("https://login.example/a", "javascript:alert(1)"),
                "authorization_endpoint",
            ),
            (
                &*good.replace("https://login.example/a", "https://x/\\r\\nset-cookie:a"),
                "authorization",
            ),
        ];
        for (body, wanted) in table {
            let why = described(body).map(|_| ()).unwrap_err();
            assert!(why.contains(wanted), "{why}: {body}");
        }
        let failed = provider().read(Ok(Fetched { status: 500, ..Fetched::default() }));
        assert!(failed.map(|_| ()).unwrap_err().contains("500"));
    }
}
