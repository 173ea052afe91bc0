//! Lets requests through that bring a user's name and password.

use std::sync::Arc;

use sluice_filter::{Filter, Phases, RequestContext, Resume, Verdict, compute};
use sluice_meter::FilterMeter;

use super::{Credentials, Fingerprints, Users};
use crate::Recent;
use crate::identity::{Hiding, Missing, accept, challenge, only_value, quoted, strip};
use crate::per_thread::PerThread;

const FIELD: &[u8] = b"authorization";
/// Credentials that each worker remembers.
const REMEMBERED: usize = 1024;

/// What becomes of requests.
#[derive(Clone, Debug)]
pub struct BasicAuthOptions {
    /// What users are told they need a password for.
    pub realm: String,
    /// Whether origins see the password.
    pub hiding: Hiding,
    /// What becomes of requests without credentials.
    pub missing: Missing,
    /// The field that tells origins the name of the user.
    pub user_field: Option<Box<[u8]>>,
    /// How long credentials count as right once they were; in seconds, 0 = for one request.
    pub remember: u64,
}

/// Lets requests through that bring a user's name and password.
#[derive(Debug)]
pub struct BasicAuth(Arc<Core>);

#[derive(Debug)]
struct Core {
    options: BasicAuthOptions,
    users: Arc<Users>,
    fingerprints: Fingerprints,
    remembered: PerThread<Recent<()>>,
    challenge: Vec<u8>,
    meter: Arc<FilterMeter>,
}

const PASSED: usize = 0;
const REMEMBERED_PASSED: usize = 1;
const MISSING: usize = 2;
const WRONG: usize = 3;
const MALFORMED: usize = 4;
const BUSY: usize = 5;

impl BasicAuth {
    /// What its meter tells apart.
    pub const OUTCOMES: &'static [&'static str] =
        &["passed", "remembered", "missing", "wrong", "malformed", "busy"];

    /// With these users; `None` if the system has no random bytes.
    #[must_use]
    pub fn new(options: BasicAuthOptions, users: Users, meter: Arc<FilterMeter>) -> Option<Self> {
        let realm = quoted(&options.realm);
        let challenge = format!("Basic realm={realm}, charset=\"UTF-8\"").into_bytes();
        Some(Self(Arc::new(Core {
            options,
            users: Arc::new(users),
            fingerprints: Fingerprints::new()?,
            remembered: PerThread::new(),
            challenge,
            meter,
        })))
    }
}

impl Core {
    fn remembers(&self, fingerprint: &[u8], now: u64) -> bool {
        self.options.remember > 0
            && self
                .remembered
                .with(memory, |recent| recent.get(fingerprint, now).is_some())
                .unwrap_or(false)
    }

    fn remember(&self, fingerprint: &[u8], now: u64) {
        if self.options.remember > 0 {
            let until = now.saturating_add(self.options.remember);
            self.remembered.with(memory, |recent| recent.put(fingerprint, until, ()));
        }
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

    fn let_through(&self, context: &mut RequestContext<'_>, user: &str, outcome: usize) -> Verdict {
        self.meter.count(context.gateway.worker(), outcome);
        if self.options.hiding == Hiding::Hidden {
            strip(&mut context.request.fields, FIELD);
        }
        accept(context, user.as_bytes(), self.options.user_field.as_deref())
    }
}

fn memory() -> Recent<()> {
    Recent::new(REMEMBERED, 32)
}

impl Filter for BasicAuth {
    fn phases(&self) -> Phases {
        Phases::REQUEST_HEAD
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        let core = &self.0;
        if let Some(name) = &core.options.user_field {
            strip(&mut context.request.fields, name);
        }
        let Ok(value) = only_value(&context.request.fields, FIELD) else {
            return core.refuse(context, MALFORMED, "credentials given twice");
        };
        let offered = match (value, core.options.missing) {
            (None, Missing::Passed) => {
                core.meter.count(context.gateway.worker(), PASSED);
                return Verdict::Continue;
            }
            (None, Missing::Refused) => {
                return core.refuse(context, MISSING, "a password is needed");
            }
            (Some(value), _) => Credentials::parse(value),
        };
        let Some(Credentials { user, password }) = offered else {
            return core.refuse(context, MALFORMED, "malformed credentials");
        };
        let now = context.gateway.unix_ms() / 1000;
        let fingerprint = core.fingerprints.of(&user, password.expose());
        if core.remembers(fingerprint.as_ref(), now) {
            return core.let_through(context, &user, REMEMBERED_PASSED);
        }
        let (users, name) = (Arc::clone(&core.users), user.clone());
        let verified = compute(context.gateway, move || users.verify(&name, password.expose()));
        let core = Arc::clone(core);
        Verdict::Wait(Box::pin(async move {
            let verified = verified.await;
            let resume: Resume = Box::new(move |context| match verified {
                Some(true) => {
                    core.remember(fingerprint.as_ref(), now);
                    core.let_through(context, &user, PASSED)
                }
                Some(false) => core.refuse(context, WRONG, "wrong user or password"),
                None => {
                    core.meter.count(context.gateway.worker(), BUSY);
                    Verdict::refuse(503, "too many passwords are being checked")
                }
            });
            resume
        }))
    }
}
