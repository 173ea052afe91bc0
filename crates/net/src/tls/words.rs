//! Why a handshake failed, in words and for counting, and the names of what can be agreed upon.

use std::fmt;
use std::io::{self, ErrorKind};

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, PeerIncompatible};

use super::session::Broken;

/// Why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// What came is a request without encryption.
    PlainHttp,
    /// What came is no TLS.
    NotTls,
    /// The peer left, or the connection broke.
    Closed,
    /// It took too long.
    TimedOut,
    /// No version of TLS in common.
    Version,
    /// No cipher suite, group or signature in common.
    Suite,
    /// No protocol in common that could be spoken over it.
    Protocol,
    /// The peer showed no certificate, but has to.
    CertificateMissing,
    /// The peer's certificate is not accepted.
    CertificateRefused,
    /// The peer does not accept our certificate.
    Distrusted,
    /// The peer refused for another reason.
    Alert,
    /// There is no certificate to show.
    NoCertificate,
    /// The peer broke a rule of TLS.
    Misbehaved,
}

impl Reason {
    /// All of them, in the order of [`Reason::index`].
    pub const ALL: [Self; 13] = [
        Self::PlainHttp,
        Self::NotTls,
        Self::Closed,
        Self::TimedOut,
        Self::Version,
        Self::Suite,
        Self::Protocol,
        Self::CertificateMissing,
        Self::CertificateRefused,
        Self::Distrusted,
        Self::Alert,
        Self::NoCertificate,
        Self::Misbehaved,
    ];

    /// Its place among all of them.
    #[must_use]
    #[expect(clippy::as_conversions, reason = "the number of a variant")]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// In a few words, for a log.
    #[must_use]
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::PlainHttp => "no encryption",
            Self::NotTls => "the other side does not speak TLS",
            Self::Closed => "connection closed",
            Self::TimedOut => "timed out",
            Self::Version => "no version in common",
            Self::Suite => "no cipher suite or group in common",
            Self::Protocol => "no protocol in common",
            Self::CertificateMissing => "no certificate shown",
            Self::CertificateRefused => "its certificate is not accepted",
            Self::Distrusted => "it does not accept our certificate, or wants one",
            Self::Alert => "refused with a TLS alert",
            Self::NoCertificate => "no certificate to show",
            Self::Misbehaved => "a rule of TLS was broken",
        }
    }

    /// The word for metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::PlainHttp => "plain_http",
            Self::NotTls => "not_tls",
            Self::Closed => "closed",
            Self::TimedOut => "timed_out",
            Self::Version => "version",
            Self::Suite => "suite",
            Self::Protocol => "protocol",
            Self::CertificateMissing => "certificate_missing",
            Self::CertificateRefused => "certificate_refused",
            Self::Distrusted => "distrusted",
            Self::Alert => "alert",
            Self::NoCertificate => "no_certificate",
            Self::Misbehaved => "misbehaved",
        }
    }
}

/// A handshake that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandshakeError {
    /// Why, for counting.
    pub reason: Reason,
    text: String,
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for HandshakeError {}

impl From<HandshakeError> for io::Error {
    fn from(error: HandshakeError) -> Self {
        let kind = match error.reason {
            Reason::Closed => ErrorKind::UnexpectedEof,
            Reason::TimedOut => ErrorKind::TimedOut,
            _ => ErrorKind::InvalidData,
        };
        Self::new(kind, error)
    }
}

/// Who the peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Client,
    Server,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "the client",
            Self::Server => "the server",
        })
    }
}

impl HandshakeError {
    pub(crate) fn new(peer: Peer, broken: &Broken) -> Self {
        let (reason, text) = match broken {
            Broken::Ended => {
                let text = format!("{peer} closed the connection while shaking hands");
                (Reason::Closed, text)
            }
            Broken::PlainHttp => {
                (Reason::PlainHttp, format!("{peer} speaks HTTP without encryption"))
            }
            Broken::Socket(error) => {
                (Reason::Closed, format!("the connection broke while shaking hands: {error}"))
            }
            Broken::Refused(error) => refusal(peer, error),
        };
        Self { reason, text }
    }

    /// The handshake was not done in time.
    #[must_use]
    pub fn timed_out() -> Self {
        let text = "the handshake was not done in time".to_owned();
        Self { reason: Reason::TimedOut, text }
    }
}

fn refusal(peer: Peer, error: &rustls::Error) -> (Reason, String) {
    use rustls::Error as E;
    match error {
        E::InvalidCertificate(why) => {
            let text = format!("{peer}'s certificate is not accepted: {}", complaint(why));
            (Reason::CertificateRefused, text)
        }
        E::NoCertificatesPresented => {
            (Reason::CertificateMissing, format!("{peer} has shown no certificate, but has to"))
        }
        E::InvalidMessage(_) => (Reason::NotTls, format!("{peer} does not speak TLS: {error}")),
        E::AlertReceived(alert) => alarm(peer, *alert),
        E::NoApplicationProtocol => {
            (Reason::Protocol, format!("{peer} wants to speak protocols that are not spoken here"))
        }
        E::PeerIncompatible(why) => incompatibility(peer, why),
        E::General(why) if why == "no server certificate chain resolved" => {
            (Reason::NoCertificate, format!("there is no certificate that {peer} could use"))
        }
        other => (Reason::Misbehaved, format!("{peer} breaks a rule of TLS: {other}")),
    }
}

fn alarm(peer: Peer, alert: AlertDescription) -> (Reason, String) {
    use AlertDescription as A;
    match alert {
        A::BadCertificate
        | A::UnsupportedCertificate
        | A::CertificateRevoked
        | A::CertificateExpired
        | A::CertificateUnknown
        | A::UnknownCA => {
            let text = format!("{peer} does not accept our certificate: TLS alert {alert:?}");
            (Reason::Distrusted, text)
        }
        A::CertificateRequired => {
            (Reason::Distrusted, format!("{peer} wants to see a certificate: TLS alert {alert:?}"))
        }
        A::ProtocolVersion => {
            let text = format!("{peer} speaks other versions of TLS: TLS alert {alert:?}");
            (Reason::Version, text)
        }
        A::NoApplicationProtocol => {
            let text = format!("{peer} does not speak the protocol asked for: TLS alert {alert:?}");
            (Reason::Protocol, text)
        }
        alert => (Reason::Alert, format!("{peer} refuses the encryption: TLS alert {alert:?}")),
    }
}

fn incompatibility(peer: Peer, why: &PeerIncompatible) -> (Reason, String) {
    use PeerIncompatible as P;
    match why {
        P::ServerDoesNotSupportTls12Or13
        | P::ServerTlsVersionIsDisabledByOurConfig
        | P::SupportedVersionsExtensionRequired
        | P::Tls12NotOffered
        | P::Tls12NotOfferedOrEnabled => {
            (Reason::Version, format!("no version of TLS in common with {peer}: {why:?}"))
        }
        P::NoSignatureSchemesInCommon => {
            (Reason::NoCertificate, format!("there is no certificate that {peer} could use"))
        }
        why => {
            let text =
                format!("no cipher suite, group or signature in common with {peer}: {why:?}");
            (Reason::Suite, text)
        }
    }
}

/// What is wrong with a certificate.
pub(crate) fn complaint(why: &CertificateError) -> String {
    match why {
        CertificateError::UnknownIssuer => "nobody who is trusted has issued it".to_owned(),
        CertificateError::BadSignature => "its signature is not its issuer's".to_owned(),
        CertificateError::ExpiredContext { time, not_after } => {
            format!("it expired {} ago", distance(*not_after, *time))
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            format!("it is not valid yet, only in {}", distance(*time, *not_before))
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let name = expected.to_str();
            match presented.is_empty() {
                true => format!("it is not for \"{name}\" and names nobody else either"),
                false => format!("it is not for \"{name}\" but for {}", bare(presented)),
            }
        }
        other => other.to_string(),
    }
}

/// Names as the library shows them, like `DnsName("localhost")`, without their kind.
fn bare(names: &[String]) -> String {
    let name = |shown: &String| shown.split('"').nth(1).unwrap_or(shown).to_owned();
    names.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// The time between two moments in a unit that says something.
pub(crate) fn distance(earlier: UnixTime, later: UnixTime) -> String {
    let seconds = later.as_secs().saturating_sub(earlier.as_secs());
    match (seconds / 86_400, seconds / 3600) {
        (0, 0) => format!("{seconds} seconds"),
        (0, hours) => format!("{hours} hours"),
        (days, _) => format!("{days} days"),
    }
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// TLS 1.2 (RFC 5246).
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

impl Version {
    /// As it is written in configurations and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tls12 => "1.2",
            Self::Tls13 => "1.3",
        }
    }

    /// The version of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Tls12, Self::Tls13].into_iter().find(|version| version.name() == name)
    }
}
