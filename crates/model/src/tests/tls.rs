//! Encrypted listeners and upstreams: what is filled in, and every kind of problem.

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
    let client = ClientCertificates {
        mode: ClientMode::Required,
        ca: "ca.pem".into(),
        headers: CertificateHeaders::default(),
    };
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

fn upstream(text: &str) -> Result<Model, Problems> {
    toml(&format!(
        "listener = [{{ address = ':1' }}]\nroute = [{{ proxy = 'a' }}]\n[upstream.a]\n{text}"
    ))
}

#[test]
fn upstreams_are_encrypted_by_address_or_table() {
    let plain = upstream("servers = 'http://h.test'").unwrap().upstreams.remove(0);
    assert_eq!((plain.tls, plain.servers[0].scheme), (None, Scheme::Http));
    for text in ["servers = 'https://h.test'", "servers = 'h.test:443'\ntls = {}"] {
        let upstream = upstream(text).unwrap().upstreams.remove(0);
        assert_eq!(upstream.tls, Some(UpstreamTls::default()), "{text}");
        assert_eq!(upstream.servers[0].address.to_string(), "h.test:443", "{text}");
    }
    let text = "servers = 'unix:/x'\ntls = { server_name = 'A.test', ca = 'c', cert = 'me', \
                versions = '1.3' }";
    let tls = upstream(text).unwrap().upstreams.remove(0).tls.unwrap();
    let terms = TlsTerms { versions: vec!["1.3".to_owned()], ..TlsTerms::default() };
    let expected = UpstreamTls {
        server_name: Some("a.test".to_owned()),
        verify: Verify::Full,
        ca: Some("c".into()),
        certificate: Some(("me".into(), "me".into())),
        terms,
    };
    assert_eq!(tls, expected);
    let text = "servers = 'srv:_a._tcp.b.test'\ntls = { verify = 'none', cert = 'c', key = 'k' }";
    let tls = upstream(text).unwrap().upstreams.remove(0).tls.unwrap();
    assert_eq!((tls.verify, tls.certificate), (Verify::None, Some(("c".into(), "k".into()))));
    let model = toml(
        "listener = [{ address = ':1' }]\n\
         route = [{ path = '/a', proxy = 'https://h.test' }, { path = '/b', proxy = 'h.test:443' }]",
    );
    let upstreams = model.unwrap().upstreams;
    let names: Vec<_> = upstreams.iter().map(|it| (it.name.as_str(), it.tls.is_some())).collect();
    assert_eq!(names, [("https://h.test:443", true), ("h.test:443", false)]);
}

#[test]
fn problems_of_encrypted_upstreams_have_their_place() {
    let rows = [
        ("servers = ['https://a.test', 'b.test:1']", "4:11 some are not"),
        ("servers = ['https://a.test', 'http://b.test']", "4:11 some are not"),
        ("servers = 'http://a.test'\ntls = {}", "4:11 some are not"),
        ("servers = 'unix:/x'\ntls = {}", "4:11 \"unix:/x\" has to be for a name"),
        ("servers = 'srv:a.test'\ntls = {}", "4:11 \"srv:a.test\" has to be for a name"),
        ("servers = 'a.test:1'\ntls.key = 'k'", "5:5 without its `cert`"),
        ("servers = 'a.test:1'\ntls = true", "5:1 is a table"),
        ("servers = 'a.test:1'\ntls.server_name = 'a b'", "5:19 not a host name"),
        ("servers = 'ftp://a.test:1'", "4:11 not a scheme"),
    ];
    for (text, expected) in rows {
        let problems = upstream(text).expect_err(text);
        let (place, part) = expected.split_once(' ').unwrap();
        let problem = &problems.list[0];
        assert_eq!(format!("{}:{}", problem.line, problem.column), place, "{text}\n{problems}");
        assert!(problem.message.contains(part), "{text}\n{problem}");
    }
    let warned =
        upstream("servers = 'https://a.test'\ntls = { verify = 'none', ca = 'c' }").unwrap();
    assert!(warned.warnings[0].message.contains("`ca` has no effect"));
}

#[test]
fn a_route_asks_for_certificates_only_where_a_listener_does() {
    let text = |client: &str, listener: &str| {
        format!(
            "[[listener]]\naddress = ':1'\nname = 'plain'\n\
             [[listener]]\naddress = ':2'\nname = 'web'\ntls = {{ folder = 'd', {client} }}\n\
             [[route]]\n{listener}\nrespond = 'x'\nclient_certificate = true\n"
        )
    };
    let client = "client = { ca = 'c', headers = { subject = 'X-Subject' } }";
    for listener in ["", "listener = 'web'", "listener = ['plain', 'web']"] {
        let model = toml(&text(client, listener)).unwrap();
        assert_eq!(model.routes[0].proof, Proof::Certificate, "{listener}");
        let tls = model.listeners[1].tls.clone().unwrap();
        assert_eq!(tls.client.unwrap().headers.subject.as_deref(), Some("X-Subject"));
    }
    for (client, listener) in [("hsts = 'on'", ""), (client, "listener = 'plain'")] {
        let problems = toml(&text(client, listener)).unwrap_err();
        assert_eq!(problems.list.len(), 1, "{problems}");
        let problem = &problems.list[0];
        assert!(problem.message.contains("asks clients for certificates"), "{problem}");
        assert_eq!((problem.line, problem.column), (11, 1), "{problem}");
    }
    let forged = "client = { ca = 'c', headers.subject = 'Content-Length' }";
    assert!(toml(&text(forged, "")).unwrap_err().to_string().contains("written by the server"));
}
