//! Encrypted listeners: what is filled in, and every kind of problem.

use super::toml;
use crate::*;

fn listener(tls: &str) -> Result<Model, Problems> {
    toml(&format!("[[listener]]\naddress = ':443'\n[listener.tls]\n{tls}"))
}

#[test]
fn certificates_arrive_in_every_form() {
    let files = |cert: &str, key: &str, ocsp: Option<&str>| CertificateFiles {
        cert: cert.into(),
        key: key.into(),
        ocsp: ocsp.map(Into::into),
    };
    let rows = [
        ("certificates = 'both.pem'", vec![files("both.pem", "both.pem", None)]),
        (
            "certificates = ['a.pem', 'b.pem']",
            vec![files("a.pem", "a.pem", None), files("b.pem", "b.pem", None)],
        ),
        (
            "certificates = [{ cert = 'c', key = 'k', ocsp = 'o' }]",
            vec![files("c", "k", Some("o"))],
        ),
        ("certificates = { cert = 'c' }", vec![files("c", "c", None)]),
        ("folder = 'd'", vec![]),
    ];
    for (text, expected) in rows {
        let tls = listener(text).unwrap().listeners.remove(0).tls.unwrap();
        assert_eq!(tls.certificates, expected, "{text}");
        assert_eq!((tls.self_signed, tls.client, tls.ticket_keys), (SelfSigned::No, None, None));
        assert_eq!((tls.terms, tls.hsts), (TlsTerms::default(), None));
    }
}

#[test]
fn everything_else_arrives() {
    let text = "self_signed = true\nversions = '1.3'\nsuites = ['tls_aes_128_gcm_sha256']\n\
                groups = ['X25519', 'SECP256R1']\nclient.ca = 'ca.pem'\nticket_keys = 'keys'\n\
                hsts = 'subdomains'\nfolder = 'd'";
    let tls = listener(text).unwrap().listeners.remove(0).tls.unwrap();
    let terms = TlsTerms {
        versions: vec!["1.3".to_owned()],
        suites: vec!["TLS_AES_128_GCM_SHA256".to_owned()],
        groups: vec!["X25519".to_owned(), "secp256r1".to_owned()],
    };
    let client = ClientCertificates { mode: ClientMode::Required, ca: "ca.pem".into() };
    assert_eq!((tls.terms, tls.client), (terms, Some(client)));
    assert_eq!(
        (tls.self_signed, tls.hsts),
        (SelfSigned::Yes, Some("max-age=31536000; includeSubDomains"))
    );
    assert_eq!(tls.ticket_keys, Some("keys".into()));
    let text = "self_signed = true\nclient = { mode = 'optional', ca = 'c' }";
    let tls = listener(text).unwrap().listeners.remove(0).tls.unwrap();
    assert_eq!(tls.client.unwrap().mode, ClientMode::Optional);
}

#[test]
fn problems_have_their_place() {
    let rows = [
        ("", "3:11 no certificate to be shown | self_signed"),
        ("self_signed = false", "3:11 no certificate to be shown"),
        ("certificates = []", "4:16 the list of certificates is empty"),
        ("certificates = [{ key = 'k' }]", "4:17 `cert` is missing"),
        ("certificates = 3", "4:16 "),
        ("self_signed = 1", "4:15 true or false"),
        ("folder = 'd'\nversions = '1.1'", "5:12 \"1.1\" is no version of TLS"),
        (
            "folder = 'd'\nsuites = ['TLS_AES_128_GCM_SHA265']",
            "5:11 no cipher suite | did you mean \"TLS_AES_128_GCM_SHA256\"",
        ),
        ("folder = 'd'\ngroups = 'X448'", "5:10 \"X448\" is no group"),
        (
            "folder = 'd'\nversions = '1.2'\nsuites = ['TLS_AES_128_GCM_SHA256']",
            "6:10 none of these suites is for TLS 1.2",
        ),
        ("folder = 'd'\nclient = {}", "5:1 `ca` is missing"),
        ("folder = 'd'\nclient = { ca = 'c', mode = 'maybe' }", "5:29 `mode` cannot be \"maybe\""),
        ("folder = 'd'\nhsts = 'yes'", "5:8 `hsts` cannot be \"yes\""),
        ("folder = 'd'\ncertificate = 'x'", "5:1 unknown key `certificate` | certificates"),
    ];
    for (text, expected) in rows {
        let problems = listener(text).expect_err(text);
        let (place, parts) = expected.split_once(' ').unwrap();
        let problem = &problems.list[0];
        assert_eq!(format!("{}:{}", problem.line, problem.column), place, "{text}\n{problems}");
        let said = format!("{} {}", problem.message, problem.help.as_deref().unwrap_or_default());
        assert!(parts.split(" | ").all(|part| said.contains(part)), "{text}\n{said}");
        assert_eq!(problems.list.len(), 1, "{problems}");
    }
}
