//! The filter: who is signed in goes on, others are sent to sign in.

use std::sync::Arc;

use sluice_filter::{Filter, Phases, RequestContext, ResponseContext, ResponseVerdict, Verdict};
use sluice_meter::FilterMeter;

use super::core::{Core, FIELD, Forwarding, OidcOptions, Outcome};
use super::{flow, logout, renewal};
use crate::Sealer;
use crate::identity::strip;

/// Has users sign in.
#[derive(Debug)]
pub struct Oidc(Arc<Core>);

impl Oidc {
    /// What its meter tells apart.
    pub const OUTCOMES: &'static [&'static str] = &[
        "passed",
        "renewed",
        "sent",
        "signed_in",
        "signed_out",
        "unauthenticated",
        "refused",
        "unavailable",
        "logout_page",
    ];

    /// With these options; `sealer` seals cookies.
    #[must_use]
    pub fn new(options: OidcOptions, sealer: Sealer, meter: Arc<FilterMeter>) -> Self {
        Self(Arc::new(Core::new(options, sealer, meter)))
    }
}

impl Filter for Oidc {
    fn phases(&self) -> Phases {
        Phases::REQUEST_HEAD | Phases::RESPONSE_HEAD
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        let core = &self.0;
        for (name, _) in &core.options.fields {
            strip(&mut context.request.fields, name);
        }
        if core.options.forwarding == Forwarding::Token {
            strip(&mut context.request.fields, FIELD);
        }
        let path = context.request.path();
        if path == core.options.callback_path.as_bytes() {
            return flow::come_back(core, context);
        }
        if path == core.options.logout_path.as_bytes() {
            return logout::sign_out(core, context);
        }
        let now = context.gateway.unix_ms() / 1000;
        let found = core.jar.read(context.request).and_then(|text| core.open(&text, now));
        match found {
            Some(session) if session.renew == 0 || now < session.renew => {
                core.count(context, Outcome::Passed);
                core.accept(context, &session)
            }
            Some(session) => renewal::renew(core, context, session),
            None => flow::begin_or_refuse(core, context),
        }
    }

    fn on_response_head(&self, context: &mut ResponseContext<'_>) -> ResponseVerdict {
        if let Some(lines) = context.notes.get(&self.0.lines) {
            for line in lines.split(|byte| *byte == b'\n') {
                // Without room the session is renewed once more.
                let _ = context.response.fields.push(b"set-cookie", line);
            }
        }
        ResponseVerdict::Continue
    }
}
