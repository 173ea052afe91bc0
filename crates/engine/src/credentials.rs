//! What origins are told of a client's certificate.

use sluice_message::{Fields, SpaceExhausted};
use sluice_net::tls::PeerCertificate;

/// The fields that tell of it, by their names; those that are absent are not sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateFields {
    /// Its subject.
    pub subject: Option<String>,
    /// The names it is for.
    pub names: Option<String>,
    /// Its SHA-256 digest.
    pub fingerprint: Option<String>,
    /// All of it (RFC 9440).
    pub certificate: Option<String>,
}

impl CertificateFields {
    /// The names of the fields.
    pub fn all(&self) -> impl Iterator<Item = &String> {
        let Self { subject, names, fingerprint, certificate } = self;
        [subject, names, fingerprint, certificate].into_iter().flatten()
    }

    /// Tells of this certificate.
    pub(crate) fn push(
        &self,
        fields: &mut Fields,
        shown: &PeerCertificate,
    ) -> Result<(), SpaceExhausted> {
        let mut tell = |name: &Option<String>, value: &str| match name {
            Some(name) if !value.is_empty() => fields.push(name.as_bytes(), value.as_bytes()),
            _ => Ok(()),
        };
        tell(&self.subject, &shown.subject)?;
        tell(&self.names, &shown.names.join(","))?;
        tell(&self.fingerprint, &shown.fingerprint)?;
        if self.certificate.is_some() {
            tell(&self.certificate, &shown.field_value())?;
        }
        Ok(())
    }
}

/// Takes out what somebody else may have written under these names, or under those that origins may take for them.
#[cold]
pub(crate) fn strip(fields: &mut Fields, reserved: &[String]) {
    for name in reserved {
        fields.remove_read_as(name.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_speaks_under_these_names() {
        let mut fields = Fields::new();
        for name in ["x-client-subject", "X_Client-Subject", "x-client-subjects", "host"] {
            fields.push(name.as_bytes(), b"CN=forged").unwrap();
        }
        strip(&mut fields, &["X-Client-Subject".to_owned(), "host2".to_owned()]);
        let left: Vec<_> = fields.iter().map(|(name, _)| name.to_vec()).collect();
        assert_eq!(left, [b"x-client-subjects".to_vec(), b"host".to_vec()]);
    }
}
