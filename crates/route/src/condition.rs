//! What a route asks beyond host and path.

use std::net::IpAddr;

use ipnet::IpNet;
use regex::bytes::Regex;
use sluice_message::pair::{cookie_pairs, decoded, is_encoded, query_pairs, unquoted};
use sluice_message::{AddressRanges, FieldId, RequestHead};

use crate::method::is_token;
use crate::path::regex;
use crate::spec::{RouteSpec, ValueSpec};

/// A name and what its value must be.
type Named = (Box<[u8]>, ValueTest);

/// What a route asks beyond host, path and method; few routes do.
#[derive(Clone, Debug)]
pub(crate) struct Further {
    headers: Box<[Named]>,
    queries: Box<[Named]>,
    cookies: Box<[Named]>,
    clients: Option<AddressRanges>,
}

#[derive(Clone, Debug)]
enum ValueTest {
    Exact(Box<[u8]>),
    Regex(Regex),
    Present,
}

impl Further {
    /// The further conditions of a route if it has any.
    pub(crate) fn compile(spec: &RouteSpec) -> Result<Option<Self>, String> {
        for (name, _) in &spec.headers {
            if !is_token(name.as_bytes()) {
                return Err(format!("'{name}' is no header name"));
            }
        }
        let bare = spec.headers.is_empty()
            && spec.queries.is_empty()
            && spec.cookies.is_empty()
            && spec.clients.is_empty();
        if bare {
            return Ok(None);
        }
        Ok(Some(Self {
            headers: tests(&spec.headers)?,
            queries: tests(&spec.queries)?,
            cookies: tests(&spec.cookies)?,
            clients: (!spec.clients.is_empty()).then(|| addresses(&spec.clients)),
        }))
    }

    /// Whether all of them hold.
    pub(crate) fn hold(&self, head: &RequestHead, client: IpAddr) -> bool {
        self.clients.as_ref().is_none_or(|clients| clients.contain(client))
            && self.headers.iter().all(|(name, test)| header_holds(head, name, test))
            && self.queries.iter().all(|(name, test)| query_holds(head.query(), name, test))
            && self.cookies.iter().all(|(name, test)| cookie_holds(head, name, test))
    }
}

fn addresses(networks: &[IpNet]) -> AddressRanges {
    AddressRanges::of(networks.iter().map(|network| (network.network(), network.broadcast())))
}

fn tests(specs: &[(String, ValueSpec)]) -> Result<Box<[Named]>, String> {
    specs
        .iter()
        .map(|(name, value)| {
            let test = match value {
                ValueSpec::Exact(text) => ValueTest::Exact(text.as_bytes().into()),
                ValueSpec::Regex(text) => ValueTest::Regex(regex(text)?),
                ValueSpec::Present => ValueTest::Present,
            };
            Ok((name.as_bytes().into(), test))
        })
        .collect()
}

/// One line of the field is enough: a client may repeat a field.
fn header_holds(head: &RequestHead, name: &[u8], test: &ValueTest) -> bool {
    head.fields.values_of(name).any(|value| test.holds(value))
}

fn query_holds(query: &[u8], name: &[u8], test: &ValueTest) -> bool {
    query_pairs(query)
        .filter(|(have, _)| decoded(have).eq(name.iter().copied()))
        .any(|(_, value)| test.holds_decoded(value))
}

fn cookie_holds(head: &RequestHead, name: &[u8], test: &ValueTest) -> bool {
    head.fields
        .values(FieldId::Cookie)
        .flat_map(cookie_pairs)
        .filter(|(have, _)| *have == name)
        .any(|(_, value)| test.holds(value) || test.holds(unquoted(value)))
}

impl ValueTest {
    fn holds(&self, value: &[u8]) -> bool {
        match self {
            Self::Exact(expected) => **expected == *value,
            Self::Regex(regex) => regex.is_match(value),
            Self::Present => true,
        }
    }

    fn holds_decoded(&self, value: &[u8]) -> bool {
        if !is_encoded(value) {
            return self.holds(value);
        }
        match self {
            Self::Exact(expected) => decoded(value).eq(expected.iter().copied()),
            Self::Regex(regex) => regex.is_match(&decoded(value).collect::<Vec<_>>()),
            Self::Present => true,
        }
    }
}
