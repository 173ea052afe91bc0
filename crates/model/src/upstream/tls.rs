//! Encrypted connections to servers.

use std::path::PathBuf;

use crate::address::ServerAddress;
use crate::fields::Fields;
use crate::listener::{TlsTerms, read_terms};
use crate::problem::Flaw;
use crate::section::{Key, Kind, Preset, Section};

use super::server::{Scheme, Server};

/// How connections to the servers of an upstream are encrypted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpstreamTls {
    /// The name the servers' certificates have to be for; `None` = the host of each server's address.
    pub server_name: Option<String>,
    /// Whether the servers' certificates are looked at.
    pub verify: Verify,
    /// A file with the issuers that are believed; `None` = those the system trusts.
    pub ca: Option<PathBuf>,
    /// The files of the certificate servers are shown, and of its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// What may be agreed upon.
    pub terms: TlsTerms,
}

/// Whether the servers' certificates are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Issuer, time and name have to be right.
    #[default]
    Full,
    /// Anybody can be there.
    None,
}

pub(super) static TLS: Section = Section {
    name: "upstream.tls",
    doc: "Encrypts the connections to the servers of an upstream. `https://` in front of its servers \
          does so with the defaults; so does an empty table.",
    keys: &[
        Key {
            name: "server_name",
            kind: Kind::Text("host name"),
            preset: Preset::Absent("the host in the address of each server"),
            doc: "The name servers are asked for (SNI), and that their certificates have to be for. \
                  Needed for SRV records and unix sockets.",
        },
        Key {
            name: "ca",
            kind: Kind::Text("path"),
            preset: Preset::Absent("those the system trusts"),
            doc: "The certificates of the issuers that are believed, in PEM.",
        },
        Key {
            name: "verify",
            kind: Kind::Word(&["full", "none"]),
            preset: Preset::Value("full"),
            doc: "`none` believes any certificate: the connection is encrypted, but nobody knows to \
                  whom. For tests.",
        },
        Key {
            name: "cert",
            kind: Kind::Text("path"),
            preset: Preset::Absent("none"),
            doc: "The certificate to show servers that ask for one, in PEM, and behind it those of \
                  its issuers.",
        },
        Key {
            name: "key",
            kind: Kind::Text("path"),
            preset: Preset::Absent("the file of `cert`"),
            doc: "The private key of `cert`, in PEM.",
        },
        Key {
            name: "versions",
            kind: Kind::Texts("version"),
            preset: Preset::Absent("1.2 and 1.3"),
            doc: "Versions of TLS: `\"1.2\"`, `\"1.3\"`.",
        },
        Key {
            name: "suites",
            kind: Kind::Texts("cipher suite"),
            preset: Preset::Absent("all there are; each of them is safe"),
            doc: "Cipher suites by their IANA names.",
        },
        Key {
            name: "groups",
            kind: Kind::Texts("group"),
            preset: Preset::Absent("X25519MLKEM768, X25519, secp256r1, secp384r1"),
            doc: "Groups a key may be agreed upon in, the preferred one first.",
        },
    ],
};

/// What is said about encryption, by the table or the addresses of the servers.
pub(super) fn read_tls(fields: &Fields<'_, '_>, servers: &[Server]) -> Option<UpstreamTls> {
    let span = fields.entry("servers").map_or(fields.span, |it| it.node.span);
    let has = |scheme| servers.iter().any(|server| server.scheme == scheme);
    let written = fields.entry("tls");
    let tls = written.map(|_| read_table(&fields.table("tls")));
    if written.is_none() && !has(Scheme::Https) {
        return None;
    }
    if has(Scheme::Http) || (written.is_none() && has(Scheme::Unsaid)) {
        let flaw = Flaw::new("some of these servers are encrypted and some are not")
            .with_help("write \"https://\" in front of all of them, or make two upstreams");
        fields.report.error(span, flaw);
    }
    let tls = tls.unwrap_or_default();
    let nameless = |server: &Server| {
        matches!(server.address, ServerAddress::Unix(_) | ServerAddress::Service(_))
    };
    if tls.server_name.is_none()
        && tls.verify == Verify::Full
        && let Some(server) = servers.iter().find(|server| nameless(server))
    {
        let flaw = Flaw::new(format!(
            "the certificate of \"{}\" has to be for a name, and none is known",
            server.address
        ))
        .with_help("write it: tls = { server_name = \"api.example\" }");
        fields.report.error(span, flaw);
    }
    Some(tls)
}

fn read_table(fields: &Fields<'_, '_>) -> UpstreamTls {
    let path = |name| fields.text(name).map(|it| PathBuf::from(it.text));
    let (cert, key) = (path("cert"), path("key"));
    if let (None, Some(key)) = (&cert, fields.entry("key")) {
        let flaw = Flaw::new("a `key` is of no use without its `cert`");
        fields.report.error(key.span, flaw);
    }
    let verify = match fields.word("verify") {
        Some("none") => Verify::None,
        _ => Verify::Full,
    };
    let ca = path("ca");
    if let (Verify::None, Some(entry)) = (verify, fields.entry("ca")) {
        let flaw = Flaw::new("`ca` has no effect: `verify` is \"none\"");
        fields.report.warning(entry.span, flaw);
    }
    UpstreamTls {
        server_name: fields.parsed("server_name", crate::address::parse_host),
        verify,
        ca,
        certificate: cert.map(|cert| (cert.clone(), key.unwrap_or(cert))),
        terms: read_terms(fields),
    }
}
