//! Requests that bring a user's name and password.

use std::time::Duration;

use super::told::{
    MISSING, NamedSecrets, WithoutCredentials, parse_realm, parse_told_field, read_missing,
    read_secrets,
};
use crate::fields::Fields;
use crate::section::{Key, Kind, Preset, Section, YEAR};
use crate::upstream::Roster;

/// Users, and what becomes of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BasicAuth {
    /// Users and hashes of their passwords.
    pub users: NamedSecrets,
    /// What users are told they need a password for.
    pub realm: String,
    /// How long a password counts as right once it was.
    pub remember: Duration,
    /// Whether origins do not see it.
    pub hide: bool,
    /// What becomes of requests without one.
    pub missing: WithoutCredentials,
    /// The field that tells origins the name of the user.
    pub user_header: Option<String>,
}

pub(super) static SECTION: Section = Section {
    name: "filter.basic_auth",
    doc: "Lets requests through that bring a user's name and password (RFC 7617). Passwords are kept as \
          hashes of bcrypt or argon2id and compared on threads of their own. Users nobody knows take as \
          long as the others.",
    keys: &[
        Key {
            name: "passwords",
            kind: Kind::Pairs("hash"),
            preset: Preset::Absent("those of the file"),
            doc: "Users and hashes of their passwords, as `htpasswd -nB eva` or \
                  `argon2 SALT -id -e` writes them.",
        },
        Key {
            name: "users_file",
            kind: Kind::Text("path"),
            preset: Preset::Absent("none"),
            doc: "A file with more of them, as `htpasswd -B` writes it: lines `name:hash`.",
        },
        Key {
            name: "realm",
            kind: Kind::Text("text"),
            preset: Preset::Value("restricted"),
            doc: "What a browser tells its user that the password is for.",
        },
        Key {
            name: "remember",
            kind: Kind::Duration { min: Duration::ZERO, max: YEAR },
            preset: Preset::Value("5m"),
            doc: "How long each worker takes a password for right that it has verified, so that not every \
                  request costs a hash. It remembers it by a hash of its own. \"0s\" verifies each time.",
        },
        Key {
            name: "hide",
            kind: Kind::Flag,
            preset: Preset::Value("true"),
            doc: "`true` takes the password out before the origin gets the request.",
        },
        Key {
            name: "missing",
            kind: Kind::Word(MISSING),
            preset: Preset::Value("refuse"),
            doc: "What becomes of requests without a password: `pass` lets them go on as nobody's. A \
                  wrong one is refused in any case.",
        },
        Key {
            name: "user_header",
            kind: Kind::Text("header name"),
            preset: Preset::Absent("none"),
            doc: "The header that tells origins the name of the user. What clients send under it is \
                  taken out.",
        },
    ],
};

pub(super) fn read(fields: &Fields<'_, '_>, _: &mut Roster) -> Option<BasicAuth> {
    Some(BasicAuth {
        users: read_secrets(fields, "passwords", "users_file")?,
        realm: fields.parsed("realm", parse_realm)?,
        remember: fields.duration("remember"),
        hide: fields.flag("hide").unwrap_or(true),
        missing: read_missing(fields),
        user_header: fields.parsed("user_header", parse_told_field),
    })
}
