//! What holds for whatever a peer shows as its certificate.

use sluice_net::tls::{PeerCertificate, not_after};

/// Panics if a promise about what is read of a certificate is broken.
pub(crate) fn run(data: &[u8]) {
    let shown = PeerCertificate::new(data);
    assert_eq!(shown.der, data);
    // They go into fields, logs and lists with commas between them.
    assert!(shown.subject.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{}", shown.subject);
    for name in &shown.names {
        assert!(name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b','), "{name}");
    }
    assert!(
        shown.fingerprint.len() == 64 && shown.fingerprint.bytes().all(|it| it.is_ascii_hexdigit())
    );
    let value = shown.field_value();
    assert!(value.starts_with(':') && value.ends_with(':') && value.len() >= data.len());
    // No year has more than four digits.
    assert!(not_after(data).is_none_or(|end| end.as_secs() < 253_402_300_800));
    // What is behind a certificate is not part of it. One that is cut off may be completed by it.
    let longer = [data, b"x"].concat();
    if !shown.subject.is_empty() {
        assert_eq!(PeerCertificate::new(&longer).subject, shown.subject);
    }
    if let Some(end) = not_after(data) {
        assert_eq!(not_after(&longer), Some(end));
    }
}
