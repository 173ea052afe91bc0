//! Lets requests through that are signed.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use sluice_filter::{Broken, Filter, Phases, RequestContext, Transform, Verdict};
use sluice_message::{Fields, RequestHead};
use sluice_meter::FilterMeter;

use super::{
    Authorization, ContentDigest, DigestCheck, Hash, Replays, Sight, Signed, SignedQuery,
    canonical, parse_date,
};
use crate::Secret;
use crate::identity::{Hiding, Missing, accept, challenge, only_value, quoted, strip};

const FIELD: &[u8] = b"authorization";
const DIGEST: &[u8] = b"content-digest";

/// What is asked of signatures, and what becomes of requests.
#[derive(Clone, Debug)]
pub struct HmacAuthOptions {
    /// The hashes that are accepted.
    pub hashes: Vec<Hash>,
    /// The field with the moment of signing.
    pub date_field: Box<str>,
    /// How far that moment may be from now, in seconds.
    pub skew: u64,
    /// Fields that have to be signed, in lower case.
    pub signed: Vec<String>,
    /// How the query is signed.
    pub query: SignedQuery,
    /// Whether content has to be signed, by its digest.
    pub body: BodyDigest,
    /// What clients are told they need a signature for.
    pub realm: String,
    /// Whether origins see the signature.
    pub hiding: Hiding,
    /// What becomes of requests without a signature.
    pub missing: Missing,
    /// The field that tells origins the name of the key.
    pub user_field: Option<Box<[u8]>>,
}

/// Whether content has to be signed, by its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyDigest {
    /// It may be; a digest that is signed is checked.
    Optional,
    /// Content has to have one.
    Required,
}

/// Lets requests through that are signed.
pub struct HmacAuth {
    options: HmacAuthOptions,
    keys: HashMap<String, Secret>,
    replays: Option<Replays>,
    challenge: Vec<u8>,
    meter: Arc<FilterMeter>,
}

/// Why a request is refused: the place of its outcome, and what its client is told.
type Objection = (usize, &'static str);

const PASSED: usize = 0;
const MISSING: usize = 1;
const MALFORMED: usize = 2;
const WRONG: usize = 3;
const SKEWED: usize = 4;
const UNSIGNED: usize = 5;
const REPLAYED: usize = 6;
const FULL: usize = 7;

impl HmacAuth {
    /// What its meter tells apart.
    pub const OUTCOMES: &'static [&'static str] =
        &["passed", "missing", "malformed", "wrong", "skewed", "unsigned", "replayed", "full"];

    /// With these keys by their names; `replays` remembers signatures, so that each is good once.
    #[must_use]
    pub fn new(
        options: HmacAuthOptions,
        keys: HashMap<String, Secret>,
        replays: Option<Replays>,
        meter: Arc<FilterMeter>,
    ) -> Self {
        let fields = options.signed.join(" ");
        let challenge = format!("HMAC realm={}, headers=\"{fields}\"", quoted(&options.realm));
        Self { options, keys, replays, challenge: challenge.into_bytes(), meter }
    }

    /// The name of the key that the request is signed with; `None` if it is not signed.
    fn judge(&self, request: &RequestHead, now: u64) -> Result<Option<String>, Objection> {
        let value = only_value(&request.fields, FIELD)
            .map_err(|()| (MALFORMED, "credentials given twice"))?;
        let Some(value) = value else {
            return match self.options.missing {
                Missing::Passed => Ok(None),
                Missing::Refused => Err((MISSING, "a signature is needed")),
            };
        };
        let offered = Authorization::parse(value).ok_or((MALFORMED, "malformed signature"))?;
        if !self.options.hashes.contains(&offered.hash) {
            return Err((MALFORMED, "hash of the signature not accepted"));
        }
        let date = only_value(&request.fields, self.options.date_field.as_bytes())
            .ok()
            .flatten()
            .ok_or((MALFORMED, "no moment of signing"))?;
        let moment = parse_date(date).ok_or((MALFORMED, "malformed moment of signing"))?;
        self.check_fields(request, &offered)?;
        let values =
            values(request, &offered.fields).ok_or((UNSIGNED, "a signed field is missing"))?;
        let fields: Vec<(&str, &[u8])> = offered
            .fields
            .iter()
            .zip(&values)
            .map(|(name, value)| (name.as_str(), value.as_slice()))
            .collect();
        let query = self.options.query.of(request.query());
        let query = query.ok_or((MALFORMED, "parameters of one name whose order is not signed"))?;
        let text = canonical(&Signed {
            method: request.method_text(),
            path: path(request),
            query: &query,
            key: &offered.key,
            date,
            fields: &fields,
        });
        // Whether a key exists does not show in the time.
        let secret = self.keys.get(&offered.key);
        let fits = offered.fits(secret.map_or(b"nobody's", Secret::expose), &text);
        if !fits || secret.is_none() {
            return Err((WRONG, "wrong signature"));
        }
        self.check_moment(moment, now)?;
        self.check_first(&offered, moment, now)?;
        Ok(Some(offered.key))
    }

    /// Everything that has to be signed is.
    fn check_fields(
        &self,
        request: &RequestHead,
        offered: &Authorization,
    ) -> Result<(), Objection> {
        let signs = |name: &str| offered.fields.iter().any(|signed| signed == name);
        if !self.options.signed.iter().all(|name| signs(name)) {
            return Err((UNSIGNED, "a field is not signed"));
        }
        let digested = signs("content-digest");
        if self.options.body == BodyDigest::Required && request.has_content() && !digested {
            return Err((UNSIGNED, "content is not signed"));
        }
        if digested {
            let digest = digest(&request.fields).ok_or((MALFORMED, "malformed digest"))?;
            if !request.has_content() && !digest.check().fits() {
                return Err((WRONG, "content has another digest"));
            }
        }
        Ok(())
    }

    fn check_moment(&self, moment: u64, now: u64) -> Result<(), Objection> {
        if moment.abs_diff(now) > self.options.skew {
            return Err((SKEWED, "moment of signing too far from now"));
        }
        Ok(())
    }

    /// Last of all: only what is good is remembered.
    fn check_first(&self, offered: &Authorization, moment: u64, now: u64) -> Result<(), Objection> {
        let Some(replays) = &self.replays else { return Ok(()) };
        // From then on the moment is too far away anyway.
        let until = moment.saturating_add(self.options.skew);
        match replays.note(&offered.signature, until, now) {
            Sight::First => Ok(()),
            Sight::Again => Err((REPLAYED, "signature used before")),
            Sight::Full => Err((FULL, "too many signatures to remember")),
        }
    }
}

impl Filter for HmacAuth {
    fn phases(&self) -> Phases {
        Phases::REQUEST_HEAD | Phases::REQUEST_BODY
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        if let Some(name) = &self.options.user_field {
            strip(&mut context.request.fields, name);
        }
        let worker = context.gateway.worker();
        let judged = self.judge(context.request, context.gateway.unix_ms() / 1000);
        let outcome = judged.as_ref().map_or_else(|(outcome, _)| *outcome, |_| PASSED);
        self.meter.count(worker, outcome);
        match judged {
            Ok(None) => Verdict::Continue,
            Ok(Some(key)) => {
                if self.options.hiding == Hiding::Hidden {
                    strip(&mut context.request.fields, FIELD);
                }
                // What an origin takes for a signed header has to be signed.
                let fields = &mut context.request.fields;
                fields.remove_lookalikes(self.options.date_field.as_bytes());
                for name in &self.options.signed {
                    fields.remove_lookalikes(name.as_bytes());
                }
                accept(context, key.as_bytes(), self.options.user_field.as_deref())
            }
            Err((FULL, reason)) => Verdict::refuse(503, reason),
            Err((_, reason)) => challenge(&self.challenge, reason),
        }
    }

    /// A digest is checked whether it was signed or not: a wrong one is wrong anyway.
    fn request_body(&self, context: &mut RequestContext<'_>) -> Option<Box<dyn Transform>> {
        let check = digest(&context.request.fields)?.check();
        Some(Box::new(Checked(Some(check))))
    }
}

/// The digest that a request states, once.
fn digest(fields: &Fields) -> Option<ContentDigest> {
    ContentDigest::parse(only_value(fields, DIGEST).ok()??)
}

/// The path as it was sent.
fn path(request: &RequestHead) -> &[u8] {
    request.raw_target().split(|byte| *byte == b'?').next().unwrap_or_default()
}

/// The values of signed fields, several lines of one joined; `None` if one is missing.
fn values(request: &RequestHead, names: &[String]) -> Option<Vec<Vec<u8>>> {
    let value = |name: &String| {
        // In HTTP/2 it is no field.
        if name == "host" {
            return Some(request.authority().to_vec());
        }
        let lines: Vec<&[u8]> = request.fields.values_of(name.as_bytes()).collect();
        (!lines.is_empty()).then(|| lines.join(&b", "[..]))
    };
    names.iter().map(value).collect()
}

/// Content that passes while its digest is made.
#[derive(Debug)]
struct Checked(Option<DigestCheck>);

impl Transform for Checked {
    fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        if let Some(check) = &mut self.0 {
            check.update(piece);
        }
        out.extend_from_slice(piece);
        Ok(())
    }

    /// The origin never gets the end of content that is not what was signed.
    fn end(&mut self, _: &mut Option<Fields>, _: &mut Vec<u8>) -> Result<(), Broken> {
        if self.0.take().is_none_or(DigestCheck::fits) { Ok(()) } else { Err(Broken) }
    }
}

impl fmt::Debug for HmacAuth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("HmacAuth")
            .field("options", &self.options)
            .field("keys", &self.keys.len())
            .finish_non_exhaustive()
    }
}
