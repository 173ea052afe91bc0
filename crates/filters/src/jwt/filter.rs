//! Lets requests through that bring a good token.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use sluice_filter::{Filter, Phases, RequestContext, Resume, Verdict};
use sluice_message::RequestHead;
use sluice_message::pair::{cookies, decoded, query_pairs};
use sluice_meter::FilterMeter;

use super::remote::{Hurry, Remote, RemoteKeys, Renewal};
use super::{Algorithm, Claims, KeySet, MAX_TOKEN, Refusal, Rules, Verified};
use crate::Recent;
use crate::identity::{Hiding, Missing, challenge, only_value, quoted, strip, too_large};
use crate::per_thread::PerThread;
use crate::target::without_parameters;

/// Tokens that each worker remembers.
const REMEMBERED: usize = 1024;
/// Longer ones are verified each time, in bytes.
const MAX_REMEMBERED: usize = 4096;
/// Tokens without an end are verified again after so long, in seconds.
const ENDLESS: u64 = 300;

/// Where keys come from.
#[derive(Debug)]
pub enum Keys {
    /// From the configuration.
    Fixed(KeySet),
    /// From their issuer.
    Remote(RemoteKeys),
}

/// Where tokens are looked for, and what becomes of requests.
#[derive(Clone, Debug)]
pub struct JwtOptions {
    /// The field that holds the token.
    pub field: Option<Box<[u8]>>,
    /// The scheme in front of it inside the field, in any case of letters.
    pub scheme: Option<Box<[u8]>>,
    /// The cookie that holds it.
    pub cookie: Option<Box<[u8]>>,
    /// The parameter of the query that holds it.
    pub parameter: Option<Box<[u8]>>,
    /// The algorithms that are accepted; empty = all that the keys are for.
    pub algorithms: Vec<Algorithm>,
    /// What is asked of claims.
    pub rules: Rules,
    /// The claim that names the user.
    pub user_claim: String,
    /// Fields that tell origins of claims, by the name of the field.
    pub fields: Vec<(Box<[u8]>, String)>,
    /// Whether origins see the token.
    pub hiding: Hiding,
    /// What becomes of requests without a token.
    pub missing: Missing,
    /// What clients are told they need a token for.
    pub realm: String,
}

/// Lets requests through that bring a good token.
#[derive(Debug)]
pub struct Jwt(Arc<Core>);

struct Core {
    options: JwtOptions,
    fixed: Arc<KeySet>,
    remote: Option<Arc<Remote>>,
    seen: PerThread<Seen>,
    challenge: Vec<u8>,
    invalid: Vec<u8>,
    meter: Arc<FilterMeter>,
}

/// Tokens that a worker has verified.
struct Seen {
    /// The keys they were verified by.
    version: u64,
    recent: Recent<Arc<Identity>>,
}

/// What a token says that others have to know.
#[derive(Debug)]
struct Identity {
    claims: Claims,
    user: Vec<u8>,
    /// By the place of the field in the options.
    fields: Vec<(usize, Vec<u8>)>,
}

const PASSED: usize = 0;
const MISSING: usize = 1;
const UNAVAILABLE: usize = 2;
const REFUSED: usize = 3;
const KEYS_FAILED: usize = 12;

/// What a request offers.
enum Offer {
    Nothing,
    Several,
    Token(Vec<u8>),
}

impl Jwt {
    /// What its meter tells apart: what came of requests, and why tokens were refused.
    pub const OUTCOMES: &'static [&'static str] = &[
        "passed",
        "missing",
        "no_keys",
        "malformed",
        "algorithm",
        "unknown_key",
        "signature",
        "expired",
        "not_yet",
        "issuer",
        "audience",
        "claim",
        "keys_failed",
    ];

    /// With these keys.
    #[must_use]
    pub fn new(options: JwtOptions, keys: Keys, meter: Arc<FilterMeter>) -> Self {
        let (fixed, remote) = match keys {
            Keys::Fixed(keys) => (Arc::new(keys), None),
            Keys::Remote(source) => (Arc::default(), Some(Arc::new(Remote::new(source)))),
        };
        let challenge = format!("Bearer realm={}", quoted(&options.realm));
        // RFC 6750, 3.1
        let invalid = format!("{challenge}, error=\"invalid_token\"").into_bytes();
        let challenge = challenge.into_bytes();
        let seen = PerThread::new();
        Self(Arc::new(Core { options, fixed, remote, seen, challenge, invalid, meter }))
    }
}

impl Core {
    /// The token inside the field, without a copy: what nearly every request brings.
    #[inline]
    fn in_field<'h>(&'h self, request: &'h RequestHead) -> Result<Option<&'h [u8]>, ()> {
        let Some(name) = &self.options.field else { return Ok(None) };
        let Some(value) = only_value(&request.fields, name)? else { return Ok(None) };
        let Some(scheme) = &self.options.scheme else { return Ok(Some(value)) };
        let Some((front, rest)) = value.split_at_checked(scheme.len()) else { return Ok(None) };
        let token = rest.trim_ascii_start();
        let fits = front.eq_ignore_ascii_case(scheme) && token.len() < rest.len();
        Ok(fits.then_some(token))
    }

    #[cold]
    fn elsewhere(&self, request: &RequestHead) -> Offer {
        let mut found: Vec<Vec<u8>> = Vec::new();
        if let Ok(Some(token)) = self.in_field(request) {
            found.push(token.to_vec());
        }
        if let Some(name) = &self.options.cookie {
            found.extend(cookies(request, name).map(<[u8]>::to_vec));
        }
        if let Some(name) = &self.options.parameter {
            let named = query_pairs(request.query())
                .filter(|(have, _)| decoded(have).eq(name.iter().copied()));
            found.extend(named.map(|(_, value)| decoded(value).collect()));
        }
        match found.len() {
            0 => Offer::Nothing,
            1 => found.pop().map_or(Offer::Nothing, Offer::Token),
            // Gateway and origin might take different ones.
            _ => Offer::Several,
        }
    }

    fn offer(&self, request: &RequestHead) -> Offer {
        match self.in_field(request) {
            Err(()) => Offer::Several,
            Ok(Some(token))
                if self.options.cookie.is_none() && self.options.parameter.is_none() =>
            {
                Offer::Token(token.to_vec())
            }
            Ok(_) => self.elsewhere(request),
        }
    }

    #[inline]
    fn version(&self) -> u64 {
        self.remote.as_ref().map_or(1, |remote| remote.version())
    }

    /// What is known of a token that was seen before.
    #[inline]
    fn recall(&self, token: &[u8], now: u64) -> Option<Arc<Identity>> {
        let version = self.version();
        self.seen.with(Seen::new, |seen| {
            if seen.version != version {
                seen.recent.clear();
                seen.version = version;
                return None;
            }
            seen.recent.get(token, now).map(Arc::clone)
        })?
    }

    fn verify(&self, token: &[u8], now: u64) -> Result<Arc<Identity>, Refusal> {
        // Before the keys: if they change meanwhile, what is remembered is forgotten too early.
        let version = self.version();
        let keys = match &self.remote {
            Some(remote) => remote.keys(),
            None => Arc::clone(&self.fixed),
        };
        let Verified { claims, until } =
            keys.verify_by(&self.options.algorithms, token, (&self.options.rules, now))?;
        let until = until.unwrap_or_else(|| now.saturating_add(ENDLESS));
        let identity = Arc::new(self.identity(claims));
        self.seen.with(Seen::new, |seen| {
            if seen.version == version && token.len() <= MAX_REMEMBERED {
                seen.recent.put(token, until, Arc::clone(&identity));
            }
        });
        Ok(identity)
    }

    fn identity(&self, claims: Claims) -> Identity {
        let user = claims.text(&self.options.user_claim).unwrap_or_default().into_bytes();
        let fields = self.options.fields.iter().enumerate();
        let fields = fields
            .filter_map(|(place, (_, claim))| Some((place, claims.text(claim)?.into_bytes())))
            .collect();
        Identity { claims, user, fields }
    }

    fn accept(&self, context: &mut RequestContext<'_>, identity: Arc<Identity>) -> Verdict {
        self.meter.count(context.gateway.worker(), PASSED);
        if self.options.hiding == Hiding::Hidden
            && let Err(verdict) = self.hide(context.request)
        {
            return verdict;
        }
        context.notes.set_user(&identity.user);
        for (place, value) in &identity.fields {
            let Some((name, _)) = self.options.fields.get(*place) else { continue };
            if context.request.fields.push(name, value).is_err() {
                return too_large();
            }
        }
        context.notes.set_claims(identity);
        Verdict::Continue
    }

    fn hide(&self, request: &mut RequestHead) -> Result<(), Verdict> {
        if let Some(name) = &self.options.field {
            strip(&mut request.fields, name);
        }
        if let Some(name) = &self.options.cookie {
            crate::cookie::hide(request, |have| have == &**name).map_err(|_| too_large())?;
        }
        if let Some(name) = &self.options.parameter {
            let own = |have: &[u8]| decoded(have).eq(name.iter().copied());
            without_parameters(request, own).map_err(|_| too_large())?;
        }
        Ok(())
    }

    fn refuse(&self, context: &RequestContext<'_>, refusal: &Refusal) -> Verdict {
        let reason = refusal.reason();
        let place = Jwt::OUTCOMES.iter().position(|name| *name == reason).unwrap_or(REFUSED);
        self.meter.count(context.gateway.worker(), place);
        challenge(&self.invalid, explained(refusal))
    }

    fn missing(&self, context: &RequestContext<'_>) -> Verdict {
        let worker = context.gateway.worker();
        match self.options.missing {
            Missing::Passed => {
                self.meter.count(worker, PASSED);
                Verdict::Continue
            }
            Missing::Refused => {
                self.meter.count(worker, MISSING);
                challenge(&self.challenge, "a token is needed")
            }
        }
    }

    /// Looks at a token that nobody remembers.
    #[cold]
    fn examine(
        self: &Arc<Self>,
        context: &RequestContext<'_>,
        token: Vec<u8>,
        now: u64,
    ) -> Decision {
        if token.len() > MAX_TOKEN {
            return Decision::Done(Err(Refusal::TooLong));
        }
        if let Some(remote) = &self.remote
            && remote.is_due(now)
            && let Some(renewing) = remote.renew(context.gateway, (Hurry::None, now))
        {
            return Decision::Wait(token, renewing);
        }
        // While somebody else fetches, what is remembered is good.
        if let Some(identity) = self.recall(&token, now) {
            return Decision::Done(Ok(identity));
        }
        let verified = self.verify(&token, now);
        if let (Some(remote), Err(Refusal::UnknownKey)) = (&self.remote, &verified)
            && remote.is_due_for_unknown(now)
            && let Some(renewing) = remote.renew(context.gateway, (Hurry::Unknown, now))
        {
            return Decision::Wait(token, renewing);
        }
        Decision::Done(verified)
    }

    fn decide(
        &self,
        context: &mut RequestContext<'_>,
        verified: Result<Arc<Identity>, Refusal>,
    ) -> Verdict {
        match verified {
            Ok(identity) => self.accept(context, identity),
            Err(Refusal::UnknownKey) if self.version() == 0 => {
                self.meter.count(context.gateway.worker(), UNAVAILABLE);
                Verdict::refuse(503, "no keys to verify tokens by")
            }
            Err(refusal) => self.refuse(context, &refusal),
        }
    }
}

enum Decision {
    Done(Result<Arc<Identity>, Refusal>),
    Wait(Vec<u8>, sluice_filter::Local<Renewal>),
}

impl Filter for Jwt {
    fn phases(&self) -> Phases {
        Phases::REQUEST_HEAD
    }

    fn secret_parameters(&self) -> Vec<Box<[u8]>> {
        self.0.options.parameter.iter().cloned().collect()
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        let core = &self.0;
        for (name, _) in &core.options.fields {
            strip(&mut context.request.fields, name);
        }
        let now = context.gateway.unix_ms() / 1000;
        // Keys that are due are fetched before a token is taken for good, also one that is remembered: the key
        // that it was signed with may be gone.
        let fresh = core.remote.as_ref().is_none_or(|remote| !remote.is_due(now));
        if fresh
            && core.options.cookie.is_none()
            && core.options.parameter.is_none()
            && let Ok(Some(token)) = core.in_field(context.request)
            && let Some(identity) = core.recall(token, now)
        {
            return core.accept(context, identity);
        }
        let token = match core.offer(context.request) {
            Offer::Nothing => return core.missing(context),
            Offer::Several => {
                let several = Refusal::Malformed("there are several tokens");
                return core.refuse(context, &several);
            }
            Offer::Token(token) => token,
        };
        if fresh && let Some(identity) = core.recall(&token, now) {
            return core.accept(context, identity);
        }
        match core.examine(context, token, now) {
            Decision::Done(verified) => core.decide(context, verified),
            Decision::Wait(token, renewing) => {
                let core = Arc::clone(core);
                Verdict::Wait(Box::pin(async move {
                    let renewal = renewing.await;
                    let resume: Resume = Box::new(move |context| {
                        if let Some(remote) = &core.remote {
                            remote.report(&renewal, context.gateway);
                        }
                        if let Renewal::Failed(_) = renewal {
                            core.meter.count(context.gateway.worker(), KEYS_FAILED);
                        }
                        let verified = core.verify(&token, now);
                        core.decide(context, verified)
                    });
                    resume
                }))
            }
        }
    }
}

impl Seen {
    fn new() -> Self {
        Self { version: 0, recent: Recent::new(REMEMBERED, MAX_REMEMBERED) }
    }
}

impl sluice_filter::Claims for Identity {
    fn claim(&self, path: &[Box<str>]) -> Option<Cow<'_, [u8]>> {
        let (first, rest) = path.split_first()?;
        let outer = self.claims.as_object().get(&**first)?;
        let value = rest.iter().try_fold(outer, |value, name| value.get(&**name))?;
        Some(match value {
            Value::String(text) => Cow::Borrowed(text.as_bytes()),
            other => Cow::Owned(other.to_string().into_bytes()),
        })
    }
}

/// What a client is told.
fn explained(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::TooLong | Refusal::Malformed(_) | Refusal::Critical => "malformed token",
        Refusal::UnknownAlgorithm | Refusal::WrongAlgorithm => {
            "algorithm of the token not accepted"
        }
        Refusal::UnknownKey => "key of the token not known",
        Refusal::Signature => "signature of the token does not fit",
        Refusal::Expired => "token has expired",
        Refusal::NotYet | Refusal::IssuedLater => "token is not valid yet",
        Refusal::Issuer => "issuer of the token not accepted",
        Refusal::Audience => "token is for another audience",
        Refusal::Missing(_) | Refusal::Claim(_) => "claims of the token do not suffice",
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Core")
            .field("options", &self.options)
            .field("keys", &self.fixed)
            .field("remote", &self.remote)
            .finish_non_exhaustive()
    }
}
