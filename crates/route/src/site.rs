//! The routes of one host, found by path.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;
use regex::bytes::{Regex, RegexSet, RegexSetBuilder};

use crate::path::{PathKey, regex};
use crate::trie::{Goal, List, Token, Trie, narrow, wide};

/// Room for the compiled set of a host's expressions; some ten thousand of the usual kind.
const SET_SIZE: usize = 256 << 20;
/// Room for the states a search of the set may keep.
const SET_CACHE: usize = 32 << 20;

/// The routes of one host.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    exact: HashMap<Box<[u8]>, List, RandomState>,
    templates: Trie,
    prefixes: Trie,
    regexes: Regexes,
    /// Indices of routes; every [`List`] is a range of it.
    order: Box<[u32]>,
}

#[derive(Clone, Debug)]
enum Regexes {
    None,
    /// Cheaper than a set, and searches without allocation.
    One(Regex, u32),
    /// The set and the route of each of its expressions, in the order of the configuration.
    Many(RegexSet, Box<[u32]>),
}

impl Site {
    /// Offers the routes whose path fits, best first, until `accept` takes one.
    #[inline]
    pub(crate) fn search(&self, path: &[u8], mut accept: impl FnMut(u32) -> bool) -> Option<u32> {
        if !self.exact.is_empty()
            && let Some(&list) = self.exact.get(path)
            && let Some(route) = self.first(list, &mut accept)
        {
            return Some(route);
        }
        if !self.templates.is_empty()
            && let Some(route) = self.search_templates(path, &mut accept)
        {
            return Some(route);
        }
        if let Some(descent) = self.prefixes.descend(path) {
            // `/api` is the start `/api/` without its slash, which is longer than the start `/api`.
            if let Some(route) = self.first(descent.whole(), &mut accept) {
                return Some(route);
            }
            for list in descent.starts() {
                if let Some(route) = self.first(list, &mut accept) {
                    return Some(route);
                }
            }
        }
        self.search_regexes(path, accept)
    }

    #[inline]
    fn first(&self, list: List, accept: &mut impl FnMut(u32) -> bool) -> Option<u32> {
        let routes = self.order.get(wide(list.start)..wide(list.end)).unwrap_or_default();
        routes.iter().copied().find(|&route| accept(route))
    }

    fn search_templates(&self, path: &[u8], accept: &mut impl FnMut(u32) -> bool) -> Option<u32> {
        let mut floor = 0;
        // Nearly always the first template takes the request; searching again for the next one is
        // what spares us a list of all that fit.
        while let Some(goal) = self.templates.best(path, floor) {
            if let Some(route) = self.first(goal.whole, accept) {
                return Some(route);
            }
            floor = goal.rank + 1;
        }
        None
    }

    #[inline]
    fn search_regexes(&self, path: &[u8], mut accept: impl FnMut(u32) -> bool) -> Option<u32> {
        match &self.regexes {
            Regexes::None => None,
            Regexes::One(regex, route) => {
                (regex.is_match(path) && accept(*route)).then_some(*route)
            }
            Regexes::Many(set, routes) => {
                let matches = set.matches(path);
                let mut fitting = matches.iter().filter_map(|at| routes.get(at).copied());
                fitting.find(|&route| accept(route))
            }
        }
    }
}

/// The routes of one host while they are collected.
#[derive(Debug, Default)]
pub(crate) struct SiteBuilder {
    exact: BTreeMap<Vec<u8>, Vec<u32>>,
    templates: BTreeMap<Vec<Token>, Vec<u32>>,
    prefixes: BTreeMap<Vec<u8>, Prefixed>,
    regexes: Vec<(String, u32)>,
}

#[derive(Debug, Default)]
struct Prefixed {
    whole: Vec<u32>,
    start: Vec<u32>,
}

impl SiteBuilder {
    pub(crate) fn add(&mut self, path: &PathKey, route: u32) {
        match path {
            PathKey::Exact(path) => self.exact.entry(path.clone()).or_default().push(route),
            PathKey::Template(path) => self.templates.entry(path.clone()).or_default().push(route),
            PathKey::Prefix(path) => {
                if let Some(bare) = path.strip_suffix(b"/") {
                    self.prefixes.entry(bare.to_vec()).or_default().whole.push(route);
                }
                self.prefixes.entry(path.clone()).or_default().start.push(route);
            }
            PathKey::Regex(text) => self.regexes.push((text.clone(), route)),
        }
    }

    /// The finished site, or the route at fault and why.
    pub(crate) fn build(self) -> Result<Site, (u32, String)> {
        let mut order = Vec::new();
        let exact = self.exact.into_iter();
        let exact = exact.map(|(path, routes)| (path.into(), list(&mut order, &routes))).collect();
        let templates = rank(self.templates, &mut order);
        let prefixes = self.prefixes.into_iter().map(|(path, routes)| {
            let whole = list(&mut order, &routes.whole);
            let start = list(&mut order, &routes.start);
            (path.into_iter().map(Token::Byte).collect(), Goal { whole, start, rank: 0 })
        });
        let prefixes = Trie::build(prefixes.collect());
        Ok(Site {
            exact,
            templates,
            prefixes,
            regexes: build_regexes(&self.regexes)?,
            order: order.into(),
        })
    }
}

fn list(order: &mut Vec<u32>, routes: &[u32]) -> List {
    let start = narrow(order.len());
    order.extend_from_slice(routes);
    List { start, end: narrow(order.len()) }
}

/// More literal segments first; of equally many, the one whose first difference is literal.
fn rank(templates: BTreeMap<Vec<Token>, Vec<u32>>, order: &mut Vec<u32>) -> Trie {
    let mut templates: Vec<_> = templates.into_iter().collect();
    templates.sort_by_cached_key(|(tokens, _)| {
        let segments = tokens.split(|&token| token == Token::Byte(b'/'));
        let parameters: Vec<bool> =
            segments.map(|segment| segment.first() == Some(&Token::Parameter)).collect();
        let literal = parameters.iter().filter(|&&parameter| !parameter).count();
        (std::cmp::Reverse(literal), parameters)
    });
    let ranked = templates.into_iter().enumerate().map(|(rank, (tokens, routes))| {
        let whole = list(order, &routes);
        (tokens, Goal { whole, start: List::default(), rank: narrow(rank) })
    });
    Trie::build(ranked.collect())
}

fn build_regexes(regexes: &[(String, u32)]) -> Result<Regexes, (u32, String)> {
    match regexes {
        [] => Ok(Regexes::None),
        [(text, route)] => match regex(text) {
            Ok(regex) => Ok(Regexes::One(regex, *route)),
            Err(message) => Err((*route, message)),
        },
        [.., (_, last)] => {
            let set = RegexSetBuilder::new(regexes.iter().map(|(text, _)| text))
                .unicode(false)
                .size_limit(SET_SIZE)
                .dfa_size_limit(SET_CACHE)
                .build()
                .map_err(|error| (*last, error.to_string()))?;
            Ok(Regexes::Many(set, regexes.iter().map(|&(_, route)| route).collect()))
        }
    }
}
