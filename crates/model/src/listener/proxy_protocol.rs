//! Headers of the PROXY protocol on a listener.

use std::time::Duration;

use ipnet::IpNet;

use crate::address::parse_network;
use crate::fields::Fields;
use crate::problem::Flaw;
use crate::section::{Key, Kind, MOMENT, Preset, Section, YEAR};

/// Who says in front of a connection for whom it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyProtocol {
    /// Peers that have to; nobody else may.
    pub from: Vec<IpNet>,
    /// How long they may take.
    pub timeout: Duration,
}

pub(super) static PROXY_PROTOCOL: Section = Section {
    name: "listener.proxy_protocol",
    doc: "Headers of the PROXY protocol, versions 1 and 2, by which a load balancer in front says \
          whose connection it passes on.",
    keys: &[
        Key {
            name: "from",
            kind: Kind::Texts("network"),
            preset: Preset::Required,
            doc: "Networks or addresses of the load balancers. Each connection of theirs has to \
                  begin with a header, no connection of anybody else may: it is never guessed. \
                  Clients of Unix-domain sockets count as 127.0.0.1.",
        },
        Key {
            name: "timeout",
            kind: Kind::Duration { min: MOMENT, max: YEAR },
            preset: Preset::Value("5s"),
            doc: "How long the header may take, counted from the moment the connection was opened.",
        },
    ],
};

/// `None` if no headers are expected.
pub(super) fn read_proxy_protocol(fields: &Fields<'_, '_>) -> Option<ProxyProtocol> {
    fields.entry("proxy_protocol")?;
    let fields = fields.table("proxy_protocol");
    let from = fields.list("from", parse_network);
    if let Some(entry) = fields.entry("from")
        && fields.phrases("from").is_empty()
    {
        let flaw = Flaw::new("nobody is to send a header").with_help(
            "name the load balancers: from = [\"10.0.0.0/8\"], or leave proxy_protocol out",
        );
        fields.report.error(entry.span, flaw);
    }
    Some(ProxyProtocol { from, timeout: fields.duration("timeout") })
}
