//! The encryption of listeners: what outlives a reload, and what changes without one.

use std::collections::BTreeMap;

use sluice_engine::{CertificateFields, ListenerTls};
use sluice_model::{Listener, SelfSigned};
use sluice_net::tls::{Certificate, TlsClient};

use crate::compile::{PreparedClient, PreparedTls};

/// Servers of TLS by the names of their listeners.
#[derive(Debug, Default)]
pub(crate) struct Keyring {
    held: BTreeMap<String, PreparedTls>,
    /// Certificates that were made at the start.
    made: BTreeMap<String, Certificate>,
    /// What upstreams are reached with, by their names.
    clients: BTreeMap<String, PreparedClient>,
}

/// What new files come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing is another one.
    None,
    /// The new ones are shown from now on.
    Applied,
    /// They ask for another server: the configuration has to be put in force anew.
    Deeper,
}

impl Keyring {
    /// Forgets listeners that are not configured, or not encrypted any more.
    pub(crate) fn retain(&mut self, listeners: &[Listener]) {
        let is_kept = |name: &str| listeners.iter().any(|it| it.name == name && it.tls.is_some());
        self.held.retain(|name, _| is_kept(name));
        self.made.retain(|name, _| is_kept(name));
    }

    /// The encryption of a listener from now on: the server there is, if it still fits, since its
    /// clients have tickets of it.
    pub(crate) fn take(
        &mut self,
        listener: &Listener,
        mut new: PreparedTls,
    ) -> Option<ListenerTls> {
        let tls = listener.tls.as_ref()?;
        if tls.self_signed == SelfSigned::Yes {
            self.keep_made(&listener.name, &mut new);
        }
        let timeout = listener.timeout.handshake;
        let server = match self.held.get_mut(&listener.name) {
            Some(held) if fits(held, &new) => {
                replace(held, new);
                held.server.clone()
            }
            _ => {
                let server = new.server.clone();
                self.held.insert(listener.name.clone(), new);
                server
            }
        };
        let headers = tls.client.as_ref().map(|client| client.headers.clone()).unwrap_or_default();
        let fields = CertificateFields {
            subject: headers.subject,
            names: headers.names,
            fingerprint: headers.fingerprint,
            certificate: headers.certificate,
        };
        Some(ListenerTls { server, timeout, hsts: tls.hsts, fields })
    }

    /// Goes on with the certificate that was made first: whoever has accepted it need not do so again.
    fn keep_made(&mut self, name: &str, new: &mut PreparedTls) {
        let Some(fresh) = new.certificates.pop() else { return };
        let first = self.made.entry(name.to_owned()).or_insert(fresh);
        new.certificates.push(first.clone());
        new.server.replace(&new.certificates);
    }

    /// Takes over what the files of a listener hold now.
    pub(crate) fn refresh(&mut self, listener: &Listener, mut new: PreparedTls) -> Change {
        if listener.tls.as_ref().is_some_and(|tls| tls.self_signed == SelfSigned::Yes) {
            self.keep_made(&listener.name, &mut new);
        }
        match self.held.get_mut(&listener.name) {
            Some(held) if fits(held, &new) => {
                let same = held.certificates == new.certificates;
                replace(held, new);
                if same { Change::None } else { Change::Applied }
            }
            _ => Change::Deeper,
        }
    }

    /// How upstreams are reached from now on; whether that is another way than before. What has not
    /// changed stays, and with it the tickets of servers and the connections that are open.
    pub(crate) fn take_clients(&mut self, clients: Vec<PreparedClient>) -> Change {
        let mut before = std::mem::take(&mut self.clients);
        let mut change = Change::None;
        for new in clients {
            let client = match before.remove(&new.upstream) {
                Some(held) if held.settings == new.settings => held,
                _ => {
                    change = Change::Applied;
                    new
                }
            };
            self.clients.insert(client.upstream.clone(), client);
        }
        change
    }

    /// What an upstream is reached with, if encrypted.
    pub(crate) fn client(&self, upstream: &str) -> Option<&TlsClient> {
        self.clients.get(upstream).map(|it| &it.client)
    }

    /// What clients are shown, with the names of the listeners.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (&str, &Certificate)> {
        self.held.iter().flat_map(|(name, held)| {
            held.certificates.iter().map(move |certificate| (name.as_str(), certificate))
        })
    }

    /// The certificate that was made for a listener.
    pub(crate) fn made(&self, listener: &str) -> Option<&Certificate> {
        self.made.get(listener)
    }
}

fn fits(held: &PreparedTls, new: &PreparedTls) -> bool {
    held.settings == new.settings && held.ticket_keys.is_some() == new.ticket_keys.is_some()
}

fn replace(held: &mut PreparedTls, new: PreparedTls) {
    if held.certificates != new.certificates {
        held.server.replace(&new.certificates);
    }
    if let (Some(held), Some(new)) = (&held.ticket_keys, &new.ticket_keys) {
        held.take_over(new);
    }
    held.certificates = new.certificates;
}
