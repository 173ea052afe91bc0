//! The security filter: fields that tell browsers what a page may do.

use std::sync::Arc;

use sluice_filter::{Filter, Level, Phases, ResponseContext, ResponseVerdict};
use sluice_message::SpaceExhausted;
use sluice_meter::FilterMeter;

/// A field of answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityField {
    /// In lower case.
    pub name: &'static str,
    /// A valid value.
    pub value: Box<str>,
    /// On which connections it is sent.
    pub on: Connections,
}

/// Connections a field is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// All.
    All,
    /// Encrypted ones (RFC 6797, 7.2: never over plain HTTP).
    Encrypted,
}

/// What happens to fields that the origin has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precedence {
    /// They stay.
    Origin,
    /// They are replaced.
    Gateway,
}

/// See the module.
#[derive(Debug)]
pub struct SecurityHeaders {
    fields: Box<[SecurityField]>,
    precedence: Precedence,
    meter: Arc<FilterMeter>,
}

impl SecurityHeaders {
    /// What its meter tells apart.
    pub const OUTCOMES: &'static [&'static str] = &["written", "failed"];

    /// A filter that writes these.
    #[must_use]
    pub fn new(
        fields: Vec<SecurityField>,
        precedence: Precedence,
        meter: Arc<FilterMeter>,
    ) -> Self {
        Self { fields: fields.into(), precedence, meter }
    }

    fn write(&self, context: &mut ResponseContext<'_>) -> Result<(), SpaceExhausted> {
        let encrypted = context.gateway.scheme() == "https";
        for SecurityField { name, value, on } in &self.fields {
            if *on == Connections::Encrypted && !encrypted {
                continue;
            }
            let fields = &mut context.response.fields;
            let is_name = |have: &[u8]| {
                have.len() == name.len() && have.eq_ignore_ascii_case(name.as_bytes())
            };
            match self.precedence {
                Precedence::Origin if fields.iter().any(|(have, _)| is_name(have)) => continue,
                Precedence::Origin => {}
                Precedence::Gateway => fields.remove_named(is_name),
            }
            fields.push(name.as_bytes(), value.as_bytes())?;
        }
        Ok(())
    }
}

impl Filter for SecurityHeaders {
    fn phases(&self) -> Phases {
        Phases::RESPONSE_HEAD
    }

    fn on_response_head(&self, context: &mut ResponseContext<'_>) -> ResponseVerdict {
        let written = self.write(context);
        if written.is_err() {
            let line = format_args!("no room for security fields in an answer");
            context.gateway.log(Level::Warn, line);
        }
        self.meter.count(context.gateway.worker(), usize::from(written.is_err()));
        ResponseVerdict::Continue
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::Scene;

    /// Scheme, what counts, what the origin sends, what the client gets.
    type Row<'r> = (&'static str, Precedence, &'r [(&'r str, &'r str)], &'r [&'r str]);

    #[test]
    fn fields_are_written_where_they_belong() {
        let field = |name, value: &str, on| SecurityField { name, value: value.into(), on };
        let fields = vec![
            field("strict-transport-security", "max-age=1", Connections::Encrypted),
            field("x-frame-options", "DENY", Connections::All),
        ];
        let given = [("X-Frame-Options", "SAMEORIGIN")];
        let rows: [Row<'_>; 4] = [
            ("http", Precedence::Origin, &[], &["x-frame-options: DENY"]),
            (
                "https",
                Precedence::Origin,
                &[],
                &["strict-transport-security: max-age=1", "x-frame-options: DENY"],
            ),
            ("http", Precedence::Origin, &given, &["X-Frame-Options: SAMEORIGIN"]),
            ("http", Precedence::Gateway, &given, &["x-frame-options: DENY"]),
        ];
        for (scheme, precedence, given, expected) in rows {
            let meter = Arc::new(FilterMeter::new(1, SecurityHeaders::OUTCOMES));
            let filter = SecurityHeaders::new(fields.clone(), precedence, meter);
            let mut scene = Scene::new("GET", "/", &[]).answered(200, given);
            scene.lent.scheme = scheme;
            scene.answer(&filter);
            assert_eq!(scene.response_lines(), expected, "{scheme} {precedence:?}");
        }
    }
}
