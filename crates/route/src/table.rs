//! The table a request head is looked up in.

use std::net::IpAddr;

use sluice_message::RequestHead;

use crate::condition::Further;
use crate::host::{Hosts, host_of};
use crate::method::{Allow, MethodNames, MethodSet};
use crate::site::{Candidate, NOTHING_FURTHER, Site};
use crate::trie::wide;

/// Compiled routes. A clone has caches of its own for the regular expressions: one for each worker
/// keeps workers from waiting for each other in tables that have some.
#[derive(Clone, Debug)]
pub struct Table {
    pub(crate) hosts: Hosts,
    pub(crate) sites: Vec<Site>,
    /// Routes for any host.
    pub(crate) any: Site,
    pub(crate) further: Vec<Further>,
    pub(crate) methods: MethodNames,
}

/// What the table has for a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Match<'t> {
    /// The route with this index among those the table was built from.
    Found(usize),
    /// Routes fit but for the method: 405 with these in `Allow` (RFC 9110, 15.5.6).
    MethodNotAllowed(Allow<'t>),
    /// No route fits: 404.
    None,
}

impl Table {
    /// The route for a request from `client`. Allocates nothing unless the table has regular
    /// expressions.
    #[must_use]
    pub fn find(&self, head: &RequestHead, client: IpAddr) -> Match<'_> {
        let mut search = Search {
            table: self,
            head,
            client: &client,
            method: self.methods.of(head),
            refused: MethodSet::NONE,
        };
        let named = if self.hosts.is_empty() { None } else { search.by_host() };
        let found = named.or_else(|| search.within(&self.any));
        match found {
            Some(route) => Match::Found(wide(route)),
            None if search.refused.is_empty() => Match::None,
            None => Match::MethodNotAllowed(Allow::new(search.refused, &self.methods)),
        }
    }
}

struct Search<'t, 'h> {
    table: &'t Table,
    head: &'h RequestHead,
    client: &'h IpAddr,
    method: MethodSet,
    /// Methods of the routes that fit but for the method.
    refused: MethodSet,
}

impl Search<'_, '_> {
    #[inline]
    fn by_host(&mut self) -> Option<u32> {
        let table = self.table;
        let host = host_of(self.head);
        if let Some(site) = table.hosts.exact(host)
            && let Some(route) = self.at(site)
        {
            return Some(route);
        }
        if table.hosts.may_be_below(host) { self.by_wildcard(host) } else { None }
    }

    #[inline(never)]
    fn by_wildcard(&mut self, host: &[u8]) -> Option<u32> {
        self.table.hosts.wildcards(host).find_map(|site| self.at(site))
    }

    #[inline(never)]
    fn at(&mut self, site: u32) -> Option<u32> {
        self.within(self.table.sites.get(wide(site))?)
    }

    #[inline(always)]
    fn within(&mut self, site: &Site) -> Option<u32> {
        site.search(self.head.path(), |candidate| {
            let allowed = candidate.methods.meets(self.method);
            if allowed && candidate.further == NOTHING_FURTHER {
                return true;
            }
            self.judge(candidate)
        })
    }

    /// A candidate that asks for more than host and path, or refuses the method.
    #[inline(never)]
    fn judge(&mut self, candidate: &Candidate) -> bool {
        let further = self.table.further.get(wide(candidate.further));
        if further.is_some_and(|further| !further.hold(self.head, *self.client)) {
            return false;
        }
        let allowed = candidate.methods.meets(self.method);
        if !allowed {
            self.refused = self.refused.with(candidate.methods);
        }
        allowed
    }
}
