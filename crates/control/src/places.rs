//! What the address of a server stands for at the moment.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use sluice_model::{Model, ServerAddress};
use sluice_net::Endpoint;
use sluice_net::resolve::{Found, Question};

use crate::names::Names;

/// One place an address stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) endpoint: Endpoint,
    /// Its share among the places of the address; a factor of the weight that is written there.
    pub(crate) weight: u32,
}

/// The places of an address; none if nothing is known.
pub(crate) type Places<'a> = &'a dyn Fn(&ServerAddress) -> Vec<Place>;

/// The places of an address, as far as its name is known.
pub(crate) fn places(address: &ServerAddress, names: &Names) -> Vec<Place> {
    let place = |endpoint| Place { endpoint, weight: 1 };
    match address {
        ServerAddress::Ip(address) => vec![place(Endpoint::Tcp(*address))],
        ServerAddress::Unix(path) => vec![place(Endpoint::Unix(path.clone()))],
        ServerAddress::Name { host, port } => {
            let found = names.found(&Question::Host(host.clone())).iter();
            found.map(|it| place(Endpoint::Tcp(SocketAddr::new(it.address, *port)))).collect()
        }
        ServerAddress::Service(name) => service(names.found(&Question::Service(name.clone()))),
    }
}

/// The servers of a service that are to be used first.
fn service(found: &[Found]) -> Vec<Place> {
    let first = found.iter().map(|it| it.priority).min();
    let group = found.iter().filter(|it| Some(it.priority) == first);
    let group: Vec<(&Found, u16)> = group.filter_map(|it| it.port.map(|port| (it, port))).collect();
    let scale = scale(group.iter().map(|(it, _)| it.weight));
    let place = |(it, port): (&Found, u16)| Place {
        endpoint: Endpoint::Tcp(SocketAddr::new(it.address, port)),
        weight: scale.weight(it.weight),
    };
    group.into_iter().map(place).collect()
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

/// The questions to name servers that a configuration brings with it.
pub(crate) fn questions(model: &Model) -> BTreeSet<Question> {
    let servers = model.upstreams.iter().flat_map(|upstream| &upstream.servers);
    servers
        .filter_map(|server| match &server.address {
            ServerAddress::Name { host, .. } => Some(Question::Host(host.clone())),
            ServerAddress::Service(name) => Some(Question::Service(name.clone())),
            ServerAddress::Ip(_) | ServerAddress::Unix(_) => None,
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
        type Row<'a> = (&'a [Found], &'a [(u16, u32)]);
        let rows: [Row<'_>; 5] = [
            (&[], &[]),
            (&[found(10, 5, 1), found(10, 3, 2)], &[(1, 5), (2, 3)]),
            (&[found(20, 5, 1), found(10, 3, 2), found(10, 7, 3)], &[(2, 3), (3, 7)]),
            (&[found(0, 0, 1), found(0, 0, 2)], &[(1, 1), (2, 1)]),
            (&[found(0, 0, 1), found(0, 3, 2)], &[(1, 1), (2, 300)]),
        ];
        for (list, expected) in rows {
            let got: Vec<(String, u32)> =
                service(list).into_iter().map(|it| (it.endpoint.to_string(), it.weight)).collect();
            let expected: Vec<(String, u32)> = expected
                .iter()
                .map(|(port, weight)| (format!("10.0.0.1:{port}"), *weight))
                .collect();
            assert_eq!(got, expected, "{list:?}");
        }
    }
}
