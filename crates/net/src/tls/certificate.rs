//! Certificates a server shows, and which of them a client gets to see.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use aws_lc_rs::digest;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, SignatureAlgorithm, SignatureScheme};
use webpki::EndEntityCert;

use super::der;

/// A certificate with those of its issuers, and its private key.
#[derive(Clone)]
pub struct Certificate {
    pub(crate) key: Arc<CertifiedKey>,
    names: Vec<String>,
    not_after: Option<Duration>,
}

impl PartialEq for Certificate {
    /// Whether clients are shown the same; a key belongs to its certificate.
    fn eq(&self, other: &Self) -> bool {
        self.key.cert == other.key.cert && self.key.ocsp == other.key.ocsp
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Certificate {
    /// From PEM texts: the certificate first, its issuers behind it; and its key, as PKCS#8, PKCS#1 or
    /// SEC 1.
    ///
    /// # Errors
    /// What is missing, broken, or does not belong together, in words.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, String> {
        let chain = certificates(chain)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
            rustls::pki_types::pem::Error::NoItemsFound => {
                "no private key is in the file of the key; it should be a PEM text".to_owned()
            }
            error => format!("the private key is broken: {error}"),
        })?;
        let key = any_supported_type(&key)
            .map_err(|error| format!("the private key is of no use: {error}"))?;
        let key = CertifiedKey::new(chain, key);
        match key.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(rustls::Error::InconsistentKeys(_)) => {
                return Err("the private key does not belong to the certificate".to_owned());
            }
            Err(error) => return Err(format!("the certificate is broken: {error}")),
        }
        let names = names(key.cert.first())?;
        let not_after = key.cert.first().and_then(|it| der::not_after(it));
        Ok(Self { key: Arc::new(key), names, not_after })
    }

    /// One that nobody vouches for, for these names and addresses.
    ///
    /// # Errors
    /// A name that no certificate can hold.
    pub fn self_signed(names: &[String]) -> Result<Self, String> {
        let made = rcgen::generate_simple_self_signed(names)
            .map_err(|error| format!("no certificate can be made: {error}"))?;
        let key = made.signing_key.serialize_pem();
        Self::from_pem(made.cert.pem().as_bytes(), key.as_bytes())
    }

    /// The same with a proof that it was not revoked, which clients are given with it.
    #[must_use]
    pub fn with_staple(self, ocsp: Vec<u8>) -> Self {
        let mut key = CertifiedKey::clone(&self.key);
        key.ocsp = Some(ocsp);
        Self { key: Arc::new(key), ..self }
    }

    /// The names it is for, in lower case; `*.` stands for one label.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The last moment it is valid at, since 1970; `None` if it does not say so in a form that is known.
    #[must_use]
    pub const fn not_after(&self) -> Option<Duration> {
        self.not_after
    }

    /// What people compare to know it again: the SHA-256 digest, in hexadecimal pairs.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        fingerprint(self.der())
    }

    /// The certificate itself, in DER.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        self.key.cert.first().map_or(&[], |certificate| certificate.as_ref())
    }
}

/// The SHA-256 digest of a certificate in DER, in hexadecimal pairs.
#[must_use]
pub fn fingerprint(der: &[u8]) -> String {
    let digest = digest::digest(&digest::SHA256, der);
    let pairs: Vec<String> = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
    pairs.join(":")
}

/// Whether there is a certificate in a PEM text.
#[must_use]
pub fn has_certificate(text: &[u8]) -> bool {
    CertificateDer::pem_slice_iter(text).any(|it| it.is_ok())
}

/// The certificates of a PEM text; at least one.
pub(crate) fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let list: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match list.map_err(|error| format!("a broken PEM text: {error}"))? {
        list if list.is_empty() => {
            Err("no certificate is in it; it should be a PEM text".to_owned())
        }
        list => Ok(list),
    }
}

fn names(certificate: Option<&CertificateDer<'static>>) -> Result<Vec<String>, String> {
    let Some(certificate) = certificate else { return Ok(Vec::new()) };
    let parsed = EndEntityCert::try_from(certificate)
        .map_err(|error| format!("the certificate is broken: {error:?}"))?;
    Ok(parsed.valid_dns_names().map(str::to_ascii_lowercase).collect())
}

/// Certificates by the names they are for. The first one is for clients that name nobody, or somebody
/// else.
#[derive(Debug, Default)]
struct Register {
    /// Several may be for one name, with keys of different kinds: the better kind is first.
    exact: HashMap<String, Vec<Arc<CertifiedKey>>>,
    /// By what stands behind `*.`.
    wildcard: HashMap<String, Vec<Arc<CertifiedKey>>>,
    default: Vec<Arc<CertifiedKey>>,
}

impl Register {
    fn new(list: &[Certificate]) -> Self {
        let mut register = Self::default();
        for certificate in list {
            for name in &certificate.names {
                let keys = match name.strip_prefix("*.") {
                    Some(parent) => register.wildcard.entry(parent.to_owned()).or_default(),
                    None => register.exact.entry(name.clone()).or_default(),
                };
                keys.push(Arc::clone(&certificate.key));
            }
        }
        let same = |it: &&Certificate| list.first().is_some_and(|one| one.names == it.names);
        register.default = list.iter().filter(same).map(|it| Arc::clone(&it.key)).collect();
        let all = register.exact.values_mut().chain(register.wildcard.values_mut());
        for keys in all.chain([&mut register.default]) {
            // Stable: of two of one kind the one that was named first stays first.
            keys.sort_by_key(|key| cost(key.key.algorithm()));
        }
        register
    }

    fn find(&self, name: Option<&str>) -> &[Arc<CertifiedKey>] {
        let Some(name) = name else { return &self.default };
        // A name that ends with its dot means the same.
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let parent = || name.split_once('.').and_then(|(_, parent)| self.wildcard.get(parent));
        self.exact.get(&name).or_else(parent).unwrap_or(&self.default)
    }
}

/// What a signature costs the server: the kinds in order.
const fn cost(algorithm: SignatureAlgorithm) -> u8 {
    match algorithm {
        SignatureAlgorithm::ECDSA => 0,
        SignatureAlgorithm::ED25519 => 1,
        SignatureAlgorithm::RSA => 2,
        _ => 3,
    }
}

/// The certificates of a server; they can be replaced while it shakes hands.
#[derive(Debug, Default)]
pub(crate) struct Shelf(RwLock<Arc<Register>>);

impl Shelf {
    pub(crate) fn replace(&self, list: &[Certificate]) {
        let register = Arc::new(Register::new(list));
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = register;
    }

    fn choose(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let register = Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner));
        let fits = |key: &&Arc<CertifiedKey>| key.key.choose_scheme(schemes).is_some();
        let keys = register.find(name);
        // Without a certificate the handshake would end with access_denied. With one that does not fit
        // it ends with handshake_failure, as RFC 8446, 4.4.2.2 and RFC 5246, 7.4.1.3 have it.
        keys.iter().find(fits).or(keys.first()).cloned()
    }
}

impl ResolvesServerCert for Shelf {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.choose(hello.server_name(), hello.signature_schemes())
    }
}
