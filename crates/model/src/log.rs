//! What is written about requests.

use std::path::PathBuf;

use crate::fields::Fields;
use crate::nearest::suggestion;
use crate::problem::Flaw;
use crate::respond::parse_path;
use crate::section::{Key, Kind, Preset, Section};

/// What is written about requests, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// The form of a line.
    pub access: AccessLog,
    /// The file; `None` = standard output.
    pub file: Option<PathBuf>,
}

/// The form of an access log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessLog {
    /// No line.
    Off,
    /// The combined log format known from other servers.
    Combined,
    /// One JSON object.
    Json,
    /// A text with names in braces.
    Template(String),
}

const FORMS: [&str; 3] = ["off", "combined", "json"];

pub(crate) static LOG: Section = Section {
    name: "log",
    doc: "What is written about requests, and where.",
    keys: &[
        Key {
            name: "access",
            kind: Kind::Text("\"off\", \"combined\", \"json\", or a template"),
            preset: Preset::Value("off"),
            doc: "One line per request: `off`, `combined`, `json`, or a template with names in \
                  braces.",
        },
        Key {
            name: "file",
            kind: Kind::Text("path"),
            preset: Preset::Absent("standard output"),
            doc: "The file the lines are written to.",
        },
    ],
};

pub(crate) fn read_log(fields: &Fields<'_, '_>) -> Log {
    let access = fields.parsed("access", parse_access).unwrap_or(AccessLog::Off);
    let file = fields.parsed("file", parse_path);
    if let (AccessLog::Off, Some(it)) = (&access, fields.text("file")) {
        let flaw = Flaw::new("nothing is written to this file: the access log is off")
            .with_help("add access = \"combined\"");
        fields.report.warning(it.span, flaw);
    }
    Log { access, file }
}

fn parse_access(text: &str) -> Result<AccessLog, Flaw> {
    match text {
        "off" => Ok(AccessLog::Off),
        "combined" => Ok(AccessLog::Combined),
        "json" => Ok(AccessLog::Json),
        // A template without a name in braces would write the same line for every request.
        text if !text.contains('{') => {
            let mut flaw = Flaw::new(format!("\"{}\" is not a log format", text.escape_debug()));
            flaw.help = suggestion(text, FORMS, "formats")
                .map(|help| format!("{help} (a template has names in braces)"));
            Err(flaw)
        }
        text if text.contains(['\n', '\r', '\0']) => Err(Flaw::new("a log template is one line")),
        text => Ok(AccessLog::Template(text.to_owned())),
    }
}
