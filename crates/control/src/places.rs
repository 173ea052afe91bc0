//! What the address of a server stands for at the moment.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::SocketAddr;

use sluice_model::{ServerAddress, Upstream};
use sluice_net::Endpoint;
use sluice_net::resolve::{Found, Question};
use sluice_upstream::Role;

use crate::names::Names;

/// One place an address stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) endpoint: Endpoint,
    /// Its share among the places of the address; a factor of the weight that is written there.
    pub(crate) weight: u32,
    pub(crate) role: Role,
}

/// The places of an address; none if nothing is known.
pub(crate) type Places<'a> = &'a dyn Fn(&ServerAddress) -> Vec<Place>;

/// The places of an address, as far as its name is known.
pub(crate) fn places(address: &ServerAddress, names: &Names) -> Vec<Place> {
    let place = |endpoint| Place { endpoint, weight: 1, role: Role::Primary };
    match address {
        ServerAddress::Ip(address) => vec![place(Endpoint::Tcp(*address))],
        ServerAddress::Unix(path) => vec![place(Endpoint::Unix(path.clone()))],
        ServerAddress::Name { host, port } => {
            let found = names.found(&Question::Host(host.clone())).iter();
            found.map(|it| place(Endpoint::Tcp(SocketAddr::new(it.address, *port)))).collect()
        }
        // Its servers stand in its place before anybody asks.
        ServerAddress::File(_) => Vec::new(),
        ServerAddress::Service(name) => service(names.found(&Question::Service(name.clone()))),
    }
}

/// The servers of a service. Those of the lowest priority number are asked, the others are backups.
fn service(found: &[Found]) -> Vec<Place> {
    let first = found.iter().map(|it| it.priority).min();
    let place = |it: &Found| {
        let group = found.iter().filter(|other| other.priority == it.priority);
        Some(Place {
            endpoint: Endpoint::Tcp(SocketAddr::new(it.address, it.port?)),
            weight: scale(group.map(|it| it.weight)).weight(it.weight),
            role: if Some(it.priority) == first { Role::Primary } else { Role::Backup },
        })
    };
    found.iter().filter_map(place).collect()
}

/// What weights of SRV records come to.
enum Scale {
    /// "When there isn't any server selection to do" all are 0, which makes them equal.
    Equal,
    AsTheyAre,
    /// Beside others, 0 is "a very small chance of being selected" (RFC 2782).
    Stretched,
}

fn scale(weights: impl Iterator<Item = u16> + Clone) -> Scale {
    let zero = weights.clone().any(|weight| weight == 0);
    match zero {
        false => Scale::AsTheyAre,
        true if weights.clone().all(|weight| weight == 0) => Scale::Equal,
        true => Scale::Stretched,
    }
}

impl Scale {
    fn weight(&self, weight: u16) -> u32 {
        match self {
            Self::Equal => 1,
            Self::AsTheyAre => u32::from(weight),
            Self::Stretched => (u32::from(weight) * 100).max(1),
        }
    }
}

/// The questions to name servers that upstreams bring with them.
pub(crate) fn questions(upstreams: &[Cow<'_, Upstream>]) -> BTreeSet<Question> {
    let servers = upstreams.iter().flat_map(|upstream| &upstream.servers);
    servers
        .filter_map(|server| match &server.address {
            ServerAddress::Name { host, .. } => Some(Question::Host(host.clone())),
            ServerAddress::Service(name) => Some(Question::Service(name.clone())),
            ServerAddress::Ip(_) | ServerAddress::Unix(_) | ServerAddress::File(_) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(priority: u16, weight: u16, port: u16) -> Found {
        Found { priority, address: [10, 0, 0, 1].into(), port: Some(port), weight }
    }

    #[test]
    fn the_lowest_priority_is_used_and_weights_mean_what_they_should() {
        use Role::{Backup, Primary};
        type Row<'a> = (&'a [Found], &'a [(u16, u32, Role)]);
        let rows: [Row<'_>; 5] = [
            (&[], &[]),
            (&[found(10, 5, 1), found(10, 3, 2)], &[(1, 5, Primary), (2, 3, Primary)]),
            (
                &[found(20, 0, 1), found(10, 3, 2), found(10, 7, 3)],
                &[(1, 1, Backup), (2, 3, Primary), (3, 7, Primary)],
            ),
            (&[found(0, 0, 1), found(0, 0, 2)], &[(1, 1, Primary), (2, 1, Primary)]),
            (&[found(0, 0, 1), found(0, 3, 2)], &[(1, 1, Primary), (2, 300, Primary)]),
        ];
        for (list, expected) in rows {
            let got = service(list);
            let got: Vec<(String, u32, Role)> =
                got.into_iter().map(|it| (it.endpoint.to_string(), it.weight, it.role)).collect();
            let shown = |(port, weight, role): &(u16, u32, Role)| {
                (format!("10.0.0.1:{port}"), *weight, *role)
            };
            let expected: Vec<(String, u32, Role)> = expected.iter().map(shown).collect();
            assert_eq!(got, expected, "{list:?}");
        }
    }
}
