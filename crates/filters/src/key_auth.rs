//! Lets requests through that bring a key.

mod ring;

pub use ring::{KeyRing, KeyRingFlaw};

use std::sync::Arc;

use sluice_filter::{Filter, Phases, RequestContext, Verdict};
use sluice_message::RequestHead;
use sluice_message::pair::{decoded, query_pairs};
use sluice_meter::FilterMeter;

use crate::identity::{Hiding, Missing, accept, challenge, only_value, strip, too_large};
use crate::target::without_parameters;

/// Where keys are looked for, and what becomes of requests.
#[derive(Clone, Debug)]
pub struct KeyAuthOptions {
    /// The field that holds the key.
    pub field: Option<Box<[u8]>>,
    /// The scheme in front of the key inside the field, such as `Bearer`.
    pub scheme: Option<Box<[u8]>>,
    /// The parameter of the query that holds it.
    pub parameter: Option<Box<[u8]>>,
    /// Whether origins see the key.
    pub hiding: Hiding,
    /// What becomes of requests without a key.
    pub missing: Missing,
    /// The field that tells origins the name of the key.
    pub user_field: Option<Box<[u8]>>,
}

/// Lets requests through that bring a key.
#[derive(Debug)]
pub struct KeyAuth {
    options: KeyAuthOptions,
    keys: KeyRing,
    challenge: Vec<u8>,
    meter: Arc<FilterMeter>,
}

const PASSED: usize = 0;
const MISSING: usize = 1;
const WRONG: usize = 2;
const MALFORMED: usize = 3;

/// More than one key, of which gateway and origin may take different ones.
struct Several;

impl KeyAuth {
    /// What its meter tells apart.
    pub const OUTCOMES: &'static [&'static str] = &["passed", "missing", "wrong", "malformed"];

    /// With these keys.
    #[must_use]
    pub fn new(options: KeyAuthOptions, keys: KeyRing, meter: Arc<FilterMeter>) -> Self {
        let challenge = options.scheme.as_deref().unwrap_or(b"ApiKey").to_vec();
        Self { options, keys, challenge, meter }
    }

    fn find(&self, request: &RequestHead) -> Result<Option<Vec<u8>>, Several> {
        let mut found = None;
        if let Some(name) = &self.options.field {
            let value = only_value(&request.fields, name).map_err(|()| Several)?;
            found = value.and_then(|value| self.key_in(value)).map(<[u8]>::to_vec);
        }
        if let Some(name) = &self.options.parameter {
            let same = |(have, _): &(&[u8], &[u8])| decoded(have).eq(name.iter().copied());
            let mut values = query_pairs(request.query()).filter(same);
            if let Some((_, value)) = values.next() {
                if values.next().is_some() || found.is_some() {
                    return Err(Several);
                }
                found = Some(decoded(value).collect());
            }
        }
        Ok(found)
    }

    /// The key inside the field's value.
    fn key_in<'v>(&self, value: &'v [u8]) -> Option<&'v [u8]> {
        let Some(scheme) = &self.options.scheme else { return Some(value) };
        let (front, rest) = value.split_at_checked(scheme.len())?;
        let key = rest.trim_ascii_start();
        (front.eq_ignore_ascii_case(scheme) && key.len() < rest.len()).then_some(key)
    }

    fn hide(&self, request: &mut RequestHead) -> Result<(), Verdict> {
        if let Some(name) = &self.options.field {
            strip(&mut request.fields, name);
        }
        if let Some(name) = &self.options.parameter {
            let own = |have: &[u8]| decoded(have).eq(name.iter().copied());
            without_parameters(request, own).map_err(|_| too_large())?;
        }
        Ok(())
    }

    fn refuse(
        &self,
        context: &RequestContext<'_>,
        outcome: usize,
        reason: &'static str,
    ) -> Verdict {
        self.meter.count(context.gateway.worker(), outcome);
        challenge(&self.challenge, reason)
    }
}

impl Filter for KeyAuth {
    fn phases(&self) -> Phases {
        Phases::REQUEST_HEAD
    }

    fn secret_parameters(&self) -> Vec<Box<[u8]>> {
        self.options.parameter.iter().cloned().collect()
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        if let Some(name) = &self.options.user_field {
            strip(&mut context.request.fields, name);
        }
        let key = match self.find(context.request) {
            Ok(key) => key,
            Err(Several) => return self.refuse(context, MALFORMED, "more than one key"),
        };
        let user = match &key {
            None if self.options.missing == Missing::Passed => None,
            None => return self.refuse(context, MISSING, "a key is needed"),
            Some(key) => match self.keys.owner(key) {
                Some(user) => Some(user),
                None => return self.refuse(context, WRONG, "wrong key"),
            },
        };
        self.meter.count(context.gateway.worker(), PASSED);
        if self.options.hiding == Hiding::Hidden
            && let Err(verdict) = self.hide(context.request)
        {
            return verdict;
        }
        match user {
            Some(user) => accept(context, user.as_bytes(), self.options.user_field.as_deref()),
            None => Verdict::Continue,
        }
    }
}
