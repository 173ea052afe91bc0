//! Formats of the access log.

use super::record::AccessRecord;
use super::template::{Piece, TemplateError, parse_template};
use super::variable::{Style, Variable};

/// How a line of the access log looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessFormat {
    pieces: Box<[Piece]>,
    style: Style,
}

/// The Combined Log Format; nobody is authenticated, so the user is always `-`.
const COMBINED: &str = concat!(
    r#"{client.ip} - - [{time.clf}] "{request.line}" {response.status} {response.bytes} "#,
    r#""{request.header.referer}" "{request.header.user-agent}""#,
);

/// The keys of a JSON line and what they hold.
const JSON: &[(&str, &str)] = &[
    ("time", "time.iso"),
    ("client", "client.ip"),
    ("listener", "listener"),
    ("route", "route"),
    ("method", "request.method"),
    ("host", "request.host"),
    ("target", "request.target"),
    ("version", "request.version"),
    ("status", "response.status"),
    ("request_bytes", "request.bytes"),
    ("response_bytes", "response.bytes"),
    ("duration_ms", "duration.ms"),
    ("upstream", "upstream.name"),
    ("upstream_address", "upstream.address"),
    ("upstream_duration_ms", "upstream.duration.ms"),
    ("upstream_attempts", "upstream.attempts"),
    ("referer", "request.header.referer"),
    ("user_agent", "request.header.user-agent"),
    ("grpc_status", "grpc.status"),
    ("user", "auth.user"),
    ("variant", "canary.variant"),
    ("fault", "fault"),
];

impl AccessFormat {
    /// The Combined Log Format of Apache and nginx.
    #[must_use]
    #[expect(clippy::expect_used, reason = "invariant: a constant, covered by a test")]
    pub fn combined() -> Self {
        Self::template(COMBINED).expect("the format is well-formed")
    }

    /// One JSON object a line.
    #[must_use]
    #[expect(clippy::expect_used, reason = "invariant: a constant, covered by a test")]
    pub fn json() -> Self {
        let mut pieces = Vec::new();
        for (place, (key, name)) in JSON.iter().enumerate() {
            let before = if place == 0 { '{' } else { ',' };
            pieces.push(Piece::Literal(format!("{before}\"{key}\":").into_bytes().into()));
            let variable = Variable::parse(name).expect("the name is one of VARIABLES");
            pieces.push(Piece::Variable(variable));
        }
        pieces.push(Piece::Literal((*b"}").into()));
        Self { pieces: pieces.into(), style: Style::Json }
    }

    /// A line as `text` says: variables in braces ([`super::VARIABLES`]), `{{` for a brace itself.
    ///
    /// # Errors
    /// The first thing in `text` that is no variable, and which was probably meant.
    pub fn template(text: &str) -> Result<Self, TemplateError> {
        Ok(Self { pieces: parse_template(text)?.into(), style: Style::Text })
    }

    /// Appends the line for `record`, its line feed included. Whatever a client sent, it is one line
    /// and its quoted texts stay quoted.
    pub fn write(&self, record: &AccessRecord<'_>, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) => out.extend_from_slice(text),
                Piece::Variable(variable) => variable.write(record, self.style, out),
            }
        }
        out.push(b'\n');
    }
}
