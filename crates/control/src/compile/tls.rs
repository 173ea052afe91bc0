//! Certificates and terms of encrypted listeners, read from their files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluice_model::{
    Address, CertificateFiles, ClientCertificates as ModelClients, ClientMode, Listener,
    ListenerTls, Model, Older, Protocol, SelfSigned, TlsTerms, UpstreamTls, Verify,
};
use sluice_net::files;
use sluice_net::tls::{
    Certificate, ClientCertificates, ClientSettings, Reuse, ServerSettings, Terms, TicketKeys,
    TlsClient, TlsServer, Trust, Version, has_certificate,
};

use super::listener_element;
use crate::flaw::{Flaw, plain};

/// The largest file that is read: a chain of certificates is a few KiB.
const LARGEST: usize = 4 << 20;

/// What an encrypted listener needs, known to work.
#[derive(Debug)]
pub(crate) struct PreparedTls {
    pub(crate) server: TlsServer,
    /// What the server was made of, its ticket keys excepted.
    pub(crate) settings: (Terms, ClientCertificates),
    pub(crate) certificates: Vec<Certificate>,
    pub(crate) ticket_keys: Option<Arc<TicketKeys>>,
}

/// The listeners' encryption, in the order of the model; nothing for those without.
pub(crate) fn prepare_tls(model: &Model, flaws: &mut Vec<Flaw>) -> Vec<Option<PreparedTls>> {
    let prepare = |listener: &Listener| {
        let tls = listener.tls.as_ref()?;
        match prepare_one(listener, tls) {
            Ok(prepared) => Some(prepared),
            Err((message, help)) => {
                let flaw = Flaw::new(listener_element(&listener.name), message);
                flaws.push(match help {
                    Some(help) => flaw.with_help(help),
                    None => flaw,
                });
                None
            }
        }
    };
    model.listeners.iter().map(prepare).collect()
}

/// What is wrong, and the way out where one is known.
type Complaint = (String, Option<&'static str>);

fn prepare_one(listener: &Listener, tls: &ListenerTls) -> Result<PreparedTls, Complaint> {
    let mut certificates = Vec::new();
    for files in &tls.certificates {
        certificates.push(read_certificate(files)?);
    }
    if let Some(folder) = &tls.folder {
        for files in of_folder(folder)? {
            certificates.push(read_certificate(&files)?);
        }
    }
    if tls.self_signed == SelfSigned::Yes {
        let names = own_names(&listener.address);
        certificates.push(Certificate::self_signed(&names).map_err(|it| (it, None))?);
    }
    if certificates.is_empty() {
        let folder = tls.folder.as_deref().unwrap_or(Path::new("")).display();
        let message = format!("tls: there is no certificate in the folder {folder}");
        return Err((message, Some("certificates are files that end in .pem or .crt")));
    }
    let offer: &[&[u8]] = match listener.http2.map(|http2| http2.older) {
        // What scripts speak has no name here.
        _ if listener.lua.is_some() => &[],
        Some(Older::Spoken) => &[b"h2", b"http/1.1"],
        Some(Older::Refused) => &[b"h2"],
        None => &[b"http/1.1"],
    };
    let terms = terms(&tls.terms, offer);
    let clients = tls.client.as_ref().map_or(Ok(ClientCertificates::Unasked), read_clients)?;
    let ticket_keys = tls.ticket_keys.as_deref().map(read_ticket_keys).transpose()?;
    let settings = ServerSettings {
        terms: terms.clone(),
        clients: clients.clone(),
        ticket_keys: ticket_keys.clone(),
    };
    let server =
        TlsServer::new(&settings, &certificates).map_err(|it| (format!("tls: {it}"), None))?;
    Ok(PreparedTls { server, settings: (terms, clients), certificates, ticket_keys })
}

/// What the servers of an upstream are reached with, known to work.
#[derive(Debug)]
pub(crate) struct PreparedClient {
    pub(crate) upstream: String,
    pub(crate) settings: ClientSettings,
    pub(crate) client: TlsClient,
}

/// A name nobody has: connections are for the name of each server.
const NOBODY: &str = "server.invalid";

/// The upstreams that are reached encrypted.
pub(crate) fn prepare_clients(model: &Model, flaws: &mut Vec<Flaw>) -> Vec<PreparedClient> {
    let mut list = Vec::new();
    for upstream in &model.upstreams {
        let Some(tls) = &upstream.tls else { continue };
        let prepared = client_settings(tls, upstream.protocol).and_then(|settings| {
            let client =
                TlsClient::new(NOBODY, &settings).map_err(|it| (format!("tls: {it}"), None))?;
            let upstream = upstream.name.clone();
            Ok(PreparedClient { upstream, settings, client })
        });
        match prepared {
            Ok(prepared) => list.push(prepared),
            Err((message, _)) => {
                flaws.push(Flaw::new(format!("upstream \"{}\"", upstream.name), message));
            }
        }
    }
    list
}

fn client_settings(tls: &UpstreamTls, protocol: Protocol) -> Result<ClientSettings, Complaint> {
    let trust = match (tls.verify, &tls.ca) {
        (Verify::None, _) => Trust::Anything,
        (Verify::Full, None) => Trust::System,
        (Verify::Full, Some(ca)) => Trust::pem(read_file(ca)?)
            .map_err(|why| (format!("tls: {}: {why}", ca.display()), None))?,
    };
    let certificate = match &tls.certificate {
        None => None,
        Some((cert, key)) => Some(read_certificate(&CertificateFiles {
            cert: cert.clone(),
            key: key.clone(),
            ocsp: None,
        })?),
    };
    let offer: &[&[u8]] = match protocol {
        Protocol::Http1 => &[b"http/1.1"],
        Protocol::Http2 => &[b"h2"],
        Protocol::Negotiated => &[b"h2", b"http/1.1"],
    };
    Ok(ClientSettings {
        trust,
        terms: terms(&tls.terms, offer),
        certificate,
        resumption: Reuse::Tickets,
    })
}

/// `protocols` is what may be spoken, the better first.
fn terms(terms: &TlsTerms, protocols: &[&[u8]]) -> Terms {
    Terms {
        versions: terms.versions.iter().filter_map(|name| Version::named(name)).collect(),
        suites: terms.suites.clone(),
        groups: terms.groups.clone(),
        protocols: protocols.iter().map(|name| name.to_vec()).collect(),
    }
}

/// The names somebody who tries it out will use.
fn own_names(address: &Address) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    if let Address::Tcp(address) = address
        && !address.ip().is_unspecified()
        && !names.contains(&address.ip().to_string())
    {
        names.push(address.ip().to_string());
    }
    names
}

fn read_file(path: &Path) -> Result<Vec<u8>, Complaint> {
    let bytes = files::read_small(path, LARGEST).map_err(|error| {
        let message = format!("tls: cannot read {}: {}", path.display(), plain(&error));
        (message, None)
    })?;
    bytes.ok_or_else(|| {
        let message = format!("tls: {} is larger than {} MiB", path.display(), LARGEST >> 20);
        (message, Some("certificates and keys are files of a few KiB"))
    })
}

fn read_certificate(files: &CertificateFiles) -> Result<Certificate, Complaint> {
    let (chain, key) = (read_file(&files.cert)?, read_file(&files.key)?);
    let certificate = Certificate::from_pem(&chain, &key).map_err(|why| {
        let (cert, key) = (files.cert.display(), files.key.display());
        let place =
            if files.cert == files.key { format!("{cert}") } else { format!("{cert} with {key}") };
        (format!("tls: {place}: {why}"), None)
    })?;
    match &files.ocsp {
        None => Ok(certificate),
        Some(ocsp) => Ok(certificate.with_staple(read_file(ocsp)?)),
    }
}

fn read_clients(client: &ModelClients) -> Result<ClientCertificates, Complaint> {
    let issuers = read_file(&client.ca)?;
    Ok(match client.mode {
        ClientMode::Optional => ClientCertificates::Optional(issuers),
        ClientMode::Required => ClientCertificates::Required(issuers),
    })
}

fn read_ticket_keys(path: &Path) -> Result<Arc<TicketKeys>, Complaint> {
    let text = String::from_utf8(read_file(path)?).unwrap_or_default();
    let keys = TicketKeys::parse(&text);
    keys.map(Arc::new).map_err(|why| (format!("tls: {}: {why}", path.display()), None))
}

/// The certificates of a folder, by the names of their files.
fn of_folder(folder: &Path) -> Result<Vec<CertificateFiles>, Complaint> {
    let entries = files::entries(folder).map_err(|error| {
        let message =
            format!("tls: cannot read the folder {}: {}", folder.display(), plain(&error));
        (message, None)
    })?;
    let ends = |path: &Path, endings: &[&str]| {
        path.extension().is_some_and(|it| endings.iter().any(|ending| it == *ending))
    };
    let mut found = Vec::new();
    for cert in entries.iter().filter(|path| ends(path, &["pem", "crt"])) {
        // A key alone may end in .pem as well (privkey.pem).
        if !has_certificate(&read_file(cert)?) {
            continue;
        }
        let beside = |ending: &str| {
            let path = cert.with_extension(ending);
            entries.contains(&path).then_some(path)
        };
        let (key, ocsp) = (beside("key"), beside("ocsp"));
        found.push(CertificateFiles {
            key: key.unwrap_or_else(|| cert.clone()),
            cert: cert.clone(),
            ocsp,
        });
    }
    Ok(found)
}

/// The files that encrypted listeners name, and what has to be watched to see those of folders come
/// and go.
pub(crate) fn tls_paths(model: &Model) -> BTreeSet<PathBuf> {
    let mut paths = BTreeSet::new();
    for tls in model.listeners.iter().filter_map(|listener| listener.tls.as_ref()) {
        for files in &tls.certificates {
            paths.extend([files.cert.clone(), files.key.clone()]);
            paths.extend(files.ocsp.clone());
        }
        paths.extend(tls.client.as_ref().map(|client| client.ca.clone()));
        paths.extend(tls.ticket_keys.clone());
        if let Some(folder) = &tls.folder {
            paths.extend(files::entries(folder).unwrap_or_default());
            // The folder itself, and a file that is never there: for its sake the folder is watched.
            paths.extend([folder.clone(), folder.join("*")]);
        }
    }
    for tls in model.upstreams.iter().filter_map(|upstream| upstream.tls.as_ref()) {
        paths.extend(tls.ca.clone());
        paths.extend(tls.certificate.iter().flat_map(|(cert, key)| [cert.clone(), key.clone()]));
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_the_model_takes_is_known_to_the_library() {
        let suites: BTreeSet<&str> = sluice_net::tls::suites().collect();
        assert_eq!(suites, BTreeSet::from(sluice_model::TLS_SUITES));
        let groups: BTreeSet<&str> = sluice_net::tls::groups().collect();
        assert_eq!(groups, BTreeSet::from(sluice_model::TLS_GROUPS));
        assert!(sluice_model::TLS_VERSIONS.iter().all(|name| Version::named(name).is_some()));
    }

    #[test]
    fn a_certificate_of_its_own_is_for_where_it_listens() {
        let names = |address: &str| own_names(&Address::Tcp(address.parse().unwrap()));
        assert_eq!(names("0.0.0.0:443"), ["localhost", "127.0.0.1", "::1"]);
        assert_eq!(names("127.0.0.1:443").len(), 3);
        assert_eq!(names("10.0.0.7:443").last().unwrap(), "10.0.0.7");
    }
}
