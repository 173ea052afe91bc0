//! The security filter: fields that tell browsers what a page may do.

use crate::fields::{Fields, Phrase};
use crate::header::parse_field_value;
use crate::section::{Key, Kind, Preset, Section};
use crate::upstream::Roster;

/// Values of the fields; `None` = the field is not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityHeaders {
    /// `Strict-Transport-Security`, over TLS alone.
    pub hsts: Option<String>,
    /// `X-Content-Type-Options`.
    pub content_type_options: Option<String>,
    /// `X-Frame-Options`.
    pub frame_options: Option<String>,
    /// `Referrer-Policy`.
    pub referrer_policy: Option<String>,
    /// `Content-Security-Policy`.
    pub content_security_policy: Option<String>,
    /// `Permissions-Policy`.
    pub permissions_policy: Option<String>,
    /// `Cross-Origin-Opener-Policy`.
    pub opener_policy: Option<String>,
    /// `Cross-Origin-Resource-Policy`.
    pub resource_policy: Option<String>,
    /// Whether fields of the origin are replaced.
    pub replace: bool,
}

pub(super) static SECTION: Section = Section {
    name: "filter.security",
    doc: "Fields that tell browsers what a page may do, where the origin sends none of its own. `\"off\"` \
          leaves one out.",
    keys: &[
        Key {
            name: "hsts",
            kind: Kind::Text("value"),
            preset: Preset::Value("max-age=31536000; includeSubDomains"),
            doc: "`Strict-Transport-Security`, over TLS alone: browsers come back by HTTPS only.",
        },
        Key {
            name: "content_type_options",
            kind: Kind::Text("value"),
            preset: Preset::Value("nosniff"),
            doc: "`X-Content-Type-Options`: browsers take the content for what it says it is.",
        },
        Key {
            name: "frame_options",
            kind: Kind::Text("value"),
            preset: Preset::Value("SAMEORIGIN"),
            doc: "`X-Frame-Options`: who may show the page in a frame, `DENY` for nobody.",
        },
        Key {
            name: "referrer_policy",
            kind: Kind::Text("value"),
            preset: Preset::Value("strict-origin-when-cross-origin"),
            doc: "`Referrer-Policy`: what other sites learn of where a visitor comes from.",
        },
        Key {
            name: "content_security_policy",
            kind: Kind::Text("value"),
            preset: Preset::Absent("not written"),
            doc: "`Content-Security-Policy`: what the page may load and run.",
        },
        Key {
            name: "permissions_policy",
            kind: Kind::Text("value"),
            preset: Preset::Absent("not written"),
            doc: "`Permissions-Policy`: which features of the browser the page may use.",
        },
        Key {
            name: "opener_policy",
            kind: Kind::Text("value"),
            preset: Preset::Value("same-origin"),
            doc: "`Cross-Origin-Opener-Policy`: whether windows of other origins reach the page.",
        },
        Key {
            name: "resource_policy",
            kind: Kind::Text("value"),
            preset: Preset::Absent("not written"),
            doc: "`Cross-Origin-Resource-Policy`: whether pages of other origins may embed it.",
        },
        Key {
            name: "replace",
            kind: Kind::Flag,
            preset: Preset::Value("false"),
            doc: "Whether fields that the origin sends are replaced.",
        },
    ],
};

pub(super) fn read(fields: &Fields<'_, '_>, _: &mut Roster) -> Option<SecurityHeaders> {
    let value = |key: &str| {
        let written = fields.text(key).map(|Phrase { text, span }| {
            (text, fields.report.accept(span, parse_field_value(text)))
        });
        match written {
            Some(("off", _)) => None,
            Some((_, value)) => value.filter(|value| !value.is_empty()),
            None => match SECTION.key(key).map(|key| &key.preset) {
                Some(Preset::Value(preset)) => Some((*preset).to_owned()),
                _ => None,
            },
        }
    };
    Some(SecurityHeaders {
        hsts: value("hsts"),
        content_type_options: value("content_type_options"),
        frame_options: value("frame_options"),
        referrer_policy: value("referrer_policy"),
        content_security_policy: value("content_security_policy"),
        permissions_policy: value("permissions_policy"),
        opener_policy: value("opener_policy"),
        resource_policy: value("resource_policy"),
        replace: fields.flag("replace").unwrap_or_default(),
    })
}
