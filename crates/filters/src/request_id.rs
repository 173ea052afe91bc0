//! The request_id filter: gives each request an identifier that origin, client and log share.

use std::sync::Arc;

use sluice_filter::{
    Filter, Phases, REQUEST_ID, RequestContext, ResponseContext, ResponseVerdict, Verdict,
};
use sluice_message::{Fields, SpaceExhausted, may_be_read_as};
use sluice_meter::FilterMeter;

use crate::uuid::uuid_v7;

/// Whose identifiers are taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// Nobody's.
    Nobody,
    /// Those of peers that are trusted to say who the client is.
    Trusted,
    /// Everybody's.
    Everybody,
}

/// Whether the client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// In the same field of the answer.
    Client,
    /// Nobody but the origin is.
    OriginAlone,
}

/// See the module.
#[derive(Debug)]
pub struct RequestId {
    header: Box<[u8]>,
    accepted: Accepted,
    told: Told,
    note: Arc<str>,
    meter: Arc<FilterMeter>,
}

/// Places among [`RequestId::OUTCOMES`].
const MADE: usize = 0;
const TAKEN: usize = 1;
const REPLACED: usize = 2;

/// Longer ones are not taken over: they go into logs.
const LONGEST: usize = 128;

impl RequestId {
    /// What its meter tells apart.
    pub const OUTCOMES: &'static [&'static str] = &["made", "taken", "replaced"];

    /// Identifiers in the field of this name, which is valid.
    #[must_use]
    pub fn new(header: &str, accepted: Accepted, told: Told, meter: Arc<FilterMeter>) -> Self {
        let header = header.as_bytes().into();
        Self { header, accepted, told, note: Arc::from(REQUEST_ID), meter }
    }

    /// Writes the identifier that the note holds.
    fn write(&self, fields: &mut Fields, id: &[u8]) -> Result<(), SpaceExhausted> {
        fields.remove_read_as(&self.header);
        fields.push(&self.header, id)
    }
}

impl Filter for RequestId {
    fn phases(&self) -> Phases {
        match self.told {
            Told::Client => Phases::REQUEST_HEAD | Phases::RESPONSE_HEAD,
            Told::OriginAlone => Phases::REQUEST_HEAD,
        }
    }

    fn on_request_head(&self, context: &mut RequestContext<'_>) -> Verdict {
        let wanted = match self.accepted {
            Accepted::Nobody => false,
            Accepted::Trusted => context.gateway.is_peer_trusted(),
            Accepted::Everybody => true,
        };
        let worker = context.gateway.worker();
        let brought = {
            let fields = context.request.fields.iter();
            let mut lines = fields.filter(|(name, _)| may_be_read_as(name, &self.header));
            let first = lines.next();
            // Two are one too many: others might see the second.
            if let (Some((name, id)), None, true) = (first, lines.next(), wanted)
                && name.eq_ignore_ascii_case(&self.header)
                && is_valid(id)
            {
                context.notes.set(&self.note, id);
                self.meter.count(worker, TAKEN);
                return Verdict::Continue;
            }
            first.is_some()
        };
        self.meter.count(worker, if brought { REPLACED } else { MADE });
        let random = [context.gateway.random(), context.gateway.random()];
        let id = uuid_v7(context.gateway.unix_ms(), random);
        context.notes.set(&self.note, &id);
        match self.write(&mut context.request.fields, &id) {
            Ok(()) => Verdict::Continue,
            Err(SpaceExhausted) => Verdict::refuse(431, "no room for a request's identifier"),
        }
    }

    fn on_response_head(&self, context: &mut ResponseContext<'_>) -> ResponseVerdict {
        if let Some(id) = context.notes.get(REQUEST_ID) {
            // An answer as full as that goes without.
            let _ = self.write(&mut context.response.fields, id);
        }
        ResponseVerdict::Continue
    }
}

/// What an identifier may look like that others have made: nothing that means something in logs or markup.
fn is_valid(id: &[u8]) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:+/=@".contains(byte);
    (1..=LONGEST).contains(&id.len()) && id.iter().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::Scene;

    const MADE_ID: &str = "x-request-id: 01a20189-2c95-7001-8000-000000000002";

    fn filter(accepted: Accepted, told: Told) -> RequestId {
        let meter = Arc::new(FilterMeter::new(1, RequestId::OUTCOMES));
        RequestId::new("x-request-id", accepted, told, meter)
    }

    #[test]
    fn identifiers_are_made_or_taken_over() {
        let (long, longest) = ("a".repeat(129), "a".repeat(128));
        let rows: [(Accepted, bool, &[&str], bool); 12] = [
            (Accepted::Nobody, true, &[], false),
            (Accepted::Nobody, true, &["abc"], false),
            (Accepted::Trusted, false, &["abc"], false),
            (Accepted::Trusted, true, &["abc"], true),
            (Accepted::Everybody, false, &["abc"], true),
            (Accepted::Everybody, false, &["abc", "def"], false),
            (Accepted::Everybody, false, &[""], false),
            (Accepted::Everybody, false, &["a b"], false),
            (Accepted::Everybody, false, &["<script>"], false),
            (Accepted::Everybody, false, &["caf\u{e9}"], false),
            (Accepted::Everybody, false, &[&long], false),
            (Accepted::Everybody, false, &[&longest], true),
        ];
        for (accepted, trusted, brought, taken) in rows {
            let lines: Vec<_> = brought.iter().map(|id| ("X-Request-Id", *id)).collect();
            let mut scene = Scene::new("GET", "/", &lines);
            scene.lent.trusted = trusted;
            assert!(scene.ask(&filter(accepted, Told::Client)).is_none());
            let expected = match taken {
                true => format!("X-Request-Id: {}", brought[0]),
                false => MADE_ID.to_owned(),
            };
            assert_eq!(scene.request_lines().join("\n"), expected, "{accepted:?} {brought:?}");
            let noted = String::from_utf8(scene.notes.get(REQUEST_ID).unwrap().to_vec()).unwrap();
            assert!(expected.ends_with(&format!(": {noted}")));
            let mut scene = scene.answered(200, &[("x-request-id", "origin's")]);
            scene.answer(&filter(accepted, Told::Client));
            assert_eq!(scene.response_lines(), [format!("x-request-id: {noted}")]);
        }
    }

    #[test]
    fn answers_before_the_filter_have_none() {
        let mut scene = Scene::new("GET", "/", &[]).answered(400, &[]);
        scene.answer(&filter(Accepted::Nobody, Told::Client));
        assert!(scene.response_lines().is_empty());
        assert_eq!(filter(Accepted::Nobody, Told::OriginAlone).phases(), Phases::REQUEST_HEAD);
    }
}
