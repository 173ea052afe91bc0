//! What a certificate says of its owner. It was looked at before: its issuer is believed.

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use super::der::{Element, element, subject, tagged};

/// The certificate a peer has shown. All texts are printable ASCII.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCertificate {
    /// All of it, in DER.
    pub der: Vec<u8>,
    /// Its subject as RFC 4514 writes it, the most special part first: `CN=a,O=Acme`.
    pub subject: String,
    /// The DNS names and URIs it is for.
    pub names: Vec<String>,
    /// Its SHA-256 digest, in hexadecimal digits.
    pub fingerprint: String,
}

impl PeerCertificate {
    /// What the certificate says in DER; nothing of what is no certificate.
    #[must_use]
    pub fn new(der: &[u8]) -> Self {
        let digest = digest::digest(&digest::SHA256, der);
        Self {
            der: der.to_vec(),
            subject: subject(der).and_then(distinguished_name).unwrap_or_default(),
            names: names(der),
            fingerprint: digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }

    /// The certificate as the value of `Client-Cert` (RFC 9440, 2.1).
    #[must_use]
    pub fn field_value(&self) -> String {
        format!(":{}:", STANDARD.encode(&self.der))
    }
}

fn names(der: &[u8]) -> Vec<String> {
    let der = CertificateDer::from(der);
    let Ok(certificate) = EndEntityCert::try_from(&der) else { return Vec::new() };
    let all = certificate.valid_dns_names().chain(certificate.valid_uri_names());
    // They are listed with commas between them.
    let fits = |name: &&str| name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',');
    all.filter(fits).map(str::to_owned).collect()
}

/// Tags of DER (X.690, 8.1.2).
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT: u8 = 0x06;

/// RFC 4514: the parts from the last to the first.
fn distinguished_name(mut input: &[u8]) -> Option<String> {
    let mut parts = Vec::new();
    while !input.is_empty() {
        let (mut set, rest) = tagged(input, SET)?;
        input = rest;
        let mut values = Vec::new();
        while !set.is_empty() {
            let (pair, rest) = tagged(set, SEQUENCE)?;
            set = rest;
            let (object, value) = tagged(pair, OBJECT)?;
            values.push(attribute(object, value)?);
        }
        parts.push(values.join("+"));
    }
    parts.reverse();
    Some(parts.join(","))
}

/// `CN=text`, or `1.2.3=#hex` for what has no name or is no text.
fn attribute(object: &[u8], value: &[u8]) -> Option<String> {
    let Element { tag, content, .. } = element(value)?;
    let name = match object {
        [0x55, 4, 3] => "CN",
        [0x55, 4, 6] => "C",
        [0x55, 4, 7] => "L",
        [0x55, 4, 8] => "ST",
        [0x55, 4, 9] => "STREET",
        [0x55, 4, 10] => "O",
        [0x55, 4, 11] => "OU",
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25] => "DC",
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1] => "UID",
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1] => "emailAddress",
        _ => return Some(format!("{}=#{}", dotted(object), hex(value))),
    };
    // UTF8String, PrintableString, IA5String.
    match (tag, std::str::from_utf8(content)) {
        (0x0c | 0x13 | 0x16, Ok(text)) => Some(format!("{name}={}", escaped(text))),
        _ => Some(format!("{name}=#{}", hex(value))),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The numbers of an object identifier (X.690, 8.19).
fn dotted(object: &[u8]) -> String {
    let mut numbers: Vec<u64> = Vec::new();
    let mut number: u64 = 0;
    for &byte in object {
        number = number.wrapping_shl(7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            if numbers.is_empty() {
                let first = (number / 40).min(2);
                numbers.push(first);
                number -= first * 40;
            }
            numbers.push(number);
            number = 0;
        }
    }
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}

/// RFC 4514, 2.4. What is no printable ASCII is written in hexadecimal, so that it fits everywhere.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    let last = text.len().saturating_sub(1);
    for (at, byte) in text.bytes().enumerate() {
        let outside = at == 0 || at == last;
        match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b'#' if at == 0 => out.push_str("\\#"),
            b' ' if outside => out.push_str("\\ "),
            b' ' | 0x21..=0x7e => out.push(char::from(byte)),
            other => out.push_str(&format!("\\{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    fn certificate(parts: &[(DnType, &str)], names: &[&str]) -> PeerCertificate {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in parts {
            params.distinguished_name.push(kind.clone(), *value);
        }
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        PeerCertificate::new(made.der())
    }

    #[test]
    fn the_owner_is_told_in_one_line_of_ascii() {
        let rows: [(&[(DnType, &str)], &str); 4] = [
            (&[(DnType::OrganizationName, "Acme"), (DnType::CommonName, "a")], "CN=a,O=Acme"),
            (&[(DnType::CommonName, " #a,b+c\"\\<>; ")], r#"CN=\ #a\,b\+c\"\\\<\>\;\ "#),
            (&[(DnType::CommonName, "#é\r\nx")], r"CN=\#\C3\A9\0D\0Ax"),
            (&[(DnType::CustomDnType(vec![1, 2, 840, 7]), "x")], "1.2.840.7=#0c0178"),
        ];
        for (parts, expected) in rows {
            assert_eq!(certificate(parts, &["a.test"]).subject, expected);
        }
        let made = certificate(&[], &["a.test", "*.b.test"]);
        assert_eq!((made.subject.as_str(), made.names.join(",")), ("", "a.test,*.b.test".into()));
        assert_eq!(made.fingerprint.len(), 64);
        assert!(made.field_value().starts_with(":MII") && made.field_value().ends_with(':'));
    }

    #[test]
    fn whatever_is_no_certificate_says_nothing() {
        let good = certificate(&[(DnType::CommonName, "a")], &["a.test"]).der;
        for length in 0..good.len() {
            let cut = PeerCertificate::new(&good[..length]);
            assert_eq!((cut.subject, cut.names.len()), (String::new(), 0), "{length}");
        }
        for at in 0..good.len() {
            let mut bent = good.clone();
            bent[at] ^= 0x55;
            let bent = PeerCertificate::new(&bent);
            assert!(bent.subject.bytes().all(|byte| matches!(byte, b' '..=b'~')));
        }
    }
}
