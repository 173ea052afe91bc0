//! Encrypted connections of clients: certificates, and what may be agreed upon.

use std::path::PathBuf;

use crate::fields::Fields;
use crate::header::parse_response_field;
use crate::nearest::suggestion;
use crate::problem::Flaw;
use crate::report::Report;
use crate::section::{Key, Kind, Preset, Section};
use crate::tree::{Node, Value};

/// How connections of a listener are encrypted.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenerTls {
    /// Certificates by their files; the first one is for clients that name nobody who is known.
    pub certificates: Vec<CertificateFiles>,
    /// A folder of certificates.
    pub folder: Option<PathBuf>,
    /// Whether a certificate is made at the start.
    pub self_signed: SelfSigned,
    /// What may be agreed upon.
    pub terms: TlsTerms,
    /// What clients have to show.
    pub client: Option<ClientCertificates>,
    /// A file with the keys of session tickets; `None` = made at random.
    pub ticket_keys: Option<PathBuf>,
    /// The value of `Strict-Transport-Security`; `None` = not sent.
    pub hsts: Option<&'static str>,
}

/// Whether a certificate is made at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SelfSigned {
    /// None is.
    #[default]
    No,
    /// One that nobody vouches for.
    Yes,
}

/// The files of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate and those of its issuers.
    pub cert: PathBuf,
    /// Its private key; may be the same file.
    pub key: PathBuf,
    /// The proof that it was not revoked.
    pub ocsp: Option<PathBuf>,
}

/// What may be agreed upon in a handshake. Empty lists stand for what is safe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsTerms {
    /// Versions: "1.2", "1.3".
    pub versions: Vec<String>,
    /// Cipher suites by their IANA names, in the order they are listed.
    pub suites: Vec<String>,
    /// Groups by their IANA names.
    pub groups: Vec<String>,
}

/// What clients have to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificates {
    /// Whether a connection without a certificate is refused.
    pub mode: ClientMode,
    /// The file with the certificates of the issuers.
    pub ca: PathBuf,
    /// What origins are told of them.
    pub headers: CertificateHeaders,
}

/// Names of the fields that tell origins of a client's certificate; `None` = not sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateHeaders {
    /// Its subject.
    pub subject: Option<String>,
    /// The names it is for.
    pub names: Option<String>,
    /// Its SHA-256 digest.
    pub fingerprint: Option<String>,
    /// All of it.
    pub certificate: Option<String>,
}

/// Whether clients have to show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientMode {
    /// They may.
    Optional,
    /// They have to.
    Required,
}

/// The versions there are.
pub const TLS_VERSIONS: [&str; 2] = ["1.2", "1.3"];

/// The cipher suites there are, the preferred one first.
pub const TLS_SUITES: [&str; 9] = [
    "TLS_AES_256_GCM_SHA384",
    "TLS_AES_128_GCM_SHA256",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];

/// The groups there are, the preferred one first; the last one has to be asked for.
pub const TLS_GROUPS: [&str; 5] =
    ["X25519MLKEM768", "X25519", "secp256r1", "secp384r1", "secp256r1MLKEM768"];

/// Words for `hsts` and the value each stands for (RFC 6797, 6.1).
const HSTS: [(&str, Option<&str>); 4] = [
    ("off", None),
    ("on", Some("max-age=31536000")),
    ("subdomains", Some("max-age=31536000; includeSubDomains")),
    ("preload", Some("max-age=63072000; includeSubDomains; preload")),
];

pub(super) static TLS: Section = Section {
    name: "listener.tls",
    doc: "Encrypts the connections of a listener. Files are watched: a certificate that was \
          renewed is shown to the next client, and no connection ends. A file that cannot be \
          used leaves the certificate before it in place.",
    keys: &[
        Key {
            name: "certificates",
            kind: Kind::Shorts("file with a certificate and its key", &CERTIFICATE),
            preset: Preset::Absent("those of `folder`"),
            doc: "The certificates. Clients say which name they mean; the certificate for it is \
                  shown, or one for `*.` and the rest of it, or else the first one of the list. \
                  For one name there may be several with keys of different kinds.",
        },
        Key {
            name: "folder",
            kind: Kind::Text("path"),
            preset: Preset::Absent("none"),
            doc: "A folder of certificates: every file that ends in `.pem` or `.crt`. The key is \
                  in the same file, or in the one of the same name that ends in `.key`; one that \
                  ends in `.ocsp` is its staple. Files may come and go.",
        },
        Key {
            name: "self_signed",
            kind: Kind::Flag,
            preset: Preset::Value("false"),
            doc: "`true` makes a certificate at the start, for localhost and the address of the \
                  listener. Nobody vouches for it: it is for a first try.",
        },
        Key {
            name: "versions",
            kind: Kind::Texts("version"),
            preset: Preset::Absent("1.2 and 1.3"),
            doc: "Versions of TLS: `\"1.2\"`, `\"1.3\"`. Older ones are not spoken.",
        },
        Key {
            name: "suites",
            kind: Kind::Texts("cipher suite"),
            preset: Preset::Absent("all there are; each of them is safe"),
            doc: "Cipher suites by their IANA names, like `\"TLS_AES_128_GCM_SHA256\"` (TLS 1.3) \
                  or `\"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256\"` (TLS 1.2).",
        },
        Key {
            name: "groups",
            kind: Kind::Texts("group"),
            preset: Preset::Absent("X25519MLKEM768, X25519, secp256r1, secp384r1"),
            doc: "Groups a key may be agreed upon in. The first one withstands quantum computers \
                  as well, and costs a little more.",
        },
        Key {
            name: "client",
            kind: Kind::Table(&CLIENT),
            preset: Preset::Absent("clients show nothing"),
            doc: "Certificates of clients.",
        },
        Key {
            name: "ticket_keys",
            kind: Kind::Text("path"),
            preset: Preset::Absent("made at random, replaced every six hours"),
            doc: "A file with the keys of session tickets, for a fleet of machines that share \
                  their clients: a key in each line, as `openssl rand -hex 32` writes it. The \
                  first one encrypts, all of them decrypt: put a new one first now and then.",
        },
        Key {
            name: "hsts",
            kind: Kind::Word(&["off", "on", "subdomains", "preload"]),
            preset: Preset::Value("off"),
            doc: "Tells browsers to come back encrypted only (`Strict-Transport-Security`): `on` \
                  for a year, `subdomains` for all names below as well, `preload` for two years \
                  and as the preload lists ask for. An answer that says so itself is left alone.",
        },
    ],
};

static CERTIFICATE: Section = Section {
    name: "listener.tls.certificates",
    doc: "One certificate, where its key is in another file.",
    keys: &[
        Key {
            name: "cert",
            kind: Kind::Text("path"),
            preset: Preset::Required,
            doc: "The certificate in PEM, and behind it those of its issuers (`fullchain.pem`).",
        },
        Key {
            name: "key",
            kind: Kind::Text("path"),
            preset: Preset::Absent("the same file"),
            doc: "Its private key in PEM: PKCS#8, PKCS#1 or SEC 1.",
        },
        Key {
            name: "ocsp",
            kind: Kind::Text("path"),
            preset: Preset::Absent("none"),
            doc: "The answer of its issuer that it was not revoked (OCSP, in DER), which clients \
                  are given with it.",
        },
    ],
};

static CLIENT: Section = Section {
    name: "listener.tls.client",
    doc: "Certificates of clients.",
    keys: &[
        Key {
            name: "mode",
            kind: Kind::Word(&["required", "optional"]),
            preset: Preset::Value("required"),
            doc: "`required` refuses connections without a certificate; with `optional` only a \
                  certificate of somebody else is refused.",
        },
        Key {
            name: "ca",
            kind: Kind::Text("path"),
            preset: Preset::Required,
            doc: "The certificates of the issuers that are believed, in PEM.",
        },
        Key {
            name: "headers",
            kind: Kind::Table(&HEADERS),
            preset: Preset::Absent("origins are told nothing of them"),
            doc: "Header fields that tell origins of the certificate a client has shown.",
        },
    ],
};

static HEADERS: Section = Section {
    name: "listener.tls.client.headers",
    doc: "Names of the header fields that tell origins of the certificate a client has shown. \
          Whatever clients write under these names goes no further, at any listener.",
    keys: &[
        Key {
            name: "subject",
            kind: Kind::Text("header name"),
            preset: Preset::Absent("not sent"),
            doc: "For its subject, written as in RFC 4514: `CN=jo,O=Acme`.",
        },
        Key {
            name: "names",
            kind: Kind::Text("header name"),
            preset: Preset::Absent("not sent"),
            doc: "For the DNS names and URIs it is for, with commas between them.",
        },
        Key {
            name: "fingerprint",
            kind: Kind::Text("header name"),
            preset: Preset::Absent("not sent"),
            doc: "For its SHA-256 digest in hexadecimal digits.",
        },
        Key {
            name: "certificate",
            kind: Kind::Text("header name"),
            preset: Preset::Absent("not sent"),
            doc: "For all of it, in the form of `Client-Cert` (RFC 9440).",
        },
    ],
};

pub(super) fn read_tls(fields: &Fields<'_, '_>) -> Option<ListenerTls> {
    let entry = fields.entry("tls")?;
    let fields = fields.table("tls");
    let certificates = read_certificates(&fields);
    let folder = fields.text("folder").map(|it| PathBuf::from(it.text));
    let flag = fields.flag("self_signed");
    let self_signed = if flag == Some(true) { SelfSigned::Yes } else { SelfSigned::No };
    // One that is no flag has been complained about.
    let made = flag != Some(false);
    let written = |name| fields.written(name).is_some();
    if !written("certificates") && folder.is_none() && !(written("self_signed") && made) {
        let flaw = Flaw::new("there is no certificate to be shown").with_help(
            "add one: certificates = [{ cert = \"fullchain.pem\", key = \"privkey.pem\" }], or \
             self_signed = true for a first try",
        );
        fields.report.error(entry.span, flaw);
    }
    let hsts = fields.word("hsts").unwrap_or("off");
    Some(ListenerTls {
        certificates,
        folder,
        self_signed,
        terms: read_terms(&fields),
        client: read_client(&fields),
        ticket_keys: fields.text("ticket_keys").map(|it| PathBuf::from(it.text)),
        hsts: HSTS.iter().find(|(word, _)| *word == hsts).and_then(|(_, value)| *value),
    })
}

/// Versions, suites and groups.
pub(crate) fn read_terms(fields: &Fields<'_, '_>) -> TlsTerms {
    let terms = TlsTerms {
        versions: fields.list("versions", |text| known(text, &TLS_VERSIONS, "version of TLS")),
        suites: fields.list("suites", |text| known(text, &TLS_SUITES, "cipher suite")),
        groups: fields.list("groups", |text| known(text, &TLS_GROUPS, "group")),
    };
    for version in &terms.versions {
        let of_13 = |suite: &String| !suite.contains("_WITH_");
        let fits = |suite: &String| of_13(suite) == (version == "1.3");
        if !terms.suites.is_empty() && !terms.suites.iter().any(fits) {
            let span = fields.entry("suites").map_or(fields.span, |it| it.node.span);
            let flaw = Flaw::new(format!("none of these suites is for TLS {version}"))
                .with_help("add one, or leave the version out");
            fields.report.error(span, flaw);
        }
    }
    terms
}

fn known(text: &str, all: &[&'static str], noun: &str) -> Result<String, Flaw> {
    match all.iter().find(|name| name.eq_ignore_ascii_case(text)) {
        Some(name) => Ok((*name).to_owned()),
        None => {
            let mut flaw = Flaw::new(format!("\"{text}\" is no {noun} that is spoken here"));
            flaw.help = suggestion(text, all.iter().copied(), "words");
            Err(flaw)
        }
    }
}

fn read_certificates(fields: &Fields<'_, '_>) -> Vec<CertificateFiles> {
    let Some(entry) = fields.entry("certificates") else { return Vec::new() };
    let items = match &entry.node.value {
        Value::List(list) => list,
        _ => std::slice::from_ref(&entry.node),
    };
    if items.is_empty() {
        let flaw = Flaw::new("the list of certificates is empty")
            .with_help("add one: { cert = \"fullchain.pem\", key = \"privkey.pem\" }");
        fields.report.error(entry.node.span, flaw);
    }
    items.iter().filter_map(|item| read_certificate(item, fields.report)).collect()
}

fn read_certificate(item: &Node, report: &Report<'_>) -> Option<CertificateFiles> {
    if let Value::Text(text) = &item.value {
        let file = PathBuf::from(&text.value);
        return Some(CertificateFiles { cert: file.clone(), key: file, ocsp: None });
    }
    let fields = Fields::open(Some(item), item.span, &CERTIFICATE, report);
    let path = |name| fields.text(name).map(|it| PathBuf::from(it.text));
    let (key, ocsp) = (path("key"), path("ocsp"));
    let cert = path("cert")?;
    Some(CertificateFiles { key: key.unwrap_or_else(|| cert.clone()), cert, ocsp })
}

fn read_client(fields: &Fields<'_, '_>) -> Option<ClientCertificates> {
    fields.entry("client")?;
    let fields = fields.table("client");
    let mode = match fields.word("mode") {
        Some("optional") => ClientMode::Optional,
        _ => ClientMode::Required,
    };
    let headers = read_headers(&fields.table("headers"));
    let ca = PathBuf::from(fields.text("ca")?.text);
    Some(ClientCertificates { mode, ca, headers })
}

fn read_headers(fields: &Fields<'_, '_>) -> CertificateHeaders {
    let name = |key| fields.parsed(key, parse_response_field);
    CertificateHeaders {
        subject: name("subject"),
        names: name("names"),
        fingerprint: name("fingerprint"),
        certificate: name("certificate"),
    }
}
