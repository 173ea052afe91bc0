//! The routes of one host, found by path.

use std::collections::BTreeMap;

use regex::bytes::{Regex, RegexSet, RegexSetBuilder};

use crate::method::MethodSet;
use crate::name::{EXACT, Names};
use crate::path::{PathKey, regex};
use crate::trie::{Goal, List, Token, Trie, narrow, wide};

/// Room for the compiled set of a host's expressions; some ten thousand of the usual kind.
const SET_SIZE: usize = 256 << 20;
/// Room for the states a search of the set may keep.
const SET_CACHE: usize = 32 << 20;

/// The routes of one host.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    exact: Names<List, EXACT>,
    templates: Trie,
    prefixes: Trie,
    /// Routes with the prefix `/`. Apart from the trie, because many tables have no other prefix.
    everything: List,
    regexes: Regexes,
    /// Every [`List`] is a range of it.
    candidates: Box<[Candidate]>,
}

/// A route as the search meets it: what nearly every route asks stands right here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) methods: MethodSet,
    pub(crate) route: u32,
    /// Index of its further conditions, or [`NOTHING_FURTHER`].
    pub(crate) further: u32,
}

/// Marks a route that asks for nothing but host, path and method.
pub(crate) const NOTHING_FURTHER: u32 = u32::MAX;

#[derive(Clone, Debug)]
enum Regexes {
    None,
    /// Cheaper than a set, and searches without allocation.
    One(Regex, Candidate),
    /// The set and the route of each of its expressions, in the order of the configuration.
    Many(RegexSet, Box<[Candidate]>),
}

impl Site {
    /// Offers the routes whose path fits, best first, until `accept` takes one.
    // By force, with what it calls first: as a call it costs the smallest table a fifth more.
    #[inline(always)]
    pub(crate) fn search(
        &self,
        path: &[u8],
        mut accept: impl FnMut(&Candidate) -> bool,
    ) -> Option<u32> {
        if !self.exact.is_empty()
            && let Some(list) = self.exact.find(path)
            && let Some(route) = self.first(list, &mut accept)
        {
            return Some(route);
        }
        if (!self.templates.is_empty() || !self.prefixes.is_empty())
            && let Some(route) = self.search_tries(path, &mut accept)
        {
            return Some(route);
        }
        if let Some(route) = self.first(self.everything, &mut accept) {
            return Some(route);
        }
        match self.regexes {
            Regexes::None => None,
            _ => self.search_regexes(path, accept),
        }
    }

    #[inline]
    fn first(&self, list: List, accept: &mut impl FnMut(&Candidate) -> bool) -> Option<u32> {
        let range = wide(list.start)..wide(list.end);
        let candidates = self.candidates.get(range).unwrap_or_default();
        let found = candidates.iter().find(|candidate| accept(candidate));
        found.map(|candidate| candidate.route)
    }

    /// Apart, so that tables of exact paths need not make room for it on the stack.
    #[inline(never)]
    fn search_tries(
        &self,
        path: &[u8],
        accept: &mut impl FnMut(&Candidate) -> bool,
    ) -> Option<u32> {
        if !self.templates.is_empty()
            && let Some(route) = self.search_templates(path, accept)
        {
            return Some(route);
        }
        let descent = self.prefixes.descend(path)?;
        // `/api` is the start `/api/` without its slash, which is longer than the start `/api`.
        if let Some(route) = self.first(descent.whole(), accept) {
            return Some(route);
        }
        for list in descent.starts() {
            if let Some(route) = self.first(list, accept) {
                return Some(route);
            }
        }
        None
    }

    fn search_templates(
        &self,
        path: &[u8],
        accept: &mut impl FnMut(&Candidate) -> bool,
    ) -> Option<u32> {
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

    #[inline(never)]
    fn search_regexes(
        &self,
        path: &[u8],
        mut accept: impl FnMut(&Candidate) -> bool,
    ) -> Option<u32> {
        match &self.regexes {
            Regexes::None => None,
            Regexes::One(regex, candidate) => {
                (regex.is_match(path) && accept(candidate)).then_some(candidate.route)
            }
            Regexes::Many(set, candidates) => {
                let matches = set.matches(path);
                let mut fitting = matches.iter().filter_map(|at| candidates.get(at));
                fitting.find(|candidate| accept(candidate)).map(|candidate| candidate.route)
            }
        }
    }
}

/// The routes of one host while they are collected.
#[derive(Debug, Default)]
pub(crate) struct SiteBuilder {
    exact: BTreeMap<Vec<u8>, Vec<Candidate>>,
    templates: BTreeMap<Vec<Token>, Vec<Candidate>>,
    prefixes: BTreeMap<Vec<u8>, Prefixed>,
    everything: Vec<Candidate>,
    regexes: Vec<(String, Candidate)>,
}

#[derive(Debug, Default)]
struct Prefixed {
    whole: Vec<Candidate>,
    start: Vec<Candidate>,
}

impl SiteBuilder {
    pub(crate) fn add(&mut self, path: &PathKey, route: Candidate) {
        match path {
            PathKey::Exact(path) => self.exact.entry(path.clone()).or_default().push(route),
            PathKey::Template(path) => self.templates.entry(path.clone()).or_default().push(route),
            PathKey::Prefix(path) if path.is_empty() => self.everything.push(route),
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
        let mut candidates = Vec::new();
        let exact = self.exact.into_iter();
        let exact = exact.map(|(path, routes)| (path, list(&mut candidates, &routes)));
        let exact = Names::new(exact.collect());
        let templates = rank(self.templates, &mut candidates);
        let prefixes = self.prefixes.into_iter().map(|(path, routes)| {
            let whole = list(&mut candidates, &routes.whole);
            let start = list(&mut candidates, &routes.start);
            (path.into_iter().map(Token::Byte).collect(), Goal { whole, start, rank: 0 })
        });
        let prefixes = Trie::build(prefixes.collect());
        Ok(Site {
            exact,
            templates,
            prefixes,
            everything: list(&mut candidates, &self.everything),
            regexes: build_regexes(&self.regexes)?,
            candidates: candidates.into(),
        })
    }
}

fn list(candidates: &mut Vec<Candidate>, routes: &[Candidate]) -> List {
    let start = narrow(candidates.len());
    candidates.extend_from_slice(routes);
    List { start, end: narrow(candidates.len()) }
}

/// More literal segments first; of equally many, the one whose first difference is literal.
fn rank(templates: BTreeMap<Vec<Token>, Vec<Candidate>>, candidates: &mut Vec<Candidate>) -> Trie {
    let mut templates: Vec<_> = templates.into_iter().collect();
    templates.sort_by_cached_key(|(tokens, _)| {
        let segments = tokens.split(|&token| token == Token::Byte(b'/'));
        let parameters: Vec<bool> =
            segments.map(|segment| segment.first() == Some(&Token::Parameter)).collect();
        let literal = parameters.iter().filter(|&&parameter| !parameter).count();
        (std::cmp::Reverse(literal), parameters)
    });
    let ranked = templates.into_iter().enumerate().map(|(rank, (tokens, routes))| {
        let whole = list(candidates, &routes);
        (tokens, Goal { whole, start: List::default(), rank: narrow(rank) })
    });
    Trie::build(ranked.collect())
}

fn build_regexes(regexes: &[(String, Candidate)]) -> Result<Regexes, (u32, String)> {
    match regexes {
        [] => Ok(Regexes::None),
        [(text, candidate)] => match regex(text) {
            Ok(regex) => Ok(Regexes::One(regex, *candidate)),
            Err(message) => Err((candidate.route, message)),
        },
        [.., (_, last)] => {
            let set = RegexSetBuilder::new(regexes.iter().map(|(text, _)| text))
                .unicode(false)
                .size_limit(SET_SIZE)
                .dfa_size_limit(SET_CACHE)
                .build()
                .map_err(|error| (last.route, error.to_string()))?;
            Ok(Regexes::Many(set, regexes.iter().map(|&(_, candidate)| candidate).collect()))
        }
    }
}
