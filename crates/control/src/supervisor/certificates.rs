//! Files of certificates that change while the program runs.

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
        let deliver = move || drop(sender.send(crate::event::Event::CertificatesChanged));
        if let Err(error) = self.keyring.follow(tls_paths(&self.model), deliver) {
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
        let mut deeper = None;
        for (listener, prepared) in self.model.listeners.iter().zip(prepared) {
            let Some(prepared) = prepared else { continue };
            let names = told(&prepared.certificates);
            match self.keyring.refresh(listener, prepared) {
                Change::None => {}
                Change::Applied => {
                    let name = &listener.name;
                    self.voice.say(&format!("listener {name} shows new certificates: {names}"));
                }
                Change::Deeper => deeper = Some(Cause::Asked),
            }
        }
        if self.keyring.take_clients(clients) == Change::Applied {
            self.voice.say("servers are shown and asked for other certificates");
            self.apply_servers();
        }
        // Files of a folder may have come or gone.
        self.follow_certificates();
        deeper
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
