//! Files of certificates that change while the program runs.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use sluice_meter::ShownCertificate;
use sluice_net::process::wall_clock;
use sluice_net::tls::Certificate;

use super::Supervisor;
use super::configure::Cause;
use crate::compile::{prepare_clients, prepare_tls, tls_paths};
use crate::document::ConfigError;
use crate::flaw::plain;
use crate::keyring::Change;

impl Supervisor {
    /// Watches the files of encrypted listeners.
    pub(super) fn follow_certificates(&mut self) {
        self.keyring.retain(&self.model.listeners);
        let sender = self.sender.clone();
        let deliver =
            move |_: Option<&Path>| drop(sender.send(crate::event::Event::CertificatesChanged));
        if let Err(error) = self.certificate_files.follow(tls_paths(&self.model), deliver) {
            self.voice.warn(&format!(
                "changes of certificates go unnoticed ({}); SIGHUP still reads them",
                plain(&error)
            ));
        }
    }

    /// Shows what the files hold now. What cannot be used leaves everything as it is.
    pub(super) fn read_certificates_again(&mut self) -> Option<Cause> {
        let mut flaws = Vec::new();
        let prepared = prepare_tls(&self.model, &mut flaws);
        let clients = prepare_clients(&self.model, &mut flaws);
        if !flaws.is_empty() {
            self.status.meters().certificate_failures.increment();
            let error = ConfigError::Unusable(flaws);
            self.voice.warn(&format!(
                "cannot use the changed certificates: {}; those before stay in use\n{}",
                error.summary(),
                error.render(self.voice.style())
            ));
            return None;
        }
        let (mut deeper, mut applied) = (None, false);
        for (listener, prepared) in self.model.listeners.iter().zip(prepared) {
            let Some(prepared) = prepared else { continue };
            let names = told(&prepared.certificates);
            match self.keyring.refresh(listener, prepared) {
                Change::None => {}
                Change::Applied => {
                    applied = true;
                    let name = &listener.name;
                    self.voice.say(&format!("listener {name} shows new certificates: {names}"));
                }
                Change::Deeper => deeper = Some(Cause::Asked),
            }
        }
        if applied {
            self.look_at_certificates();
        }
        if self.keyring.take_clients(clients) == Change::Applied {
            self.voice.say("servers are shown and asked for other certificates");
            self.apply_servers();
        }
        // Files of a folder may have come or gone.
        self.follow_certificates();
        deeper
    }

    /// Publishes until when the certificates are valid that clients are shown, and warns of those that
    /// are not any more, or not for long.
    pub(super) fn look_at_certificates(&self) {
        let now = wall_clock();
        let mut shown = BTreeSet::new();
        for (listener, certificate) in self.keyring.shown() {
            let Some(expiry) = certificate.not_after() else { continue };
            let name = certificate.names().first().cloned().unwrap_or_default();
            if let Some(words) = time_left(expiry, now) {
                let of = if name.is_empty() { "a certificate" } else { "the certificate for " };
                self.voice.warn(&format!("listener {listener}: {of}{name} {words}"));
            }
            let fingerprint = certificate.fingerprint().replace(':', "").to_ascii_lowercase();
            let listener = listener.to_owned();
            shown.insert(ShownCertificate { listener, name, fingerprint, expiry });
        }
        self.status.meters().set_certificates(shown);
    }

    /// Says how to know a certificate again that nobody vouches for.
    pub(super) fn introduce_made_certificate(&self, listener: &str) {
        if let Some(certificate) = self.keyring.made(listener) {
            self.voice.say(&format!(
                "listener {listener} shows a certificate made for a try; its SHA-256 fingerprint is {}",
                certificate.fingerprint()
            ));
        }
    }
}

/// How long before its end a certificate is warned of: whoever renews by themselves have done so by then.
const SOON: Duration = Duration::from_hours(14 * 24);

/// What is to be said of the end of a certificate, if anything.
fn time_left(expiry: Duration, now: Duration) -> Option<String> {
    let words = |time: Duration| match (time.as_secs() / 86_400, time.as_secs() / 3_600) {
        (0, 0) => "less than an hour".to_owned(),
        (0, hours) => format!("{hours} hours"),
        (1, _) => "1 day".to_owned(),
        (days, _) => format!("{days} days"),
    };
    match expiry.checked_sub(now) {
        None => Some(format!("expired {} ago: clients do not accept it", words(now - expiry))),
        Some(left) if left < SOON => Some(format!("expires in {}", words(left))),
        Some(_) => None,
    }
}

/// Names in a line of the log, at most.
const NAMES: usize = 8;

fn told(certificates: &[Certificate]) -> String {
    let all: Vec<&str> =
        certificates.iter().flat_map(|it| it.names()).map(String::as_str).collect();
    let shown = all.get(..NAMES).unwrap_or(&all).join(", ");
    match all.len().saturating_sub(NAMES) {
        0 if all.is_empty() => "without names".to_owned(),
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_certificate_is_told_when_it_is_near() {
        let hour = Duration::from_hours(1);
        let now = hour * 480_000;
        assert_eq!(time_left(now + hour * 24 * 14, now), None);
        let said = |end| time_left(end, now).unwrap();
        assert_eq!(said(now + hour * 24 * 13 + hour), "expires in 13 days");
        assert_eq!(said(now + hour * 24), "expires in 1 day");
        assert_eq!(said(now + hour * 5), "expires in 5 hours");
        assert_eq!(said(now), "expires in less than an hour");
        assert_eq!(said(now - hour * 50), "expired 2 days ago: clients do not accept it");
    }
}
