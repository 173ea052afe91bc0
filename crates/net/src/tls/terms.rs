//! What both sides of a handshake may agree upon.

use rustls::crypto::aws_lc_rs::{self, ALL_CIPHER_SUITES, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, SupportedCipherSuite, SupportedProtocolVersion};

use super::words::Version;

/// Ways to agree on a key, the preferred one first. The first withstands a quantum computer as well.
const GROUPS: [&dyn SupportedKxGroup; 4] =
    [kx_group::X25519MLKEM768, kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1];

/// Those that have to be asked for.
const FURTHER_GROUPS: [&dyn SupportedKxGroup; 1] = [kx_group::SECP256R1MLKEM768];

/// What may be agreed upon. Empty lists stand for what is safe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Versions of TLS; empty = 1.2 and 1.3.
    pub versions: Vec<Version>,
    /// Names of cipher suites as IANA lists them, the preferred one first; empty = all that are known,
    /// every one of which is safe.
    pub suites: Vec<String>,
    /// Names of groups as IANA lists them, the preferred one first; empty = X25519MLKEM768, X25519,
    /// secp256r1, secp384r1.
    pub groups: Vec<String>,
    /// Protocols that may be spoken over the connection (RFC 7301), the preferred one first; empty =
    /// the peers do not talk of it.
    pub protocols: Vec<Vec<u8>>,
}

/// Names of all cipher suites, the preferred one first.
pub fn suites() -> impl Iterator<Item = &'static str> {
    ALL_CIPHER_SUITES.iter().map(suite_name)
}

/// Names of all groups, the preferred one first.
pub fn groups() -> impl Iterator<Item = &'static str> {
    GROUPS.into_iter().chain(FURTHER_GROUPS).map(group_name)
}

/// As IANA writes it: the library puts another word in front of those of TLS 1.3.
pub(crate) fn suite_name(suite: &SupportedCipherSuite) -> &'static str {
    match suite.suite() {
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        suite => suite.as_str().unwrap_or("unknown"),
    }
}

pub(crate) fn group_name(group: &dyn SupportedKxGroup) -> &'static str {
    group.name().as_str().unwrap_or("unknown")
}

impl Terms {
    /// # Errors
    /// A name of a suite or group that is unknown, or suites none of which is for the versions.
    pub(crate) fn provider(&self) -> Result<CryptoProvider, String> {
        let mut provider = aws_lc_rs::default_provider();
        provider.kx_groups = GROUPS.to_vec();
        // What costs both sides least comes first; the order of the others stays.
        provider.cipher_suites.sort_by_key(|suite| !suite_name(suite).contains("AES_128"));
        if !self.suites.is_empty() {
            let find = |name: &String| {
                let known = ALL_CIPHER_SUITES.iter().find(|it| suite_name(it) == *name);
                known.copied().ok_or_else(|| format!("unknown cipher suite \"{name}\""))
            };
            provider.cipher_suites = self.suites.iter().map(find).collect::<Result<_, _>>()?;
        }
        if !self.groups.is_empty() {
            let find = |name: &String| {
                let mut all = GROUPS.into_iter().chain(FURTHER_GROUPS);
                let known = all.find(|it| group_name(*it).eq_ignore_ascii_case(name));
                known.ok_or_else(|| format!("unknown group \"{name}\""))
            };
            provider.kx_groups = self.groups.iter().map(find).collect::<Result<_, _>>()?;
        }
        Ok(provider)
    }

    pub(crate) fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        let all = [(Version::Tls13, &TLS13), (Version::Tls12, &TLS12)];
        let wanted = |it: &Version| self.versions.is_empty() || self.versions.contains(it);
        all.into_iter().filter(|(version, _)| wanted(version)).map(|(_, it)| it).collect()
    }
}
